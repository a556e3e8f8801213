"""How the whole fleet does now, in a few figures: for those who watch it from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.model.agents import AgentLoad
from rota.model.statistics import Spread
from rota.model.status import Status


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Runs of one agent that began within the last hour and stand so."""

    agent: str
    status: str
    runs: int
    seconds: float
    tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class PostFigures:
    """What waits in the outbox, and what was given up, of one kind."""

    kind: str
    waiting: int
    oldest: str | None  # when the longest waiting one was written
    dead: int


@dataclass(frozen=True, slots=True)
class Vitals:
    """All from the ledger, so that every server tells the same."""

    ended: Mapping[Status, int] = field(default_factory=dict)  # within the last hour
    lead_time: Spread = field(default_factory=Spread)  # of items completed within it
    runs: tuple[RunFigures, ...] = ()
    open_runs: Mapping[str, int] = field(default_factory=dict)  # by agent
    agents: tuple[AgentLoad, ...] = ()
    schedules_late: float = 0.0  # seconds that the longest overdue one waits
    signals_late: float = 0.0
    post: tuple[PostFigures, ...] = ()
    outbox_age: float = 0.0
