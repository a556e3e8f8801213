"""Takes what is to fire, by lease, and fires it; what goes wrong is tried again, and then shown."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from rota.model.clock import Clock, IdFactory, SystemClock, from_text, to_text
from rota.model.signals import FiringRecord, FiringStatus
from rota.signals.firing import fire, fire_taken, give_up
from rota.storage.port import Store, Transaction
from rota.storage.wakeups import Commits
from rota.tracing import span

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
        self.observe: Callable[[float], None] = lambda seconds: None  # from an event to its firing
        self._store = store
        self._owner = owner
        self._clock = clock or SystemClock()
        self._ids = IdFactory(self._clock)
        self._came = to_text(self._clock.now())
        self._following: str | None = None  # when the next is due, as far as it is known
        self._is_known = False

    async def tick(self) -> int:
        """Everything that is due, once; how many fired."""
        with span("signals"):
            fired = await self._fire_fresh()
            expiring = await self._look()
            now = to_text(self._clock.now())
            if expiring is not None and expiring <= now:
                await self._store.transact(lambda tx: tx.expire_signals(now))
            if self._is_due():  # it came since, or it needs a lease
                fired += await self._fire_fresh() + await self._fire_leased()
            return fired

    async def _fire_fresh(self) -> int:
        """What came while we were here: taken and fired in one transaction, without a lease, and
        without a look before it: whoever wakes us has most likely brought something.

        If it kills us, it is older than us when we come back: then a lease counts the attempt.
        """
        fired = 0
        try:
            while ended := await self._store.transact(self._take_and_fire):
                done = [one for one, status in ended if status is FiringStatus.ENQUEUED]
                fired += len(done)
                self._tell(done)
                if len(ended) < AT_ONCE:
                    break
        except Exception as error:  # noqa: BLE001 - nothing has happened; each says what it is
            log.info("firings go one by one", error=str(error))
        return fired

    async def _look(self) -> str | None:
        """When something is to be fired next, and when a signal ends by itself."""
        self._following, expiring = await self._store.read(
            lambda tx: (tx.next_firing(), tx.next_signal_end())
        )
        self._is_known = True
        return expiring

    def _tell(self, fired: list[FiringRecord]) -> None:
        now = self._clock.now()
        for one in fired:
            self.observe((now - from_text(one.created_at)).total_seconds())

    def _take_and_fire(self, tx: Transaction) -> list[tuple[FiringRecord, FiringStatus | None]]:
        taken = self._take(tx, since=self._came)
        # By signal, so that two who fire for the same ones wait for each other, not crosswise.
        taken.sort(key=lambda one: one.signal_id)
        now = to_text(self._clock.now())
        return [(one, fire_taken(tx, one, self._owner, now, self._ids)) for one in taken]

    async def _fire_leased(self) -> int:
        fired = 0
        self._is_known = False
        while batch := await self._store.transact(self._take):
            ended = await asyncio.gather(*(self._process_all(same) for same in _by_signal(batch)))
            fired += sum(one.count(FiringStatus.ENQUEUED) for one in ended)
            if len(batch) < AT_ONCE:
                break
        return fired

    def _is_due(self) -> bool:
        return self._following is not None and self._following <= to_text(self._clock.now())

    def _take(self, tx: Transaction, since: str = "") -> list[FiringRecord]:
        now = self._clock.now()
        until = to_text(now + timedelta(seconds=LEASE_SECONDS))
        return tx.take_firings(self._owner, to_text(now), until, AT_ONCE, since)

    async def _process_all(self, same: list[FiringRecord]) -> list[FiringStatus | None]:
        """Firings of one signal count on the same row: one after the other."""
        return [await self._process(one) for one in same]

    async def _process(self, firing: FiringRecord) -> FiringStatus | None:
        now = to_text(self._clock.now())
        if firing.attempt > MOST_ATTEMPTS:  # it has killed whoever tried: nobody tries any more
            why = firing.error or "whoever processed it died over it"
            await self._store.transact(lambda tx: give_up(tx, firing, self._owner, now, why))
            return FiringStatus.FAILED
        try:
            return await self._store.transact(
                lambda tx: fire(tx, firing.id, self._owner, now, self._ids)
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
        following = self._following
        if not self._is_known:
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
        self._signals = signals
        self.woken = Commits(store, POLL_SECONDS)

    async def tick(self) -> float:
        self.woken.look()
        await self._signals.tick()
        # Not waited for here: a server that ends would have to wait with us.
        return await self._signals.pause()
