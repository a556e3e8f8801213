"""A clock that is a month ahead for a moment: nothing that was acknowledged is forgotten by it."""

import asyncio

from rota.model.fleet import AgentSpec
from rota.model.schedules import Schedule, ScheduleType
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.scheduler.loop import TIDY_EVERY
from rota.storage.port import Store
from rota.testing.clock import ManualClock

MONTH = 31 * 86_400


async def test_a_key_is_remembered_by_a_clock_that_was_wrong_once(
    ledger: Ledger, clock: ManualClock
) -> None:
    (item,) = (await ledger.queue.submit_many([NewItem("chore", "Pay the bill")], key="p")).items
    await ledger.sweeper.prune()
    clock.advance(MONTH)
    await ledger.sweeper.prune()
    clock.advance(-MONTH)
    await ledger.sweeper.prune()
    again = await ledger.queue.submit_many([NewItem("chore", "Pay the bill")], key="p")
    assert (again.repeated, again.items[0].id) == (True, item.id)


async def test_a_key_is_forgotten_by_a_clock_that_stays(ledger: Ledger, clock: ManualClock) -> None:
    await ledger.queue.submit_many([NewItem("chore", "Pay the bill")], key="p")
    clock.advance(MONTH)
    await ledger.sweeper.prune()
    assert await ledger.sweeper.prune() == 1


async def test_a_slot_is_not_run_again_by_a_clock_that_was_wrong_once(
    store: Store, clock: ManualClock
) -> None:
    ran: list[str] = []

    async def work(info: TriggerInfo) -> TriggerOutcome:
        ran.append(info.trigger.slot)
        return TriggerOutcome("succeeded")

    async def checked(seconds: float) -> None:
        clock.advance(seconds)
        await scheduler.tick()
        await scheduler.idle()
        await scheduler.tick()

    daily = Schedule("smith", "daily", ScheduleType.CRON, cron="1 12 * * *")
    scheduler = Scheduler(store, node="n", on_trigger=work, clock=clock)
    await scheduler.open([AgentSpec("smith", schedules=(daily,))])
    await checked(0)
    await checked(61)  # 12:01:01
    assert len(ran) == 1
    await checked(MONTH)
    await checked(-MONTH - 30)  # 12:00:31: the clock is right again
    await checked(60)
    await scheduler.stop()
    assert len(ran) == len(set(ran))


async def test_a_slot_is_not_run_again_after_a_start_with_a_clock_that_was_wrong(
    store: Store, clock: ManualClock
) -> None:
    """Whoever has just come has looked at no clock before, and forgets nothing by this one."""
    ran: list[str] = []

    async def work(info: TriggerInfo) -> TriggerOutcome:
        ran.append(info.trigger.slot)
        return TriggerOutcome("succeeded")

    async def started(seconds: float) -> None:
        clock.advance(seconds)
        scheduler = Scheduler(store, node="n", on_trigger=work, clock=clock)
        await scheduler.open([AgentSpec("smith", schedules=(daily,))])
        for _ in range(2):
            await scheduler.tick()
            await scheduler.idle()
        await scheduler.stop()

    daily = Schedule("smith", "daily", ScheduleType.CRON, cron="1 12 * * *")
    await started(0)
    await started(61)  # 12:01:01
    assert len(ran) == 1
    await started(MONTH)
    await started(-MONTH - 30)  # 12:00:31: the clock is right again
    await started(60)
    assert len(ran) == len(set(ran))


async def test_a_trigger_that_waits_outlives_a_clock_that_was_wrong_once(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    ran: list[str] = []
    going, done = asyncio.Event(), asyncio.Event()

    async def work(info: TriggerInfo) -> TriggerOutcome:
        ran.append(info.schedule.name)
        if info.schedule.name == "long":
            going.set()
            await done.wait()
        return TriggerOutcome("succeeded")

    yearly = Schedule("smith", "long", ScheduleType.CRON, cron="0 0 1 1 *")
    hook = Schedule("smith", "hook", ScheduleType.WEBHOOK)
    scheduler = Scheduler(store, node="n", on_trigger=work, clock=clock)
    await scheduler.open([AgentSpec("smith", max_concurrent=1, schedules=(yearly, hook))])
    ledger.schedules.attach(scheduler)
    await ledger.schedules.trigger("smith", "long")
    await scheduler.tick()
    await going.wait()
    asked = await ledger.schedules.trigger("smith", "hook", "deploy 1.2")
    await scheduler.tick()
    clock.advance(MONTH + TIDY_EVERY.total_seconds())
    await scheduler.tick()
    clock.advance(-MONTH)
    await scheduler.tick()
    assert (await ledger.schedules.trigger_record(asked.id)).outcome is None
    done.set()
    await scheduler.idle()
    await scheduler.tick()
    await scheduler.idle()
    await scheduler.stop()
    assert ran == ["long", "hook"]
