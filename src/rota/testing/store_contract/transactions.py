"""Transactions: all or nothing, and in order, whoever calls."""

import asyncio
from collections.abc import Callable

import pytest

from rota.model.errors import StorageError, StorageUnavailable
from rota.model.status import Status
from rota.model.work import ItemFilter, NewItem, WorkItem
from rota.storage.port import Store, Transaction
from rota.testing.store_contract.deeds import (
    NOW,
    PATIENCE,
    OpenStore,
    found,
    given,
    is_there,
    item,
    one,
)


class TransactionsContract:
    """Bodies are committed as a whole or not at all, and do not see each other's changes."""

    async def test_a_body_that_raises_leaves_nothing_behind(self, store: Store) -> None:
        entry = item()

        def body(tx: Transaction) -> None:
            tx.insert_items([entry], None, NOW)
            raise LookupError("changed my mind")

        with pytest.raises(LookupError, match="changed my mind"):
            await store.transact(body)
        assert await store.read(lambda tx: tx.get_item(entry[0])) is None

    async def test_a_body_that_raises_takes_none_of_its_group_with_it(self, store: Store) -> None:
        entries = [item(f"number {number}") for number in range(30)]

        def store_one(entry: tuple[str, NewItem], number: int) -> Callable[[Transaction], int]:
            def body(tx: Transaction) -> int:
                tx.insert_items([entry], None, NOW)
                if number % 3 == 0:
                    raise LookupError(str(number))
                return number

            return body

        answers = await asyncio.gather(
            *(store.transact(store_one(entry, n)) for n, entry in enumerate(entries)),
            return_exceptions=True,
        )
        for number, (answer, (item_id, _)) in enumerate(zip(answers, entries, strict=True)):
            assert await is_there(store, item_id) == (number % 3 != 0)
            assert isinstance(answer, LookupError) if number % 3 == 0 else answer == number

    async def test_what_the_table_refuses_takes_none_of_its_group_with_it(
        self, store: Store
    ) -> None:
        good, bad, also_good = item(), item(project_id="nowhere"), item()
        answers = await asyncio.gather(
            *(given(store, entry) for entry in (good, bad, also_good)), return_exceptions=True
        )
        assert answers[0] == [good[0]]
        assert isinstance(answers[1], StorageError)
        assert answers[2] == [also_good[0]]
        assert len(await store.read(lambda tx: tx.list_items(ItemFilter()))) == 2

    async def test_a_refused_first_request_does_not_spoil_the_next(self, store: Store) -> None:
        for _ in range(30):
            with pytest.raises(ZeroDivisionError):
                await store.transact(lambda tx: 1 // 0)
        assert await store.transact(lambda tx: tx.get_item("x")) is None

    async def test_a_body_sees_its_own_changes(self, store: Store) -> None:
        entry = item()

        def body(tx: Transaction) -> WorkItem | None:
            tx.insert_items([entry], None, NOW)
            return tx.get_item(entry[0])

        assert (await store.transact(body)) == await found(store, entry[0])

    async def test_what_was_answered_is_seen_by_every_store(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        for _ in range(20):
            item_id = await one(store)
            assert (await found(other, item_id)).id == item_id
            assert await is_there(other, item_id, long=True)

    @pytest.mark.parametrize("long", [False, True])
    async def test_a_read_cannot_write(self, store: Store, long: bool) -> None:
        with pytest.raises(StorageError):
            await store.read(lambda tx: tx.insert_items([item()], None, NOW), long=long)
        assert await store.read(lambda tx: tx.list_items(ItemFilter()), long=long) == []

    @pytest.mark.parametrize("long", [False, True])
    async def test_a_read_passes_on_what_its_body_raises(self, store: Store, long: bool) -> None:
        def body(_: Transaction) -> None:
            raise LookupError("no")

        with pytest.raises(LookupError):
            await store.read(body, long=long)
        assert await store.read(lambda tx: tx.last_event(), long=long) == 0

    async def test_a_read_sees_one_moment(self, store: Store, another_store: OpenStore) -> None:
        """Two statements of one read agree, whatever is committed between them."""
        other = await another_store()
        loop = asyncio.get_running_loop()

        def body(tx: Transaction) -> tuple[int, int]:
            before = tx.count_by_status()[Status.QUEUED]
            asyncio.run_coroutine_threadsafe(given(other, item()), loop).result(PATIENCE)
            return before, tx.count_by_status()[Status.QUEUED]

        assert await store.read(body, long=True) == (0, 0)
        assert (await store.read(lambda tx: tx.count_by_status()))[Status.QUEUED] == 1

    async def test_a_closed_store_says_so(self, another_store: OpenStore) -> None:
        store = await another_store()
        await store.close()
        with pytest.raises(StorageUnavailable, match="closed"):
            await store.transact(lambda tx: None)
        with pytest.raises(StorageUnavailable, match="closed"):
            await store.read(lambda tx: None)
        await store.close()

    async def test_close_finishes_what_was_accepted(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        entries = [item() for _ in range(50)]
        writes = [asyncio.ensure_future(given(other, entry)) for entry in entries]
        await asyncio.sleep(0)  # lets each pass its body to the store
        await other.close()
        await asyncio.gather(*writes)
        assert (await store.read(lambda tx: tx.count_by_status()))[Status.QUEUED] == 50

    async def test_a_closed_store_can_be_opened_again(self, another_store: OpenStore) -> None:
        store = await another_store()
        item_id = await one(store)
        await store.close()
        await store.open()
        assert (await found(store, item_id)).status is Status.QUEUED

    async def test_a_caller_that_is_cancelled_does_not_disturb_the_others(
        self, store: Store
    ) -> None:
        first, second = item(), item()
        gone = asyncio.ensure_future(given(store, first))
        await asyncio.sleep(0)
        gone.cancel()
        await given(store, second)
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert await store.read(lambda tx: tx.get_item(second[0])) is not None
