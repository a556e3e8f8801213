"""Takes due firings by lease and fires them. A firing that fails is tried again; if it keeps
failing, it is given up and shown to people."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from rota.model.clock import IdFactory, from_text, to_text
from rota.model.errors import StorageError
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
POLL_SECONDS = 5.0  # between looks without a wake-up


class SignalScheduler:
    """Any number of these, on any number of machines, may share one database."""

    name = "signals"

    def __init__(self, store: Store, *, owner: str) -> None:
        self.observe: Callable[[float], None] = lambda seconds: None  # from an event to its firing
        self._store = store
        self._owner = owner
        self._clock = store.clock
        self._ids = IdFactory(self._clock)
        self._came = to_text(self._clock.now())
        self._following: str | None = None  # when the next firing is due, if `_is_known`
        self._is_known = self._has_young = False

    async def tick(self) -> int:
        """Fire everything that is due, once; returns how many fired."""
        with span("signals"):
            fired = await self._fire_fresh()
            expiring = await self._look()
            now = to_text(self._clock.now())
            if self._has_young and await self._catch_up():
                self._following = now
            if expiring is not None and expiring <= now:
                await self._store.transact(lambda tx: tx.expire_signals(now))
            if self._is_due():  # a firing that came meanwhile, or one that needs a lease
                fired += await self._fire_fresh() + await self._fire_leased()
            return fired

    async def _fire_fresh(self) -> int:
        """Take and fire firings that came since this process started, in one transaction, without a
        lease of their own, and without a look first: a wake-up most likely means a firing.

        If a firing kills this process, it is older than the restarted process. It then needs a
        lease, which counts the attempt.
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
        """Read when the next firing is due; returns when the next signal expires."""
        self._following, self._has_young, expiring = await self._store.read(
            lambda tx: (tx.next_firing(), tx.has_young(), tx.next_signal_end())
        )
        self._is_known = True
        return expiring

    async def _catch_up(self) -> bool:
        """Whether there are firings that were overlooked."""
        try:
            await self._store.transact(lambda tx: tx.bound_young())  # if who made it could not
            return bool(await self._store.transact(lambda tx: tx.catch_up()))
        except StorageError as error:  # the other firings need not wait for these
            log.warning("new signals have not caught up yet", error=error.message)
            return False

    def _tell(self, fired: list[FiringRecord]) -> None:
        now = self._clock.now()
        for one in fired:
            self.observe((now - from_text(one.created_at)).total_seconds())

    def _take_and_fire(self, tx: Transaction) -> list[tuple[FiringRecord, FiringStatus | None]]:
        taken = self._take(tx, since=self._came)
        # In the order of signals, so that two processes with the same signals cannot deadlock.
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
        """Firings of one signal update the same row, so they run one after the other."""
        return [await self._process(one) for one in same]

    async def _process(self, firing: FiringRecord) -> FiringStatus | None:
        now = to_text(self._clock.now())
        if firing.attempt > MOST_ATTEMPTS:  # every attempt ended with the death of its process
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
        """Seconds until the next firing is due, at most the time between two polls."""
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
    """A chore for the daemon, woken as soon as any process commits an event."""

    name = "signals"

    def __init__(self, store: Store, signals: SignalScheduler) -> None:
        self._signals = signals
        self.woken = Commits(store, POLL_SECONDS)

    async def tick(self) -> float:
        self.woken.look()
        await self._signals.tick()
        # Returned and not awaited here: a server that stops would have to wait for it.
        return await self._signals.pause()
