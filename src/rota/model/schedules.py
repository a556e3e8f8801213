"""Schedules: when an agent wakes, and why it did not wake."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class ScheduleType(StrEnum):
    INTERVAL = "interval"
    CRON = "cron"
    WEBHOOK = "webhook"
    CHAT = "chat"

    @property
    def by_clock(self) -> bool:
        """False: triggered from outside, by a webhook or a message."""
        return self in (ScheduleType.INTERVAL, ScheduleType.CRON)


class CatchUp(StrEnum):
    """What becomes of slots that passed while no server was there."""

    ONE = "one"  # the latest of them is run
    NONE = "none"
    ALL = "all"  # each of them is run, one after the other


class SkipReason(StrEnum):
    """Why a schedule that was due, or was checked, did not start its agent."""

    UNSUPPORTED_TYPE = "unsupported_type"
    DISABLED = "disabled"
    ALREADY_RUNNING = "already_running"
    AT_CAPACITY = "at_capacity"
    NOT_DUE = "not_due"
    MISSED = "missed"  # the slot has passed, and `catch_up` does not make up for it
    NO_WORK = "no_work"
    SOURCE_ERROR = "source_error"
    AGENT_PAUSED = "agent_paused"
    BUDGET_EXHAUSTED = "budget_exhausted"
    BREAKER_OPEN = "breaker_open"
    USAGE_LIMIT = "usage_limit"
    IN_REVIEW_LIMIT = "in_review_limit"


class ScheduleStatus(StrEnum):
    """What a schedule does now.

    Only `disabled` is stored: a stored `running` would be wrong after a crash.
    """

    IDLE = "idle"
    RUNNING = "running"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as configured; `prompt` and `work_source` say what its agent is woken for."""

    agent: str
    name: str
    type: ScheduleType
    interval: timedelta | None = None  # of interval schedules only
    cron: str | None = None  # of cron schedules only; shorthands are kept as written
    timezone: str = "UTC"
    jitter_percent: float = 0  # 0 to 10, of the interval, or of the time to the next slot
    catch_up: CatchUp = CatchUp.ONE
    enabled: bool = True
    prompt: str | None = None
    work_source: dict[str, object] | None = None  # instead of the agent's
    resume_session: bool | None = None  # None: as the agent
    timeout: timedelta | None = None
    secret_env: str | None = None  # of a webhook: the variable with the signing secret


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule as the ledger has it."""

    agent: str
    name: str
    type: ScheduleType
    definition: str  # what its times are computed from; when it changes, they are computed again
    enabled: bool
    next_run_at: str | None  # None: the clock will not wake it
    slot: str | None  # the moment that the next trigger is for; jitter may delay the trigger
    last_run_at: str | None
    last_completed_at: str | None
    last_error: str | None
    last_skip_reason: SkipReason | None
    last_skip_at: str | None
    skip_count: int
    trigger_count: int
    running: int  # triggers on living nodes that have not ended
    last_skip_detail: str | None = None
    source: str | None = None  # the source that it takes work from; see `WorkWanted`
    attended: bool = True  # False: it is known that no living node has it in its file

    @property
    def status(self) -> ScheduleStatus:
        if not self.enabled:
            return ScheduleStatus.DISABLED
        return ScheduleStatus.RUNNING if self.running else ScheduleStatus.IDLE


class TriggerKind(StrEnum):
    SCHEDULE = "schedule"
    MANUAL = "manual"
    WEBHOOK = "webhook"
    CHAT = "chat"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Trigger:
    """One waking of an agent. (agent, schedule, slot) is unique for ever."""

    id: str
    agent: str
    schedule: str
    slot: str  # for a webhook or a person: the trigger's own id
    kind: TriggerKind
    node: str
    triggered_at: str
    message: str | None = None  # what a webhook, a chat or a person said


@dataclass(frozen=True, slots=True)
class ScheduleCheck:
    """Whether a schedule may trigger now."""

    agent: str
    schedule: str
    should_trigger: bool
    skip_reason: SkipReason | None = None
