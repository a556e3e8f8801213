"""Signals: "when this happens, do that", kept in the ledger until they have fired."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rota.model.events import Event
from rota.model.work import WorkItem


class SignalStatus(StrEnum):
    ACTIVE = "active"
    FIRED = "fired"  # as often as it may
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class TriggerOn(StrEnum):
    """What a condition is about."""

    TRANSITION = "work_item.status.transition"
    ALL_IN = "work_items.all_in"
    ANY_IN = "work_items.any_in"
    TIME = "time"
    RUN_FINISHED = "run.finished"
    SOURCE_EVENT = "source.event"


class ActionKind(StrEnum):
    FOLLOW_UP = "follow_up"  # a follow-up on the item of the event
    SUBMIT = "submit"  # a new item that records where it came from
    DISPATCH = "dispatch"
    HOLD = "hold"
    RELEASE = "release"
    TRIGGER = "trigger"  # a schedule
    NOTIFY = "notify"  # a webhook


NEEDS_ITEM = frozenset({ActionKind.DISPATCH, ActionKind.HOLD, ActionKind.RELEASE})


@dataclass(frozen=True, slots=True)
class Condition:
    """Checked when the signal is made, so that evaluating it cannot fail on bad input."""

    kind: TriggerOn
    to: tuple[str, ...] = ()  # statuses
    from_: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    items: tuple[str, ...] = ()  # of all_in and any_in
    project_id: str | None = None
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    agent: str | None = None
    at: str | None = None  # of time: at this moment
    after_seconds: float | None = None  # of time: after the event, or after the signal was made
    while_in: bool = False  # of time: only if the item has not moved since the event
    outcomes: tuple[str, ...] = ()  # of run.finished: statuses of runs
    schedule: str | None = None
    source: str | None = None  # of source.event
    fields: dict[str, Any] = field(default_factory=dict)
    nth: int = 1  # of transitions: from the item's n-th of this kind on

    @property
    def is_moment(self) -> bool:
        """It comes once, and is about no item."""
        return self.kind is TriggerOn.TIME and not self.while_in


@dataclass(frozen=True, slots=True)
class Action:
    kind: ActionKind
    title: str | None = None  # of follow-ups and items: may name fields of the event
    body: str | None = None
    type: str | None = None
    priority: int | None = None
    labels: tuple[str, ...] = ()
    payload: dict[str, Any] | None = None
    project_id: str | None = None
    agent: str | None = None
    schedule: str | None = None
    reason: str | None = None
    url: str | None = None  # of notify
    channel: str | None = None  # of notify, instead of `url`: a channel of the configuration


@dataclass(frozen=True, slots=True)
class NewSignal:
    condition: Condition
    action: Action
    work_item_id: str | None = None
    name: str | None = None  # unique among active signals; those of the configuration have one
    max_fires: int | None = 1  # None: no limit
    expires_at: str | None = None
    max_depth: int = 3  # how deep its own items and moves may fire it again
    created_by: str | None = None
    configured: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    id: str
    work_item_id: str | None
    name: str | None
    condition: Condition
    action: Action
    status: SignalStatus
    max_fires: int | None
    fires: int
    max_depth: int
    expires_at: str | None
    created_by: str | None
    configured: bool
    created_at: str
    updated_at: str
    last_fired_at: str | None = None
    last_fired_seq: int = 0  # the event that fired it last


class FiringStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    ENQUEUED = "enqueued"  # the action was performed
    SKIPPED = "skipped"  # the condition did not hold after all; `error` says why
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FiringRecord:
    id: str  # derived from signal and dedupe key, so it is the same on every attempt
    signal_id: str
    dedupe_key: str
    event_seq: int | None
    work_item_id: str | None
    status: FiringStatus
    attempt: int
    next_attempt_at: str
    created_at: str
    lease_owner: str | None = None
    lease_expires_at: str | None = None
    processed_at: str | None = None
    error: str | None = None
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FiringFacts:
    """The facts that decide a firing."""

    signal: Signal
    event: Event | None
    item: WorkItem | None
    is_descendant: bool  # a signal made the item that caused the firing


@dataclass(frozen=True, slots=True)
class Gathering:
    """The items that a signal waits for, and its open firings, read at one moment."""

    total: int
    inside: int  # those in one of its statuses
    firings: frozenset[str]  # ids of the open ones


class FollowUpStatus(StrEnum):
    OPEN = "open"
    LEASED = "leased"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A row of `work_item_tasks`: something to be done about an item, beside its own work."""

    id: str
    work_item_id: str
    signal_id: str | None
    firing_id: str | None
    title: str
    body: str | None
    status: FollowUpStatus
    agent: str | None  # None: for any agent
    created_at: str
    holder: str | None = None  # the agent that holds it, or held it last
    lease_token: str | None = None
    lease_expires_at: str | None = None
    attempts: int = 0
    completed_at: str | None = None
    outcome: str | None = None
    notes: str | None = None
