"""Keeps the ledger's claim alive while its claimant waits for a tracker.

Who follows a revoked claim waits for as long as the one before may still be at work: longer than a
first lease lasts. A claim that lapsed meanwhile would count as an attempt that nobody has made.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.model.claims import ClaimedItem
from rota.model.clock import from_text
from rota.model.errors import ClaimLost, NotFound, StorageError
from rota.queue.ledger import Ledger

LONGEST_RETRY_SECONDS = 5.0


@asynccontextmanager
async def kept_alive(ledger: Ledger | None, claimed: ClaimedItem | None) -> AsyncIterator[None]:
    """Nobody beats any more when this is left, however it is left."""
    if ledger is None or claimed is None:
        yield
        return
    beating = asyncio.create_task(_beat(ledger, claimed))
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait([beating])


async def _beat(ledger: Ledger, claimed: ClaimedItem) -> None:
    """Not at once: most claims are decided within their first lease, and one whose process dies
    then should lapse with that. A claim that is lost is told by the tracker, too."""
    pause = _left(ledger, claimed) / 3
    while True:
        await asyncio.sleep(pause)
        try:
            claim = await ledger.queue.heartbeat(claimed.item.id, claimed.claim.token)
        except (ClaimLost, NotFound):
            return
        except StorageError:
            pause = min(pause, LONGEST_RETRY_SECONDS)
        else:
            pause = claim.lease_seconds / 3


def _left(ledger: Ledger, claimed: ClaimedItem) -> float:
    if claimed.claim.expires_at is None:
        return claimed.claim.lease_seconds
    return (from_text(claimed.claim.expires_at) - ledger.clock.now()).total_seconds()
