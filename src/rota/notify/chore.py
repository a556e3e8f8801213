"""The chore that makes notifications of events, and tells together what has waited for that."""

import structlog

from rota.model.clock import Clock, from_text
from rota.notify.gathering import gather
from rota.notify.reading import PAGE, POSITION, Plan, begin, look, read_on
from rota.storage.port import Store, Transaction
from rota.storage.wakeups import Commits

log = structlog.get_logger()

POLL_SECONDS = 5.0  # also when nobody wakes us
# On PostgreSQL an event is shown once no older transaction is open, and nobody tells when the last
# of those ends: after a wake-up we look again soon, then ever less often.
FIRST_PAUSE_SECONDS = 0.1
FAR_BEHIND = 1_000  # events of no interest that a restart may read again


class Notices:
    """Any number of them, on any number of machines, may share one database."""

    name = "notices"

    def __init__(self, store: Store, clock: Clock, plan: Plan) -> None:
        self._store = store
        self._clock = clock
        self._position = 0  # up to here there is nothing more of interest
        self._kept = 0
        self._pause = FIRST_PAUSE_SECONDS
        self.plan = plan
        self.woken = Commits(store, POLL_SECONDS)

    async def begin(self) -> None:
        await self._store.transact(begin)
        self._position = self._kept = await self._read_position()

    async def forget(self) -> None:
        """It is not wanted any more: then nothing is kept. Where other servers live, one of them
        may want it."""

        def body(tx: Transaction) -> int:
            known = tx.get_mark(POSITION) is not None and len(tx.living_nodes()) <= 1
            return tx.forget_notifications() if known else 0

        if await self._store.read(lambda tx: tx.get_mark(POSITION)) is None:
            return
        if dropped := await self._store.transact(body):
            log.warning("notifications are switched off; what waited is dropped", notices=dropped)

    async def tick(self) -> float:
        news = self.woken.look()
        news = await self._read_on() or news
        await self._gather()
        self._pause = FIRST_PAUSE_SECONDS if news else min(self._pause * 2, POLL_SECONDS)
        return min(self._pause, await self._until_next())

    async def _read_on(self) -> bool:
        found, position = await self._store.read(lambda tx: look(tx, self._position))
        if not found:
            await self._keep(position)
            return False
        count = PAGE
        while count == PAGE:
            self._position, count = await self._store.transact(self._page)
            self._kept = self._position
        return True

    def _page(self, tx: Transaction) -> tuple[int, int]:
        return read_on(tx, self.plan, self._clock.now())

    async def _keep(self, position: int) -> None:
        """What is of no interest only moves the position in memory, and now and then the one that
        is kept."""
        self._position = position
        if position - self._kept < FAR_BEHIND:
            return
        seen = self._kept

        def body(tx: Transaction) -> None:
            if tx.lock_mark(POSITION) == str(seen):  # else another has gone further
                tx.put_mark(POSITION, str(position))

        await self._store.transact(body)
        self._kept = position

    async def _gather(self) -> None:
        now = self._clock.now()
        following = await self._store.read(lambda tx: tx.next_notice())
        if following is None or from_text(following) > now:
            return
        await self._store.transact(lambda tx: gather(tx, now))

    async def _until_next(self) -> float:
        following = await self._store.read(lambda tx: tx.next_notice())
        if following is None:
            return POLL_SECONDS
        ahead = (from_text(following) - self._clock.now()).total_seconds()
        return min(max(ahead, 0.05), POLL_SECONDS)

    async def _read_position(self) -> int:
        return int(await self._store.read(lambda tx: tx.get_mark(POSITION)) or 0)
