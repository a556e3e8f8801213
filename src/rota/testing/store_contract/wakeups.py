"""Commits wake those who wait."""

import asyncio

import pytest

from rota.storage.port import Store, Topic, Transaction
from rota.testing.store_contract.deeds import PATIENCE, OpenStore, fact


class WakeupsContract:
    async def test_a_commit_wakes_who_waits_in_this_process(self, store: Store) -> None:
        seen = store.counter(Topic.READY)
        waiting = asyncio.ensure_future(store.wait(Topic.READY, seen, PATIENCE))
        await asyncio.sleep(0)
        await store.transact(lambda tx: tx.wake(Topic.READY))
        assert await waiting > seen

    async def test_a_commit_before_the_wait_is_not_missed(self, store: Store) -> None:
        seen = store.counter(Topic.READY)
        await store.transact(lambda tx: tx.wake(Topic.READY))
        assert await store.wait(Topic.READY, seen, PATIENCE) > seen

    async def test_a_topic_wakes_only_those_who_wait_for_it(self, store: Store) -> None:
        seen = store.counter(Topic.EVENTS)
        await store.transact(lambda tx: tx.wake(Topic.READY))
        assert store.counter(Topic.EVENTS) == seen

    async def test_events_wake_the_topic_of_events(self, store: Store) -> None:
        seen = store.counter(Topic.EVENTS)
        await store.transact(lambda tx: tx.append([fact("x")]))
        assert await store.wait(Topic.EVENTS, seen, PATIENCE) > seen

    async def test_a_body_that_raises_wakes_nobody(self, store: Store) -> None:
        seen = store.counter(Topic.READY)

        def body(tx: Transaction) -> None:
            tx.wake(Topic.READY)
            raise LookupError

        with pytest.raises(LookupError):
            await store.transact(body)
        assert store.counter(Topic.READY) == seen

    async def test_time_runs_out_where_nothing_happens(self, store: Store) -> None:
        seen = store.counter(Topic.READY)
        assert await store.wait(Topic.READY, seen, 0.01) == seen
        assert await store.wait(Topic.READY, seen, 0) == seen

    async def test_a_commit_wakes_who_waits_in_another_process(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        for topic in Topic:
            seen = other.counter(topic)
            waiting = asyncio.ensure_future(other.wait(topic, seen, PATIENCE))
            await asyncio.sleep(0)
            await _commit(store, topic)
            assert await waiting > seen


async def _commit(store: Store, topic: Topic) -> None:
    def body(tx: Transaction) -> None:
        tx.append([fact("x")])  # another process notices a commit only if something changed
        tx.wake(topic)

    await store.transact(body)
