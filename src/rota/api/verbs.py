"""The verbs of the status machine, one route each, and those that leave the status alone."""

from typing import Any

from rota.api import schemas, wire
from rota.api.answers import Answer, json_answer
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
    Start,
    Unhold,
)
from rota.api.call import Call
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
    Verb.COMPLETE: (Complete, "It is done."),
    Verb.FAIL: (Fail, "It cannot be done."),
    Verb.BLOCK: (Block, "It has to wait; `notes` say for what."),
    Verb.RESUME: (Start, "Go on with what was blocked."),
    Verb.HAND_OVER: (HandOver, "Give the result to review; `artifact_url` says where it is."),
    Verb.RELEASE: (Release, "Give it back to the queue."),
    Verb.REOPEN: (Requeue, "Send it back from review."),
    Verb.RETRY: (Requeue, "Queue what failed once more."),
    Verb.CANCEL: (Cancel, "Take back what nobody has started."),
}


def _order(call: Call, verb: Verb, body: Any) -> Order:
    """The bodies differ in which fields they allow; a field's name means the same in all."""
    given = {name: getattr(body, name) for name in body.__struct_fields__}
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
        name=f"{verb}_work", text=text, gives=schemas.Item, refuses=(409, 412),
        takes=("If-Match",), sets=("ETag",),
    )  # fmt: skip
    async def run(call: Call, body: Any) -> Answer:
        order = _order(call, verb, body)
        if order.agent is not None:
            call.caller.demand_agent(order.agent)
        moved = await carry_out(call, order, call.ledger.queue.apply)
        call.metrics.completions += verb is Verb.COMPLETE
        call.metrics.claims += moved.claim is not None
        etag = {"etag": f'"{moved.item.version}"'}
        return json_answer(wire.item_of(moved.item, moved.claim), 200, etag)

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
