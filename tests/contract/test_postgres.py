"""What only PostgreSQL can do to us: numbers out of order, races, deadlocks, lost connections."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.model.claims import ClaimRequest, ClaimResult, NothingClaimed
from rota.model.clock import IdFactory
from rota.model.errors import (
    ClaimLost,
    CommitUnknown,
    InvalidInput,
    NotFound,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    VersionMismatch,
)
from rota.model.events import EventType, NewEvent
from rota.model.runs import Run
from rota.model.sources import Firing, Mirrored, Mirroring
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue, collecting, editing, moves
from rota.queue.moves import Order
from rota.queue.outside import OutsideWork
from rota.queue.views import Views
from rota.storage import herald, postgres, postgres_connection
from rota.storage.dialogue import Connection, Dialogue
from rota.storage.herald import Herald
from rota.storage.port import RunAgain, Store, Take, Topic, Transaction
from rota.storage.postgres import TRIES, UPGRADE_LOCK, PostgresStore
from rota.storage.postgres_connection import connect
from rota.storage.postgres_transaction import PostgresTransaction
from rota.storage.select import candidates
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order
from tests.contract.spelling import to_psycopg

OpenStore = Callable[[], Awaitable[Store]]
Sql = Callable[..., list[tuple[Any, ...]]]
PATIENCE = 30.0
NOW = ManualClock().text()


@pytest.fixture
def database(empty_postgres: str) -> str:
    """Every test of this file runs on PostgreSQL alone."""
    return empty_postgres


class OpenTransaction:
    """A transaction that somebody else has open, past our store."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("BEGIN")

    def begin_counting(self) -> int:
        """Take a transaction number, without taking any event number."""
        row = self._connection.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        return int(row[0])

    def append(self, name: str) -> int:
        row = self._connection.execute(
            "INSERT INTO events (type, occurred_at, work_item_id) VALUES ('work.noted', 'now', %s)"
            " RETURNING seq",
            (name,),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def lock(self, table: str) -> None:
        """All that is in it, so that others come to stand before it."""
        self._connection.execute(f"SELECT 1 FROM {table} FOR UPDATE".encode())

    def lock_out(self, table: str) -> None:
        """Readers too, as ALTER TABLE does."""
        self._connection.execute(f"LOCK TABLE {table}".encode())

    def lock_against_writers(self, table: str) -> None:
        """As CREATE INDEX does."""
        self._connection.execute(f"LOCK TABLE {table} IN SHARE MODE".encode())

    UPGRADES = f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})"

    def lock_upgrades(self) -> None:
        self._connection.execute(self.UPGRADES.encode())

    def commit(self) -> None:
        self._connection.execute("COMMIT")
        self._connection.close()

    def roll_back(self) -> None:
        self._connection.execute("ROLLBACK")

    def abandon(self) -> None:
        self._connection.close()


@pytest.fixture
def begin(store: Store, database: str) -> Iterator[Callable[[], OpenTransaction]]:
    opened: list[OpenTransaction] = []

    def begin() -> OpenTransaction:
        opened.append(OpenTransaction(database))
        return opened[-1]

    yield begin
    for transaction in opened:
        transaction.abandon()


async def names_after(store: Store, after: int) -> list[tuple[int, str | None]]:
    events = await store.read(lambda tx: tx.events_after(after, 100))
    return [(event.seq, event.work_item_id) for event in events]


# the order of events


async def test_an_early_number_that_commits_late_is_not_skipped(
    store: Store, begin: Callable[[], OpenTransaction]
) -> None:
    old = begin()
    early = old.append("early number, late commit")
    young = begin()
    late = young.append("late number, early commit")
    assert early < late
    young.commit()
    # Who read on to the late number here would never come back for the early one.
    assert await names_after(store, 0) == []
    assert await store.read(lambda tx: tx.events_on(0, 100)) == ([], True)
    assert await store.read(lambda tx: tx.last_event()) == 0
    old.commit()
    assert await names_after(store, 0) == [
        (early, "early number, late commit"),
        (late, "late number, early commit"),
    ]
    assert not (await store.read(lambda tx: tx.events_on(0, 100)))[1]


async def test_a_lower_number_of_a_younger_transaction_is_not_skipped(
    store: Store, begin: Callable[[], OpenTransaction]
) -> None:
    old, young = begin(), begin()
    assert old.begin_counting() < young.begin_counting()
    lower = young.append("lower number, younger")
    higher = old.append("higher number, older")
    assert lower < higher
    old.commit()
    assert await names_after(store, 0) == [(higher, "higher number, older")]
    assert await store.read(lambda tx: tx.last_event()) == higher
    young.commit()
    assert await names_after(store, higher) == [(lower, "lower number, younger")]
    assert await names_after(store, lower) == []
    assert await store.read(lambda tx: tx.last_event()) == lower


async def test_a_transaction_that_is_rolled_back_holds_nobody_up(
    store: Store, begin: Callable[[], OpenTransaction]
) -> None:
    gone, other = begin(), begin()
    gone.append("never")
    there = other.append("there")
    other.commit()
    assert await names_after(store, 0) == []
    gone.roll_back()
    assert await names_after(store, 0) == [(there, "there")]


async def test_events_of_a_restored_database_keep_their_order(
    store: Store, another_store: OpenStore, sql: Sql
) -> None:
    """A new cluster counts transactions from the beginning: old events seem to come from ahead."""
    for name in "abc":
        event = NewEvent(EventType.NOTED, NOW, work_item_id=name)
        await store.transact(lambda tx, event=event: tx.append([event]))
    before = await names_after(store, 0)
    sql("SET session_replication_role = replica")
    sql("UPDATE events SET txid = (txid::text::bigint + 1000000)::text::xid8")
    sql("SET session_replication_role = origin")
    assert await names_after(store, 0) == []
    restored = await another_store()
    assert await names_after(restored, 0) == before
    seen = before[1][0]
    event = NewEvent(EventType.NOTED, NOW, work_item_id="new")
    await restored.transact(lambda tx: tx.append([event]))
    assert [name for _, name in await names_after(restored, seen)] == ["c", "new"]
    third = await another_store()
    assert [name for _, name in await names_after(third, 0)] == ["a", "b", "c", "new"]


async def test_only_the_transaction_number_of_an_event_may_be_set_back(
    store: Store, sql: Sql
) -> None:
    await store.transact(lambda tx: tx.append([NewEvent(EventType.NOTED, NOW)]))
    sql("UPDATE events SET txid = '0'")
    for change in ("txid = '5'", "txid = '0', actor = 'me'", "seq = DEFAULT"):
        with pytest.raises(psycopg.errors.RaiseException):
            sql(f"UPDATE events SET {change}")


# races, held still


@contextmanager
def gate() -> Iterator[tuple[threading.Event, threading.Event]]:
    """`reached` says that a body stands at the gate; setting `let_go` lets it on."""
    reached, let_go = threading.Event(), threading.Event()
    try:
        yield reached, let_go
    finally:
        let_go.set()


def held(
    body: Callable[[Transaction], Any], reached: threading.Event, let_go: threading.Event
) -> Callable[[Transaction], Any]:
    """The body, which then stands before its commit until it is let go."""

    def run(tx: Transaction) -> Any:
        result = body(tx)
        tx.highest_event()  # an answer is waited for: what was said before has been done
        reached.set()
        assert let_go.wait(PATIENCE)
        return result

    return run


async def reach(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def until(ask: Callable[[], bool]) -> None:
    """What another process has come to can only be asked for."""

    def wait() -> None:
        deadline = time.monotonic() + PATIENCE
        while not ask():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    await asyncio.to_thread(wait)


async def until_somebody_waits_for_a_lock(sql: Sql, how_many: int = 1) -> None:
    waiting = (
        "SELECT 1 FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    await until(lambda: len(sql(waiting)) >= how_many)


@asynccontextmanager
async def looking_by_label(
    database: str, sql: Sql, labels: Sequence[str], *, named: bool = False
) -> AsyncIterator[list[Any]]:
    """A claim that has begun to look, and learns the last of its labels at the end of the block.
    What it finds is then in the list."""
    (text,) = candidates("postgres", named=named, types=0, labels=len(labels), project=False)
    last = f"%(label_{len(labels) - 1})s"
    spelt = to_psycopg(text)
    waits = f"(SELECT {last}::text FROM (SELECT pg_advisory_lock(1)) AS lock)"
    values = {"want": 1, "agent": "ada"} | {f"label_{n}": one for n, one in enumerate(labels)}
    found: list[Any] = []
    sql("SELECT pg_advisory_lock(1)")
    with psycopg.connect(database, autocommit=True) as other:
        statement = spelt.replace(last, waits, 1).encode()
        looking = asyncio.to_thread(lambda: other.execute(statement, values).fetchall())
        task = asyncio.ensure_future(looking)
        await until_somebody_waits_for_a_lock(sql)
        yield found
        sql("SELECT pg_advisory_unlock(1)")
        found += await task


@pytest.mark.parametrize("labels", [("red",), ("red", "blue")])
async def test_a_claim_by_label_leaves_what_was_taken_since_it_began_to_look(
    database: str, queue: WorkQueue, sql: Sql, labels: tuple[str, ...]
) -> None:
    """It still sees the label in line, because it sees the tables as they were at its start."""
    item = await queue.submit(NewItem("chore", "x", labels=labels))
    async with looking_by_label(database, sql, labels) as found:
        (taken,) = (await queue.claim(ClaimRequest("ada", labels=labels))).items
    assert (taken.item.id, found) == (item.id, [])


@pytest.mark.parametrize("labels", [("red",), ("red", "blue")])
@pytest.mark.parametrize("named", [False, True], ids=["of anybody", "of its agent"])
async def test_a_claim_by_label_leaves_what_has_lost_the_label_since_it_began_to_look(
    database: str, queue: WorkQueue, sql: Sql, labels: tuple[str, ...], named: bool
) -> None:
    whose = "ada" if named else None
    item = await queue.submit(NewItem("chore", "x", labels=labels, assigned_agent=whose))
    async with looking_by_label(database, sql, labels, named=named) as found:
        edit = Order(Verb.START, item.id, "me")
        await queue.change(edit, None, {"labels": labels[:-1]})
    assert found == []


def complete(item: WorkItem) -> Callable[[Transaction], Any]:
    return lambda tx: moves.apply(tx, order(Verb.COMPLETE, item.id), "", NOW)


async def given_blocker(queue: WorkQueue) -> tuple[WorkItem, WorkItem]:
    return await bring_to(queue, Status.IN_PROGRESS), await bring_to(queue, Status.QUEUED)


async def test_a_blocker_that_completes_just_after_the_link_frees_its_dependent(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    blocker, dependent = await given_blocker(queue)
    with gate() as (reached, let_go):
        link = held(lambda tx: tx.add_blockers(dependent.id, [blocker.id]), reached, let_go)
        linking = store.transact(link)
        await reach(reached)
        completing = store.transact(complete(blocker))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await asyncio.gather(linking, completing)
    row = await store.read(lambda tx: tx.get_item(dependent.id))
    assert row is not None
    assert row.open_blockers == 0
    events = await store.read(lambda tx: tx.events_of(dependent.id, 1))
    assert events[0].type == "work.unblocked"


async def test_a_blocker_that_completes_just_before_the_link_does_not_block(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    blocker, dependent = await given_blocker(queue)
    with gate() as (reached, let_go):
        completing = store.transact(held(complete(blocker), reached, let_go))
        await reach(reached)
        linking = store.transact(lambda tx: tx.add_blockers(dependent.id, [blocker.id]))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await asyncio.gather(linking, completing)
    row = await store.read(lambda tx: tx.get_item(dependent.id))
    assert row is not None
    assert row.open_blockers == 0


async def test_links_and_completions_at_once_leave_nobody_waiting(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(store), WorkQueue(await another_store())]
    for turn in range(15):
        blockers = [await bring_to(queues[0], Status.IN_PROGRESS, f"a{n}") for n in range(3)]
        first = await bring_to(queues[0], Status.QUEUED)
        ids = tuple(blocker.id for blocker in blockers)
        submitted, _, *_ = await asyncio.gather(
            queues[1].submit(NewItem("chore", str(turn), blocked_by=ids)),
            queues[0].change(order(Verb.RELEASE, first.id), None, {}, ids),
            *(queues[n % 2].apply(order(Verb.COMPLETE, one.id)) for n, one in enumerate(blockers)),
        )
        for item_id in (submitted.id, first.id):
            row = await store.read(lambda tx, item_id=item_id: tx.get_item(item_id))
            assert row is not None
            assert row.open_blockers == 0


async def test_links_that_two_take_off_at_once_are_taken_off_once(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    blocker = await bring_to(queue, Status.QUEUED)
    dependent = await queue.submit(NewItem("chore", "after it", blocked_by=(blocker.id,)))
    off, nothing = order(Verb.RELEASE, dependent.id), editing.Patch({}, (), None)
    with gate() as (reached, let_go):
        one = store.transact(
            held(lambda tx: editing.patch(tx, off, nothing, "", NOW), reached, let_go)
        )
        await reach(reached)
        another = asyncio.ensure_future(queue.change(off, None, {}, ()))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await asyncio.gather(one, another)
    row = await store.read(lambda tx: tx.get_item(blocker.id))
    assert row is not None
    assert row.dependents == 0


async def test_two_who_change_different_facts_of_one_agent_are_both_heeded(
    queue: WorkQueue, views: Views, begin: Callable[[], OpenTransaction], sql: Sql
) -> None:
    await queue.set_agent("ada", max_concurrent=1)
    somebody = begin()
    somebody.lock("agents")
    pausing = asyncio.ensure_future(queue.set_agent("ada", paused=True))
    widening = asyncio.ensure_future(queue.set_agent("ada", max_concurrent=5))
    await until_somebody_waits_for_a_lock(sql, 2)
    somebody.roll_back()
    await asyncio.gather(pausing, widening)
    (load,) = await views.agents()
    assert (load.agent.paused, load.agent.max_concurrent) == (True, 5)


async def test_two_who_change_different_facts_of_one_project_are_both_heeded(
    queue: WorkQueue, views: Views, begin: Callable[[], OpenTransaction], sql: Sql
) -> None:
    project = await queue.create_project("Docs")
    somebody = begin()
    somebody.lock("projects")
    naming = asyncio.ensure_future(queue.update_project(project.id, {"name": "Book"}))
    placing = asyncio.ensure_future(queue.update_project(project.id, {"external_ref": "todo:1"}))
    await until_somebody_waits_for_a_lock(sql, 2)
    somebody.roll_back()
    await asyncio.gather(naming, placing)
    changed = await views.project(project.id)
    assert (changed.name, changed.external_ref) == ("Book", "todo:1")


def take(agent: str, token: str) -> Take:
    return Take(agent, [token], [f"d-{token}"], 60, ManualClock().text(60))


async def test_two_claims_of_one_agent_for_one_slot_have_one_winner(
    store: Store, another_store: OpenStore, queue: WorkQueue, sql: Sql
) -> None:
    other = await another_store()
    for _ in range(2):
        await bring_to(queue, Status.QUEUED)
    runs = []

    def second(tx: Transaction) -> list[ClaimResult]:
        runs.append(1)
        return tx.take([take("ada", "t2")], NOW)

    with gate() as (reached, let_go):
        winning = store.transact(
            held(lambda tx: tx.take([take("ada", "t1")], NOW), reached, let_go)
        )
        await reach(reached)
        losing = other.transact(second)
        await until_somebody_waits_for_a_lock(sql)  # for the unique index: the item is another
        let_go.set()
        (won,), (lost,) = await asyncio.gather(winning, losing)
    assert len(won.items) == 1
    assert (lost.items, lost.reason) == ([], NothingClaimed.NO_FREE_SLOT)
    assert len(runs) == 2
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_a_claim_neither_waits_for_nor_takes_what_another_is_taking(
    store: Store, another_store: OpenStore, queue: WorkQueue
) -> None:
    other = await another_store()
    first, second = await bring_to(queue, Status.QUEUED), await bring_to(queue, Status.QUEUED)
    with gate() as (reached, let_go):
        taking = store.transact(held(lambda tx: tx.take([take("ada", "t1")], NOW), reached, let_go))
        await reach(reached)
        async with asyncio.timeout(PATIENCE):
            (got,) = await other.transact(lambda tx: tx.take([take("bob", "t2")], NOW))
            (none,) = await other.transact(lambda tx: tx.take([take("cem", "t3")], NOW))
        assert [one.item.id for one in got.items] == [second.id]
        assert none.items == []
        let_go.set()
        (won,) = await taking
    assert [one.item.id for one in won.items] == [first.id]


# What several processes look for at once: what is found, by rows as others leave them behind.
EARLIER, LATER = ManualClock().text(-3600), ManualClock().text(3600)
SOUGHT: dict[str, tuple[str, str, Callable[[Transaction], Any]]] = {
    "items that came due": (
        "work_items",
        "UPDATE work_items SET deferred = 1, available_at = :earlier",
        lambda tx: tx.promote_due(NOW),
    ),
    "lapsed claims": (
        "work_items",
        "UPDATE work_items SET status = 'in_progress', assigned_agent = 'ada', slot = 0,"
        " claim_token = 't', lease_expires_at = :earlier",
        lambda tx: tx.lapsed_items(NOW, 10),
    ),
    "quiet items": (
        "work_items",
        "UPDATE work_items SET status = 'in_progress', assigned_agent = 'ada', slot = 0,"
        " updated_at = :earlier",
        lambda tx: tx.quiet_items(NOW, 10),
    ),
    "letters": (
        "outbox",
        "INSERT INTO outbox (id, kind, subject, payload, created_at, next_attempt_at)"
        " VALUES ('o', 'report', 's', '{}', :earlier, :earlier)",
        lambda tx: tx.take_post(NOW, LATER, 10),
    ),
    "firings": (
        "work_signal_firings",
        "WITH s AS (INSERT INTO work_signals (id, trigger_kind, trigger_spec, action, status,"
        " created_at, updated_at) VALUES ('s', 'k', '{}', '{}', 'active', :earlier, :earlier))"
        " INSERT INTO work_signal_firings (id, signal_id, dedupe_key, status, next_attempt_at,"
        " created_at) VALUES ('f', 's', 'd', 'queued', :earlier, :earlier)",
        lambda tx: tx.take_firings("here", NOW, LATER, 10),
    ),
    "firings of a signal": (
        "work_signals",
        "WITH s AS (INSERT INTO work_signals (id, trigger_kind, trigger_spec, action, status,"
        " created_at, updated_at) VALUES ('s', 'k', '{}', '{}', 'active', :earlier, :earlier))"
        " INSERT INTO work_signal_firings (id, signal_id, dedupe_key, status, next_attempt_at,"
        " created_at) VALUES ('f', 's', 'd', 'queued', :earlier, :earlier)",
        lambda tx: tx.take_firings("here", NOW, LATER, 10),
    ),
    "follow-ups": (
        "work_item_tasks",
        "INSERT INTO work_item_tasks (id, work_item_id, title, status, created_at)"
        " SELECT 't', id, 'title', 'open', :earlier FROM work_items",
        lambda tx: tx.lease_follow_up("ada", "token", NOW, LATER),
    ),
}


@pytest.mark.parametrize("sought", SOUGHT.values(), ids=SOUGHT)
async def test_what_another_is_at_is_passed_over_and_not_waited_for(
    store: Store,
    queue: WorkQueue,
    sql: Sql,
    begin: Callable[[], OpenTransaction],
    sought: tuple[str, str, Callable[[Transaction], Any]],
) -> None:
    table, given, look = sought
    await bring_to(queue, Status.QUEUED)
    sql(given, earlier=EARLIER)
    other = begin()
    other.lock(table)
    async with asyncio.timeout(PATIENCE):
        assert not await store.transact(look)
    other.roll_back()
    assert await store.transact(look)


async def test_a_late_completion_that_waits_for_a_sweep_is_refused_by_what_it_finds(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    """The guard is judged again on the newest row, after the wait."""
    await bring_to(queue, Status.QUEUED)
    (result,) = await store.transact(lambda tx: tx.take([take("ada", "t1")], NOW))
    item_id = result.items[0].item.id
    with gate() as (reached, let_go):
        sweep = order(Verb.RELEASE, item_id, force=True)
        sweeping = store.transact(held(lambda tx: moves.apply(tx, sweep, "", NOW), reached, let_go))
        await reach(reached)
        late = order(Verb.COMPLETE, item_id, token="t1")
        completing = store.transact(lambda tx: moves.apply(tx, late, "", NOW))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await sweeping
        assert isinstance(await completing, moves.Lost)
    row = await store.read(lambda tx: tx.get_item(item_id))
    assert row is not None
    assert row.status is Status.QUEUED


def collected(reached: threading.Event, let_go: threading.Event) -> Any:
    """A take of issue 42 that stands before its commit."""
    ids, issue = IdFactory(ManualClock()), NewItem("issue", "x", source="s:r", source_ref="42")
    lease = moves.Lease("token", 60, 60)
    wanted = collecting.Collection(issue, "ada", lease, Firing("f1", "ada", "h", "n"), False)
    return held(lambda tx: collecting.collect(tx, wanted, ids, NOW), reached, let_go)


async def test_what_is_being_taken_is_not_cancelled_though_its_source_has_it_no_longer(
    store: Store, sql: Sql
) -> None:
    outside = OutsideWork(store)
    await outside.mirror([Mirrored(NewItem("issue", "x", source="s:r", source_ref="42"))])
    with gate() as (reached, let_go):
        taking = store.transact(collected(reached, let_go))
        await reach(reached)
        leaving = asyncio.ensure_future(outside.gone("s:r", []))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await taking
        assert await leaving == []
    standing = await outside.standing("s:r", "42")
    assert standing is not None
    assert standing.status is Status.IN_PROGRESS


async def test_what_is_being_taken_is_edited_by_its_mirror_afterwards(
    store: Store, sql: Sql
) -> None:
    outside = OutsideWork(store)
    await outside.mirror([Mirrored(NewItem("issue", "x", source="s:r", source_ref="42"))])
    changed = Mirrored(NewItem("issue", "new", source="s:r", source_ref="42"), "wait")
    with gate() as (reached, let_go):
        taking = store.transact(collected(reached, let_go))
        await reach(reached)
        mirroring = asyncio.ensure_future(outside.mirror([changed]))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await taking
        assert await mirroring == Mirroring(edited=1, held=1)
    standing = await outside.standing("s:r", "42")
    assert standing is not None
    assert (standing.description, standing.status) == ("new", Status.IN_PROGRESS)
    assert faults(await store.read(read_ledger, long=True)) == []


def given_to_bob(queue: WorkQueue, item_id: str) -> Callable[[Transaction], Any]:
    """Out of another's hands, and into Bob's."""
    ids = IdFactory(ManualClock())
    orders = [
        order(Verb.RELEASE, item_id, force=True),
        order(Verb.DISPATCH, item_id, agent="bob"),
        order(Verb.START, item_id, lease=queue.lease(60)),
    ]

    def body(tx: Transaction) -> None:
        for one in orders:
            moves.apply(tx, one, ids.new(), NOW)

    return body


async def test_a_patch_at_a_version_does_not_touch_what_has_changed_hands_meanwhile(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    done = order(Verb.RELEASE, item.id, outcome="success", version=item.version, force=True)
    with gate() as (reached, let_go):
        giving = store.transact(held(given_to_bob(queue, item.id), reached, let_go))
        await reach(reached)
        patching = asyncio.ensure_future(queue.change(done, Status.COMPLETED, {}))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await giving
        with pytest.raises(VersionMismatch, match=f"not {item.version}"):
            await patching
    row = await store.read(lambda tx: tx.get_item(item.id))
    assert row is not None
    assert (row.assigned_agent, row.status) == ("bob", Status.IN_PROGRESS)


async def test_a_patch_without_a_version_makes_the_move_from_where_the_item_stands_by_then(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    fail = order(Verb.FAIL, item.id, outcome="failed")
    with gate() as (reached, let_go):
        failing = store.transact(held(lambda tx: moves.apply(tx, fail, "", NOW), reached, let_go))
        await reach(reached)
        patching = asyncio.ensure_future(
            queue.change(order(Verb.RELEASE, item.id), Status.QUEUED, {})
        )
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await failing
        assert (await patching).item.status is Status.QUEUED
    events = await store.read(lambda tx: tx.events_of(item.id, 2))
    assert [event.type for event in events] == ["work.failed", "work.retried"]


async def test_a_note_of_who_has_just_lost_its_claim_is_not_believed(
    store: Store, queue: WorkQueue, sql: Sql
) -> None:
    await bring_to(queue, Status.QUEUED)
    (got,) = (await queue.claim(ClaimRequest("ada"))).items
    with gate() as (reached, let_go):
        giving = store.transact(held(given_to_bob(queue, got.item.id), reached, let_go))
        await reach(reached)
        noting = asyncio.ensure_future(queue.note(got.item.id, "half way", token=got.claim.token))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await giving
        with pytest.raises(ClaimLost, match="bob"):
            await noting
    row = await store.read(lambda tx: tx.get_item(got.item.id))
    assert row is not None
    assert row.notes is None


async def test_two_workers_who_begin_with_one_claim_at_once_have_one_run(
    store: Store, another_store: OpenStore, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, other = Ledger.on(store), Ledger.on(await another_store())
    await ledger.queue.submit(NewItem("chore", "x"))
    ((item, claim),) = (await ledger.queue.claim(ClaimRequest("ada"))).items

    def begin(on: Ledger) -> "asyncio.Future[tuple[Run, bool]]":
        return asyncio.ensure_future(on.runs.begin_once(claim, item, schedule=None, node="w"))

    with gate() as (reached, let_go):
        transact = store.transact
        monkeypatch.setattr(store, "transact", lambda body: transact(held(body, reached, let_go)))
        first = begin(ledger)
        await reach(reached)
        second = begin(other)
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        (run, is_new), (same, is_newer) = await asyncio.gather(first, second)
    assert (is_new, is_newer) == (True, False)
    assert same.id == run.id


# run again, or not


async def test_a_deadlock_is_run_again(store: Store, queue: WorkQueue, sql: Sql) -> None:
    first, second = await bring_to(queue, Status.QUEUED), await bring_to(queue, Status.QUEUED)
    both_hold = threading.Barrier(2)
    runs: list[str] = []

    def crosswise(name: str, one: str, other: str) -> Callable[[Transaction], str]:
        def body(tx: Transaction) -> str:
            runs.append(name)
            tx.set_labels(one, [name])
            tx.get_item(one)
            if runs.count(name) == 1:
                both_hold.wait(PATIENCE)
            tx.set_labels(other, [name])
            return name

        return body

    answers = await asyncio.gather(
        store.transact(crosswise("a", first.id, second.id)),
        store.transact(crosswise("b", second.id, first.id)),
    )
    assert answers == ["a", "b"]
    assert 3 <= len(runs) <= 6
    rows = await store.read(lambda tx: tx.get_items([first.id, second.id]))
    assert rows[0].labels == rows[1].labels


async def test_a_body_may_ask_to_be_run_again_and_leaves_one_trace(store: Store) -> None:
    runs = []

    def body(tx: Transaction) -> int:
        runs.append(1)
        tx.append([NewEvent(EventType.NOTED, NOW)])
        if len(runs) < 3:
            raise RunAgain
        return len(runs)

    assert await store.transact(body) == 3
    assert len(await names_after(store, 0)) == 1


async def test_a_body_that_never_gets_through_is_given_up(store: Store) -> None:
    runs = []

    def body(tx: Transaction) -> None:
        runs.append(1)
        raise RunAgain

    with pytest.raises(StorageUnavailable, match="try again"):
        await store.transact(body)
    assert len(runs) == TRIES


def backend(tx: Transaction) -> int:
    rows = tx._text("SELECT pg_backend_pid()", {})  # type: ignore[attr-defined]
    return int(rows[0][0])


def cut(sql: Sql, pid: int) -> None:
    """End a server process, and wait until it is gone, and its end of the connection with it."""
    sql("SELECT pg_terminate_backend(:pid)", pid=pid)
    while sql("SELECT 1 FROM pg_stat_activity WHERE pid = :pid", pid=pid):
        pass
    while Path(f"/proc/{pid}").exists():
        pass


async def test_a_transaction_whose_connection_is_cut_is_run_again(store: Store, sql: Sql) -> None:
    runs = []

    def body(tx: Transaction) -> None:
        runs.append(1)
        tx.append([NewEvent(EventType.NOTED, NOW)])
        if len(runs) == 1:
            cut(sql, backend(tx))
        tx.append([NewEvent(EventType.HELD, NOW)])

    await store.transact(body)
    assert len(runs) == 2
    assert len(await names_after(store, 0)) == 2


async def test_an_idle_connection_that_was_cut_is_made_anew(store: Store, sql: Sql) -> None:
    for _ in range(3):
        pids = {await store.transact(backend) for _ in range(8)}
        for pid in pids:
            cut(sql, pid)
    await store.transact(lambda tx: tx.append([NewEvent(EventType.NOTED, NOW)]))
    assert len(await names_after(store, 0)) == 1


async def test_a_commit_without_an_answer_is_unknown_and_not_repeated(
    store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, pids = [], []

    def body(tx: Transaction) -> None:
        runs.append(1)
        pids.append(backend(tx))
        tx.append([NewEvent(EventType.NOTED, NOW)])

    def cut_then_commit(dialogue: Dialogue) -> None:
        """The connection was there a moment ago."""
        cut(sql, pids[-1])
        commit(dialogue)

    commit = Dialogue.commit
    monkeypatch.setattr(Dialogue, "commit", cut_then_commit)
    with pytest.raises(CommitUnknown):
        await store.transact(body)
    monkeypatch.undo()
    assert len(runs) == 1
    assert await names_after(store, 0) == []


async def test_requests_that_are_refused_keep_their_connections(store: Store, sql: Sql) -> None:
    queue = WorkQueue(store)
    for _ in range(30):
        with pytest.raises(NotFound):
            await queue.apply(order(Verb.CANCEL, "ghost"))
        with pytest.raises(StorageError):
            await store.transact(lambda tx: tx.log_dispatch("d", "ghost", "ada", NOW))
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'rota'"
    )
    assert 1 <= count <= 4


async def test_who_waited_for_a_lock_sees_what_came_before_it_whatever_the_databases_default(
    database: str,
) -> None:
    """Under another isolation, two links could close a circle that each alone does not."""
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(
            psycopg.sql.SQL(
                "ALTER DATABASE {} SET default_transaction_isolation = 'serializable'"
            ).format(psycopg.sql.Identifier(name))
        )
    asked = "SHOW transaction_isolation"
    async with opened(database) as store:
        assert await store.transact(lambda tx: shown(tx, asked)) == "read committed"
    with connect(database, "rota") as ours, ours.transaction():
        assert ours.execute(asked).fetchone() == ("read committed",)


def shown(tx: Transaction, statement: str) -> str:
    assert isinstance(tx, PostgresTransaction)
    ((value,),) = tx._text(statement, {})
    return str(value)


# wake-ups


async def woken(by: Store, waiting: Store) -> None:
    seen = waiting.counter(Topic.READY)
    task = asyncio.ensure_future(waiting.wait(Topic.READY, seen, PATIENCE))
    await asyncio.sleep(0)
    await by.transact(lambda tx: tx.wake(Topic.READY))
    assert await task > seen


WAKE = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'rota-wake'"
)


async def listening(sql: Sql, stores: int = 2) -> set[int]:
    """Each store listens and speaks on one connection; what it said last tells that it listens."""
    said = f"{WAKE} AND (query LIKE 'LISTEN%' OR query LIKE 'NOTIFY%')"
    await until(lambda: len(sql(said)) == stores)
    return {pid for (pid,) in sql(said)}


async def test_a_wake_up_survives_the_loss_of_both_connections(
    store: Store, another_store: OpenStore, sql: Sql
) -> None:
    """What was missed meanwhile is looked for; what was to be said is said again."""
    other = await another_store()
    before = await listening(sql)
    await woken(by=store, waiting=other)
    for pid in before:
        cut(sql, pid)
    await woken(by=store, waiting=other)
    assert not await listening(sql) & before
    await woken(by=other, waiting=store)


async def test_what_could_not_be_said_is_said_on_the_next_connection(
    database: str, sql: Sql
) -> None:
    """The connection is cut while nobody looks at it, so that speaking fails."""
    listens, gate = threading.Event(), threading.Event()

    def heard(topics: set[Topic]) -> None:
        if topics == {Topic.READY}:
            listens.set()
            gate.wait(PATIENCE)

    others = await listening(sql, 1)
    speaker = Herald(database, heard)
    speaker.start()
    try:
        with psycopg.connect(database, autocommit=True) as listener:
            listener.execute("LISTEN rota")
            (pid,) = await listening(sql) - others
            sql("SELECT pg_notify('rota', 'somebody ready')")
            assert await asyncio.to_thread(listens.wait, PATIENCE)
            cut(sql, pid)
            speaker.tell({Topic.EVENTS})
            gate.set()
            assert any(Topic.EVENTS in one.payload for one in listener.notifies(timeout=PATIENCE))
    finally:
        speaker.stop(time.monotonic() + PATIENCE)


async def test_the_last_commits_of_a_store_are_told_before_it_is_closed(database: str) -> None:
    """Whether it listens already or not, and right after another was told."""
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("LISTEN rota")
        for _ in range(5):
            async with opened(database) as brief:
                for topic in (Topic.READY, Topic.EVENTS):
                    await brief.transact(lambda tx, topic=topic: tx.wake(topic))
            topics: set[str] = set()
            for notice in listener.notifies(timeout=PATIENCE):
                topics |= set(notice.payload.split()[1:])
                if {Topic.READY, Topic.EVENTS} <= topics:
                    break
            assert {Topic.READY, Topic.EVENTS} <= topics


async def test_a_commit_that_comes_after_the_end_rings_nobody(database: str) -> None:
    """Its descriptors may belong to others by then."""
    speaker = Herald(database, lambda _: None)
    speaker.start()
    await until(lambda: speaker._rests)
    speaker.stop(time.monotonic() + PATIENCE)
    (reader, writer), more = os.pipe(), os.pipe()  # where the bell was
    try:
        os.set_blocking(reader, False)
        os.set_blocking(more[0], False)
        speaker.tell({Topic.READY})
        for descriptor in (reader, more[0]):
            with pytest.raises(BlockingIOError):
                os.read(descriptor, 1)
    finally:
        for descriptor in (reader, writer, *more):
            os.close(descriptor)


@pytest.mark.parametrize("payload", ["", "   ", "who ready nonsense"])
async def test_whatever_others_notify_is_survived(
    store: Store, another_store: OpenStore, sql: Sql, payload: str
) -> None:
    other = await another_store()
    await listening(sql)
    sql("SELECT pg_notify('rota', :payload)", payload=payload)
    await woken(by=store, waiting=other)  # behind it on the same channel
    await woken(by=other, waiting=store)


async def test_commits_that_follow_each_other_shortly_are_told_together(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(herald, "BREATH_SECONDS", 0.3)
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("LISTEN rota")
        for _ in range(30):
            await store.transact(lambda tx: tx.wake(Topic.READY))
        await store.transact(lambda tx: tx.wake(Topic.EVENTS))
        heard: list[str] = []
        for notice in listener.notifies(timeout=PATIENCE):
            heard += [notice.payload]
            if Topic.EVENTS in notice.payload:
                break
    assert any(Topic.READY in one for one in heard), "the first is told at once"
    assert len(heard) < 10, "and the others not one by one"
    assert Topic.EVENTS in heard[-1], "nothing is left untold"


# a server that cannot be used


@asynccontextmanager
async def opened(url: str, lanes: int = 1) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, lanes=lanes)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def test_a_connection_that_cannot_be_set_up_is_not_left_open(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connection] = []

    def noted(*arguments: Any, **options: Any) -> Connection:
        made.append(connecting(*arguments, **options))
        return made[-1]

    connecting = Connection.connect
    monkeypatch.setattr(Connection, "connect", staticmethod(noted))
    monkeypatch.setattr(postgres_connection, "_SETTINGS", "SET nothing_of_that_name = off")
    with pytest.raises(psycopg.Error):
        connect(empty_postgres, "rota")
    assert [one.closed for one in made] == [True]


@pytest.mark.parametrize(("asked", "idle"), [("", "10"), ("keepalives_idle=77", "77")])
def test_a_server_that_vanishes_without_a_word_is_given_up_unless_the_address_says_how(
    database: str, asked: str, idle: str
) -> None:
    mark = "&" if "?" in database else "?"
    with connect(f"{database}{mark}{asked}", "test") as connection:
        said = connection.info.get_parameters()
    assert said["keepalives_idle"] == idle
    assert {"keepalives_interval", "keepalives_count", "tcp_user_timeout"} <= said.keys()


async def test_a_server_that_has_gone_silent_does_not_keep_the_store_from_closing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLOSE_SECONDS", 0.1)
    store = PostgresStore(database, lanes=1)
    await store.open()
    silent = threading.Event()
    unanswered = store.transact(lambda tx: silent.wait(PATIENCE))
    await asyncio.wait_for(store.close(), PATIENCE / 2)
    assert not unanswered.done()
    silent.set()
    assert await unanswered


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    url = "postgresql://me:secret@127.0.0.1:1/rota"
    with pytest.raises(StorageUnavailable, match="cannot be reached") as refused:
        async with opened(url):
            pass
    assert "postgresql://me@127.0.0.1:1/rota" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://me:s3?cret@db/rota", "postgresql://me@db/rota"),
        ("postgresql://me:s3%2Fcret@db:5/rota?sslmode=require", "postgresql://me@db:5/rota"),
        ("postgresql://[::1]/rota?user=me&p%61ssword=s3cret", "postgresql://me@[::1]/rota"),
        ("postgresql:///rota?host=/run/pg&sslpassword=s3cret", "postgresql://%2Frun%2Fpg/rota"),
        ("postgresql://a:1,b:2/rota", "postgresql://a:1,b:2/rota"),
        ("postgresql://a,b/rota", "postgresql://a,b/rota"),
        ("postgresql://me:s3:cret@db?user=x@y", "postgresql://x%40y@db/"),
        ("postgresql://me:s3#cret@db/rota", "postgresql://me@db/rota"),
        ("postgresql:///rota", "postgresql:///rota"),
    ],
)
def test_an_address_is_shown_without_anything_secret(address: str, shown: str) -> None:
    assert PostgresStore(address).url == shown


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3/cret@db/rota",
        "postgresql://me:33/cret@db/rota",
        "postgresql://me:s3@cret@db/rota",
        "postgresql://me:s3%cret@db/rota",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(address: str) -> None:
    with pytest.raises(InvalidInput, match="written as %2F") as refused:
        PostgresStore(address)
    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_a_statement_that_the_server_has_ended_is_told_as_that(database: str) -> None:
    mark = "&" if "?" in database else "?"
    limited = f"{database}{mark}options=-c%20statement_timeout%3D20"

    def body(tx: Transaction) -> None:
        tx._text("SELECT pg_sleep(30)", {})  # type: ignore[attr-defined]

    async with opened(limited) as store:
        with pytest.raises(StorageBusy, match=r"has ended the statement \(canceling statement due"):
            await store.transact(body)
        assert await store.read(lambda tx: tx.list_projects(None, 1)) == []


async def test_a_table_that_another_session_has_locked_is_told_and_nothing_waits_for_ever(
    database: str, store: Store, begin: Callable[[], OpenTransaction]
) -> None:
    def body(tx: Transaction) -> Any:
        return tx._text("SELECT current_setting('lock_timeout')", {})  # type: ignore[attr-defined]

    assert await store.transact(body) == [("10s",)]
    mark = "&" if "?" in database else "?"
    async with opened(f"{database}{mark}options=-c%20lock_timeout%3D50") as hasty:
        other = begin()
        other.lock_out("projects")
        with pytest.raises(StorageBusy, match="another session has held a lock for too long"):
            await hasty.read(lambda tx: tx.list_projects(None, 1))
        other.commit()
        assert await hasty.read(lambda tx: tx.list_projects(None, 1)) == []


async def test_a_database_that_is_not_there(database: str) -> None:
    with pytest.raises(StorageUnavailable, match="does not exist"):
        async with opened(database + "_not"):
            pass


async def test_a_server_that_may_only_be_read_is_read(database: str, store: Store) -> None:
    entry = ("0190a000-0000-7000-8000-000000000000", NewItem("chore", "x"))
    await store.transact(lambda tx: tx.insert_items([entry], None, NOW))
    async with opened(database + "?options=-c%20default_transaction_read_only%3Don") as standby:
        assert await standby.read(lambda tx: tx.get_item(entry[0])) is not None
        with pytest.raises(StorageUnavailable, match="read-only"):
            await standby.transact(lambda tx: tx.promote_due(NOW))
        assert "read-only" in (standby.refusal or ""), "it answers, and stores nothing"


async def test_a_value_that_cannot_be_stored_is_bad_input(store: Store) -> None:
    with pytest.raises(InvalidInput):
        await store.transact(lambda tx: tx.get_item("a\x00b"))
    with pytest.raises(InvalidInput):
        await store.read(lambda tx: tx.get_item("\ud800"))
    assert await store.read(lambda tx: tx.get_item("x")) is None


async def test_who_loses_the_race_for_a_slot_at_every_try_hears_that_it_is_taken(
    store: Store, sql: Sql
) -> None:
    queue = WorkQueue(store)
    await queue.submit(NewItem("chore", "wanted by two"))
    sql(
        "CREATE FUNCTION outrun() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE unique_violation USING CONSTRAINT = 'one_in_progress_per_slot'; END $$"
    )
    sql(
        "CREATE TRIGGER outrun BEFORE UPDATE ON work_items FOR EACH ROW"
        " WHEN (new.status = 'in_progress') EXECUTE FUNCTION outrun()"
    )
    try:
        answer = await queue.claim(ClaimRequest("ada"))
    finally:
        sql("DROP FUNCTION outrun CASCADE")  # the tables are everybody's
    assert answer == ClaimResult([], NothingClaimed.NO_FREE_SLOT)


async def test_a_note_of_a_holder_whose_claim_ends_meanwhile_is_refused(
    store: Store, another_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = WorkQueue(store), WorkQueue(await another_store())
    item = await queue.submit(NewItem("chore", "Mend the gate"))
    (held,) = (await queue.claim(ClaimRequest("ada"))).items
    loop, find, turns = asyncio.get_running_loop(), moves.find, iter([True])

    def found(tx: Transaction, item_id: str) -> WorkItem:
        seen = find(tx, item_id)
        if next(turns, False):  # between the look and the write
            ending = other.apply(order(Verb.RELEASE, item_id)._replace(force=True))
            asyncio.run_coroutine_threadsafe(ending, loop).result(PATIENCE)
        return seen

    monkeypatch.setattr(moves, "find", found)
    with pytest.raises(ClaimLost):
        await queue.note(item.id, "I have it", token=held.claim.token)
    monkeypatch.undo()
    assert (await store.read(lambda tx: find(tx, item.id))).notes is None


async def test_a_hold_on_an_item_that_changes_meanwhile_is_put_on_what_it_has_become(
    store: Store, another_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = WorkQueue(store), WorkQueue(await another_store())
    item = await queue.submit(NewItem("chore", "Mend the gate"))
    loop, find, turns = asyncio.get_running_loop(), moves.find, iter([True])

    def found(tx: Transaction, item_id: str) -> WorkItem:
        seen = find(tx, item_id)
        if next(turns, False):  # between the look and the write
            noting = other.note(item_id, "it rains")
            asyncio.run_coroutine_threadsafe(noting, loop).result(PATIENCE)
        return seen

    monkeypatch.setattr(moves, "find", found)
    held = await queue.hold(item.id, "wait for Monday")
    assert (held.hold_reason, held.notes) == ("wait for Monday", "it rains")
