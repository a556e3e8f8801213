"""The dispatch log and the log of events."""

import asyncio
from dataclasses import fields

import pytest

from rota.model.events import EventFilter, EventType, NewEvent
from rota.model.status import Status
from rota.storage.port import Store, Topic, Transaction
from rota.testing.audit import all_events
from rota.testing.store_contract.deeds import (
    LATER,
    NOW,
    SOON,
    OpenStore,
    events,
    fact,
    one,
    written,
)


class LogAndEventsContract:
    async def test_close_dispatch_closes_the_open_row_once(self, store: Store) -> None:
        item_id = await one(store)
        await store.transact(lambda tx: tx.log_dispatch("d1", item_id, "ada", NOW))
        await store.transact(lambda tx: tx.close_dispatch(item_id, SOON, "released"))
        await store.transact(lambda tx: tx.log_dispatch("d2", item_id, "bob", LATER))
        await store.transact(lambda tx: tx.close_dispatch(item_id, LATER, "success"))
        await store.transact(lambda tx: tx.close_dispatch(item_id, LATER, "failed"))
        rows = await store.read(lambda tx: tx.dispatches_of(item_id))
        assert [(row.id, row.agent, row.completed_at, row.outcome) for row in rows] == [
            ("d1", "ada", SOON, "released"),
            ("d2", "bob", LATER, "success"),
        ]

    async def test_an_event_comes_back_as_it_was_written(self, store: Store) -> None:
        event = NewEvent(
            EventType.COMPLETED,
            NOW,
            actor="me",
            work_item_id="w",
            project_id="p",
            agent="ada",
            reason="because ✓",
            from_status=Status.IN_PROGRESS,
            to_status=Status.COMPLETED,
            epoch=7,
            data={"notes": "ü\n\x00", "n": [1, None]},
        )
        await store.transact(lambda tx: tx.append([event]))
        (row,) = await store.read(lambda tx: tx.events_after(0, 10))
        for field in fields(event):
            assert getattr(row, field.name) == getattr(event, field.name), field.name

    async def test_append_of_nothing_wakes_nobody(self, store: Store) -> None:
        seen = store.counter(Topic.EVENTS)
        await store.transact(lambda tx: tx.append([]))
        assert store.counter(Topic.EVENTS) == seen

    async def test_events_stand_in_the_order_they_were_written(self, store: Store) -> None:
        for batch in range(4):
            await written(store, *(fact(f"{batch}-{n}") for n in range(5)))
        rows = await store.read(lambda tx: tx.events_after(0, 100))
        expected = [f"{batch}-{n}" for batch in range(4) for n in range(5)]
        assert [row.work_item_id for row in rows] == expected
        assert [row.seq for row in rows] == sorted({row.seq for row in rows})
        assert await store.read(lambda tx: tx.last_event()) == rows[-1].seq

    async def test_events_after_pages_and_filters(self, store: Store) -> None:
        kinds = [EventType.NOTED, EventType.HELD, EventType.UNHELD]
        for number in range(12):
            await written(store, fact("ab"[number % 2], kinds[number % 3]))
        everything = await store.read(lambda tx: tx.events_after(0, 100))
        first = await store.read(lambda tx: tx.events_after(0, 5))
        assert first == everything[:5]
        assert await store.read(lambda tx: tx.events_after(first[-1].seq, 100)) == everything[5:]
        for asked in (
            EventFilter(work_item_id="a"),
            EventFilter(types=("work.noted", "work.held")),
            EventFilter(work_item_id="b", types=("work.noted",)),
            EventFilter(types=("work.failed",)),
        ):
            assert await events(store, 0, 100, asked) == [
                event
                for event in everything
                if asked.work_item_id in (None, event.work_item_id)
                and (not asked.types or event.type in asked.types)
            ]

    async def test_events_after_the_last_one_are_none(self, store: Store) -> None:
        await store.transact(lambda tx: tx.append([fact("x")]))
        last = await store.read(lambda tx: tx.last_event())
        assert await store.read(lambda tx: tx.events_after(last, 10)) == []
        assert await store.read(lambda tx: tx.events_after(last + 1_000_000, 10)) == []

    async def test_events_after_a_number_that_was_rolled_back(self, store: Store) -> None:
        await store.transact(lambda tx: tx.append([fact("a")]))

        def body(tx: Transaction) -> None:
            tx.append([fact("never")])
            raise LookupError

        with pytest.raises(LookupError):
            await store.transact(body)
        await store.transact(lambda tx: tx.append([fact("b")]))
        first, second = await store.read(lambda tx: tx.events_after(0, 10))
        assert (first.work_item_id, second.work_item_id) == ("a", "b")
        assert await store.read(lambda tx: tx.events_after(second.seq - 1, 10)) == [second]

    async def test_events_of_an_item_are_its_newest_oldest_first(self, store: Store) -> None:
        for number in range(7):
            name = "mine" if number % 2 == 0 else "other"
            await written(store, fact(name, data={"n": number}))
        rows = await store.read(lambda tx: tx.events_of("mine", 3))
        assert [row.data["n"] for row in rows] == [2, 4, 6]

    async def test_a_reader_that_follows_misses_nothing_of_many_writers(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        done = asyncio.Event()
        followed: list[int] = []

        async def follow() -> None:
            while True:
                ended = done.is_set()
                rows = await events(other, followed[-1] if followed else 0, 7)
                followed.extend(row.seq for row in rows)
                if ended and not rows:
                    return

        async def write(name: str) -> None:
            for number in range(25):
                await written(store, *(fact(f"{name}-{number}") for _ in range(2)))

        reader = asyncio.ensure_future(follow())
        await asyncio.gather(*(write(f"w{n}") for n in range(8)))
        done.set()
        await reader
        everything = await store.read(all_events, long=True)
        assert len(everything) == 400
        assert sorted(followed) == sorted(event.seq for event in everything)
        assert len(set(followed)) == len(followed)
