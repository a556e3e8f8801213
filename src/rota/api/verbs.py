"""The verbs of the status machine, one route each, and those that leave the status alone."""

from typing import Any

from rota.api import schemas, wire
from rota.api.answers import Answer, json_answer
from rota.api.asgi import unless_gone
from rota.api.bodies import (
    Block,
    Cancel,
    Complete,
    DispatchOrder,
    Fail,
    HandOver,
    Hold,
    Note,
    Release,
    Requeue,
    Resume,
    Start,
    Unhold,
)
from rota.api.call import Call
from rota.api.claims import counted, demand_project, request_of
from rota.api.permits import SCOPE_OF, carry_out
from rota.api.routing import Endpoint, endpoint
from rota.api.work import item_answer
from rota.model.access import DISPATCH, WORK
from rota.model.status import OUTCOME_OF, RULES, Verb
from rota.queue.moves import Order

TAG = "verbs"

_BODIES: dict[Verb, tuple[Any, str]] = {
    Verb.DISPATCH: (DispatchOrder, "Name the agent that shall do it."),
    Verb.START: (
        Start,
        "Begin to work on what was dispatched.\n\n"
        "With `lease_seconds` the item is claimed, and the answer has the claim's token.",
    ),
    Verb.COMPLETE: (
        Complete,
        "It is done.\n\n"
        "With `next`, a claim as in `POST /work/claim`, its holder takes the next item in the same"
        " transaction: the answer has it under `next`, and `Rota-Reason` when that is empty. It is"
        " not waited for, and a repeated call takes nothing, and gives no reason.",
    ),
    Verb.FAIL: (Fail, "It cannot be done."),
    Verb.BLOCK: (Block, "It has to wait; `notes` say for what."),
    Verb.RESUME: (
        Resume,
        "Go on with what was blocked.\n\n"
        "For who does so: 409 without `lease_seconds` where the item's agent is woken by the fleet,"
        " which is to `release` it instead, and leave the answer in `notes`.",
    ),
    Verb.HAND_OVER: (HandOver, "Give the result to review; `artifact_url` says where it is."),
    Verb.RELEASE: (Release, "Give it back to the queue."),
    Verb.REOPEN: (Requeue, "Send it back from review."),
    Verb.RETRY: (Requeue, "Queue what failed once more."),
    Verb.CANCEL: (Cancel, "Take back what nobody has started."),
}


def _order(call: Call, verb: Verb, body: Any) -> Order:
    """Bodies differ in which fields they allow; a field's name means the same in all of them."""
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    if (following := given.get("next")) is not None:
        given["next"] = request_of(call, following)
    lease_seconds = given.pop("lease_seconds", None)
    agent = given.pop("assigned_agent", None)
    given["agent"] = given.get("agent") or agent
    given["outcome"] = given.get("outcome") or OUTCOME_OF.get(RULES[verb].target)
    lease = None if lease_seconds is None else call.ledger.queue.lease(lease_seconds)
    return Order(verb, call.id, call.actor, version=call.if_match(), lease=lease, **given)


def _verb(verb: Verb) -> Endpoint:
    body_type, text = _BODIES[verb]

    @endpoint(
        "POST", f"/work/{{id}}/{verb}", scope=SCOPE_OF[verb], tag=TAG, body=body_type,
        name=f"{verb}_work", text=text, refuses=(409, 412), takes=("If-Match",),
        gives=schemas.ItemAndNext if verb is Verb.COMPLETE else schemas.Item,
        sets=("ETag", "Rota-Reason") if verb is Verb.COMPLETE else ("ETag",),
    )  # fmt: skip
    async def run(call: Call, body: Any) -> Answer:
        order = _order(call, verb, body)
        if order.agent is not None:
            call.caller.demand_agent(order.agent)
        if verb is Verb.COMPLETE:
            await demand_project(call, body.next, "next.")
        moving = carry_out(call, order, call.ledger.queue.apply)
        moved = await (moving if order.next is None else unless_gone(moving, call.receive))
        call.metrics.completions += verb is Verb.COMPLETE
        call.metrics.claims += moved.claim is not None
        headers = {"etag": f'"{moved.item.version}"'}
        if moved.next is None:
            return json_answer(wire.item_of(moved.item, moved.claim), 200, headers)
        headers |= counted(call, moved.next)
        return json_answer(wire.item_and_next(moved.item, moved.next), 200, headers)

    return run


@endpoint(
    "POST", "/work/{id}/note", scope=WORK, tag=TAG, gives=schemas.Item, refuses=(409,),
    sets=("ETag",),
)  # fmt: skip
async def note_work(call: Call, body: Note) -> Answer:
    """Leave a note; the status stays as it is."""
    order = Order(Verb.RELEASE, call.id, call.actor, token=body.token, notes=body.notes)
    return item_answer(
        await carry_out(call, order, lambda one: call.ledger.queue.change(one, None, {}))
    )


@endpoint(
    "POST", "/work/{id}/hold", scope=DISPATCH, tag=TAG, gives=schemas.Item, refuses=(409,),
    sets=("ETag",),
)  # fmt: skip
async def hold_work(call: Call, body: Hold) -> Answer:
    """Keep everybody from picking it up, for a reason."""
    return item_answer(await call.ledger.queue.hold(call.id, body.reason, actor=call.actor))


@endpoint(
    "POST", "/work/{id}/unhold", scope=DISPATCH, tag=TAG, gives=schemas.Item, refuses=(409,),
    sets=("ETag",),
)  # fmt: skip
async def unhold_work(call: Call, body: Unhold) -> Answer:
    """Take the hold off."""
    return item_answer(await call.ledger.queue.unhold(call.id, actor=call.actor))


ENDPOINTS = (*(_verb(verb) for verb in Verb), note_work, hold_work, unhold_work)
