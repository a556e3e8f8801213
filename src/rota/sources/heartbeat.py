"""Keeps the ledger's claim alive while its claimant waits for a tracker.

Who follows a revoked claim waits for as long as the one before may still be at work: longer than a
first lease lasts. A claim that lapsed meanwhile would count as an attempt that nobody has made.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from rota.model.claims import ClaimedItem
from rota.model.clock import from_text
from rota.model.errors import ClaimLost, NotFound, StorageError
from rota.queue.ledger import Ledger

LONGEST_RETRY_SECONDS = 5.0
SHORTEST_PAUSE_SECONDS = 0.25  # a third of the shortest lease is longer
# What the ledger shows meanwhile: it tells these beats from those of a run that has its claim.
WAITS = "waits for the tracker's verdict"


@dataclass(slots=True)
class Waiting:
    """Of one claimant, for the tracker."""

    ledger: Ledger
    claimed: ClaimedItem
    sleep: Callable[[float], Awaitable[None]]
    _told: bool = False  # the ledger may know of it

    async def beat(self) -> None:
        """Not at once: most claims are decided within their first lease, and one whose process
        dies then should lapse with that. A claim that is lost is told by the tracker, too."""
        pause = max(self._left() / 3, SHORTEST_PAUSE_SECONDS)  # clocks jump
        while True:
            await self.sleep(pause)
            self._told = True
            try:
                pause = await self._extend(WAITS) / 3
            except (ClaimLost, NotFound):
                return
            except StorageError:
                pause = min(pause, LONGEST_RETRY_SECONDS)

    async def granted(self) -> None:
        """From here on its run sends the beats; whether the claim stands is told by those."""
        if self._told:
            with suppress(ClaimLost, NotFound, StorageError):
                await self._extend("")

    async def _extend(self, progress: str) -> float:
        item_id, token = self.claimed.item.id, self.claimed.claim.token
        claim = await self.ledger.queue.heartbeat(item_id, token, progress=progress)
        return claim.lease_seconds

    def _left(self) -> float:
        claim = self.claimed.claim
        if claim.expires_at is None:
            return claim.lease_seconds
        return (from_text(claim.expires_at) - self.ledger.clock.now()).total_seconds()


@asynccontextmanager
async def kept_alive(
    ledger: Ledger | None,
    claimed: ClaimedItem | None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Waiting | None]:
    """Nobody beats any more when this is left, however it is left."""
    if ledger is None or claimed is None:
        yield None
        return
    waiting = Waiting(ledger, claimed, sleep)
    beating = asyncio.create_task(waiting.beat())
    try:
        yield waiting
    finally:
        beating.cancel()
        await asyncio.wait([beating])
