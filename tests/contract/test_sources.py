"""Every promise of `rota.sources.port`, over every adapter that needs no network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.model.claims import ClaimRequest
from rota.model.errors import ClaimLost, StorageUnavailable, WorkSourceError
from rota.model.sources import Mirrored
from rota.model.status import Status, Verb
from rota.model.work import NewItem, Priority
from rota.queue import Ledger, WorkQueue
from rota.queue.moves import Moved, Order
from rota.queue.views import Views
from rota.sources.holding import Sourced
from rota.sources.local import QueueWorkSource, create
from rota.sources.manager import CANDIDATES, WorkSourceManager
from rota.sources.markdown import MarkdownWorkSource
from rota.sources.markdown.folder import Folder
from rota.sources.memory import MemoryPlace, MemoryWorkSource
from rota.sources.port import ClaimFailureReason, ReleaseOptions, WorkResult
from rota.sources.registry import SourceContext
from rota.testing.clock import ManualClock
from rota.testing.standing import order

pytest.register_assert_rewrite("rota.testing.source_contract")

from rota.testing.source_contract import (  # noqa: E402 - after the line above
    GIVEN_UP,
    HALF_MENDED,
    MENDED,
    TAKEN,
    SourceContract,
    fetched,
)


class InMemory:
    def __init__(self) -> None:
        self._place = MemoryPlace(ManualClock())

    async def add(
        self,
        title: str,
        *,
        description: str = "",
        priority: Priority = Priority.MEDIUM,
        labels: Sequence[str] = (),
    ) -> str:
        return self._place.add(title, description=description, priority=priority, labels=labels).id

    def source(self, agent: str) -> MemoryWorkSource:
        return self._place.source(agent)


class InQueue:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def add(
        self,
        title: str,
        *,
        description: str = "",
        priority: Priority = Priority.MEDIUM,
        labels: Sequence[str] = (),
    ) -> str:
        item = await self._ledger.queue.submit(
            NewItem("chore", title, description, priority=priority, labels=tuple(labels))
        )
        return f"queue-{item.id}"

    def source(self, agent: str) -> QueueWorkSource:
        return QueueWorkSource(self._ledger, agent)


class InFolder:
    """Files as a person might write them, one younger than the other."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self._path = path
        self._clock = clock
        self._made: list[MarkdownWorkSource] = []
        self._count = 0
        path.mkdir()

    async def add(
        self,
        title: str,
        *,
        description: str = "",
        priority: Priority = Priority.MEDIUM,
        labels: Sequence[str] = (),
    ) -> str:
        self._count += 1
        escaped = "".join(f"\\U{ord(character):08x}" for character in title)
        lines = [
            "---",
            f'title: "{escaped}"',
            f"priority: {priority.name.lower()}",
            f"labels: [{', '.join(labels)}]",
            f"created_at: {self._clock.text(self._count)}",
            "---",
            description,
        ]
        stem = f"item-{self._count}"
        (self._path / f"{stem}.md").write_text("\n".join(lines))
        return f"markdown-{stem}"

    def source(self, agent: str) -> MarkdownWorkSource:
        self._made.append(
            MarkdownWorkSource(Folder(self._path, self._clock), agent, clock=self._clock)
        )
        return self._made[-1]

    async def close(self) -> None:
        for source in self._made:
            await source.aclose()


class TestMemory(SourceContract):
    @pytest.fixture
    def place(self) -> InMemory:
        return InMemory()


class TestQueue(SourceContract):
    longest_description = 500_000  # the ledger's limit for a body

    @pytest.fixture
    def place(self, ledger: Ledger) -> InQueue:
        return InQueue(ledger)


@pytest.fixture
def ada(ledger: Ledger) -> QueueWorkSource:
    return QueueWorkSource(ledger, "ada")


async def submitted(ledger: Ledger, **values: Any) -> str:
    item = await ledger.queue.submit(
        NewItem(**{"type": "chore", "description": "Mend the gate", **values})
    )
    return item.id


async def shown(source: QueueWorkSource, **asked: Any) -> list[str]:
    return [item.external_id for item in await fetched(source, **asked)]


class Interrupted:
    """The queue, with something that happens just before a verb."""

    def __init__(self, queue: WorkQueue, verb: Verb, event: Callable[[], Awaitable[Any]]) -> None:
        self._queue, self._verb, self._event = queue, verb, event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def apply(self, order: Order) -> Moved:
        if order.verb is self._verb:
            await self._event()
        return await self._queue.apply(order)


def interrupted(ledger: Ledger, verb: Verb, event: Callable[[], Awaitable[Any]]) -> QueueWorkSource:
    queue: Any = Interrupted(ledger.queue, verb, event)
    return QueueWorkSource(replace(ledger, queue=queue), "ada")


class TestQueueOnly:
    """What the ledger knows beyond other places: holds, blockers, names, slots and leases."""

    async def test_a_claim_is_the_ledgers_own(self, ledger: Ledger, ada: QueueWorkSource) -> None:
        item_id = await submitted(ledger)
        result = await ada.claim_work(f"queue-{item_id}")
        detail = await ledger.views.detail(item_id)
        assert detail.claim is not None
        assert result.ledger_id == item_id
        assert (result.token, detail.claim.agent) == (detail.claim.token, "ada")
        await ledger.queue.heartbeat(item_id, detail.claim.token)
        assert [event.type for event in detail.events] == [
            "work.submitted",
            "work.dispatched",
            "work.started",
        ]
        assert (detail.item.attempts, detail.item.epoch) == (1, 1)

    @pytest.mark.parametrize("obstacle", ["name", "time", "blocker", "hold"])
    async def test_what_may_not_be_taken_is_neither_shown_nor_given(
        self, ledger: Ledger, clock: ManualClock, ada: QueueWorkSource, obstacle: str
    ) -> None:
        values: dict[str, Any] = {}
        match obstacle:
            case "name":
                values = {"assigned_agent": "bob"}
            case "time":
                values = {"available_at": clock.text(60)}
            case "blocker":
                values = {"blocked_by": (await submitted(ledger, assigned_agent="bob"),)}
        item_id = await submitted(ledger, **values)
        if obstacle == "hold":
            await ledger.queue.hold(item_id, "ask first")
        before = await ledger.views.detail(item_id)
        assert await shown(ada) == []
        refused = await ada.claim_work(f"queue-{item_id}")
        assert not refused.success
        assert refused.message
        assert await ledger.views.detail(item_id) == before

    async def test_items_of_other_sources_do_not_hide_the_queues_own(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        issues = [
            Mirrored(
                NewItem("issue", "Urgent", priority=1, source="github:a/b", source_ref=str(number)),
                hold_reason=None,
            )
            for number in range(CANDIDATES)
        ]
        await ledger.outside.mirror(issues)
        item_id = await submitted(ledger)
        assert await shown(ada) == [item_id]
        async with WorkSourceManager(SourceContext(ledger=ledger)) as manager:
            found = await manager.get_next_work_item(Sourced("ada", {"type": "queue"}))
        assert found.claimed
        assert found.item is not None
        assert found.item.external_id == item_id

    async def test_an_item_of_another_source_is_refused_and_says_where_to_take_it(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        new = NewItem("issue", "Urgent", source="github:a/b", source_ref="7")
        await ledger.outside.mirror([Mirrored(new, hold_reason=None)])
        item = await ledger.outside.standing("github:a/b", "7")
        assert item is not None
        refused = await ada.claim_work(f"queue-{item.id}")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
        assert refused.message == "it is 7 of github:a/b: take it through its source"

    async def test_what_has_become_due_is_shown_and_given(
        self, ledger: Ledger, clock: ManualClock, ada: QueueWorkSource
    ) -> None:
        item_id = await submitted(ledger, available_at=clock.text(60))
        clock.advance(60)
        assert await shown(ada) == [item_id]
        assert (await ada.claim_work(f"queue-{item_id}")).success

    async def test_items_in_the_agents_own_name_are_its_own(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        named = await submitted(ledger, assigned_agent="ada")
        dispatched = await submitted(ledger)
        await ledger.queue.apply(order(Verb.DISPATCH, dispatched))
        await ledger.queue.set_agent("ada", max_concurrent=2)
        assert await shown(ada) == [named, dispatched]
        assert await shown(QueueWorkSource(ledger, "bob")) == []
        for item_id in (named, dispatched):
            assert (await ada.claim_work(f"queue-{item_id}")).success
        await ada.release_work(f"queue-{named}")
        assert (await ledger.views.item(named)).assigned_agent == "ada"

    async def test_a_full_agent_is_turned_away_without_a_trace(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        first, second = [await submitted(ledger) for _ in range(2)]
        await ada.claim_work(f"queue-{first}")
        before = await ledger.views.detail(second)
        refused = await ada.claim_work(f"queue-{second}")
        assert refused.reason is ClaimFailureReason.PERMISSION_DENIED
        assert await ledger.views.detail(second) == before

    async def test_two_claims_for_one_slot_leave_one_item_to_others(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        first, second = [await submitted(ledger) for _ in range(2)]
        results = await asyncio.gather(
            *(ada.claim_work(f"queue-{item_id}") for item_id in (first, second))
        )
        assert sorted(one.success for one in results) == [False, True]
        bob = QueueWorkSource(ledger, "bob")
        (left,) = await shown(bob)
        assert (await bob.claim_work(f"queue-{left}")).success

    async def test_a_paused_agent_is_turned_away(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        item_id = await submitted(ledger)
        await ledger.queue.set_agent("ada", paused=True)
        refused = await ada.claim_work(f"queue-{item_id}")
        assert refused.reason is ClaimFailureReason.PERMISSION_DENIED
        assert "paused" in (refused.message or "")

    async def test_a_lapsed_claim_is_taken_over_and_its_holder_is_refused(
        self, ledger: Ledger, clock: ManualClock, ada: QueueWorkSource
    ) -> None:
        item_id = await submitted(ledger)
        await ada.claim_work(f"queue-{item_id}")
        bob = QueueWorkSource(ledger, "bob")
        clock.advance(899)
        assert await shown(bob) == []
        assert (await bob.claim_work(f"queue-{item_id}")).reason is TAKEN
        clock.advance(1)
        assert await shown(bob) == [item_id]
        assert (await bob.claim_work(f"queue-{item_id}")).success
        with pytest.raises(ClaimLost):
            await ada.complete_work(f"queue-{item_id}", MENDED)
        assert (await ledger.views.detail(item_id)).late_results
        await bob.complete_work(f"queue-{item_id}", MENDED)

    async def test_an_item_whose_attempts_are_used_up_is_not_offered(
        self, ledger: Ledger, clock: ManualClock, ada: QueueWorkSource
    ) -> None:
        item_id = await submitted(ledger, max_attempts=1)
        await ada.claim_work(f"queue-{item_id}")
        clock.advance(900)
        bob = QueueWorkSource(ledger, "bob")
        assert await shown(bob) == []
        assert not (await bob.claim_work(f"queue-{item_id}")).success

    async def test_a_slot_filled_by_a_lapsed_claim_is_free(
        self, ledger: Ledger, clock: ManualClock, ada: QueueWorkSource
    ) -> None:
        first, second = [await submitted(ledger) for _ in range(2)]
        await ada.claim_work(f"queue-{first}")
        clock.advance(900)
        assert (await ada.claim_work(f"queue-{second}")).success

    async def test_the_configuration_narrows_what_is_shown_and_given(self, ledger: Ledger) -> None:
        project = await ledger.queue.create_project("garden")
        wanted = await submitted(ledger, type="bug", labels=("iron", "old"), project_id=project.id)
        others = [
            await submitted(ledger, type="idea", labels=("iron", "old"), project_id=project.id),
            await submitted(ledger, type="bug", labels=("iron",), project_id=project.id),
            await submitted(ledger, type="bug", labels=("iron", "old")),
        ]
        config = {
            "type": "queue",
            "types": ["bug", "chore"],
            "labels": ["iron", "old"],
            "project_id": project.id,
        }
        source = create(config, SourceContext("ada", ledger))
        assert await shown(source) == [wanted]
        for item_id in others:
            refused = await source.claim_work(f"queue-{item_id}")
            assert refused.reason is ClaimFailureReason.INVALID_STATE
        assert (await source.claim_work(f"queue-{wanted}")).success

    async def test_a_page_reaches_over_items_that_are_not_shown(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        await ledger.queue.submit_many(
            [NewItem("chore", f"not for ada {n}", assigned_agent="bob") for n in range(150)]
        )
        mine = [await submitted(ledger) for _ in range(3)]
        assert await shown(ada, limit=2) == mine

    @pytest.mark.parametrize(
        ("result", "status", "outcome"),
        [
            (MENDED, Status.COMPLETED, "success"),
            (GIVEN_UP, Status.FAILED, "failed"),
            (HALF_MENDED, Status.BLOCKED, None),
        ],
    )
    async def test_each_outcome_has_its_status_and_keeps_what_was_said(
        self,
        ledger: Ledger,
        ada: QueueWorkSource,
        result: WorkResult,
        status: Status,
        outcome: str | None,
    ) -> None:
        item_id = await submitted(ledger)
        await ada.claim_work(f"queue-{item_id}")
        await ada.complete_work(f"queue-{item_id}", result)
        item = await ledger.views.item(item_id)
        assert (item.status, item.outcome) == (status, outcome)
        for said in (result.summary, result.details, result.error, *result.artifacts):
            assert (said or "") in (item.notes or "")
        assert item.artifact_url == (result.artifacts[0] if result.artifacts else None)

    async def test_an_artifact_without_an_address_does_not_cost_the_result(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        item_id = await submitted(ledger)
        await ada.claim_work(f"queue-{item_id}")
        artifacts = ("abc123", "http://", "https://example.org/" + "x" * 3_000)
        await ada.complete_work(
            f"queue-{item_id}", WorkResult("success", "mended", artifacts=artifacts)
        )
        assert (await ledger.views.item(item_id)).artifact_url is None

    async def test_an_end_told_to_the_queue_itself_may_be_told_to_the_source_too(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        item_id = await submitted(ledger)
        result = await ada.claim_work(f"queue-{item_id}")
        await ledger.queue.complete(item_id, token=result.token)
        before = await ledger.views.item(item_id)
        await ada.complete_work(f"queue-{item_id}", MENDED)
        assert await ledger.views.item(item_id) == before

    async def test_a_release_tells_why(self, ledger: Ledger, ada: QueueWorkSource) -> None:
        item_id = await submitted(ledger)
        await ada.claim_work(f"queue-{item_id}")
        await ada.release_work(f"queue-{item_id}", ReleaseOptions("no hinge\x00", True))
        item = await ledger.views.item(item_id)
        assert (item.status, item.reason, item.notes) == (Status.QUEUED, "no hinge", "no hinge")
        assert item.assigned_agent is None

    async def test_a_crash_between_dispatch_and_start_leaves_the_item_to_the_same_agent(
        self, ledger: Ledger
    ) -> None:
        item_id = await submitted(ledger)
        await ledger.queue.apply(
            Order(Verb.DISPATCH, item_id, "ada", agent="ada", reason="claimed")
        )
        again = QueueWorkSource(ledger, "ada")
        assert await shown(again) == [item_id]
        assert (await again.claim_work(f"queue-{item_id}")).success

    async def test_an_item_that_is_held_while_we_come_is_not_touched(self, ledger: Ledger) -> None:
        item_id = await submitted(ledger)
        ada = interrupted(ledger, Verb.DISPATCH, lambda: ledger.queue.hold(item_id, "ask first"))
        assert (await ada.claim_work(f"queue-{item_id}")).reason is TAKEN
        detail = await ledger.views.detail(item_id)
        assert [event.type for event in detail.events] == ["work.submitted", "work.held"]

    async def test_an_item_that_is_held_just_before_the_start_is_given_back(
        self, ledger: Ledger
    ) -> None:
        item_id = await submitted(ledger)
        ada = interrupted(ledger, Verb.START, lambda: ledger.queue.hold(item_id, "ask first"))
        refused = await ada.claim_work(f"queue-{item_id}")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
        item = await ledger.views.item(item_id)
        assert (item.status, item.assigned_agent) == (Status.QUEUED, None)

    async def test_an_item_that_is_edited_just_before_the_start_is_ours_all_the_same(
        self, ledger: Ledger
    ) -> None:
        item_id = await submitted(ledger)
        ada = interrupted(ledger, Verb.START, lambda: ledger.queue.note(item_id, "by the way"))
        assert (await ada.claim_work(f"queue-{item_id}")).success

    async def test_an_item_that_is_taken_away_before_the_start_is_left_alone(
        self, ledger: Ledger
    ) -> None:
        item_id = await submitted(ledger)
        claim = ClaimRequest("ada")  # another process of the same agent
        ada = interrupted(ledger, Verb.START, lambda: ledger.queue.claim(claim))
        assert (await ada.claim_work(f"queue-{item_id}")).reason is TAKEN
        assert (await ledger.views.detail(item_id)).claim is not None

    async def test_long_descriptions_are_a_title_and_a_text(
        self, ledger: Ledger, ada: QueueWorkSource
    ) -> None:
        await submitted(ledger, description="Mend the gate\nIt squeaks.", body="Since May.")
        (item,) = await fetched(ada)
        assert (item.title, item.description) == ("Mend the gate", "It squeaks.\n\nSince May.")

    async def test_without_a_ledger_there_is_no_queue(self) -> None:
        with pytest.raises(WorkSourceError, match="needs the ledger"):
            create({"type": "queue"}, SourceContext("ada"))

    async def test_a_database_that_is_gone_is_the_sources_error(self, ledger: Ledger) -> None:
        class Broken(Views):
            async def item(self, item_id: str) -> Any:
                raise StorageUnavailable("the disk is full")

        broken = Broken.__new__(Broken)
        source = QueueWorkSource(replace(ledger, views=broken), "ada")
        refused = await source.claim_work("queue-01900000-0000-7000-8000-000000000000")
        assert refused.reason is ClaimFailureReason.SOURCE_ERROR


class TestMarkdown(SourceContract):
    @pytest.fixture
    async def place(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[InFolder]:
        place = InFolder(tmp_path / "backlog", clock)
        yield place
        await place.close()
