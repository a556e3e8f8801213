"""Locks of other sessions on PostgreSQL: each call is answered in time, and holds up no other."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rota.model.claims import ClaimRequest, Completion
from rota.model.errors import StorageLocked, StorageUnavailable
from rota.model.status import Verb
from rota.model.work import NewItem
from rota.queue import Ledger, WorkQueue, gathering
from rota.storage import postgres
from rota.storage.port import Store, Transaction
from rota.testing.standing import order
from tests.contract.conftest import Sql
from tests.contract.test_postgres import OpenTransaction, begin, opened
from tests.contract.test_signal_races import WAITS_FOR_A_LOCK

__all__ = ["begin"]

CALLS = 60
AT_MOST = 8  # transactions of a batch that is held up: as a whole, some calls alone, and the rest
PATIENCE = 60.0
ALONE = 9.0  # less than who goes alone waits for a lock


@pytest.fixture
def database(empty_postgres: str) -> str:
    """Every test of this file runs on PostgreSQL alone."""
    return empty_postgres


@pytest.fixture
def hasty(database: str) -> str:
    """An address with which a statement waits for a lock no longer than a moment."""
    return f"{database}{'&' if '?' in database else '?'}options=-c%20lock_timeout%3D50"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "TOGETHER_SECONDS", 0.2)
    monkeypatch.setattr(gathering, "UNTANGLING_SECONDS", 0.25)


def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many transactions that write were begun."""
    transact, count = store.transact, 0

    def counting(body: Callable[[Transaction], Any]) -> "asyncio.Future[Any]":
        nonlocal count
        count += 1
        return transact(body)

    monkeypatch.setattr(store, "transact", counting)
    return lambda: count


def submitted(queue: WorkQueue) -> list["asyncio.Future[Any]"]:
    return [asyncio.ensure_future(queue.submit(NewItem("chore", "x"))) for _ in range(CALLS)]


@pytest.mark.parametrize("locked", [[2], [0, 1, 2]], ids=["one", "the first"])
async def test_a_locked_item_holds_up_its_own_completion_and_no_other(
    queue: WorkQueue, begin: Callable[[], OpenTransaction], locked: list[int]
) -> None:
    await queue.submit_many([NewItem("chore", str(n)) for n in range(20)])
    await queue.set_agent("ada", max_concurrent=20)
    claims = [one.claim for one in (await queue.claim(ClaimRequest("ada", 20))).items]
    other = begin()
    ids = ", ".join(f"'{claims[number].work_item_id}'" for number in locked)
    other.lock(f"work_items WHERE id IN ({ids})")
    calls = [
        asyncio.ensure_future(queue.complete_many([Completion(one.work_item_id, one.token)]))
        for one in claims
    ]
    held_up = [calls[number] for number in locked]
    async with asyncio.timeout(ALONE):
        answers = await asyncio.gather(*(one for one in calls if one not in held_up))
    assert {one.error for (one,) in answers} == {None}
    assert not any(one.done() for one in held_up)
    other.commit()
    assert {one.error for (one,) in await asyncio.gather(*held_up)} == {None}


async def test_a_locked_table_holds_up_few_connections_and_whoever_waits_goes_on_behind_it(
    queue: WorkQueue,
    store: Store,
    begin: Callable[[], OpenTransaction],
    monkeypatch: pytest.MonkeyPatch,
    sql: Sql,
) -> None:
    begun = counted(store, monkeypatch)
    other = begin()
    other.lock_against_writers("work_items")
    calls = submitted(queue)
    async with asyncio.timeout(PATIENCE):
        while begun() < 5:
            assert await store.read(lambda tx: tx.list_projects(None, 1)) == []
            assert len(sql(WAITS_FOR_A_LOCK)) <= store.width
    assert not any(one.done() for one in calls)
    other.commit()
    assert len({one.id for one in await asyncio.gather(*calls)}) == CALLS


async def test_a_table_that_stays_locked_is_told_to_every_caller(
    hasty: str,
    store: Store,
    begin: Callable[[], OpenTransaction],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(hasty, lanes=5) as hurried:
        begun = counted(hurried, monkeypatch)
        begin().lock_against_writers("work_items")
        answers = await asyncio.gather(*submitted(Ledger.on(hurried).queue), return_exceptions=True)
        assert {type(one) for one in answers} == {StorageLocked}
        assert begun() <= hurried.width * AT_MOST


async def test_who_had_to_give_way_has_not_learned_that_the_database_takes_no_changes(
    hasty: str, store: Store, queue: WorkQueue, begin: Callable[[], OpenTransaction]
) -> None:
    item = await queue.submit(NewItem("chore", "x"))
    begin().lock("work_items")
    async with opened(hasty) as hurried:
        with pytest.raises(StorageLocked):
            await Ledger.on(hurried).queue.apply(order(Verb.CANCEL, item.id))
        assert hurried.refusal is None


async def test_who_has_waited_too_long_for_a_connection_is_answered(
    database: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, let_go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        reached.set()
        assert let_go.wait(PATIENCE)

    async with opened(database) as lone:
        first = lone.transact(slow)
        try:
            assert await asyncio.to_thread(reached.wait, PATIENCE)
            second = asyncio.ensure_future(lone.read(lambda tx: tx.list_projects(None, 1)))
            await asyncio.sleep(0)
            with monkeypatch.context() as impatient:
                impatient.setattr(postgres, "QUEUE_SECONDS", 0.0)
                let_go.set()
                await first
                with pytest.raises(StorageUnavailable, match="all connections have been busy for"):
                    await second
        finally:
            let_go.set()
        assert await lone.read(lambda tx: tx.list_projects(None, 1)) == []


async def test_calls_that_have_waited_together_for_a_connection_are_not_sent_again_one_by_one(
    database: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, let_go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        reached.set()
        assert let_go.wait(PATIENCE)

    async with opened(database) as lone:
        first = lone.transact(slow)
        try:
            assert await asyncio.to_thread(reached.wait, PATIENCE)
            begun = counted(lone, monkeypatch)
            calls = submitted(Ledger.on(lone).queue)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with monkeypatch.context() as impatient:
                impatient.setattr(postgres, "QUEUE_SECONDS", 0.0)
                let_go.set()
                await first
                answers = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            let_go.set()
        assert {type(one) for one in answers} == {StorageUnavailable}
        assert begun() <= lone.width


async def test_an_upgrade_waits_for_another_as_long_as_it_takes(
    hasty: str, store: Store, begin: Callable[[], OpenTransaction]
) -> None:
    other = begin()
    other.lock_upgrades()
    async with opened(hasty) as hurried:
        upgrade = asyncio.ensure_future(hurried.upgrade())
        with pytest.raises(StorageLocked):  # the address counts for all else
            await hurried.transact(lambda tx: tx._text(OpenTransaction.UPGRADES, {}))  # type: ignore[attr-defined]
        assert not upgrade.done()
        other.commit()
        assert await upgrade == []
