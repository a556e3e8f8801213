"""Why is nobody working on this? What the fleet has to say to it, on both databases."""

from dataclasses import replace
from datetime import timedelta

from rota.model.claims import ClaimRequest
from rota.model.fleet import AgentSpec
from rota.model.runs import AgentLimits
from rota.model.schedules import Schedule, ScheduleType, SkipReason, TriggerKind
from rota.model.work import NewItem, WorkItem
from rota.queue.ledger import Ledger
from rota.queue.reasons import Reason
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.storage.port import Store
from rota.testing.clock import ManualClock

SMITH = AgentSpec(
    "smith",
    work_source={"type": "queue"},
    schedules=(Schedule("smith", "often", ScheduleType.INTERVAL, timedelta(minutes=5)),),
)


async def reasons(ledger: Ledger, item: WorkItem) -> dict[str, Reason]:
    told = await ledger.views.explain(item.id)
    assert told.summary == told.reasons[0].message
    return {reason.code: reason for reason in told.reasons}


async def woken(store: Store, clock: ManualClock, outcome: TriggerOutcome) -> None:
    """The schedule wakes once, and this comes of it."""

    async def answer(_info: TriggerInfo) -> TriggerOutcome:
        return outcome

    scheduler = Scheduler(store, node="here", on_trigger=answer, clock=clock)
    await scheduler.open([SMITH])
    await scheduler.tick()
    await scheduler.stop()


async def test_an_item_hears_who_looks_for_work_next(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    await woken(store, clock, TriggerOutcome.skipped(SkipReason.NO_WORK))
    told = await reasons(ledger, item)
    assert list(told) == ["nobody_asked", "next_wake"]
    assert told["next_wake"].message == (
        f"schedule smith/often looks for work next at {clock.text(300)}"
    )
    assert told["next_wake"].fix == "rota schedule trigger smith/often"


async def test_an_item_hears_first_what_keeps_agents_from_looking(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    await woken(store, clock, TriggerOutcome.skipped(SkipReason.BUDGET_EXHAUSTED, "3 of 3 runs"))
    told = await reasons(ledger, item)
    assert list(told) == ["budget_exhausted", "nobody_asked", "next_wake"]
    assert told["budget_exhausted"].message == (
        f"schedule smith/often did not start its agent at {clock.text()}: 3 of 3 runs"
    )
    (state,) = await ledger.schedules.find()
    assert state.last_skip_detail == "3 of 3 runs"


async def test_an_agent_that_takes_no_such_items_is_not_named(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    idle = replace(SMITH, work_source=None)
    scheduler = Scheduler(store, node="here", clock=clock)
    await scheduler.open([idle])
    await scheduler.stop()
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    assert list(await reasons(ledger, item)) == ["nobody_asked"]


async def test_an_open_breaker_and_a_used_quota_are_told_with_their_ends(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    await woken(store, clock, TriggerOutcome("succeeded"))
    limits = AgentLimits("smith", 5, clock.text(60), clock.text(90), "no nails")
    await store.transact(lambda tx: tx.put_limits(limits, clock.text()))
    told = await reasons(ledger, item)
    assert clock.text(60) in told["breaker_open"].message
    assert "no nails" in told["breaker_open"].message
    assert clock.text(90) in told["usage_limit"].message
    clock.advance(120)
    assert list(await reasons(ledger, item)) == ["nobody_asked", "next_wake"]


async def test_a_disabled_schedule_is_told(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    await woken(store, clock, TriggerOutcome("succeeded"))
    await store.transact(lambda tx: tx.disable_schedule("smith", "often"))
    told = await reasons(ledger, item)
    assert list(told) == ["schedule_disabled", "nobody_asked"]
    assert told["schedule_disabled"].fix == "rota schedule enable smith/often"


async def test_an_item_in_work_names_its_run(ledger: Ledger) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    (claimed,) = (await ledger.queue.claim(ClaimRequest("smith"))).items
    run = await ledger.runs.begin("smith", TriggerKind.MANUAL, item=claimed.item)
    told = await reasons(ledger, item)
    assert list(told) == ["in_progress", "run"]
    assert told["run"].fix == f"rota run log {run.id} --follow"
