"""New items: what may enter, exactly once where a key is given, and what they wait for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rota.model.claims import ClaimRequest, Completion
from rota.model.errors import InvalidInput, KeyReused, NotFound, Refused
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue
from rota.queue.views import Query, Views
from rota.storage.port import Store
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order

OpenStore = Callable[[], Awaitable[Store]]


def new(description: str = "Say hello", **values: Any) -> NewItem:
    return NewItem("chore", description, **values)


async def everything(views: Views) -> list[WorkItem]:
    return (await views.items(Query(limit=1_000))).items


async def test_what_is_answered_is_what_is_stored(queue: WorkQueue, views: Views) -> None:
    project = await queue.create_project("p")
    (blocker,) = (await queue.submit_many([new()])).items
    full = new(
        body="b",
        payload={"x": [1, None]},
        priority=2,
        project_id=project.id,
        assigned_agent="ada",
        labels=("b", "a", "b"),
        blocked_by=(blocker.id, blocker.id),
        available_at="2026-05-01T14:00:00+01:00",
        source="github:a/b",
        source_ref="1",
    )
    free = full._replace(blocked_by=(), source_ref="2", max_attempts=7)  # it is not read back
    stored = (await queue.submit_many([full, free, new()], actor="me")).items
    for item in stored:
        assert item == await views.item(item.id)
        assert (await views.detail(item.id)).events[0].actor == "me"
    first = stored[0]
    assert (first.labels, first.open_blockers) == (("b", "a"), 1)
    assert (first.available_at, first.deferred) == ("2026-05-01T13:00:00.000000Z", True)
    assert first.created_by == "me"
    assert [item.id for item in stored] == sorted(item.id for item in stored)


BAD: dict[str, tuple[str, NewItem]] = {
    "no type": ("type", NewItem("", "x")),
    "a blank type": ("type", NewItem("  ", "x")),
    "a long type": ("type", NewItem("x" * 101, "x")),
    "no description": ("description", new("")),
    "a long description": ("description", new("x" * 10_001)),
    "NUL in the description": ("description", new("a\x00b")),
    "half a character": ("description", new("\ud83d")),
    "a long body": ("body", new(body="x" * 500_001)),
    "a priority of 0": ("priority", new(priority=0)),
    "a priority of 6": ("priority", new(priority=6)),
    "no attempts": ("max_attempts", new(max_attempts=0)),
    "an agent that is no name": ("assigned_agent", new(assigned_agent="../x")),
    "too many labels": ("labels", new(labels=tuple(map(str, range(51))))),
    "an empty label": ("label", new(labels=("",))),
    "too many blockers": ("blocked_by", new(blocked_by=tuple(map(str, range(101))))),
    "an unknown blocker": ("blocked_by", new(blocked_by=("ghost",))),
    "an unknown project": ("project_id", new(project_id="ghost")),
    "no time": ("available_at", new(available_at="soon")),
    "a time beyond time": ("available_at", new(available_at="9999-12-31T23:59:59-23:59")),
    "a source without reference": ("source_ref", new(source="github:a/b")),
    "a payload that is not JSON": ("payload", new(payload={"x": object()})),
    "a payload with NaN": ("payload", new(payload=float("nan"))),
    "a payload with half a character": ("payload", new(payload=["\ud83d"])),
    "a large payload": ("payload", new(payload="x" * 262_144)),
}


@pytest.mark.parametrize(("field", "bad"), BAD.values(), ids=BAD.keys())
async def test_what_cannot_be_right_does_not_enter(
    queue: WorkQueue, views: Views, field: str, bad: NewItem
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await queue.submit_many([new(), bad])
    assert refused.value.details["field"] == f"[1].{field}"
    with pytest.raises(InvalidInput) as refused:
        await queue.submit(bad)
    assert refused.value.details["field"] == field
    assert await everything(views) == []


async def test_a_payload_may_be_deep_but_not_bottomless(queue: WorkQueue) -> None:
    def nested(depth: int) -> Any:
        payload: Any = 1
        for _ in range(depth - 1):
            payload = [payload]
        return payload

    assert (await queue.submit(new(payload=nested(32)))).payload == nested(32)
    for depth in (33, 100_000):
        with pytest.raises(InvalidInput, match="deeper"):
            await queue.submit(new(payload=nested(depth)))


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_has_a_size(queue: WorkQueue, count: int) -> None:
    with pytest.raises(InvalidInput):
        await queue.submit_many([new()] * count)


async def test_a_batch_keeps_its_order(queue: WorkQueue, views: Views) -> None:
    submitted = await queue.submit_many([new(str(n)) for n in range(1_000)])
    assert [item.description for item in submitted.items] == [str(n) for n in range(1_000)]
    assert [item.id for item in await everything(views)] == [item.id for item in submitted.items]


# idempotency keys


async def test_the_same_request_again_is_answered_with_the_same_items(
    queue: WorkQueue, views: Views
) -> None:
    request = [new("a", labels=("x",)), new("b", payload={"z": 1, "a": 2})]
    first = await queue.submit_many(request, key="k")
    again = await queue.submit_many(request, key="k")
    assert (first.repeated, again.repeated) == (False, True)
    assert [item.id for item in again.items] == [item.id for item in first.items]
    assert len(await everything(views)) == 2
    assert len(await views.events()) == 2


async def test_a_repeated_request_shows_how_the_items_stand_now(queue: WorkQueue) -> None:
    (item,) = (await queue.submit_many([new()], key="k")).items
    await queue.apply(order(Verb.CANCEL, item.id))
    (again,) = (await queue.submit_many([new()], key="k")).items
    assert again.status is Status.CANCELLED


async def test_a_key_with_another_request_is_refused(queue: WorkQueue, views: Views) -> None:
    await queue.submit_many([new()], key="k")
    for other in ([new("other")], [new(priority=1)], [new(), new()], [new(payload={})]):
        with pytest.raises(KeyReused):
            await queue.submit_many(other, key="k")
    assert len(await everything(views)) == 1


async def test_one_item_and_a_batch_of_one_are_two_requests(queue: WorkQueue) -> None:
    for key, first in (("a", True), ("b", False)):
        await queue.submit_many([new()], key=key, alone=first)
        assert (await queue.submit_many([new()], key=key, alone=first)).repeated
        with pytest.raises(KeyReused):
            await queue.submit_many([new()], key=key, alone=not first)


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\x00b"])
async def test_a_key_that_cannot_be_kept_is_refused(queue: WorkQueue, key: str) -> None:
    with pytest.raises(InvalidInput):
        await queue.submit_many([new()], key=key)


async def test_a_refused_request_does_not_use_up_its_key(queue: WorkQueue) -> None:
    with pytest.raises(InvalidInput):
        await queue.submit_many([new(project_id="ghost")], key="k")
    assert (await queue.submit_many([new()], key="k")).repeated is False


async def test_the_same_request_many_times_at_once_is_stored_once(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    for number in range(5):
        key = f"k{number}"
        answers = await asyncio.gather(
            *(queues[n % 2].submit_many([new("a"), new("b")], key=key) for n in range(8))
        )
        assert len({tuple(item.id for item in answer.items) for answer in answers}) == 1
        assert [answer.repeated for answer in answers].count(False) == 1
    assert (await store.read(lambda tx: tx.count_by_status()))[Status.QUEUED] == 10
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_one_key_with_two_requests_at_once_has_one_winner(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    answers = await asyncio.gather(
        *(queues[n % 2].submit_many([new(str(n))], key="k") for n in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, KeyReused) for answer in answers) == 5
    assert (await store.read(lambda tx: tx.count_by_status()))[Status.QUEUED] == 1


# many at once


async def test_one_bad_request_among_many_spoils_only_itself(
    queue: WorkQueue, views: Views, store: Store
) -> None:
    """They come in at the same moment and share a transaction, but not their fate."""
    known = await queue.submit(new(source="github:a/b", source_ref="1"))
    requests = [new(f"good {n}") for n in range(10)]
    requests.insert(3, new("taken", source="github:a/b", source_ref="1"))
    requests.insert(6, new("no project", project_id="ghost"))
    requests.insert(9, new("no blocker", blocked_by=("ghost",)))
    answers = await asyncio.gather(
        *(queue.submit(request) for request in requests), return_exceptions=True
    )
    refused = {
        request.description: type(answer)
        for request, answer in zip(requests, answers, strict=True)
        if isinstance(answer, Exception)
    }
    assert refused == {"taken": Refused, "no project": InvalidInput, "no blocker": InvalidInput}
    stored = {item.description for item in await everything(views)}
    assert stored == {known.description, *(f"good {n}" for n in range(10))}
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_the_same_source_reference_twice_at_once_is_one_item(
    queue: WorkQueue, views: Views
) -> None:
    twin = new(source="github:a/b", source_ref="1")
    answers = await asyncio.gather(
        queue.submit(twin), queue.submit(new()), queue.submit(twin), return_exceptions=True
    )
    assert isinstance(answers[1], WorkItem)
    assert sorted(type(answers[n]).__name__ for n in (0, 2)) == ["Refused", "WorkItem"]
    assert len(await everything(views)) == 2


async def test_many_who_submit_at_once_each_get_their_own(queue: WorkQueue, views: Views) -> None:
    items = await asyncio.gather(
        *(queue.submit(new(str(n)), actor=f"me-{n % 3}") for n in range(100))
    )
    assert [item.description for item in items] == [str(n) for n in range(100)]
    for item in items[:10]:
        detail = await views.detail(item.id)
        assert (detail.item.created_by, detail.events[0].actor) == (item.created_by,) * 2
        assert detail.item == item


# blockers


async def finish(queue: WorkQueue, item: WorkItem, verb: Verb) -> None:
    if verb is not Verb.CANCEL:
        await queue.apply(order(Verb.DISPATCH, item.id, agent=f"a-{item.id}"))
        await queue.apply(order(Verb.START, item.id))
    await queue.apply(order(verb, item.id))


async def claimable(queue: WorkQueue) -> set[str]:
    """What could be taken now; it is given back."""
    await queue.set_agent("probe", max_concurrent=50)
    got = (await queue.claim(ClaimRequest("probe", limit=50))).items
    for one in got:
        await queue.apply(order(Verb.RELEASE, one.item.id, token=one.claim.token))
    return {one.item.id for one in got}


async def test_an_item_waits_until_every_blocker_is_completed(
    queue: WorkQueue, views: Views
) -> None:
    first, second = await bring_to(queue, Status.QUEUED), await bring_to(queue, Status.QUEUED)
    item = await queue.submit(new(blocked_by=(first.id, second.id)))
    assert item.open_blockers == 2
    assert item.id not in await claimable(queue)
    await finish(queue, first, Verb.COMPLETE)
    assert (await views.item(item.id)).open_blockers == 1
    assert item.id not in await claimable(queue)
    await finish(queue, second, Verb.COMPLETE)
    assert item.id in await claimable(queue)
    told = [e for e in (await views.detail(item.id)).events if e.type == "work.unblocked"]
    assert [(e.actor, e.reason, e.data) for e in told] == [
        ("queue", "blocker_completed", {"blocker": second.id})
    ]


@pytest.mark.parametrize("verb", [Verb.FAIL, Verb.CANCEL])
async def test_a_blocker_that_fails_or_is_cancelled_frees_nothing(
    queue: WorkQueue, views: Views, verb: Verb
) -> None:
    blocker = await bring_to(queue, Status.QUEUED)
    item = await queue.submit(new(blocked_by=(blocker.id,)))
    await finish(queue, blocker, verb)
    assert (await views.item(item.id)).open_blockers == 1
    assert item.id not in await claimable(queue)
    explained = await views.explain(item.id)
    assert (explained.claimable, explained.reasons[0].code) == (
        False,
        "blocker_will_not_complete",
    )
    assert ("rota retry" in (explained.reasons[0].fix or "")) == (verb is Verb.FAIL)
    if verb is Verb.FAIL:
        await queue.apply(order(Verb.RETRY, blocker.id))
        await finish(queue, blocker, Verb.COMPLETE)
        assert item.id in await claimable(queue)


async def test_a_blocker_that_is_done_already_does_not_block(queue: WorkQueue) -> None:
    blocker = await bring_to(queue, Status.COMPLETED)
    item = await queue.submit(new(blocked_by=(blocker.id,)))
    assert item.open_blockers == 0
    assert item.id in await claimable(queue)


async def test_a_batch_of_completions_frees_what_waited(queue: WorkQueue, views: Views) -> None:
    blockers = [await bring_to(queue, Status.QUEUED, priority=1) for _ in range(3)]
    item = await queue.submit(new(blocked_by=tuple(one.id for one in blockers)))
    await queue.set_agent("ada", max_concurrent=3)
    got = (await queue.claim(ClaimRequest("ada", limit=3))).items
    await queue.complete_many([Completion(one.item.id, one.claim.token) for one in got])
    assert (await views.item(item.id)).open_blockers == 0
    told = [e.type for e in (await views.detail(item.id)).events].count("work.unblocked")
    assert told == 1


async def test_links_can_be_replaced_and_taken_off(queue: WorkQueue, views: Views) -> None:
    first, second = await bring_to(queue, Status.QUEUED), await bring_to(queue, Status.QUEUED)
    item = await queue.submit(new(blocked_by=(first.id,)))
    edit = order(Verb.RELEASE, item.id)
    changed = await queue.change(edit, None, {}, (second.id,))
    assert changed.item.open_blockers == 1
    assert [link.blocker_id for link in (await views.detail(item.id)).blocked_by] == [second.id]
    assert (await views.detail(first.id)).blocks == []
    assert (await queue.change(edit, None, {}, ())).item.open_blockers == 0
    assert item.id in await claimable(queue)
    assert (await views.detail(item.id)).events[-1].type != "work.unblocked"


async def test_a_blocker_named_twice_counts_once(queue: WorkQueue) -> None:
    blocker = await bring_to(queue, Status.QUEUED)
    item = await queue.submit(new())
    edit = order(Verb.RELEASE, item.id)
    assert (await queue.change(edit, None, {}, (blocker.id,) * 3)).item.open_blockers == 1
    await finish(queue, blocker, Verb.COMPLETE)
    assert item.id in await claimable(queue)


async def test_items_cannot_wait_in_a_circle(queue: WorkQueue, views: Views) -> None:
    a = await bring_to(queue, Status.QUEUED)
    b = await queue.submit(new(blocked_by=(a.id,)))
    c = await queue.submit(new(blocked_by=(b.id,)))
    before = await views.detail(a.id)
    for blocker in (a, b, c):
        with pytest.raises(InvalidInput, match="circle"):
            await queue.change(order(Verb.RELEASE, a.id), None, {"priority": 1}, (blocker.id,))
    assert await views.detail(a.id) == before
    with pytest.raises(InvalidInput, match="no work item"):
        await queue.change(order(Verb.RELEASE, a.id), None, {}, ("ghost",))
    assert await views.detail(a.id) == before


async def test_circles_cannot_be_closed_by_many_at_once(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    for size in (2, 3, 4, 5):
        ring = [await bring_to(queues[0], Status.QUEUED) for _ in range(size)]
        answers = await asyncio.gather(
            *(
                queues[n % 2].change(
                    order(Verb.RELEASE, item.id), None, {}, (ring[(n + 1) % size].id,)
                )
                for n, item in enumerate(ring)
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, InvalidInput) for answer in answers) == 1, answers
        free = [item for item in ring if not await _waits(store, item)]
        assert len(free) == 1


async def _waits(store: Store, item: WorkItem) -> bool:
    return bool(await store.read(lambda tx: tx.blockers_of(item.id)))


# projects and agents


async def test_a_project_is_made_and_changed(ledger: Ledger, clock: ManualClock) -> None:
    project = await ledger.queue.create_project("Docs", "https://example.org", actor="me")
    assert await ledger.views.project(project.id) == project
    clock.advance(1)
    changed = await ledger.queue.update_project(project.id, {"name": "Book"}, actor="me")
    assert (changed.name, changed.external_ref) == ("Book", "https://example.org")
    assert changed.updated_at == clock.text()
    assert await ledger.views.project(project.id) == changed
    events = await ledger.views.events()
    assert [(event.type, event.actor, event.project_id, event.data) for event in events] == [
        ("project.created", "me", project.id, {"name": "Docs"}),
        ("project.updated", "me", project.id, {"name": "Book"}),
    ]


async def test_an_empty_change_of_a_project_changes_nothing(
    ledger: Ledger, clock: ManualClock
) -> None:
    project = await ledger.queue.create_project("Docs")
    clock.advance(1)
    assert await ledger.queue.update_project(project.id, {}) == project
    assert [event.type for event in await ledger.views.events()] == ["project.created"]
    with pytest.raises(NotFound):
        await ledger.queue.update_project("ghost", {})


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\x00"])
async def test_a_project_needs_a_name(queue: WorkQueue, name: str) -> None:
    with pytest.raises(InvalidInput):
        await queue.create_project(name)
    project = await queue.create_project("p")
    with pytest.raises(InvalidInput):
        await queue.update_project(project.id, {"name": name})


async def test_a_project_that_is_not_there(ledger: Ledger) -> None:
    with pytest.raises(NotFound):
        await ledger.queue.update_project("ghost", {"name": "x"})
    with pytest.raises(NotFound):
        await ledger.views.project("ghost")


async def test_an_agent_is_set_piece_by_piece(ledger: Ledger, clock: ManualClock) -> None:
    made = clock.text()
    await ledger.queue.set_agent("ada", max_concurrent=4, actor="me")
    clock.advance(1)
    agent = await ledger.queue.set_agent("ada", paused=True)
    assert (agent.max_concurrent, agent.paused) == (4, True)
    (load,) = await ledger.views.agents()
    assert load.agent == agent
    assert (agent.created_at, agent.updated_at) == (made, clock.text())
    events = await ledger.views.events()
    assert [(event.type, event.agent, event.data) for event in events] == [
        (
            "agent.updated",
            "ada",
            {"max_concurrent": 4, "paused": paused, "max_in_review": None},
        )
        for paused in (False, True)
    ]


@pytest.mark.parametrize("slots", [0, -1, 1_001])
async def test_an_agent_has_one_slot_to_a_thousand(queue: WorkQueue, slots: int) -> None:
    with pytest.raises(InvalidInput):
        await queue.set_agent("ada", max_concurrent=slots)


@pytest.mark.parametrize("name", ["", "Ada", "-a", "a/b", "a" * 65, "a\n", "ä"])
async def test_an_agent_has_a_plain_name(queue: WorkQueue, name: str) -> None:
    with pytest.raises(InvalidInput):
        await queue.set_agent(name)
