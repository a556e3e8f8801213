"""An item in an agent's hands, from the claim to its loss."""

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

# Who has lost a claim hears it at the next beat at the latest, and the sources' `margin` for ending
# what runs is twenty seconds: a beat must be well inside it.
LONGEST_BEAT_SECONDS = 10.0
# Commits tell earlier; a busy ledger commits all the time, and is not asked more often than this.
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Sourced:
    """An agent, and the source that an item of its came from."""

    name: str
    work_source: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Taken:
    """An item in an agent's hands; without a ledger's claim where the source has none."""

    agent: Sourced
    item: WorkItem
    ledger_id: str | None
    token: str | None
    epoch: int | None
    claim: str | None  # what the source calls it
    number: int | None = None  # of the claim on the tracker


def taken_of(agent: Sourced, found: NextWorkItem) -> Taken | None:
    made = found.claim_result
    if not found.claimed or found.item is None or made is None:
        return None
    return Taken(agent, found.item, made.ledger_id, made.token, made.epoch, made.claim, made.number)


async def give_back(sources: WorkSourceManager, taken: Taken | None, why: str | None) -> None:
    """What nobody has worked on, if there is anything."""
    if taken is None:
        return
    await sources.release_work_item(
        taken.item.id, agent=taken.agent, reason=why, counted=False, claim=taken.claim
    )


async def notes_so_far(ledger: Ledger, item_id: str | None) -> list[Note]:
    """What others have left with the item: the question of the run before, and its answer."""
    if item_id is None:
        return []
    with suppress(StorageError, NotFound):  # then it has to do without
        events = (await ledger.views.detail(item_id)).events
        return notes_in((one.type, one.occurred_at, one.actor, one.data) for one in events)
    return []


_WHY = {
    ClaimFailureReason.SOURCE_ERROR: SkipReason.SOURCE_ERROR,
    ClaimFailureReason.PERMISSION_DENIED: SkipReason.AT_CAPACITY,
}


def why_nothing(found: NextWorkItem) -> tuple[SkipReason, str | None]:
    """Why a source gave none; and in words, where there was one that could not be had."""
    refused = found.claim_result
    if refused is None or refused.reason is None:
        return SkipReason.NO_WORK, None
    return _WHY.get(refused.reason, SkipReason.NO_WORK), refused.message


async def until_lost(ledger: Ledger, taken: Taken | None) -> str:
    """Keep the claim alive; return when it is not ours any more."""
    pause = 5.0
    while taken is not None and taken.ledger_id and taken.token:
        seen = ledger.views.events_seen()  # before the beat: what is committed after it is news
        try:
            claim = await ledger.queue.heartbeat(taken.ledger_id, taken.token)
            pause = min(claim.lease_seconds / 3, LONGEST_BEAT_SECONDS)
        except (ClaimLost, NotFound) as error:
            return error.message
        except StorageError:  # who is away for longer than the lease hears it afterwards
            pause = min(pause, 5.0)
        await _until_beat(ledger.views, taken.ledger_id, taken.token, seen, pause)
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


async def _until_beat(views: Views, item_id: str, token: str, seen: int, seconds: float) -> None:
    """Less when a commit has ended the claim: the item may be in other hands already."""
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
    except StorageError:  # the beat will tell
        return True
