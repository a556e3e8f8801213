"""An item that an agent holds, from the claim to its loss."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rota.model.errors import ClaimLost, NotFound, StorageError
from rota.model.schedules import SkipReason
from rota.prompts import Note, notes_in
from rota.queue.ledger import Ledger
from rota.queue.views import Views
from rota.sources.manager import NextWorkItem, WorkSourceManager
from rota.sources.port import ClaimFailureReason, WorkItem

# A holder learns of a lost claim at its next heartbeat at the latest. The sources' `margin` for
# ending processes is twenty seconds, so the time between heartbeats must be well below it.
LONGEST_BEAT_SECONDS = 10.0
# Commits wake the wait earlier. A busy ledger commits all the time and is not asked more often.
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Sourced:
    """An agent, and the source that its item came from."""

    name: str
    work_source: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Taken:
    """An item that an agent holds; without a claim in the ledger where the source has none."""

    agent: Sourced
    item: WorkItem
    ledger_id: str | None
    token: str | None
    epoch: int | None
    claim: str | None  # the source's name for the claim
    number: int | None = None  # the claim's id on the tracker


def taken_of(agent: Sourced, found: NextWorkItem) -> Taken | None:
    made = found.claim_result
    if not found.claimed or found.item is None or made is None:
        return None
    return Taken(agent, found.item, made.ledger_id, made.token, made.epoch, made.claim, made.number)


async def give_back(sources: WorkSourceManager, taken: Taken | None, why: str | None) -> None:
    """Gives back an item that nobody has worked on; does nothing without an item."""
    if taken is None:
        return
    await sources.release_work_item(
        taken.item.id, agent=taken.agent, reason=why, counted=False, claim=taken.claim
    )


async def notes_so_far(ledger: Ledger, item_id: str | None) -> list[Note]:
    """Notes on the item so far: a question of the run before, and its answer."""
    if item_id is None:
        return []
    with suppress(StorageError, NotFound):  # the run then goes without notes
        events = (await ledger.views.detail(item_id)).events
        return notes_in((one.type, one.occurred_at, one.actor, one.data) for one in events)
    return []


_WHY = {
    ClaimFailureReason.SOURCE_ERROR: SkipReason.SOURCE_ERROR,
    ClaimFailureReason.PERMISSION_DENIED: SkipReason.AT_CAPACITY,
}


def why_nothing(found: NextWorkItem) -> tuple[SkipReason, str | None]:
    """Why the source gave no item, and in words if an item was refused."""
    refused = found.claim_result
    if refused is None or refused.reason is None:
        return SkipReason.NO_WORK, None
    return _WHY.get(refused.reason, SkipReason.NO_WORK), refused.message


async def until_lost(ledger: Ledger, taken: Taken | None) -> str:
    """Keep the claim alive; return when it is no longer ours."""
    pause = 5.0
    while taken is not None and taken.ledger_id and taken.token:
        seen = ledger.views.events_seen()  # before the heartbeat, so that no later commit is missed
        try:
            claim = await ledger.queue.heartbeat(taken.ledger_id, taken.token)
            pause = min(claim.lease_seconds / 3, LONGEST_BEAT_SECONDS)
        except (ClaimLost, NotFound) as error:
            return error.message
        except StorageError:  # after an outage longer than the lease, the next heartbeat tells
            pause = min(pause, 5.0)
        await _until_beat(ledger.views, taken.ledger_id, taken.token, seen, pause)
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


async def _until_beat(views: Views, item_id: str, token: str, seen: int, seconds: float) -> None:
    """Returns early when a commit has ended the claim: another claimant may have the item
    already."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while (left := end - clock()) > 0:
        before, seen = seen, await views.wait_for_events(seen, left)
        if seen != before and not await _is_held(views, item_id, token):
            return
        await asyncio.sleep(min(LOOK_SECONDS, max(end - clock(), 0)))


async def _is_held(views: Views, item_id: str, token: str) -> bool:
    try:
        return (await views.item(item_id)).claim_token == token
    except NotFound:
        return False
    except StorageError:  # the next heartbeat will tell
        return True
