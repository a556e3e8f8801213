"""Signals: "when this happens, do that", kept in the ledger until it has."""

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
    FOLLOW_UP = "follow_up"  # a task on the item that it is about
    SUBMIT = "submit"  # a new item, linked to it
    DISPATCH = "dispatch"
    HOLD = "hold"
    RELEASE = "release"
    TRIGGER = "trigger"  # a schedule
    NOTIFY = "notify"  # a webhook


@dataclass(frozen=True, slots=True)
class Condition:
    """Checked when a signal is made, so that it can be evaluated without surprise."""

    kind: TriggerOn
    to: tuple[str, ...] = ()  # statuses
    from_: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    items: tuple[str, ...] = ()  # of all_in and any_in
    project_id: str | None = None
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    agent: str | None = None
    at: str | None = None  # of time: that moment
    after_seconds: float | None = None  # so long after the event, or after the signal was made
    while_in: bool = False  # and only if the item has not moved since
    outcomes: tuple[str, ...] = ()  # of run.finished: statuses of runs
    schedule: str | None = None
    source: str | None = None  # of source.event
    fields: dict[str, Any] = field(default_factory=dict)
    nth: int = 1  # of transitions: the item's n-th of this kind, and those behind it


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
    channel: str | None = None  # of notify, instead: one of the configuration


@dataclass(frozen=True, slots=True)
class NewSignal:
    condition: Condition
    action: Action
    work_item_id: str | None = None
    name: str | None = None  # unique among living signals; those of the configuration have one
    max_fires: int | None = 1  # None: as often as it happens
    expires_at: str | None = None
    max_depth: int = 3  # how deep its own follow-ups may set it off again
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
    last_fired_seq: int = 0  # the event that set it off last


class FiringStatus(StrEnum):
    QUEUED = "queued"
    PROCESSING = "processing"
    ENQUEUED = "enqueued"  # what should follow is there
    SKIPPED = "skipped"  # the condition did not hold after all; `error` says why
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FiringRecord:
    id: str  # derived from signal and dedupe key, so it is the same at every try
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
    """What a firing is about."""

    signal: Signal
    event: Event | None
    item: WorkItem | None
    is_descendant: bool  # a signal made the item


@dataclass(frozen=True, slots=True)
class Gathering:
    """How the items stand that a signal waits for, and what stood in its line at that moment."""

    total: int
    inside: int  # are in one of its statuses
    firings: frozenset[str]  # that are open


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
    agent: str | None  # that it is meant for
    created_at: str
    holder: str | None = None  # that has it, or had it last
    lease_token: str | None = None
    lease_expires_at: str | None = None
    attempts: int = 0
    completed_at: str | None = None
    outcome: str | None = None
    notes: str | None = None
