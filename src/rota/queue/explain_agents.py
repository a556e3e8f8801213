"""What keeps one agent from taking an item now. This reads the current state, and not what a
schedule found at its last look: a pause that has ended no longer matters."""

from rota.model.agents import Agent, room_for_reviews
from rota.model.clock import from_text
from rota.model.fleet import Budget, Fleet
from rota.model.runs import AgentLimits
from rota.queue.obstacles import in_review_words
from rota.queue.reasons import Reason, Way
from rota.runner.budget import used_up
from rota.storage.port import Transaction


def kept_by_itself(tx: Transaction, name: str) -> list[Reason]:
    """Reasons that hold however the agent is started, even if it asks for work by itself."""
    agent = tx.get_agent(name) or Agent(name)
    return [*_paused(agent), *_busy(tx, agent), *_reviews(tx, agent)]


def _paused(agent: Agent) -> list[Reason]:
    if not agent.paused:
        return []
    why = f"agent '{agent.name}' is paused"
    return [Reason("agent_paused", why, (Way(command=f"rota agent resume {agent.name}"),))]


def _busy(tx: Transaction, agent: Agent) -> list[Reason]:
    name, most = agent.name, agent.max_concurrent
    busy = len(tx.busy_slots(name))
    if busy < most:
        return []
    return [
        Reason(
            "no_free_slot",
            f"agent '{name}' has {busy} of {most} items in progress",
            (
                Way("wait; what it works on", f"rota list --status in_progress --agent {name}"),
                Way("let it do more at once", f"rota agent set {name} --max-concurrent {most + 1}"),
            ),
        )
    ]


def _reviews(tx: Transaction, agent: Agent) -> list[Reason]:
    waiting, busy = tx.on_hands(agent.name)
    if room_for_reviews(agent.max_in_review, waiting, busy) != 0:
        return []
    return [
        Reason(
            "in_review_limit",
            in_review_words(agent, waiting, busy),
            (
                Way("see to its reviews", f"rota list --status in_review --agent {agent.name}"),
                Way("raise its limit", f"rota agent set {agent.name} --max-in-review N"),
            ),
        )
    ]


def refusals(tx: Transaction, name: str, now: str, fleet: Fleet) -> list[Reason]:
    """Why a run of this agent would be refused, if one were requested now."""
    agent = tx.get_agent(name) or Agent(name)
    return [*_paused(agent), *kept_from_running(tx, name, now, fleet)]


def kept_from_running(tx: Transaction, name: str, now: str, fleet: Fleet) -> list[Reason]:
    """What ends a run of the fleet before it starts, even if a person requested it."""
    limits = tx.get_limits(name) or AgentLimits(name)
    return [*_limited(limits, now), *_spent(tx, name, now, fleet)]


def _limited(limits: AgentLimits, now: str) -> list[Reason]:
    name = limits.agent
    reasons = []
    if (limits.usage_until or "") > now:
        why = f"the quota of '{name}' is used up until {limits.usage_until}"
        reasons.append(Reason("usage_limit", why, (Way("wait; it goes on by itself"),)))
    if (limits.breaker_until or "") > now:
        said = f": {limits.note}" if limits.note else ""
        why = f"the breaker of '{name}' is open until {limits.breaker_until}{said}"
        again = Way("mend what it fails at, then let it go on", f"rota agent resume {name}")
        reasons.append(Reason("breaker_open", why, (again,)))
    return reasons


def _spent(tx: Transaction, name: str, now: str, fleet: Fleet) -> list[Reason]:
    """Budgets are only in the file: without the file here, nothing is reported."""
    agent = fleet.agent(name)
    if agent is None:
        return []
    own = _exhausted(tx, agent.budget, now, name)
    return own or _exhausted(tx, fleet.budget, now, None)


def _exhausted(tx: Transaction, budget: Budget, now: str, agent: str | None) -> list[Reason]:
    why = used_up(budget, from_text(now), tx.spent, agent)
    raised = Way("wait, or raise budget.per_day in rota.yaml")
    return [Reason("budget_exhausted", why, (raised,))] if why is not None else []
