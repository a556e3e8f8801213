"""What only PostgreSQL can do to a signal: causes out of order, and two who fire it at once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rota.model.clock import IdFactory
from rota.model.signals import FiringStatus, Signal, SignalStatus
from rota.model.status import Status, Verb
from rota.model.work import WorkItem
from rota.queue import WorkQueue, moves
from rota.signals import Signals, SignalScheduler
from rota.signals.firing import fire_taken
from rota.signals.syncing import sync
from rota.storage.port import Edit, Store, Transaction
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


async def gathering(store: Store, clock: ManualClock, kind: str, items: list[WorkItem]) -> Signal:
    """A signal that fires as often as these come together."""
    signals = Signals(store, clock)
    trigger = {"kind": kind, "items": [one.id for one in items], "in": ["completed"]}
    new = signals.read(trigger, {"kind": "submit", "title": "Look"}, max_fires=None)
    signal = await signals.create(new)
    assert await SignalScheduler(store, owner="first", clock=clock).tick() == 0
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
    signal = await gathering(store, clock, "work_items.any_in", items)
    now, processor = clock.text(), SignalScheduler(store, owner="p", clock=clock)
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
    signal = await gathering(store, clock, "work_items.all_in", items)
    now, ids = clock.text(), IdFactory(clock)
    if leased:  # what is older than its processor
        clock.advance(1)
    another = SignalScheduler(store, owner="another", clock=clock)
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
    signal = await gathering(store, clock, "work_items.any_in", items)
    processors = [SignalScheduler(store, owner=f"p{n}", clock=clock) for n in range(2)]
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
    signals = Signals(await another_store(), clock)
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
        async with asyncio.timeout(PATIENCE):
            while not sql(WAITS_FOR_A_LOCK):  # noqa: ASYNC110 - a server of its own says so
                await asyncio.sleep(0.01)
    finally:
        let_go.set()
    await first
    await second
    assert [one.name for one in await signals.find()] == ["release"]
