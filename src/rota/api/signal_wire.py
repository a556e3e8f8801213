"""Signals, their firings, and follow-ups, as they go over the wire."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from rota.api.answers import shown_as
from rota.api.bodies import (
    AgentName,
    ClaimToken,
    Cursor,
    Id,
    LeaseSeconds,
    Limit,
    Moment,
    Notes,
    Strict,
    Wanted,
)
from rota.api.pages import bad_cursor
from rota.api.signal_specs import Action, ActionSpec, Trigger, TriggerSpec, action_of, trigger_of
from rota.model import signals
from rota.model.claims import DEFAULT_LEASE_SECONDS
from rota.model.signals import FiringStatus, FollowUpStatus, SignalStatus

_MADE_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{15}Z")
_FIRING = re.compile(r"[0-9a-f-]{36}:[^\0]+")

SignalStatusName = Annotated[
    str, Meta(extra_json_schema={"enum": [str(one) for one in SignalStatus]})
]
FiringStatusName = Annotated[
    str, Meta(extra_json_schema={"enum": [str(one) for one in FiringStatus]})
]
FollowUpStatusName = Annotated[
    str, Meta(extra_json_schema={"enum": [str(one) for one in FollowUpStatus]})
]


# in


class NewSignal(Strict, frozen=True):
    """`work_item_id`: what follows is done to this item; without it, to the item that moved last.
    `max_fires` null: the signal fires as often as its trigger happens. Without `action`, it
    makes a follow-up or, if the item has ended, a new item."""

    trigger: TriggerSpec
    action: ActionSpec | None = None
    work_item_id: Id | None = None
    name: AgentName | None = None
    max_fires: Annotated[int, Meta(ge=1, le=1_000_000)] | None = 1
    expires_at: Moment | None = None
    max_depth: Annotated[int, Meta(ge=0, le=100)] = 3


class SignalQuery(Strict, frozen=True):
    status: SignalStatusName | None = None
    work_item_id: Wanted | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class FiringQuery(Strict, frozen=True):
    status: FiringStatusName = FiringStatus.FAILED.value
    limit: Limit = 50
    cursor: Cursor | None = None


class FollowUpQuery(Strict, frozen=True):
    """`agent`: only those that this agent may claim."""

    status: FollowUpStatusName | None = None
    work_item_id: Wanted | None = None
    agent: Wanted | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class ClaimFollowUp(Strict, frozen=True):
    agent: AgentName
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS


class HeartbeatFollowUp(Strict, frozen=True):
    """`lease_seconds` counts from now."""

    token: ClaimToken
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS


class CompleteFollowUp(Strict, frozen=True):
    token: ClaimToken | None = None
    outcome: Literal["success", "failed"] = "success"
    notes: Notes | None = None


class CancelFollowUp(Strict, frozen=True):
    token: ClaimToken | None = None
    notes: Notes | None = None


class ReleaseFollowUp(Strict, frozen=True):
    token: ClaimToken


def firing_cursor(firing: signals.FiringRecord) -> str:
    """Ids of firings do not ascend, so the cursor begins with the time."""
    return urlsafe_b64encode(f"{firing.created_at} {firing.id}".encode()).decode().rstrip("=")


def firing_place(cursor: str | None) -> tuple[str, str] | None:
    """When the last firing of the previous page was made, and its id."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        raise bad_cursor() from None
    created_at, _, last = text.partition(" ")
    if not _MADE_AT.fullmatch(created_at) or not _FIRING.fullmatch(last):
        raise bad_cursor()
    return created_at, last


# out


class Signal(Struct, frozen=True, kw_only=True):
    id: str
    work_item_id: str | None
    name: str | None
    status: SignalStatus
    trigger: Trigger
    action: Action
    max_fires: int | None
    fires: int
    max_depth: int
    expires_at: str | None
    created_by: str | None
    configured: bool  # by rota.yaml
    created_at: str
    updated_at: str
    last_fired_at: str | None


class Firing(Struct, frozen=True):
    """One cause of a signal, and what became of it. `error` also says why a firing was skipped."""

    id: str
    signal_id: str
    event_seq: int | None
    work_item_id: str | None
    status: FiringStatus
    attempt: int
    next_attempt_at: str
    created_at: str
    processed_at: str | None
    error: str | None
    result: Mapping[str, Any]


class SignalDetail(Signal, frozen=True, kw_only=True):
    """A signal with its latest firings."""

    firings: list[Firing]


class FollowUp(Struct, frozen=True, kw_only=True):
    id: str
    work_item_id: str
    signal_id: str | None
    firing_id: str | None
    title: str
    body: str | None
    status: FollowUpStatus
    agent: str | None  # the agent that it is meant for
    holder: str | None  # the agent that has it, or had it last
    lease_expires_at: str | None
    attempts: int
    created_at: str
    completed_at: str | None
    outcome: str | None
    notes: str | None


class ClaimedFollowUp(FollowUp, frozen=True, kw_only=True):
    """For the claimer alone: a caller that shows the token may end the follow-up."""

    token: str


def signal_of(signal: signals.Signal) -> Signal:
    return shown_as(Signal, signal, **_specs(signal))


def detail_of(signal: signals.Signal, firings: list[signals.FiringRecord]) -> SignalDetail:
    shown = [firing_of(one) for one in firings]
    return shown_as(SignalDetail, signal, firings=shown, **_specs(signal))


def _specs(signal: signals.Signal) -> dict[str, Any]:
    return {"trigger": trigger_of(signal.condition), "action": action_of(signal.action)}


def firing_of(firing: signals.FiringRecord) -> Firing:
    return shown_as(Firing, firing)


def follow_up_of(found: signals.FollowUp) -> FollowUp:
    return shown_as(FollowUp, found)


def claimed_of(taken: signals.FollowUp) -> ClaimedFollowUp:
    return shown_as(ClaimedFollowUp, taken, token=taken.lease_token or "")
