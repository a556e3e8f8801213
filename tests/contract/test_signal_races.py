"""What only PostgreSQL can do to a signal: causes out of order, and two who fire it at once."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from rota.model.claims import ClaimedItem, ClaimRequest
from rota.model.clock import IdFactory
from rota.model.errors import StorageLocked
from rota.model.signals import FiringStatus, Signal, SignalStatus
from rota.model.status import Status, Verb
from rota.model.work import WorkItem
from rota.queue import Ledger, WorkQueue, moves
from rota.queue.moves import Order
from rota.signals import Signals, SignalScheduler
from rota.signals.firing import fire_taken
from rota.signals.making import insert, signal_of
from rota.signals.syncing import sync
from rota.storage.port import Edit, Store, Transaction
from rota.storage.transaction import SqlTransaction
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order
from tests.contract.conftest import Sql

PATIENCE = 30.0
WAITS_FOR_A_LOCK = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def database(empty_postgres: str) -> str:
    """Every test of this file runs on PostgreSQL alone."""
    return empty_postgres


async def somebody_waits(sql: Sql) -> None:
    async with asyncio.timeout(PATIENCE):
        while not sql(WAITS_FOR_A_LOCK):  # noqa: ASYNC110 - a server of its own says so
            await asyncio.sleep(0.01)


async def gathering(store: Store, kind: str, items: list[WorkItem]) -> Signal:
    """A signal that fires as often as these come together."""
    signals = Signals(store)
    trigger = {"kind": kind, "items": [one.id for one in items], "in": ["completed"]}
    new = signals.read(trigger, {"kind": "submit", "title": "Look"}, max_fires=None)
    signal = await signals.create(new)
    assert await SignalScheduler(store, owner="first").tick() == 0
    return signal


async def firings(store: Store, signal: Signal) -> list[tuple[FiringStatus, str | None]]:
    """Without the one that looks at how things stand when the signal is made."""
    found = await store.read(lambda tx: tx.firings_of(signal.id, 50))
    return [(one.status, one.error) for one in reversed(found) if one.event_seq is not None]


def completed(item: WorkItem, now: str) -> Callable[[Transaction], Any]:
    return lambda tx: moves.given(moves.apply(tx, order(Verb.COMPLETE, item.id), "", now))


async def test_a_cause_with_a_lower_number_that_commits_later_is_not_missed(
    store: Store, queue: WorkQueue, clock: ManualClock
) -> None:
    items = [await bring_to(queue, Status.IN_PROGRESS, agent=agent) for agent in ("ada", "bob")]
    other = await bring_to(queue, Status.QUEUED)
    signal = await gathering(store, "work_items.any_in", items)
    now, processor = clock.text(), SignalScheduler(store, owner="p")
    has_written, has_number, let_go = (threading.Event() for _ in range(3))

    def older(tx: Transaction) -> None:
        tx.edit(Edit(other.id, now, {"notes": "first"}))
        has_written.set()
        assert has_number.wait(PATIENCE)
        completed(items[0], now)(tx)

    def younger(tx: Transaction) -> None:
        assert has_written.wait(PATIENCE)
        completed(items[1], now)(tx)
        has_number.set()
        assert let_go.wait(PATIENCE)

    first, second = store.transact(older), store.transact(younger)
    try:
        await first
        assert await processor.tick() == 1
    finally:
        let_go.set()
    await second
    assert await processor.tick() == 1
    assert await firings(store, signal) == [(FiringStatus.ENQUEUED, None)] * 2


@pytest.mark.parametrize("leased", [False, True], ids=["fresh", "leased"])
async def test_two_who_fire_the_same_signal_at_once_fire_it_once(
    store: Store, queue: WorkQueue, clock: ManualClock, leased: bool
) -> None:
    items = [await bring_to(queue, Status.IN_PROGRESS, agent=agent) for agent in ("ada", "bob")]
    signal = await gathering(store, "work_items.all_in", items)
    now, ids = clock.text(), IdFactory(clock)
    if leased:  # what is older than its processor
        clock.advance(1)
    another = SignalScheduler(store, owner="another")
    for item in items:
        await store.transact(completed(item, now))
    reached, let_go = threading.Event(), threading.Event()

    def one(tx: Transaction) -> FiringStatus | None:
        """Has one of the two causes in its hands when the other processor comes for both."""
        (taken,) = tx.take_firings("one", clock.text(), clock.text(60), 1)
        reached.set()
        assert let_go.wait(PATIENCE)
        return fire_taken(tx, taken, "one", now, ids)

    firing = store.transact(one)
    try:
        assert await asyncio.to_thread(reached.wait, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            assert await another.tick() == 0
    finally:
        let_go.set()
    assert await firing is FiringStatus.ENQUEUED
    assert await another.tick() == 0
    assert sorted(await firings(store, signal), key=str) == [
        (FiringStatus.ENQUEUED, None),
        (FiringStatus.SKIPPED, "an earlier firing has seen this"),
    ]


async def test_who_leased_a_cause_that_another_firing_has_seen_fires_nothing(
    store: Store, queue: WorkQueue, clock: ManualClock
) -> None:
    items = [await bring_to(queue, Status.IN_PROGRESS, agent=agent) for agent in ("ada", "bob")]
    signal = await gathering(store, "work_items.any_in", items)
    processors = [SignalScheduler(store, owner=f"p{n}") for n in range(2)]
    for item in items:
        await store.transact(completed(item, clock.text()))
    taken = [
        await store.transact(lambda tx: tx.take_firings("p0", clock.text(), clock.text(60), 1)),
        await store.transact(lambda tx: tx.take_firings("p1", clock.text(), clock.text(60), 1)),
    ]
    ended = await asyncio.gather(
        *(one._process(mine) for one, (mine,) in zip(processors, taken, strict=True))
    )
    # The other may find its firing ended, or see by itself that there is nothing left to fire.
    assert sorted(map(str, ended)) in (["None", "enqueued"], ["enqueued", "skipped"])
    statuses = [status for status, _ in await firings(store, signal)]
    assert sorted(statuses) == [FiringStatus.ENQUEUED, FiringStatus.SKIPPED]


async def test_two_servers_that_start_at_once_make_one_signal(
    store: Store,
    another_store: Callable[[], Awaitable[Store]],
    clock: ManualClock,
    sql: Sql,
) -> None:
    signals = Signals(await another_store())
    trigger = {"kind": "work_item.status.transition", "to": ["failed"]}
    file = [signals.read(trigger, name="release", configured=True)]
    made, let_go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        """What it makes has fired when the other comes to see it."""
        sync(tx, file, "north", clock.text(), IdFactory(clock))
        tx.end_signal(tx.signal_named("release") or "", SignalStatus.FIRED, clock.text())
        made.set()
        assert let_go.wait(PATIENCE)

    first = store.transact(slow)
    try:
        assert await asyncio.to_thread(made.wait, PATIENCE)
        second = asyncio.create_task(signals.sync(file, "south"))
        await somebody_waits(sql)
    finally:
        let_go.set()
    await first
    await second
    assert [one.name for one in await signals.find()] == ["release"]


@dataclass(frozen=True)
class Open:
    """A transaction under way."""

    transaction: asyncio.Future[None]
    let_go: threading.Event

    async def commit(self) -> None:
        self.let_go.set()
        await self.transaction


Opened = Callable[[Callable[[Transaction], Any]], Awaitable[Open]]


@pytest.fixture
async def opened(store: Store) -> AsyncIterator[Opened]:
    """Runs a body whose transaction stays open until the test lets it go, or ends."""
    async with AsyncExitStack() as ending:

        async def opened(body: Callable[[Transaction], Any]) -> Open:
            reached, let_go = threading.Event(), threading.Event()

            def slow(tx: Transaction) -> None:
                body(tx)
                tx.last_event()  # is answered, so all of it has reached the server
                reached.set()
                assert let_go.wait(PATIENCE)

            one = Open(store.transact(slow), let_go)
            ending.push_async_callback(one.commit)
            assert await asyncio.to_thread(reached.wait, PATIENCE)
            return one

        yield opened


ON_END = {"kind": "work_item.status.transition", "to": ["completed"]}


@pytest.mark.parametrize("kind", ["transition", "all_in"])
async def test_a_signal_that_is_made_while_a_move_is_open_fires_when_that_commits(  # noqa: PLR0917 - fixtures
    store: Store,
    queue: WorkQueue,
    clock: ManualClock,
    sql: Sql,
    opened: Opened,
    kind: str,
) -> None:
    """That move looked for listeners before this one was there."""
    item, other = [await bring_to(queue, Status.IN_PROGRESS, agent=one) for one in ("ada", "bob")]
    move = await opened(completed(item, clock.text()))
    signals, processor = Signals(store), SignalScheduler(store, owner="p")
    trigger = ON_END
    if kind == "all_in":
        items = [item.id, other.id]
        trigger = {"kind": "work_items.all_in", "items": items, "in": ["completed"]}
    signal = await signals.create(signals.read(trigger, {"kind": "submit"}, max_fires=None))
    await processor.tick()
    await queue.complete(other.id)
    assert await processor.tick() == (1 if kind == "transition" else 0)
    assert sql("SELECT 1 FROM young_signals")
    await move.commit()
    for fired in (1, 0):
        assert await processor.tick() == fired
    assert sql("SELECT 1 FROM young_signals") == []
    assert (await signals.get(signal.id)).signal.fires == (2 if kind == "transition" else 1)


async def test_a_move_that_is_made_while_a_signal_is_being_made_fires_it(
    store: Store, queue: WorkQueue, clock: ManualClock, opened: Opened
) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    signals, processor = Signals(store), SignalScheduler(store, owner="p")
    new = signals.read(ON_END, work_item_id=item.id)
    signal = signal_of(new, IdFactory(clock).new(), None, clock.text())
    making = await opened(lambda tx: insert(tx, signal, clock.text()))
    await queue.complete(item.id)
    assert await processor.tick() == 0
    await making.commit()
    assert await processor.tick() == 1
    assert (await signals.get(signal.id)).signal.status is SignalStatus.FIRED


async def test_a_move_that_is_younger_than_an_open_signal_and_ends_after_it_fires_it(  # noqa: PLR0917 - fixtures
    store: Store,
    queue: WorkQueue,
    clock: ManualClock,
    sql: Sql,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    signals, processor = Signals(store), SignalScheduler(store, owner="p")
    new = signals.read(ON_END, work_item_id=item.id)
    signal = signal_of(new, IdFactory(clock).new(), None, clock.text())
    # What wakes others takes an id of a transaction, and would hide who is the youngest.
    monkeypatch.setattr(store, "_herald", None)
    making = await opened(lambda tx: insert(tx, signal, clock.text()))
    move = await opened(completed(item, clock.text()))
    await making.commit()
    assert await processor.tick() == 0
    assert sql("SELECT 1 FROM young_signals")
    await move.commit()
    assert await processor.tick() == 1


async def test_a_signal_is_bounded_by_who_makes_it_and_otherwise_by_who_fires(
    store: Store, clock: ManualClock, sql: Sql
) -> None:
    """However long no server fires: what comes meanwhile need not be looked through."""
    bounded = "SELECT until IS NOT NULL FROM young_signals"
    signals = Signals(store)
    new = signals.read(ON_END, {"kind": "submit"})
    await signals.create(new)
    assert sql(bounded) == [(True,)]
    signal = signal_of(new, IdFactory(clock).new(), None, clock.text())
    await store.transact(lambda tx: insert(tx, signal, clock.text()))  # and dies
    assert sorted(sql(bounded)) == [(False,), (True,)]
    await SignalScheduler(store, owner="p").tick()
    assert sql(bounded) == []


async def test_what_was_overlooked_before_a_backup_fires_after_a_restore_into_a_new_cluster(
    store: Store, queue: WorkQueue, another_store: Callable[[], Awaitable[Store]], sql: Sql
) -> None:
    """Its numbers of transactions mean nothing there, and all of them have ended."""
    item = await bring_to(queue, Status.IN_PROGRESS)
    signals = Signals(store)
    await signals.create(signals.read(ON_END, {"kind": "submit"}))
    # As a dump has it: an event of a transaction that is far ahead, and neither had seen the other.
    sql(
        "INSERT INTO events (type, occurred_at, work_item_id, from_status, to_status, txid)"
        " VALUES ('work.completed', :now, :id, 'in_progress', 'completed', '900000000')",
        now=item.updated_at,
        id=item.id,
    )
    sql("DELETE FROM work_signal_firings")
    restored = await another_store()
    assert sql("SELECT 1 FROM young_signals") == []
    assert await SignalScheduler(restored, owner="p").tick() == 1


async def test_firings_do_not_wait_for_signals_that_cannot_catch_up(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = Signals(store)
    signal = await signals.create(signals.read({"kind": "time", "at": clock.text(60)}))
    clock.advance(60)

    def slow(tx: Transaction) -> int:
        raise StorageLocked("the server has ended the statement; try again")

    monkeypatch.setattr(SqlTransaction, "catch_up", slow)
    await SignalScheduler(store, owner="p").tick()
    assert (await signals.get(signal.id)).signal.status is SignalStatus.FIRED


async def test_a_move_before_a_signal_does_not_fire_it_and_one_after_it_fires_it_once(
    store: Store, queue: WorkQueue, opened: Opened
) -> None:
    """Also while another transaction is open, and keeps the signal young."""
    unrelated = await bring_to(queue, Status.QUEUED)
    await opened(lambda tx: tx.edit(Edit(unrelated.id, unrelated.updated_at, {"notes": "open"})))
    items = [await bring_to(queue, Status.IN_PROGRESS, agent=one) for one in ("ada", "bob")]
    await queue.complete(items[0].id)
    signals, processor = Signals(store), SignalScheduler(store, owner="p")
    signal = await signals.create(signals.read(ON_END, {"kind": "submit"}, max_fires=None))
    assert await processor.tick() == 0
    await queue.complete(items[1].id)
    for fired in (1, 0):
        assert await processor.tick() == fired
    assert len((await signals.get(signal.id)).firings) == 1


async def test_a_release_ends_no_claim_that_was_made_after_it_was_judged(
    store: Store,
    another_store: Callable[[], Awaitable[Store]],
    queue: WorkQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, others = asyncio.get_running_loop(), Ledger.on(await another_store()).queue
    signals = Signals(store)
    trigger = {"kind": "work_item.status.transition", "to": ["blocked"]}
    signal = await signals.create(signals.read(trigger, {"kind": "release"}))
    item = await bring_to(queue, Status.BLOCKED)
    apply, held = moves.apply, list[ClaimedItem]()
    quicker = [order(Verb.RELEASE, item.id)]

    async def somebody_else(takes_back: Order) -> None:
        await others.apply(takes_back)
        held.extend((await others.claim(ClaimRequest("bob"))).items)

    def late(tx: Transaction, ordered: Order, *given: Any) -> Any:
        if quicker:
            asyncio.run_coroutine_threadsafe(somebody_else(quicker.pop()), loop).result(PATIENCE)
        return apply(tx, ordered, *given)

    monkeypatch.setattr(moves, "apply", late)
    assert await SignalScheduler(store, owner="p").tick() == 0
    assert await firings(store, signal) == [(FiringStatus.SKIPPED, "it has been taken anew since")]
    await others.complete(item.id, token=held[0].claim.token)
