"""What is shown of one agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rota.dashboard.budgets import Spending, money
from rota.model.agents import Agent, AgentLoad, Slot, room_for_reviews
from rota.model.fleet import AgentSpec
from rota.model.runs import AgentLimits, Run, RunStatus, Tally
from rota.runner.budget import spent_by

MOST_BOXES = 24  # of one agent, which may have a thousand slots


@dataclass(frozen=True, slots=True)
class State:
    """A state in words; `kind` is also a colour."""

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
    """The figures of an agent's runs since the viewer's midnight."""

    by_status: Mapping[RunStatus, int]
    tokens: int
    cost: str | None  # None: no runtime reported costs

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
    spec: AgentSpec | None  # None: this server's configuration does not name the agent
    state: State
    boxes: Sequence[Box]
    dispatched: int
    in_review: int
    today: Today
    limits: AgentLimits
    spending: Spending
    last: Run | None
    schedules: int | None  # None: this server cannot tell how many
    woken: bool

    @property
    def free(self) -> int:
        return max(0, self.agent.max_concurrent - len(self.boxes))

    @property
    def free_shown(self) -> int:
        return min(self.free, max(0, MOST_BOXES - len(self.boxes)))


def state_of(
    load: AgentLoad, limits: AgentLimits, own: Spending, fleets: Spending, *, busy: bool
) -> State:
    """What keeps an agent from running, in the order in which it is checked before a run."""
    agent = load.agent
    if agent.paused:
        return State("paused", "paused")
    if limits.usage_until:
        return State("held", "quota used up", limits.usage_until, limits.note)
    if limits.breaker_until:
        return State("failed", "breaker open", limits.breaker_until, limits.note)
    if own.used_up:
        return State("held", "budget used up", own.again)
    if fleets.used_up:
        return State("held", "fleet budget used up", fleets.again)
    return State("running", "at work") if busy else _at_rest(load)


def _at_rest(load: AgentLoad) -> State:
    most = load.agent.max_in_review
    if room_for_reviews(most, load.in_review, load.in_progress) == 0:
        return State("held", "waits for reviews")
    return State("idle", "idle")


def boxes_of(slots: Sequence[Slot], running: Sequence[Run]) -> list[Box]:
    """Items first, by slot; then runs without an item."""
    runs = {run.work_item_id: run for run in running if run.work_item_id is not None}
    held = {one.item_id for one in slots}
    boxes = [
        Box(one.title, f"/items/{one.item_id}", one.since, runs.get(one.item_id)) for one in slots
    ]
    others = [run for run in reversed(running) if run.work_item_id not in held]
    return boxes + [
        Box(run.item_title or f"a run of {run.schedule or 'a worker'}", f"/ui/runs/{run.id}",
            run.started_at, run)
        for run in others
    ]  # fmt: skip
