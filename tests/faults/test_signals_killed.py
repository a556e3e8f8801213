"""Signals under fire: killed at every commit, and by kill -9 at random: one follow-up each."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from rota.app import open_store
from rota.model.clock import to_text
from rota.model.events import EventType
from rota.model.signals import FiringRecord, FiringStatus, SignalStatus
from rota.model.status import Status
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.signals import Signals, SignalScheduler, firing
from rota.signals.processor import LEASE_SECONDS
from rota.storage.port import Store, Transaction
from rota.storage.primitives import Primitives
from rota.testing.clock import ManualClock
from rota.testing.standing import WAY, order
from tests.faults.processes import Process

Start = Callable[..., Process]
Figure = Callable[[str], None]
BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}
FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}


class Killed(BaseException):
    pass


class MortalStore:
    """Dies at its n-th commit: just before it, or just after, when nobody hears the answer."""

    def __init__(self, store: Store, point: int, *, after: bool) -> None:
        self._store = store
        self._left = point
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, body: Callable[[Transaction], Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Killed
        if self._left > 0:
            return self._store.transact(body)
        return asyncio.ensure_future(self._die(body))

    async def _die(self, body: Callable[[Transaction], Any]) -> Any:
        if self._after:
            await self._store.transact(body)
        raise Killed


@dataclass(frozen=True)
class Verdict:
    signals: int
    fired: int
    follow_ups: int
    new_items: int
    doubled: int
    announced_wrongly: int
    open: int

    @property
    def faults(self) -> list[str]:
        return [
            name
            for name, count in (
                ("lost", self.signals - self.fired),
                ("doubled", self.doubled),
                ("announced wrongly", self.announced_wrongly),
                ("left open", self.open),
                ("without a follow-up", self.signals - self.follow_ups - self.new_items),
            )
            if count
        ]


async def judged(store: Store) -> Verdict:
    def look(tx: Transaction) -> Verdict:
        signals = tx.list_signals(None, None, None, 10_000)
        fired = [one for one in signals if one.status is SignalStatus.FIRED and one.fires == 1]
        events = [one for one in tx.events_after(0, 100_000) if one.type == EventType.SIGNAL_FIRED]
        told = Counter(one.data["signal_id"] for one in events)
        firings = {one.id: one for signal in signals for one in tx.firings_of(signal.id, 10)}
        follow_ups = tx.list_follow_ups(None, None, None, None, 100_000)
        made = [one for one in events if "work_item_id" in one.data]
        wrong = [one for one in events if one.data["firing_id"] not in firings]
        states = Counter(one.status for one in firings.values())
        return Verdict(
            len(signals),
            len(fired),
            len(follow_ups),
            len(made),
            sum(count - 1 for count in told.values()),
            len(wrong),
            states[FiringStatus.QUEUED] + states[FiringStatus.PROCESSING],
        )

    return await store.read(look, long=True)


async def prepared(store: Store, count: int) -> None:
    """So many items with a signal each; half of them block, and half fail."""
    ledger, signals = Ledger.on(store), Signals(store)
    for number in range(count):
        item = await ledger.queue.submit(NewItem("chore", f"item {number}"))
        trigger = BLOCKS if number % 2 else FAILS
        await signals.create(signals.read(trigger, work_item_id=item.id))
        for verb in WAY[Status.BLOCKED if number % 2 else Status.FAILED]:
            await ledger.queue.apply(order(verb, item.id))


@asynccontextmanager
async def opened(database: str, clock: ManualClock | None = None) -> AsyncIterator[Store]:
    async with open_store(database, clock) as store:
        yield store


async def die_everywhere(database: str, *, late: bool) -> tuple[int, Verdict]:
    """A processor dies at its first commit, one with new signals at its second, and so on, until
    one comes through; each time a survivor goes on with what is left. One that came late finds
    what is older than itself, and takes it by lease."""
    clock, points = ManualClock(), 0
    async with opened(database, clock) as store:
        for after in (False, True):
            reached, step = True, 0
            while reached:
                step += 1
                await prepared(store, 2)
                clock.advance(int(late))
                mortal: Any = MortalStore(store, step, after=after)
                reached = await died(SignalScheduler(mortal, owner=f"{after}-{step}"))
                points += reached
                clock.advance(LEASE_SECONDS + 1)
                await SignalScheduler(store, owner="survivor").tick()
        return points, await judged(store)


async def died(processor: SignalScheduler) -> bool:
    try:
        await processor.tick()
    except Killed:
        return True
    return False


@pytest.mark.parametrize(("late", "least"), [(False, 2), (True, 6)])
async def test_a_processor_that_dies_at_any_commit_loses_and_doubles_nothing(
    database: str, figure: Figure, late: bool, least: int
) -> None:
    points, verdict = await die_everywhere(database, late=late)
    figure(f"{points} points of death: {verdict}")
    assert verdict.faults == []
    assert points >= least


async def careless(self: SignalScheduler, taken: FiringRecord) -> FiringStatus:
    """What follows is made in one transaction, and that it was made is written down in another."""
    now = to_text(self._clock.now())

    def make(tx: Transaction) -> None:
        facts = tx.firing_facts(taken)
        assert facts is not None
        signal, event = facts.signal, facts.event
        occasion = firing.Occasion(signal, taken, event, facts.item, now, self._ids)
        tx.append([firing._fired(signal, taken, event, firing.perform(tx, occasion), now)])

    def mark(tx: Transaction) -> None:
        counted = {"id": taken.signal_id, "fires": 0, "seq": taken.event_seq, "last": 1}
        cast(Primitives, tx)._rows("fire_signal", now=now, **counted)
        tx.end_firing(replace(taken, status=FiringStatus.ENQUEUED), self._owner, now)

    await self._store.transact(make)
    await self._store.transact(mark)
    return FiringStatus.ENQUEUED


async def test_a_processor_with_two_transactions_would_be_found_out(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SignalScheduler, "_process", careless)
    _, verdict = await die_everywhere(database, late=True)
    assert "doubled" in verdict.faults


async def kill_processors(
    database: str, start: Start, figure: Figure, *, count: int, kills: int, seed: int
) -> None:
    dice = random.Random(seed)
    async with opened(database) as store:
        await prepared(store, count)
        for kill in range(kills):
            workers = [
                start("-m", "tests.faults.signal_processor", database, f"{kill}-{n}")
                for n in range(2)
            ]
            for worker in workers:
                worker.line()  # it is at work
            await asyncio.sleep(dice.uniform(0, 0.02))
            for worker in workers:
                worker.kill()
        last = start("-m", "tests.faults.signal_processor", database, "last")
        async with asyncio.timeout(60):
            while (verdict := await judged(store)).open:
                last.line()
        last.kill()
    figure(f"{count} signals × {kills} kills of two processors: {verdict}")
    assert verdict.faults == []


async def test_processors_that_are_killed_lose_and_double_nothing(
    database: str, start: Start, figure: Figure
) -> None:
    await kill_processors(database, start, figure, count=60, kills=3, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
async def test_processors_that_are_killed_fifty_times(
    database: str, start: Start, figure: Figure, seed: int
) -> None:
    await kill_processors(database, start, figure, count=2_000, kills=50, seed=seed)
