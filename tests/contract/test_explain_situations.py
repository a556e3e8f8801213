"""Situations that are easy to make, each with all that is said to it, on both databases."""

import shlex
from collections.abc import AsyncIterator
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from io import StringIO
from textwrap import dedent
from typing import Any

import click
import pytest

from rota.cli.root import rota
from rota.cli.show import ways_of
from rota.model.claims import ClaimedItem, ClaimRequest
from rota.model.errors import Refused
from rota.model.fleet import AgentSpec, Budget, Fleet, Limits
from rota.model.runs import AgentLimits, RunEnd, RunStatus
from rota.model.schedules import Schedule, ScheduleType, SkipReason, TriggerKind
from rota.model.status import Outcome, Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger
from rota.queue.moves import Order
from rota.runner.admission import Admission
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.storage.port import Store
from rota.testing.clock import ManualClock

HOUR = timedelta(hours=1)


def agent(name: str, *schedules: Schedule, work: object = None, **facts: Any) -> AgentSpec:
    """It takes items of the type that it is called after, unless `work` says otherwise."""
    wanted = {"type": "queue", "types": [name]} if work is None else work
    own = tuple(replace(one, agent=name) for one in schedules)
    return AgentSpec(name, work_source=wanted, schedules=own, **facts)  # type: ignore[arg-type]


def every(interval: timedelta = HOUR, name: str = "often") -> Schedule:
    return Schedule("", name, ScheduleType.INTERVAL, interval)


def woken_by(kind: ScheduleType, name: str) -> Schedule:
    return Schedule("", name, kind)


def paste(line: str | None) -> None:
    """As far as the parser: prose beside a command would be arguments that it does not take."""
    if line is None:
        return
    program, *words = shlex.split(line)
    assert program == "rota"
    name: str | None = None
    command: click.Command | None = rota
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(click.Context(command), words)
    assert command is not None
    with suppress(click.exceptions.Exit), redirect_stdout(StringIO()):  # the end of a help page
        command.make_context(name, words)


class Shop:
    """A fleet with one server. An agent that is woken is refused as the runner refuses it, claims
    as the runner claims, and fails."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.fleet = Fleet()
        self.clock = clock
        self.store = store
        self.ledger = Ledger.on(store, node="here", fleet=lambda: self.fleet)
        self.queue = self.ledger.queue
        self._admission = Admission(store, lambda: self.fleet.budget)
        self.server = Scheduler(store, node="here", on_trigger=self._run, clock=clock)

    async def open(self, *agents: AgentSpec, budget: Budget | None = None) -> None:
        self.fleet = Fleet(agents=agents, budget=budget or Budget())
        await self.server.open(agents)

    async def tick(self) -> None:
        await self.server.tick()
        await self.server.idle()

    async def _run(self, info: TriggerInfo) -> TriggerOutcome:
        refused = await self._admission.refusal(info.agent, for_an_item=True)
        if refused is not None:
            return TriggerOutcome.skipped(refused.reason, refused.detail)
        types = (info.agent.work_source or {}).get("types", ())
        got = await self.queue.claim(ClaimRequest(info.agent.name, types=tuple(types)))  # type: ignore[arg-type]
        if not got.items:
            return TriggerOutcome.skipped(SkipReason.NO_WORK)
        await self.ended(got.items[0], info.agent)
        return TriggerOutcome("failed", error="it exited with 1")

    async def ended(self, got: ClaimedItem, spec: AgentSpec, verb: Verb = Verb.RELEASE) -> None:
        run = await self.ledger.runs.begin(spec.name, TriggerKind.SCHEDULE, item=got.item)
        ended = RunEnd(RunStatus.PARTIAL if verb is Verb.BLOCK else RunStatus.FAILED)
        await self.ledger.runs.end(run, ended, spec)
        said = {Verb.BLOCK: "Whose love is it about?"}.get(verb, "it exited with 1")
        order = Order(verb, got.item.id, spec.name, token=got.claim.token, notes=said)
        await self.queue.apply(order)

    async def add(self, kind: str, **facts: Any) -> WorkItem:
        return await self.queue.submit(NewItem(kind, "A poem about spring", **facts))

    async def blocked(self, kind: str) -> WorkItem:
        """A run of the agent that is so called has a question."""
        item = await self.add(kind)
        (got,) = (await self.queue.claim(ClaimRequest(kind, types=(kind,)))).items
        await self.ended(got, self.fleet.agent(kind) or AgentSpec(kind), Verb.BLOCK)
        return item

    async def told(self, item: WorkItem) -> str:
        """As a terminal shows it."""
        reasons = (await self.ledger.views.explain(item.id)).reasons
        for way in (way for one in reasons for way in one.ways):
            paste(way.command)
        lines = ((f"- {one.message}", *ways_of(asdict(one))) for one in reasons)
        return "".join(f"{line}\n" for one in lines for line in one)


@pytest.fixture
async def shop(store: Store, clock: ManualClock) -> AsyncIterator[Shop]:
    made = Shop(store, clock)
    yield made
    await made.server.stop()


def text(words: str) -> str:
    return dedent(words).lstrip("\n")


# paused


async def test_a_paused_agent_is_told_first_and_nobody_is_sent_to_wake_it(shop: Shop) -> None:
    await shop.open(agent("hourly", every()))
    await shop.tick()
    await shop.queue.set_agent("hourly", paused=True)
    for _ in range(7):
        await shop.add("hourly")
    item = await shop.add("hourly")
    paused = text(f"""
        - agent 'hourly' is paused
          rota agent resume hourly
        - it is ready; 7 items stand before it in the line of 'hourly'
          add agents, or raise its priority:
            rota edit {item.id} --priority 1
    """)
    assert await shop.told(item) == paused, "before any schedule has noticed"
    shop.clock.advance(3600)
    await shop.tick()
    assert await shop.told(item) == paused


async def test_a_pause_that_has_ended_is_not_told_any_more(shop: Shop) -> None:
    await shop.open(agent("hourly", every()))
    await shop.queue.set_agent("hourly", paused=True)
    await shop.tick()
    (state,) = await shop.ledger.schedules.find()
    assert state.last_skip_reason is SkipReason.AGENT_PAUSED
    item = await shop.add("hourly")
    await shop.queue.set_agent("hourly", paused=False)
    assert await shop.told(item) == text(f"""
        - it is ready, and first in the line of 'hourly'
        - schedule hourly/often looks for work next at {shop.clock.text(3600)}
          rota schedule trigger hourly/often
    """)


async def test_an_agent_that_is_kept_is_told_last_where_another_one_comes(shop: Shop) -> None:
    takes = {"type": "queue"}
    await shop.open(agent("ada", every(), work=takes), agent("bob", every(), work=takes))
    await shop.queue.set_agent("ada", paused=True)
    item = await shop.add("any")
    assert await shop.told(item) == text(f"""
        - it is ready, and first in the line of 'bob'
        - schedule bob/often is due since {shop.clock.text()}
          rota schedule trigger bob/often
        - agent 'ada' is paused
          rota agent resume ada
    """)


# lines


async def test_only_what_its_agent_takes_stands_before_an_item(shop: Shop) -> None:
    await shop.open(agent("smith", every()), agent("cook", every()))
    for _ in range(9):
        await shop.add("cook", priority=1)
    first, item = await shop.add("smith"), await shop.add("smith")
    assert "- it is ready, and first in the line of 'smith'\n" in await shop.told(first)
    assert text(f"""
        - it is ready; 1 item stands before it in the line of 'smith'
          add agents, or raise its priority:
            rota edit {item.id} --priority 1
    """) in await shop.told(item)


async def test_what_is_its_agent_s_own_stands_before_an_item_too(shop: Shop) -> None:
    await shop.open(agent("smith", every()))
    await shop.add("smith", assigned_agent="smith", priority=1)
    item = await shop.add("smith")
    assert "1 item stands before it in the line of 'smith'" in await shop.told(item)


# nobody wakes, or nobody takes


async def test_an_agent_without_a_schedule_is_named(shop: Shop) -> None:
    await shop.open(agent("ns"), *(agent(name, every()) for name in ("br", "busy")))
    item = await shop.add("ns")
    assert await shop.told(item) == text("""
        - agent 'ns' takes it, and no schedule wakes it
          give 'ns' a schedule in rota.yaml, or start it:
            rota worker --agent ns
        - it is ready, and first in the line of 'ns'
    """)


async def test_what_no_agent_takes_is_told_with_all_that_they_do(shop: Shop) -> None:
    names = ("br", "busy", "cook", "hooky", "smith", "tailor")
    await shop.open(agent("ns"), *(agent(name, every()) for name in names))
    item = await shop.add("poem", priority=5)
    assert await shop.told(item) == text(f"""
        - no agent of this fleet takes type 'poem', only br, busy, cook, hooky, ns and 2 more
          add it to work_source.types of an agent, or give the item another type:
            rota edit {item.id} --type TYPE
    """)
    named = await shop.add("poem", assigned_agent="cook")
    assert "agent 'cook' does not take type 'poem', only cook\n" in await shop.told(named)


@pytest.mark.parametrize(
    ("kind", "what", "address"),
    [
        (ScheduleType.WEBHOOK, "its webhook", "/hooks/hooky/w"),
        (ScheduleType.CHAT, "a message of its chat", "/chat/hooky/w"),
    ],
)
async def test_a_schedule_that_the_clock_does_not_wake_says_what_does(
    shop: Shop, kind: ScheduleType, what: str, address: str
) -> None:
    await shop.open(agent("hooky", woken_by(kind, "w")))
    item = await shop.add("hooky")
    assert await shop.told(item) == text(f"""
        - it is ready, and first in the line of 'hooky'
        - schedule hooky/w takes it, and only {what} wakes it, never the clock
          rota schedule trigger hooky/w
          POST {address}
    """)


# nobody is sent to wake an agent in vain


async def test_a_held_item_is_not_helped_by_waking_its_agent(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    await shop.tick()
    item = await shop.add("poet")
    await shop.queue.hold(item.id, "the author rewrites it")
    assert await shop.told(item) == text(f"""
        - it is held: the author rewrites it
          rota unhold {item.id}
        - schedule poet/often looks for work next at {shop.clock.text(3600)}
    """)


async def test_a_deferred_item_is_not_helped_by_waking_its_agent(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    await shop.tick()
    item = await shop.add("poet", available_at=shop.clock.text(60))
    assert await shop.told(item) == text(f"""
        - it is not available before {shop.clock.text(60)}
          wait, or let it be taken now:
            rota edit {item.id} --available-at now
        - schedule poet/often looks for work next at {shop.clock.text(3600)}
    """)


async def test_an_item_that_waits_for_another_is_not_helped_by_waking_its_agent(
    shop: Shop,
) -> None:
    await shop.open(agent("poet", every()))
    await shop.tick()
    first = await shop.add("poet")
    item = await shop.add("poet", blocked_by=(first.id,))
    assert await shop.told(item) == text(f"""
        - it waits for {first.id} (queued): A poem about spring
          see what keeps that one:
            rota explain {first.id}
        - schedule poet/often looks for work next at {shop.clock.text(3600)}
    """)
    (taken,) = (await shop.queue.claim(ClaimRequest("poet"))).items
    told = await shop.told(item)
    assert f"  wait for it; who works on it:\n    rota explain {first.id}\n" in told
    assert "rota done" not in told, "it would be refused: only its holder may complete it"
    given = Order(
        Verb.HAND_OVER, first.id, "poet", token=taken.claim.token, artifact_url="https://x.test/1"
    )
    await shop.queue.apply(given)
    assert f"  accept it:\n    rota done {first.id}\n" in await shop.told(item)


async def test_a_used_budget_is_told_from_what_was_spent_and_not_from_the_last_look(
    shop: Shop,
) -> None:
    two = Budget(per_day=Limits(runs=2))
    await shop.open(agent("unlucky", every(timedelta(seconds=1)), budget=two))
    item = await shop.add("unlucky")
    for _ in range(2):
        await shop.tick()
        shop.clock.advance(1)
    told = text("""
        - unlucky's budget of the day is used: 2 of 2 runs; until 2026-05-02T00:00:00.000000Z
          wait, or raise budget.per_day in rota.yaml
        - it is ready, and first in the line of 'unlucky'
    """)
    assert await shop.told(item) == told, "before any schedule has noticed"
    await shop.tick()
    assert await shop.told(item) == told
    shop.fleet = Fleet(agents=(replace(shop.fleet.agents[0], budget=Budget()),))
    assert "budget" not in await shop.told(item), "somebody has raised it"


async def test_the_budget_of_the_fleet_is_told_as_the_fleet_s(shop: Shop) -> None:
    one = Budget(per_day=Limits(runs=1))
    await shop.open(agent("unlucky", every()), budget=one)
    item = await shop.add("unlucky")
    await shop.tick()
    assert (await shop.told(item)).startswith(
        "- the fleet's budget of the day is used: 1 of 1 runs; until 2026-05-02T00:00:00.000000Z\n"
    )


async def test_an_open_breaker_sends_nobody_to_wake_its_agent(shop: Shop) -> None:
    await shop.open(agent("unlucky", every()))
    await shop.tick()
    limits = AgentLimits("unlucky", 5, shop.clock.text(60), None, "it exited with 1: boom")
    await shop.store.transact(lambda tx: tx.put_limits(limits, shop.clock.text()))
    item = await shop.add("unlucky")
    assert await shop.told(item) == text(f"""
        - the breaker of 'unlucky' is open until {shop.clock.text(60)}: it exited with 1: boom
          mend what it fails at, then let it go on:
            rota agent resume unlucky
        - it is ready, and first in the line of 'unlucky'
    """)


async def test_a_skip_that_a_later_run_has_passed_is_not_told(shop: Shop) -> None:
    await shop.open(agent("poet", every(timedelta(seconds=1))))
    shop.fleet = Fleet()  # the file is not known here
    item = await shop.add("poet")

    async def out_of_reach(_info: TriggerInfo) -> TriggerOutcome:
        return TriggerOutcome.skipped(SkipReason.SOURCE_ERROR, "the token has expired")

    other = Scheduler(shop.store, node="there", on_trigger=out_of_reach, clock=shop.clock)
    await other.open([agent("poet", every(timedelta(seconds=1)))])
    await other.tick()
    await other.idle()
    await other.stop()
    assert await shop.told(item) == text(f"""
        - schedule poet/often did not start its agent at {shop.clock.text()}: the token has expired
          rota schedule show poet/often
        - it is ready, and first in the line of 'poet'
        - schedule poet/often looks for work next at {shop.clock.text(1)}
    """)
    shop.clock.advance(1)
    await shop.tick()
    assert "token" not in await shop.told(item)


async def test_a_slot_that_nobody_is_seen_to_use_is_told(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    await shop.queue.claim(ClaimRequest("poet", types=("other",)))
    await shop.add("other")
    await shop.queue.claim(ClaimRequest("poet", types=("other",)))
    item = await shop.add("poet")
    assert await shop.told(item) == text("""
        - agent 'poet' has 1 of 1 items in progress
          wait; what it works on:
            rota list --status in_progress --agent poet
          let it do more at once:
            rota agent set poet --max-concurrent 2
        - it is ready, and first in the line of 'poet'
    """)


# named, and looked for


async def test_a_named_agent_that_has_run_is_not_said_never_to_have_asked(shop: Shop) -> None:
    await shop.open(agent("unlucky", every(timedelta(seconds=1))))
    item = await shop.add("unlucky", assigned_agent="unlucky")
    for _ in range(2):
        await shop.tick()
        shop.clock.advance(1)
    assert len(await shop.ledger.runs.find()) == 2
    assert await shop.told(item) == text(f"""
        - only 'unlucky' may take it
          wait, or name nobody:
            rota edit {item.id} --agent none
        - schedule unlucky/often is due since {shop.clock.text()}
          rota schedule trigger unlucky/often
    """)


async def test_an_agent_that_asks_by_itself_takes_what_is_in_its_name_when_it_asks(
    shop: Shop,
) -> None:
    item = await shop.add("chore", assigned_agent="ada")
    assert await shop.told(item) == text(f"""
        - only 'ada' may take it, and does so when it asks for work
          start that agent, or name nobody:
            rota edit {item.id} --agent none
    """)


# no server


async def test_that_no_server_runs_comes_first(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    await shop.tick()
    await shop.add("poet")
    item = await shop.add("poet")
    seen, due = shop.clock.text(), shop.clock.text(3600)
    await shop.server.stop()
    shop.clock.advance(20)
    assert await shop.told(item) == text(f"""
        - no server has looked for work since {seen}; schedule poet/often is due at {due}
          start a server:
            rota up
        - it is ready; 1 item stands before it in the line of 'poet'
          add agents, or raise its priority:
            rota edit {item.id} --priority 1
    """)
    await shop.queue.hold(item.id, "wait")
    assert (await shop.told(item)).startswith("- no server has looked for work since")


# what a run has left


async def test_the_answer_to_a_run_of_the_fleet_is_to_give_the_item_back(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    item = await shop.blocked("poet")
    assert await shop.told(item) == text(f"""
        - it is blocked: Whose love is it about?
          answer it; the next agent reads that:
            rota release {item.id} --notes "YOUR ANSWER"
    """)


async def test_a_run_of_a_worker_leaves_nobody_either(shop: Shop) -> None:
    item = await shop.blocked("poet")  # no schedule, and the last that had it was a run
    assert "rota resume" not in await shop.told(item)
    with pytest.raises(Refused):
        await shop.queue.apply(Order(Verb.RESUME, item.id, "ana"))


async def test_an_item_of_a_program_that_asks_by_itself_may_be_resumed(shop: Shop) -> None:
    item = await shop.add("chore")
    (got,) = (await shop.queue.claim(ClaimRequest("ada"))).items
    await shop.queue.apply(
        Order(Verb.BLOCK, item.id, "ada", token=got.claim.token, notes="Which of the two?")
    )
    assert await shop.told(item) == text(f"""
        - it is blocked: Which of the two?
          go on with it:
            rota resume {item.id}
          give it to somebody else:
            rota release {item.id}
    """)
    resumed = await shop.queue.apply(Order(Verb.RESUME, item.id, "ada"))
    assert resumed.item.status is Status.IN_PROGRESS


async def test_nobody_jams_an_agent_of_the_fleet_by_resuming_its_item(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    item = await shop.blocked("poet")
    with pytest.raises(Refused) as refused:
        await shop.queue.apply(Order(Verb.RESUME, item.id, "ana"))
    assert refused.value.message == (
        f"'poet' is woken by the fleet, and nobody would go on with {item.id}; give it back with"
        f' your answer: rota release {item.id} --notes "…". Who does it himself takes a lease, or'
        " forces it"
    )
    with pytest.raises(Refused):
        await shop.queue.change(Order(Verb.RELEASE, item.id, "ana"), Status.IN_PROGRESS, {})
    assert (await shop.ledger.views.item(item.id)).status is Status.BLOCKED
    answer = Order(Verb.RELEASE, item.id, "ana", notes="That of cats.")
    assert (await shop.queue.apply(answer)).item.status is Status.QUEUED
    await shop.tick()
    assert len(await shop.ledger.runs.find()) == 2, "the fleet has gone on with it"


async def test_who_takes_a_lease_may_resume_an_item_of_the_fleet(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    item = await shop.blocked("poet")
    lease = shop.queue.lease(60)
    moved = await shop.queue.apply(Order(Verb.RESUME, item.id, "poet", lease=lease))
    assert moved.claim is not None
    assert (await shop.told(item)).startswith("- 'poet' works on it; its lease runs until")


async def test_what_is_resumed_by_force_is_not_said_to_be_worked_on(shop: Shop) -> None:
    await shop.open(agent("poet", every()))
    item = await shop.blocked("poet")
    await shop.queue.apply(Order(Verb.RESUME, item.id, "ana", force=True))
    since = shop.clock.text()
    assert await shop.told(item) == text(f"""
        - it was started for 'poet' at {since}, without a lease and without a run, and nothing was \
heard of it since; it is blocked if that stays so until {shop.clock.text(1800)}
          give it to somebody else:
            rota release {item.id}
          if you are at it, say so:
            rota note {item.id} TEXT
    """)
    shop.clock.advance(60)
    await shop.queue.note(item.id, "two lines are written", actor="ana")
    assert await shop.told(item) == text(f"""
        - 'poet' has it since {since}, without a lease; it was last updated at {shop.clock.text()}
          take it away:
            rota release {item.id}
    """)


# what waits for a person


async def in_review(shop: Shop, address: str) -> WorkItem:
    item = await shop.add("chore")
    (got,) = (await shop.queue.claim(ClaimRequest("ada"))).items
    token = got.claim.token
    order = Order(Verb.HAND_OVER, item.id, "ada", token=token, artifact_url=address)
    return (await shop.queue.apply(order)).item


async def test_nobody_is_sent_to_decide_a_review_where_nobody_would_see_it(shop: Shop) -> None:
    address = "https://github.com/octocat/hello/pull/3"
    item = await in_review(shop, address)
    nobody = "nobody watches this address, because no source of rota.yaml has this repository"
    assert await shop.told(item) == text(f"""
        - it waits for the review of {address}: {nobody}
          accept it:
            rota done {item.id}
          have it done again:
            rota reopen {item.id}
    """)
    await shop.ledger.outside.note_state("github:octocat/hello", polled_at=shop.clock.text())
    assert await shop.told(item) == text(f"""
        - it waits for the review of {address}: github:octocat/hello has not looked at it yet
          merge it or close it there
          accept it:
            rota done {item.id}
          have it done again:
            rota reopen {item.id}
    """)


async def test_a_blocker_that_has_failed_is_tried_again_or_taken_off(shop: Shop) -> None:
    first = await shop.add("chore")
    item = await shop.add("poem", blocked_by=(first.id,))
    (got,) = (await shop.queue.claim(ClaimRequest("ada"))).items
    failed = Order(
        Verb.FAIL, first.id, "ada", token=got.claim.token, outcome=Outcome.FAILED, notes="no"
    )
    await shop.queue.apply(failed)
    assert await shop.told(first) == text(f"""
        - it failed at {shop.clock.text()}: no
          rota retry {first.id}
    """)
    waits = text(f"""
        - it waits for {first.id}, which is failed; only a completed blocker sets it free
          have that one tried again:
            rota retry {first.id}
          take the link off:
            rota edit {item.id} --blocked-by none
    """)
    assert (await shop.told(item)).startswith(waits)


async def test_a_lease_is_taken_away_while_it_runs_and_swept_once_it_has_lapsed(
    shop: Shop,
) -> None:
    item = await shop.add("chore")
    await shop.queue.claim(ClaimRequest("ada", lease_seconds=60))
    until = shop.clock.text(60)
    assert await shop.told(item) == text(f"""
        - 'ada' works on it; its lease runs until {until}
          take it away:
            rota release {item.id} --force
    """)
    shop.clock.advance(61)
    assert await shop.told(item) == text(f"""
        - 'ada' held it and let the lease lapse at {until}
          a running server brings it back within a second; without one:
            rota stale
    """)
