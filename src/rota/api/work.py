"""Items: submit, list, view, change, cancel."""

import re
from dataclasses import replace
from typing import Any

import msgspec

from rota.api import schemas, wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.bodies import Change, NewBatch, NewWork, WorkQuery
from rota.api.call import Call
from rota.api.mistakes import status_named
from rota.api.pages import page_answer
from rota.api.permits import carry_out
from rota.api.routing import endpoint
from rota.model.access import DISPATCH, READ, WORK, Caller
from rota.model.errors import InvalidInput, KeyReused, MissingRequirement
from rota.model.status import Status, Verb
from rota.model.work import KEY, NO_KEY, NewItem, WorkItem
from rota.queue.moves import Order
from rota.queue.submitting import Submitted
from rota.queue.views import Query, place_of

TAG = "work"

# Fields that steer the queue. The others describe the work, and its agent may correct them.
_STEERING = frozenset(
    {"assigned_agent", "priority", "project_id", "blocked_by", "max_attempts", "available_at"}
)
_LOST_PLUS = re.compile(r"([T ][0-9:.,]+) ([0-9]{2}:?[0-9]{2})$")
_DESCRIBING = (
    "type", "description", "body", "payload", "priority", "labels", "project_id", "max_attempts",
    "available_at",
)  # fmt: skip


def item_answer(item: WorkItem) -> Answer:
    return json_answer(wire.item_of(item), 200, {"etag": f'"{item.version}"'})


def _new(body: NewWork) -> NewItem:
    return NewItem(
        body.type,
        body.description,
        body.body,
        body.payload,
        body.priority,
        body.project_id,
        body.assigned_agent,
        body.created_by,
        body.labels,
        body.blocked_by,
        body.max_attempts,
        body.available_at,
    )


def _key(call: Call) -> str | None:
    key = call.header(b"idempotency-key")
    if key is None:
        return None
    if not KEY.fullmatch(key):
        raise InvalidInput(f"Idempotency-Key: {NO_KEY}", field="Idempotency-Key")
    return key


def _theirs(caller: Caller, key: str) -> str:
    """The caller's own idempotency key, since another caller's key of the same name is another key.
    The token's id tells callers apart, because two tokens may have the same name. A key has no
    spaces, so the first space ends it."""
    return f"{key} a {caller.name}" if caller.token_id is None else f"{key} t {caller.token_id}"


async def _submitted(call: Call, items: list[NewItem], *, alone: bool = False) -> Submitted:
    key = _key(call)
    theirs = None if key is None else _theirs(call.caller, key)
    try:
        return await call.ledger.queue.submit_many(items, actor=call.actor, key=theirs, alone=alone)
    except KeyReused:
        raise KeyReused(
            f"the Idempotency-Key {key!r} was used for another request; use a new key for new work"
        ) from None


@endpoint(
    "POST", "/work", scope=WORK, tag=TAG, gives=schemas.Item, status=201, also=(200,),
    refuses=(409,), takes=("Idempotency-Key",), sets=("ETag", "Location"),
)  # fmt: skip
async def submit_work(call: Call, body: NewWork) -> Answer:
    """Submit one item.

    It is stored as `queued`, also when it names an agent: dispatching is a step of its own.
    The same `Idempotency-Key` with the same body returns the same item again, with 200.
    """
    done = await _submitted(call, [_new(body)], alone=True)
    item = done.items[0]
    headers = {"etag": f'"{item.version}"', "location": f"/work/{item.id}"}
    return json_answer(wire.item_of(item), 200 if done.repeated else 201, headers)


@endpoint(
    "POST", "/work/batch", scope=WORK, tag=TAG, gives=list[schemas.Item], status=201, also=(200,),
    refuses=(409,), takes=("Idempotency-Key",),
)  # fmt: skip
async def submit_batch(call: Call, body: NewBatch) -> Answer:
    """Submit many items, all or none.

    The same `Idempotency-Key` with the same body returns the same items again, with 200.
    """
    done = await _submitted(call, [_new(one) for one in body])
    return json_answer([wire.item_of(one) for one in done.items], 200 if done.repeated else 201)


@endpoint(
    "GET", "/work", scope=READ, tag=TAG, gives=list[schemas.Item], refuses=(400,), sets=("Link",)
)
async def list_work(call: Call, query: WorkQuery) -> Answer:
    """List items by priority and age.

    Name several statuses by repeating `status` or with commas. `since` selects items that were
    created after that time or, if only final statuses are asked for, ended after it. `id_prefix`
    selects items whose id begins with it. With either of the two, the list is ordered by age. `q`
    searches `description` and `body`.
    `ready=true` selects items that a claim could take now, by the server's clock. Items that are
    held, wait for others, are not due yet, or are taken through their source are left out.
    """
    wanted = Query(
        query.status,
        query.agent,
        query.project_id,
        query.type,
        query.label,
        query.q,
        _moment(query.since),
        _moment(query.updated_since),
        query.id_prefix,
        query.ready,
    )

    async def ask(limit: int, cursor: str | None) -> tuple[list[WorkItem], bool]:
        page = await call.ledger.views.items(replace(wanted, limit=limit, cursor=cursor))
        return page.items, page.cursor is not None

    return await page_answer(
        call,
        query.limit,
        query.cursor,
        ask,
        written=wire.item_of,
        place=lambda item: place_of(item, by_age=wanted.by_age),
    )


@endpoint("GET", "/work/{id}", scope=READ, tag=TAG, gives=schemas.ItemDetail, sets=("ETag",))
async def show_work(call: Call) -> Answer:
    """Show one item with its history, claim, links and follow-ups.

    `events` holds its latest 200 events; `GET /events?work_item_id=` lists all of them.
    `late_results` holds its latest 50 late results, however old they are.
    """
    detail = await call.ledger.views.detail(call.id)
    return json_answer(wire.detail_of(detail), 200, {"etag": f'"{detail.item.version}"'})


@endpoint("GET", "/work/{id}/explain", scope=READ, tag=TAG, gives=schemas.Explained)
async def explain_work(call: Call) -> Answer:
    """Explain why nobody works on an item, and what would change that."""
    return json_answer(wire.explained_of(await call.ledger.views.explain(call.id)))


@endpoint(
    "PATCH", "/work/{id}", scope=WORK, tag=TAG, gives=schemas.Item, refuses=(409, 412),
    takes=("If-Match",), sets=("ETag",),
)  # fmt: skip
async def change_work(call: Call, body: Change) -> Answer:
    """Change fields of an item, and move it to the given status.

    If the status machine has no move to that status, the answer is 409 with `allowed`.
    """
    target = None if body.status is None else status_named(Status, body.status)
    changes = _changes(body, target)
    if _STEERING & changes.keys() or (body.blocked_by is not msgspec.UNSET):
        call.caller.demand(DISPATCH)
    blocked_by = None if body.blocked_by is msgspec.UNSET else (body.blocked_by or ())
    changed = await carry_out(
        call,
        _order(call, body, target),
        lambda order: call.ledger.queue.change(order, target, changes, blocked_by),
        target=target,
    )
    call.metrics.completions += target is Status.COMPLETED and not changed.repeated
    return item_answer(changed.item)


def _moment(text: str | None) -> str | None:
    """In a query a plus sign that was not escaped is a space: 2026-05-01T19:42:33 00:00."""
    return text and _LOST_PLUS.sub(r"\1+\2", text)


def _names_agent(target: Status | None) -> bool:
    """Moves that also set the agent; with other moves, naming an agent is an edit."""
    return target in (Status.DISPATCHED, Status.IN_PROGRESS)


def _changes(body: Change, target: Status | None) -> dict[str, Any]:
    given = {name: getattr(body, name) for name in _DESCRIBING}
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    if body.assigned_agent is not msgspec.UNSET and not _names_agent(target):
        changes["assigned_agent"] = body.assigned_agent
    if body.notes is None:
        changes["notes"] = None
    if body.artifact_url is None or (target is None and body.artifact_url is not msgspec.UNSET):
        changes["artifact_url"] = body.artifact_url
    return changes


def _order(call: Call, body: Change, target: Status | None) -> Order:
    """The verb is a placeholder: the queue derives it from the item's status."""
    agent = body.assigned_agent or None if _names_agent(target) else None
    if target is Status.DISPATCHED and body.assigned_agent is None:
        raise MissingRequirement("dispatch needs assigned_agent", field="assigned_agent")
    return Order(
        Verb.RELEASE,
        call.id,
        call.actor,
        token=body.token,
        outcome=body.outcome,
        notes=body.notes or None,
        artifact_url=body.artifact_url or None,
        agent=agent,
        reason=body.reason,
        version=call.if_match(),
        force=body.force,
    )


@endpoint(
    "DELETE", "/work/{id}", scope=DISPATCH, tag=TAG, status=204, refuses=(409, 412),
    takes=("If-Match",),
)  # fmt: skip
async def delete_work(call: Call) -> Answer:
    """Cancel an item that nobody has started."""
    order = Order(Verb.CANCEL, call.id, call.actor, outcome="cancelled", version=call.if_match())
    await call.ledger.queue.apply(order)
    return empty_answer()


ENDPOINTS = (
    submit_work,
    submit_batch,
    list_work,
    show_work,
    explain_work,
    change_work,
    delete_work,
)
