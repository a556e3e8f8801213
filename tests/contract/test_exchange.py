"""A ledger as a file: the round trip is identity on both databases, and a bad file does nothing."""

import asyncio
import contextlib
import errno
import hashlib
import io
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from shutil import copy
from typing import Any, cast

import anyio
import pytest

from rota.app import open_store
from rota.exchange.exporting import export, whole_file
from rota.exchange.importing import import_ledger
from rota.exchange.incoming import Incoming, Reading
from rota.exchange.landing import Wish, land
from rota.exchange.reading import check
from rota.exchange.records import encode_line
from rota.model.claims import ClaimRequest
from rota.model.clock import IdFactory
from rota.model.errors import ClaimLost, InvalidInput, NotFound, Refused, StorageUnavailable
from rota.model.runs import AgentLimits, RunEnd, RunStatus, Usage
from rota.model.schedules import ScheduleType, Trigger, TriggerKind
from rota.model.sources import Firing
from rota.model.status import Status, Verb
from rota.model.work import ItemFilter, NewItem, WorkItem
from rota.queue import Ledger
from rota.queue.moves import Order
from rota.signals import Signals, SignalScheduler
from rota.storage.declaration_port import DeclarationKind
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import Node, Standing
from rota.storage.shapes import BY_KIND, SHAPES
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to
from rota.testing.store_contract.runs import letter
from tests.contract.conftest import Sql

ODD = 'Größe "✓" \u2028 \\ \x1f \U0001f980 \u200f{"kind":"end"}\nzweite Zeile'
FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}
BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}
LINK = b'{"kind":"link","version":1,"data":{"work_item_id":"a","blocker_id":"b"}}\n'
NEVER_EXPORTED = {
    "api_tokens",
    "work_item_labels",
    "ready_labels",
    "rosters",
    "schema_migrations",
    "young_signals",
}


Elsewhere = Callable[[], AbstractAsyncContextManager[Store]]


def put(file: Path, text: bytes) -> None:
    file.write_bytes(text)


def text_of(file: Path) -> bytes:
    return file.read_bytes()


async def exported(store: Store, **how: Any) -> bytes:
    out = io.BytesIO()
    await export(store, out, **how)
    return out.getvalue()


def records(text: bytes) -> list[bytes]:
    """Without the header, whose time differs; with the end, whose check sum must not."""
    return text.splitlines(keepends=True)[1:]


def of_kind(text: bytes, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, text.splitlines())
    return [one["data"] for one in found if one["kind"] == kind]


async def fill(store: Store, clock: ManualClock) -> dict[str, str]:
    """Something of everything, by the services; the tokens that were handed out."""
    ledger, signals = Ledger.on(store, node="node-1"), Signals(store)
    queue, now = ledger.queue, clock.text
    project = await queue.create_project("Mill", "todoist:1", actor="marcus")
    await queue.set_agent("ada", max_concurrent=9)
    await signals.create(
        signals.read(BLOCKS, {"kind": "follow_up", "title": "Look at it"}, max_fires=None)
    )
    await signals.create(signals.read(FAILS, {"kind": "submit", "title": "Again"}))
    await signals.create(signals.read(FAILS, {"kind": "notify", "url": "https://example.org/x"}))
    for status in Status:
        await bring_to(
            queue, status, description=f"{status} {ODD}", body=ODD, project_id=project.id,
            payload={"n": [1, 2.5, None, {"deep": ODD, "zero": "\x00"}]}, labels=("red", ODD[:20]),
        )  # fmt: skip
    await SignalScheduler(store, owner="one").tick()
    await signals.take_follow_up("ada")
    tokens = await _claims(ledger, clock, project.id)
    run = await ledger.runs.begin("ada", TriggerKind.MANUAL)
    usage = Usage(10, 20, 0.1 + 0.2, 3)
    end = RunEnd(RunStatus.FAILED, ODD, ("https://x/1",), error=ODD, usage=usage)
    await ledger.runs.end(run, end)
    await Ledger.on(store, node="gone").runs.begin("ada", TriggerKind.WORKER)
    await ledger.outside.remember_delivery("delivery 1")
    await ledger.outside.fleet()
    await ledger.outside.note_state("github:o/r", requests=3, settle_seconds=1.5)
    await ledger.outside.approve("github:o/r", "42", "hash", 7, now())
    await ledger.tokens.create("secret", ["admin"])
    await queue.submit_many([NewItem("chore", "Once")], key="a key")
    await queue.note(project_item(await _items(store)).id, ODD, actor="ada")

    (reviewed,) = (one.id for one in await _items(store) if one.status is Status.IN_REVIEW)

    def rest(tx: Transaction) -> None:
        tx.put_node(Node("node-1", "host:/srv", 42, now(), now()))
        every = Standing(
            "ada", "often", ScheduleType.INTERVAL, "interval 300", True, True, now(), now()
        )
        tx.put_schedules([every])
        tx.insert_triggers(
            [Trigger("t-1", "ada", "often", "0", TriggerKind.MANUAL, "node-1", now())]
        )
        tx.put_limits(AgentLimits("ada", 2, now(60), None, ODD), now())
        tx.post(letter("1"))
        reviews = [(reviewed, "github:o/r", "https://x/1", "open", now())]
        tx.import_rows(BY_KIND["review"], reviews)
        tx.import_rows(BY_KIND["notify_mark"], [("position", "7")])
        tx.declare(DeclarationKind.SIGNAL, "home", ["release"])
        told = json.dumps({"happening": "blocked", "title": ODD})
        tx.import_rows(BY_KIND["notice"], [("n-1", "desk", "b", 3, told, now(), now(60))])

    await store.transact(rest)
    return tokens


async def _claims(ledger: Ledger, clock: ManualClock, project_id: str) -> dict[str, str]:
    """One live, one lapsed whose holder comes back late, one of an issue; and links."""
    queue = ledger.queue
    first = await queue.submit(NewItem("rare", "Held", project_id=project_id))
    await queue.submit(NewItem("chore", "Waits", project_id=project_id, blocked_by=(first.id,)))
    (late,) = (await queue.claim(ClaimRequest("bob", types=("rare",), lease_seconds=5))).items
    clock.advance(60)
    await ledger.sweeper.tick()
    with pytest.raises(ClaimLost):
        await queue.complete(late.item.id, token=late.claim.token, notes=ODD)
    (live,) = (await queue.claim(ClaimRequest("bob", types=("rare",), lease_seconds=600))).items
    issue = NewItem("issue", "Outside", source="github:o/r", source_ref="42")
    firing = Firing("20260501-120000-0001", "lucius", "home", "nonce-1")
    taken = await ledger.outside.take(issue, "lucius", 600, firing)
    return {live.item.id: live.claim.token, taken.item.id: taken.claim.token}


async def _items(store: Store) -> list[WorkItem]:
    return await store.read(lambda tx: tx.list_items(ItemFilter(limit=1000)))


def project_item(items: list[WorkItem]) -> WorkItem:
    return next(item for item in items if item.status is Status.QUEUED and item.project_id)


@pytest.fixture
def elsewhere(new_sqlite: Path, tmp_path: Path, clock: ManualClock) -> Elsewhere:
    """Empty ledgers on SQLite, as many as are asked for."""
    count = 0

    @asynccontextmanager
    async def another() -> AsyncIterator[Store]:
        nonlocal count
        count += 1
        path = tmp_path / f"another-{count}.db"
        copy(new_sqlite, path)
        async with open_store(str(path), clock) as store:
            yield store

    return another


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


# the round trip


async def test_what_was_exported_and_imported_is_exported_again_to_the_letter(
    store: Store, clock: ManualClock, elsewhere: Elsewhere, file: Path
) -> None:
    """From this database to SQLite, and from SQLite to this one."""
    tokens = await fill(store, clock)
    there = await exported(store)
    put(file, there)
    kinds = {json.loads(line)["kind"] for line in there.splitlines()}
    assert kinds == {shape.kind for shape in SHAPES} | {"header", "end"}
    assert not any(token.encode() in there for token in tokens.values())
    assert b"secret" not in there
    async with elsewhere() as other:
        first = await import_ledger(other, check(file))
        assert (sum(first.stored.values()), first.skipped) == (first.records, 0)
        back = await exported(other)
        assert records(back) == records(there)
        again = await import_ledger(other, check(file))
        assert (again.stored, again.skipped) == ({}, first.records)
        assert records(await exported(other)) == records(there)


async def test_a_ledger_of_sqlite_moves_here_and_goes_on(
    store: Store, clock: ManualClock, elsewhere: Elsewhere, file: Path, sql: Sql
) -> None:
    async with elsewhere() as other:
        tokens = await fill(other, clock)
        there = await exported(other)
    put(file, there)
    await import_ledger(store, check(file))
    assert records(await exported(store)) == records(there)
    assert faults(await store.read(read_ledger, long=True)) == []
    indexed = {row[0] for row in sql("SELECT DISTINCT label FROM work_item_labels")}
    assert indexed == {"red", ODD[:20]}
    last = of_kind(there, "event")[-1]["seq"]
    ledger = Ledger.on(store)
    await ledger.queue.submit(NewItem("chore", "New"))
    numbers = [event.seq for event in await store.read(lambda tx: tx.events_after(last, 10))]
    assert numbers == [last + 1]
    # Signals that came along hear what happens from now on.
    firings = len(of_kind(there, "firing"))
    await bring_to(ledger.queue, Status.BLOCKED, agent="eve")
    assert sql("SELECT count(*) FROM work_signal_firings")[0][0] > firings
    # Nobody holds what was claimed elsewhere: it lapses in its time, and comes again.
    for item_id, token in tokens.items():
        with pytest.raises(ClaimLost):
            await ledger.queue.heartbeat(item_id, token)
        assert (await ledger.views.item(item_id)).status is Status.IN_PROGRESS
    clock.advance(3600)
    await ledger.sweeper.tick()
    for item_id in tokens:
        assert (await ledger.views.item(item_id)).status is Status.QUEUED


async def test_every_table_and_column_is_exported_or_left_out_on_purpose(
    store: Store, sql: Sql, database: str
) -> None:
    if database.startswith("sqlite"):
        columns = sql(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c"
            " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"
        )
    else:
        columns = sql(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public'"
        )
    known = {(shape.table, field.name) for shape in SHAPES for field in shape.fields}
    hidden = {(shape.table, shape.hidden) for shape in SHAPES if shape.hidden}
    internal = {("events", "txid")}  # PostgreSQL's own
    there = {(t, c) for t, c in columns if t not in NEVER_EXPORTED}
    exported_columns = there - hidden - internal
    assert exported_columns == known, "say in rota.storage.shapes what becomes of it in an export"
    for shape in SHAPES:
        assert {field.name for field in shape.fields} >= set(shape.key)


async def test_a_project_goes_without_the_rest(
    store: Store, clock: ManualClock, elsewhere: Elsewhere, file: Path
) -> None:
    await fill(store, clock)
    queue = Ledger.on(store).queue
    other_project = await queue.create_project("Other")
    outside = await queue.submit(NewItem("chore", "Outside", project_id=other_project.id))
    mill = of_kind(await exported(store), "project")[0]["id"]
    waits = await queue.submit(NewItem("chore", "W", project_id=mill, blocked_by=(outside.id,)))
    text = await exported(store, project="Mill")
    put(file, text)
    async with elsewhere() as there:
        await import_ledger(there, check(file))
        assert records(await exported(there)) == records(text)
        items = await _items(there)
        assert {item.project_id for item in items} == {mill}
        assert next(item for item in items if item.id == waits.id).open_blockers == 0
    with pytest.raises(NotFound, match="no project 'Nobody'"):
        await exported(store, project="Nobody")


# Of a file that was written before the fields `max_in_review` and `given_back_at` were there.
OLD_AGENT = b"""{"kind":"agent","version":1,"data":{"name":"ada","max_concurrent":3,"paused":false,\
"created_at":"2026-05-01T19:42:33.000000Z","updated_at":"2026-05-01T19:42:33.000000Z"}}
"""
OLD_CLAIM = b"""{"kind":"source_claim","version":1,"data":{"firing_id":"20260501-194233-0001",\
"source":"github:o/r","source_ref":"1","work_item_id":"01a1e75b-bbac-7000-a4fc-c64151b875ea",\
"epoch":1,"codename":"ada","fleet":"home","nonce":"n","entry_id":null,\
"created_at":"2026-05-01T19:42:33.000000Z","ended_at":null,"outcome":null}}
"""


async def test_fields_that_came_later_may_be_missing_in_an_older_file(
    store: Store, clock: ManualClock, elsewhere: Elsewhere, file: Path
) -> None:
    async with elsewhere() as source:
        header, *lines = await whole(source)
    items = [line for line in lines if json.loads(line)["kind"] == "item"]
    of_item = {"work_item_id": json.loads(items[0])["data"]["id"]}
    ended = {"firing_id": "20260501-194233-0002", "ended_at": clock.text(), "outcome": "lost"}
    claims = [altered(OLD_CLAIM, **of_item), altered(OLD_CLAIM, **of_item, **ended)]
    put(file, sealed(header, OLD_AGENT, *items, *claims))
    await import_ledger(store, check(file))
    text = await exported(store)
    assert [one["max_in_review"] for one in of_kind(text, "agent")] == [None]
    given_back = [one["given_back_at"] for one in of_kind(text, "source_claim")]
    assert given_back == [None, clock.text()], "as the migration has it"
    nameless = json.loads(OLD_AGENT)
    del nameless["data"]["name"]
    put(file, sealed(header, encode_line(nameless)))
    with pytest.raises(InvalidInput, match="line 2: the field 'name' is missing"):
        await import_ledger(store, check(file))


async def test_dispatches_of_an_older_file_are_in_the_order_of_their_ids(
    store: Store, elsewhere: Elsewhere, file: Path
) -> None:
    """Not of their items: the younger item was dispatched first."""
    async with elsewhere() as source:
        queue = Ledger.on(source).queue
        made = [await queue.submit(NewItem("chore", f"Item {n}")) for n in range(3)]
        for item in reversed(made):
            await queue.apply(Order(Verb.DISPATCH, item.id, "me", agent="ada"))
        header, *lines = (await exported(source)).splitlines(keepends=True)
    before, behind = others(lines)
    older, newer = ranked(lines, "id"), ranked(lines, "work_item_id")
    assert older == newer[::-1]
    for dispatches in (older, newer):
        put(file, sealed(header, *before, *dispatches, *behind))
        await import_ledger(store, check(file))
    bad = {"out of order": [older[1], older[0], older[2]], "comes twice": [older[0], *older]}
    for words, dispatches in bad.items():
        put(file, sealed(header, *before, *dispatches, *behind))
        with pytest.raises(InvalidInput, match=words):
            await import_ledger(store, check(file))


def ranked(lines: list[bytes], field: str) -> list[bytes]:
    """The dispatches among them, in the order of a field."""
    found = [line for line in lines if json.loads(line)["kind"] == "dispatch"]
    return sorted(found, key=lambda line: str(json.loads(line)["data"][field]))


def others(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """What stands before the dispatches, and behind them; without the end."""
    kinds = [json.loads(line)["kind"] for line in lines]
    at = kinds.index("dispatch")
    return lines[:at], lines[at + kinds.count("dispatch") : -1]


# into a ledger that is not empty


async def test_what_differs_is_a_conflict_and_nothing_is_done(
    store: Store, elsewhere: Elsewhere, file: Path
) -> None:
    ledger = Ledger.on(store)
    item = await ledger.queue.submit(NewItem("chore", "Mine"))
    put(file, await exported(store))
    await ledger.queue.note(item.id, "changed", actor="ada")
    before = await exported(store)
    with pytest.raises(Refused, match="cannot stand beside") as refused:
        await import_ledger(store, check(file))
    assert [one["record"] for one in refused.value.details["conflicts"]] == [f"item {item.id}"]
    async with elsewhere() as other:
        stranger = Ledger.on(other)
        await stranger.queue.submit(NewItem("chore", "Theirs"))
        put(file, await exported(other))
    with pytest.raises(Refused) as refused:
        await import_ledger(store, check(file))
    # Their event has the number of one of ours; their item must not have come in before it.
    assert [one["record"] for one in refused.value.details["conflicts"]] == ["event 1"]
    assert await exported(store) == before


async def test_new_events_come_behind_all_others_and_fire_no_signal(
    store: Store, elsewhere: Elsewhere, file: Path
) -> None:
    ledger, signals = Ledger.on(store), Signals(store)
    await ledger.queue.create_project("A")
    past = await exported(store)

    async def future(name: str) -> bytes:
        async with elsewhere() as other:
            put(file, past)
            await import_ledger(other, check(file))
            await Ledger.on(other).queue.submit(NewItem("chore", name))
            return await exported(other)

    put(file, await future("B"))
    assert (await import_ledger(store, check(file), dry_run=True)).stored == {"item": 1, "event": 1}
    assert await exported(store) != text_of(file)
    assert (await import_ledger(store, check(file))).skipped == 2
    assert records(await exported(store)) == records(text_of(file))
    queued = {"kind": "work_item.status.transition", "to": ["queued"]}
    signal = await signals.create(signals.read(queued))
    past = await exported(store)
    put(file, await future("C"))
    with pytest.raises(Refused, match="signals of this ledger listen"):
        await import_ledger(store, check(file))
    assert (await signals.get(signal.id)).firings == []
    assert records(await exported(store)) == records(past)


async def test_an_event_is_not_put_into_a_gap_of_the_past(
    store: Store, elsewhere: Elsewhere, file: Path
) -> None:
    """Whoever follows the events is behind it already, and would never see it."""
    async with elsewhere() as other:
        for name in ("A", "B"):
            await Ledger.on(other).queue.create_project(name)
        put(file, await exported(other, project="B"))
        await import_ledger(store, check(file))
        put(file, await exported(other))
    with pytest.raises(Refused) as refused:
        await import_ledger(store, check(file))
    assert [one["record"] for one in refused.value.details["conflicts"]] == ["event 1"]


async def test_two_who_import_the_same_records_at_once_do_not_double_them(
    store: Store, another_store: Callable[[], Awaitable[Store]]
) -> None:
    reading = Reading("beads")
    for number in range(20):
        reading.add(Incoming(f"bd-{number}", f"Item {number}"))
    stores = [store, await another_store(), await another_store()]
    wish = Wish("ada", "Garden")
    landed = await asyncio.gather(*(land(one, reading, wish) for one in stores))
    assert sorted(len(one.created) for one in landed) == [0, 0, 20]
    assert len(await _items(store)) == 20
    assert len(await store.read(lambda tx: tx.list_projects(None, 10))) == 1


# bad files


async def whole(store: Store) -> list[bytes]:
    queue = Ledger.on(store).queue
    await queue.submit_many([NewItem("chore", f"Item {n}") for n in range(3)])
    return (await exported(store)).splitlines(keepends=True)


def sealed(header: bytes, *lines: bytes, **end: Any) -> bytes:
    """A file whose end fits what it holds, as only a careful forger would make it."""
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    last = {"kind": "end", "version": 1, "records": len(lines), "sha256": digest, **end}
    return b"".join([header, *lines, encode_line(last)])


def altered(line: bytes, **changes: Any) -> bytes:
    record = json.loads(line)
    return encode_line({**record, "data": {**record["data"], **changes}})


def renamed(line: bytes, **changes: Any) -> bytes:
    return encode_line({**json.loads(line), **changes})


async def test_a_file_that_is_not_a_whole_export_is_refused_before_anything_is_touched(
    store: Store, file: Path, elsewhere: Elsewhere
) -> None:
    async with elsewhere() as source:
        lines = await whole(source)
    header, records_, end = lines[0], lines[1:-1], lines[-1]
    deep = b'{"kind":"item","version":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    nan = records_[0].replace(b'"priority":3', b'"priority":NaN')
    bad: dict[str, tuple[bytes, str]] = {
        "cut between lines": (b"".join(lines[:-1]), "is cut off"),
        "cut within a line": (b"".join(lines)[:-20], "is cut off"),
        "empty": (b"", "is empty"),
        "another tool's": (b'{"id":"bd-1"}\n', "line 1: this is no record"),
        "a line less": (b"".join([header, *records_[1:], end]), "changed or damaged"),
        "a byte changed": (b"".join(lines).replace(b"Item 1", b"Item 9"), "changed or damaged"),
        "more behind the end": (b"".join([*lines, header]), "is cut off"),
        "not UTF-8": (sealed(header, b'{"kind":"item","version":1,"id":"\xff"}\n'), "not JSON"),
        "a newer version": (sealed(renamed(header, version=2)), "a record of version 2"),
        "a newer record": (sealed(header, renamed(records_[0], version=2)), "reads version 1"),
        "an unknown kind": (sealed(header, renamed(records_[0], kind="token")), "'token' are not"),
        "an unknown field": (sealed(header, altered(records_[0], colour=1)), "'colour' is not"),
        "NaN": (sealed(header, nan), "NaN is not a JSON number"),
        "too deep": (sealed(header, deep), "line 2: it is nested too deeply"),
        "a record twice": (sealed(header, records_[0], *records_), "comes twice"),
        "out of order": (sealed(header, records_[1], records_[0]), "out of order"),
        "a path for an id": (sealed(header, altered(records_[0], id="../../etc")), "not an id"),
        "no time": (sealed(header, altered(records_[0], created_at="now")), "is not a time"),
        "NUL": (sealed(header, altered(records_[0], notes="\x00")), "NUL"),
        "half a pair": (sealed(header, records_[0][:-3] + b',"z":"\\ud800"}}\n'), "'z' is not"),
        "no agent's name": (sealed(header, altered(records_[0], assigned_agent="../x")), "a name"),
        "deep payload": (sealed(header, altered(records_[0], payload=nested(70))), "deeper than"),
        "a huge number": (sealed(header, altered(records_[0], attempts=2**63)), "whole number"),
        "flag for a number": (sealed(header, altered(records_[0], attempts=True)), "whole number"),
        "a number for a flag": (sealed(header, altered(records_[0], pinned=1)), "true or false"),
        "a part more": (sealed(header, renamed(records_[0], x=1)), "and nothing else"),
        "flag for a version": (sealed(header, renamed(records_[0], version=True)), "version True"),
        "no such status": (sealed(header, altered(records_[0], status="done")), "does not take"),
        "no such item": (
            sealed(header, LINK),
            "does not take",
        ),
    }  # fmt: skip
    before = await exported(store)
    for case, (text, words) in bad.items():
        put(file, text)
        with pytest.raises(InvalidInput) as refused:
            await import_ledger(store, check(file))
        assert words in str(refused.value), (case, str(refused.value))
    with pytest.raises(InvalidInput, match="cannot read"):
        await import_ledger(store, check(file / "nowhere"))
    assert await exported(store) == before


async def test_a_file_that_changes_between_two_readings_is_not_imported(
    store: Store, file: Path, elsewhere: Elsewhere
) -> None:
    async with elsewhere() as source:
        header, *lines, _ = await whole(source)
    before = await exported(store)
    for other in (
        [altered(lines[0], description="another"), *lines[1:]],
        lines[:-1],
        [*lines, LINK],
    ):
        put(file, sealed(header, *lines))
        checked = check(file)
        put(file, sealed(header, *other))
        with pytest.raises(InvalidInput):
            await import_ledger(store, checked)
        assert await exported(store) == before


async def test_a_line_that_does_not_end_is_not_read_to_its_end(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = encode_line({"kind": "header", "version": 1, "format": "rota-export"})
    monkeypatch.setattr("rota.exchange.reading.LONGEST_LINE", 1_000)
    put(file, sealed(header, b"x" * 1_001 + b"\n"))
    with pytest.raises(InvalidInput, match="line 2: longer than 1000 bytes"):
        check(file)


SPEC, DONE = {"kind": "time"}, "done"
# By kind and field: what the tables would take, and nobody could read again.
SENSELESS: dict[tuple[str, str], list[Any]] = {
    ("item", "came_from"): [DONE, ""],
    ("item", "labels"): [7, [7], "red", {"red": 1}],
    ("claim", "lease_seconds"): [1e301, True, "900"],
    ("event", "type"): ["", "work.noted\ndata: {}", "Work", "work..noted", "x" * 51],
    ("event", "from_status"): [DONE],
    ("event", "to_status"): [DONE, ""],
    ("event", "data"): [7, [1], "x"],
    ("signal", "trigger_spec"): [7, {}, {"kind": "x"}, SPEC | {"to": 7}, SPEC | {"x": 1}],
    ("signal", "action"): [7, {}, {"kind": "x"}, {"kind": "submit", "labels": 7}],
    ("firing", "result"): [7, "x"],
    ("schedule", "definition"): ["", "x", "interval x", "cron UTC x", f"interval {9**99}"],
    ("schedule", "slot"): ["1", "2026-05-01"],
    ("schedule", "last_skip_reason"): ["", "tired"],
    ("run", "artifacts"): [7, [7]],
    ("run", "hook_errors"): [7, {}],
    ("report", "payload"): [7, [1], "x"],
    ("notify_mark", "value"): ["", "x", "-1", "2026-05-01", "9" * 30],
    ("notice", "content"): ["", "x", "7"],
    ("request", "item_ids"): [7, [7]],
}


async def test_what_nobody_could_read_again_is_refused_and_named(
    store: Store, clock: ManualClock, file: Path, elsewhere: Elsewhere
) -> None:
    """One such record would take every list down with it that it stands in, and every claim."""
    async with elsewhere() as source:
        await fill(source, clock)
        header, *lines, _ = (await exported(source)).splitlines(keepends=True)
    before = await exported(store)
    at = {json.loads(line)["kind"]: number for number, line in reversed([*enumerate(lines)])}
    for (kind, name), values in SENSELESS.items():
        for value in values:
            bad = [*lines]
            bad[at[kind]] = altered(lines[at[kind]], **{name: value})
            put(file, sealed(header, *bad))
            with pytest.raises(InvalidInput, match=f"line {at[kind] + 2}: {name}: "):
                await import_ledger(store, check(file))
    moment = altered(lines[at["signal"]], trigger_spec=SPEC | {"at": "2026-05-01"})
    put(file, sealed(header, moment))
    with pytest.raises(InvalidInput, match="trigger_spec: '2026-05-01' is not a time"):
        await import_ledger(store, check(file))
    assert await exported(store) == before


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    with contextlib.suppress(ZeroDivisionError), whole_file(target) as out:
        out.write(b"half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageUnavailable, match="cannot write"), whole_file(target / "y"):
        pass
    with whole_file(target) as out:
        out.write(b"all")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"all", 0o600)


def test_a_read_only_file_system_is_told_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("rota.files.tempfile.mkstemp", refused)
    told = "cannot write .*: Read-only file system"
    with pytest.raises(StorageUnavailable, match=told), whole_file(tmp_path / "x.jsonl"):
        pass


async def test_an_export_that_is_broken_off_begins_again_where_it_can(
    store: Store, clock: ManualClock
) -> None:
    class Breaking:
        clock = store.clock

        async def read(self, body: Callable[[Transaction], Any], *, long: bool) -> Any:
            await store.read(body, long=long)  # PostgreSQL went away, and the body is run again
            return await store.read(body, long=long)

    await Ledger.on(store).queue.submit(NewItem("chore", "Once"))
    assert await exported(cast(Store, Breaking())) == await exported(store)
    receiving, sending = os.pipe()
    with (
        os.fdopen(receiving),
        os.fdopen(sending, "wb") as out,
        pytest.raises(StorageUnavailable, match="has no end"),
    ):
        await export(cast(Store, Breaking()), out)


def test_the_page_about_the_format_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/export-format.md").read_text()
    for shape in SHAPES:
        key = ", ".join(f"`{name}`" for name in shape.key)
        fields = (f"`{field.name}`{'?' if field.optional else ''}" for field in shape.fields)
        assert f"| `{shape.kind}` | {key} | {', '.join(fields)} |" in page
        for name, other in shape.later:
            read_as = f"the value of `{other}`" if other else "null"
            assert f"| `{shape.kind}` | `{name}` | {read_as} |" in page


# large files

_CHILD = """
import sys, anyio
from pathlib import Path
from rota.app import open_store
from rota.exchange.exporting import export, whole_file
from rota.exchange.importing import import_ledger
from rota.exchange.reading import check

def most():  # not by getrusage, which counts what our parent had, too
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

async def main():
    async with open_store(sys.argv[1]) as store:
        before = most()
        await import_ledger(store, check(Path(sys.argv[2])))
        with whole_file(Path(sys.argv[3])) as out:
            await export(store, out)
        print(most() - before)

anyio.run(main)
"""


def large_file(clock: ManualClock, header: bytes, sample: bytes, path: Path, size: int) -> None:
    """Items that differ in their ids alone, as an export would have them."""
    item = json.loads(sample)
    digest, count, ids = hashlib.sha256(), 0, IdFactory(clock)
    with path.open("wb") as out:
        out.write(header)
        while out.tell() < size:
            item["data"] |= {"id": ids.new(), "body": "x" * 30_000}
            line = encode_line(item)
            digest.update(line)
            out.write(line)
            count += 1
        end = {"kind": "end", "version": 1, "records": count, "sha256": digest.hexdigest()}
        out.write(encode_line({**end, "counts": {"item": count}}))


async def test_a_large_file_takes_little_memory(
    store: Store, database: str, clock: ManualClock, tmp_path: Path, elsewhere: Elsewhere
) -> None:
    """30 MB in and out. SQLite keeps 64 MB of pages at hand at most, and that much is granted."""
    async with elsewhere() as other:
        await Ledger.on(other).queue.submit(NewItem("chore", "Large"))
        header, sample, *_ = (await exported(other)).splitlines(keepends=True)
    there, back = tmp_path / "there.jsonl", tmp_path / "back.jsonl"
    large_file(clock, header, sample, there, 30_000_000)
    done = await anyio.run_process([sys.executable, "-c", _CHILD, database, str(there), str(back)])
    grown = int(done.stdout)
    assert records(text_of(back)) == records(text_of(there))
    assert grown < (100 if database.startswith("sqlite") else 40)
