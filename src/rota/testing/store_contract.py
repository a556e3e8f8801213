"""The contract of `rota.storage.port`, as tests over any store.

    class TestMyStore(StoreContract): ...

with a fixture `store` that yields an open, empty store, and `another_store`, a function that opens
one more on the same database. Sentences that begin with a verb's name are about that verb.
"""

import asyncio
import itertools
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rota.model.access import ApiToken
from rota.model.agents import Agent, AgentLoad
from rota.model.claims import Claim, ClaimedItem, ClaimResult, NothingClaimed
from rota.model.clock import IdFactory, SystemClock
from rota.model.errors import NoFreeSlot, StorageError, StorageUnavailable
from rota.model.events import EVERY_EVENT, Event, EventFilter, EventType, NewEvent
from rota.model.status import OUTCOME_OF, Status
from rota.model.work import ItemFilter, NewItem, Project, WorkItem
from rota.storage.port import Edit, Finish, Move, Store, Take, Topic, Transaction
from rota.testing.audit import all_events
from rota.testing.clock import ManualClock
from rota.testing.store_contract_sources import SourcesContract

T = TypeVar("T")
OpenStore = Callable[[], Awaitable[Store]]

PATIENCE = 20.0  # seconds; only what fails waits that long
_clock = ManualClock(datetime(2026, 5, 1, 12, tzinfo=UTC))
_ids = IdFactory(SystemClock())
NOW, SOON, LATER = _clock.text(), _clock.text(60), _clock.text(3600)


def item(description: str = "Say hello", **values: Any) -> tuple[str, NewItem]:
    return _ids.new(), NewItem(**{"type": "chore", "description": description, **values})


async def given(store: Store, *items: tuple[str, NewItem], now: str = NOW) -> list[str]:
    """Store items, and return their ids."""
    await store.transact(lambda tx: tx.insert_items(items, None, now))
    return [item_id for item_id, _ in items]


async def one(store: Store, **values: Any) -> str:
    return (await given(store, item(**values)))[0]


async def listed(store: Store, asked: ItemFilter) -> list[WorkItem]:
    return await store.read(lambda tx: tx.list_items(asked))


async def written(store: Store, *events: NewEvent) -> None:
    await store.transact(lambda tx: tx.append(events))


async def events(
    store: Store, after: int, limit: int, asked: EventFilter = EVERY_EVENT
) -> list[Event]:
    """Off the event loop: a read on it lets nobody else have a turn."""
    return await store.read(lambda tx: tx.events_after(after, limit, asked), long=True)


async def is_there(store: Store, item_id: str, *, long: bool = False) -> bool:
    return await store.read(lambda tx: tx.get_item(item_id) is not None, long=long)


async def live_claim(store: Store, item_id: str) -> Claim | None:
    return await store.read(lambda tx: tx.live_claim(item_id))


async def found(store: Store, item_id: str) -> WorkItem:
    row = await store.read(lambda tx: tx.get_item(item_id))
    assert row is not None
    return row


def wanted(agent: str = "ada", tokens: Sequence[str] = ("t1",), **values: Any) -> Take:
    ids = [_ids.new() for _ in tokens]
    return Take(
        **{
            "agent": agent,
            "tokens": tokens,
            "dispatch_ids": ids,
            "lease_seconds": 60,
            "expires_at": SOON,
            **values,
        }
    )


async def taken(
    store: Store, agent: str = "ada", slots: int | None = None, **values: Any
) -> list[ClaimedItem]:
    take = wanted(agent, **values)

    def body(tx: Transaction) -> list[ClaimResult]:
        if slots is not None:
            tx.put_agent(Agent(agent, slots, updated_at=NOW))
        return tx.take([take], NOW)

    (result,) = await store.transact(body)
    return result.items


async def moved(store: Store, item_id: str, target: Status, **values: Any) -> WorkItem | None:
    move = Move(
        item_id,
        **{
            "sources": (Status.QUEUED,),
            "target": target,
            "now": NOW,
            "reason": "test",
            "outcome": OUTCOME_OF.get(target),
            **values,
        },
    )
    return await store.transact(lambda tx: tx.move(move))


async def in_progress(store: Store, item_id: str, agent: str = "ada", slot: int = 0) -> WorkItem:
    row = await moved(store, item_id, Status.IN_PROGRESS, agent=agent, slot=slot, new_epoch=True)
    assert row is not None
    return row


async def completed(store: Store, item_id: str) -> WorkItem:
    row = await moved(store, item_id, Status.COMPLETED)
    assert row is not None
    return row


def fact(item_id: str, kind: EventType = EventType.NOTED, **values: Any) -> NewEvent:
    return NewEvent(kind, NOW, work_item_id=item_id, **values)


class TransactionsContract:
    """Bodies: committed together or not at all, and apart from each other."""

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
        await asyncio.sleep(0)  # each has handed its body over
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
        await _quiet(store)
        seen = store.counter(Topic.EVENTS)
        await store.transact(lambda tx: tx.wake(Topic.READY))
        assert store.counter(Topic.EVENTS) == seen

    async def test_events_wake_the_topic_of_events(self, store: Store) -> None:
        seen = store.counter(Topic.EVENTS)
        await store.transact(lambda tx: tx.append([fact("x")]))
        assert await store.wait(Topic.EVENTS, seen, PATIENCE) > seen

    async def test_a_body_that_raises_wakes_nobody(self, store: Store) -> None:
        await _quiet(store)
        seen = store.counter(Topic.READY)

        def body(tx: Transaction) -> None:
            tx.wake(Topic.READY)
            raise LookupError

        with pytest.raises(LookupError):
            await store.transact(body)
        assert store.counter(Topic.READY) == seen

    async def test_time_runs_out_where_nothing_happens(self, store: Store) -> None:
        await _quiet(store)
        seen = store.counter(Topic.READY)
        assert await store.wait(Topic.READY, seen, 0.01) == seen
        assert await store.wait(Topic.READY, seen, 0) == seen

    async def test_a_commit_wakes_who_waits_in_another_process(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        await _quiet(other)
        for topic in Topic:
            seen = other.counter(topic)
            waiting = asyncio.ensure_future(other.wait(topic, seen, PATIENCE))
            await asyncio.sleep(0)
            await _commit(store, topic)
            assert await waiting > seen


async def _commit(store: Store, topic: Topic) -> None:
    def body(tx: Transaction) -> None:
        tx.append([fact("x")])  # another process sees a commit only where something changed
        tx.wake(topic)

    await store.transact(body)


async def _quiet(store: Store) -> None:
    """Until the counters stand: a store that has just begun to listen counts once for that."""
    while True:
        seen = [store.counter(topic) for topic in Topic]
        await store.wait(Topic.READY, seen[0], 0.15)
        if seen == [store.counter(topic) for topic in Topic]:
            return


class ProjectsAndAgentsContract:
    async def test_a_project_comes_back_as_it_was_stored(self, store: Store) -> None:
        project = Project(_ids.new(), "Größe ✓", "https://example.org/1", NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        assert await store.read(lambda tx: tx.get_project(project.id)) == project
        changed = replace(project, name="Other", external_ref=None, updated_at=LATER)
        assert await store.transact(lambda tx: tx.update_project(changed)) is True
        assert await store.read(lambda tx: tx.get_project(project.id)) == changed

    async def test_a_project_that_is_not_there(self, store: Store) -> None:
        ghost = Project("ghost", "Ghost", None, NOW, NOW)
        assert await store.read(lambda tx: tx.get_project("ghost")) is None
        assert await store.transact(lambda tx: tx.update_project(ghost)) is False

    async def test_list_projects_goes_by_id_and_pages(self, store: Store) -> None:
        projects = [Project(_ids.new(), f"p{n}", None, NOW, NOW) for n in range(5)]

        def body(tx: Transaction) -> None:
            for project in reversed(projects):
                tx.insert_project(project)

        await store.transact(body)
        first = await store.read(lambda tx: tx.list_projects(None, 3))
        rest = await store.read(lambda tx: tx.list_projects(first[-1].id, 3))
        assert [*first, *rest] == projects

    async def test_put_agent_makes_and_changes(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_agent("ada")) is None
        await store.transact(lambda tx: tx.put_agent(Agent("ada", 3, False, NOW, NOW)))
        assert await store.read(lambda tx: tx.get_agent("ada")) == Agent("ada", 3, False, NOW, NOW)
        await store.transact(lambda tx: tx.put_agent(Agent("ada", 5, True, NOW, LATER)))
        assert await store.read(lambda tx: tx.get_agent("ada")) == Agent("ada", 5, True, NOW, LATER)

    async def test_agent_loads_shows_who_is_configured_or_at_work(self, store: Store) -> None:
        await store.transact(lambda tx: tx.put_agent(Agent("zoe", 2, False, NOW, NOW)))
        busy, named, _ = await given(store, item(), item(), item())
        await in_progress(store, busy, "ada")
        await moved(store, named, Status.DISPATCHED, agent="bob")
        assert await store.read(lambda tx: tx.agent_loads()) == [
            AgentLoad(Agent("ada"), 1, 0),
            AgentLoad(Agent("bob"), 0, 1),
            AgentLoad(Agent("zoe", 2, False, NOW, NOW), 0, 0),
        ]

    async def test_busy_slots_are_those_of_items_in_progress(self, store: Store) -> None:
        first, second, _ = await given(store, item(), item(), item())
        await in_progress(store, first, "ada", 0)
        await in_progress(store, second, "ada", 4)
        assert await store.read(lambda tx: tx.busy_slots("ada")) == {0, 4}
        assert await store.read(lambda tx: tx.busy_slots("bob")) == set()


class ItemsContract:
    async def test_an_item_comes_back_as_it_was_stored(self, store: Store) -> None:
        project = Project(_ids.new(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        full = NewItem(
            type="Übersetzung",
            description="Zeile 1\nZeile 2 \U0001f600 'quoted' \"twice\" \\ %s :name @item",
            body="body\ttab \x01 control",
            payload={"n": [1, 2.5, None, True, {"ключ": "\x00 NUL and \u2028"}], "": ""},
            priority=1,
            project_id=project.id,
            assigned_agent="ada",
            created_by="me",
            labels=("b", "a", "ä"),
            max_attempts=7,
            available_at=LATER,
            source="github:owner/repo",
            source_ref="42",
        )
        entry = (_ids.new(), full)
        await given(store, entry)
        row = await found(store, entry[0])
        for field in fields(full):
            if field.name != "blocked_by":
                assert getattr(row, field.name) == getattr(full, field.name), field.name
        assert (row.status, row.pinned, row.deferred) == (Status.QUEUED, True, True)
        assert (row.created_at, row.updated_at, row.version, row.epoch) == (NOW, NOW, 1, 0)
        assert (row.attempts, row.open_blockers, row.dependents) == (0, 0, 0)
        assert (row.completed_at, row.outcome, row.slot, row.claim_token) == (None,) * 4

    async def test_an_item_needs_only_a_type_and_a_description(self, store: Store) -> None:
        row = await found(store, await one(store))
        assert (row.priority, row.max_attempts, row.labels, row.payload) == (3, 3, (), None)
        assert (row.pinned, row.deferred, row.assigned_agent) == (False, False, None)

    @pytest.mark.parametrize("payload", [0, False, "", [], {}, "text", 10**30, 1e-300])
    async def test_a_payload_is_any_json(self, store: Store, payload: Any) -> None:
        row = await found(store, await one(store, payload=payload))
        assert row.payload == payload
        assert type(row.payload) is type(payload)

    async def test_items_of_one_batch_are_stored_together_or_not_at_all(self, store: Store) -> None:
        with pytest.raises(StorageError):
            await given(store, item(), item(project_id="nowhere"), item())
        assert await store.read(lambda tx: tx.list_items(ItemFilter())) == []

    async def test_insert_items_writes_an_event_for_each(self, store: Store) -> None:
        mine, theirs = item(assigned_agent="ada"), item(created_by="them")
        await store.transact(lambda tx: tx.insert_items([mine, theirs], "me", NOW))
        assert (await found(store, mine[0])).created_by == "me"
        assert (await found(store, theirs[0])).created_by == "them"
        rows = await events(store, 0, 10)
        assert [(row.type, row.work_item_id, row.agent) for row in rows] == [
            ("work.submitted", mine[0], "ada"),
            ("work.submitted", theirs[0], None),
        ]
        assert {(e.actor, e.from_status, e.to_status, e.epoch, e.occurred_at) for e in rows} == {
            ("me", None, "queued", 0, NOW)
        }

    async def test_get_items_keeps_the_order_asked_for(self, store: Store) -> None:
        ids = await given(store, item(), item(), item())
        asked = [ids[2], "ghost", ids[0]]
        rows = await store.read(lambda tx: tx.get_items(asked))
        assert [row.id for row in rows] == [ids[2], ids[0]]

    async def test_get_item_of_nothing(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_item("ghost")) is None

    async def test_list_items_goes_by_priority_then_age(self, store: Store) -> None:
        low, first, second, high = await given(
            store, item(priority=5), item(), item(), item(priority=1)
        )
        rows = await store.read(lambda tx: tx.list_items(ItemFilter()))
        assert [row.id for row in rows] == [high, first, second, low]
        rows = await store.read(lambda tx: tx.list_items(ItemFilter(by_age=True)))
        assert [row.id for row in rows] == [low, first, second, high]

    @pytest.mark.parametrize("by_age", [False, True])
    async def test_list_items_goes_on_after_a_place(self, store: Store, by_age: bool) -> None:
        await given(store, *(item(priority=1 + n % 5) for n in range(23)))
        everything = await store.read(
            lambda tx: tx.list_items(ItemFilter(by_age=by_age, limit=100))
        )
        pages: list[WorkItem] = []
        while True:
            after = (pages[-1].priority, pages[-1].id) if pages else None
            asked = ItemFilter(by_age=by_age, after=after, limit=5)
            page = await listed(store, asked)
            pages += page
            if not page:
                break
        assert pages == everything
        assert len(pages) == 23

    async def test_list_items_filters(self, store: Store) -> None:
        project = Project(_ids.new(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        a, b, c, d = await given(
            store,
            item("Fix the 100% bug", project_id=project.id, labels=("red", "blue")),
            item("other", body="a BUG inside", type="bug"),
            item("Ärger", labels=("red",), assigned_agent="ada"),
            item("under_score"),
        )
        await moved(store, d, Status.CANCELLED, now=LATER)
        cases: list[tuple[ItemFilter, set[str]]] = [
            (ItemFilter(), {a, b, c, d}),
            (ItemFilter(statuses=(Status.QUEUED,)), {a, b, c}),
            (ItemFilter(statuses=(Status.CANCELLED, Status.FAILED)), {d}),
            (ItemFilter(agent="ada"), {c}),
            (ItemFilter(project_id=project.id), {a}),
            (ItemFilter(type="bug"), {b}),
            (ItemFilter(label="red"), {a, c}),
            (ItemFilter(label="red", agent="ada"), {c}),
            (ItemFilter(text="bug"), {a, b}),
            (ItemFilter(text="0% B"), {a}),
            (ItemFilter(text="r_s"), {d}),
            (ItemFilter(text="Ärger"), {c}),
            (ItemFilter(text="\\"), set()),
            (ItemFilter(completed_after=NOW), {d}),
            (ItemFilter(completed_after=LATER), set()),
            (ItemFilter(updated_after=NOW), {d}),
            (ItemFilter(created_after=_clock.text(-1), by_age=True), {a, b, c, d}),
            (ItemFilter(created_after=NOW, by_age=True), set()),
            (ItemFilter(agent="nobody"), set()),
        ]
        for asked, expected in cases:
            assert {row.id for row in await listed(store, asked)} == expected, asked

    async def test_count_by_status_names_every_status(self, store: Store) -> None:
        first, _ = await given(store, item(), item())
        await completed(store, first)
        counts = await store.read(lambda tx: tx.count_by_status())
        assert set(counts) == set(Status)
        assert {status: n for status, n in counts.items() if n} == {
            Status.QUEUED: 1,
            Status.COMPLETED: 1,
        }

    async def test_queued_before_counts_what_may_be_claimed_first(self, store: Store) -> None:
        await given(
            store, item(priority=1), item(), item(available_at=LATER), item(assigned_agent="ada")
        )
        last = await found(store, await one(store))
        await one(store, priority=1)
        assert await store.read(lambda tx: tx.queued_before(last)) == 3

    async def test_move_changes_what_it_names_and_keeps_the_rest(self, store: Store) -> None:
        item_id = await one(store)
        before = await found(store, item_id)
        row = await moved(
            store,
            item_id,
            Status.IN_PROGRESS,
            now=SOON,
            agent="ada",
            slot=2,
            new_epoch=True,
            notes="on it",
            artifact_url="https://example.org",
        )
        assert row == await found(store, item_id)
        assert row == replace(
            before,
            status=Status.IN_PROGRESS,
            came_from=Status.QUEUED,
            reason="test",
            updated_at=SOON,
            assigned_agent="ada",
            slot=2,
            epoch=1,
            attempts=1,
            notes="on it",
            artifact_url="https://example.org",
            version=2,
        )
        row = await moved(
            store, item_id, Status.FAILED, sources=(Status.IN_PROGRESS,), now=LATER, reason="why"
        )
        assert row is not None
        assert (row.notes, row.artifact_url) == ("on it", "https://example.org")
        assert (row.completed_at, row.outcome, row.reason) == (LATER, "failed", "why")
        assert (row.slot, row.assigned_agent, row.epoch, row.attempts) == (None, "ada", 1, 1)

    async def test_move_can_drop_the_agent_reset_attempts_and_defer(self, store: Store) -> None:
        item_id = await one(store)
        await in_progress(store, item_id)
        row = await moved(
            store,
            item_id,
            Status.QUEUED,
            sources=(Status.IN_PROGRESS,),
            drop_agent=True,
            reset_attempts=True,
            available_at=LATER,
        )
        assert row is not None
        assert (row.assigned_agent, row.attempts, row.epoch) == (None, 0, 1)
        assert (row.available_at, row.deferred) == (LATER, True)

    async def test_move_keeps_an_agent_that_a_person_named(self, store: Store) -> None:
        item_id = await one(store, assigned_agent="ada")
        await moved(store, item_id, Status.DISPATCHED)
        row = await moved(
            store, item_id, Status.QUEUED, sources=(Status.DISPATCHED,), drop_agent=True
        )
        assert row is not None
        assert (row.assigned_agent, row.pinned) == ("ada", True)

    async def test_move_to_another_agent_is_no_longer_the_person_s_choice(
        self, store: Store
    ) -> None:
        item_id = await one(store, assigned_agent="ada")
        row = await moved(store, item_id, Status.DISPATCHED, agent="bob")
        assert row is not None
        assert (row.assigned_agent, row.pinned) == ("bob", False)

    async def test_move_is_refused_from_another_status(self, store: Store) -> None:
        item_id = await one(store)
        before = await found(store, item_id)
        sources = (Status.DISPATCHED, Status.IN_PROGRESS, Status.BLOCKED)
        assert await moved(store, item_id, Status.QUEUED, sources=sources) is None
        assert await found(store, item_id) == before

    async def test_move_is_refused_at_another_version(self, store: Store) -> None:
        item_id = await one(store)
        assert await moved(store, item_id, Status.CANCELLED, version=2) is None
        assert await moved(store, item_id, Status.CANCELLED, version=1) is not None

    async def test_move_is_refused_without_the_live_token(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store, tokens=["right"])
        before = await found(store, claimed.item.id)
        away: dict[str, Any] = {"sources": (Status.IN_PROGRESS,)}
        for token in (None, "", "wrong", "RIGHT"):
            refused = await moved(store, claimed.item.id, Status.COMPLETED, token=token, **away)
            assert refused is None
        assert await found(store, claimed.item.id) == before
        assert await moved(store, claimed.item.id, Status.COMPLETED, token="right", **away)

    async def test_move_is_refused_with_a_token_where_there_is_no_claim(self, store: Store) -> None:
        item_id = await one(store)
        await in_progress(store, item_id)
        away: dict[str, Any] = {"sources": (Status.IN_PROGRESS,)}
        assert await moved(store, item_id, Status.COMPLETED, token="old", **away) is None
        assert await moved(store, item_id, Status.COMPLETED, **away) is not None

    async def test_move_by_force_leaves_the_claim_out_of_it(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        row = await moved(
            store, claimed.item.id, Status.QUEUED, sources=(Status.IN_PROGRESS,), force=True
        )
        assert row is not None
        assert row.claim_token is None

    async def test_move_of_nothing(self, store: Store) -> None:
        assert await moved(store, "ghost", Status.CANCELLED) is None

    async def test_two_items_of_one_agent_cannot_share_a_slot(self, store: Store) -> None:
        first, second = await given(store, item(), item())
        await in_progress(store, first, "ada", 0)
        with pytest.raises(NoFreeSlot):
            await in_progress(store, second, "ada", 0)
        assert (await found(store, second)).status is Status.QUEUED
        await in_progress(store, second, "ada", 1)

    async def test_edit_changes_only_what_it_names(self, store: Store) -> None:
        item_id = await one(store, body="old")
        before = await found(store, item_id)
        edit = Edit(item_id, LATER, {"description": "new", "body": None, "priority": 1})
        row = await store.transact(lambda tx: tx.edit(edit))
        assert row == replace(
            before, description="new", body=None, priority=1, updated_at=LATER, version=2
        )
        assert row == await found(store, item_id)

    async def test_edit_is_refused_at_another_version_and_of_nothing(self, store: Store) -> None:
        item_id = await one(store)
        late = Edit(item_id, NOW, {"body": "x"}, version=2)
        ghost = Edit("ghost", NOW, {"body": "x"})
        assert await store.transact(lambda tx: tx.edit(late)) is None
        assert await store.transact(lambda tx: tx.edit(ghost)) is None
        assert (await found(store, item_id)).body is None

    @pytest.mark.parametrize("name", ["status", "epoch", "claim_token", "id", "x = 1; --"])
    async def test_edit_takes_only_describing_fields(self, store: Store, name: str) -> None:
        item_id = await one(store)
        with pytest.raises(ValueError, match="not editable"):
            await store.transact(lambda tx: tx.edit(Edit(item_id, NOW, {name: "x"})))

    async def test_set_labels_replaces_them(self, store: Store) -> None:
        item_id = await one(store, labels=("a", "b"))
        await store.transact(lambda tx: tx.set_labels(item_id, ["b", "c"]))
        assert (await found(store, item_id)).labels == ("b", "c")
        for label, there in {"a": 0, "b": 1, "c": 1}.items():
            assert len(await listed(store, ItemFilter(label=label))) == there
        await store.transact(lambda tx: tx.set_labels(item_id, []))
        assert (await found(store, item_id)).labels == ()

    async def test_promote_due_frees_what_is_due(self, store: Store) -> None:
        due, not_due, _ = await given(
            store, item(available_at=SOON), item(available_at=LATER), item()
        )
        assert await store.read(lambda tx: tx.next_due()) == SOON
        assert await store.transact(lambda tx: tx.promote_due(NOW)) == 0
        assert await store.transact(lambda tx: tx.promote_due(SOON)) == 1
        assert (await found(store, due)).deferred is False
        assert (await found(store, not_due)).deferred is True
        assert await store.read(lambda tx: tx.next_due()) == LATER
        await store.transact(lambda tx: tx.promote_due(LATER))
        assert await store.read(lambda tx: tx.next_due()) is None


class LinksContract:
    async def test_add_blockers_counts_only_those_still_open(self, store: Store) -> None:
        done, waiting, failed, dependent = await given(store, item(), item(), item(), item())
        await completed(store, done)
        await moved(store, failed, Status.FAILED)
        asked = [done, waiting, "ghost", failed]
        missing = await store.transact(lambda tx: tx.add_blockers(dependent, asked))
        assert missing == ["ghost"]
        assert (await found(store, dependent)).open_blockers == 2
        assert (await found(store, waiting)).dependents == 1
        links = await store.read(lambda tx: tx.blockers_of(dependent))
        assert {(link.blocker_id, link.blocker_status) for link in links} == {
            (done, Status.COMPLETED),
            (waiting, Status.QUEUED),
            (failed, Status.FAILED),
        }
        (back,) = await store.read(lambda tx: tx.blocked_by(waiting))
        assert (back.item_id, back.blocker_id) == (dependent, waiting)

    async def test_unblock_dependents_returns_those_that_wait_for_nothing_more(
        self, store: Store
    ) -> None:
        first, second, both, single = await given(store, item(), item(), item(), item())

        def link(tx: Transaction) -> None:
            tx.add_blockers(both, [first, second])
            tx.add_blockers(single, [first])

        await store.transact(link)
        free = await store.transact(lambda tx: tx.unblock_dependents(first, NOW))
        assert [row.id for row in free] == [single]
        assert (await found(store, both)).open_blockers == 1
        free = await store.transact(lambda tx: tx.unblock_dependents(second, NOW))
        assert [row.id for row in free] == [both]

    async def test_clear_blockers_takes_all_links_off(self, store: Store) -> None:
        first, second, dependent = await given(store, item(), item(), item())
        await store.transact(lambda tx: tx.add_blockers(dependent, [first, second]))
        await store.transact(lambda tx: tx.clear_blockers(dependent))
        assert (await found(store, dependent)).open_blockers == 0
        assert (await found(store, first)).dependents == 0
        assert await store.read(lambda tx: tx.blockers_of(dependent)) == []
        assert await store.read(lambda tx: tx.blocked_by(first)) == []

    async def test_reaches_follows_links_to_any_depth(self, store: Store) -> None:
        chain = await given(store, *(item() for _ in range(6)))

        def link(tx: Transaction) -> None:
            for dependent, blocker in itertools.pairwise(chain):
                tx.add_blockers(dependent, [blocker])

        await store.transact(link)
        assert await store.read(lambda tx: tx.reaches(chain[0], chain[-1])) is True
        assert await store.read(lambda tx: tx.reaches(chain[-1], chain[0])) is False
        assert await store.read(lambda tx: tx.reaches(chain[0], chain[0])) is True


class ClaimsContract:
    async def test_take_starts_an_item_with_a_claim(self, store: Store) -> None:
        item_id = await one(store)
        before = await found(store, item_id)
        (claimed,) = await taken(store, tokens=["t1"])
        assert claimed.item == await found(store, item_id)
        assert claimed.item == replace(
            before,
            status=Status.IN_PROGRESS,
            came_from=Status.QUEUED,
            reason="claimed",
            assigned_agent="ada",
            slot=0,
            epoch=1,
            attempts=1,
            claim_token="t1",
            lease_expires_at=SOON,
            version=2,
        )
        assert claimed.claim == Claim(item_id, 1, "t1", "ada", 0, NOW, 60, SOON)
        assert await store.read(lambda tx: tx.live_claim(item_id)) == claimed.claim

    async def test_take_writes_the_log_and_two_events(self, store: Store) -> None:
        item_id = await one(store)
        take = wanted()
        await store.transact(lambda tx: tx.take([take], NOW))
        (logged,) = await store.read(lambda tx: tx.dispatches_of(item_id))
        assert (logged.id, logged.agent, logged.dispatched_at) == (take.dispatch_ids[0], "ada", NOW)
        assert logged.completed_at is None
        submitted, *events = await store.read(lambda tx: tx.events_of(item_id, 10))
        assert submitted.type == "work.submitted"
        assert [(e.type, e.from_status, e.to_status, e.epoch) for e in events] == [
            ("work.dispatched", "queued", "dispatched", 1),
            ("work.started", "dispatched", "in_progress", 1),
        ]
        assert {(e.actor, e.agent, e.reason, e.occurred_at) for e in events} == {
            ("ada", "ada", "claimed", NOW)
        }

    async def test_take_of_a_dispatched_item_uses_its_dispatch(self, store: Store) -> None:
        item_id = await one(store)
        await moved(store, item_id, Status.DISPATCHED, agent="ada")
        await store.transact(lambda tx: tx.log_dispatch("d0", item_id, "ada", NOW))
        (claimed,) = await taken(store)
        assert claimed.item.came_from is Status.DISPATCHED
        assert [d.id for d in await store.read(lambda tx: tx.dispatches_of(item_id))] == ["d0"]
        events = await store.read(lambda tx: tx.events_of(item_id, 10))
        assert [event.type for event in events] == ["work.submitted", "work.started"]

    async def test_take_prefers_dispatched_then_priority_then_age(self, store: Store) -> None:
        old, urgent, mine, dispatched, young = await given(
            store,
            item(),
            item(priority=1),
            item(priority=2, assigned_agent="ada"),
            item(priority=5),
            item(),
        )
        await moved(store, dispatched, Status.DISPATCHED, agent="ada")
        took = await taken(store, tokens=["a", "b", "c", "d", "e"], slots=9)
        order = [claimed.item.id for claimed in took]
        assert order == [dispatched, urgent, mine, old, young]
        assert [claimed.item.slot for claimed in took] == [0, 1, 2, 3, 4]
        assert [claimed.claim.token for claimed in took] == ["a", "b", "c", "d", "e"]

    async def test_take_leaves_what_may_not_be_taken(self, store: Store) -> None:
        held, blocked, _, _, _, blocker = await given(
            store,
            item(),
            item(),
            item(available_at=LATER),
            item(assigned_agent="bob"),
            item(),
            item(priority=1),
        )
        await store.transact(lambda tx: tx.edit(Edit(held, NOW, {"hold_reason": "wait"})))
        await store.transact(lambda tx: tx.add_blockers(blocked, [blocker]))
        took = await taken(store, tokens=list("abcdefgh"), slots=9)
        assert len(took) == 2
        assert took[0].item.id == blocker

    async def test_take_leaves_a_dispatched_item_that_is_held(self, store: Store) -> None:
        item_id = await one(store)
        await moved(store, item_id, Status.DISPATCHED, agent="ada")
        await store.transact(lambda tx: tx.edit(Edit(item_id, NOW, {"hold_reason": "wait"})))
        assert await taken(store) == []

    async def test_take_fills_free_slots_and_no_more(self, store: Store) -> None:
        await given(store, *(item() for _ in range(6)))
        first = await taken(store, tokens=["a", "b"], slots=3)
        assert [claimed.item.slot for claimed in first] == [0, 1]
        await moved(
            store, first[0].item.id, Status.QUEUED, sources=(Status.IN_PROGRESS,), force=True,
            drop_agent=True,
        )  # fmt: skip
        rest = await taken(store, tokens=["c", "d", "e", "f"], slots=3)
        assert [claimed.item.slot for claimed in rest] == [0, 2]
        assert await taken(store, tokens=["g"], slots=3) == []

    async def test_take_filters_by_type_label_and_project(self, store: Store) -> None:
        project = Project(_ids.new(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        a, b, c, d = await given(
            store,
            item(type="a", labels=("x", "y")),
            item(type="b", labels=("x",)),
            item(type="c", project_id=project.id),
            item(type="a", priority=1, assigned_agent="ada"),
        )
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"types": ("a",)}, [d, a]),
            ({"types": ("b", "a")}, [d, a, b]),
            ({"types": ("zzz",)}, []),
            ({"labels": ("x",)}, [a, b]),
            ({"labels": ("x", "y")}, [a]),
            ({"labels": ("x",), "types": ("b", "c")}, [b]),
            ({"project_id": project.id}, [c]),
            ({"project_id": project.id, "types": ("a",)}, []),
            ({"project_id": project.id, "types": ("a", "c"), "labels": ("x",)}, []),
            ({}, [d, a, b, c]),
        ]
        for number, (filters, expected) in enumerate(cases):
            take = wanted(tokens=[f"{number}-{n}" for n in range(5)], **filters)

            def body(tx: Transaction, take: Take = take) -> None:
                tx.put_agent(Agent("ada", 9, updated_at=NOW))
                (result,) = tx.take([take], NOW)
                raise _Seen([claimed.item.id for claimed in result.items])

            with pytest.raises(_Seen) as undone:
                await store.transact(body)
            assert undone.value.ids == expected, filters

    async def test_take_says_why_it_gave_nothing(self, store: Store) -> None:
        await given(store, item(assigned_agent="bob"), item())
        await store.transact(lambda tx: tx.put_agent(Agent("zoe", paused=True, updated_at=NOW)))
        await taken(store, "ada")
        asked = [wanted("ada"), wanted("bob", ["b"]), wanted("cem"), wanted("zoe")]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        assert [(answer.reason, len(answer.items)) for answer in answers] == [
            (NothingClaimed.NO_FREE_SLOT, 0),
            (None, 1),
            (NothingClaimed.NOTHING_READY, 0),
            (NothingClaimed.AGENT_PAUSED, 0),
        ]

    async def test_take_serves_many_agents_in_their_order(self, store: Store) -> None:
        first, mine, second, dispatched, third = await given(
            store, item(), item(assigned_agent="bob"), item(), item(priority=5), item(type="rare")
        )
        await moved(store, dispatched, Status.DISPATCHED, agent="cem")
        await store.transact(lambda tx: tx.put_agent(Agent("dan", 5, updated_at=NOW)))
        asked = [
            wanted("ada", ["a"]),
            wanted("bob", ["b"]),
            wanted("cem", ["c"]),
            wanted("ada", ["a2"]),
            wanted("eve", ["e"], types=("rare",)),
            wanted("dan", ["d1", "d2", "d3"]),
        ]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        got = [[claimed.item.id for claimed in answer.items] for answer in answers]
        # Those who ask for the same are served from one look; who asks for less comes after.
        assert got[:4] == [[first], [mine], [dispatched], []]
        assert {*got[4], *got[5]} == {second, third}
        assert answers[3].reason is NothingClaimed.NO_FREE_SLOT
        for answer in answers:
            for claimed in answer.items:
                assert claimed.item == await found(store, claimed.item.id)
                assert claimed.claim == await live_claim(store, claimed.item.id)

    async def test_take_for_one_agent_twice_fills_its_slots_once(self, store: Store) -> None:
        await given(store, *(item() for _ in range(5)))
        await store.transact(lambda tx: tx.put_agent(Agent("ada", 3, updated_at=NOW)))
        asked = [wanted(tokens=["a", "b"]), wanted(tokens=["c", "d"]), wanted(tokens=["e"])]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        slots = [[claimed.item.slot for claimed in answer.items] for answer in answers]
        assert slots == [[0, 1], [2], []]

    async def test_many_takers_never_get_the_same_item(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        await given(store, *(item() for _ in range(40)))
        stores = [store, other]
        rounds = await asyncio.gather(
            *(
                taken(stores[n % 2], agent=f"a{n}", tokens=[f"{n}-{k}" for k in range(4)], slots=4)
                for n in range(12)
            )
        )
        ids = [claimed.item.id for round_ in rounds for claimed in round_]
        assert len(ids) == len(set(ids))
        while missing := 40 - len(ids):
            # A skipped row is not a taken one: who asks again gets the rest.
            more = await taken(store, agent=f"z{missing}", tokens=[f"z{missing}"])
            assert more
            ids += [claimed.item.id for claimed in more]
        assert len(set(ids)) == 40

    async def test_lease_puts_a_claim_on_a_started_item(self, store: Store) -> None:
        item_id = await one(store)
        started = await in_progress(store, item_id)
        claim = Claim(item_id, started.epoch, "t", "ada", 0, NOW, 60, SOON)
        row = await store.transact(lambda tx: tx.lease(claim))
        assert row is not None
        assert row.claim_token == "t"
        assert await store.read(lambda tx: tx.live_claim(item_id)) == claim

    async def test_lease_of_an_item_that_is_not_started_leaves_no_claim(self, store: Store) -> None:
        item_id = await one(store)
        claim = Claim(item_id, 1, "t", "ada", 0, NOW, 60, SOON)
        assert await store.transact(lambda tx: tx.lease(claim)) is None
        assert await store.read(lambda tx: tx.find_claim(item_id, "t")) is None

    async def test_extend_claim_pushes_the_expiry_out(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        item_id = claimed.item.id
        extended = await store.transact(
            lambda tx: tx.extend_claim(item_id, "t1", SOON, LATER, "half")
        )
        assert extended == replace(
            claimed.claim, heartbeat_at=SOON, expires_at=LATER, progress="half"
        )
        kept = await store.transact(lambda tx: tx.extend_claim(item_id, "t1", LATER, LATER, None))
        assert kept is not None
        assert kept.progress == "half"

    async def test_extend_claim_only_by_the_token_of_a_live_claim(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        item_id = claimed.item.id

        def extend(token: str) -> Callable[[Transaction], Claim | None]:
            return lambda tx: tx.extend_claim(item_id, token, SOON, LATER, None)

        assert await store.transact(extend("other")) is None
        await moved(store, item_id, Status.QUEUED, sources=(Status.IN_PROGRESS,), force=True)
        assert await store.transact(extend("t1")) is None

    async def test_a_claim_ends_with_the_move_of_its_item_and_stays_known(
        self, store: Store
    ) -> None:
        await one(store)
        (first,) = await taken(store, tokens=["t1"])
        item_id = first.item.id
        assert (await store.read(lambda tx: tx.find_claim(item_id, "t1"))) == first.claim
        row = await moved(
            store, item_id, Status.QUEUED, sources=(Status.IN_PROGRESS,), token="t1",
            drop_agent=True,
        )  # fmt: skip
        assert row is not None
        assert (row.claim_token, row.lease_expires_at) == (None, None)
        assert await store.read(lambda tx: tx.live_claim(item_id)) is None
        (second,) = await taken(store, agent="bob", tokens=["t2"])
        assert second.claim.epoch == 2
        ended = await store.read(lambda tx: tx.find_claim(item_id, "t1"))
        assert ended is not None
        assert (ended.live, ended.epoch, ended.agent) == (False, 1, "ada")
        assert await store.read(lambda tx: tx.live_claim(item_id)) == second.claim
        assert await store.read(lambda tx: tx.find_claim(item_id, "other")) is None

    async def test_finish_completes_those_whose_token_is_live(self, store: Store) -> None:
        await given(store, *(item() for _ in range(3)))
        took = await taken(store, tokens=["a", "b", "c"], slots=3)
        ids = [claimed.item.id for claimed in took]
        entries = [
            Finish(ids[0], "a", "well done", "me"),
            Finish(ids[1], "wrong", None, "me"),
            Finish("ghost", "x", None, "me"),
            Finish(ids[2], "c", None, "me"),
        ]
        done = await store.transact(lambda tx: tx.finish(entries, SOON))
        assert {row.id for row in done} == {ids[0], ids[2]}
        first = await found(store, ids[0])
        assert first == replace(
            took[0].item,
            status=Status.COMPLETED,
            came_from=Status.IN_PROGRESS,
            reason="complete",
            updated_at=SOON,
            completed_at=SOON,
            outcome=OUTCOME_OF[Status.COMPLETED],
            notes="well done",
            slot=None,
            claim_token=None,
            lease_expires_at=None,
            version=3,
        )
        assert first in done
        assert await found(store, ids[1]) == took[1].item
        assert await store.read(lambda tx: tx.live_claim(ids[0])) is None
        (log,) = await store.read(lambda tx: tx.dispatches_of(ids[0]))
        assert (log.completed_at, log.outcome) == (SOON, "success")
        event = (await store.read(lambda tx: tx.events_of(ids[0], 1)))[0]
        assert (event.type, event.from_status, event.to_status, event.epoch, event.actor) == (
            "work.completed", "in_progress", "completed", 1, "me",
        )  # fmt: skip
        assert event.data == {"outcome": "success", "notes": "well done"}

    async def test_finish_of_one_item_named_twice_is_one_completion(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        entry = Finish(claimed.item.id, "t1", None, None)
        done = await store.transact(lambda tx: tx.finish([entry, entry], NOW))
        assert len(done) == 1
        events = await store.read(lambda tx: tx.events_of(claimed.item.id, 10))
        assert [event.type for event in events].count("work.completed") == 1

    @pytest.mark.parametrize("late_first", [True, False])
    async def test_finish_believes_the_live_token_beside_a_late_one(
        self, store: Store, late_first: bool
    ) -> None:
        await one(store)
        (claimed,) = await taken(store)
        item_id = claimed.item.id
        late, live = Finish(item_id, "late", "wrong", "old"), Finish(item_id, "t1", "right", "new")
        entries = [late, live] if late_first else [live, late]
        (done,) = await store.transact(lambda tx: tx.finish(entries, NOW))
        assert done == await found(store, item_id)
        assert (done.status, done.notes) == (Status.COMPLETED, "right")
        events = await store.read(lambda tx: tx.events_of(item_id, 10))
        assert [event.actor for event in events if event.type == "work.completed"] == ["new"]

    async def test_lapsed_items_are_those_past_their_lease(self, store: Store) -> None:
        await given(store, *(item() for _ in range(3)))
        for agent, expires_at in {"late": SOON, "later": LATER}.items():
            await taken(store, agent, tokens=[agent], expires_at=expires_at)
        (ended,) = await taken(store, "ended", tokens=["ended"], expires_at=SOON)
        await moved(
            store, ended.item.id, Status.COMPLETED, sources=(Status.IN_PROGRESS,), token="ended"
        )

        async def lapsed(now: str, limit: int = 10) -> list[str | None]:
            rows = await store.transact(lambda tx: tx.lapsed_items(now, limit))
            return [row.assigned_agent for row in rows]

        assert await store.read(lambda tx: tx.next_expiry()) == SOON
        assert await lapsed(NOW) == []
        assert await lapsed(SOON) == ["late"]
        assert await lapsed(LATER) == ["late", "later"]
        assert await lapsed(LATER, 1) == ["late"]

    async def test_next_expiry_of_nothing(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.next_expiry()) is None

    async def test_quiet_items_work_without_a_lease_and_say_nothing(self, store: Store) -> None:
        quiet, loud, claimed, _ = await given(store, *(item(priority=n) for n in (2, 3, 1, 4)))
        await taken(store, agent="c", tokens=["t"])
        await in_progress(store, quiet, "a")
        await in_progress(store, loud, "b")
        await store.transact(lambda tx: tx.edit(Edit(loud, LATER, {"notes": "still here"})))
        rows = await store.transact(lambda tx: tx.quiet_items(SOON, 10))
        assert [row.id for row in rows] == [quiet]
        assert (await found(store, claimed)).status is Status.IN_PROGRESS
        assert await store.transact(lambda tx: tx.quiet_items(NOW, 10)) == []


class _Seen(Exception):
    """Carries what a body saw out of a transaction that it undoes."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids


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
        await _quiet(store)
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


class KeysAndTokensContract:
    async def test_keep_key_remembers_the_first(self, store: Store) -> None:
        def keep(hashed: str, ids: list[str]) -> Callable[[Transaction], bool]:
            return lambda tx: tx.keep_key("k", hashed, ids, NOW)

        assert await store.read(lambda tx: tx.find_key("k")) is None
        assert await store.transact(keep("h1", ["a", "b"])) is True
        assert await store.transact(keep("h2", ["c"])) is False
        assert await store.read(lambda tx: tx.find_key("k")) == ("h1", ["a", "b"])

    async def test_forget_keys_forgets_the_old(self, store: Store) -> None:
        await store.transact(lambda tx: tx.keep_key("old", "h", [], NOW))
        await store.transact(lambda tx: tx.keep_key("new", "h", [], LATER))
        assert await store.transact(lambda tx: tx.forget_keys(NOW)) == 0
        assert await store.transact(lambda tx: tx.forget_keys(SOON)) == 1
        assert await store.read(lambda tx: tx.find_key("old")) is None
        assert await store.read(lambda tx: tx.find_key("new")) is not None

    async def test_a_token_is_found_by_its_hash(self, store: Store) -> None:
        token = ApiToken(_ids.new(), "ci", ("read", "agent:ada"), NOW, LATER, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "hash"))
        assert await store.read(lambda tx: tx.find_token("hash")) == token
        assert await store.read(lambda tx: tx.find_token("other")) is None
        assert await store.read(lambda tx: tx.list_tokens()) == [token]

    async def test_two_tokens_cannot_have_one_secret(self, store: Store) -> None:
        first, second = (
            ApiToken(_ids.new(), name, ("read",), NOW, None, None, None) for name in "ab"
        )
        await store.transact(lambda tx: tx.insert_token(first, "hash"))
        with pytest.raises(StorageError):
            await store.transact(lambda tx: tx.insert_token(second, "hash"))

    async def test_revoke_token_once(self, store: Store) -> None:
        token = ApiToken(_ids.new(), "ci", ("read",), NOW, None, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "hash"))
        assert await store.transact(lambda tx: tx.revoke_token(token.id, SOON)) is True
        assert await store.transact(lambda tx: tx.revoke_token(token.id, LATER)) is False
        assert await store.transact(lambda tx: tx.revoke_token("ghost", LATER)) is False
        assert await store.read(lambda tx: tx.find_token("hash")) == replace(token, revoked_at=SOON)

    async def test_touch_token_notes_the_use(self, store: Store) -> None:
        token = ApiToken(_ids.new(), "ci", ("read",), NOW, None, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "hash"))
        await store.transact(lambda tx: tx.touch_token(token.id, SOON))
        touched = await store.read(lambda tx: tx.find_token("hash"))
        assert touched == replace(token, last_used_at=SOON)

    async def test_has_live_tokens_knows_expired_and_revoked(self, store: Store) -> None:
        async def live(now: str) -> bool:
            return await store.read(lambda tx: tx.has_live_tokens(now))

        assert await live(NOW) is False
        short = ApiToken(_ids.new(), "short", ("read",), NOW, SOON, None, None)
        await store.transact(lambda tx: tx.insert_token(short, "h1"))
        assert (await live(NOW), await live(SOON)) == (True, False)
        ever = ApiToken(_ids.new(), "ever", ("read",), NOW, None, None, None)
        await store.transact(lambda tx: tx.insert_token(ever, "h2"))
        assert await live(LATER) is True
        await store.transact(lambda tx: tx.revoke_token(ever.id, NOW))
        assert await live(LATER) is False


class CareContract:
    async def test_the_schema_of_an_open_store_is_current(self, store: Store) -> None:
        state = await store.schema()
        assert state.applied
        assert (state.pending, state.unknown, state.changed) == ([], [], [])
        assert await store.upgrade() == []

    async def test_size_is_that_of_the_data(self, store: Store) -> None:
        assert await store.size() > 4096

    async def test_a_backup_is_a_private_file_and_leaves_no_other(
        self, store: Store, tmp_path: Path
    ) -> None:
        await one(store)
        target = tmp_path / "copies" / "backup"
        target.parent.mkdir()
        await store.backup(target)
        assert target.stat().st_size > 0
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        assert list(target.parent.iterdir()) == [target]

    async def test_a_backup_that_cannot_be_written_says_so(
        self, store: Store, tmp_path: Path
    ) -> None:
        with pytest.raises(StorageUnavailable):
            await store.backup(tmp_path / "missing" / "backup")


class StoreContract(
    TransactionsContract,
    WakeupsContract,
    ProjectsAndAgentsContract,
    ItemsContract,
    LinksContract,
    ClaimsContract,
    LogAndEventsContract,
    KeysAndTokensContract,
    SourcesContract,
    CareContract,
):
    """All of it."""
