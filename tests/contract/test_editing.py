"""What a PATCH, a note and a hold do to an item."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import ClaimRequest
from rota.model.errors import (
    ClaimedByAnother,
    InvalidInput,
    MissingRequirement,
    NoFreeSlot,
    NotFound,
    Refused,
    TransitionRefused,
    VersionMismatch,
)
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue
from rota.queue.moves import Order
from rota.queue.views import Views
from rota.storage.port import Store
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order

OpenStore = Callable[[], Awaitable[Store]]


def patch(item: WorkItem | str, **values: Any) -> Order:
    """Everything of a PATCH but its changes; the verb in it is a placeholder."""
    item_id = item if isinstance(item, str) else item.id
    return Order(Verb.RELEASE, item_id, **{"actor": "me", **values})


async def test_a_patch_changes_what_it_names_and_nothing_else(
    ledger: Ledger, clock: ManualClock
) -> None:
    project = await ledger.queue.create_project("p")
    before = await bring_to(ledger.queue, Status.QUEUED, labels=("a",), body="b", payload=1)
    clock.advance(1)
    changes: dict[str, Any] = {
        "type": "bug",
        "description": "new",
        "body": None,
        "payload": {"ü": [1]},
        "priority": 1,
        "project_id": project.id,
        "max_attempts": 9,
        "labels": ("c", "b", "c"),
        "available_at": "2026-06-01T00:00:00Z",
        "assigned_agent": "bob",
    }
    changed = await ledger.queue.change(patch(before), None, changes)
    assert changed.item == replace(
        before,
        **{
            **changes,
            "labels": ("c", "b"),
            "available_at": "2026-06-01T00:00:00.000000Z",
            "deferred": True,
            "pinned": True,
            "updated_at": clock.text(),
            "version": before.version + 1,
        },
    )
    detail = await ledger.views.detail(before.id)
    assert detail.item == changed.item
    event = detail.events[-1]
    assert (event.type, event.actor, event.data) == (
        "work.edited",
        "me",
        {"fields": sorted(changes)},
    )
    assert (event.from_status, event.to_status) == (None, None)


async def test_an_empty_patch_changes_nothing(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    before = await views.detail(item.id)
    assert (await queue.change(patch(item), None, {})).item == item
    assert await views.detail(item.id) == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", ""),
        ("type", None),
        ("description", None),
        ("description", "a\x00b"),
        ("body", "x" * 500_001),
        ("priority", 0),
        ("max_attempts", 0),
        ("assigned_agent", "Not A Name"),
        ("payload", float("inf")),
        ("available_at", "soon"),
        ("project_id", "ghost"),
    ],
)
async def test_a_patch_that_cannot_be_right_changes_nothing(
    queue: WorkQueue, views: Views, field: str, value: Any
) -> None:
    item = await bring_to(queue, Status.QUEUED)
    before = await views.detail(item.id)
    with pytest.raises(InvalidInput) as refused:
        await queue.change(patch(item), None, {"priority": 2, field: value})
    assert refused.value.details["field"] == field
    assert await views.detail(item.id) == before


async def test_a_patch_of_nothing(queue: WorkQueue) -> None:
    with pytest.raises(NotFound):
        await queue.change(patch("ghost"), None, {"priority": 1})


async def test_a_patch_may_edit_and_move_at_once(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    changed = await queue.change(
        patch(item, outcome="success", notes="all good"), Status.COMPLETED, {"labels": ("done",)}
    )
    moved = changed.item
    assert (moved.status, moved.labels, moved.notes) == (Status.COMPLETED, ("done",), "all good")
    events = (await views.detail(item.id)).events[-2:]
    assert [event.type for event in events] == ["work.edited", "work.completed"]
    assert events[1].data == {"outcome": "success", "notes": "all good"}


async def test_a_patch_whose_move_is_refused_edits_nothing(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    before = await views.detail(item.id)
    edits = {"description": "new", "labels": ("x",)}
    with pytest.raises(TransitionRefused):
        await queue.change(patch(item, outcome="success"), Status.COMPLETED, edits)
    with pytest.raises(MissingRequirement):
        await queue.change(patch(item), Status.DISPATCHED, edits)
    assert await views.detail(item.id) == before


async def test_a_patch_to_the_same_status_is_no_move(queue: WorkQueue, views: Views) -> None:
    for status in Status:
        item = await bring_to(queue, status, f"a-{status.replace('_', '-')}")
        with pytest.raises(TransitionRefused):
            await queue.change(patch(item), status, {})
        assert await views.item(item.id) == item


async def test_an_outcome_belongs_to_a_move(queue: WorkQueue) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    with pytest.raises(InvalidInput, match="terminal"):
        await queue.change(patch(item, outcome="success"), None, {"priority": 1})


async def test_a_patch_that_cancels_needs_no_outcome(queue: WorkQueue) -> None:
    item = await bring_to(queue, Status.QUEUED)
    assert (await queue.change(patch(item), Status.CANCELLED, {})).item.outcome == "cancelled"


async def test_a_patch_that_dispatches_names_the_agent(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    changed = await queue.change(
        patch(item, agent="bob"), Status.DISPATCHED, {"assigned_agent": "bob"}
    )
    moved = changed.item
    assert (moved.status, moved.assigned_agent, moved.pinned) == (Status.DISPATCHED, "bob", False)
    assert [one.agent for one in (await views.detail(item.id)).dispatch_log] == ["bob"]


async def test_naming_an_agent_pins_the_item_and_naming_nobody_frees_it(queue: WorkQueue) -> None:
    item = await bring_to(queue, Status.QUEUED)
    assert (await queue.change(patch(item), None, {"assigned_agent": "bob"})).item.pinned is True
    assert (await queue.claim(ClaimRequest("ada"))).items == []
    freed = (await queue.change(patch(item), None, {"assigned_agent": None})).item
    assert (freed.assigned_agent, freed.pinned) == (None, False)
    assert len((await queue.claim(ClaimRequest("ada"))).items) == 1


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (Status.DISPATCHED, "release it before naming another agent"),
        (Status.IN_PROGRESS, "release it before naming another agent"),
        (Status.BLOCKED, "release it before naming another agent"),
        (Status.IN_REVIEW, "reopen it before naming another agent"),
        (Status.FAILED, "retry it before naming another agent"),
        (Status.COMPLETED, "this status is final"),
    ],
)
async def test_work_in_hand_is_not_given_to_another(
    queue: WorkQueue, views: Views, status: Status, advice: str
) -> None:
    item = await bring_to(queue, status)
    for other in ("bob", None):
        with pytest.raises(Refused, match=advice):
            await queue.change(patch(item), None, {"assigned_agent": other})
    assert await views.item(item.id) == item


async def test_what_was_cancelled_before_it_had_an_agent_gets_none(queue: WorkQueue) -> None:
    item = await bring_to(queue, Status.CANCELLED)
    with pytest.raises(Refused, match="is cancelled; this status is final"):
        await queue.change(patch(item), None, {"assigned_agent": "bob"})


async def test_a_patch_at_a_version_that_has_passed(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    for target, values in ((None, {}), (Status.COMPLETED, {"outcome": "success"})):
        with pytest.raises(VersionMismatch):
            await queue.change(
                patch(item, version=item.version - 1, **values), target, {"body": "x"}
            )
    assert await views.item(item.id) == item
    changed = await queue.change(
        patch(item, version=item.version, outcome="success"), Status.COMPLETED, {"body": "x"}
    )
    assert (changed.item.status, changed.item.body) == (Status.COMPLETED, "x")


async def test_of_many_edits_at_one_version_one_wins(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    item = await bring_to(queues[0], Status.QUEUED)
    answers = await asyncio.gather(
        *(
            queues[n % 2].change(patch(item, version=1), None, {"description": str(n)})
            for n in range(8)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, VersionMismatch) for answer in answers) == 7


async def test_many_edits_without_a_version_are_all_kept(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    item = await bring_to(queues[0], Status.QUEUED)
    await asyncio.gather(
        *(queues[n % 2].change(patch(item), None, {"priority": 1 + n % 5}) for n in range(10))
    )
    detail = await Ledger.on(store).views.detail(item.id)
    assert detail.item.version == 11
    assert [event.type for event in detail.events].count("work.edited") == 10


async def test_a_holder_may_edit_and_note_with_its_token(queue: WorkQueue, views: Views) -> None:
    await bring_to(queue, Status.QUEUED)
    (got,) = (await queue.claim(ClaimRequest("ada"))).items
    await queue.change(patch(got.item, token=got.claim.token), None, {"body": "found more"})
    await queue.note(got.item.id, "half way", actor="ada", token=got.claim.token)
    detail = await views.detail(got.item.id)
    assert (detail.item.body, detail.item.notes) == ("found more", "half way")
    assert detail.claim is not None
    with pytest.raises(ClaimedByAnother):
        await queue.change(patch(got.item, outcome="success"), Status.COMPLETED, {})


# notes and holds


async def test_a_note_replaces_the_last_and_leaves_an_event(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    for text in ("first", "second"):
        clock.advance(1)
        noted = await queue.note(item.id, text, actor="me")
        assert (noted.notes, noted.updated_at, noted.status) == (text, clock.text(), item.status)
    events = [e for e in (await views.detail(item.id)).events if e.type == "work.noted"]
    assert [(e.actor, e.data) for e in events] == [
        ("me", {"notes": "first"}),
        ("me", {"notes": "second"}),
    ]


@pytest.mark.parametrize("text", ["", " \n", "a\x00b", "x" * 100_001])
async def test_a_note_says_something(queue: WorkQueue, text: str) -> None:
    item = await bring_to(queue, Status.QUEUED)
    with pytest.raises(InvalidInput):
        await queue.note(item.id, text)


async def test_a_held_item_is_not_picked_up(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    dispatched = await bring_to(queue, Status.DISPATCHED, "ada")
    for one in (item, dispatched):
        held = await queue.hold(one.id, "wait for Monday", actor="me")
        assert (held.hold_reason, held.status) == ("wait for Monday", one.status)
    assert (await queue.claim(ClaimRequest("ada"))).items == []
    event = (await views.detail(item.id)).events[-1]
    assert (event.type, event.reason, event.actor) == ("work.held", "wait for Monday", "me")
    unheld = await queue.unhold(item.id, actor="me")
    assert unheld.hold_reason is None
    assert (await views.detail(item.id)).events[-1].type == "work.unheld"
    (got,) = (await queue.claim(ClaimRequest("bob"))).items
    assert got.item.id == item.id


async def test_holding_twice_is_holding_once(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    await queue.hold(item.id, "wait")
    before = await views.detail(item.id)
    await queue.hold(item.id, "wait")
    assert await views.detail(item.id) == before
    await queue.hold(item.id, "wait longer")
    assert (await views.item(item.id)).hold_reason == "wait longer"
    await queue.unhold(item.id)
    after = await views.detail(item.id)
    await queue.unhold(item.id)
    assert await views.detail(item.id) == after


async def test_a_hold_survives_the_moves_of_its_item(queue: WorkQueue) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    await queue.hold(item.id, "wait")
    released = (await queue.apply(order(Verb.RELEASE, item.id))).item
    assert released.hold_reason == "wait"
    assert (await queue.claim(ClaimRequest("ada"))).items == []


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED])
async def test_a_finished_item_needs_no_hold(queue: WorkQueue, status: Status) -> None:
    item = await bring_to(queue, status)
    with pytest.raises(Refused):
        await queue.hold(item.id, "wait")


async def test_many_hands_on_one_item_leave_a_ledger_that_agrees(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    item = await queues[0].submit(NewItem("chore", "x"))

    async def hand(number: int) -> None:
        queue = queues[number % 2]
        for verb in (Verb.DISPATCH, Verb.START, Verb.BLOCK, Verb.RESUME, Verb.RELEASE):
            try:
                await queue.apply(order(verb, item.id, actor=f"h{number}"))
            except (TransitionRefused, NoFreeSlot):
                await queue.note(item.id, f"refused {number}")

    await asyncio.gather(*map(hand, range(6)))
    assert faults(await store.read(read_ledger, long=True)) == []
