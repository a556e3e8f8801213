"""Items in any status, brought there by the verbs themselves."""

import asyncio
from collections.abc import Callable
from typing import Any

from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue.moves import Order
from rota.queue.service import WorkQueue
from rota.queue.views import Views

# What each verb needs besides the item.
NEEDS: dict[Verb, dict[str, Any]] = {
    Verb.DISPATCH: {"agent": "ada"},
    Verb.COMPLETE: {"outcome": "success"},
    Verb.FAIL: {"outcome": "failed"},
    Verb.BLOCK: {"notes": "waits for a key"},
    Verb.HAND_OVER: {"artifact_url": "https://example.org/pull/1"},
}

WAY: dict[Status, tuple[Verb, ...]] = {
    Status.QUEUED: (),
    Status.DISPATCHED: (Verb.DISPATCH,),
    Status.IN_PROGRESS: (Verb.DISPATCH, Verb.START),
    Status.BLOCKED: (Verb.DISPATCH, Verb.START, Verb.BLOCK),
    Status.IN_REVIEW: (Verb.DISPATCH, Verb.START, Verb.HAND_OVER),
    Status.COMPLETED: (Verb.DISPATCH, Verb.START, Verb.COMPLETE),
    Status.FAILED: (Verb.DISPATCH, Verb.START, Verb.FAIL),
    Status.CANCELLED: (Verb.CANCEL,),
}


def order(verb: Verb, item_id: str, **values: Any) -> Order:
    """An order with everything its verb needs, unless `values` say otherwise."""
    return Order(verb, item_id, **{"actor": "tester", **NEEDS.get(verb, {}), **values})


async def item_once(
    views: Views, item_id: str, fits: Callable[[WorkItem], bool], seconds: float = 30.0
) -> WorkItem:
    """The item, as soon as it fits."""
    async with asyncio.timeout(seconds):
        while True:
            seen = views.events_seen()
            if fits(item := await views.item(item_id)):
                return item
            await views.wait_for_events(seen, 1)


async def bring_to(queue: WorkQueue, status: Status, agent: str = "ada", **values: Any) -> WorkItem:
    """A new item in this status, without a claim."""
    item = await queue.submit(NewItem(**{"type": "chore", "description": "Say hello", **values}))
    for verb in WAY[status]:
        named = {"agent": agent} if verb is Verb.DISPATCH else {}
        item = (await queue.apply(order(verb, item.id, **named))).item
    return item
