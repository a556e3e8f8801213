"""Calls that come at the same time go in one transaction, and none grows too heavy."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import ClaimRequest, Completion
from rota.model.errors import StorageBusy, StorageUnavailable
from rota.model.status import Status
from rota.model.work import MAX_BATCH, NewItem
from rota.queue import WorkQueue, gathering
from rota.queue.views import Views
from rota.storage.port import Store, Transaction
from rota.storage.transaction import SqlTransaction
from rota.testing.audit import faults, read_ledger

MOST = 10
AtOnce = Callable[[list[Awaitable[Any]]], Awaitable[tuple[int, list[Any]]]]


@pytest.fixture
def at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    """Makes the calls in one turn of the loop; in how many transactions they went, and the
    answers."""
    monkeypatch.setattr(gathering, "MOST_AT_ONCE", MOST)
    transact, count = store.transact, 0

    def counted(body: Callable[[Transaction], Any]) -> "asyncio.Future[Any]":
        nonlocal count
        count += 1
        return transact(body)

    async def made(calls: list[Awaitable[Any]]) -> tuple[int, list[Any]]:
        nonlocal count
        monkeypatch.setattr(store, "transact", counted)
        count = 0
        answers = await asyncio.gather(*calls)
        monkeypatch.setattr(store, "transact", transact)
        assert faults(await store.read(read_ledger, long=True)) == []
        return count, answers

    return made


def items(count: int) -> list[NewItem]:
    return [NewItem("chore", str(number)) for number in range(count)]


async def held(queue: WorkQueue, *sizes: int) -> list[list[Completion]]:
    """A batch of completions of each size, each of an agent of its own."""
    await queue.submit_many(items(sum(sizes)))
    batches = []
    for number, size in enumerate(sizes):
        await queue.set_agent(f"a{number}", max_concurrent=size)
        got = (await queue.claim(ClaimRequest(f"a{number}", size, lease_seconds=60))).items
        batches.append([Completion(one.item.id, one.claim.token) for one in got])
    return batches


async def test_completions_in_batches_and_alone_go_together_and_each_hears_its_own(
    queue: WorkQueue, at_once: AtOnce
) -> None:
    *batches, [alone] = await held(queue, 4, 3, 1)
    calls: list[Awaitable[Any]] = [queue.complete_many(batch) for batch in batches]
    count, answers = await at_once([*calls, queue.complete(alone.id, token=alone.token)])
    assert count == 1
    assert answers.pop().id == alone.id
    assert [[one.id for one in batch if one.is_fresh] for batch in answers] == [
        [one.id for one in batch] for batch in batches
    ]


@pytest.mark.parametrize(
    ("sizes", "transactions"),
    [([4, 3, 3], 1), ([4, 3, 4], 2), ([6, 6, 6], 3), ([1] * 11, 2), ([12, 1, 12], 3), ([25], 1)],
    ids=str,
)
async def test_only_so_many_items_go_together_and_what_is_too_heavy_goes_alone(
    queue: WorkQueue, at_once: AtOnce, sizes: list[int], transactions: int
) -> None:
    count, _ = await at_once([queue.submit_many(items(size)) for size in sizes])
    assert count == transactions
    for number, size in enumerate(sizes):
        await queue.set_agent(f"a{number}", max_concurrent=size)
    claims = [ClaimRequest(f"a{n}", size, lease_seconds=60) for n, size in enumerate(sizes)]
    count, taken = await at_once([queue.claim(request) for request in claims])
    assert (count, [len(result.items) for result in taken]) == (transactions, sizes)
    batches = [
        [Completion(one.item.id, one.claim.token) for one in result.items] for result in taken
    ]
    count, done = await at_once([queue.complete_many(batch) for batch in batches])
    assert (count, [len(answers) for answers in done]) == (transactions, sizes)


async def test_what_a_completion_takes_next_weighs_as_much_as_itself(
    queue: WorkQueue, at_once: AtOnce
) -> None:
    batches = await held(queue, 1, 1, 1)
    entries = [
        replace(one, next=ClaimRequest(f"a{number}", limit=4))
        for number, (one,) in enumerate(batches)
    ]
    count, _ = await at_once([queue.complete_many([one]) for one in entries])
    assert count == 2


async def test_a_batch_takes_no_more_than_a_batch(queue: WorkQueue, views: Views) -> None:
    ((one, two),) = await held(queue, 2)
    much = ClaimRequest("a0", limit=MAX_BATCH)
    good, bad = await queue.complete_many(
        [replace(one, next=much), replace(two, next=ClaimRequest("a0"))]
    )
    assert (good.id, good.error) == (one.id, None)
    assert bad.error is not None
    assert "at most 1000 items, all its limits together" in bad.error.message
    assert (await views.item(two.id)).status is Status.IN_PROGRESS


async def test_everybody_who_waits_is_answered_when_the_store_is_closed(
    queue: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many transactions they would have been."""
    monkeypatch.setattr(gathering, "MOST_AT_ONCE", 1)
    await store.close()
    calls = [queue.submit_many(items(2)) for _ in range(1_000)]
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in answers} == {StorageUnavailable}


async def test_who_waits_behind_calls_that_fail_one_by_one_is_answered_too(
    queue: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are sent one by one because one may be at fault, and meanwhile the store is closed."""
    under_way: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(store, "width", 1, raising=False)
    with monkeypatch.context() as first:
        first.setattr(store, "transact", lambda body: under_way)
        calls = [asyncio.ensure_future(queue.submit(NewItem("chore", "x"))) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    calls.append(asyncio.ensure_future(queue.submit(NewItem("chore", "waits"))))
    await asyncio.sleep(0)
    await store.close()
    under_way.set_exception(StorageBusy("two were in each other's way"))
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in answers] == [StorageUnavailable] * 3


async def test_one_that_was_in_others_way_fails_alone(
    queue: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = SqlTransaction.insert_items

    def slow(tx: SqlTransaction, fresh: Any, *given: Any) -> None:
        if any(item.type == "slow" for _, item in fresh):
            raise StorageBusy("the server has ended the statement; try again")
        insert(tx, fresh, *given)

    monkeypatch.setattr(SqlTransaction, "insert_items", slow)
    kinds = ("quick", "slow", "quick")
    calls = [queue.submit(NewItem(kind, "x")) for kind in kinds]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, StorageBusy) for one in answers] == [False, True, False]


async def test_lanes_of_one_agent_ask_once_for_what_was_dispatched_to_it(
    queue: WorkQueue, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.set_agent("ada", max_concurrent=5)
    mine = await queue.submit(NewItem("chore", "mine", assigned_agent="ada"))
    await queue.submit_many(items(4))
    find, asked = SqlTransaction._candidates, list[int]()

    def counted(self: SqlTransaction, take: Any, want: int, *, named: bool) -> Any:
        asked.extend([want] * named)
        return find(self, take, want, named=named)

    monkeypatch.setattr(SqlTransaction, "_candidates", counted)
    count, answers = await at_once([queue.claim(ClaimRequest("ada")) for _ in range(5)])
    taken = [one.item.id for answer in answers for one in answer.items]
    assert (count, len(taken), taken[0]) == (1, 5, mine.id)
    assert asked == [5]
