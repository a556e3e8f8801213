"""Claiming items for an agent."""

from contextlib import suppress
from typing import Any

from rota.mcp import arguments, telling
from rota.mcp.seat import Seat
from rota.model.claims import DEFAULT_LEASE_SECONDS
from rota.model.errors import Refused, RotaError

Json = dict[str, Any]

_EMPTY = {
    "nothing_ready": (
        "Nothing is ready for you. Do not poll in a loop: end your turn, or call again with"
        " wait_seconds."
    ),
    "no_free_slot": (
        "You hold as many items as you may (work_list with your agent name): finish one or return"
        " it first. One whose token is lost comes back when its lease runs out."
    ),
    "in_review_limit": (
        "So much of your work waits for a review that you get nothing new before people have seen"
        " to it. End your turn."
    ),
    "agent_paused": "Your operator has paused you: stop taking work.",
}
_HELD = (
    "It is yours until expires_at. Do the work; call work_progress at least every third of the"
    " lease, and end with work_complete or work_return."
)


async def claim(seat: Seat, wanted: arguments.Claim) -> Json:
    agent = seat.name(wanted.agent)
    if wanted.id is not None:
        return _told(seat, await _this_one(seat, agent, wanted.id, wanted.lease_seconds))
    items, reason = await _best(seat, agent, wanted)
    if items:
        return _told(seat, items[0])
    reason = reason or "nothing_ready"
    return {"claimed": False, "reason": reason, "next": _EMPTY.get(reason, reason)}


async def _best(seat: Seat, agent: str, wanted: arguments.Claim) -> tuple[list[Json], str | None]:
    return await seat.client.claim_or_reason(
        agent,
        limit=1,
        types=wanted.types,
        labels=wanted.labels,
        project_id=wanted.project_id,
        lease_seconds=wanted.lease_seconds,
        wait_seconds=wanted.wait_seconds,
    )


async def _this_one(seat: Seat, agent: str, item_id: str, lease: float | None) -> Json:
    """Make the moves from the item's status to a claim. The ledger refuses any others."""
    client, seconds = seat.client, lease or DEFAULT_LEASE_SECONDS
    item = await client.work_get(item_id)
    if item["assigned_agent"] not in (None, agent):
        raise Refused(
            f"{item_id} is for {item['assigned_agent']}", next="Call work_claim for other work."
        )
    if item["status"] == "blocked":
        return await client.resume(item_id, agent=agent, lease_seconds=seconds)
    if item["status"] != "queued":
        return await client.start(item_id, agent=agent, lease_seconds=seconds)
    await client.dispatch(item_id, agent)
    try:
        return await client.start(item_id, agent=agent, lease_seconds=seconds)
    except RotaError:
        with suppress(RotaError):
            await client.release(item_id, reason="not_started")
        raise


def _told(seat: Seat, item: Json) -> Json:
    claim_made = telling.claim_of(item)
    seat.holdings.take(item["id"], claim_made["token"], claim_made["lease_seconds"])
    return {"claimed": True, "item": telling.long(item), "claim": claim_made, "next": _HELD}
