"""What each tool does, by calls of the client."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any

from rota.mcp import arguments, telling
from rota.mcp.seat import Seat
from rota.model.errors import ClaimLost, MissingRequirement, NotFound
from rota.model.signals import ActionKind, TriggerOn

Json = dict[str, Any]


# reading


async def list_items(seat: Seat, wanted: arguments.List) -> Json:
    found = _ready(seat, wanted) if wanted.ready else _listed(seat, wanted)
    items: list[Json] = []
    async for item in found:
        if len(items) == wanted.limit:
            return {"items": items, "more": True}
        items.append(telling.short(item))
    return {"items": items, "more": False}


def _listed(seat: Seat, wanted: arguments.List) -> AsyncIterator[Json]:
    return seat.client.work_each(
        wanted.status, wanted.agent, limit=wanted.limit + 1, q=wanted.search, **_filters(wanted)
    )


def _ready(seat: Seat, wanted: arguments.List) -> AsyncIterator[Json]:
    whose = wanted.agent or seat.agent
    return seat.client.work_ready(whose, q=wanted.search, **_filters(wanted))


def _filters(wanted: arguments.List) -> Json:
    return {"project_id": wanted.project_id, "type": wanted.type, "label": wanted.label}


async def show(seat: Seat, wanted: arguments.Show) -> Json:
    return {"item": telling.long(await seat.client.work_get(wanted.id))}


async def explain(seat: Seat, wanted: arguments.Show) -> Json:
    return await seat.client.explain(wanted.id)


# working


async def progress(seat: Seat, said: arguments.Progress) -> Json:
    """A heartbeat if there is a claim; otherwise a note."""
    token = await seat.token(said.id, said.token)
    far = None if said.progress is None else str(said.progress)
    if token is None:
        if not (said.notes or far):
            raise MissingRequirement("say how far it is: notes or progress", field="notes")
        item = await seat.client.note(said.id, said.notes or far or "")
        return {"id": item["id"], "status": item["status"]}
    try:
        kept = await seat.client.heartbeat(said.id, token, said.notes, far)
    except ClaimLost:
        seat.holdings.forget(said.id, token)
        raise
    seat.holdings.beaten(said.id)
    return {"id": said.id, "expires_at": kept["expires_at"], "lease_seconds": kept["lease_seconds"]}


async def complete(seat: Seat, said: arguments.Complete) -> Json:
    token = await seat.token(said.id, said.token)
    if said.review:
        if said.artifact_url is None:
            raise MissingRequirement("a review needs artifact_url", field="artifact_url")
        moved = seat.client.hand_over(said.id, said.artifact_url, token, notes=said.notes)
    else:
        moved = seat.client.complete(
            said.id, token, notes=said.notes, artifact_url=said.artifact_url
        )
    return await _ended(seat, said.id, token, moved)


async def give_back(seat: Seat, said: arguments.Return) -> Json:
    token = await seat.token(said.id, said.token)
    verbs = {
        "release": lambda: seat.client.release(said.id, token, notes=said.notes),
        "block": lambda: seat.client.block(said.id, said.notes, token),
        "fail": lambda: seat.client.fail(said.id, token, notes=said.notes),
    }
    return await _ended(seat, said.id, token, verbs[said.how]())


async def _ended(seat: Seat, item_id: str, token: str | None, moved: Awaitable[Json]) -> Json:
    try:
        item = await moved
    except ClaimLost:
        seat.holdings.forget(item_id, token)
        raise
    seat.holdings.forget(item_id, token)
    return {"item": telling.short(item)}


# asking for more


async def add(seat: Seat, wanted: arguments.Add) -> Json:
    item = await seat.client.work_add(
        wanted.type,
        wanted.description,
        wanted.payload,
        wanted.assigned_agent,
        wanted.project_id,
        priority=wanted.priority,
        body=wanted.body,
        labels=wanted.labels,
        blocked_by=wanted.blocked_by,
        created_by=seat.agent,
        idempotency_key=wanted.idempotency_key,
    )
    return {"item": telling.short(item)}


async def add_signal(seat: Seat, wanted: arguments.SignalAdd) -> Json:
    trigger: Json = {"kind": str(TriggerOn.TRANSITION), "to": wanted.on_status}
    if wanted.of_type is not None:
        trigger["type"] = [wanted.of_type]
    action: Json = {"kind": str(ActionKind.SUBMIT), "title": wanted.title}
    more = {"body": wanted.body, "agent": wanted.assigned_agent}
    action |= {name: value for name, value in more.items() if value is not None}
    signal = await seat.client.create_signal(
        trigger, action, work_item_id=wanted.item_id, max_fires=wanted.max_fires
    )
    return {"signal": {name: signal[name] for name in ("id", "status", "trigger", "action")}}


async def trigger_schedule(seat: Seat, wanted: arguments.ScheduleTrigger) -> Json:
    try:
        trigger = await seat.client.trigger_schedule(wanted.agent, wanted.schedule, wanted.message)
    except NotFound as error:
        known = [f"{one['agent']}/{one['name']}" for one in await seat.client.list_schedules()]
        there = f"There are: {', '.join(known[:50])}." if known else "There are no schedules."
        raise NotFound(error.message, next=there) from error
    return {"trigger": trigger}
