"""Taking work, keeping it, losing it: claims, leases, fencing and the sweeper."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from rota.daemon import Sweeping
from rota.model.claims import ClaimedItem, ClaimRequest, Completion, NothingClaimed
from rota.model.errors import ClaimLost, InvalidInput, NoFreeSlot, NotFound, TransitionRefused
from rota.model.events import EventType
from rota.model.sources import Firing
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue, claiming
from rota.queue.moves import Order
from rota.queue.sweeper import Sweeper, Swept
from rota.queue.views import EVENTS_SHOWN, Query, Views
from rota.storage.port import Store, Transaction
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, item_once, order

OpenStore = Callable[[], Awaitable[Store]]
PATIENCE = 20.0


async def submit(queue: WorkQueue, count: int = 1, **values: object) -> list[WorkItem]:
    new = NewItem(**{"type": "chore", "description": "Say hello", **values})  # type: ignore[arg-type]
    return [await queue.submit(new) for _ in range(count)]


async def claim(queue: WorkQueue, agent: str = "ada", **values: object) -> ClaimedItem:
    result = await queue.claim(ClaimRequest(agent, **values))  # type: ignore[arg-type]
    (got,) = result.items
    return got


async def lose(ledger: Ledger, clock: ManualClock, agent: str = "ada") -> ClaimedItem:
    """A claim whose lease has lapsed, and whose item is back in the queue."""
    got = await claim(ledger.queue, agent, lease_seconds=60)
    clock.advance(60)
    assert await ledger.sweeper.tick() == Swept(released=(got.item.id,))
    return got


async def agrees(store: Store) -> None:
    assert faults(await store.read(read_ledger, long=True)) == []


# taking


async def test_a_lease_begins_when_the_database_has_the_claim_and_not_when_it_was_asked_for(
    one_lane: Store, clock: ManualClock
) -> None:
    queue = Ledger.on(one_lane).queue
    await submit(queue, 2)
    got = await claim(queue, "ada", lease_seconds=60)
    gate = threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    asked = ClaimRequest("bob", lease_seconds=60)
    waiting = asyncio.gather(queue.claim(asked), queue.heartbeat(got.item.id, got.claim.token))
    await asyncio.sleep(0)  # both have asked
    clock.advance(50)
    gate.set()
    await held_up
    result, beat = await waiting
    (late,) = result.items
    assert late.claim.claimed_at == clock.text()
    assert late.claim.expires_at == beat.expires_at == clock.text(60)


async def test_so_does_that_of_a_start_and_of_what_is_taken_through_its_source(
    one_lane: Store, clock: ManualClock
) -> None:
    ledger = Ledger.on(one_lane)
    mine = await bring_to(ledger.queue, Status.DISPATCHED, "ada")
    gate = threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    lease = ledger.queue.lease(5)
    issue = NewItem("issue", "x", source="github:owner/repo", source_ref="42")
    signs = Firing("f1", "bob", "home", "n1")
    waiting = asyncio.gather(
        ledger.queue.apply(order(Verb.START, mine.id, lease=lease)),
        ledger.outside.take(issue, "bob", 60, signs, first_lease_seconds=5),
    )
    await asyncio.sleep(0)  # both have asked
    clock.advance(10)
    gate.set()
    await held_up
    started, taken = await waiting
    for claim, item in ((started.claim, started.item), (taken.claim, taken.item)):
        assert claim is not None
        assert (claim.claimed_at, claim.expires_at) == (clock.text(), clock.text(5))
        assert item.lease_expires_at == clock.text(5)
    assert not await ledger.sweeper.tick(), "both are held"
    assert (await ledger.queue.heartbeat(taken.item.id, taken.claim.token)).expires_at == (
        clock.text(60)
    )


async def test_what_waits_for_the_database_happens_when_it_is_done_and_not_when_it_was_asked_for(
    one_lane: Store, clock: ManualClock
) -> None:
    """Else who looks meanwhile for what was completed since his last look never sees it."""
    ledger = Ledger.on(one_lane)
    queue = ledger.queue
    mine = await bring_to(queue, Status.IN_PROGRESS, "ada")
    await submit(queue, max_attempts=1)
    lapsed = (await claim(queue, "bob", lease_seconds=1)).item
    issue = NewItem("issue", "x", source="github:owner/repo", source_ref="42")
    theirs = (await ledger.outside.take(issue, "cy", 600, Firing("f1", "cy", "home", "n1"))).item
    noted, held = await submit(queue, 2)
    clock.advance(1)
    gate = threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    waiting = asyncio.gather(
        queue.change(order(Verb.RELEASE, mine.id, outcome="success"), Status.COMPLETED, {}),
        ledger.outside.finished("f1", "found_done"),
        ledger.sweeper.tick(),
        queue.note(noted.id, "Look here"),
        queue.hold(held.id, "Not yet"),
    )
    await asyncio.sleep(0)  # all have asked
    clock.advance(50)
    looked_at = clock.text()
    clock.advance(10)
    gate.set()
    await held_up
    await waiting
    ended = await ledger.views.items(Query(("completed", "failed"), since=looked_at))
    assert {item.id for item in ended.items} == {mine.id, theirs.id, lapsed.id}
    for item in (noted, held):
        assert (await ledger.views.item(item.id)).updated_at == clock.text()


async def test_a_claim_says_what_was_taken_and_until_when(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    (item,) = await submit(queue)
    clock.advance(5)
    got = await claim(queue, "ada", lease_seconds=90)
    assert got.item == (await views.detail(item.id)).item
    assert got.claim == (await views.detail(item.id)).claim
    assert (got.item.status, got.item.assigned_agent) == (Status.IN_PROGRESS, "ada")
    assert (got.claim.claimed_at, got.claim.expires_at) == (clock.text(), clock.text(90))
    assert len(got.claim.token) >= 20


async def test_a_claim_goes_by_right_priority_and_age(queue: WorkQueue) -> None:
    old = await bring_to(queue, Status.QUEUED)
    low = await bring_to(queue, Status.QUEUED, priority=5)
    named = await bring_to(queue, Status.QUEUED, priority=4, assigned_agent="ada")
    dispatched = await bring_to(queue, Status.DISPATCHED, "ada", priority=5)
    urgent = await bring_to(queue, Status.QUEUED, priority=1)
    young = await bring_to(queue, Status.QUEUED)
    others = await bring_to(queue, Status.QUEUED, priority=1, assigned_agent="bob")
    await queue.set_agent("ada", max_concurrent=10)
    result = await queue.claim(ClaimRequest("ada", limit=10))
    order_taken = [one.item.id for one in result.items]
    assert order_taken == [item.id for item in (dispatched, urgent, old, young, named, low)]
    assert others.id not in order_taken


async def test_a_released_item_goes_back_to_its_place(queue: WorkQueue) -> None:
    first, second = await submit(queue, 2)
    got = await claim(queue)
    assert got.item.id == first.id
    await queue.apply(order(Verb.RELEASE, first.id, token=got.claim.token))
    assert (await claim(queue)).item.id == first.id
    assert (await claim(queue, "bob")).item.id == second.id


async def test_an_agent_gets_as_many_as_it_has_slots(queue: WorkQueue, store: Store) -> None:
    await submit(queue, 8)
    await queue.set_agent("ada", max_concurrent=3)
    first = await queue.claim(ClaimRequest("ada", limit=2))
    rest = await queue.claim(ClaimRequest("ada", limit=8))
    assert [one.item.slot for one in first.items + rest.items] == [0, 1, 2]
    none = await queue.claim(ClaimRequest("ada", limit=8))
    assert (none.items, none.reason) == ([], NothingClaimed.NO_FREE_SLOT)
    await queue.complete(first.items[1].item.id, token=first.items[1].claim.token)
    assert (await claim(queue, limit=5)).item.slot == 1
    await agrees(store)


async def test_an_agent_that_may_do_less_than_it_does_gets_nothing_new(
    queue: WorkQueue, store: Store
) -> None:
    waiting = await bring_to(queue, Status.DISPATCHED, "ada")
    await submit(queue, 4)
    await queue.hold(waiting.id, "for later")
    await queue.set_agent("ada", max_concurrent=3)
    first, *rest = (await queue.claim(ClaimRequest("ada", limit=3))).items
    await queue.complete(first.item.id, token=first.claim.token)
    await queue.set_agent("ada", max_concurrent=1)
    await queue.unhold(waiting.id)
    # Its lowest slot is free, and it is at work in two that it had when it might do more.
    assert first.claim.slot == 0
    none = await queue.claim(ClaimRequest("ada"))
    assert (none.items, none.reason) == ([], NothingClaimed.NO_FREE_SLOT)
    with pytest.raises(NoFreeSlot, match="2 of 1"):
        await queue.apply(order(Verb.START, waiting.id))
    for one in rest:
        await queue.complete(one.item.id, token=one.claim.token)
    assert (await claim(queue)).item.slot == 0
    await agrees(store)


async def test_who_gets_nothing_hears_why(queue: WorkQueue) -> None:
    async def why(agent: str, **filters: object) -> NothingClaimed | None:
        return (await queue.claim(ClaimRequest(agent, **filters))).reason  # type: ignore[arg-type]

    assert await why("ada") is NothingClaimed.NOTHING_READY
    await submit(queue, 3)
    assert await why("ada", types=("other",)) is NothingClaimed.NOTHING_READY
    assert await why("ada") is None
    assert await why("ada") is NothingClaimed.NO_FREE_SLOT
    await queue.set_agent("ada", paused=True)
    assert await why("ada") is NothingClaimed.AGENT_PAUSED
    await queue.set_agent("ada", paused=False, max_concurrent=2)
    assert await why("ada") is None


async def test_a_type_that_is_named_twice_is_looked_for_once(
    queue: WorkQueue, store: Store
) -> None:
    await queue.set_agent("ada", max_concurrent=5)
    bugs = [item.id for item in await submit(queue, 3, type="bug")]
    (docs,) = await submit(queue, type="docs")
    twice = ClaimRequest("ada", limit=5, types=("bug", "docs", "bug"))
    assert [one.item.id for one in (await queue.claim(twice)).items] == [*bugs, docs.id]
    await agrees(store)


async def test_a_claim_takes_only_what_it_asks_for(queue: WorkQueue) -> None:
    project = await queue.create_project("p")
    (bug,) = await submit(queue, type="bug", labels=("red", "big"))
    (docs,) = await submit(queue, type="docs", labels=("red",), project_id=project.id)
    (mine,) = await submit(queue, type="bug", labels=("red",), assigned_agent="eve")
    assert (await claim(queue, "a", types=("docs", "chore"))).item.id == docs.id
    assert (await queue.claim(ClaimRequest("b", project_id=project.id))).items == []
    assert (await claim(queue, "c", labels=("red", "big"))).item.id == bug.id
    assert (await queue.claim(ClaimRequest("eve", types=("docs",)))).items == []
    assert (await claim(queue, "eve", types=("bug",), labels=("red",))).item.id == mine.id


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("agent", ClaimRequest("Ada")),
        ("agent", ClaimRequest("")),
        ("agent", ClaimRequest("../etc")),
        ("limit", ClaimRequest("ada", limit=0)),
        ("limit", ClaimRequest("ada", limit=1_001)),
        ("wait_seconds", ClaimRequest("ada", wait_seconds=-1)),
        ("wait_seconds", ClaimRequest("ada", wait_seconds=61)),
        ("wait_seconds", ClaimRequest("ada", wait_seconds=math.nan)),
        ("lease_seconds", ClaimRequest("ada", lease_seconds=0)),
        ("lease_seconds", ClaimRequest("ada", lease_seconds=math.nan)),
        ("lease_seconds", ClaimRequest("ada", lease_seconds=10**9)),
        ("types", ClaimRequest("ada", types=("x",) * 51)),
        ("type", ClaimRequest("ada", types=("",))),
        ("labels", ClaimRequest("ada", labels=tuple(map(str, range(51))))),
        ("label", ClaimRequest("ada", labels=("\x00",))),
    ],
)
async def test_a_claim_that_cannot_be_right_is_refused(
    queue: WorkQueue, views: Views, field: str, request_: ClaimRequest
) -> None:
    (item,) = await submit(queue)
    with pytest.raises(InvalidInput) as refused:
        await queue.claim(request_)
    assert refused.value.details["field"] == field
    assert await views.item(item.id) == item


async def test_many_claimers_at_once_each_get_their_own(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(store), WorkQueue(await another_store())]
    await queues[0].submit_many([NewItem("chore", str(n)) for n in range(60)])
    answers = await asyncio.gather(
        *(queues[n % 2].claim(ClaimRequest(f"a{n}", wait_seconds=PATIENCE)) for n in range(60))
    )
    ids = [one.item.id for answer in answers for one in answer.items]
    assert len(ids) == len(set(ids)) == 60
    await agrees(store)


async def test_two_claims_of_one_agent_race_for_one_slot(
    store: Store, another_store: OpenStore
) -> None:
    stores = [store, await another_store(), await another_store()]
    queues = [WorkQueue(one) for one in stores]
    for _ in range(10):
        await submit(queues[0], 3)
        answers = await asyncio.gather(*(queue.claim(ClaimRequest("ada")) for queue in queues))
        won = [one for answer in answers for one in answer.items]
        assert len(won) == 1
        assert {answer.reason for answer in answers} == {None, NothingClaimed.NO_FREE_SLOT}
        await queues[0].complete(won[0].item.id, token=won[0].claim.token)
    await agrees(store)


# leases and fencing


async def test_a_heartbeat_pushes_the_lease_out_by_its_own_length(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    await submit(queue)
    got = await claim(queue, lease_seconds=60)
    clock.advance(50)
    beaten = await queue.heartbeat(got.item.id, got.claim.token, progress="half")
    assert (beaten.expires_at, beaten.heartbeat_at) == (clock.text(60), clock.text())
    assert (await views.detail(got.item.id)).claim == beaten
    clock.advance(59)
    beaten = await queue.heartbeat(got.item.id, got.claim.token)
    assert (beaten.expires_at, beaten.progress) == (clock.text(60), "half")


async def test_a_heartbeat_can_bring_a_note(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    await submit(queue)
    got = await claim(queue)
    clock.advance(5)
    await queue.heartbeat(got.item.id, got.claim.token, notes="still at it")
    detail = await views.detail(got.item.id)
    assert (detail.item.notes, detail.item.updated_at) == ("still at it", clock.text())
    event = detail.events[-1]
    assert (event.type, event.actor, event.data) == ("work.noted", "ada", {"notes": "still at it"})


async def test_a_heartbeat_in_time_keeps_the_sweeper_away(
    ledger: Ledger, clock: ManualClock
) -> None:
    await submit(ledger.queue)
    got = await claim(ledger.queue, lease_seconds=60)
    for _ in range(5):
        clock.advance(59)
        assert not await ledger.sweeper.tick()
        await ledger.queue.heartbeat(got.item.id, got.claim.token)
    clock.advance(60)
    assert await ledger.sweeper.tick() == Swept(released=(got.item.id,))


async def test_a_heartbeat_after_the_end_says_stop(ledger: Ledger, clock: ManualClock) -> None:
    await submit(ledger.queue)
    got = await lose(ledger, clock)
    with pytest.raises(ClaimLost):
        await ledger.queue.heartbeat(got.item.id, got.claim.token, notes="still at it")
    await claim(ledger.queue, "bob")
    before = await ledger.views.detail(got.item.id)
    with pytest.raises(ClaimLost):
        await ledger.queue.heartbeat(got.item.id, got.claim.token, notes="still at it")
    with pytest.raises(ClaimLost):
        await ledger.queue.heartbeat(got.item.id, "a-stranger")
    assert await ledger.views.detail(got.item.id) == before
    with pytest.raises(NotFound):
        await ledger.queue.heartbeat("ghost", got.claim.token)


LATE = [Verb.COMPLETE, Verb.FAIL, Verb.BLOCK, Verb.HAND_OVER, Verb.RELEASE]


@pytest.mark.parametrize("verb", LATE)
@pytest.mark.parametrize("taken_again", [True, False], ids=["taken again", "queued"])
async def test_a_late_result_is_refused_and_kept(
    ledger: Ledger, clock: ManualClock, verb: Verb, taken_again: bool
) -> None:
    await submit(ledger.queue)
    late = await lose(ledger, clock, "ada")
    new = await claim(ledger.queue, "bob") if taken_again else None
    before = await ledger.views.detail(late.item.id)
    asked = order(verb, late.item.id, actor="ada", token=late.claim.token, notes="my result")
    with pytest.raises(ClaimLost) as refused:
        await ledger.queue.apply(asked)
    assert refused.value.details == {"status": before.item.status, "kept": True}
    after = await ledger.views.detail(late.item.id)
    assert (after.item, after.claim, after.dispatch_log) == (
        before.item,
        before.claim,
        before.dispatch_log,
    )
    (kept,) = after.late_results
    assert after.events == [*before.events, kept]
    assert (kept.agent, kept.actor, kept.epoch, kept.to_status) == ("ada", "ada", 1, None)
    assert (kept.data["verb"], kept.data["notes"]) == (verb, "my result")
    assert kept.data.get("outcome") == asked.outcome
    if new is not None:
        done = await ledger.queue.complete(new.item.id, token=new.claim.token, notes="the result")
        assert (done.status, done.notes, done.assigned_agent) == (
            Status.COMPLETED,
            "the result",
            "bob",
        )


async def test_two_claims_of_one_moment_are_two_to_say_something_late(ledger: Ledger) -> None:
    (item,) = await submit(ledger.queue)
    taken = []
    for _ in range(2):
        taken.append(await claim(ledger.queue))
        await ledger.queue.apply(order(Verb.RELEASE, item.id, force=True))
    for one in taken:
        with pytest.raises(ClaimLost):
            await ledger.queue.apply(order(Verb.BLOCK, item.id, token=one.claim.token, notes="why"))
    kept = (await ledger.views.detail(item.id)).late_results
    assert [one.epoch for one in kept] == [1, 2]


async def test_a_late_result_stays_on_its_item_however_much_is_noted_later(ledger: Ledger) -> None:
    (item,) = await submit(ledger.queue)
    taken = await claim(ledger.queue)
    await ledger.queue.apply(order(Verb.RELEASE, item.id, force=True))
    with pytest.raises(ClaimLost):
        await ledger.queue.complete(item.id, token=taken.claim.token, notes="it is mended")
    for number in range(EVENTS_SHOWN):
        await ledger.queue.note(item.id, f"note {number}")
    detail = await ledger.views.detail(item.id)
    assert EventType.LATE_RESULT not in {event.type for event in detail.events}
    assert [event.data["notes"] for event in detail.late_results] == ["it is mended"]


async def test_a_late_result_that_is_repeated_is_kept_once(
    ledger: Ledger, clock: ManualClock
) -> None:
    await submit(ledger.queue)
    late = await lose(ledger, clock, "ada")
    item_id, token = late.item.id, late.claim.token
    for notes in ("mine", "mine", "more of it", "mine"):
        with pytest.raises(ClaimLost) as lost:
            await ledger.queue.complete(item_id, token=token, notes=notes, actor="ada")
        assert lost.value.details["kept"]
        clock.advance(1)
    with pytest.raises(ClaimLost):
        await ledger.queue.apply(order(Verb.FAIL, item_id, token=token, notes="mine"))
    again = await lose(ledger, clock, "ada")
    with pytest.raises(ClaimLost):
        await ledger.queue.complete(item_id, token=again.claim.token, notes="mine", actor="ada")
    kept = (await ledger.views.detail(item_id)).late_results
    assert [(one.epoch, one.data["verb"], one.data["notes"]) for one in kept] == [
        (1, "complete", "mine"),
        (1, "complete", "more of it"),
        (1, "fail", "mine"),
        (2, "complete", "mine"),
    ]


async def test_a_late_patch_is_refused_whole(ledger: Ledger, clock: ManualClock) -> None:
    (item,) = await submit(ledger.queue)
    late = await lose(ledger, clock)
    before = await ledger.views.item(item.id)
    placeholder = order(Verb.RELEASE, item.id, token=late.claim.token, outcome="success")
    with pytest.raises(ClaimLost):
        await ledger.queue.change(placeholder, Status.COMPLETED, {"description": "mine"})
    with pytest.raises(ClaimLost):
        await ledger.queue.note(item.id, "late words", token=late.claim.token)
    plain = order(Verb.RELEASE, item.id, token=late.claim.token)
    with pytest.raises(ClaimLost):
        await ledger.queue.change(plain, None, {"priority": 1})
    assert await ledger.views.item(item.id) == before
    assert len((await ledger.views.detail(item.id)).late_results) == 1


async def test_the_word_of_a_stranger_is_not_kept(queue: WorkQueue, views: Views) -> None:
    await submit(queue)
    got = await claim(queue)
    before = await views.detail(got.item.id)
    with pytest.raises(ClaimLost) as refused:
        await queue.complete(got.item.id, token="guessed")
    assert refused.value.details["kept"] is False
    assert await views.detail(got.item.id) == before


async def test_a_late_result_cannot_hide_behind_the_new_holder_s(
    ledger: Ledger, clock: ManualClock, store: Store
) -> None:
    """Both come in at the same moment and end in one transaction."""
    for late_first in (True, False):
        await submit(ledger.queue)
        late = await lose(ledger, clock, "ada")
        new = await claim(ledger.queue, "bob")
        calls = [
            ledger.queue.complete(late.item.id, token=late.claim.token, notes="late"),
            ledger.queue.complete(new.item.id, token=new.claim.token, notes="new"),
        ]
        answers = await asyncio.gather(
            *(calls if late_first else reversed(calls)), return_exceptions=True
        )
        by_late, by_new = answers if late_first else reversed(answers)
        assert isinstance(by_late, ClaimLost)
        assert isinstance(by_new, WorkItem)
        detail = await ledger.views.detail(new.item.id)
        assert (detail.item.status, detail.item.notes) == (Status.COMPLETED, "new")
        assert len(detail.late_results) == 1
    await agrees(store)


@pytest.mark.parametrize("verb", LATE)
async def test_a_repeated_verb_of_the_holder_is_answered_and_done_once(
    queue: WorkQueue, views: Views, verb: Verb
) -> None:
    """The first answer was lost on the way; the holder asks again with the same token."""
    await submit(queue)
    got = await claim(queue)
    asked = order(verb, got.item.id, token=got.claim.token)
    first = (await queue.apply(asked)).item
    before = await views.detail(got.item.id)
    assert (await queue.apply(asked)).item == first
    again = await queue.change(asked, first.status, {})
    assert (again.item, again.repeated) == (first, True)
    assert await views.detail(got.item.id) == before


async def test_another_verb_of_a_former_holder_is_no_repeat(queue: WorkQueue, views: Views) -> None:
    await submit(queue)
    got = await claim(queue)
    await queue.complete(got.item.id, token=got.claim.token)
    with pytest.raises(ClaimLost):
        await queue.apply(order(Verb.FAIL, got.item.id, token=got.claim.token))
    assert (await views.item(got.item.id)).status is Status.COMPLETED


@pytest.mark.parametrize("by", ["force", "a reviewer"])
async def test_what_others_did_to_the_item_is_no_answer_to_its_holder(
    queue: WorkQueue, views: Views, by: str
) -> None:
    await submit(queue)
    held = await claim(queue)
    item_id, token = held.item.id, held.claim.token
    if by == "force":
        await queue.apply(Order(Verb.COMPLETE, item_id, "boss", outcome="success", force=True))
    else:
        url = "https://example.org/pull/1"
        await queue.apply(Order(Verb.HAND_OVER, item_id, "ada", token=token, artifact_url=url))
        await queue.complete(item_id, actor="boss")
    with pytest.raises(ClaimLost):
        await queue.complete(item_id, token=token, notes="mine", actor="ada")
    detail = await views.detail(item_id)
    assert [late.data["notes"] for late in detail.late_results] == ["mine"]
    assert (detail.item.notes, detail.item.status) == (None, Status.COMPLETED)


async def test_a_release_is_no_repeat_once_the_item_was_taken_again(queue: WorkQueue) -> None:
    await submit(queue)
    first = await claim(queue, "ada")
    release = order(Verb.RELEASE, first.item.id, token=first.claim.token)
    await queue.apply(release)
    second = await claim(queue, "bob")
    await queue.apply(order(Verb.RELEASE, second.item.id, token=second.claim.token))
    with pytest.raises(ClaimLost):
        await queue.apply(release)


async def test_completions_of_a_batch_are_judged_one_by_one(
    ledger: Ledger, clock: ManualClock, store: Store
) -> None:
    queue = ledger.queue
    items = await submit(queue, 5)
    late = await lose(ledger, clock, "a0")
    held = [await claim(queue, f"a{n}") for n in range(1, 5)]
    plain = await bring_to(queue, Status.IN_PROGRESS, "plain")
    new = held[0]
    assert new.item.id == late.item.id
    entries = [
        Completion(late.item.id, late.claim.token, notes="late"),
        Completion(new.item.id, new.claim.token, notes="new"),
        Completion(new.item.id, new.claim.token),
        Completion(held[1].item.id, held[1].claim.token),
        Completion(held[2].item.id, "guessed"),
        Completion(held[3].item.id, held[3].claim.token, outcome="failed"),
        Completion(held[3].item.id, held[3].claim.token),
        Completion("ghost", "token"),
        Completion(plain.id, None),
        Completion(items[4].id, None),
    ]
    answers = await queue.complete_many(entries, actor="me")
    assert [answer.id for answer in answers] == [entry.id for entry in entries]
    assert [
        type(answer.error) if answer.error else answer.item and str(answer.item.status)
        for answer in answers
    ] == [
        ClaimLost,
        "completed",
        "completed",
        "completed",
        ClaimLost,
        InvalidInput,
        "completed",
        NotFound,
        "completed",
        TransitionRefused,
    ]
    detail = await ledger.views.detail(new.item.id)
    assert (detail.item.notes, len(detail.late_results)) == ("new", 1)
    assert [event.type for event in detail.events].count("work.completed") == 1
    await agrees(store)


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_of_completions_has_a_size(queue: WorkQueue, count: int) -> None:
    with pytest.raises(InvalidInput):
        await queue.complete_many([Completion("x", None)] * count)


async def test_many_complete_at_once(queue: WorkQueue, store: Store) -> None:
    await queue.submit_many([NewItem("chore", str(n)) for n in range(40)])
    held = [await claim(queue, f"a{n}") for n in range(40)]
    done = await asyncio.gather(
        *(queue.complete(one.item.id, token=one.claim.token, actor="me") for one in held)
    )
    assert {item.status for item in done} == {Status.COMPLETED}
    await agrees(store)


# attempts, due items, the sweeper


async def test_attempts_are_counted_when_work_is_taken_and_run_out(
    ledger: Ledger, clock: ManualClock, store: Store
) -> None:
    (item,) = await submit(ledger.queue, max_attempts=2)
    got = await lose(ledger, clock)
    released = await ledger.views.detail(item.id)
    assert (released.item.attempts, released.item.reason) == (1, "lease_expired")
    assert released.events[-1].actor == "sweeper"
    assert released.events[-1].data == {
        "agent": "ada",
        "expired_at": got.claim.expires_at,
        "attempt": 1,
    }
    await claim(ledger.queue, lease_seconds=60)
    clock.advance(60)
    assert await ledger.sweeper.tick() == Swept(failed=(item.id,))
    failed = await ledger.views.detail(item.id)
    assert (failed.item.status, failed.item.reason) == (Status.FAILED, "attempts_exhausted")
    assert [one.outcome for one in failed.dispatch_log] == ["released", "failed"]
    assert (await ledger.queue.claim(ClaimRequest("ada"))).items == []
    retried = (await ledger.queue.apply(order(Verb.RETRY, item.id))).item
    assert (retried.attempts, retried.epoch) == (0, 2)
    assert (await claim(ledger.queue)).item.id == item.id
    await agrees(store)


@pytest.mark.parametrize("agent", ["ada", "bob"], ids=["by the same agent", "by another"])
async def test_a_lapsed_claim_is_taken_over_where_no_sweeper_runs(
    queue: WorkQueue, views: Views, clock: ManualClock, agent: str
) -> None:
    (item,) = await submit(queue)
    await claim(queue, "ada", lease_seconds=60)
    clock.advance(59)
    assert (await queue.claim(ClaimRequest(agent))).items == []
    clock.advance(1)
    got = await claim(queue, agent)
    assert (got.item.id, got.claim.epoch) == (item.id, 2)
    types = [event.type for event in (await views.detail(item.id)).events]
    assert types[3:] == ["work.released", "work.dispatched", "work.started"]


async def test_an_item_is_not_taken_before_its_time(
    queue: WorkQueue, ledger: Ledger, clock: ManualClock
) -> None:
    (item,) = await submit(queue, available_at=clock.text(60))
    assert item.deferred is True
    clock.advance(59)
    assert (await queue.claim(ClaimRequest("ada"))).reason is NothingClaimed.NOTHING_READY
    assert not await ledger.sweeper.tick()
    clock.advance(1)
    assert (await claim(queue)).item.id == item.id  # no sweeper needed


async def test_the_sweeper_frees_what_is_due(ledger: Ledger, clock: ManualClock) -> None:
    await submit(ledger.queue, 2, available_at=clock.text(60))
    await submit(ledger.queue, available_at=clock.text(120))
    clock.advance(60)
    assert await ledger.sweeper.tick() == Swept(due=2)
    assert not await ledger.sweeper.tick()


async def test_an_item_of_the_past_is_ready_at_once(queue: WorkQueue, clock: ManualClock) -> None:
    (item,) = await submit(queue, available_at=clock.text(-60))
    assert item.deferred is False
    assert (await claim(queue)).item.id == item.id


async def test_work_without_a_lease_that_went_quiet_is_blocked(
    ledger: Ledger, clock: ManualClock, store: Store
) -> None:
    quiet = await bring_to(ledger.queue, Status.IN_PROGRESS, "ada")
    noted = await bring_to(ledger.queue, Status.IN_PROGRESS, "bob")
    leased = await bring_to(ledger.queue, Status.DISPATCHED, "cem")
    await ledger.queue.apply(order(Verb.START, leased.id, lease=ledger.queue.lease(7200)))
    clock.advance(20 * 60)
    await ledger.queue.note(noted.id, "on it")
    clock.advance(10 * 60)
    assert not await ledger.sweeper.tick()
    clock.advance(1)
    assert await ledger.sweeper.tick() == Swept(blocked=(quiet.id,))
    detail = await ledger.views.detail(quiet.id)
    assert (detail.item.status, detail.item.reason) == (Status.BLOCKED, "stale")
    assert detail.events[-1].actor == "sweeper"
    assert "30 minutes" in (detail.item.notes or "")
    clock.advance(20 * 60)
    assert await ledger.sweeper.tick() == Swept(blocked=(noted.id,))
    assert "on it" in ((await ledger.views.item(noted.id)).notes or "")
    resumed = await ledger.queue.apply(order(Verb.RESUME, quiet.id))
    assert resumed.item.status is Status.IN_PROGRESS
    await agrees(store)


async def test_how_long_is_too_quiet_can_be_set(
    queue: WorkQueue, views: Views, store: Store, clock: ManualClock
) -> None:
    item = await bring_to(queue, Status.IN_PROGRESS)
    sweeper = Sweeper(store, stale_after=timedelta(minutes=5))
    clock.advance(301)
    assert await sweeper.tick() == Swept(blocked=(item.id,))
    assert "5 minutes" in ((await views.item(item.id)).notes or "")


async def test_the_sweeper_sleeps_until_something_is_due(
    ledger: Ledger, clock: ManualClock
) -> None:
    assert await ledger.sweeper.pause(10) == 10
    await submit(ledger.queue, available_at=clock.text(7))
    assert await ledger.sweeper.pause(10) == 7
    await submit(ledger.queue)
    await claim(ledger.queue, lease_seconds=3)
    assert await ledger.sweeper.pause(10) == 3
    clock.advance(100)
    assert 0 < await ledger.sweeper.pause(10) < 0.1


async def test_old_idempotency_keys_are_forgotten(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.queue.submit_many([NewItem("chore", "x")], key="k")
    clock.advance(29 * 86400)
    assert await ledger.sweeper.prune() == 0
    clock.advance(2 * 86400)
    assert await ledger.sweeper.prune() == 0, "the time of the look before is what counts"
    assert await ledger.sweeper.prune() == 1


async def test_two_sweepers_do_the_work_once(
    store: Store, another_store: OpenStore, clock: ManualClock
) -> None:
    queue = WorkQueue(store)
    await submit(queue, 20)
    await queue.set_agent("ada", max_concurrent=20)
    await queue.claim(ClaimRequest("ada", limit=20, lease_seconds=60))
    clock.advance(60)
    sweepers = [Sweeper(one) for one in (store, await another_store())]
    swept = await asyncio.gather(*(sweeper.tick() for sweeper in sweepers * 3))
    released = [item_id for one in swept for item_id in one.released]
    assert len(released) == len(set(released)) == 20
    await agrees(store)


async def test_an_agent_named_by_a_person_stays_named(queue: WorkQueue) -> None:
    (item,) = await submit(queue, assigned_agent="ada")
    assert (await queue.claim(ClaimRequest("bob"))).items == []
    got = await claim(queue, "ada")
    await queue.apply(order(Verb.RELEASE, item.id, token=got.claim.token))
    assert (await queue.claim(ClaimRequest("bob"))).items == []
    got = await claim(queue, "ada")
    failed = (await queue.apply(order(Verb.FAIL, item.id, token=got.claim.token))).item
    assert failed.assigned_agent == "ada"
    retried = (await queue.apply(order(Verb.RETRY, item.id))).item
    assert (retried.assigned_agent, retried.pinned) == ("ada", True)


async def test_an_agent_that_only_took_it_is_forgotten_on_release(queue: WorkQueue) -> None:
    (item,) = await submit(queue)
    got = await claim(queue, "ada")
    released = (await queue.apply(order(Verb.RELEASE, item.id, token=got.claim.token))).item
    assert released.assigned_agent is None
    assert (await claim(queue, "bob")).item.id == item.id


# waiting


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a wake-up helps: who waits does not look again by itself."""
    monkeypatch.setattr(claiming, "LOOK_AGAIN_SECONDS", 3600.0)
    monkeypatch.setattr(claiming, "SLOT_CHECK_SECONDS", 3600.0)


async def waiting(queue: WorkQueue, agent: str = "ada") -> "asyncio.Task[ClaimedItem]":
    """A claim that has found nothing and waits."""
    task = asyncio.ensure_future(claim(queue, agent, wait_seconds=60))
    await queue.claim(ClaimRequest("zoe", types=("nothing",)))  # goes behind the task's first look
    await queue.claim(ClaimRequest("zoe", types=("nothing",)))
    assert not task.done()
    return task


@dataclass
class Scene:
    """Nothing here can be claimed by ada, until one thing changes."""

    held: WorkItem
    with_bob: WorkItem
    for_bob: WorkItem
    blocker: WorkItem


async def set_scene(queue: WorkQueue) -> Scene:
    scene = Scene(
        (await submit(queue))[0],
        await bring_to(queue, Status.IN_PROGRESS, "bob"),
        (await submit(queue, assigned_agent="bob"))[0],
        await bring_to(queue, Status.IN_PROGRESS, "cem"),
    )
    await queue.hold(scene.held.id, "wait")
    await submit(queue, blocked_by=(scene.blocker.id,))
    return scene


def _give_to_all(queue: WorkQueue, scene: Scene) -> Awaitable[object]:
    return queue.change(order(Verb.RELEASE, scene.for_bob.id), None, {"assigned_agent": None})


WAKERS: dict[str, Callable[[WorkQueue, Scene], Awaitable[object]]] = {
    "a new item": lambda queue, _: submit(queue),
    "the end of a hold": lambda queue, scene: queue.unhold(scene.held.id),
    "the end of a blocker": lambda queue, scene: queue.complete(scene.blocker.id),
    "a release": lambda queue, scene: queue.apply(order(Verb.RELEASE, scene.with_bob.id)),
    "an edit": _give_to_all,
    "a dispatch": lambda queue, scene: queue.apply(
        order(Verb.DISPATCH, scene.for_bob.id, agent="ada")
    ),
}


@pytest.mark.usefixtures("no_polling")
@pytest.mark.parametrize("wake", WAKERS.values(), ids=WAKERS.keys())
async def test_a_waiting_claim_is_woken_by(
    queue: WorkQueue, wake: Callable[[WorkQueue, Scene], Awaitable[object]]
) -> None:
    scene = await set_scene(queue)
    task = await waiting(queue)
    await wake(queue, scene)
    async with asyncio.timeout(PATIENCE):
        assert (await task).item.status is Status.IN_PROGRESS


@pytest.mark.usefixtures("no_polling")
async def test_a_waiting_claim_is_woken_when_its_agent_may_go_on(queue: WorkQueue) -> None:
    await submit(queue, 2)
    await queue.set_agent("ada", paused=True)
    task = await waiting(queue)
    await queue.set_agent("ada", paused=False)
    async with asyncio.timeout(PATIENCE):
        await task
    task = await waiting(queue)
    await queue.set_agent("ada", max_concurrent=2)
    async with asyncio.timeout(PATIENCE):
        await task


@pytest.mark.usefixtures("no_polling")
async def test_a_waiting_claim_is_woken_by_another_process(
    queue: WorkQueue, another_store: OpenStore
) -> None:
    other = WorkQueue(await another_store())
    task = await waiting(queue)
    await submit(other)
    async with asyncio.timeout(PATIENCE):
        await task


@pytest.mark.usefixtures("no_polling")
async def test_what_comes_just_after_the_look_and_just_before_the_wait_is_not_missed(
    one_lane: Store,
) -> None:
    queue = WorkQueue(one_lane)
    gate, through = threading.Event(), threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    task = asyncio.ensure_future(claim(queue, wait_seconds=60))
    await turns(5)
    submitting = asyncio.ensure_future(submit(queue))
    await turns(5)
    last = one_lane.transact(lambda tx: through.set())
    # The loop stands still until the look, the new item and its wake-up have all happened.
    gate.set()
    assert through.wait(PATIENCE)
    async with asyncio.timeout(PATIENCE):
        (item,) = await submitting
        assert (await task).item.id == item.id
        await asyncio.gather(held_up, last)


async def turns(count: int) -> None:
    """Let the others on the loop go on, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("no_polling")
async def test_no_wake_up_is_lost_between_looking_and_waiting(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(store), WorkQueue(await another_store())]

    async def work(number: int) -> None:
        queue = queues[number % 2]
        for _ in range(10):
            got = await claim(queue, f"a{number}", wait_seconds=60)
            await queue.complete(got.item.id, token=got.claim.token)

    async def feed(number: int) -> None:
        for _ in range(20):
            await submit(queues[number % 2])

    async with asyncio.timeout(60):
        await asyncio.gather(*map(work, range(8)), *map(feed, range(4)))
    assert (await store.read(lambda tx: tx.count_by_status()))[Status.COMPLETED] == 80
    await agrees(store)


async def test_a_full_agent_that_waits_goes_on_when_it_is_free(queue: WorkQueue) -> None:
    await submit(queue, 2)
    first = await claim(queue)
    task = asyncio.ensure_future(claim(queue, wait_seconds=60))
    await queue.complete(first.item.id, token=first.claim.token)
    async with asyncio.timeout(PATIENCE):
        assert (await task).item.id != first.item.id


async def test_a_claim_that_waits_in_vain_comes_back_empty(queue: WorkQueue) -> None:
    async with asyncio.timeout(PATIENCE):
        result = await queue.claim(ClaimRequest("ada", wait_seconds=0.05))
    assert (result.items, result.reason) == ([], NothingClaimed.NOTHING_READY)


@pytest.mark.parametrize("after", range(4))
async def test_a_claimer_that_is_cancelled_gives_back_what_it_got(
    one_lane: Store, store: Store, after: int
) -> None:
    ledger = Ledger.on(one_lane)
    (item,) = await submit(ledger.queue)
    gate = threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    task = asyncio.ensure_future(claim(ledger.queue))
    await turns(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await held_up
    epochs = (0, 1) if after == 0 else (1,)
    await item_once(
        ledger.views, item.id, lambda it: it.status is Status.QUEUED and it.epoch in epochs
    )
    detail = await ledger.views.detail(item.id)
    if detail.item.epoch:
        assert (detail.events[-1].type, detail.events[-1].reason) == (
            "work.released",
            "claimer_gone",
        )
    assert (await claim(ledger.queue)).item.id == item.id
    await agrees(store)


async def test_a_claimer_that_is_cancelled_beside_its_answer_gives_back_what_it_got(
    ledger: Ledger, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item,) = await submit(ledger.queue)
    loop, transact = asyncio.get_running_loop(), store.transact

    def then_cancelled(body: Callable[[Transaction], object]) -> asyncio.Future[object]:
        """The answer comes in this turn of the loop, and the caller would have it in the next."""
        committed = transact(body)
        committed.add_done_callback(lambda _: loop.call_soon(task.cancel))
        return committed

    monkeypatch.setattr(store, "transact", then_cancelled)
    task = asyncio.ensure_future(claim(ledger.queue))
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.setattr(store, "transact", transact)
    found = await item_once(ledger.views, item.id, lambda it: it.status is Status.QUEUED)
    assert (found.epoch, found.reason) == (1, "claimer_gone")


# words that cannot be right

NOT_THERE, NOT_HELD = (NotFound, InvalidInput), (ClaimLost, InvalidInput)
STRANGE = ["", "\x00", "a\x00b", "x" * 10_000, "' OR 1=1 --", "%s", ":id", "\ud800", "ключ"]


async def refusal(queue: WorkQueue, entry: Completion, expected: type[Exception]) -> bool:
    """As one entry of a batch, or the whole batch where it cannot even be asked."""
    try:
        (answer,) = await queue.complete_many([entry])
    except InvalidInput:
        return True
    return isinstance(answer.error, expected)


@pytest.mark.parametrize("text", STRANGE, ids=lambda text: ascii(text)[:12])
async def test_a_strange_id_is_not_found(ledger: Ledger, text: str) -> None:
    """Or refused, where a database cannot even be asked for it."""
    queue, views = ledger.queue, ledger.views
    with pytest.raises(NOT_THERE):
        await views.item(text)
    with pytest.raises(NOT_THERE):
        await views.detail(text)
    with pytest.raises(NOT_THERE):
        await views.explain(text)
    with pytest.raises(NOT_THERE):
        await views.project(text)
    with pytest.raises(NOT_THERE):
        await queue.complete(text, token="t")
    with pytest.raises(NOT_THERE):
        await queue.heartbeat(text, "t")
    with pytest.raises(NOT_THERE):
        await queue.hold(text, "why")
    with pytest.raises(NOT_THERE):
        await queue.note(text, "words")
    assert await refusal(queue, Completion(text, "t"), NotFound)


@pytest.mark.parametrize("text", STRANGE, ids=lambda text: ascii(text)[:12])
async def test_a_strange_token_holds_nothing(queue: WorkQueue, views: Views, text: str) -> None:
    await submit(queue)
    got = await claim(queue)
    before = await views.detail(got.item.id)
    with pytest.raises(NOT_HELD):
        await queue.heartbeat(got.item.id, text)
    for verb in (Verb.COMPLETE, Verb.RELEASE):
        with pytest.raises(NOT_HELD):
            await queue.apply(order(verb, got.item.id, token=text))
    if text:
        assert await refusal(queue, Completion(got.item.id, text), ClaimLost)
    assert await views.detail(got.item.id) == before


async def test_a_type_that_is_named_twice_is_counted_in_line_once(
    queue: WorkQueue, store: Store
) -> None:
    first, second = [await queue.submit(NewItem("chore", text)) for text in ("one", "two")]
    line = ClaimRequest("ada", types=("chore", "chore"))
    found = [
        await store.read(lambda tx, i=one: tx.ahead_in_line(i, line)) for one in (first, second)
    ]
    assert found == [0, 1]


async def test_the_log_names_a_few_of_many_swept_items(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.queue.set_agent("ada", max_concurrent=20)
    await ledger.queue.submit_many([NewItem("chore", "x")] * 20)
    taken = await ledger.queue.claim(ClaimRequest("ada", limit=20, lease_seconds=1))
    clock.advance(2)
    with capture_logs() as logged:
        await Sweeping(ledger.sweeper, lambda swept: None).tick()
    (line,) = logged
    assert (line["event"], line["released"], line["failed"], line["blocked"]) == ("swept", 20, 0, 0)
    assert len(line["items"]) == 10
    assert set(line["items"]) < {one.item.id for one in taken.items}
