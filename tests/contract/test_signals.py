"""When this happens, that follows, exactly once: on both databases."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rota.daemon import run_chore
from rota.model.claims import ClaimRequest, Completion
from rota.model.clock import IdFactory, to_text
from rota.model.errors import ClaimLost, InvalidInput, NotFound, Refused
from rota.model.events import EventType, NewEvent
from rota.model.runs import RunEnd, RunStatus
from rota.model.schedules import ScheduleType, TriggerKind
from rota.model.signals import FiringRecord, FiringStatus, FollowUpStatus, Signal, SignalStatus
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import WorkQueue
from rota.queue.hearing import Heard
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.queue.views import Query
from rota.signals import SignalChore, Signals, SignalScheduler
from rota.signals.processor import LEASE_SECONDS, MOST_ATTEMPTS
from rota.storage.port import Store, Topic, Transaction
from rota.storage.schedule_port import Standing
from rota.testing.clock import ManualClock
from rota.testing.standing import WAY, order

FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}
BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}
PATIENCE = 20.0


async def bring_to(queue: WorkQueue, item_id: str, status: Status) -> None:
    """From the queue to there, by ada."""
    for verb in WAY[status]:
        await queue.apply(order(verb, item_id, actor="ada"))


@dataclass
class Scene:
    store: Store
    ledger: Ledger
    clock: ManualClock
    signals: Signals
    processor: SignalScheduler

    @property
    def queue(self) -> WorkQueue:
        return self.ledger.queue

    async def add(self, description: str = "Mend the gate", **facts: Any) -> WorkItem:
        return await self.queue.submit(NewItem(facts.pop("type", "chore"), description, **facts))

    async def when(
        self, trigger: Mapping[str, Any], then: Mapping[str, Any] | None = None, **facts: Any
    ) -> Signal:
        return await self.signals.create(self.signals.read(trigger, then, **facts))

    async def firings(self, signal: Signal) -> list[tuple[FiringStatus, str | None]]:
        detail = await self.signals.get(signal.id)
        return [(one.status, one.error) for one in reversed(detail.firings)]

    async def status(self, signal: Signal) -> SignalStatus:
        return (await self.signals.get(signal.id)).signal.status

    async def fail(self, item: WorkItem) -> None:
        await bring_to(self.queue, item.id, Status.FAILED)

    async def block(self, item: WorkItem) -> None:
        await bring_to(self.queue, item.id, Status.BLOCKED)

    async def events(self, kind: EventType) -> list[Mapping[str, Any]]:
        found = await self.store.read(lambda tx: tx.events_after(0, 1000))
        return [one.data for one in found if one.type == kind]


@pytest.fixture
def scene(store: Store, ledger: Ledger, clock: ManualClock) -> Scene:
    processor = SignalScheduler(store, owner="one")
    return Scene(store, ledger, clock, Signals(store), processor)


# once


@pytest.mark.parametrize("to", list(Status))
async def test_every_status_fires_exactly_once(scene: Scene, to: Status) -> None:
    item = await scene.add()
    trigger = {"kind": "work_item.status.transition", "to": [to]}
    if to is Status.QUEUED:
        await bring_to(scene.queue, item.id, Status.DISPATCHED)
    signal = await scene.when(trigger, work_item_id=item.id)
    if to is Status.QUEUED:
        await scene.queue.apply(Order(Verb.RELEASE, item.id, "me"))
    else:
        await bring_to(scene.queue, item.id, to)
    assert await scene.processor.tick() == 1
    again = SignalScheduler(scene.store, owner="another")
    assert (await scene.processor.tick(), await again.tick()) == (0, 0)
    assert await scene.status(signal) is SignalStatus.FIRED
    (told,) = await scene.events(EventType.SIGNAL_FIRED)
    (firing,) = (await scene.signals.get(signal.id)).firings
    assert (told["signal_id"], told["firing_id"]) == (signal.id, firing.id)
    assert firing.id == f"{signal.id}:{told['cause']}"


async def test_what_follows_the_end_of_an_item_is_a_new_item_linked_to_it(scene: Scene) -> None:
    item = await scene.add(priority=2)
    signal = await scene.when(FAILS, work_item_id=item.id)
    await scene.fail(item)
    await scene.processor.tick()
    (told,) = await scene.events(EventType.SIGNAL_FIRED)
    made = await scene.ledger.views.item(told["enqueued_job_id"])
    assert (made.status, made.priority) == (Status.QUEUED, 2)
    assert made.description == "Follow up: Mend the gate"
    assert made.payload["signal"]["follows"] == item.id
    assert made.created_by == f"signal:{signal.id}"


async def test_what_follows_a_block_is_a_task_on_the_item(scene: Scene) -> None:
    item = await scene.add()
    await scene.when(
        BLOCKS, {"kind": "follow_up", "title": "Ask {event.actor}"}, work_item_id=item.id
    )
    await scene.block(item)
    await scene.processor.tick()
    (task,) = await scene.signals.follow_ups()
    assert (task.work_item_id, task.status) == (item.id, FollowUpStatus.OPEN)
    assert task.title.startswith("Ask ")


async def test_what_follows_by_itself_is_decided_by_how_the_item_stands_when_it_fires(
    scene: Scene,
) -> None:
    trigger = {**BLOCKS, "to": ["blocked", "completed", "failed", "cancelled"]}
    blocked, failed = await scene.add(), await scene.add()
    for item in (blocked, failed):
        await scene.when(trigger, work_item_id=item.id)
    await scene.block(blocked)
    await scene.processor.tick()
    (task,) = await scene.signals.follow_ups()
    assert (task.work_item_id, task.title) == (blocked.id, "Look after: Mend the gate")
    await scene.fail(failed)
    await scene.processor.tick()
    assert await scene.signals.follow_ups() == [task]
    told = await scene.events(EventType.SIGNAL_FIRED)
    made = await scene.ledger.views.item(told[-1]["enqueued_job_id"])
    assert made.payload["signal"]["follows"] == failed.id


@pytest.mark.parametrize(
    "changed",
    [
        {"signal": {"fires": 1}},
        {"firing": {"lease_owner": "another"}},
        {"firing": {"id": "of another cause"}},
    ],
    ids=["counted by another", "leased by another", "not this firing"],
)
async def test_who_comes_too_late_concludes_nothing(
    scene: Scene, changed: dict[str, dict[str, Any]]
) -> None:
    signal = await scene.when(FAILS)
    await scene.fail(await scene.add())
    now, until = scene.clock.text(), scene.clock.text(60)
    (taken,) = await scene.store.transact(lambda tx: tx.take_firings("one", now, until, 9))
    told = NewEvent(EventType.SIGNAL_FIRED, now)
    ended = replace(taken, status=FiringStatus.ENQUEUED)

    def conclude(tx: Transaction, counted: Signal, ended: FiringRecord) -> None:
        if not tx.conclude_firing(counted, ended, told, 1, last=True):
            raise Refused("too late")

    counted = replace(signal, **changed.get("signal", {}))
    other = replace(ended, **changed.get("firing", {}))
    with pytest.raises(Refused):
        await scene.store.transact(lambda tx: conclude(tx, counted, other))
    assert await scene.events(EventType.SIGNAL_FIRED) == []
    assert await scene.status(signal) is SignalStatus.ACTIVE
    await scene.store.transact(lambda tx: conclude(tx, signal, ended))
    assert await scene.status(signal) is SignalStatus.FIRED
    assert len(await scene.events(EventType.SIGNAL_FIRED)) == 1


async def test_who_comes_after_its_signal_was_cancelled_concludes_nothing(scene: Scene) -> None:
    signal = await scene.when(FAILS)
    await scene.fail(await scene.add())
    now, until = scene.clock.text(), scene.clock.text(60)
    (taken,) = await scene.store.transact(lambda tx: tx.take_firings("one", now, until, 9))
    await scene.signals.cancel(signal.id)
    ended = replace(taken, status=FiringStatus.ENQUEUED)
    told = NewEvent(EventType.SIGNAL_FIRED, now)
    done = await scene.store.transact(
        lambda tx: tx.conclude_firing(signal, ended, told, 1, last=True)
    )
    assert not done
    assert await scene.status(signal) is SignalStatus.CANCELLED
    assert await scene.events(EventType.SIGNAL_FIRED) == []


async def test_a_second_event_does_not_fire_what_has_fired(scene: Scene) -> None:
    signal = await scene.when(FAILS)
    for _ in range(3):
        await scene.fail(await scene.add())
    assert await scene.processor.tick() == 1
    assert [status for status, _ in await scene.firings(signal)].count(FiringStatus.ENQUEUED) == 1
    await scene.fail(await scene.add())  # nobody listens any more
    assert len(await scene.firings(signal)) == 3


@pytest.mark.parametrize(("most", "fired"), [(2, 2), (None, 4)])
async def test_a_signal_fires_as_often_as_it_may(
    scene: Scene, most: int | None, fired: int
) -> None:
    await scene.when(FAILS, max_fires=most)
    count = 0
    for _ in range(4):
        await scene.fail(await scene.add())
        count += await scene.processor.tick()
    assert count == fired


async def test_claims_and_completions_by_the_set_fire_too(scene: Scene) -> None:
    taken = await scene.when(
        {"kind": "work_item.status.transition", "to": ["in_progress"]}, max_fires=None
    )
    done = await scene.when(
        {"kind": "work_item.status.transition", "to": ["completed"]}, max_fires=None
    )
    for _ in range(3):
        await scene.add()
    await scene.queue.set_agent("ada", max_concurrent=3)
    claimed = (await scene.queue.claim(ClaimRequest("ada", limit=3))).items
    await scene.queue.complete_many([Completion(one.item.id, one.claim.token) for one in claimed])
    await scene.processor.tick()
    for signal in (taken, done):
        assert [status for status, _ in await scene.firings(signal)] == [FiringStatus.ENQUEUED] * 3


async def test_a_move_that_is_rolled_back_has_not_happened(scene: Scene) -> None:
    signal = await scene.when(FAILS)
    with pytest.raises(Refused):
        await scene.queue.apply(Order(Verb.FAIL, (await scene.add()).id, "me", outcome="failed"))
    await scene.processor.tick()
    assert await scene.firings(signal) == []


# which


@pytest.mark.parametrize(
    ("more", "fires"),
    [
        ({}, True),
        ({"from": ["in_progress"]}, True),
        ({"from": ["blocked"]}, False),
        ({"reason": ["fail"]}, True),
        ({"reason": ["attempts_exhausted"]}, False),
        ({"type": "chore"}, True),
        ({"type": "bug_fix"}, False),
        ({"label": ["wood"]}, True),
        ({"label": ["wood", "iron"]}, False),
        ({"agent": "ada"}, True),
        ({"agent": "bob"}, False),
        ({"nth": 2}, False),
    ],
)
async def test_a_filter_says_which_items_are_meant(
    scene: Scene, more: dict[str, Any], fires: bool
) -> None:
    await scene.when({**FAILS, **more})
    await scene.fail(await scene.add(labels=("wood",)))
    assert await scene.processor.tick() == int(fires)


async def test_a_signal_of_a_project_hears_of_no_other(scene: Scene) -> None:
    mine, other = [await scene.queue.create_project(name) for name in ("mine", "other")]
    signal = await scene.when({**FAILS, "project_id": mine.id})
    await scene.fail(await scene.add(project_id=other.id))
    assert await scene.firings(signal) == []
    await scene.fail(await scene.add(project_id=mine.id))
    assert await scene.processor.tick() == 1


async def test_the_second_failure_of_an_item_can_be_waited_for(scene: Scene) -> None:
    item = await scene.add()
    await scene.when({**FAILS, "nth": 2}, {"kind": "notify", "url": "https://example.org/hook"})
    await scene.fail(await scene.add())  # another's failure is none of this one's
    await scene.fail(item)
    assert await scene.processor.tick() == 0
    await scene.queue.apply(Order(Verb.RETRY, item.id, "me"))
    await scene.fail(item)
    assert await scene.processor.tick() == 1


@pytest.mark.parametrize("more", [{"from": ["in_progress"]}, {"reason": ["release"]}])
async def test_only_moves_that_the_signal_waits_for_count_toward_the_second_time(
    scene: Scene, more: dict[str, Any]
) -> None:
    item = await scene.add()  # comes into queued too, from nowhere and for no reason
    await scene.when({"kind": "work_item.status.transition", "to": "queued", "nth": 2, **more})
    fired = []
    for _ in range(2):
        await bring_to(scene.queue, item.id, Status.IN_PROGRESS)
        await scene.queue.apply(Order(Verb.RELEASE, item.id, "me"))
        fired.append(await scene.processor.tick())
    assert fired == [0, 1]


async def test_an_item_that_failed_twice_can_be_held(scene: Scene) -> None:
    item = await scene.add()
    await scene.when({**FAILS, "nth": 2}, {"kind": "hold", "reason": "it failed twice"})
    await scene.fail(item)
    await scene.queue.apply(Order(Verb.RETRY, item.id, "me"))
    await scene.fail(item)
    assert await scene.processor.tick() == 1
    await scene.queue.apply(Order(Verb.RETRY, item.id, "me"))
    assert (await scene.queue.claim(ClaimRequest("ada"))).items == []
    assert (await scene.ledger.views.item(item.id)).hold_reason == "it failed twice"


# fan-in


@pytest.mark.parametrize("kind", ["work_items.all_in", "work_items.any_in"])
async def test_items_are_waited_for_together(scene: Scene, kind: str) -> None:
    items = [await scene.add() for _ in range(3)]
    trigger = {"kind": kind, "items": [one.id for one in items], "in": ["completed", "failed"]}
    await scene.when(trigger, {"kind": "submit", "title": "Release"})
    counts = [await scene.processor.tick()]
    for item in items:
        await bring_to(scene.queue, item.id, Status.COMPLETED)
        counts.append(await scene.processor.tick())
    assert counts == ([0, 0, 0, 1] if kind.endswith("all_in") else [0, 1, 0, 0])


@pytest.mark.parametrize("already", [False, True], ids=["at the last move", "when it was made"])
async def test_what_a_signal_of_an_item_does_when_others_are_through_is_done_to_its_item(
    scene: Scene, already: bool
) -> None:
    item, first = await scene.add(), await scene.add()
    if already:
        await bring_to(scene.queue, first.id, Status.COMPLETED)
    trigger = {"kind": "work_items.all_in", "items": [first.id], "in": ["completed"]}
    await scene.when(trigger, {"kind": "dispatch", "agent": "ada"}, work_item_id=item.id)
    assert await scene.processor.tick() == int(already)
    if not already:
        await bring_to(scene.queue, first.id, Status.COMPLETED)
        assert await scene.processor.tick() == 1
    assert (await scene.ledger.views.item(item.id)).status is Status.DISPATCHED
    found = await scene.store.read(lambda tx: tx.events_after(0, 1000))
    assert [one.work_item_id for one in found if one.type == EventType.SIGNAL_FIRED] == [item.id]


@pytest.mark.parametrize("kind", ["work_items.all_in", "work_items.any_in"])
@pytest.mark.parametrize("leased", [False, True], ids=["fresh", "leased"])
async def test_a_firing_settles_the_causes_that_it_has_seen_and_no_others(
    scene: Scene, kind: str, leased: bool
) -> None:
    project = await scene.queue.create_project("gate")
    items = [await scene.add(project_id=project.id) for _ in range(3)]
    where = {"project_id": project.id} if leased else {"items": [one.id for one in items]}
    signal = await scene.when(
        {"kind": kind, **where, "in": ["blocked"]},
        {"kind": "notify", "url": "https://example.org/hook"},
        max_fires=None,
    )
    await scene.processor.tick()
    for item in items:
        await scene.block(item)
    if leased:
        scene.clock.advance(1)
        scene.processor = SignalScheduler(scene.store, owner="late")
    assert await scene.processor.tick() == 1
    errors = [error for status, error in await scene.firings(signal) if error is not None]
    assert errors.count("an earlier firing has seen this") == 2
    await scene.queue.apply(Order(Verb.RELEASE, items[0].id, "me"))
    await scene.block(items[0])
    assert await scene.processor.tick() == 1


async def test_what_is_true_already_fires_at_once(scene: Scene) -> None:
    item = await scene.add()
    await bring_to(scene.queue, item.id, Status.COMPLETED)
    await scene.when({"kind": "work_items.all_in", "items": [item.id], "in": ["completed"]})
    assert await scene.processor.tick() == 1


async def test_a_whole_project_is_waited_for(scene: Scene) -> None:
    project = await scene.queue.create_project("gate")
    items = [await scene.add(project_id=project.id) for _ in range(2)]
    await scene.when(
        {"kind": "work_items.all_in", "project_id": project.id, "in": ["completed"]},
        {"kind": "submit", "title": "Open the gate", "type": "release"},
    )
    for item in items:
        assert await scene.processor.tick() == 0
        await bring_to(scene.queue, item.id, Status.COMPLETED)
    assert await scene.processor.tick() == 1


# items that signals made


async def linked(scene: Scene, item: WorkItem) -> tuple[list[str], list[str]]:
    """What it follows, and what follows it."""
    detail = await scene.ledger.views.detail(item.id)
    return [one.id for one in detail.follows], [one.id for one in detail.followed_by]


async def made(scene: Scene) -> WorkItem:
    """The item that a signal has submitted."""
    found = await scene.ledger.views.items(Query(type="follow_up"))
    (item,) = found.items
    return item


async def test_what_follows_an_item_that_has_ended_is_linked_with_it(scene: Scene) -> None:
    item = await scene.add()
    await scene.when(FAILS)
    await scene.fail(item)
    assert await scene.processor.tick() == 1
    new = await made(scene)
    assert await linked(scene, item) == ([], [new.id])
    assert await linked(scene, new) == ([item.id], [])


async def test_a_new_item_follows_the_one_that_its_signal_is_about_not_the_one_that_moved(
    scene: Scene,
) -> None:
    about, moved = await scene.add("The gate"), await scene.add("The hinge")
    trigger = {"kind": "work_items.all_in", "items": [moved.id], "in": ["completed"]}
    await scene.when(trigger, {"kind": "submit"}, work_item_id=about.id)
    await bring_to(scene.queue, moved.id, Status.COMPLETED)
    assert await scene.processor.tick() == 1
    new = await made(scene)
    assert await linked(scene, new) == ([about.id], [])
    assert await linked(scene, moved) == ([], [])


# time


async def test_a_moment_is_waited_for(scene: Scene) -> None:
    item = await scene.add()
    trigger = {"kind": "time", "at": scene.clock.text(60)}
    await scene.when(trigger, {"kind": "hold"}, work_item_id=item.id)
    assert await scene.processor.tick() == 0
    scene.clock.advance(61)
    assert await scene.processor.tick() == 1
    assert (await scene.ledger.views.item(item.id)).hold_reason is not None


async def test_a_moment_comes_once_however_often_its_signal_may_fire(scene: Scene) -> None:
    at = scene.clock.text(60)
    signals = [
        await scene.when({"kind": "time", **moment}, max_fires=None)
        for moment in ({"at": at}, {"after": "1m"})
    ]
    scene.clock.advance(61)
    assert await scene.processor.tick() == 2
    assert [await scene.status(one) for one in signals] == [SignalStatus.FIRED] * 2


async def test_an_item_that_stays_in_a_status_is_noticed(scene: Scene) -> None:
    waits, goes = await scene.add(), await scene.add()
    signal = await scene.when({"kind": "time", "after": "2h", "in": ["blocked"]}, max_fires=None)
    await scene.block(waits)
    await scene.block(goes)
    assert await scene.processor.tick() == 0
    await scene.queue.apply(Order(Verb.RELEASE, goes.id, "me"))
    scene.clock.advance(2 * 3600 + 1)
    assert await scene.processor.tick() == 1
    assert sorted(await scene.firings(signal), key=str) == [
        (FiringStatus.ENQUEUED, None),
        (FiringStatus.SKIPPED, "it has moved on since"),
    ]


# runs


async def test_the_end_of_a_run_is_heard(scene: Scene) -> None:
    item = await scene.add()
    await scene.when(
        {"kind": "run.finished", "outcome": ["failed"], "agent": "ada"},
        {"kind": "submit", "title": "Look at {run.id}: {run.error}"},
        max_fires=None,
    )
    for agent, status in (("ada", RunStatus.SUCCEEDED), ("bob", RunStatus.FAILED)):
        run = await scene.ledger.runs.begin(agent, TriggerKind.MANUAL)
        await scene.ledger.runs.end(run, RunEnd(status, error="no nails"))
    assert await scene.processor.tick() == 0
    run = await scene.ledger.runs.begin("ada", TriggerKind.MANUAL, item=item)
    await scene.ledger.runs.end(run, RunEnd(RunStatus.FAILED, error="no nails"))
    assert await scene.processor.tick() == 1
    (told,) = await scene.events(EventType.SIGNAL_FIRED)
    made = await scene.ledger.views.item(told["work_item_id"])
    assert made.description == f"Look at {run.id}: no nails"


async def test_a_run_on_another_item_does_not_fire_the_signal_of_an_item(scene: Scene) -> None:
    mine, other = await scene.add(), await scene.add()
    signal = await scene.when(
        {"kind": "run.finished"}, {"kind": "hold"}, work_item_id=mine.id, max_fires=None
    )
    fired = []
    for item in (other, None, mine):
        run = await scene.ledger.runs.begin("ada", TriggerKind.MANUAL, item=item)
        await scene.ledger.runs.end(run, RunEnd(RunStatus.FAILED))
        fired.append(await scene.processor.tick())
    assert fired == [0, 0, 1]
    held = [(await scene.ledger.views.item(one.id)).hold_reason for one in (mine, other)]
    assert held == [f"held by signal {signal.id}", None]


async def test_every_event_about_an_item_names_its_project(scene: Scene) -> None:
    project = await scene.queue.create_project("garden")
    item = await scene.add(project_id=project.id)
    await scene.when(BLOCKS, work_item_id=item.id)
    failing = await scene.when(BLOCKS, {"kind": "dispatch", "agent": "ada"}, work_item_id=item.id)
    run = await scene.ledger.runs.begin("ada", TriggerKind.MANUAL, item=item)
    await scene.block(item)
    for _ in range(MOST_ATTEMPTS):
        await scene.processor.tick()
        scene.clock.advance(600)
    await scene.ledger.runs.end(run, RunEnd(RunStatus.FAILED))
    [task] = await scene.signals.follow_ups()
    await scene.signals.complete_follow_up(task.id)
    await scene.signals.cancel(failing.id)
    found = await scene.store.read(lambda tx: tx.events_after(0, 1000))
    about = [one for one in found if one.work_item_id == item.id]
    assert {EventType.SIGNAL_CREATED, EventType.SIGNAL_FIRED, EventType.SIGNAL_STOPPED,
            EventType.SIGNAL_CANCELLED, EventType.FOLLOW_UP_COMPLETED, EventType.RUN_STARTED,
            EventType.RUN_FINISHED} <= {one.type for one in about}  # fmt: skip
    assert {one.type for one in about if one.project_id != project.id} == set()


# webhooks


async def test_what_a_tracker_says_is_heard_once_and_by_its_fields(scene: Scene) -> None:
    hear = scene.ledger.outside.remember_delivery
    merged = {"pull_request": {"merged": True, "title": "x" * 999}, "action": "closed"}
    assert await hear("early", Heard("github:o/r", "pull_request", merged))
    await scene.when(
        {"kind": "source.event", "source": "github:o/r", "fields": {"pull_request.merged": True}},
        {"kind": "submit", "title": "Release"},
        max_fires=None,
    )
    assert await hear("one", Heard("github:o/r", "pull_request", merged))
    assert not await hear("one", Heard("github:o/r", "pull_request", merged))
    assert await hear("two", Heard("github:o/other", "pull_request", merged))
    assert await hear("three", Heard("github:o/r", "pull_request", {"pull_request": {}}))
    assert await scene.processor.tick() == 1
    heard = await scene.events(EventType.SOURCE_EVENT)
    assert len(heard) == 3  # while nobody listened, nothing was written down
    assert len(heard[0]["payload"]["pull_request"]["title"]) == 300


# what goes wrong


async def test_a_webhook_with_half_a_character_in_it_is_heard_too(scene: Scene) -> None:
    hear = scene.ledger.outside.remember_delivery
    await scene.when(
        {"kind": "source.event", "source": "github:o/r"}, {"kind": "submit", "title": "Look"}
    )
    odd = {"title\udc00": ["half \ud800", {"zero": "\x00!"}]}
    assert await hear("one", Heard("github:o/r", "push", odd))
    assert await scene.processor.tick() == 1
    [heard] = await scene.events(EventType.SOURCE_EVENT)
    assert heard["payload"] == {"title?": ["half ?", {"zero": "!"}]}


async def test_an_action_that_is_refused_is_tried_again_and_then_shown(scene: Scene) -> None:
    item = await scene.add()
    signal = await scene.when(
        BLOCKS, {"kind": "trigger", "agent": "ada", "schedule": "often"}, work_item_id=item.id
    )
    await scene.block(item)
    for _ in range(MOST_ATTEMPTS):
        assert await scene.processor.tick() == 0
        assert await scene.status(signal) is SignalStatus.ACTIVE
        scene.clock.advance(301)
    ((status, error),) = await scene.firings(signal)
    assert status is FiringStatus.FAILED
    assert "there is no schedule ada/often" in (error or "")
    (failed,) = await scene.signals.failed()
    assert (await scene.events(EventType.SIGNAL_STOPPED))[0]["firing_id"] == failed.id
    await scene.signals.retry(failed.id)
    with pytest.raises(Refused):
        await scene.signals.retry(failed.id)
    assert await scene.processor.tick() == 0
    ((status, _),) = await scene.firings(signal)
    assert status is FiringStatus.QUEUED


async def test_a_firing_that_kills_whoever_processes_it_ends_as_failed(scene: Scene) -> None:
    signal = await scene.when(FAILS)
    await scene.fail(await scene.add())
    for _ in range(MOST_ATTEMPTS):
        until = scene.clock.text(LEASE_SECONDS)
        now = scene.clock.text()
        assert await scene.store.transact(
            lambda tx, now=now, until=until: tx.take_firings("dies", now, until, 10)
        )
        scene.clock.advance(LEASE_SECONDS + 1)
    assert await scene.processor.tick() == 0
    ((status, error),) = await scene.firings(signal)
    assert (status, error) == (FiringStatus.FAILED, "whoever processed it died over it")


async def test_how_long_after_its_event_a_signal_fired_is_told(scene: Scene) -> None:
    seconds: list[float] = []
    scene.processor.observe = seconds.append
    await scene.when(FAILS)
    await scene.fail(await scene.add())
    scene.clock.advance(0.25)
    assert await scene.processor.tick() == 1
    assert seconds == [0.25]


async def test_whoever_comes_back_leases_what_is_older_than_itself(scene: Scene) -> None:
    """A firing that killed its processor is counted from then on, so that it ends some day."""
    await scene.when(FAILS)
    await scene.fail(await scene.add())
    scene.clock.advance(1)
    late = SignalScheduler(scene.store, owner="late")
    taken = await scene.store.transact(late._take_and_fire)
    assert taken == []
    assert await late.tick() == 1


async def test_what_another_has_leased_is_left_alone_until_the_lease_lapses(scene: Scene) -> None:
    await scene.when(FAILS)
    await scene.fail(await scene.add())
    until, now = scene.clock.text(LEASE_SECONDS), scene.clock.text()
    await scene.store.transact(lambda tx: tx.take_firings("another", now, until, 10))
    assert await scene.processor.tick() == 0
    scene.clock.advance(LEASE_SECONDS + 1)
    assert await scene.processor.tick() == 1


async def test_a_firing_is_taken_while_it_is_due_and_has_not_ended(scene: Scene) -> None:
    signal = await scene.when(FAILS)
    await scene.fail(await scene.add())

    async def take(owner: str, at: float) -> list[FiringRecord]:
        now, until = scene.clock.text(at), scene.clock.text(at + 60)
        return await scene.store.transact(lambda tx: tx.take_firings(owner, now, until, 9))

    assert len(await take("one", 0)) == 1
    assert await take("two", 59) == []
    (taken,) = await take("two", 60)
    assert (taken.lease_owner, taken.attempt) == ("two", 2)
    skipped = replace(taken, status=FiringStatus.SKIPPED)
    assert await scene.store.transact(lambda tx: tx.end_firing(skipped, "two", scene.clock.text()))
    assert await take("one", 9999) == []
    assert await scene.firings(signal) == [(FiringStatus.SKIPPED, None)]


async def test_a_late_processor_changes_nothing(scene: Scene) -> None:
    from rota.signals.firing import fire

    await scene.when(FAILS)
    await scene.fail(await scene.add())
    until, now = scene.clock.text(LEASE_SECONDS), scene.clock.text()
    (mine,) = await scene.store.transact(lambda tx: tx.take_firings("late", now, until, 10))
    scene.clock.advance(LEASE_SECONDS + 1)
    assert await scene.processor.tick() == 1
    assert (
        await scene.store.transact(
            lambda tx: fire(tx, mine.id, "late", now, IdFactory(scene.clock))
        )
        is None
    )
    assert len(await scene.events(EventType.SIGNAL_FIRED)) == 1


async def test_a_late_processor_neither_postpones_nor_gives_up(scene: Scene) -> None:
    from rota.signals.firing import give_up

    await scene.when(FAILS)
    await scene.fail(await scene.add())
    until, now = scene.clock.text(LEASE_SECONDS), scene.clock.text()
    (mine,) = await scene.store.transact(lambda tx: tx.take_firings("late", now, until, 10))
    scene.clock.advance(LEASE_SECONDS + 1)
    now, until = scene.clock.text(), scene.clock.text(LEASE_SECONDS)
    (theirs,) = await scene.store.transact(lambda tx: tx.take_firings("quick", now, until, 10))
    assert mine.id == theirs.id

    def late(tx: Transaction) -> None:
        tx.postpone_firing(mine.id, "late", scene.clock.text(9999), "no answer", counted=True)
        give_up(tx, mine, "late", now, "it failed for good")

    await scene.store.transact(late)
    (firing,) = await scene.store.read(lambda tx: tx.firings_of(mine.signal_id, 9))
    assert (firing.status, firing.lease_owner) == (FiringStatus.PROCESSING, "quick")
    assert await scene.events(EventType.SIGNAL_STOPPED) == []


async def test_a_loop_is_stopped_and_recorded(scene: Scene) -> None:
    signal = await scene.when(
        {**FAILS, "type": "follow_up"},
        {"kind": "submit", "type": "follow_up"},
        max_fires=None,
        max_depth=2,
    )
    item = await scene.add(type="follow_up")
    fired = 0
    while item is not None and fired < 10:
        await scene.fail(item)
        if not await scene.processor.tick():
            break
        fired += 1
        told = (await scene.events(EventType.SIGNAL_FIRED))[-1]
        item = await scene.ledger.views.item(told["work_item_id"])
    assert fired == 3
    assert "a loop" in (await scene.firings(signal))[-1][1]
    assert len(await scene.events(EventType.SIGNAL_STOPPED)) == 1


async def test_a_loop_through_other_items_than_the_signals_own_is_stopped(scene: Scene) -> None:
    project = await scene.queue.create_project("garden")
    await scene.when(
        {"kind": "work_items.all_in", "project_id": project.id, "in": ["completed"]},
        {"kind": "submit", "project_id": project.id},
        work_item_id=(await scene.add()).id,
        max_fires=None,
        max_depth=2,
    )
    item, fired = await scene.add(project_id=project.id), 0
    await scene.processor.tick()
    while fired < 10:
        await bring_to(scene.queue, item.id, Status.COMPLETED)
        if not await scene.processor.tick():
            break
        fired += 1
        told = (await scene.events(EventType.SIGNAL_FIRED))[-1]
        item = await scene.ledger.views.item(told["work_item_id"])
    assert fired == 3
    assert len(await scene.events(EventType.SIGNAL_STOPPED)) == 1


QUEUED = {"kind": "work_item.status.transition", "to": ["queued"]}
DISPATCHED = {"kind": "work_item.status.transition", "to": ["dispatched"]}
TO_ADA = {"kind": "dispatch", "agent": "ada"}


async def fired_until_quiet(scene: Scene, most: int, pause: float = 0) -> int:
    fired = 0
    while (now := await scene.processor.tick()) and fired < most:
        fired += now
        scene.clock.advance(pause)
    return fired


async def test_two_signals_that_move_an_item_back_and_forth_are_stopped(scene: Scene) -> None:
    there = await scene.when(QUEUED, TO_ADA, max_fires=None, max_depth=2)
    back = await scene.when(DISPATCHED, {"kind": "release"}, max_fires=None, max_depth=2)
    item = await scene.add()
    assert await fired_until_quiet(scene, most=30) == 6
    ends = [status for status, _ in await scene.firings(there)]
    assert ends == [FiringStatus.ENQUEUED] * 3 + [FiringStatus.SKIPPED]
    assert "a loop" in str((await scene.firings(there))[-1][1])
    assert [status for status, _ in await scene.firings(back)] == [FiringStatus.ENQUEUED] * 3
    (stopped,) = await scene.events(EventType.SIGNAL_STOPPED)
    assert stopped["signal_id"] == there.id
    assert (await scene.ledger.views.item(item.id)).status is Status.QUEUED
    await bring_to(scene.queue, item.id, Status.DISPATCHED)  # a person begins anew
    assert await fired_until_quiet(scene, most=30) == 6


async def test_a_signal_that_waits_between_its_moves_is_no_loop(scene: Scene) -> None:
    await scene.when(QUEUED, TO_ADA, max_fires=None, max_depth=0)
    slow = {"kind": "time", "after": "1h", "in": ["dispatched"]}
    await scene.when(slow, {"kind": "release"}, max_fires=None, max_depth=0)
    await scene.add()
    assert await fired_until_quiet(scene, most=12, pause=3601) >= 12
    assert await scene.events(EventType.SIGNAL_STOPPED) == []


async def test_a_cancelled_or_expired_signal_does_not_fire(scene: Scene) -> None:
    cancelled = await scene.when(FAILS)
    expired = await scene.when(FAILS, expires_at=scene.clock.text(60))
    later = await scene.when(BLOCKS, expires_at=scene.clock.text(120))
    await scene.signals.cancel(cancelled.id)
    with pytest.raises(Refused):
        await scene.signals.cancel(cancelled.id)
    scene.clock.advance(61)
    await scene.fail(await scene.add())
    assert await scene.processor.tick() == 0
    assert await scene.status(expired) is SignalStatus.EXPIRED
    assert await scene.status(later) is SignalStatus.ACTIVE


# actions


async def test_an_item_can_be_held_dispatched_and_released(scene: Scene) -> None:
    item = await scene.add()
    queued = {"kind": "work_item.status.transition", "to": ["queued"]}
    await scene.when(queued, {"kind": "dispatch", "agent": "ada"}, work_item_id=item.id)
    await bring_to(scene.queue, item.id, Status.DISPATCHED)
    await scene.queue.apply(Order(Verb.RELEASE, item.id, "me"))
    assert await scene.processor.tick() == 1
    assert (await scene.ledger.views.item(item.id)).assigned_agent == "ada"
    dispatched = {"kind": "time", "after": "1h", "in": ["dispatched"]}
    await scene.when(dispatched, {"kind": "release", "reason": "too_slow"}, work_item_id=item.id)
    await scene.queue.apply(Order(Verb.RELEASE, item.id, "me"))
    await scene.queue.apply(Order(Verb.DISPATCH, item.id, "me", agent="bob"))
    scene.clock.advance(3601)
    assert await scene.processor.tick() == 1
    stands = await scene.ledger.views.item(item.id)
    assert (stands.status, stands.reason) == (Status.QUEUED, "too_slow")


async def test_a_release_that_comes_late_leaves_the_claim_of_the_next_holder_alone(
    scene: Scene,
) -> None:
    """A person was quicker than the signal, and bob works on the item by now."""
    signal = await scene.when(BLOCKS, {"kind": "release"}, max_fires=None)
    item = await scene.add()
    await scene.block(item)
    await scene.queue.apply(Order(Verb.RELEASE, item.id, "a person"))
    assert await scene.processor.tick() == 0
    (held,) = (await scene.queue.claim(ClaimRequest("bob"))).items
    scene.clock.advance(600)
    assert await scene.processor.tick() == 0
    assert await scene.firings(signal) == [(FiringStatus.SKIPPED, "it has been taken anew since")]
    await scene.queue.complete(item.id, token=held.claim.token)


async def test_a_schedule_is_not_triggered_without_end_while_nobody_takes_it_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.scheduler.service.MOST_WAITING", 2)
    talk = Standing("ada", "talk", ScheduleType.CHAT, "chat", True, True, None, None)
    await scene.store.transact(lambda tx: tx.put_schedules([talk]))
    action = {"kind": "trigger", "agent": "ada", "schedule": "talk"}
    signal = await scene.when(FAILS, action, max_fires=None)
    for _ in range(3):
        await scene.fail(await scene.add())
    assert await scene.processor.tick() == 2
    waiting = await scene.store.transact(lambda tx: tx.waiting_triggers(["ada"], 9))
    assert await scene.store.read(lambda tx: tx.count_waiting("ada", "talk")) == 2
    (late,) = [one for one in await scene.firings(signal) if one[0] is FiringStatus.QUEUED]
    assert "2 triggers of ada/talk wait already; is a node with this agent running?" in str(late[1])
    taken, now = replace(waiting[0], node="n1"), scene.clock.text()
    await scene.store.transact(lambda tx: tx.take_up(taken, now, None))
    scene.clock.advance(10)
    assert await scene.processor.tick() == 1
    assert [status for status, _ in await scene.firings(signal)] == [FiringStatus.ENQUEUED] * 3


async def test_a_notification_waits_in_the_outbox_with_a_stable_id(scene: Scene) -> None:
    signal = await scene.when(
        FAILS, {"kind": "notify", "url": "https://example.org/hook", "body": "{item.id} {event.to}"}
    )
    item = await scene.add()
    await scene.fail(item)
    before = scene.store.counter(Topic.POST)
    await scene.processor.tick()
    assert scene.store.counter(Topic.POST) > before  # whoever delivers is woken
    (letter,) = await scene.store.read(lambda tx: tx.list_post(buried=False, limit=10))
    (firing,) = (await scene.signals.get(signal.id)).firings
    assert (letter.id, letter.kind) == (f"notify-{firing.id}", "notify")
    assert letter.payload["text"] == f"{item.id} failed"


@pytest.mark.parametrize("then", [None, {"kind": "follow_up", "title": "Water the roses"}])
async def test_what_follows_where_there_is_no_item_is_a_new_item(
    scene: Scene, then: dict[str, Any] | None
) -> None:
    await scene.when({"kind": "time", "after": "1h"}, then, name="roses")
    scene.clock.advance(3601)
    assert await scene.processor.tick() == 1
    (told,) = await scene.events(EventType.SIGNAL_FIRED)
    made = await scene.ledger.views.item(told["work_item_id"])
    assert made.description == ("Water the roses" if then else "Follow up: roses")


@pytest.mark.parametrize("then", [{"kind": "hold"}, {"kind": "release"}])
async def test_a_run_without_an_item_does_not_fire_what_needs_one(
    scene: Scene, then: dict[str, Any]
) -> None:
    signal = await scene.when({"kind": "run.finished"}, then)
    run = await scene.ledger.runs.begin("ada", TriggerKind.MANUAL)
    await scene.ledger.runs.end(run, RunEnd(RunStatus.FAILED))
    assert await scene.processor.tick() == 0
    why = f"there is no item that {then['kind']} could be about"
    assert await scene.firings(signal) == [(FiringStatus.SKIPPED, why)]
    assert await scene.signals.test(scene.signals.read({"kind": "run.finished"}, then)) == []


async def test_a_text_from_outside_is_not_looked_into_for_more_places(scene: Scene) -> None:
    item = await scene.add("{event.reason}")
    await scene.when(FAILS, {"kind": "submit", "title": "On {item.description}"})
    await scene.fail(item)
    await scene.processor.tick()
    (told,) = await scene.events(EventType.SIGNAL_FIRED)
    made = await scene.ledger.views.item(told["work_item_id"])
    assert made.description == "On {event.reason}"


# follow-ups


async def test_a_follow_up_is_taken_by_one_agent_and_completed_by_it(scene: Scene) -> None:
    item = await scene.add()
    await scene.when(BLOCKS, work_item_id=item.id)
    await scene.block(item)
    await scene.processor.tick()
    taken = await scene.signals.take_follow_up("ada")
    assert taken is not None
    assert await scene.signals.take_follow_up("bob") is None
    for token in (None, "wrong"):
        with pytest.raises(ClaimLost):
            await scene.signals.complete_follow_up(taken.id, token=token)
    done = await scene.signals.complete_follow_up(taken.id, token=taken.lease_token, notes="asked")
    assert (done.status, done.notes) == (FollowUpStatus.COMPLETED, "asked")
    with pytest.raises(Refused):
        await scene.signals.complete_follow_up(taken.id, token=taken.lease_token)


async def test_a_follow_up_whose_lease_has_lapsed_is_another_s(scene: Scene) -> None:
    item = await scene.add()
    await scene.when(BLOCKS, work_item_id=item.id)
    await scene.block(item)
    await scene.processor.tick()
    late = await scene.signals.take_follow_up("ada", lease_seconds=60)
    scene.clock.advance(61)
    taken = await scene.signals.take_follow_up("bob")
    assert late is not None
    assert taken is not None
    with pytest.raises(ClaimLost):
        await scene.signals.complete_follow_up(late.id, token=late.lease_token)
    await scene.signals.release_follow_up(taken.id, taken.lease_token or "")
    again = await scene.signals.take_follow_up("eve")
    assert again is not None
    assert again.id == taken.id


@pytest.mark.parametrize("cancelled", [False, True], ids=["completed", "cancelled"])
async def test_a_follow_up_whose_lease_has_lapsed_can_be_ended_by_a_person(
    scene: Scene, cancelled: bool
) -> None:
    item = await scene.add()
    await scene.when(BLOCKS, work_item_id=item.id)
    await scene.block(item)
    await scene.processor.tick()
    gone = await scene.signals.take_follow_up("ada", lease_seconds=60)
    assert gone is not None
    scene.clock.advance(59)
    with pytest.raises(ClaimLost, match="is with 'ada' until"):
        await scene.signals.complete_follow_up(gone.id, cancelled=cancelled)
    scene.clock.advance(1)
    done = await scene.signals.complete_follow_up(gone.id, cancelled=cancelled, actor="eve")
    assert done.status is (FollowUpStatus.CANCELLED if cancelled else FollowUpStatus.COMPLETED)
    with pytest.raises(Refused):
        await scene.signals.complete_follow_up(gone.id, token=gone.lease_token)


# configuration


async def test_signals_of_the_configuration_are_kept_in_step(scene: Scene) -> None:
    def named(name: str, **more: Any) -> Any:
        return scene.signals.read({**FAILS, **more}, name=name, configured=True)

    await scene.signals.sync([named("a"), named("b")])
    first = {one.name: one.id for one in await scene.signals.find(SignalStatus.ACTIVE)}
    await scene.signals.sync([named("a"), named("b", type="bug_fix"), named("c")])
    then = {one.name: one.id for one in await scene.signals.find(SignalStatus.ACTIVE)}
    assert sorted(then) == ["a", "b", "c"]
    assert (then["a"] == first["a"], then["b"] == first["b"]) == (True, False)
    await scene.signals.sync([])
    assert await scene.signals.find(SignalStatus.ACTIVE) == []


async def test_a_signal_can_be_tried_on_the_past(scene: Scene) -> None:
    item = await scene.add()
    await scene.fail(item)
    found = await scene.signals.test(scene.signals.read({**FAILS, "type": "chore"}))
    assert [(one.work_item_id, one.to_status) for one in found] == [(item.id, "failed")]
    assert await scene.signals.test(scene.signals.read({**FAILS, "type": "bug_fix"})) == []
    assert await scene.signals.find() == []


# bad input


@pytest.mark.parametrize(
    ("trigger", "then", "words"),
    [
        ({"kind": "work_item.gone"}, None, "is not known; there are work_item.status.transition"),
        ({"kind": "work_item.status.transition", "to": []}, None, "say into which status"),
        ({"kind": "work_item.status.transition", "to": ["lost"]}, None, "is not a status"),
        ({**FAILS, "tpye": "chore"}, None, "did you mean 'type'"),
        ({**FAILS, "nth": 0}, None, "from 1 to 1000"),
        ({"kind": "work_items.all_in", "in": ["completed"]}, None, "either items or a project_id"),
        ({"kind": "work_items.all_in", "in": ["completed"], "items": ["x"]}, None, "no work item"),
        ({**FAILS, "project_id": "x"}, None, "there is no project"),
        ({"kind": "time"}, None, "either at or after"),
        ({"kind": "time", "at": "2001-01-01T00:00:00Z"}, None, "in the past"),
        ({"kind": "time", "at": "2099-01-01T00:00", "timezone": "Mars/One"}, None, "Europe/Berlin"),
        ({"kind": "time", "after": "5x"}, None, "Invalid time unit"),
        ({"kind": "run.finished", "outcome": ["done"]}, None, "is no end of a run"),
        (FAILS, {"kind": "explode"}, "action.kind"),
        (FAILS, {"kind": "notify"}, "notify needs it"),
        (FAILS, {"kind": "submit", "title": "{item.secret}"}, "there is no field 'item.secret'"),
        (FAILS, {"kind": "submit", "priority": 9}, "priority"),
        (FAILS, {"kind": "hold", "title": "x"}, "unknown key"),
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_stored(
    scene: Scene, trigger: dict[str, Any], then: dict[str, Any] | None, words: str
) -> None:
    with pytest.raises((InvalidInput, Exception), match=words) as refused:
        await scene.when(trigger, then)
    assert getattr(refused.value, "code", None) is not None
    assert await scene.signals.find() == []


async def test_a_signal_about_an_item_that_is_not_there_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="there is no work item"):
        await scene.when(FAILS, work_item_id="nothing")
    with pytest.raises(NotFound):
        await scene.signals.get("nothing")


async def test_a_schedule_that_is_not_there_is_refused_where_schedules_are_known(
    scene: Scene,
) -> None:
    every = Standing(
        "ada", "often", ScheduleType.INTERVAL, "interval 300", True, True, scene.clock.text(), "1"
    )
    await scene.store.transact(lambda tx: tx.put_schedules([every]))
    action = {"kind": "trigger", "agent": "ada", "schedule": "often"}
    await scene.when(FAILS, action)
    with pytest.raises(InvalidInput, match="there is no schedule ada/never") as refused:
        await scene.when(FAILS, {**action, "schedule": "never"})
    assert refused.value.details["field"] == "action.schedule"


def test_times_are_written_as_everywhere(clock: ManualClock) -> None:
    assert to_text(clock.now()) == clock.text()


async def a_follow_up(scene: Scene) -> str:
    item = await scene.add()
    await scene.when(BLOCKS, {"kind": "follow_up"}, work_item_id=item.id)
    await scene.block(item)
    await scene.processor.tick()
    (found,) = await scene.signals.follow_ups(work_item_id=item.id)
    return found.id


async def test_a_heartbeat_keeps_a_follow_up(scene: Scene) -> None:
    one = await a_follow_up(scene)
    taken = await scene.signals.take_follow_up("ada", lease_seconds=60)
    assert taken is not None
    assert taken.lease_token is not None
    for _ in range(3):
        scene.clock.advance(50)
        kept = await scene.signals.extend_follow_up(one, taken.lease_token, lease_seconds=60)
        assert kept.lease_expires_at == scene.clock.text(60)
        assert await scene.signals.take_follow_up("bob") is None
    assert (kept.holder, kept.attempts) == ("ada", 1)


async def test_the_lease_of_a_follow_up_begins_when_the_database_has_the_claim(
    scene: Scene, one_lane: Store
) -> None:
    first, _ = await a_follow_up(scene), await a_follow_up(scene)
    held = await scene.signals.take_follow_up("ada", lease_seconds=60)
    assert held is not None
    assert held.id == first
    signals, gate = Signals(one_lane), threading.Event()
    held_up = one_lane.transact(lambda tx: gate.wait(PATIENCE))
    waiting = asyncio.gather(
        signals.take_follow_up("bob", lease_seconds=5),
        signals.extend_follow_up(first, held.lease_token or "", lease_seconds=5),
    )
    await asyncio.sleep(0)  # both have asked
    scene.clock.advance(10)
    gate.set()
    await held_up
    for one in await waiting:
        assert one is not None
        assert one.lease_expires_at == scene.clock.text(5)


async def test_a_lost_lease_of_a_follow_up_cannot_be_extended(scene: Scene) -> None:
    one = await a_follow_up(scene)
    late = await scene.signals.take_follow_up("ada", lease_seconds=60)
    assert late is not None
    assert late.lease_token is not None
    scene.clock.advance(61)
    # Nobody has it meanwhile, so nothing is lost: as for items.
    await scene.signals.extend_follow_up(one, late.lease_token, lease_seconds=60)
    scene.clock.advance(61)
    taken = await scene.signals.take_follow_up("bob", lease_seconds=60)
    assert taken is not None
    for token in (late.lease_token, "wrong", ""):
        with pytest.raises(ClaimLost, match="not yours any more"):
            await scene.signals.extend_follow_up(one, token)
    assert await scene.signals.follow_up(one) == taken
    await scene.signals.complete_follow_up(one, token=taken.lease_token)
    ended = await scene.signals.follow_up(one)
    for token in (late.lease_token, taken.lease_token or "", ""):
        with pytest.raises(ClaimLost, match="completed"):
            await scene.signals.extend_follow_up(one, token)
    assert await scene.signals.follow_up(one) == ended
    with pytest.raises(NotFound):
        await scene.signals.extend_follow_up("none-such", "x")
    with pytest.raises(InvalidInput, match="lease_seconds"):
        await scene.signals.extend_follow_up(one, "x", lease_seconds=0)


async def test_firings_are_listed_by_age_page_by_page(scene: Scene) -> None:
    await scene.when(FAILS, max_fires=None)
    for _ in range(3):  # some of one moment, some later
        await scene.fail(await scene.add())
        await scene.fail(await scene.add())
        scene.clock.advance(1)
    await scene.processor.tick()
    whole = await scene.signals.firings(FiringStatus.ENQUEUED)
    assert len(whole) == 6
    assert whole == sorted(whole, key=lambda one: (one.created_at, one.id))
    paged, place = [], None
    while page := await scene.signals.firings(FiringStatus.ENQUEUED, 4, after=place):
        paged += page
        place = page[-1].created_at, page[-1].id
    assert paged == whole


async def test_a_server_that_ends_does_not_wait_for_the_next_firing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.signals.processor.POLL_SECONDS", 3600.0)
    stopping = asyncio.Event()
    chore = SignalChore(scene.store, scene.processor)
    running = asyncio.create_task(run_chore(chore, stopping))
    signal = await scene.when(FAILS)
    await scene.fail(await scene.add())
    async with asyncio.timeout(30):  # a commit wakes it
        while await scene.firings(signal) != [(FiringStatus.ENQUEUED, None)]:
            await scene.store.wait(Topic.EVENTS, scene.store.counter(Topic.EVENTS), 0.05)
    stopping.set()
    async with asyncio.timeout(30):
        await running
