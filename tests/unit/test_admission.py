"""May an agent run now, and what does a run's end mean for the next one?"""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rota.app import open_store
from rota.model.agents import Agent
from rota.model.errors import InvalidInput
from rota.model.fleet import AgentSpec, Breaker, Budget, Limits
from rota.model.runs import AgentLimits, Run, RunEnd, RunStatus, Spent, Usage
from rota.model.schedules import SkipReason, TriggerKind
from rota.queue.ledger import Ledger
from rota.runner.admission import USAGE_PAUSE_SECONDS, Admission, Standing, after
from rota.storage.port import Store
from rota.testing.clock import ManualClock

ADA = AgentSpec("ada", breaker=Breaker(3, timedelta(minutes=30)))
FAILED = RunEnd(RunStatus.FAILED, error="exit code 2")


# what a run's end means


def test_failures_in_a_row_open_the_breaker() -> None:
    clock = ManualClock()
    limits = AgentLimits("ada")
    for failures in (1, 2):
        limits = after(limits, ADA, FAILED, clock.now())
        assert limits == AgentLimits("ada", failures, None, None, "exit code 2")
    opened = after(limits, ADA, RunEnd(RunStatus.TIMED_OUT, error="too long"), clock.now())
    assert opened == AgentLimits("ada", 3, clock.text(1800), None, "too long")
    clock.advance(1801)
    again = after(opened, ADA, FAILED, clock.now())
    assert again.breaker_until == clock.text(1800), "the first try after the pause failed too"


@pytest.mark.parametrize("status", [RunStatus.SUCCEEDED, RunStatus.PARTIAL])
def test_a_good_run_forgets_all_failures(status: RunStatus) -> None:
    clock = ManualClock()
    limits = AgentLimits("ada", 7, clock.text(), clock.text(), "exit code 2")
    assert after(limits, ADA, RunEnd(status), clock.now()) == AgentLimits("ada")


@pytest.mark.parametrize("status", [RunStatus.CANCELLED, RunStatus.CLAIM_LOST, RunStatus.LOST])
def test_an_end_from_outside_says_nothing_about_the_agent(status: RunStatus) -> None:
    limits = AgentLimits("ada", 2)
    assert after(limits, ADA, RunEnd(status), ManualClock().now()) == limits


def test_without_a_breaker_nothing_opens() -> None:
    agent = replace(ADA, breaker=Breaker(failures=0))
    limits = after(AgentLimits("ada", 99), agent, FAILED, ManualClock().now())
    assert (limits.failures, limits.breaker_until) == (100, None)


def test_a_used_up_quota_pauses_until_it_is_back() -> None:
    clock = ManualClock()
    end = RunEnd(
        RunStatus.FAILED, error="limit", usage_limit=True, usage_limit_until=clock.text(600)
    )
    limits = after(AgentLimits("ada", 2), ADA, end, clock.now())
    assert limits == AgentLimits("ada", 2, None, clock.text(600), "limit"), "it did nothing wrong"


@pytest.mark.parametrize("failures", [0, 2])
def test_a_run_that_fails_beside_it_does_not_bring_a_quota_back(failures: int) -> None:
    """Of two runs at once one met the quota first, and the other ends in another way."""
    clock = ManualClock()
    limits = AgentLimits("ada", failures, None, clock.text(600), "limit")
    assert after(limits, ADA, FAILED, clock.now()).usage_until == clock.text(600)


def test_a_quota_that_is_used_up_closes_no_breaker() -> None:
    clock = ManualClock()
    limits = AgentLimits("ada", 3, clock.text(1800), None, "exit code 2")
    end = RunEnd(RunStatus.FAILED, usage_limit=True, usage_limit_until=clock.text(600))
    assert after(limits, ADA, end, clock.now()).breaker_until == clock.text(1800)


@pytest.mark.parametrize("told", [None, -60])
def test_a_quota_that_does_not_say_when_is_tried_again_after_an_hour(told: int | None) -> None:
    clock = ManualClock()
    until = None if told is None else clock.text(told)
    end = RunEnd(RunStatus.FAILED, usage_limit=True, usage_limit_until=until)
    limits = after(AgentLimits("ada"), ADA, end, clock.now())
    assert limits.usage_until == clock.text(USAGE_PAUSE_SECONDS)


def test_who_does_not_want_to_pause_does_not() -> None:
    agent = replace(ADA, pause_on_usage_limit=False)
    end = RunEnd(RunStatus.FAILED, usage_limit=True)
    assert after(AgentLimits("ada"), agent, end, ManualClock().now()) == AgentLimits("ada")


# may it run?


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    async with open_store(str(tmp_path / "rota.db"), clock) as opened:
        yield opened


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger.on(store, node="here")


async def a_run(
    ledger: Ledger, end: RunEnd | None = None, agent: str = "ada", spec: AgentSpec | None = None
) -> Run:
    run = await ledger.runs.begin(agent, TriggerKind.SCHEDULE)
    if end is not None:
        assert await ledger.runs.end(run, end, spec)
    return run


async def reason(ledger: Ledger, agent: AgentSpec = ADA) -> SkipReason | None:
    refusal = await ledger.admission.refusal(agent)
    return refusal.reason if refusal else None


async def test_an_agent_nobody_keeps_may_run(ledger: Ledger) -> None:
    assert await reason(ledger) is None


async def test_a_paused_agent_may_not_until_it_is_resumed(ledger: Ledger) -> None:
    paused: Agent = await ledger.queue.set_agent("ada", paused=True)
    assert paused.paused
    refusal = await ledger.admission.refusal(ADA)
    assert refusal is not None
    assert refusal.reason is SkipReason.AGENT_PAUSED
    assert "rota agent resume ada" in refusal.detail
    await ledger.queue.set_agent("ada", paused=False)
    assert await reason(ledger) is None


async def test_the_breaker_keeps_an_agent_until_its_time_or_a_word(
    ledger: Ledger, clock: ManualClock
) -> None:
    for _ in range(3):
        assert await reason(ledger) is None
        await a_run(ledger, FAILED, spec=ADA)
    assert await reason(ledger) is SkipReason.BREAKER_OPEN
    clock.advance(1800)
    assert await reason(ledger) is None
    await a_run(ledger, FAILED, spec=ADA)
    assert await reason(ledger) is SkipReason.BREAKER_OPEN
    assert await ledger.admission.resume("ada")
    assert await reason(ledger) is None
    assert not await ledger.admission.resume("ada")
    assert not await ledger.admission.resume("nobody")


async def test_a_quota_keeps_an_agent_until_it_is_back(ledger: Ledger, clock: ManualClock) -> None:
    end = RunEnd(RunStatus.FAILED, usage_limit=True, usage_limit_until=clock.text(600))
    await a_run(ledger, end, spec=ADA)
    assert await reason(ledger) is SkipReason.USAGE_LIMIT
    assert (await ledger.admission.standing("ada")).limits.usage_until == clock.text(600)
    clock.advance(600)
    assert await reason(ledger) is None
    assert (await ledger.admission.standing("ada")).limits.usage_until is None


async def test_who_may_not_run_may_not_take_an_item_either(ledger: Ledger) -> None:
    await ledger.queue.set_agent("ada", paused=True, max_in_review=5)
    refusal = await ledger.admission.refusal(ADA, for_an_item=True)
    assert refusal is not None
    assert refusal.reason is SkipReason.AGENT_PAUSED


async def test_a_days_budget_keeps_an_agent_until_midnight(
    ledger: Ledger, clock: ManualClock
) -> None:
    agent = replace(ADA, budget=Budget(per_day=Limits(usd=1.0)))
    await a_run(ledger, RunEnd(RunStatus.SUCCEEDED, usage=Usage(cost_usd=0.6)))
    assert await reason(ledger, agent) is None
    await a_run(ledger, RunEnd(RunStatus.SUCCEEDED, usage=Usage(cost_usd=0.6)))
    refusal = await ledger.admission.refusal(agent)
    assert refusal is not None
    assert refusal.reason is SkipReason.BUDGET_EXHAUSTED
    assert "ada's budget of the day is used: 1.20 of 1.00 USD" in refusal.detail
    clock.advance(12 * 3600)
    assert await reason(ledger, agent) is None


async def test_the_fleets_budget_counts_all_agents(store: Store) -> None:
    budget = Budget(per_day=Limits(runs=2))
    admission = Admission(store, lambda: budget)
    ledger = Ledger.on(store)
    await a_run(ledger, agent="bob")
    assert await admission.refusal(ADA) is None
    await a_run(ledger, agent="carl")
    refusal = await admission.refusal(ADA)
    assert refusal is not None
    assert "the fleet's budget" in refusal.detail


# how agents stand


async def test_standings_tell_what_runs_what_was_spent_and_what_keeps(
    ledger: Ledger, clock: ManualClock
) -> None:
    usage = Usage(100, 20, 0.5)
    await a_run(ledger, RunEnd(RunStatus.SUCCEEDED, usage=usage))
    clock.advance(24 * 3600)
    for _ in range(3):
        await a_run(ledger, replace(FAILED, usage=usage), spec=ADA)
    await a_run(ledger, agent="bob")
    standings = await ledger.admission.standings(["carl"])
    limits = AgentLimits("ada", 3, clock.text(1800), None, "exit code 2")
    assert standings == {
        "ada": Standing(limits, 0, Spent(3, 0.0, 360, 1.5)),
        "bob": Standing(AgentLimits("bob"), 1, Spent(runs=1)),
        "carl": Standing(AgentLimits("carl")),
    }
    assert await ledger.admission.standing("ada") == standings["ada"]
    clock.advance(1800)
    assert (await ledger.admission.standing("ada")).limits.breaker_until is None


async def test_a_day_begins_where_it_is_asked_for(ledger: Ledger, clock: ManualClock) -> None:
    await a_run(ledger)  # at noon
    clock.advance(11 * 3600)
    assert (await ledger.admission.standing("ada", "UTC")).spent.runs == 1
    assert (await ledger.admission.standing("ada", "Europe/Berlin")).spent.runs == 0
    with pytest.raises(InvalidInput, match="timezone"):
        await ledger.admission.standing("ada", "Mars/Olympus")
