"""The schedules of a node, kept in the ledger for as long as the node lives.

They are brought in line when the file is read. From then on others could take them out only by
mistake: a node that was cut off for long, an import, a hand. So they are looked over now and then,
a part at a time, which costs one read.
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
# Shorter than the minute after which a slot is too late for some.
LOOK_EVERY = timedelta(seconds=30)


class Keeping:
    def __init__(self, store: Store, node: str, rng: Rng | None = None) -> None:
        self._store = store
        self._node = node
        self._rng = rng
        self._roster = Roster()
        self._round: Iterator[Roster] = iter(())
        self._looked_at: datetime | None = None
        # What is mended by an old file must not come behind what was dropped by a new one.
        self._one_at_a_time = asyncio.Lock()

    async def take_on(self, roster: Roster, now: datetime) -> None:
        async with self._one_at_a_time:
            self._roster, self._round, self._looked_at = roster, iter(()), now
            await self._say()
            for part in roster.parts(PAGE):  # nobody waits long behind a large fleet
                body = partial(sync, roster=part, node=self._node, now=now, rng=self._rng)
                await self._store.transact(body)
            rest = partial(let_others_rest, roster=roster, node=self._node)
            await self._store.transact(rest)

    async def _say(self) -> None:
        """Before anything else: from here on nobody drops what we have."""
        listed = self._roster.listed()
        await self._store.transact(lambda tx: tx.put_roster(self._node, listed))

    async def look_over(self, now: datetime) -> int:
        """How many schedules were mended. Nothing is done, most of the time."""
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
        """After others took us for dead: by their lights nobody had what we have."""
        async with self._one_at_a_time:
            await self._say()
            return sum([await self._mend(part, now) for part in self._roster.parts(PAGE)])

    async def _mend(self, part: Roster, now: datetime) -> int:
        """Nobody has to wait for what is only looked at."""
        if await self._store.read(partial(is_whole, roster=part)):
            return 0
        mended = await self._store.transact(partial(mend, roster=part, now=now, rng=self._rng))
        if mended:
            log.warning("schedules that were gone or at rest are back", schedules=mended)
        return mended
