"""Claims: take items, keep them, complete many at once."""

import asyncio
import time
from collections.abc import Sequence

from rota.api import schemas, wire
from rota.api.answers import Answer, json_answer
from rota.api.asgi import ClientGone, attend, has_gone, unless_gone
from rota.api.bodies import ClaimWork, CompleteBatch, CompleteOne, Heartbeat, NextClaim
from rota.api.call import Call
from rota.api.permits import ATTEMPTS, demand_own
from rota.api.routing import endpoint
from rota.model.access import WORK
from rota.model.claims import ClaimRequest, ClaimResult, Completion, NothingClaimed
from rota.model.errors import ClaimLost, InvalidInput, NotFound, RotaError, VersionMismatch
from rota.model.status import Verb
from rota.queue.claiming import Finished
from rota.queue.moves import Order
from rota.queue.service import check_completions

TAG = "claims"
SLOW_SECONDS = 0.1  # a claim that takes longer is unusually slow


@endpoint(
    "POST", "/work/claim", scope=WORK, tag=TAG, gives=list[schemas.Item], refuses=(409,),
    sets=("Rota-Reason",),
)  # fmt: skip
async def claim_work(call: Call, body: ClaimWork) -> Answer:
    """Claim items for an agent, and wait for them if asked to.

    Items dispatched to the agent come first, then queued items that do not name another agent. Each
    item has a `claim` with the token that every later call about the item must show. If the list is
    empty, `Rota-Reason` says why: nothing_ready, no_free_slot, in_review_limit or agent_paused.
    """
    seconds = min(body.wait_seconds, call.settings.longest_wait_seconds)
    request = request_of(call, body, seconds)
    wait = _patiently if body.wait_seconds else _at_once
    result = await wait(call, request)
    if not result.items:  # a claim for an unknown project would otherwise wait for ever
        await demand_project(call, body)
    return json_answer(wire.claimed_of(result), 200, counted(call, result))


async def demand_project(call: Call, wanted: NextClaim | None, at: str = "") -> None:
    if wanted is None or wanted.project_id is None:
        return
    try:
        await call.ledger.views.project(wanted.project_id)
    except NotFound as error:
        field = f"{at}project_id"
        raise InvalidInput(f"{field}: {error.message}", field=field) from None


def request_of(call: Call, body: NextClaim, wait_seconds: float = 0) -> ClaimRequest:
    call.caller.demand_agent(body.agent)
    return ClaimRequest(
        body.agent,
        body.limit,
        body.types,
        body.labels,
        body.project_id,
        body.lease_seconds,
        wait_seconds,
    )


def counted(call: Call, result: ClaimResult) -> dict[str, str]:
    """Count the claims, and return the header that says why there are none."""
    call.metrics.claims += len(result.items)
    return {"rota-reason": str(result.reason)} if result.reason else {}


async def _at_once(call: Call, request: ClaimRequest) -> ClaimResult:
    """A client that is answered quickly is still there. After a slow claim it may have given up,
    and would hold items for a whole lease without knowing of them."""
    began = time.monotonic()
    result = await call.ledger.queue.claim(request)
    if not result.items or time.monotonic() - began < SLOW_SECONDS:
        return result
    if await has_gone(call.receive):
        await _give_back(call, result, "claimer_gone")
        raise ClientGone
    return result


async def _patiently(call: Call, request: ClaimRequest) -> ClaimResult:
    """Ends early when the client disconnects or its token stops being valid, and then keeps no
    claim; also when the server stops."""
    claiming = asyncio.ensure_future(call.ledger.queue.claim(request))
    gone = await attend(claiming, call.receive, call.stopping, call.until_refused())
    nothing = ClaimResult([], NothingClaimed.NOTHING_READY)
    result = nothing if claiming.cancelled() else claiming.result()
    if gone:
        await _give_back(call, result, "claimer_gone")
        raise ClientGone
    try:
        await call.demand_again()
    except RotaError:
        await _give_back(call, result, "claimer_refused")
        raise
    return result


async def _give_back(call: Call, result: ClaimResult, why: str) -> None:
    for one in result.items:
        await call.ledger.queue.apply(
            Order(
                Verb.RELEASE,
                one.item.id,
                one.claim.agent,
                token=one.claim.token,
                reason=why,
                counted=False,
            )
        )


@endpoint(
    "POST", "/work/{id}/heartbeat", scope=WORK, tag=TAG, gives=schemas.LeaseExtended,
    refuses=(409,),
)  # fmt: skip
async def heartbeat_work(call: Call, body: Heartbeat) -> Answer:
    """Extend a claim by another lease.

    409 `claim_lost` means: stop working on the item.
    """
    if call.caller.agents is not None:
        await demand_own(call, await call.ledger.views.item(call.id), body.token)
    claim = await call.ledger.queue.heartbeat(
        call.id, body.token, notes=body.notes, progress=_progress(body.progress), actor=call.actor
    )
    return json_answer(wire.extended_of(claim))


def _progress(told: str | float | None) -> str | None:
    """Progress is told to people; a number is the same told by a program."""
    return told if told is None or isinstance(told, str) else str(told)


@endpoint("POST", "/work/complete", scope=WORK, tag=TAG, gives=list[schemas.Completed])
async def complete_batch(call: Call, body: CompleteBatch) -> Answer:
    """Complete many items; each is accepted or refused by itself.

    `next` is a claim as in `POST /work/claim`: the item's holder claims another item in the same
    transaction, without waiting for one. A repeated call claims nothing, and gives no reason.
    """
    completing = _all_completed(call, body)
    takes = any(one.next is not None for one in body)
    answers = await (unless_gone(completing, call.receive) if takes else completing)
    call.metrics.completions += sum(one.is_fresh for one in answers)
    call.metrics.claims += sum(len(one.next.items) for one in answers if one.next is not None)
    call.metrics.conflicts += sum(isinstance(one.error, ClaimLost) for one in answers)
    return json_answer([wire.completed_of(one) for one in answers])


async def _all_completed(call: Call, body: tuple[CompleteOne, ...]) -> list[Finished]:
    """A completion whose `next` names an unknown project is refused before anything is done."""
    check_completions([Completion(one.id, one.token, one.outcome, one.notes) for one in body])
    wanted = {one.next.project_id: one.next for one in body if one.next is not None}
    missing: dict[str | None, InvalidInput] = {}
    for project_id, following in wanted.items():
        try:
            await demand_project(call, following, "next.")
        except InvalidInput as error:
            missing[project_id] = error
    refused = {
        index: Finished(one.id, error=missing[one.next.project_id])
        for index, one in enumerate(body)
        if one.next is not None and one.next.project_id in missing
    }
    rest = tuple(one for index, one in enumerate(body) if index not in refused)
    done = iter(await _completed(call, rest) if rest else ())
    return [refused.get(index) or next(done) for index in range(len(body))]


async def _completed(call: Call, body: tuple[CompleteOne, ...]) -> list[Finished]:
    """With an agent's token, an item without a claim token is first checked, then completed at the
    version that was checked; if it changed in between, it is checked again. Completions with a
    claim token come last, in one call: they may take next items, and a cancellation after that
    would lose those."""
    queue = call.ledger.queue
    if call.caller.agents is None:
        return await queue.complete_many([_completion(call, one) for one in body], actor=call.actor)
    answers: dict[int, Finished] = {}
    left = [index for index, one in enumerate(body) if one.token is None]
    for _ in range(ATTEMPTS):
        await _complete_some(call, body, left, answers)
        left = [index for index in left if isinstance(answers[index].error, VersionMismatch)]
    fenced = [index for index, one in enumerate(body) if one.token is not None]
    await _complete_some(call, body, fenced, answers)
    return [answers[index] for index in range(len(body))]


async def _complete_some(
    call: Call, body: tuple[CompleteOne, ...], some: Sequence[int], answers: dict[int, Finished]
) -> None:
    allowed: dict[int, Completion] = {}
    for index in some:
        try:
            allowed[index] = await _own(call, body[index])
        except RotaError as error:
            answers[index] = Finished(body[index].id, error=error)
    if allowed:
        done = await call.ledger.queue.complete_many([*allowed.values()], actor=call.actor)
        answers.update(zip(allowed, done, strict=True))


async def _own(call: Call, one: CompleteOne) -> Completion:
    """A claim's token belongs to one agent for ever, so it is a fence. Otherwise the version is."""
    item = await call.ledger.views.item(one.id)
    await demand_own(call, item, one.token)
    return _completion(call, one, item.version if one.token is None else None)


def _completion(call: Call, one: CompleteOne, version: int | None = None) -> Completion:
    following = None if one.next is None else request_of(call, one.next)
    return Completion(
        one.id,
        one.token,
        one.outcome,
        one.notes,
        version=version,
        next=following,
        artifact_url=one.artifact_url,
    )


ENDPOINTS = (claim_work, heartbeat_work, complete_batch)
