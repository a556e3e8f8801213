"""Follow-ups: what signals ask to be done about an item, beside its own work."""

from rota.api import signal_wire as wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.call import Call
from rota.api.mistakes import status_named
from rota.api.pages import id_cursor, page_answer
from rota.api.routing import Endpoint, endpoint, given
from rota.api.signal_wire import (
    CancelFollowUp,
    ClaimFollowUp,
    CompleteFollowUp,
    FollowUpQuery,
    HeartbeatFollowUp,
    ReleaseFollowUp,
)
from rota.model.access import READ, WORK
from rota.model.signals import FollowUp, FollowUpStatus
from rota.signals import Signals

TAG = "follow-ups"


@endpoint(
    "GET", "/follow-ups", scope=READ, tag=TAG, gives=list[wire.FollowUp], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_follow_ups(signals: Signals, call: Call, query: FollowUpQuery) -> Answer:
    """List follow-ups by age.

    With `agent`, only those that this agent may claim.
    """
    status = None if query.status is None else status_named(FollowUpStatus, query.status)

    async def ask(limit: int, cursor: str | None) -> tuple[list[FollowUp], bool]:
        found = await signals.follow_ups(
            status, query.work_item_id, query.agent, limit, after=id_cursor(cursor)
        )
        return found, len(found) == limit

    return await page_answer(
        call, query.limit, query.cursor, ask, written=wire.follow_up_of,
        place=lambda one: one.id,
    )  # fmt: skip


@endpoint("GET", "/follow-ups/{id}", scope=READ, tag=TAG, gives=wire.FollowUp)
async def show_follow_up(signals: Signals, call: Call) -> Answer:
    """Show one follow-up."""
    return json_answer(wire.follow_up_of(await signals.follow_up(call.id)))


@endpoint("POST", "/follow-ups/claim", scope=WORK, tag=TAG, gives=wire.ClaimedFollowUp, also=(204,))
async def claim_follow_up(signals: Signals, call: Call, body: ClaimFollowUp) -> Answer:
    """Claim the oldest open follow-up that is not meant for another agent.

    The answer is 204 when there is none. Later calls about the follow-up must show its `token`. If
    the lease ends before the follow-up does, another agent may claim it. A follow-up takes no slot
    of the agent.
    """
    call.caller.demand_agent(body.agent)
    taken = await signals.take_follow_up(body.agent, lease_seconds=body.lease_seconds)
    return empty_answer() if taken is None else json_answer(wire.claimed_of(taken))


@endpoint(
    "POST", "/follow-ups/{id}/heartbeat", scope=WORK, tag=TAG, gives=wire.FollowUp,
    refuses=(409,),
)  # fmt: skip
async def heartbeat_follow_up(signals: Signals, call: Call, body: HeartbeatFollowUp) -> Answer:
    """Extend the lease of a follow-up.

    409 `claim_lost` means: stop working on the follow-up.
    """
    await _demand_own(signals, call, body.token)
    kept = await signals.extend_follow_up(call.id, body.token, lease_seconds=body.lease_seconds)
    return json_answer(wire.follow_up_of(kept))


@endpoint(
    "POST", "/follow-ups/{id}/complete", scope=WORK, tag=TAG, gives=wire.FollowUp,
    refuses=(409,),
)  # fmt: skip
async def complete_follow_up(signals: Signals, call: Call, body: CompleteFollowUp) -> Answer:
    """Complete a follow-up.

    While nobody holds it, no `token` is needed.
    """
    await _demand_own(signals, call, body.token)
    done = await signals.complete_follow_up(
        call.id, token=body.token, outcome=body.outcome, notes=body.notes, actor=call.actor
    )
    return json_answer(wire.follow_up_of(done))


@endpoint(
    "POST", "/follow-ups/{id}/cancel", scope=WORK, tag=TAG, gives=wire.FollowUp, refuses=(409,)
)
async def cancel_follow_up(signals: Signals, call: Call, body: CancelFollowUp) -> Answer:
    """Cancel a follow-up, so that nobody does it.

    While nobody holds it, no `token` is needed.
    """
    await _demand_own(signals, call, body.token)
    done = await signals.complete_follow_up(
        call.id,
        token=body.token,
        outcome="cancelled",
        notes=body.notes,
        cancelled=True,
        actor=call.actor,
    )
    return json_answer(wire.follow_up_of(done))


@endpoint(
    "POST", "/follow-ups/{id}/release", scope=WORK, tag=TAG, gives=wire.FollowUp, refuses=(409,)
)
async def release_follow_up(signals: Signals, call: Call, body: ReleaseFollowUp) -> Answer:
    """Give a follow-up back, so that others can claim it."""
    await _demand_own(signals, call, body.token)
    return json_answer(wire.follow_up_of(await signals.release_follow_up(call.id, body.token)))


async def _demand_own(signals: Signals, call: Call, token: str | None) -> None:
    """An agent's token is for what that agent holds, or what is meant for it.

    A former holder shows a token that is not the live one: it may ask, and is told that its lease
    is lost.
    """
    if call.caller.agents is None:
        return
    found = await signals.follow_up(call.id)
    if token is None or token == found.lease_token:
        leased = found.status is FollowUpStatus.LEASED
        call.caller.demand_agent(found.holder if leased else found.agent, "this follow-up")


_ENDPOINTS = (
    list_follow_ups,
    show_follow_up,
    claim_follow_up,
    heartbeat_follow_up,
    complete_follow_up,
    cancel_follow_up,
    release_follow_up,
)


def follow_up_endpoints(signals: Signals) -> tuple[Endpoint, ...]:
    return given(signals, _ENDPOINTS)
