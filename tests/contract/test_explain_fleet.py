"""Why is nobody working on this? What the fleet has to say to it, on both databases."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from rota.model.claims import ClaimRequest
from rota.model.fleet import AgentSpec
from rota.model.runs import AgentLimits
from rota.model.schedules import Schedule, ScheduleType, SkipReason, TriggerKind
from rota.model.sources import Mirrored
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


async def woken(store: Store, clock: ManualClock, outcome: TriggerOutcome) -> Scheduler:
    """The schedule wakes once, and this comes of it; its server lives on."""

    async def answer(_info: TriggerInfo) -> TriggerOutcome:
        return outcome

    scheduler = Scheduler(store, node="here", on_trigger=answer, clock=clock)
    await scheduler.open([SMITH])
    await scheduler.tick()
    await scheduler.idle()
    return scheduler


async def test_an_item_hears_who_looks_for_work_next(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    await woken(store, clock, TriggerOutcome.skipped(SkipReason.NO_WORK))
    left = await reasons(Ledger.on(store, deserted=lambda: "here"), item)
    assert list(left) == ["no_server", "first_in_line"]
    told = await reasons(ledger, item)
    assert list(told) == ["first_in_line", "next_wake"]
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
    assert list(told) == ["budget_exhausted", "first_in_line", "next_wake"]
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


def taking(name: str, **wanted: object) -> AgentSpec:
    rhythm = Schedule(name, "often", ScheduleType.INTERVAL, timedelta(minutes=5))
    return AgentSpec(name, work_source={"type": "queue", **wanted}, schedules=(rhythm,))


async def test_only_agents_that_take_such_an_item_are_named(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    project = await ledger.queue.create_project("gates")
    crew = [
        taking("ada", types=["slow", "fast"]),
        taking("bob", types=("slow",), labels=["red"]),
        taking("cyd", types=["odd"], project_id=project.id),
    ]
    scheduler = Scheduler(store, node="here", clock=clock)
    await scheduler.open(crew)
    submit = ledger.queue.submit

    slow = await reasons(ledger, await submit(NewItem("slow", "Mend the gate")))
    assert "ada/often" in slow["next_wake"].message
    sloow = await submit(NewItem("sloow", "Mend the gate"))
    told = await reasons(ledger, sloow)
    assert list(told) == ["no_taker"]
    assert told["no_taker"].message == (
        "no agent of this fleet takes type 'sloow', only fast, odd, slow"
    )
    assert told["no_taker"].fix == (
        "add it to work_source.types of an agent, or give the item another type:"
        f" rota edit {sloow.id} --type TYPE"
    )
    odd = await reasons(ledger, await submit(NewItem("odd", "Mend the gate")))
    assert odd["no_taker"].message == (
        "no agent of this fleet takes it, only type odd, project "
        f"{project.id}; or type slow or fast; or type slow, label red"
    )
    assert "next_wake" not in odd
    plain = await reasons(ledger, await submit(NewItem("slow", "Mend", assigned_agent="bob")))
    assert plain["no_taker"].message == "agent 'bob' does not take it, only type slow, label red"
    red = NewItem("slow", "Mend", assigned_agent="bob", labels=("red",))
    assert "bob/often" in (await reasons(ledger, await submit(red)))["next_wake"].message


async def test_an_item_of_a_tracker_hears_only_of_who_works_from_its_repository(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    source = {"type": "forgejo", "repo": "Acme/Gates", "api_url": "https://git.example"}
    scheduler = Scheduler(store, node="here", clock=clock)
    await scheduler.open([replace(SMITH, work_source=source)])

    async def mirrored(repo: str) -> WorkItem:
        place = f"gitea:git.example/{repo}"
        issue = NewItem("issue", "Mend the gate", source=place, source_ref="7")
        await ledger.outside.mirror([Mirrored(issue)])
        found = await ledger.outside.standing(place, "7")
        assert found is not None
        return found

    ours = await reasons(ledger, await mirrored("acme/gates"))
    assert "smith/often" in ours["next_wake"].message
    told = await reasons(ledger, await mirrored("acme/yates"))
    assert told["no_taker"].message == (
        "no agent of this fleet works from gitea:git.example/acme/yates"
    )
    assert "next_wake" not in told


async def test_an_item_hears_that_the_only_schedule_is_at_work_on_another(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    going = asyncio.Event()

    async def work(_info: TriggerInfo) -> None:
        await going.wait()

    two = [replace(SMITH.schedules[0], name=name) for name in ("first", "second")]
    agent = replace(SMITH, schedules=tuple(two[:1]), max_concurrent=2)
    await ledger.queue.set_agent("smith", max_concurrent=2)
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    scheduler = Scheduler(store, node="here", on_trigger=work, clock=clock)
    await scheduler.open([agent])
    await scheduler.tick()
    told = await reasons(ledger, item)
    assert list(told) == ["first_in_line", "already_running"]
    assert "schedule smith/first runs already, and does not overlap itself" in (
        told["already_running"].message
    )
    assert "which has a slot free, one more schedule" in (told["already_running"].fix or "")
    await scheduler.set_agents([replace(agent, schedules=tuple(two))])
    assert "smith/second" in (await reasons(ledger, item))["next_wake"].message
    going.set()
    await scheduler.stop()


async def test_an_item_hears_that_no_server_looks_for_work(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    scheduler = await woken(store, clock, TriggerOutcome.skipped(SkipReason.NO_WORK))
    seen, due = clock.text(), clock.text(300)
    clock.advance(20)  # nobody has stopped the server, and it is not seen any more
    told = await reasons(ledger, item)
    assert list(told) == ["no_server", "first_in_line"]
    assert told["no_server"].message == (
        f"no server has looked for work since {seen}; schedule smith/often is due at {due}"
    )
    clock.advance(600)
    told = await reasons(ledger, item)
    assert told["no_server"].message.endswith(f"schedule smith/often was due at {due}")
    assert told["no_server"].fix == "start a server: rota up"
    await scheduler.stop()
    assert "no_server" in await reasons(ledger, item)


async def test_an_open_breaker_and_a_used_quota_are_told_with_their_ends(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    scheduler = await woken(store, clock, TriggerOutcome("succeeded"))
    limits = AgentLimits("smith", 5, clock.text(60), clock.text(90), "no nails")
    await store.transact(lambda tx: tx.put_limits(limits, clock.text()))
    told = await reasons(ledger, item)
    assert clock.text(60) in told["breaker_open"].message
    assert "no nails" in told["breaker_open"].message
    assert clock.text(90) in told["usage_limit"].message
    clock.advance(120)
    await scheduler.tick()
    assert list(await reasons(ledger, item)) == ["first_in_line", "next_wake"]


async def test_a_disabled_schedule_is_told(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    await woken(store, clock, TriggerOutcome("succeeded"))
    await store.transact(lambda tx: tx.disable_schedule("smith", "often"))
    told = await reasons(ledger, item)
    assert list(told) == ["schedule_disabled", "first_in_line"]
    assert told["schedule_disabled"].fix == "rota schedule enable smith/often"


async def test_an_item_in_work_names_its_run(ledger: Ledger) -> None:
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    (claimed,) = (await ledger.queue.claim(ClaimRequest("smith"))).items
    run = await ledger.runs.begin("smith", TriggerKind.MANUAL, item=claimed.item)
    told = await reasons(ledger, item)
    assert list(told) == ["in_progress", "run"]
    assert told["run"].fix == f"rota run log {run.id} --follow"


async def test_an_item_hears_that_the_server_of_its_run_is_gone(
    store: Store, clock: ManualClock
) -> None:
    ledger = Ledger.on(store, node="here")
    scheduler = Scheduler(store, node="here", clock=clock)
    await scheduler.open([])
    seen = clock.text()
    item = await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    (claimed,) = (await ledger.queue.claim(ClaimRequest("smith", lease_seconds=60))).items
    run = await ledger.runs.begin("smith", TriggerKind.MANUAL, item=claimed.item)
    clock.advance(10)
    assert list(await reasons(ledger, item)) == ["in_progress", "run"]
    assert list(await reasons(Ledger.on(store, deserted=lambda: "there"), item))[1] == "run"
    deserted = await reasons(Ledger.on(store, deserted=lambda: "here"), item)
    assert list(deserted) == ["server_gone"], "nobody holds the place that it ran at"
    clock.advance(10)
    told = await reasons(ledger, item)
    assert list(told) == ["server_gone"]
    assert told["server_gone"].message == (
        f"the server of run {run.id} of 'smith' has not been seen since {seen}; the item comes"
        " back when that server starts again, or one elsewhere after its lease has ended at"
        f" {clock.text(40)}"
    )
    clock.advance(60)
    assert list(await reasons(ledger, item)) == ["server_gone", "lease_expired"]
    await scheduler.tick()
    assert list(await reasons(ledger, item)) == ["lease_expired", "run"]
