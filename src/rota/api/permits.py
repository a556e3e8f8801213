"""What a caller may do to which item, beyond the scope of the route."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.api.call import Call
from rota.model.access import DISPATCH, WORK
from rota.model.errors import VersionMismatch
from rota.model.status import Status, Verb, verb_for
from rota.model.work import WorkItem
from rota.queue.moves import Order, version_mismatch

T = TypeVar("T")

# The agent that works on an item reports how it goes; the dispatcher decides where it goes.
SCOPE_OF: dict[Verb, str] = {
    Verb.DISPATCH: DISPATCH,
    Verb.START: WORK,
    Verb.COMPLETE: WORK,
    Verb.FAIL: WORK,
    Verb.BLOCK: WORK,
    Verb.RESUME: WORK,
    Verb.HAND_OVER: WORK,
    Verb.RELEASE: WORK,
    Verb.REOPEN: DISPATCH,
    Verb.RETRY: DISPATCH,
    Verb.CANCEL: DISPATCH,
}

ATTEMPTS = 10  # to check and then move an item before somebody else does


async def demand_own(call: Call, item: WorkItem, token: str | None) -> None:
    """An agent's token is for that agent's items.

    A former holder shows a claim token that is no longer live. It may call: the ledger tells it
    that its claim is lost, and keeps what it says. Another agent that has obtained that token may
    not.
    """
    if call.caller.agents is None:
        return
    if token is None or token == item.claim_token:
        call.caller.demand_agent(item.assigned_agent, "this item")
    elif (claim := await call.ledger.views.claim(item.id, token)) is not None:
        call.caller.demand_agent(claim.agent, "this claim")


async def carry_out(
    call: Call,
    order: Order,
    act: Callable[[Order], Awaitable[T]],
    *,
    target: Status | None = None,
) -> T:
    """Act at once for callers who may do everything; for others check the item first.

    The action is fenced by the version of the item that was checked. If the item has changed in
    between, it is checked again.
    """
    caller = call.caller
    if order.force:
        caller.demand(DISPATCH)
    if caller.agents is None and (target is None or caller.may(DISPATCH)):
        return await act(order)
    for _ in range(ATTEMPTS):
        item = await call.ledger.views.item(order.item_id)
        await demand_own(call, item, order.token)
        if target is not None and (verb := verb_for(item.status, target)) is not None:
            caller.demand(SCOPE_OF[verb])
        if order.version is not None and order.version != item.version:
            raise version_mismatch(item, order.version)
        try:
            return await act(order._replace(version=item.version))
        except VersionMismatch:
            continue
    raise VersionMismatch(f"{order.item_id} changes too often; try again")
