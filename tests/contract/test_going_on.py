"""A holder completes what it has and takes the next in one transaction."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from rota.model.claims import (
    ClaimedItem,
    ClaimRequest,
    ClaimResult,
    Completion,
    NothingClaimed,
)
from rota.model.errors import ClaimLost, InvalidInput, NoFreeSlot, VersionMismatch
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue
from rota.queue.claiming import Finished
from rota.queue.moves import Moved, Order
from rota.queue.views import Views
from rota.storage.port import Store
from rota.storage.transaction import SqlTransaction
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import item_once

PATIENCE = 20.0
NEXT = ClaimRequest("ada", lease_seconds=60)


async def submit(queue: WorkQueue, count: int, **values: Any) -> list[WorkItem]:
    new = NewItem(**{"type": "chore", "description": "Say hello", **values})
    return [await queue.submit(new) for _ in range(count)]


async def claim(queue: WorkQueue, agent: str = "ada") -> ClaimedItem:
    (got,) = (await queue.claim(ClaimRequest(agent, lease_seconds=60))).items
    return got


async def go_on(
    queue: WorkQueue, got: ClaimedItem, following: ClaimRequest = NEXT, **words: Any
) -> Moved:
    order = Order(
        Verb.COMPLETE,
        got.item.id,
        got.claim.agent,
        **{"token": got.claim.token, "outcome": "success", "next": following} | words,
    )
    return await queue.apply(order)


def taken(moved: Moved) -> list[str]:
    assert moved.next is not None
    return [one.item.id for one in moved.next.items]


async def agrees(store: Store) -> None:
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_the_next_item_is_taken_with_the_completion_of_the_last(
    queue: WorkQueue, views: Views, store: Store
) -> None:
    first, second, third = await submit(queue, 3)
    seen = views.events_seen()
    moved = await go_on(queue, await claim(queue))
    assert (moved.item.id, moved.item.status, taken(moved)) == (
        first.id,
        Status.COMPLETED,
        [second.id],
    )
    assert views.events_seen() > seen
    assert moved.next is not None
    (got,) = moved.next.items
    assert got.item == (await views.detail(second.id)).item
    assert got.claim == (await views.detail(second.id)).claim
    assert got.item.slot == 0, "the slot that has just become free"
    last = await go_on(queue, got)
    assert taken(last) == [third.id]
    told = [(one.work_item_id, one.type) for one in await views.events(limit=100)]
    assert told[-3:] == [
        (second.id, "work.completed"),
        (third.id, "work.dispatched"),
        (third.id, "work.started"),
    ]
    await agrees(store)


async def test_the_next_item_is_one_that_was_asked_for(queue: WorkQueue) -> None:
    await submit(queue, 2)
    (bug,) = await submit(queue, 1, type="bug", priority=5)
    moved = await go_on(queue, await claim(queue), ClaimRequest("ada", types=("bug",)))
    assert taken(moved) == [bug.id]


async def test_with_nothing_left_the_completion_says_why_nothing_was_taken(
    queue: WorkQueue,
) -> None:
    await submit(queue, 1)
    moved = await go_on(queue, await claim(queue))
    assert moved.next == ClaimResult([], NothingClaimed.NOTHING_READY)
    await submit(queue, 2)
    got = await claim(queue)
    await queue.set_agent("ada", paused=True)
    moved = await go_on(queue, got)
    assert moved.item.status is Status.COMPLETED
    assert moved.next == ClaimResult([], NothingClaimed.AGENT_PAUSED)


@pytest.mark.parametrize(
    "more",
    [{"artifact_url": "https://example.org/1"}, {"version": 2}, {"reason": "all_done"}],
    ids=lambda more: next(iter(more)),
)
async def test_a_completion_that_says_more_takes_the_next_too(
    queue: WorkQueue, store: Store, more: dict[str, Any]
) -> None:
    _, second = await submit(queue, 2)
    moved = await go_on(queue, await claim(queue), **more)
    assert (moved.item.status, taken(moved)) == (Status.COMPLETED, [second.id])
    await agrees(store)


async def test_a_blocker_that_is_completed_hands_out_what_waited_for_it(queue: WorkQueue) -> None:
    (blocker,) = await submit(queue, 1)
    (waiting,) = await submit(queue, 1, blocked_by=(blocker.id,))
    assert taken(await go_on(queue, await claim(queue))) == [waiting.id]


async def test_who_has_lost_its_claim_takes_nothing(
    ledger: Ledger, clock: ManualClock, store: Store
) -> None:
    first, second = await submit(ledger.queue, 2)
    got = await claim(ledger.queue)
    clock.advance(60)
    await ledger.sweeper.tick()
    with pytest.raises(ClaimLost):
        await go_on(ledger.queue, got)
    with pytest.raises(ClaimLost):
        await go_on(ledger.queue, got, artifact_url="https://example.org/1")
    found = [(await ledger.views.item(one.id)).status for one in (first, second)]
    assert found == [Status.QUEUED, Status.QUEUED]
    await agrees(store)


@pytest.mark.parametrize("more", [{}, {"artifact_url": "https://example.org/1"}], ids=["", "more"])
async def test_a_completion_that_is_told_once_more_takes_nothing(
    queue: WorkQueue, views: Views, more: dict[str, Any]
) -> None:
    """Its first answer was lost, and with it a claim: that one lapses, and is not made twice."""
    await queue.set_agent("ada", max_concurrent=5)
    _, second, third = await submit(queue, 3)
    got = await claim(queue)
    assert taken(await go_on(queue, got, **more)) == [second.id]
    again = await go_on(queue, got, **more)
    assert (again.item.status, again.next) == (Status.COMPLETED, ClaimResult([]))
    assert (await views.item(third.id)).status is Status.QUEUED


@pytest.mark.parametrize(
    ("words", "following"),
    [
        ({"token": None, "force": True}, NEXT),
        ({}, ClaimRequest("ada", wait_seconds=1)),
        ({}, ClaimRequest("ada", lease_seconds=0)),
        ({}, ClaimRequest("ada", limit=0)),
        ({}, ClaimRequest("not a name")),
        ({"verb": Verb.FAIL, "outcome": "failed"}, NEXT),
    ],
    ids=["no token", "to wait", "no lease", "none", "no name", "another verb"],
)
async def test_a_next_claim_that_cannot_be_right_is_refused_and_nothing_is_completed(
    queue: WorkQueue, views: Views, words: dict[str, Any], following: ClaimRequest
) -> None:
    first, second = await submit(queue, 2)
    got = await claim(queue)
    said = {"verb": Verb.COMPLETE, "token": got.claim.token, "outcome": "success"} | words
    with pytest.raises(InvalidInput):
        await queue.apply(Order(item_id=first.id, actor="ada", next=following, **said))
    assert (await views.item(first.id)).status is Status.IN_PROGRESS
    assert (await views.item(second.id)).status is Status.QUEUED


async def test_the_next_lease_begins_when_it_is_taken_though_the_completion_had_to_wait(
    queue: WorkQueue, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(queue, 2)
    got = await claim(queue)
    finish = SqlTransaction.finish

    def waits(tx: SqlTransaction, *given: Any) -> Any:
        done = finish(tx, *given)
        clock.advance(50)
        return done

    monkeypatch.setattr(SqlTransaction, "finish", waits)
    moved = await go_on(queue, got)
    assert moved.next is not None
    (following,) = moved.next.items
    assert (following.claim.claimed_at, following.claim.expires_at) == (
        clock.text(),
        clock.text(60),
    )
    await agrees(store)


async def test_nothing_is_taken_earlier_than_it_was_left(
    queue: WorkQueue,
    store: Store,
    views: Views,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By somebody whose clock is ahead, or who left it while we were on our way."""
    with monkeypatch.context() as patched:
        patched.setattr(store, "clock", ManualClock(clock.now() + timedelta(seconds=5)))
        ahead = Ledger.on(store).queue
    (item,) = await submit(ahead, 1)
    got = await claim(queue)
    assert got.item == await views.item(item.id)
    assert got.item.updated_at == got.claim.claimed_at == item.updated_at
    (dispatch,) = (await views.detail(item.id)).dispatch_log
    assert dispatch.dispatched_at == item.updated_at
    await agrees(store)


async def test_lanes_that_go_on_take_every_item_once(queue: WorkQueue, store: Store) -> None:
    items = {item.id for item in await submit(queue, 60)}
    done: list[str] = []

    async def lane(agent: str) -> None:
        request = ClaimRequest(agent, lease_seconds=60)
        held = (await queue.claim(request)).items
        while held:
            done.append(held[0].item.id)
            moved = await go_on(queue, held[0], request)
            assert moved.next is not None
            held = moved.next.items

    await asyncio.gather(*(lane(f"lane-{number}") for number in range(10)))
    assert sorted(done) == sorted(items)
    await agrees(store)


async def test_who_is_gone_before_the_answer_has_completed_and_keeps_nothing(
    one_lane: Store, store: Store
) -> None:
    ledger = Ledger.on(one_lane)
    first, second = await submit(ledger.queue, 2)
    got = await claim(ledger.queue)
    gate = threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    task = asyncio.ensure_future(go_on(ledger.queue, got))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await held_up
    found = await item_once(
        ledger.views, second.id, lambda it: (it.status, it.epoch) == (Status.QUEUED, 1)
    )
    assert (found.reason, found.attempts) == ("claimer_gone", 0)
    assert (await ledger.views.item(first.id)).status is Status.COMPLETED
    await agrees(store)


async def test_what_is_done_stays_done_where_every_slot_was_lost_to_others(
    queue: WorkQueue, views: Views, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await submit(queue, 2)
    got = await claim(queue)

    def always_too_late(*_: object) -> list[ClaimResult]:
        raise NoFreeSlot("the agent already works on an item in this slot")

    monkeypatch.setattr(SqlTransaction, "take", always_too_late)
    moved = await go_on(queue, got)
    assert moved.next == ClaimResult([], NothingClaimed.NO_FREE_SLOT)
    assert (await views.item(first.id)).status is Status.COMPLETED
    assert (await views.item(second.id)).status is Status.QUEUED
    await agrees(store)


async def test_two_completions_of_one_item_at_once_each_get_their_own_answer(
    queue: WorkQueue, store: Store
) -> None:
    _, second = await submit(queue, 2)
    got = await claim(queue)
    stale, plain = await asyncio.gather(
        go_on(queue, got, version=7), go_on(queue, got), return_exceptions=True
    )
    assert isinstance(stale, VersionMismatch), "what the other may do is no answer to it"
    assert isinstance(plain, Moved)
    assert (plain.item.status, taken(plain)) == (Status.COMPLETED, [second.id])
    await agrees(store)


async def test_one_refusal_touches_none_of_those_that_are_gathered_with_it(
    queue: WorkQueue, store: Store
) -> None:
    await submit(queue, 6)
    held = [await claim(queue, agent) for agent in ("ada", "bob", "eve")]
    stale = go_on(queue, held[1], ClaimRequest("bob"), version=7)
    answers = await asyncio.gather(
        go_on(queue, held[0]), stale, go_on(queue, held[2], ClaimRequest("eve")),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(answers[1], VersionMismatch)
    others = [answer for answer in answers if isinstance(answer, Moved)]
    assert [len(taken(moved)) for moved in others] == [1, 1]
    await agrees(store)


# in batches


def entry(got: ClaimedItem, following: ClaimRequest | None = None, **words: Any) -> Completion:
    return Completion(got.item.id, **{"token": got.claim.token, "next": following} | words)


def outcomes(answers: list[Finished]) -> list[tuple[bool, list[str] | None]]:
    """Of each entry: was it completed, and what was taken with it?"""
    return [
        (one.item is not None, None if one.next is None else [it.item.id for it in one.next.items])
        for one in answers
    ]


async def hold_some(queue: WorkQueue, held: int, more: int) -> tuple[list[ClaimedItem], list[str]]:
    """What `ada` holds, and what is left."""
    await queue.set_agent("ada", max_concurrent=held)
    items = await submit(queue, held + more)
    got = (await queue.claim(ClaimRequest("ada", held, lease_seconds=60))).items
    return got, [item.id for item in items[held:]]


async def test_a_batch_takes_the_next_for_those_entries_that_ask_for_it(
    queue: WorkQueue, store: Store
) -> None:
    (one, two, three), left = await hold_some(queue, 3, 4)
    answers = await queue.complete_many([entry(one, NEXT), entry(two), entry(three, NEXT)])
    assert outcomes(answers) == [(True, [left[0]]), (True, None), (True, [left[1]])]
    await agrees(store)


async def test_one_entry_may_take_as_many_as_the_batch_has_completed(
    queue: WorkQueue, store: Store
) -> None:
    got, left = await hold_some(queue, 3, 4)
    following = ClaimRequest("ada", limit=3, lease_seconds=60)
    answers = await queue.complete_many([*map(entry, got[:2]), entry(got[2], following)])
    assert outcomes(answers) == [(True, None), (True, None), (True, left[:3])]
    await agrees(store)


async def test_an_entry_that_is_refused_takes_nothing_and_the_others_do(
    queue: WorkQueue, store: Store
) -> None:
    (one, two, three), left = await hold_some(queue, 3, 4)
    answers = await queue.complete_many(
        [entry(one, NEXT), entry(two, NEXT, token="guessed"), entry(three, NEXT)]
    )
    assert outcomes(answers) == [(True, [left[0]]), (False, None), (True, [left[1]])]
    assert isinstance(answers[1].error, ClaimLost)
    await agrees(store)


async def test_a_batch_that_is_told_once_more_takes_nothing(queue: WorkQueue) -> None:
    got, left = await hold_some(queue, 2, 4)
    entries = [entry(one, NEXT) for one in got]
    assert outcomes(await queue.complete_many(entries)) == [(True, [left[0]]), (True, [left[1]])]
    assert outcomes(await queue.complete_many(entries)) == [(True, []), (True, [])]


@pytest.mark.parametrize(
    "wrong",
    [{"token": None}, {"next": ClaimRequest("ada", limit=0)}, {"next": ClaimRequest("no name")}],
    ids=["no token", "none", "no name"],
)
async def test_a_wrong_next_refuses_its_own_entry_alone(
    queue: WorkQueue, views: Views, wrong: dict[str, Any]
) -> None:
    (one, two), (left,) = await hold_some(queue, 2, 1)
    bad, good = await queue.complete_many([entry(one, **{"next": NEXT} | wrong), entry(two, NEXT)])
    assert (bad.id, bad.item, type(bad.error)) == (one.item.id, None, InvalidInput)
    assert outcomes([good]) == [(True, [left])]
    assert (await views.item(one.item.id)).status is Status.IN_PROGRESS


async def test_what_a_batch_took_for_somebody_who_is_gone_is_given_back(one_lane: Store) -> None:
    ledger = Ledger.on(one_lane)
    got, left = await hold_some(ledger.queue, 2, 2)
    gate = threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    task = asyncio.ensure_future(ledger.queue.complete_many([entry(one, NEXT) for one in got]))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    gate.set()
    await held_up
    for item in left:
        found = await item_once(
            ledger.views, item, lambda it: (it.status, it.epoch) == (Status.QUEUED, 1)
        )
        assert (found.reason, found.attempts) == ("claimer_gone", 0)
    done = [(await ledger.views.item(one.item.id)).status for one in got]
    assert done == [Status.COMPLETED, Status.COMPLETED]


async def test_a_batch_stays_done_where_every_slot_was_lost_to_others(
    queue: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, two), _ = await hold_some(queue, 2, 2)

    def always_too_late(*_: object) -> list[ClaimResult]:
        raise NoFreeSlot("the agent already works on an item in this slot")

    monkeypatch.setattr(SqlTransaction, "take", always_too_late)
    first, second = await queue.complete_many([entry(one, NEXT), entry(two)])
    assert (first.item is not None, first.next) == (
        True,
        ClaimResult([], NothingClaimed.NO_FREE_SLOT),
    )
    assert (second.item is not None, second.next) == (True, None)
    await agrees(store)
