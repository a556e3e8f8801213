"""Runs: one execution of an agent, on one item or none."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rota.model.schedules import TriggerKind


class RunStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIAL = "partial"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"  # by a person, or because the server stopped
    CLAIM_LOST = "claim_lost"
    LOST = "lost"  # its server died; how it ended is not known

    @property
    def ended(self) -> bool:
        return self is not RunStatus.RUNNING


def in_a_row(failures: object) -> str:
    """Why a breaker is open."""
    return "its last run failed" if failures == 1 else f"{failures} runs failed in a row"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has cost, as far as its runtime reports it."""

    input_tokens: int = 0  # including cached ones
    output_tokens: int = 0
    cost_usd: float | None = None  # None: the runtime does not report it
    turns: int | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    status: RunStatus
    summary: str = ""
    artifacts: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int | None = None
    session_id: str | None = None
    usage: Usage = field(default_factory=Usage)
    # The runtime reported that its quota is used up, and until when, if it said so.
    usage_limit: bool = False
    usage_limit_until: str | None = None
    hook_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the ledger keeps it."""

    id: str
    agent: str
    schedule: str | None
    trigger: TriggerKind
    trigger_id: str | None
    node: str
    work_item_id: str | None
    epoch: int | None
    item_title: str | None
    attempt: int | None
    started_at: str
    ended_at: str | None = None
    status: RunStatus = RunStatus.RUNNING
    summary: str | None = None
    artifacts: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int | None = None
    session_id: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    turns: int | None = None
    seconds: float | None = None
    hook_errors: tuple[str, ...] = ()
    cancel_requested: bool = False
    # The run is open, but its server was last seen then, so nobody may be there to end it. None
    # while the server is seen. Computed by reads, never stored.
    unseen_since: str | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What some runs have cost together."""

    runs: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """The runs of one agent with the same status, and what they have cost together."""

    agent: str
    status: RunStatus
    runs: int
    seconds: float
    tokens: int
    cost_usd: float | None  # None: no runtime reported it


@dataclass(frozen=True, slots=True)
class RunFilter:
    """None or empty: no filter."""

    agent: str | None = None
    schedule: str | None = None
    work_item_id: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    before: str | None = None  # only runs older than the run with this id


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What keeps an agent from running, apart from budgets."""

    agent: str
    failures: int = 0  # in a row
    breaker_until: str | None = None
    usage_until: str | None = None
    note: str | None = None


# A position in the order of outbox entries: next attempt, id.
PostPlace = tuple[str, str]
FIRST_POST: PostPlace = ("", "")


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """Something to be delivered; its id is the same on every attempt."""

    id: str
    kind: str
    agent: str | None
    subject: str
    payload: dict[str, Any]
    created_at: str
    attempts: int = 0
    next_attempt_at: str = ""
    delivered_at: str | None = None
    failed_at: str | None = None
    error: str | None = None
