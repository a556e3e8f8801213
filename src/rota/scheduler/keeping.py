"""Keeps the schedules of a node in the ledger for as long as the node lives.

They are synced when the file is read. After that they could disappear only by mistake: by a node
that was cut off for long, an import, or a change by hand. So they are checked now and then, a part
at a time, at the cost of one read.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

import structlog

from rota.scheduler.due import Rng
from rota.scheduler.roster import Roster
from rota.scheduler.syncing import is_whole, let_others_rest, mend, sync
from rota.storage.port import Store

log = structlog.get_logger()

PAGE = 1_000
# Shorter than the minute after which a slot counts as late (`due.GRACE`).
LOOK_EVERY = timedelta(seconds=30)


class Keeping:
    def __init__(self, store: Store, node: str, rng: Rng | None = None) -> None:
        self._store = store
        self._node = node
        self._rng = rng
        self._roster = Roster()
        self._round: Iterator[Roster] = iter(())
        self._looked_at: datetime | None = None
        # A repair from the old file must not be written after a sync with the new one.
        self._one_at_a_time = asyncio.Lock()

    async def take_on(self, roster: Roster, now: datetime) -> None:
        async with self._one_at_a_time:
            self._roster, self._round, self._looked_at = roster, iter(()), now
            await self._say()
            for part in roster.parts(PAGE):  # short transactions, even for a large fleet
                body = partial(sync, roster=part, node=self._node, now=now, rng=self._rng)
                await self._store.transact(body)
            await self._let_others_rest()

    async def _say(self) -> None:
        """Store the roster before anything else: other nodes then do not drop our schedules."""
        listed = self._roster.listed()
        await self._store.transact(lambda tx: tx.put_roster(self._node, listed))

    async def look_over(self, now: datetime) -> int:
        """Returns how many schedules were mended; usually it is too early and nothing is done."""
        if self._looked_at is not None and timedelta(0) <= now - self._looked_at < LOOK_EVERY:
            return 0
        async with self._one_at_a_time:
            self._looked_at = now
            part = next(self._round, None)
            if part is None:
                self._round = self._roster.parts(PAGE)
                part = next(self._round, Roster())
            return await self._mend(part, now)

    async def look_over_all(self, now: datetime) -> int:
        """For a node that others took for dead: they may have dropped or rested its schedules."""
        async with self._one_at_a_time:
            await self._say()
            return sum([await self._mend(part, now) for part in self._roster.parts(PAGE)])

    async def let_others_rest(self) -> None:
        """After a node has ended: agents that only that node had rest."""
        async with self._one_at_a_time:
            await self._let_others_rest()

    async def _let_others_rest(self) -> None:
        rest = partial(let_others_rest, roster=self._roster, node=self._node)
        await self._store.transact(rest)

    async def _mend(self, part: Roster, now: datetime) -> int:
        """Reads first, because a read keeps no other transaction waiting."""
        if await self._store.read(partial(is_whole, roster=part)):
            return 0
        mended = await self._store.transact(partial(mend, roster=part, now=now, rng=self._rng))
        if mended:
            log.warning("schedules that were gone or at rest are back", schedules=mended)
        return mended
