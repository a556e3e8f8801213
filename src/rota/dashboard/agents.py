"""Agents: what each has in hand, what it did today, and what keeps it from running."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.api.answers import Answer
from rota.api.bodies import AgentName, Strict
from rota.api.call import Call
from rota.api.routing import Endpoint, endpoint
from rota.dashboard.budgets import Spending, money, spending, spent_by
from rota.dashboard.rendering import midnight, page
from rota.model.access import READ
from rota.model.agents import Agent, AgentLoad, Slot
from rota.model.clock import to_text
from rota.model.fleet import AgentSpec, Budget, Fleet
from rota.model.runs import AgentLimits, Run, RunStatus, Tally
from rota.runner.budget import day_began

PAGE = 50
MOST_BOXES = 24  # of one agent; there may be a thousand slots

Knows = Callable[[], Fleet]


class AgentsQuery(Strict, frozen=True):
    after: AgentName | None = None


@dataclass(frozen=True, slots=True)
class State:
    """In words; the kind is a colour as well."""

    kind: str
    words: str
    until: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A slot in use, by an item or by a run without one."""

    title: str
    address: str
    since: str
    run: Run | None


@dataclass(frozen=True, slots=True)
class Today:
    """What an agent's runs came to since the viewer's midnight."""

    by_status: Mapping[RunStatus, int]
    tokens: int
    cost: str | None

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> "Today":
        spent = spent_by(tallies)
        told = any(one.cost_usd is not None for one in tallies)
        counts = {one.status: one.runs for one in tallies}
        return cls(counts, spent.tokens, money(spent.cost_usd) if told else None)

    @property
    def runs(self) -> int:
        return sum(self.by_status.values())

    @property
    def ended(self) -> int:
        return sum(runs for status, runs in self.by_status.items() if status.ended)

    @property
    def succeeded(self) -> int:
        return self.by_status.get(RunStatus.SUCCEEDED, 0)


@dataclass(frozen=True, slots=True)
class Panel:
    agent: Agent
    spec: AgentSpec | None
    state: State
    boxes: Sequence[Box]
    dispatched: int
    today: Today
    limits: AgentLimits
    spending: Spending
    last: Run | None

    @property
    def free(self) -> int:
        return max(0, self.agent.max_concurrent - len(self.boxes))

    @property
    def free_shown(self) -> int:
        return min(self.free, max(0, MOST_BOXES - len(self.boxes)))


def agent_endpoints(knows: Knows | None = None) -> tuple[Endpoint, ...]:
    """`knows` tells what this server's configuration says, where it has one: budgets are there."""

    @endpoint("GET", "/ui/agents", scope=READ, tag="dashboard", hidden=True)
    async def agents(call: Call, query: AgentsQuery) -> Answer:
        """Who works, on what, and what keeps whom from it."""
        fleet = knows() if knows else Fleet()
        desk = await Desk.read(call, fleet)
        names = [name for name in desk.names if name > (query.after or "")]
        panels = await desk.panels(call, names[:PAGE])
        return await page(
            call, "agents.html", "agents", panels=panels, fleets=desk.fleets, known=len(desk.names),
            states=Counter(panel.state.words for panel in panels), first=query.after is None,
            more=names[PAGE - 1] if len(names) > PAGE else None, configured=knows is not None,
        )  # fmt: skip

    return (agents,)


@dataclass(frozen=True, slots=True)
class Desk:
    """All that is known of the fleet, read at once and not agent by agent."""

    now: datetime
    fleet: Fleet
    loads: Mapping[str, AgentLoad]
    limits: Mapping[str, AgentLimits]
    running: Mapping[str, list[Run]]
    today: Mapping[str, list[Tally]]
    days: Mapping[str, list[Tally]]  # since midnight in the zone of a budget

    @classmethod
    async def read(cls, call: Call, fleet: Fleet) -> "Desk":
        ledger, now = call.ledger, call.ledger.clock.now()
        budgets = [fleet.budget, *(one.budget for one in fleet.agents)]
        zones = {one.timezone for one in budgets if one.per_day.any}
        return cls(
            now,
            fleet,
            {load.agent.name: load for load in await ledger.views.agents()},
            await ledger.admission.limits(),
            _by_agent(await ledger.runs.open()),
            _by_agent(await ledger.runs.tallies(to_text(midnight(call)))),
            {
                zone: await ledger.runs.tallies(to_text(day_began(now, zone)))
                for zone in sorted(zones)
            },
        )

    @property
    def names(self) -> list[str]:
        """Whoever is configured, has work on its hands, ran today, or may not run."""
        kept = {name for name, one in self.limits.items() if one != AgentLimits(name)}
        specs = {one.name for one in self.fleet.agents}
        return sorted({*self.loads, *self.running, *self.today, *kept, *specs})

    @property
    def fleets(self) -> Spending:
        """What all agents together have spent."""
        budget = self.fleet.budget
        return spending(budget, self.days.get(budget.timezone, []), self.now)

    async def panels(self, call: Call, names: Sequence[str]) -> list[Panel]:
        slots = _by_agent(await call.ledger.runs.slots(names))
        latest = await call.ledger.runs.latest(names)
        return [self._panel(name, slots.get(name, []), latest.get(name)) for name in names]

    def _panel(self, name: str, slots: Sequence[Slot], last: Run | None) -> Panel:
        load = self.loads.get(name) or AgentLoad(Agent(name), 0, 0)
        spec = self.fleet.agent(name)
        limits = self.limits.get(name) or AgentLimits(name)
        own = self._spending(spec)
        boxes = _boxes(slots, self.running.get(name, []))
        kept = kept_by(load.agent, limits, own, self.fleets if spec else Spending())
        state = kept or (State("running", "at work") if boxes else State("idle", "idle"))
        return Panel(
            load.agent, spec, state, boxes, load.dispatched, Today.of(self.today.get(name, [])),
            limits, own, last,
        )  # fmt: skip

    def _spending(self, spec: AgentSpec | None) -> Spending:
        budget = spec.budget if spec else Budget()
        tallies = self.days.get(budget.timezone, [])
        return spending(budget, [one for one in tallies if spec and one.agent == spec.name], self.now)


def kept_by(agent: Agent, limits: AgentLimits, own: Spending, fleets: Spending) -> State | None:
    """What keeps an agent from running, asked in the order in which it is asked before a run."""
    if agent.paused:
        return State("paused", "paused")
    if limits.usage_until:
        return State("held", "quota used up", limits.usage_until, limits.note)
    if limits.breaker_until:
        return State("failed", "breaker open", limits.breaker_until, limits.note)
    if own.used_up:
        return State("held", "budget used up", own.again, own.used_up)
    if fleets.used_up:
        return State("held", "budget of the fleet used up", fleets.again, fleets.used_up)
    return None


def _by_agent(found: Iterable[Slot | Run | Tally]) -> dict[str, list]:
    by_agent = defaultdict(list)
    for one in found:
        by_agent[one.agent].append(one)
    return by_agent


def _boxes(slots: Sequence[Slot], running: Sequence[Run]) -> list[Box]:
    """Items first, by slot; then what runs without one."""
    runs = {run.work_item_id: run for run in running if run.work_item_id is not None}
    boxes = [
        Box(one.title, f"/items/{one.item_id}", one.since, runs.get(one.item_id)) for one in slots
    ]
    held = {one.item_id for one in slots}
    return boxes + [
        Box(run.item_title or f"run of {run.schedule or 'no schedule'}", f"/ui/runs/{run.id}",
            run.started_at, run)
        for run in reversed(running)
        if run.work_item_id not in held
    ]  # fmt: skip
