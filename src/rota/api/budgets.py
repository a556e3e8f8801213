"""Which agents have used up their budget of the day, as far as a configuration is known here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import to_text
from rota.model.fleet import Budget, Fleet
from rota.model.runs import Tally
from rota.queue.ledger import Ledger
from rota.runner.budget import day_began, exceeded, next_day, spent_by

Known = Callable[[], Fleet]  # called each time, because the file may be read again


@dataclass(frozen=True, slots=True)
class UsedUp:
    words: str
    until: str


async def used_up(ledger: Ledger, fleet: Fleet) -> dict[str, UsedUp]:
    """By agent. The agent's own budget is checked before the fleet's, as before a run."""
    now = ledger.clock.now()
    budgets = [fleet.budget, *(one.budget for one in fleet.agents)]
    if not any(one.per_day.any for one in budgets):
        return {}
    zones = {one.timezone for one in budgets}
    days = {zone: await ledger.runs.tallies(to_text(day_began(now, zone))) for zone in zones}
    found: dict[str, UsedUp] = {}
    for agent in fleet.agents:
        own = _used(agent.budget, days, now, agent.name)
        if (used := own or _used(fleet.budget, days, now)) is not None:
            found[agent.name] = used
    return found


def _used(
    budget: Budget, days: Mapping[str, list[Tally]], now: datetime, agent: str | None = None
) -> UsedUp | None:
    tallies = days[budget.timezone]
    words = exceeded(
        budget.per_day, spent_by(one for one in tallies if agent is None or one.agent == agent)
    )
    if words is None:
        return None
    whose = "the fleet's" if agent is None else "its"
    return UsedUp(f"{whose} budget: {words}", to_text(next_day(now, budget.timezone)))
