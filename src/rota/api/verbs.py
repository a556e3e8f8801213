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
    Verb.DISPATCH: (DispatchOrder, "Dispatch an item to an agent."),
    Verb.START: (
        Start,
        "Start work on a dispatched item.\n\n"
        "With `lease_seconds` the item is claimed, and the answer has the claim's token. A claim"
        " has started its item already: with its `token` the answer is the item as it is.",
    ),
    Verb.COMPLETE: (
        Complete,
        "Complete an item.\n\n"
        "`next` is a claim as in `POST /work/claim`: the holder claims the next item in the same"
        " transaction. The answer has it under `next`; if that is empty, `Rota-Reason` says why."
        " The call does not wait for an item. A repeated call claims nothing, and gives no reason.",
    ),
    Verb.FAIL: (Fail, "Mark an item as failed."),
    Verb.BLOCK: (Block, "Mark an item as blocked; `notes` says what it waits for."),
    Verb.RESUME: (
        Resume,
        "Resume a blocked item.\n\n"
        "For a caller that goes on with the item itself. If the item's agent is woken by the fleet,"
        " the answer without `lease_seconds` is 409: `release` the item instead, with your answer"
        " in `notes`.",
    ),
    Verb.HAND_OVER: (HandOver, "Hand an item over for review; `artifact_url` is its result."),
    Verb.RELEASE: (Release, "Give an item back to the queue."),
    Verb.REOPEN: (Requeue, "Send an item in review back to the queue."),
    Verb.RETRY: (Requeue, "Queue a failed item again."),
    Verb.CANCEL: (Cancel, "Cancel an item that nobody has started."),
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
        call.metrics.completions += verb is Verb.COMPLETE and not moved.repeated
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
    """Write a note on an item; its status stays as it is."""
    order = Order(Verb.RELEASE, call.id, call.actor, token=body.token, notes=body.notes)
    noted = await carry_out(call, order, lambda one: call.ledger.queue.change(one, None, {}))
    return item_answer(noted.item)


@endpoint(
    "POST", "/work/{id}/hold", scope=DISPATCH, tag=TAG, gives=schemas.Item, refuses=(409,),
    sets=("ETag",),
)  # fmt: skip
async def hold_work(call: Call, body: Hold) -> Answer:
    """Hold an item, so that nobody picks it up."""
    return item_answer(await call.ledger.queue.hold(call.id, body.reason, actor=call.actor))


@endpoint(
    "POST", "/work/{id}/unhold", scope=DISPATCH, tag=TAG, gives=schemas.Item, refuses=(409,),
    sets=("ETag",),
)  # fmt: skip
async def unhold_work(call: Call, body: Unhold) -> Answer:
    """Remove the hold from an item."""
    return item_answer(await call.ledger.queue.unhold(call.id, actor=call.actor))


ENDPOINTS = (*(_verb(verb) for verb in Verb), note_work, hold_work, unhold_work)
