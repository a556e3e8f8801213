"""May an agent run now? Asked before anything is taken for it; also answers people who ask why
not."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.model.agents import Agent, room_for_reviews
from rota.model.clock import from_text, to_text
from rota.model.errors import InvalidInput
from rota.model.fleet import AgentSpec, Budget
from rota.model.runs import AgentLimits, RunEnd, RunFilter, RunStatus, Spent, in_a_row
from rota.model.schedules import SkipReason
from rota.model.work import MAX_PAGE
from rota.runner.budget import day_began, used_up
from rota.scheduler.presence import unseen
from rota.storage.port import Store, Transaction

# Ends that say nothing about the agent itself.
_NO_VERDICT = frozenset({RunStatus.CANCELLED, RunStatus.CLAIM_LOST, RunStatus.LOST})
_GOOD = frozenset({RunStatus.SUCCEEDED, RunStatus.PARTIAL})
# How long to wait for a quota when nobody knows when it comes back.
USAGE_PAUSE_SECONDS = 3600.0
_OPEN = RunFilter(statuses=(RunStatus.RUNNING,))


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: SkipReason
    detail: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an agent. Limits that are over are omitted."""

    limits: AgentLimits
    running: int = 0
    spent: Spent = field(default_factory=Spent)  # since the day began
    unseen_since: str | None = None  # some of its runs are of a server that is gone since then


class Admission:
    def __init__(self, store: Store, budget: Callable[[], Budget] = Budget) -> None:
        """`budget` returns what all agents together may spend; it is called each time."""
        self._store = store
        self._clock = store.clock
        self._budget = budget

    async def refusal(self, agent: AgentSpec, *, for_an_item: bool = False) -> Refusal | None:
        """`for_an_item`: a run without an item adds nothing to review, so that limit does not
        apply."""
        now = self._clock.now()

        def body(tx: Transaction) -> Refusal | None:
            refused = self._refusal(tx, agent, now)
            return _reviews(tx, agent.name) if refused is None and for_an_item else refused

        return await self._store.read(body)

    def _refusal(self, tx: Transaction, agent: AgentSpec, now: datetime) -> Refusal | None:
        return (
            _paused(tx.get_agent(agent.name))
            or _limited(tx.get_limits(agent.name), to_text(now))
            or _spent(tx, agent.budget, now, agent.name)
            or _spent(tx, self._budget(), now, None)
        )

    async def standings(self, agents: Collection[str]) -> dict[str, Standing]:
        """For these agents, and for all others that run or have limits; the day begins in UTC."""
        now = self._clock.now()

        def body(tx: Transaction) -> dict[str, Standing]:
            limits = {one.agent: _holding(one, to_text(now)) for one in tx.list_limits()}
            kept = {name for name, one in limits.items() if one != AgentLimits(name)}
            running = {run.agent for run in tx.list_runs(_OPEN, MAX_PAGE)}
            return {name: _standing(tx, name, now) for name in sorted({*agents, *running, *kept})}

        return await self._store.read(body, long=True)

    async def limits(self) -> dict[str, AgentLimits]:
        """By agent, for all that have limits; limits that are over are omitted."""
        now = to_text(self._clock.now())
        found = await self._store.read(lambda tx: tx.list_limits())
        return {one.agent: _holding(one, now) for one in found}

    async def standing(self, agent: str, timezone: str = "UTC") -> Standing:
        """The day begins at midnight in `timezone`."""
        now = self._clock.now()
        demand_zone(timezone)
        return await self._store.read(lambda tx: _standing(tx, agent, now, timezone), long=True)

    async def resume(self, agent: str) -> bool:
        """Close the breaker and forget the quota; False when there was nothing to forget."""
        now = to_text(self._clock.now())

        def body(tx: Transaction) -> bool:
            limits = tx.lock_limits(agent)
            if limits is None or limits == AgentLimits(agent):
                return False
            tx.put_limits(AgentLimits(agent), now)
            return True

        return await self._store.transact(body)


def _standing(tx: Transaction, agent: str, now: datetime, timezone: str = "UTC") -> Standing:
    limits = tx.get_limits(agent) or AgentLimits(agent)
    running = tx.list_runs(replace(_OPEN, agent=agent), MAX_PAGE)
    spent = tx.spent(to_text(day_began(now, timezone)), agent)
    gone = unseen(tx, running, to_text(now))
    return Standing(
        _holding(limits, to_text(now)), len(running), spent, min(gone.values(), default=None)
    )


def demand_zone(timezone: str) -> None:
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"timezone: {timezone[:64]!r} is not known; write Europe/Berlin, for example",
            field="timezone",
        ) from None


def _holding(limits: AgentLimits, now: str) -> AgentLimits:
    """The limits without those that are over."""
    usage = limits.usage_until if (limits.usage_until or "") > now else None
    breaker = limits.breaker_until if (limits.breaker_until or "") > now else None
    return replace(limits, usage_until=usage, breaker_until=breaker)


def _paused(agent: Agent | None) -> Refusal | None:
    if agent is None or not agent.paused:
        return None
    return Refusal(
        SkipReason.AGENT_PAUSED, f"{agent.name} is paused; rota agent resume {agent.name}"
    )


def _reviews(tx: Transaction, name: str) -> Refusal | None:
    agent = tx.get_agent(name)
    if agent is None or agent.max_in_review is None:
        return None
    waiting, busy = tx.on_hands(name)
    if room_for_reviews(agent.max_in_review, waiting, busy):
        return None
    under_way = f" and {busy} under way" if busy else ""
    return Refusal(
        SkipReason.IN_REVIEW_LIMIT,
        f"{waiting} of its items are in review{under_way}, and {agent.max_in_review} may be; see to"
        f" them: rota list --status in_review --agent {name}",
    )


def _limited(limits: AgentLimits | None, now: str) -> Refusal | None:
    if limits is None:
        return None
    if (limits.usage_until or "") > now:
        return Refusal(
            SkipReason.USAGE_LIMIT,
            f"its runtime's quota is used up until {limits.usage_until}; it goes on by itself then",
        )
    if (limits.breaker_until or "") > now:
        return Refusal(
            SkipReason.BREAKER_OPEN,
            f"{in_a_row(limits.failures)}; the next try is at {limits.breaker_until}, or"
            f" now: rota agent resume {limits.agent}",
        )
    return None


def _spent(tx: Transaction, budget: Budget, now: datetime, agent: str | None) -> Refusal | None:
    words = used_up(budget, now, tx.spent, agent)
    return Refusal(SkipReason.BUDGET_EXHAUSTED, words) if words is not None else None


def after(limits: AgentLimits, agent: AgentSpec, end: RunEnd, now: datetime) -> AgentLimits:
    """The agent's limits after the end of a run."""
    if end.usage_limit:
        return _out_of_quota(limits, agent, end, now)
    if end.status in _NO_VERDICT:
        return limits
    if end.status in _GOOD:
        return AgentLimits(limits.agent)
    failures = limits.failures + 1
    if not agent.breaker.failures or failures < agent.breaker.failures:
        return AgentLimits(limits.agent, failures, None, limits.usage_until, end.error)
    until = to_text(now + agent.breaker.cooldown)
    return AgentLimits(limits.agent, failures, until, limits.usage_until, end.error)


def _out_of_quota(limits: AgentLimits, agent: AgentSpec, end: RunEnd, now: datetime) -> AgentLimits:
    """The agent did nothing wrong: its count of failures in a row stays as it was."""
    if not agent.pause_on_usage_limit:
        return limits
    until = end.usage_limit_until
    if until is None or from_text(until) <= now:
        until = to_text(datetime.fromtimestamp(now.timestamp() + USAGE_PAUSE_SECONDS, now.tzinfo))
    return AgentLimits(limits.agent, limits.failures, limits.breaker_until, until, end.error)
