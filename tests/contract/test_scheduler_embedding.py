"""What programs get that embed the scheduler: one run by hand, and the states of schedules."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

import rota.scheduler as public
from rota.model.errors import (
    InvalidInput,
    NotFound,
    Refused,
    ScheduleTriggerError,
    StorageUnavailable,
)
from rota.model.fleet import AgentSpec
from rota.model.schedules import (
    Schedule,
    ScheduleStatus,
    ScheduleType,
    SkipReason,
    TriggerKind,
)
from rota.scheduler import (
    ScheduleRunResult,
    Schedules,
    TriggerInfo,
    TriggerOutcome,
    build_schedule_prompt,
    calculate_next_trigger,
    get_agent_schedule_states,
    get_schedule_state,
    run_schedule,
    state,
    update_schedule_state,
)
from rota.scheduler.service import Ask
from rota.storage.port import Store
from rota.testing.clock import ManualClock
from tests.contract.nodes import NewNode, Pulse
from tests.unit.test_prompts import Item

POLL = Schedule("ada", "poll", ScheduleType.INTERVAL, interval=timedelta(minutes=5), prompt="Look.")
DAILY = Schedule("ada", "daily", ScheduleType.CRON, cron="@daily")
ADA = AgentSpec("ada", schedules=(POLL, DAILY), max_concurrent=1)


def test_everything_that_is_promised_can_be_imported() -> None:
    for name in public.__all__:
        assert getattr(public, name) is not None
    with pytest.raises(AttributeError, match="Nothing"):
        _ = public.Nothing


async def test_a_run_by_hand_is_recorded_and_sets_the_next_time(
    store: Store, clock: ManualClock
) -> None:
    async def work(info: TriggerInfo) -> TriggerOutcome:
        during = await get_schedule_state(store, "ada", "poll", clock=clock)
        assert during is not None
        assert (during.trigger_count, during.status) == (1, ScheduleStatus.RUNNING)
        assert (await get_agent_schedule_states(store, "ada", clock=clock))["poll"] == during
        clock.advance(60)
        return TriggerOutcome("succeeded")

    result = await run_schedule(
        agent=ADA, schedule=POLL, store=store, on_trigger=work, clock=clock, message="now"
    )
    assert (result.success, result.outcome, result.error) == (True, "succeeded", None)
    assert (result.work_item, result.processed_work_item) == (None, False)
    assert result.trigger is not None
    assert result.trigger.message == "now"
    after = await get_schedule_state(store, "ada", "poll")
    assert after is not None
    assert after.next_run_at == clock.text(300)
    assert after.last_completed_at == clock.text()
    assert after.status is ScheduleStatus.IDLE


async def test_a_schedule_runs_for_every_reader_until_its_node_is_surely_dead(
    store: Store, clock: ManualClock
) -> None:
    async def work(info: TriggerInfo) -> None:
        for seconds, seen in ((39, ScheduleStatus.RUNNING), (2, ScheduleStatus.IDLE)):
            clock.advance(seconds)  # and no sign of life
            one = await get_schedule_state(store, "ada", "poll", clock=clock)
            all_of_them = await get_agent_schedule_states(store, "ada", clock=clock)
            changed = await update_schedule_state(store, "ada", "poll", clock=clock)
            shown = await Schedules(store, clock).get("ada", "poll")
            assert one == all_of_them["poll"] == changed == shown
            assert shown.status is seen

    await run_schedule(
        agent=ADA, schedule=POLL, store=store, on_trigger=work, clock=clock, sleep=_never_again
    )


async def _never_again(_seconds: float) -> None:
    await asyncio.Event().wait()


async def test_a_run_by_hand_that_fails_says_so_twice(store: Store, clock: ManualClock) -> None:
    async def fail(info: TriggerInfo) -> None:
        raise ValueError("no disk")

    with pytest.raises(
        ScheduleTriggerError, match="ada/poll failed: ValueError: no disk"
    ) as failed:
        await run_schedule(agent=ADA, schedule=POLL, store=store, on_trigger=fail, clock=clock)
    assert failed.value.context == {"agent": "ada", "schedule": "poll"}
    after = await get_schedule_state(store, "ada", "poll")
    assert after is not None
    assert after.last_error == "ValueError: no disk"


async def test_all_schedules_of_an_agent_are_known_also_beyond_a_page(
    store: Store, clock: ManualClock, new_node: NewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_AT_ONCE", 2)
    many = tuple(replace(POLL, name=f"poll-{number}") for number in range(5))
    await new_node(replace(ADA, schedules=many), AgentSpec("bob", schedules=()))
    known = await get_agent_schedule_states(store, "ada", clock=clock)
    assert list(known) == [one.name for one in many]
    assert await get_agent_schedule_states(store, "bob", clock=clock) == {}


async def test_a_run_by_hand_tells_which_item_it_worked_on(
    store: Store, clock: ManualClock
) -> None:
    async def work(info: TriggerInfo) -> TriggerOutcome:
        return TriggerOutcome("failed", error="no hammer", work_item=Item())

    result = await run_schedule(agent=ADA, schedule=POLL, store=store, on_trigger=work, clock=clock)
    assert (result.success, result.error) == (False, "no hammer")
    assert (result.work_item, result.processed_work_item) == (Item(), True)


async def test_a_skip_is_no_success(store: Store, clock: ManualClock) -> None:
    async def nothing(info: TriggerInfo) -> TriggerOutcome:
        return TriggerOutcome.skipped(SkipReason.NO_WORK)

    result = await run_schedule(
        agent=ADA, schedule=POLL, store=store, on_trigger=nothing, clock=clock
    )
    assert (result.success, result.skip_reason) == (False, SkipReason.NO_WORK)


@pytest.mark.parametrize(
    ("second", "reason"), [(POLL, SkipReason.ALREADY_RUNNING), (DAILY, SkipReason.AT_CAPACITY)]
)
async def test_a_run_by_hand_finds_no_room_beside_another(
    store: Store, clock: ManualClock, second: Schedule, reason: SkipReason
) -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def stay(info: TriggerInfo) -> None:
        begun.set()
        await free.wait()

    first = asyncio.create_task(
        run_schedule(agent=ADA, schedule=POLL, store=store, on_trigger=stay, clock=clock)
    )
    await begun.wait()
    refused = await run_schedule(
        agent=ADA, schedule=second, store=store, on_trigger=stay, clock=clock
    )
    assert refused == ScheduleRunResult(False, str(reason), reason)
    free.set()
    assert (await first).success


class Going:
    """A run by hand that goes on until the test ends it, beside a server that has the agent."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.pulse = Pulse()
        self._begun, self._free = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(
            run_schedule(
                agent=ADA, schedule=POLL, store=store, on_trigger=self._stay, clock=clock,
                sleep=self.pulse.sleep,
            )
        )  # fmt: skip

    async def _stay(self, _info: TriggerInfo) -> None:
        self._begun.set()
        await self._free.wait()

    async def begun(self) -> "Going":
        await self._begun.wait()
        return self

    async def end(self) -> ScheduleRunResult:
        self._free.set()
        return await self._task


async def test_a_run_by_hand_shows_that_it_lives(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    by_hand = await Going(store, clock).begun()
    server = await new_node(ADA)
    for _ in range(60):
        clock.advance(5)
        await by_hand.pulse.beat()
        await server.tick()
    assert server.stage.came == []
    result = await by_hand.end()
    assert (result.success, result.outcome) == (True, "succeeded")
    assert result.trigger is not None
    ended = result.trigger.id
    record = await store.read(lambda tx: tx.get_trigger(ended))
    assert record is not None
    assert record.outcome == "succeeded"
    assert [one.id for one in await store.read(lambda tx: tx.living_nodes())] == ["n1"]


async def test_a_run_by_hand_outlives_a_database_that_is_away(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = await Going(store, clock).begun()
    with monkeypatch.context() as away:

        async def refuse(*_: object) -> None:
            raise StorageUnavailable("away")

        away.setattr("rota.scheduler.presence.Presence.keep", refuse)
        await by_hand.pulse.beat()
        await by_hand.pulse.beat()
    clock.advance(5)
    await by_hand.pulse.beat()
    (node,) = await store.read(lambda tx: tx.living_nodes())
    assert node.seen_at == clock.text()
    assert (await by_hand.end()).success


async def test_a_run_by_hand_that_was_taken_for_dead_does_not_say_that_all_went_well(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    by_hand = await Going(store, clock).begun()
    server = await new_node(ADA)
    for _ in range(7):  # it is cut off from the database meanwhile
        clock.advance(5)
        await server.tick()
    result = await by_hand.end()
    assert (result.success, result.outcome) == (False, "lost")
    assert result.error is not None
    assert "taken for dead" in result.error


async def test_states_are_read_and_changed(store: Store, clock: ManualClock) -> None:
    assert await get_schedule_state(store, "ada", "poll") is None
    with pytest.raises(NotFound, match="ada/poll"):
        await update_schedule_state(store, "ada", "poll", last_error="x")

    async def work(info: TriggerInfo) -> None:
        pass

    await run_schedule(agent=ADA, schedule=POLL, store=store, on_trigger=work, clock=clock)
    states = await get_agent_schedule_states(store, "ada")
    assert set(states) == {"daily", "poll"}
    changed = await update_schedule_state(
        store, "ada", "daily", last_run_at="2026-05-01T10:00:00+02:00", last_error="no disk",
        next_run_at="2026-06-01T00:00:00Z",
    )  # fmt: skip
    assert changed.last_run_at == "2026-05-01T08:00:00.000000Z"
    assert changed.next_run_at == "2026-06-01T00:00:00.000000Z"
    assert changed.last_error == "no disk"
    off = await update_schedule_state(store, "ada", "daily", status=ScheduleStatus.DISABLED)
    assert (off.status, off.next_run_at) == (ScheduleStatus.DISABLED, None)
    with pytest.raises(InvalidInput, match="last_run_at"):
        await update_schedule_state(store, "ada", "daily", last_run_at="yesterday")


async def test_a_time_may_be_one_that_the_scheduler_computed(
    store: Store, clock: ManualClock
) -> None:
    async def work(_info: TriggerInfo) -> None:
        pass

    await run_schedule(agent=ADA, schedule=POLL, store=store, on_trigger=work, clock=clock)
    at = calculate_next_trigger(clock.now(), "9m", now=clock.now())
    changed = await update_schedule_state(
        store, "ada", "poll", next_run_at=at, last_run_at=clock.now(), clock=clock
    )
    assert (changed.next_run_at, changed.last_run_at) == (clock.text(540), clock.text())


@pytest.mark.parametrize("status", [ScheduleStatus.IDLE, "idle", "running"])
async def test_a_schedule_that_is_enabled_again_goes_on_from_now(
    store: Store, clock: ManualClock, new_node: NewNode, status: ScheduleStatus | str
) -> None:
    server = await new_node(ADA)
    await server.tick()
    for name in ("poll", "daily"):
        off = await update_schedule_state(store, "ada", name, status="disabled", clock=clock)
        assert (off.status, off.next_run_at) == (ScheduleStatus.DISABLED, None)
    clock.advance(86_400)
    for name in ("poll", "daily"):
        on = await update_schedule_state(store, "ada", name, status=status, clock=clock)
        assert on.status is ScheduleStatus.IDLE
        assert on.slot == on.next_run_at == clock.text(0 if name == "poll" else 12 * 3600)
    before = await get_schedule_state(store, "ada", "poll")
    clock.advance(60)
    again = await update_schedule_state(store, "ada", "poll", status=status, clock=clock)
    assert again == before, "what is enabled stays as it is"
    await server.tick()
    assert [one.schedule for one in server.stage.came] == ["poll", "poll"]


async def test_a_schedule_may_be_enabled_for_a_time(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    await new_node(ADA)
    await update_schedule_state(store, "ada", "poll", status="disabled", clock=clock)
    on = await update_schedule_state(
        store, "ada", "poll", status="idle", next_run_at=clock.text(77), clock=clock
    )
    assert (on.status, on.slot, on.next_run_at) == ("idle", clock.text(77), clock.text(77))


async def test_what_waits_for_its_configuration_does_not_wake_before(
    store: Store, clock: ManualClock
) -> None:
    await Schedules(store, clock).restore("ada", "poll", enabled=False)
    on = await update_schedule_state(store, "ada", "poll", status="idle", clock=clock)
    assert (on.status, on.next_run_at) == (ScheduleStatus.IDLE, None)


@pytest.mark.parametrize("status", ["off", "Idle", ""])
async def test_a_status_that_nobody_knows_is_refused(
    store: Store, clock: ManualClock, new_node: NewNode, status: str
) -> None:
    await new_node(ADA)
    with pytest.raises(InvalidInput, match="write idle, running or disabled"):
        await update_schedule_state(store, "ada", "poll", status=status)
    found = await get_schedule_state(store, "ada", "poll")
    assert found is not None
    assert found.enabled


async def test_a_time_is_refused_where_nobody_would_wake(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    hook = Schedule("ada", "hook", ScheduleType.WEBHOOK)
    await new_node(replace(ADA, schedules=(POLL, hook)))
    await update_schedule_state(store, "ada", "poll", status="disabled")
    with pytest.raises(Refused, match="ada/poll is disabled; say status='idle' with it"):
        await update_schedule_state(store, "ada", "poll", next_run_at=clock.text())
    with pytest.raises(Refused, match="ada/hook is of type webhook"):
        await update_schedule_state(store, "ada", "hook", next_run_at=clock.text())
    off = await update_schedule_state(
        store, "ada", "poll", status="disabled", next_run_at=clock.text(), last_error="x"
    )
    assert (off.next_run_at, off.last_error) == (None, "x"), "a state file has both"


# triggers that are asked for

LONGEST_NAME = "n" * 64


def hooked(agent: str, *names: str) -> AgentSpec:
    return AgentSpec(
        agent, schedules=tuple(Schedule(agent, n, ScheduleType.WEBHOOK) for n in names)
    )


async def test_a_delivery_counts_once_for_each_schedule(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """A tracker tells every receiver of one event by the same id."""
    far = hooked(LONGEST_NAME, LONGEST_NAME)
    await new_node(hooked("ada", "push", "build"), hooked("bob", "push"), far)
    schedules = Schedules(store, clock)
    wanted = [("ada", "push"), ("ada", "build"), ("bob", "push")]
    wanted += [(LONGEST_NAME, LONGEST_NAME)]
    for delivery in ("x" * 149 + "1", "x" * 149 + "2"):  # as long as they may be
        for again in (False, True):
            for agent, name in wanted:
                ask = Ask(agent, name, TriggerKind.WEBHOOK, delivery=delivery)
                assert (await schedules.ask(ask) is None) is again, (agent, name, delivery)


async def test_a_trigger_that_is_asked_for_is_told_and_wakes_the_scheduler(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(ADA)
    schedules = Schedules(store, clock)
    schedules.attach(node.scheduler)
    await node.tick()
    await node.tick()  # the first has run what was due, and was woken by its end
    assert not node.scheduler.woken.is_set()
    asked = await schedules.trigger("ada", "daily", actor="eve")
    assert node.scheduler.woken.is_set()
    (event,) = await store.read(lambda tx: tx.events_after(0, 1000))
    assert (event.type, event.actor, event.reason) == ("schedule.updated", "eve", "triggered")
    assert event.data["trigger_id"] == asked.id


async def test_a_hundred_triggers_of_a_schedule_may_wait(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    await new_node(ADA)
    schedules = Schedules(store, clock)
    for _ in range(100):
        await schedules.trigger("ada", "poll")
    with pytest.raises(Refused, match="100 triggers of ada/poll wait already"):
        await schedules.trigger("ada", "poll")
    await schedules.trigger("ada", "daily")


def test_a_prompt_is_the_schedules_and_the_items() -> None:
    assert build_schedule_prompt(POLL) == "Look."
    assert build_schedule_prompt(DAILY) == "Execute scheduled task."
    assert build_schedule_prompt(POLL, Item()).startswith("Look.\n\n## Work Item: Fix it\n\n")
