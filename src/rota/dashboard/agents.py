"""Agents: what each has in hand, what it did today, and what keeps it from running."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from rota.api.answers import Answer
from rota.api.bodies import AgentName, Strict
from rota.api.call import Call
from rota.api.routing import Endpoint, endpoint
from rota.dashboard.agent_panels import Panel, Today, boxes_of, state_of
from rota.dashboard.budgets import Spending, spending
from rota.dashboard.rendering import midnight, page
from rota.model.access import READ
from rota.model.agents import Agent, AgentLoad, Slot
from rota.model.clock import to_text
from rota.model.fleet import AgentSpec, Fleet
from rota.model.runs import AgentLimits, Run, Tally
from rota.runner.budget import day_began

PAGE = 50

OfAgent = TypeVar("OfAgent", Slot, Run, Tally)


class AgentsQuery(Strict, frozen=True):
    after: AgentName | None = None


def agent_endpoints(fleet: Callable[[], Fleet] | None = None) -> tuple[Endpoint, ...]:
    """`fleet` returns this server's configuration, where it has one; budgets come from there."""

    @endpoint("GET", "/ui/agents", scope=READ, tag="dashboard", hidden=True)
    async def agents(call: Call, query: AgentsQuery) -> Answer:
        """Who works, on what, and what keeps whom from it."""
        desk = await Desk.read(call, fleet() if fleet else Fleet())
        names = [name for name in desk.names if name > (query.after or "")]
        panels = await desk.panels(call, names[:PAGE])
        return await page(
            call, "agents.html", "agents", panels=panels, fleets=desk.fleets,
            states=Counter(panel.state.words for panel in panels), first=query.after is None,
            more=names[PAGE - 1] if len(names) > PAGE else None, configured=fleet is not None,
        )  # fmt: skip

    return (agents,)


@dataclass(frozen=True, slots=True)
class Desk:
    """All that is known of the fleet, read in a few queries and not agent by agent."""

    now: datetime
    fleet: Fleet
    loads: Mapping[str, AgentLoad]
    limits: Mapping[str, AgentLimits]
    running: Mapping[str, list[Run]]
    today: Mapping[str, list[Tally]]
    days: Mapping[str, list[Tally]]  # of all agents, since midnight in the time zone of each budget
    fleets: Spending

    @classmethod
    async def read(cls, call: Call, fleet: Fleet) -> "Desk":
        ledger, now = call.ledger, call.ledger.clock.now()
        budgets = [fleet.budget, *(one.budget for one in fleet.agents)]
        zones = sorted({one.timezone for one in budgets if one.per_day.any})
        days = {zone: await ledger.runs.tallies(to_text(day_began(now, zone))) for zone in zones}
        return cls(
            now,
            fleet,
            {load.agent.name: load for load in await ledger.views.agents()},
            await ledger.admission.limits(),
            _by_agent(await ledger.runs.open()),
            _by_agent(await ledger.runs.tallies(to_text(midnight(call)))),
            days,
            spending(fleet.budget, days.get(fleet.budget.timezone, []), now),
        )

    @property
    def names(self) -> list[str]:
        """Agents that are configured, have work on their hands, ran today, or may not run."""
        kept = {name for name, one in self.limits.items() if one != AgentLimits(name)}
        specs = {one.name for one in self.fleet.agents}
        return sorted({*self.loads, *self.running, *self.today, *kept, *specs})

    async def panels(self, call: Call, names: Sequence[str]) -> list[Panel]:
        slots = _by_agent(await call.ledger.runs.slots(names))
        latest = await call.ledger.runs.latest(names)
        strangers = [name for name in names if self.fleet.agent(name) is None]
        woken = {name for name in strangers if await _is_woken(call, name)}
        return [
            self._panel(name, slots.get(name, []), latest.get(name), name in woken)
            for name in names
        ]

    def _panel(self, name: str, slots: Sequence[Slot], last: Run | None, woken: bool) -> Panel:
        load = self.loads.get(name) or AgentLoad(Agent(name), 0, 0)
        spec = self.fleet.agent(name)
        limits = self.limits.get(name) or AgentLimits(name)
        own = self._spending(spec) if spec else Spending()
        # Budgets do not hold back an agent that is not configured here and works through the API.
        fleets = self.fleets if spec else Spending()
        boxes = boxes_of(slots, self.running.get(name, []))
        return Panel(
            load.agent,
            spec,
            state_of(load, limits, own, fleets, busy=bool(boxes)),
            boxes,
            load.dispatched,
            load.in_review,
            Today.of(self.today.get(name, [])),
            limits,
            own,
            last,
            len(spec.schedules) if spec else None,
            bool(spec.schedules) if spec else woken,
        )

    def _spending(self, spec: AgentSpec) -> Spending:
        tallies = self.days.get(spec.budget.timezone, [])
        return spending(spec.budget, [one for one in tallies if one.agent == spec.name], self.now)


async def _is_woken(call: Call, name: str) -> bool:
    """Whether another server's schedules wake an agent that this server does not know. Schedules of
    an agent that nobody knows any more stay in the ledger, and rest."""
    return any(
        one.enabled and (one.next_run_at is not None or not one.type.by_clock)
        for one in await call.ledger.schedules.find(name)
    )


def _by_agent(found: Iterable[OfAgent]) -> dict[str, list[OfAgent]]:
    by_agent = defaultdict[str, list[OfAgent]](list)
    for one in found:
        by_agent[one.agent].append(one)
    return by_agent
