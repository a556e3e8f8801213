"""Keeps the ledger's claim alive while its claimant waits for a tracker.

A claimant that follows a revoked claim waits for as long as the former holder may still work, which
is longer than a first lease. A claim that lapsed meanwhile would count as an attempt, although
nobody has worked.
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
# Shown in the ledger meanwhile; distinguishes these heartbeats from those of a run.
WAITS = "waits for the tracker's verdict"


@dataclass(slots=True)
class Waiting:
    """One claimant that waits for the tracker."""

    ledger: Ledger
    claimed: ClaimedItem
    sleep: Callable[[float], Awaitable[None]]
    _told: bool = False  # the ledger may have recorded a heartbeat of this wait

    async def beat(self) -> None:
        """Does not begin at once: most claims are decided within their first lease, and if the
        process dies the claim should lapse with that lease. The tracker, too, tells that a claim is
        lost."""
        pause = max(self._left() / 3, SHORTEST_PAUSE_SECONDS)  # the clock may have jumped
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
        """From here on the run sends the heartbeats, and they tell whether the claim is still
        ours."""
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
    """Heartbeats stop when the context ends, however it ends."""
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
