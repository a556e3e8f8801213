"""The scheduler on both databases, with a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.model.clock import from_text, to_text
from rota.model.errors import (
    CommitUnknown,
    NotFound,
    SchedulerError,
    SchedulerShutdownError,
)
from rota.model.schedules import (
    CatchUp,
    Schedule,
    ScheduleStatus,
    ScheduleType,
    SkipReason,
    Trigger,
    TriggerKind,
)
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.scheduler.service import Schedules
from rota.scheduler.taking import PAGE, Taken
from rota.storage.port import Store, Transaction
from rota.testing.clock import ManualClock
from tests.contract.nodes import PATIENCE, NewNode, Node, Stage, agent, cron, every, state


async def test_an_interval_begins_at_once_and_counts_from_the_end(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    began = clock.text()
    node.stage.stays = True
    await node.tick()
    assert node.stage.slots() == [began]
    clock.advance(120)
    node.stage.send_off()
    await node.settle()
    after = await state(store)
    assert after.next_run_at == after.slot == clock.text(300)
    assert (after.last_run_at, after.last_completed_at) == (began, clock.text())
    assert after.trigger_count == 1
    node.stage.stays = False
    clock.advance(299)
    await node.tick()
    assert len(node.stage.came) == 1
    clock.advance(1)
    await node.tick()
    assert node.stage.slots() == [began, clock.text()]


async def test_a_cron_schedule_moves_on_when_it_triggers(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(cron()))
    await node.tick()
    assert node.stage.came == []
    clock.advance(600)
    node.stage.stays = True
    await node.tick()
    assert node.stage.slots() == [clock.text()]
    assert (await state(store, "clock")).next_run_at == clock.text(600)


async def test_the_pause_ends_with_the_next_time_and_is_never_longer_than_the_check_interval(
    clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(cron()), check_interval=30.0)
    assert await node.tick() == 30.0
    clock.advance(595)
    assert await node.tick() == 5.0
    empty = await new_node(name="n2", check_interval=7.0)
    assert await empty.tick() <= 7.0


async def test_what_is_due_runs_side_by_side(clock: ManualClock, new_node: NewNode) -> None:
    node = await new_node(agent(*(every(5, f"s{n}") for n in range(30))))
    node.stage.stays = True
    await node.tick()
    assert node.scheduler.get_running_job_count("ada") == 30
    assert node.scheduler.get_running_job_count("bob") == 0
    assert node.scheduler.get_total_running_job_count() == 30


async def test_more_than_a_page_of_due_schedules_is_taken_at_once(
    clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(*(every(5, f"s{n}") for n in range(1_203)), room=5_000))
    await node.tick()
    assert len({one.schedule for one in node.stage.came}) == 1_203


async def test_a_schedule_that_runs_is_not_started_again(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), cron()))
    node.stage.stays = True
    clock.advance(600)
    await node.tick()
    assert len(node.stage.came) == 2
    clock.advance(600)
    await node.tick()
    assert len(node.stage.came) == 2
    for name in ("poll", "clock"):
        skipped = await state(store, name)
        assert skipped.status is ScheduleStatus.RUNNING
        assert skipped.last_skip_reason is SkipReason.ALREADY_RUNNING
        assert skipped.last_skip_at == clock.text()
        assert skipped.skip_count == 1
    assert (await state(store, "clock")).next_run_at == clock.text(600)


async def test_a_slot_that_lacked_room_is_run_as_soon_as_there_is_some(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(cron("0 * * * *", "a"), cron("0 * * * *", "b"), room=1))
    node.stage.stays = True
    clock.advance(3600)
    slot = clock.text()
    await node.tick()
    assert [one.schedule for one in node.stage.came] == ["a"]
    assert (await state(store, "b")).last_skip_reason is SkipReason.AT_CAPACITY
    clock.advance(1)
    await node.tick()
    assert len(node.stage.came) == 1
    node.stage.send_off()
    await node.settle()
    assert node.scheduler.woken.is_set()
    await node.tick()
    assert [(one.schedule, one.slot) for one in node.stage.came] == [("a", slot), ("b", slot)]


@pytest.fixture
def silence(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The next commit that takes triggers gets no answer."""
    transact = store.transact

    async def unanswered(body: Callable[[Transaction], Any]) -> Any:
        found = await transact(body)
        if isinstance(found, Taken) and found.triggers:
            monkeypatch.setattr(store, "transact", transact)
            raise CommitUnknown("the connection broke while committing")
        return found

    return lambda: monkeypatch.setattr(store, "transact", unanswered)


@pytest.mark.parametrize("by", ["the clock", "a person"])
async def test_what_was_taken_by_a_commit_without_an_answer_is_run_once(
    store: Store, clock: ManualClock, new_node: NewNode, silence: Callable[[], None], by: str
) -> None:
    node = await new_node(agent(every(5) if by == "the clock" else every(5, enabled=False), room=1))
    if by == "a person":
        await Schedules(store, clock).trigger("ada", "poll")
    silence()
    with pytest.raises(CommitUnknown):
        await node.tick()
    assert node.stage.came == []
    node.stage.stays = True
    for _ in range(3):
        await node.tick()
    (trigger,) = node.stage.came
    node.stage.send_off()
    await node.settle()
    for _ in range(3):
        await node.tick()
        clock.advance(40)
    assert node.stage.came == [trigger]
    record = await store.read(lambda tx: tx.get_trigger(trigger.id))
    assert record is not None
    assert record.outcome == "succeeded"
    assert (await state(store)).trigger_count == 1


async def test_what_was_taken_by_a_commit_whose_answer_comes_late_is_run_too(
    store: Store, clock: ManualClock, new_node: NewNode, silence: Callable[[], None]
) -> None:
    """The server may still be committing when the connection is gone already."""
    node = await new_node(agent(every(5)))
    silence()
    with pytest.raises(CommitUnknown):
        await node.tick()
    read = store.read

    async def before(body: Callable[[Transaction], Any], *, long: bool = False) -> Any:
        found = await read(body, long=long)
        return [] if isinstance(found, list) and found and isinstance(found[0], Trigger) else found

    with pytest.MonkeyPatch.context() as early:
        early.setattr(store, "read", before)
        await node.tick()
    assert node.stage.came == []
    clock.advance(30)
    await node.tick()
    assert len(node.stage.came) == 1


async def test_what_was_taken_without_an_answer_is_lost_if_its_schedule_is_gone_since(
    store: Store, clock: ManualClock, new_node: NewNode, silence: Callable[[], None]
) -> None:
    node = await new_node(agent(every(5, "a"), every(5, "b"), room=1))
    silence()
    with pytest.raises(CommitUnknown):
        await node.tick()
    (taken,) = await store.read(lambda tx: tx.taken_by(node.scheduler._node))
    assert taken.schedule == "a"
    await node.scheduler.set_agents([agent(every(5, "b"), room=1)])
    await node.tick()
    record = await store.read(lambda tx: tx.get_trigger(taken.id))
    assert record is not None
    assert (record.outcome, record.error) == ("lost", "its schedule is not in the file any more")
    assert [one.schedule for one in node.stage.came] == ["b"]  # the place is free


async def test_what_ends_while_the_ledger_is_asked_what_was_taken_is_not_run_again(
    store: Store, clock: ManualClock, new_node: NewNode, silence: Callable[[], None]
) -> None:
    node = await new_node(agent(every(5, "a"), every(5, "b")))
    silence()
    with pytest.raises(CommitUnknown):
        await node.tick()
    node.stage.stays = True
    await node.tick()
    before = list(node.stage.came)
    assert [one.schedule for one in before] == ["a", "b"]
    read = store.read

    async def slow(body: Callable[[Transaction], Any], *, long: bool = False) -> Any:
        found = await read(body, long=long)
        if isinstance(found, list) and found and isinstance(found[0], Trigger):
            node.stage.send_off()
            await node.settle()
        return found

    with pytest.MonkeyPatch.context() as ending:
        ending.setattr(store, "read", slow)
        await node.tick()
    assert node.stage.came == before


async def test_room_and_running_are_counted_across_nodes(
    clock: ManualClock, new_node: NewNode, another_store: Callable[[], Awaitable[Store]]
) -> None:
    both = agent(every(5, "a"), every(5, "b"), every(5, "c"), room=2)
    one = await new_node(both)
    other = await new_node(both, name="n2", store=await another_store())
    one.stage.stays = other.stage.stays = True
    await asyncio.gather(one.tick(), other.tick())
    assert len(one.stage.came) + len(other.stage.came) == 2
    for _ in range(5):
        clock.advance(400)
        await asyncio.gather(one.tick(), other.tick())
    assert len(one.stage.came) + len(other.stage.came) == 2


async def test_two_nodes_never_run_one_slot_twice(
    clock: ManualClock, new_node: NewNode, another_store: Callable[[], Awaitable[Store]]
) -> None:
    schedules = [cron("* * * * *", f"s{n}") for n in range(40)]
    nodes = [await new_node(agent(*schedules))]
    nodes.append(await new_node(agent(*schedules), name="n2", store=await another_store()))
    for _ in range(10):
        clock.advance(60)
        await asyncio.gather(*(node.tick() for node in nodes))
        await asyncio.gather(*(node.tick() for node in nodes))
    ran = [(t.schedule, t.slot) for node in nodes for t in node.stage.came]
    assert len(ran) == len(set(ran)) == 400


@pytest.mark.parametrize(
    ("policy", "slots"),
    [
        (CatchUp.ONE, ["14:00"]),
        (CatchUp.NONE, []),
        (CatchUp.ALL, ["12:30", "13:00", "13:30", "14:00"]),
    ],
)
async def test_slots_that_passed_while_nobody_was_there(
    store: Store, clock: ManualClock, new_node: NewNode, policy: CatchUp, slots: list[str]
) -> None:
    node = await new_node(agent(cron("*/30 * * * *", catch_up=policy)))
    clock.advance(2 * 3600 + 600)
    for _ in range(6):
        await node.tick()
    assert [slot[11:16] for slot in node.stage.slots()] == slots
    after = await state(store, "clock")
    assert after.next_run_at is not None
    assert after.next_run_at[11:16] == "14:30"
    missed = None if policy is CatchUp.ALL else SkipReason.MISSED
    assert after.last_skip_reason is missed


async def test_every_slot_is_made_up_for_one_after_the_other(
    clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(cron("*/30 * * * *", catch_up=CatchUp.ALL)))
    clock.advance(2 * 3600 + 600)
    node.stage.stays = True
    for _ in range(3):
        await node.tick()
        clock.advance(11)
    assert [slot[11:16] for slot in node.stage.slots()] == ["12:30"]
    node.stage.send_off()
    await node.settle()
    await node.tick()
    assert [slot[11:16] for slot in node.stage.slots()] == ["12:30", "13:00"]


async def test_an_interval_owes_no_slot_that_its_own_run_took_too_long_for(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """It counts from the end of the run, also where every slot is wanted."""
    node = await new_node(agent(every(5, catch_up=CatchUp.ALL)))
    node.stage.stays = True
    await node.tick()
    clock.advance(300)
    await node.tick()
    assert (await state(store)).last_skip_reason is SkipReason.ALREADY_RUNNING
    assert (await state(store)).next_run_at == clock.text(300)


async def test_an_interval_that_is_late_runs_once(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), every(5, "none", catch_up=CatchUp.NONE)))
    await node.tick()
    clock.advance(86_400)
    await node.tick()
    await node.tick()
    assert len(node.stage.slots("poll")) == 2
    assert len(node.stage.slots("none")) == 1
    assert (await state(store, "none")).last_skip_reason is SkipReason.MISSED
    assert (await state(store, "none")).next_run_at == clock.text(300)


async def test_a_clock_that_jumps_forward_brings_no_storm(
    clock: ManualClock, new_node: NewNode
) -> None:
    schedules = [cron("* * * * *", f"s{n}") for n in range(20)] + [every(1)]
    node = await new_node(agent(*schedules))
    await node.tick()
    clock.advance(365 * 86_400)
    before = len(node.stage.came)
    for _ in range(3):
        await node.tick()
    assert len(node.stage.came) - before == 21


async def test_a_clock_that_was_put_back_silences_nobody_and_repeats_no_slot(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(cron("0 * * * *"), every(5)))
    start = clock.now()
    for _ in range(3):
        clock.advance(3600)
        await node.tick()
    ran = node.stage.slots("clock")
    assert len(ran) == 3
    clock.advance(-2 * 3600 - 60)  # it is 12:59 again
    with capture_logs() as logged:
        await node.tick()
    assert [one["event"] for one in logged] == ["the clock was put back"]
    assert (await state(store, "clock")).slot == to_text(start + timedelta(hours=1))
    assert (await state(store, "poll")).next_run_at == clock.text(300)
    for _ in range(3):
        clock.advance(3600)
        await node.tick()
        await node.tick()
    assert node.stage.slots("clock") == ran
    clock.advance(3600)
    await node.tick()
    assert node.stage.slots("clock") == [*ran, to_text(start + timedelta(hours=4))]
    assert (await state(store, "clock")).trigger_count == 4


async def test_a_clock_that_is_corrected_a_little_moves_nothing(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    await node.tick()
    before = await state(store)
    clock.advance(-0.5)
    await node.tick()
    assert await state(store) == before


async def test_a_node_whose_clock_was_put_back_shows_that_it_lives(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """For others nothing has changed, and they count by clocks of their own."""
    node = await new_node(agent(every(5)))
    await node.tick()
    clock.advance(-3600)
    await node.tick()
    (one,) = await store.read(lambda tx: tx.living_nodes())
    assert one.seen_at == clock.text()


async def test_a_node_that_starts_with_a_clock_put_back_does_not_wait_for_the_old_time(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    clock.advance(10 * 365 * 86_400)
    await new_node(agent(cron("0 * * * *"), every(5)))
    await store.transact(lambda tx: tx.end_node("n1", clock.text()))
    clock.advance(-10 * 365 * 86_400)
    await new_node(agent(cron("0 * * * *"), every(5)), name="n2")
    assert (await state(store, "clock")).slot == clock.text(3600)
    assert (await state(store)).slot == clock.text(300)


async def test_what_a_callback_says_is_kept(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    node.stage.answer = RuntimeError("no such model")
    await node.tick()
    assert (await state(store)).last_error == "RuntimeError: no such model"
    clock.advance(300)
    node.stage.answer = TriggerOutcome.skipped(SkipReason.NO_WORK)
    await node.tick()
    after = await state(store)
    assert (after.last_skip_reason, after.skip_count) == (SkipReason.NO_WORK, 1)
    assert after.last_error == "RuntimeError: no such model"  # nothing was tried since
    assert after.next_run_at == clock.text(300)
    clock.advance(300)
    node.stage.answer = None
    await node.tick()
    assert (await state(store)).last_error is None


async def test_a_callback_that_raises_stops_nobody(clock: ManualClock, store: Store) -> None:
    ran = []

    async def fail_for_ada(info: TriggerInfo) -> None:
        if info.agent.name == "ada":
            raise ValueError("broken")
        ran.append(info.schedule.name)

    scheduler = Scheduler(store, node="n1", clock=clock, on_trigger=fail_for_ada)
    await scheduler.open([agent(every(5)), agent(every(5), name="bob")])
    node = Node(scheduler, Stage())
    for _ in range(3):
        await node.tick()
        clock.advance(300)
    assert ran == ["poll"] * 3
    await scheduler.stop()


async def test_a_cause_that_a_source_gives_is_the_last_error(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    node.stage.answer = TriggerOutcome.skipped(SkipReason.SOURCE_ERROR, "no answer")
    await node.tick()
    assert (await state(store)).last_error == "no answer"
    assert (await state(store)).last_skip_reason is SkipReason.SOURCE_ERROR


async def test_jitter_delays_a_slot_and_keeps_its_name(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(
        agent(cron(jitter_percent=10), every(5, jitter_percent=10)), rng=lambda: 0.5
    )
    await node.tick()
    assert (await state(store)).slot == clock.text(300)
    assert (await state(store)).next_run_at == clock.text(315)
    assert (await state(store, "clock")).slot == clock.text(600)
    assert (await state(store, "clock")).next_run_at == clock.text(630)
    slot = clock.text(600)
    clock.advance(600)
    await node.tick()
    assert node.stage.slots("clock") == []
    clock.advance(30)
    await node.tick()
    assert node.stage.slots("clock") == [slot]


async def test_a_check_says_why_the_clock_would_not_trigger(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    chat = Schedule("ada", "chat", ScheduleType.CHAT)
    node = await new_node(agent(every(5), every(5, "b"), every(5, "off"), chat, room=1))
    await store.transact(lambda tx: tx.disable_schedule("ada", "off"))
    node.stage.stays = True

    async def reason(name: str) -> SkipReason | None:
        found = await node.scheduler.check("ada", name)
        assert found.should_trigger is (found.skip_reason is None)
        return found.skip_reason

    assert await reason("b") is None
    await node.tick()
    assert [await reason(name) for name in ("b", "poll", "off", "chat")] == [
        SkipReason.ALREADY_RUNNING,
        SkipReason.AT_CAPACITY,
        SkipReason.DISABLED,
        SkipReason.UNSUPPORTED_TYPE,
    ]
    node.stage.send_off()
    await node.settle()
    assert await reason("b") is SkipReason.NOT_DUE
    with pytest.raises(NotFound, match="ada/none"):
        await reason("none")


async def test_an_error_that_no_database_can_hold_is_kept_as_well_as_it_can_be(
    store: Store, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    node.stage.answer = TriggerOutcome("failed", error="a\x00b\ud800" + "x" * 9_000)
    await node.tick()
    kept = (await state(store)).last_error
    assert kept is not None
    assert kept.startswith("ab?xxx")
    assert len(kept) == 4_000


# configuration


async def test_a_changed_definition_computes_its_time_anew(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), cron("0 18 * * *")))
    await node.tick()
    clock.advance(60)
    await node.scheduler.set_agents([agent(every(10), cron("0 18 * * *"))])
    assert (await state(store)).next_run_at == clock.text(540)
    assert (await state(store)).trigger_count == 1
    await node.scheduler.set_agents([agent(every(10), cron("0 20 * * *", timezone="Asia/Tokyo"))])
    slot = (await state(store, "clock")).slot
    assert slot is not None
    assert from_text(slot).hour == 11


@pytest.mark.parametrize(
    ("now_it_is", "seconds"),
    [
        pytest.param(every(5), 300, id="another-interval"),
        pytest.param(cron("0 12 * * *", "poll"), 24 * 3600 - 60, id="a-time-of-the-day"),
    ],
)
async def test_a_run_that_ends_after_its_schedule_was_changed_counts_for_the_new_one(
    store: Store, clock: ManualClock, new_node: NewNode, now_it_is: Schedule, seconds: int
) -> None:
    node = await new_node(agent(every(1440)))
    node.stage.stays = True
    await node.tick()
    await node.scheduler.set_agents([agent(now_it_is)])
    clock.advance(60)
    node.stage.send_off()
    await node.settle()
    after = await state(store)
    assert after.last_completed_at == clock.text()
    assert after.next_run_at == after.slot == clock.text(seconds)


async def test_a_run_that_ends_after_a_newer_file_changed_its_schedule_moves_no_time(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(1)))
    node.stage.stays = True
    await node.tick()
    await new_node(agent(cron("0 12 * * *", "poll")), name="n2")
    begun = clock.text()
    clock.advance(60)
    node.stage.send_off()
    await node.settle()
    after = await state(store)
    assert after.last_completed_at == clock.text()
    assert after.next_run_at == after.slot == to_text(from_text(begun) + timedelta(days=1))


async def test_a_run_that_ends_after_its_agent_was_taken_out_wakes_nobody(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), every(5, "other"), room=1))
    node.stage.stays = True
    await node.tick()
    clock.advance(60)
    await node.tick()
    await node.scheduler.set_agents([])
    clock.advance(60)
    node.stage.send_off()
    await node.settle()
    assert (await state(store)).next_run_at is None
    assert (await state(store, "other")).next_run_at is None


async def test_a_restart_with_the_same_file_changes_nothing(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), cron()))
    await node.tick()
    before = [await state(store), await state(store, "clock")]
    clock.advance(60)
    await new_node(agent(every(5), cron()), name="n2")
    assert [await state(store), await state(store, "clock")] == before


async def test_what_an_operator_says_holds_until_the_file_says_something_else(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    await store.transact(lambda tx: tx.disable_schedule("ada", "poll"))
    await node.scheduler.set_agents([agent(every(7))])
    assert (await state(store)).status is ScheduleStatus.DISABLED
    assert (await state(store)).next_run_at is None
    await node.tick()
    assert node.stage.came == []
    await node.scheduler.set_agents([agent(every(7, enabled=False))])
    assert not (await state(store)).enabled
    await node.scheduler.set_agents([agent(every(7, enabled=True))])
    assert (await state(store)).enabled
    assert (await state(store)).next_run_at == clock.text()


async def test_schedules_that_are_gone_from_the_file_are_gone(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), cron()), agent(every(5), name="bob"))
    await node.scheduler.set_agents([agent(cron())])
    names = [
        (one.agent, one.name)
        for one in await store.read(lambda tx: tx.schedule_states(None, None, 10, ""))
    ]
    assert names == [("ada", "clock"), ("bob", "poll")]  # bob may be another node's


@pytest.mark.parametrize("front", ["of another node", "without room"])
async def test_whoever_asked_first_and_cannot_be_served_keeps_nobody_waiting(
    store: Store, new_node: NewNode, clock: ManualClock, front: str
) -> None:
    many = PAGE + 1
    names = [f"s{n:03}" for n in range(many)] if front == "without room" else ["s"]
    first = agent(*(Schedule("ada", name, ScheduleType.CHAT) for name in names), room=1)
    idle = agent(Schedule("bob", "talk", ScheduleType.CHAT), name="bob")
    if front == "without room":
        node = await new_node(first, idle)
    else:
        await (await new_node(first)).scheduler.stop()
        node = await new_node(idle, name="n2")
    asked = [
        Trigger(f"{n:04}", "ada", names[n % len(names)], f"{n}", TriggerKind.CHAT, "", clock.text())
        for n in range(many)
    ]
    last = Trigger("9999", "bob", "talk", "x", TriggerKind.CHAT, "", clock.text())
    await store.transact(lambda tx: tx.insert_triggers([*asked, last]))
    node.stage.stays = True
    await node.tick()
    assert [one.agent for one in node.stage.came] == (
        ["ada", "bob"] if front == "without room" else ["bob"]
    )
    node.stage.send_off()
    node.stage.stays = False
    await node.settle()


async def test_agents_of_other_nodes_are_left_alone_and_keep_nobody_waiting(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    await new_node(agent(*(every(1, f"s{n}") for n in range(1_100)), name="abandoned"))
    clock.advance(600)
    node = await new_node(agent(every(5)), name="n2")
    await node.tick()
    assert [one.agent for one in node.stage.came] == ["ada"]
    for _ in range(3):
        clock.advance(300)
        await node.tick()
    assert [one.agent for one in node.stage.came] == ["ada"] * 4


@pytest.mark.parametrize("put_back", [0, 3600])
async def test_what_others_wait_for_is_not_looked_past_for_ever(
    store: Store, clock: ManualClock, new_node: NewNode, put_back: int
) -> None:
    """Somebody gives a schedule a time that lies before what belongs to others."""
    await new_node(agent(every(5), name="bob"), name="n2")
    node = await new_node(agent(cron("0 0 1 1 *")))

    async def set_time(who: str, name: str, at: str) -> None:
        changes: dict[str, object] = {"slot": at, "next_at": at}
        await store.transact(lambda tx: tx.change_schedule(who, name, changes))

    await set_time("bob", "poll", clock.text(-7200))
    await node.tick()
    clock.advance(-put_back)
    await node.tick()
    await set_time("ada", "clock", clock.text(-9000))
    clock.advance(31)
    await node.tick()
    assert [one.agent for one in node.stage.came] == ["ada"]


async def test_agents_that_a_new_file_brings_run_at_once(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """Also those that were another's until then, and are looked past as such."""
    ada, bob = agent(cron("0 0 1 1 *")), agent(every(5), name="bob")
    await new_node(bob, name="n2")
    node = await new_node(ada)
    await node.tick()
    assert node.stage.came == []
    assert not node.scheduler.woken.is_set()
    await node.scheduler.set_agents([ada, bob])
    assert node.scheduler.woken.is_set()
    await node.tick()
    assert [one.agent for one in node.stage.came] == ["bob"]


async def test_schedules_without_a_clock_do_not_wake_by_themselves(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    hook, chat = (
        Schedule("ada", str(kind), kind) for kind in (ScheduleType.WEBHOOK, ScheduleType.CHAT)
    )
    node = await new_node(agent(hook, chat))
    clock.advance(86_400)
    await node.tick()
    assert node.stage.came == []
    assert (await state(store, "webhook")).next_run_at is None


# what somebody asked for


async def asked(store: Store, clock: ManualClock, number: int = 1, name: str = "poll") -> None:
    trigger = Trigger(
        f"t{number}", "ada", name, f"t{number}", TriggerKind.MANUAL, "", clock.text(), "please"
    )
    await store.transact(lambda tx: tx.insert_triggers([trigger]))


async def test_what_somebody_asked_for_is_run_by_a_node_that_knows_the_agent(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    stranger = await new_node(agent(every(5), name="bob"), name="n2")
    node = await new_node(agent(cron()))
    await asked(store, clock, name="clock")
    await stranger.tick()
    await node.tick()
    assert [(t.id, t.message, t.node) for t in node.stage.came] == [("t1", "please", "n1")]
    assert "ada" not in {one.agent for one in stranger.stage.came}
    assert (await state(store, "clock")).last_run_at == clock.text()


async def test_what_somebody_asked_for_is_left_to_a_node_that_has_the_schedule(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """Both know the agent, and one has read an older file."""
    newer = await new_node(agent(every(5), cron()), name="n2")
    older = await new_node(agent(every(5)))
    await asked(store, clock, name="clock")
    await older.tick()
    assert older.stage.slots("clock") == []
    await newer.tick()
    assert newer.stage.slots("clock") == ["t1"]


async def test_what_somebody_asked_for_waits_for_room_and_is_not_lost(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    node.stage.stays = True
    await node.tick()
    await asked(store, clock, 1)
    await asked(store, clock, 2)
    await node.tick()
    assert len(node.stage.came) == 1
    node.stage.stays = False
    node.stage.send_off()
    await node.settle()
    await node.tick()
    await node.tick()
    assert [one.id for one in node.stage.came[1:]] == ["t1", "t2"]


async def test_who_asks_goes_before_the_clock(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), cron(), room=1))
    await asked(store, clock, name="clock")
    node.stage.stays = True
    await node.tick()
    assert [one.schedule for one in node.stage.came] == ["clock"]


async def test_one_check_does_not_take_for_ever(
    clock: ManualClock, new_node: NewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.scheduler.loop.PAGES_AT_ONCE", 2)
    node = await new_node(agent(*(every(5, f"s{n}") for n in range(1_203)), room=5_000))
    assert await node.tick() < 0.01
    assert len(node.stage.came) == 1_000
    assert await node.tick() > 0.01
    assert len(node.stage.came) == 1_203


async def test_a_run_that_somebody_asked_for_counts_for_the_interval(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    await node.tick()
    clock.advance(200)
    await asked(store, clock)
    await node.tick()
    assert (await state(store)).next_run_at == clock.text(300)


async def test_a_run_that_somebody_asked_for_counts_for_the_interval_before_it_ends(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """Nobody may live to see its end."""
    node = await new_node(agent(every(5)))
    await node.tick()
    clock.advance(200)
    await asked(store, clock)
    node.stage.stays = True
    await node.tick()
    assert len(node.stage.came) == 2
    assert (await state(store)).next_run_at == clock.text(300)


async def test_what_was_asked_of_a_schedule_that_is_gone_ends(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5), cron()))
    await asked(store, clock)
    await node.scheduler.set_agents([agent(cron())])
    record = await store.read(lambda tx: tx.get_trigger("t1"))
    assert record is not None
    assert record.outcome == "dropped"


# life and death


async def test_what_a_dead_process_of_the_same_place_left_open_is_lost_at_once(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    dead = await new_node(agent(every(5)), place="here")
    dead.stage.stays = True
    await dead.tick()
    clock.advance(400)
    heir = await new_node(agent(every(5)), name="n2", place="here")
    await heir.tick()
    assert len(heir.stage.came) == 1
    record = await store.read(lambda tx: tx.get_trigger(dead.stage.came[0].id))
    assert record is not None
    assert (record.outcome, record.ended_at) == ("lost", clock.text(0))


async def test_a_node_that_was_not_seen_for_long_is_dead(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    dead = await new_node(agent(every(0.1)))
    dead.stage.stays = True
    await dead.tick()
    heir = await new_node(agent(every(0.1)), name="n2")
    for _ in range(4):
        clock.advance(7)
        await heir.tick()
    assert heir.stage.came == []
    assert (await state(store)).last_skip_reason is SkipReason.ALREADY_RUNNING
    for _ in range(2):
        clock.advance(7)
        await heir.tick()
    assert heir.stage.came


async def test_a_clock_that_jumps_makes_nobody_look_dead(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    one = await new_node(agent(cron("0 0 1 1 *")))
    other = await new_node(agent(cron("0 0 1 1 *")), name="n2")
    for _ in range(10):
        clock.advance(5)
        await one.tick()
        await other.tick()
    clock.advance(3_600)
    await other.tick()
    assert [node.id for node in await store.read(lambda tx: tx.living_nodes())] == ["n1", "n2"]
    await one.tick()
    assert [node.id for node in await store.read(lambda tx: tx.living_nodes())] == ["n1", "n2"]


async def test_a_node_that_was_taken_for_dead_comes_back(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    node.stage.stays = True
    await node.tick()
    await store.transact(lambda tx: tx.end_node("n1", clock.text()))
    clock.advance(10)
    node.stage.send_off()
    await node.settle()
    assert (await state(store)).last_completed_at is None  # its end came too late to count
    await node.tick()
    assert [one.id for one in await store.read(lambda tx: tx.living_nodes())] == ["n1"]


# start and stop


async def test_it_starts_by_itself_and_stops_with_what_runs(store: Store) -> None:
    stage = Stage()
    scheduler = Scheduler(store, node="n1", on_trigger=stage)
    assert scheduler.get_status() == "stopped"
    await scheduler.start([agent(every(5))])
    assert scheduler.is_running()
    with pytest.raises(SchedulerError, match="running"):
        await scheduler.start([])
    async with asyncio.timeout(PATIENCE):
        await stage._entered.wait()
    await scheduler.stop()
    seen = scheduler.get_state()
    assert seen.status == "stopped"
    assert seen.trigger_count == 1
    assert seen.check_count >= 1
    assert seen.started_at is not None
    assert seen.last_check_at is not None
    assert (await state(store)).last_completed_at is not None
    assert await store.read(lambda tx: tx.living_nodes()) == []
    await scheduler.stop()


async def test_stopping_waits_until_the_deadline_and_cancels_what_is_left(
    store: Store, new_node: NewNode
) -> None:
    node = await new_node(agent(every(5)))
    node.stage.stays = True
    await node.tick()
    with pytest.raises(SchedulerShutdownError, match="1 job") as caught:
        await node.scheduler.stop(timeout=0.05)
    assert caught.value.context == {"timed_out": True, "running_job_count": 1}
    assert node.scheduler.get_total_running_job_count() == 0
    record = await store.read(lambda tx: tx.get_trigger(node.stage.came[0].id))
    assert record is not None
    assert record.outcome == "cancelled"


async def test_stopping_without_waiting_is_no_error(store: Store, new_node: NewNode) -> None:
    node = await new_node(agent(every(5)))
    node.stage.stays = True
    await node.tick()
    await node.scheduler.stop(wait_for_jobs=False)
    assert not node.scheduler.is_running()


async def test_a_stopped_scheduler_takes_nothing(clock: ManualClock, new_node: NewNode) -> None:
    node = await new_node(agent(every(5)))
    await node.scheduler.stop()
    clock.advance(600)
    await node.tick()
    assert node.stage.came == []
