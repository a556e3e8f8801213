"""A few figures on the current state of the whole fleet, for monitoring."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.model.agents import AgentLoad
from rota.model.runs import Tally
from rota.model.statistics import Spread
from rota.model.status import Status


@dataclass(frozen=True, slots=True)
class PostFigures:
    """Outbox entries of one kind: waiting, and given up."""

    kind: str
    waiting: int
    oldest: str | None  # when the oldest waiting entry was written
    dead: int


@dataclass(frozen=True, slots=True)
class Vitals:
    """All from the ledger, so that every server reports the same."""

    ended: Mapping[Status, int] = field(default_factory=dict)  # within the last hour
    lead_time: Spread = field(default_factory=Spread)  # of items completed within it
    runs: tuple[Tally, ...] = ()  # that started within it
    open_runs: Mapping[str, int] = field(default_factory=dict)  # by agent
    agents: tuple[AgentLoad, ...] = ()
    schedules_late: float = 0.0  # seconds that the most overdue schedule has waited
    signals_late: float = 0.0
    post: tuple[PostFigures, ...] = ()
    outbox_age: float = 0.0
