"""The chore that turns events into notifications, and sends the bundles that are due."""

import structlog

from rota.model.clock import from_text, to_text
from rota.notify.gathering import gather
from rota.notify.reading import PAGE, POSITION, Plan, begin, look, read_on
from rota.queue.declarations import Declarations, may_go
from rota.storage.declaration_port import DeclarationKind
from rota.storage.port import Store, Transaction
from rota.storage.wakeups import Commits

log = structlog.get_logger()

POLL_SECONDS = 5.0  # also without a wake-up
# On PostgreSQL an event becomes visible once no older transaction is open, and nothing signals the
# end of the last one. So after a wake-up we look again soon, then less and less often.
FIRST_PAUSE_SECONDS = 0.1
NOTIFY, RULES = DeclarationKind.NOTIFY, "rules"
FAR_BEHIND = 1_000  # events without interest that a restart may read again


class Notices:
    """Any number of these chores, on any number of machines, may share one database."""

    name = "notices"

    def __init__(self, store: Store, plan: Plan, home: str = "") -> None:
        """`home` is the state directory of the server whose file has the plan."""
        self._store = store
        self._home = home
        self._clock = store.clock
        self._position = 0  # there is nothing of interest up to here
        self._kept = 0
        self._pause = FIRST_PAUSE_SECONDS
        self.plan = plan
        self.woken = Commits(store, POLL_SECONDS)

    async def begin(self) -> None:
        def body(tx: Transaction) -> None:
            self._declarations(tx).declare([RULES])
            begin(tx)

        await self._store.transact(body)
        self._position = self._kept = await self._read_position()

    async def forget(self) -> None:
        """Our file has no rules. If it had some before, all waiting notifications are dropped,
        unless another server's file has rules. A server whose file never had rules drops
        nothing."""

        def body(tx: Transaction) -> int:
            files = self._declarations(tx)
            files.declare([])
            if not files.abandoned():
                return 0
            files.forget(RULES)
            return tx.forget_notifications()

        if not await self._store.read(lambda tx: may_go(tx, NOTIFY, self._home)):
            return
        if dropped := await self._store.transact(body):
            log.warning("notifications are switched off; what waited is dropped", notices=dropped)

    def _declarations(self, tx: Transaction) -> Declarations:
        return Declarations(tx, NOTIFY, self._home, to_text(self._clock.now()))

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
        """Events without interest move only the position in memory, and the stored one now and
        then."""
        self._position = position
        if position - self._kept < FAR_BEHIND:
            return
        seen = self._kept

        def body(tx: Transaction) -> None:
            if tx.lock_mark(POSITION) == str(seen):  # otherwise another server has gone further
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
