"""What waits for a review holds new work back: on both databases, and whoever comes at once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rota.model.agents import AgentLoad
from rota.model.claims import ClaimedItem, ClaimRequest, NothingClaimed
from rota.model.errors import InReviewLimit, InvalidInput
from rota.model.fleet import AgentSpec
from rota.model.schedules import SkipReason
from rota.model.status import Status, Verb
from rota.model.work import NewItem
from rota.queue import Ledger, WorkQueue
from rota.queue.moves import Order
from rota.sources.local import QueueWorkSource
from rota.sources.port import ClaimFailureReason
from rota.storage.port import Store
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order
from tests.contract.conftest import Sql
from tests.contract.test_postgres import (
    NOW,
    gate,
    held,
    reach,
    take,
    until_somebody_waits_for_a_lock,
)

OpenStore = Callable[[], Awaitable[Store]]
LIMIT = NothingClaimed.IN_REVIEW_LIMIT


async def fill(queue: WorkQueue, count: int) -> None:
    await queue.submit_many([NewItem("chore", f"Item {n}") for n in range(count)])


async def claimed(queue: WorkQueue, limit: int = 1) -> list[ClaimedItem]:
    return (await queue.claim(ClaimRequest("ada", limit=limit))).items


async def why(queue: WorkQueue, **values: object) -> NothingClaimed | None:
    return (await queue.claim(ClaimRequest("ada", **values))).reason  # type: ignore[arg-type]


async def hand_over(queue: WorkQueue, one: ClaimedItem) -> None:
    await queue.apply(order(Verb.HAND_OVER, one.item.id, token=one.claim.token))


async def load(ledger: Ledger) -> AgentLoad:
    return next(one for one in await ledger.views.agents() if one.agent.name == "ada")


async def test_an_agent_gets_nothing_new_while_enough_of_its_work_waits_for_a_review(
    ledger: Ledger,
) -> None:
    queue = ledger.queue
    await queue.set_agent("ada", max_concurrent=5, max_in_review=2)
    await fill(queue, 6)
    first, second = await claimed(queue, 5)  # what is under way may come to be reviewed
    assert await why(queue) is LIMIT
    await hand_over(queue, first)
    assert await why(queue) is LIMIT
    await hand_over(queue, second)
    assert await why(queue, limit=5) is LIMIT
    assert (await load(ledger)).in_review == 2
    assert (await queue.claim(ClaimRequest("bob"))).items  # it is no limit of the others
    await queue.apply(order(Verb.COMPLETE, first.item.id))
    assert len(await claimed(queue, 5)) == 1
    await queue.apply(Order(Verb.REOPEN, second.item.id, "tester"))
    assert len(await claimed(queue, 5)) == 1
    await queue.set_agent("ada", max_in_review=None)
    assert len(await claimed(queue, 5)) == 2
    assert await why(queue) is NothingClaimed.NOTHING_READY


@pytest.mark.parametrize("by_name", [True, False])
async def test_only_what_the_agent_itself_has_in_review_or_at_work_counts(
    queue: WorkQueue, by_name: bool
) -> None:
    for status in (Status.IN_REVIEW, Status.IN_PROGRESS):
        await bring_to(queue, status, agent="bob")
    for status in (Status.BLOCKED, Status.COMPLETED, Status.FAILED):
        await bring_to(queue, status)
    await queue.set_agent("ada", max_in_review=1)
    if by_name:
        named = await bring_to(queue, Status.DISPATCHED)
        assert (await queue.apply(order(Verb.START, named.id))).item.status is Status.IN_PROGRESS
    else:
        await fill(queue, 1)
        assert len(await claimed(queue)) == 1


async def test_a_claim_that_has_lapsed_makes_room(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.queue.set_agent("ada", max_concurrent=2, max_in_review=1)
    await fill(ledger.queue, 1)
    (lost,) = (await ledger.queue.claim(ClaimRequest("ada", lease_seconds=60))).items
    clock.advance(61)
    (again,) = await claimed(ledger.queue)
    assert again.item.id == lost.item.id


async def test_what_a_person_names_the_agent_for_waits_too_and_says_why(ledger: Ledger) -> None:
    queue = ledger.queue
    await bring_to(queue, Status.IN_REVIEW)
    named = await bring_to(queue, Status.DISPATCHED)
    await queue.set_agent("ada", max_concurrent=2, max_in_review=1)
    assert await why(queue) is LIMIT
    with pytest.raises(InReviewLimit, match="1 of 1 items in review") as refused:
        await queue.apply(order(Verb.START, named.id))
    assert (refused.value.code, refused.value.details["agent"]) == ("in_review_limit", "ada")
    told = await ledger.views.explain(named.id)
    assert not told.claimable
    assert told.reasons[0].code == "in_review_limit"
    assert "--max-in-review" in (told.reasons[0].fix or "")


async def test_what_is_resumed_is_not_new(ledger: Ledger) -> None:
    blocked = await bring_to(ledger.queue, Status.BLOCKED)
    await bring_to(ledger.queue, Status.IN_REVIEW)
    await ledger.queue.set_agent("ada", max_in_review=1)
    moved = await ledger.queue.apply(order(Verb.RESUME, blocked.id))
    assert moved.item.status is Status.IN_PROGRESS


async def test_an_agent_of_the_fleet_is_not_woken_for_an_item(ledger: Ledger) -> None:
    await bring_to(ledger.queue, Status.IN_REVIEW)
    waiting = await bring_to(ledger.queue, Status.QUEUED)
    await ledger.queue.set_agent("ada", max_concurrent=2, max_in_review=1)
    agent = AgentSpec("ada")
    assert await ledger.admission.refusal(agent) is None  # a run without an item adds nothing
    refusal = await ledger.admission.refusal(agent, for_an_item=True)
    assert refusal is not None
    assert refusal.reason is SkipReason.IN_REVIEW_LIMIT
    source = QueueWorkSource(ledger, "ada")
    result = await source.claim_work(f"queue-{waiting.id}")
    assert (result.success, result.reason) == (False, ClaimFailureReason.PERMISSION_DENIED)
    assert await ledger.views.item(waiting.id) == waiting


@pytest.mark.parametrize("limit", [0, -1, 1_001])
async def test_a_limit_that_cannot_be_right_is_refused(queue: WorkQueue, limit: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        await queue.set_agent("ada", max_in_review=limit)
    assert refused.value.details["field"] == "max_in_review"


async def test_claims_and_hand_overs_at_once_do_not_pass_the_limit(
    store: Store, another_store: OpenStore
) -> None:
    queues = [WorkQueue(one) for one in (store, await another_store())]
    await queues[0].set_agent("ada", max_concurrent=9, max_in_review=4)
    await fill(queues[0], 60)
    under_way: list[ClaimedItem] = []
    for turn in range(12):
        claims = [queues[n % 2].claim(ClaimRequest("ada", limit=2)) for n in range(6)]
        answers, *_ = await asyncio.gather(
            asyncio.gather(*claims), *(hand_over(queues[turn % 2], one) for one in under_way)
        )
        under_way = [one for answer in answers for one in answer.items]
        in_review, in_progress = await store.read(lambda tx: tx.on_hands("ada"))
        assert in_review + in_progress <= 4
        if turn % 3 == 2:
            await clear(queues[0], store)


async def clear(queue: WorkQueue, store: Store) -> None:
    """All reviews are over."""
    for one in await store.read(lambda tx: tx.waiting_reviews("example.org/pull", 100)):
        await queue.apply(order(Verb.COMPLETE, one.item_id))


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_an_item_that_is_handed_over_between_two_claims_is_not_overlooked(
    store: Store, another_store: OpenStore, queue: WorkQueue, sql: Sql
) -> None:
    """The one claim has counted it as under way, in its slot; for the other, that slot is free."""
    other = WorkQueue(await another_store())
    await queue.set_agent("ada", max_concurrent=5, max_in_review=2)
    await fill(queue, 3)
    (first,) = await claimed(queue)
    with gate() as (reached, let_go):
        winning = store.transact(
            held(lambda tx: tx.take([take("ada", "t1")], NOW), reached, let_go)
        )
        await reach(reached)
        await hand_over(other, first)
        losing = asyncio.ensure_future(other.claim(ClaimRequest("ada")))
        await until_somebody_waits_for_a_lock(sql)
        let_go.set()
        await winning
    assert (await losing).reason is LIMIT
    assert await store.read(lambda tx: tx.on_hands("ada")) == (1, 1)
