"""Events: facts that something moved. They are appended and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rota.model.status import Status, Verb


class EventType(StrEnum):
    SUBMITTED = "work.submitted"  # (nothing) -> queued
    DISPATCHED = "work.dispatched"  # queued -> dispatched
    STARTED = "work.started"  # dispatched -> in_progress
    COMPLETED = "work.completed"  # in_progress, in_review -> completed
    FAILED = "work.failed"  # in_progress, blocked -> failed
    BLOCKED = "work.blocked"  # in_progress -> blocked
    RESUMED = "work.resumed"  # blocked -> in_progress
    HANDED_OVER = "work.handed_over"  # in_progress -> in_review
    RELEASED = "work.released"  # dispatched, in_progress, blocked -> queued
    REOPENED = "work.reopened"  # in_review -> queued
    RETRIED = "work.retried"  # failed -> queued
    CANCELLED = "work.cancelled"  # queued, dispatched -> cancelled
    EDITED = "work.edited"  # fields changed, but not the status
    NOTED = "work.noted"
    HELD = "work.held"
    UNHELD = "work.unheld"
    UNBLOCKED = "work.unblocked"  # the last open blocker completed
    LATE_RESULT = "work.late_result"  # a former holder's result, kept and not believed
    PROJECT_CREATED = "project.created"
    PROJECT_UPDATED = "project.updated"
    AGENT_UPDATED = "agent.updated"
    BREAKER_OPENED = "agent.breaker_opened"  # too many failures in a row
    USAGE_LIMITED = "agent.usage_limited"  # its runtime's quota is used up
    SCHEDULE_UPDATED = "schedule.updated"  # enabled, disabled or triggered by a caller
    RUN_STARTED = "run.started"
    RUN_FINISHED = "run.finished"
    SOURCE_EVENT = "source.event"  # a tracker's webhook arrived
    SIGNAL_CREATED = "work.signal.created"
    SIGNAL_FIRED = "work.signal.fired"
    SIGNAL_CANCELLED = "work.signal.cancelled"
    SIGNAL_STOPPED = "work.signal.stopped"  # a loop, or a firing that failed for good
    FOLLOW_UP_COMPLETED = "work.follow_up.completed"


EVENT_OF: dict[Verb, EventType] = {
    Verb.DISPATCH: EventType.DISPATCHED,
    Verb.START: EventType.STARTED,
    Verb.COMPLETE: EventType.COMPLETED,
    Verb.FAIL: EventType.FAILED,
    Verb.BLOCK: EventType.BLOCKED,
    Verb.RESUME: EventType.RESUMED,
    Verb.HAND_OVER: EventType.HANDED_OVER,
    Verb.RELEASE: EventType.RELEASED,
    Verb.REOPEN: EventType.REOPENED,
    Verb.RETRY: EventType.RETRIED,
    Verb.CANCEL: EventType.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event about to be written; the store gives it its sequence number."""

    type: EventType
    occurred_at: str
    actor: str | None = None
    work_item_id: str | None = None
    project_id: str | None = None
    agent: str | None = None
    reason: str | None = None
    from_status: Status | None = None
    to_status: Status | None = None
    epoch: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    type: str
    occurred_at: str
    actor: str | None
    work_item_id: str | None
    project_id: str | None
    agent: str | None
    reason: str | None
    from_status: str | None
    to_status: str | None
    epoch: int | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventFilter:
    work_item_id: str | None = None
    types: tuple[str, ...] = ()


EVERY_EVENT = EventFilter()
