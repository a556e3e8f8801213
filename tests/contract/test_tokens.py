"""API tokens: shown once, kept as hashes, known while they live."""

import asyncio
import re
import shutil
from pathlib import Path

import apsw
import pytest

import rota
from rota.model.access import OWN_ACTORS, everyone
from rota.model.errors import Forbidden, InvalidInput, NotFound, Unauthenticated
from rota.queue import Ledger, tokens
from rota.storage.port import Store
from rota.storage.sqlite import SqliteStore
from rota.testing.clock import ManualClock
from tests.contract.conftest import Sql


async def test_a_secret_is_shown_once_and_not_stored(ledger: Ledger, store: Store) -> None:
    token, secret = await ledger.tokens.create("ci", ["read", "work", "read"])
    assert secret.startswith("rota_")
    assert len(secret) > 40
    assert token.scopes == ("read", "work")
    assert await ledger.tokens.list() == [token]
    assert secret not in repr(await store.read(lambda tx: tx.list_tokens()))
    assert await store.read(lambda tx: tx.find_token(secret)) is None


async def test_a_secret_brings_its_scopes(ledger: Ledger) -> None:
    _, reader = await ledger.tokens.create("reader", ["read"])
    _, agent = await ledger.tokens.create("agent", ["agent:ada"])
    _, admin = await ledger.tokens.create("admin", ["admin"])
    caller = await ledger.tokens.caller(reader)
    assert (caller.name, caller.scopes) == ("reader", {"read"})
    with pytest.raises(Forbidden):
        caller.demand("work")
    caller = await ledger.tokens.caller(agent)
    caller.demand("work")
    caller.demand_agent("ada")
    for other in ("bob", None):
        with pytest.raises(Forbidden):
            caller.demand_agent(other)
    caller = await ledger.tokens.caller(admin)
    assert caller.scopes == {"read", "work", "dispatch", "admin"}
    caller.demand_agent("bob")


async def test_beside_a_wider_scope_that_of_an_agent_narrows_nothing(ledger: Ledger) -> None:
    for wide in ("work", "dispatch", "admin"):
        _, secret = await ledger.tokens.create("both", [wide, "agent:ada"])
        (await ledger.tokens.caller(secret)).demand_agent("bob")
    _, narrow = await ledger.tokens.create("reader", ["read", "agent:ada"])
    with pytest.raises(Forbidden):
        (await ledger.tokens.caller(narrow)).demand_agent("bob")


@pytest.mark.parametrize("name", [*sorted(OWN_ACTORS), "Local", " queue ", "signal:x"])
async def test_a_token_is_not_called_what_rota_calls_itself(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidInput, match="in the log; take another"):
        await ledger.tokens.create(name, ["read"])
    await ledger.tokens.create(f"{name} of ops".replace(":", " "), ["read"])


def test_the_actors_that_no_token_may_be_are_those_of_the_sources() -> None:
    """Whoever lets Rota itself act under another name adds it there."""
    files = [one for one in Path(rota.__file__).parent.rglob("*.py") if "testing" not in one.parts]
    texts = {one: one.read_text() for one in files}
    by_name = {name for text in texts.values() for name in re.findall(r'actor="(\w+)"', text)}
    by_place = {
        name
        for text in texts.values()
        for name in re.findall(r'Order\(\s*[\w. ]+,\s*[\w.]+,\s*"(\w+)"', text)
    }
    assert by_name | by_place == {"demo"}, "the others have a constant in rota.model.access"
    assert everyone().name in OWN_ACTORS


@pytest.mark.parametrize("secret", ["", "rota_", "rota_guessed", "x" * 10_000, "\x00", "ключ"])
async def test_a_secret_that_is_not_known(ledger: Ledger, secret: str) -> None:
    await ledger.tokens.create("ci", ["read"])
    with pytest.raises(Unauthenticated):
        await ledger.tokens.caller(secret)


async def test_a_revoked_token_is_dead(ledger: Ledger) -> None:
    token, secret = await ledger.tokens.create("ci", ["read"])
    await ledger.tokens.revoke(token.id)
    with pytest.raises(Unauthenticated):
        await ledger.tokens.caller(secret)
    for gone in (token.id, "ghost"):
        with pytest.raises(NotFound):
            await ledger.tokens.revoke(gone)


async def test_a_token_dies_at_its_time(ledger: Ledger, clock: ManualClock) -> None:
    _, secret = await ledger.tokens.create("ci", ["read"], clock.text(60))
    clock.advance(59.9)
    await ledger.tokens.caller(secret)
    clock.advance(0.1)
    with pytest.raises(Unauthenticated, match="expired"):
        await ledger.tokens.caller(secret)


async def last_used(ledger: Ledger) -> str | None:
    return (await ledger.tokens.list())[0].last_used_at


async def test_the_last_use_is_noted_once_a_minute(ledger: Ledger, clock: ManualClock) -> None:
    _, secret = await ledger.tokens.create("ci", ["read"])
    assert await last_used(ledger) is None
    await ledger.tokens.caller(secret)
    first = clock.text()
    assert await last_used(ledger) == first
    clock.advance(60)
    await ledger.tokens.caller(secret)
    assert await last_used(ledger) == first
    clock.advance(1)
    await ledger.tokens.caller(secret)
    assert await last_used(ledger) == clock.text()


async def test_a_caller_does_not_wait_for_the_note_of_its_use(
    ledger: Ledger,
    clock: ManualClock,
    database: str,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, secret = await ledger.tokens.create("ci", ["read"])
    lite = database.startswith("sqlite")
    for words in ["BEGIN IMMEDIATE"] if lite else ["BEGIN", "LOCK TABLE api_tokens IN SHARE MODE"]:
        sql(words)
    async with asyncio.timeout(5):
        for _ in range(3):
            assert (await ledger.tokens.caller(secret)).name == "ci"
    assert len(ledger.tokens._noting) == 1, "one at a time"
    with monkeypatch.context() as patched:
        patched.setattr(tokens, "NOTE_SECONDS", 0.01)
        assert await last_used(ledger) is None, "nor does a list, for long"
    sql("ROLLBACK")
    assert await last_used(ledger) == clock.text()


async def test_a_use_that_cannot_be_noted_is_noted_another_time(
    new_sqlite: Path, tmp_path: Path, clock: ManualClock
) -> None:
    store = SqliteStore(
        shutil.copy(new_sqlite, tmp_path / "rota.db"), clock=clock, busy_seconds=0.01
    )
    await store.open()
    ledger = Ledger.on(store)
    _, secret = await ledger.tokens.create("ci", ["read"])
    other = apsw.Connection(str(store.path))
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: unheard.append(what))
    other.execute("BEGIN IMMEDIATE")
    assert (await ledger.tokens.caller(secret)).name == "ci"
    assert await last_used(ledger) is None
    other.execute("ROLLBACK")
    other.close()
    clock.advance(1)
    await ledger.tokens.caller(secret)
    await store.close()
    assert (ledger.tokens._noting, unheard) == ({}, []), "the store ends it before it closes"
    await store.open()
    assert await last_used(ledger) == clock.text()
    await store.close()


async def test_tokens_are_asked_for_while_one_is_not_revoked(
    ledger: Ledger, clock: ManualClock
) -> None:
    assert await ledger.tokens.required() is False
    token, _ = await ledger.tokens.create("ci", ["read"])
    assert await ledger.tokens.required() is True
    await ledger.tokens.revoke(token.id)
    assert await ledger.tokens.required() is False
    await ledger.tokens.create("short", ["read"], clock.text(60))
    assert await ledger.tokens.required() is True
    clock.advance(60)
    assert await ledger.tokens.required() is True  # that it has expired is nobody's wish


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("", ["read"]),
        ("a\x00", ["read"]),
        ("x" * 101, ["read"]),
        ("ci", []),
        ("ci", ["root"]),
        ("ci", ["Read"]),
        ("ci", ["agent:"]),
        ("ci", ["agent:Not A Name"]),
    ],
)
async def test_a_token_that_cannot_be_right(ledger: Ledger, name: str, scopes: list[str]) -> None:
    with pytest.raises(InvalidInput):
        await ledger.tokens.create(name, scopes)
    assert await ledger.tokens.list() == []
