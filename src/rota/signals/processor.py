"""Takes what is to fire, by lease, and fires it; what goes wrong is tried again, and then shown."""

import asyncio
from datetime import timedelta

import structlog

from rota.model.clock import Clock, IdFactory, SystemClock, from_text, to_text
from rota.model.signals import FiringRecord, FiringStatus
from rota.signals.firing import fire, give_up
from rota.storage.port import Store, Topic, Transaction

log = structlog.get_logger()

AT_ONCE = 100
LEASE_SECONDS = 60.0
MOST_ATTEMPTS = 8
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
POLL_SECONDS = 5.0  # also when nobody wakes us


class SignalScheduler:
    """Any number of them, on any number of machines, may share one database."""

    name = "signals"

    def __init__(self, store: Store, *, owner: str, clock: Clock | None = None) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock or SystemClock()
        self._ids = IdFactory(self._clock)

    async def tick(self) -> int:
        """Everything that is due, once; how many fired."""
        now = self._clock.now()
        await self._store.transact(lambda tx: tx.expire_signals(to_text(now)))
        fired = 0
        while batch := await self._take():
            ended = await asyncio.gather(*(self._process_all(same) for same in _by_signal(batch)))
            fired += sum(one.count(FiringStatus.ENQUEUED) for one in ended)
            if len(batch) < AT_ONCE:
                break
        return fired

    async def _take(self) -> list[FiringRecord]:
        now = self._clock.now()
        until = to_text(now + timedelta(seconds=LEASE_SECONDS))
        # Looked at first: most of the time there is nothing, and a read costs next to nothing.
        following = await self._store.read(lambda tx: tx.next_firing())
        if following is None or following > to_text(now):
            return []
        return await self._store.transact(
            lambda tx: tx.take_firings(self._owner, to_text(now), until, AT_ONCE)
        )

    async def _process_all(self, same: list[FiringRecord]) -> list[FiringStatus | None]:
        """Firings of one signal count on the same row: one after the other, and all at once where
        none of them is in the way."""
        now = to_text(self._clock.now())

        def body(tx: Transaction) -> list[FiringStatus | None]:
            return [fire(tx, one.id, self._owner, now, self._ids.new) for one in same]

        if len(same) > 1 and all(one.attempt == 1 for one in same):
            try:
                return await self._store.transact(body)
            except Exception:  # noqa: BLE001 - nothing has happened; each says for itself what it is
                log.info("firings go one by one", signal=same[0].signal_id, firings=len(same))
        return [await self._process(one) for one in same]

    async def _process(self, firing: FiringRecord) -> FiringStatus | None:
        now = to_text(self._clock.now())
        if firing.attempt > MOST_ATTEMPTS:  # it has killed whoever tried: nobody tries any more
            why = firing.error or "whoever processed it died over it"
            await self._store.transact(lambda tx: give_up(tx, firing, self._owner, now, why))
            return FiringStatus.FAILED
        try:
            return await self._store.transact(
                lambda tx: fire(tx, firing.id, self._owner, now, self._ids.new)
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, it is told and tried again
            return await self._failed(firing, f"{type(error).__name__}: {error}")

    async def _failed(self, firing: FiringRecord, error: str) -> FiringStatus | None:
        now = self._clock.now()
        log.warning("signal did not fire", firing=firing.id, attempt=firing.attempt, error=error)
        pause = min(FIRST_PAUSE * 2.0 ** (firing.attempt - 1), LONGEST_PAUSE)
        until = to_text(now + timedelta(seconds=pause))

        def body(tx: Transaction) -> FiringStatus | None:
            if firing.attempt >= MOST_ATTEMPTS:
                give_up(tx, firing, self._owner, to_text(now), error)
                return FiringStatus.FAILED
            tx.postpone_firing(firing.id, self._owner, until, error, counted=True)
            return None

        return await self._store.transact(body)

    async def pause(self) -> float:
        """Until the next is due, at most the time between two polls."""
        following = await self._store.read(lambda tx: tx.next_firing())
        if following is None:
            return POLL_SECONDS
        ahead = (from_text(following) - self._clock.now()).total_seconds()
        return min(max(ahead, 0.0), POLL_SECONDS)


def _by_signal(batch: list[FiringRecord]) -> list[list[FiringRecord]]:
    groups: dict[str, list[FiringRecord]] = {}
    for firing in batch:
        groups.setdefault(firing.signal_id, []).append(firing)
    return list(groups.values())


class SignalChore:
    """A chore for the daemon: it goes on as soon as an event was committed anywhere."""

    name = "signals"

    def __init__(self, store: Store, signals: SignalScheduler) -> None:
        self._store = store
        self._signals = signals

    async def tick(self) -> float:
        seen = self._store.counter(Topic.EVENTS)
        await self._signals.tick()
        await self._store.wait(Topic.EVENTS, seen, await self._signals.pause())
        return 0.0
