"""Models of answers: the ledger's records as JSON, without the ledger's internals.

A claim's token is in the answer to its claimer and nowhere else.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rota.api.signal_wire import FollowUp
from rota.model.status import Outcome, Status


class Project(Struct, frozen=True):
    id: str
    name: str
    external_ref: str | None
    created_at: str
    updated_at: str


class ItemFields(Struct, frozen=True, gc=False):
    id: str
    project_id: str | None
    type: str
    description: str
    payload: Any
    priority: int
    status: Status
    assigned_agent: str | None
    created_by: str | None
    created_at: str
    updated_at: str
    completed_at: str | None
    outcome: Outcome | None
    notes: str | None
    reason: str | None
    body: str | None
    labels: tuple[str, ...]
    artifact_url: str | None
    attempts: int
    max_attempts: int
    available_at: str | None
    hold_reason: str | None
    open_blockers: int
    epoch: int
    version: int
    source: str | None
    source_ref: str | None
    lease_expires_at: str | None


class ClaimGrant(Struct, frozen=True, gc=False):
    """For the claimer alone: a caller that shows the token may move the item."""

    token: str
    epoch: int
    expires_at: str
    lease_seconds: float


class ClaimView(Struct, frozen=True):
    agent: str
    epoch: int
    claimed_at: str
    expires_at: str
    lease_seconds: float
    heartbeat_at: str | None
    progress: str | None


class Item(ItemFields, frozen=True, gc=False, kw_only=True):
    claim: ClaimGrant | UnsetType = UNSET


class ItemAndNext(Item, frozen=True, gc=False, kw_only=True):
    """`next` is there if it was asked for: the items that the holder has claimed, with claims."""

    next: list[Item] | UnsetType = UNSET


class Dispatch(Struct, frozen=True):
    id: str
    work_item_id: str
    dispatched_at: str
    agent: str
    completed_at: str | None
    outcome: str | None


class Event(Struct, frozen=True, gc=False):
    event_id: str
    seq: int
    type: str
    occurred_at: str
    work_item_id: str | None
    project_id: str | None
    actor: str | None
    agent: str | None
    reason: str | None
    from_status: str | None
    to_status: str | None
    epoch: int | None
    payload: Mapping[str, Any]


class Link(Struct, frozen=True):
    id: str
    status: Status
    description: str


class Links(Struct, frozen=True):
    blocked_by: list[Link]
    blocks: list[Link]
    follows: list[Link]  # the item for which a signal made this one
    followed_by: list[Link]  # the oldest 50


class ItemDetail(ItemFields, frozen=True, kw_only=True):
    dispatch_log: list[Dispatch]
    events: list[Event]
    claim: ClaimView | None
    links: Links
    follow_ups: list[FollowUp]  # the oldest 50
    late_results: list[Event]


class Way(Struct, frozen=True):
    """What would change it: in words, by a command that can be pasted as it is, or both."""

    words: str | None
    command: str | None


class Reason(Struct, frozen=True):
    code: str
    message: str
    ways: list[Way]
    fix: str | None  # the ways in one line


class Explained(Struct, frozen=True):
    id: str
    status: Status
    claimable: bool
    summary: str
    reasons: list[Reason]


class LeaseExtended(Struct, frozen=True):
    id: str
    epoch: int
    expires_at: str
    lease_seconds: float


class EntryError(Struct, frozen=True):
    code: str
    detail: str


class Completed(Struct, frozen=True):
    """`item` if ok, `error` if not. `next` is there if it was asked for. If nothing could be
    claimed, `next_reason` is nothing_ready, no_free_slot, in_review_limit or agent_paused."""

    id: str
    ok: bool
    item: Item | UnsetType = UNSET
    error: EntryError | UnsetType = UNSET
    next: list[Item] | UnsetType = UNSET
    next_reason: str | UnsetType = UNSET


class Agent(Struct, frozen=True):
    name: str
    max_concurrent: int
    paused: bool
    in_progress: int
    dispatched: int
    in_review: int
    max_in_review: int | None  # null: no limit
    running: int  # runs that have not ended
    spent_today: "Spending"  # since midnight, UTC
    failures: int  # runs that failed in a row
    breaker_until: str | None  # no run before that: too many failures in a row
    usage_until: str | None  # no run before that: its runtime's quota is used up
    note: str | None
    unseen_since: str | None  # since when the server of some of its runs is gone
    unattended: bool  # it has schedules, and no running server has any of them
    # Which budget of the day is used up, the agent's or the fleet's, as far as this server's
    # configuration has one. No run before `budget_until`.
    budget_used: str | None
    budget_until: str | None


class Spending(Struct, frozen=True):
    runs: int
    seconds: float
    tokens: int
    cost_usd: float


class Sweep(Struct, frozen=True):
    """Ids of the items that were moved, and how many deferred items have become due."""

    released: tuple[str, ...]
    failed: tuple[str, ...]
    blocked: tuple[str, ...]
    due: int


class Source(Struct, frozen=True):
    """The state of a source, as the servers that tend it last noted it."""

    source: str
    polled_at: str | None
    poll_error: str | None
    swept_at: str | None
    warning: str | None
    settle_seconds: float | None
    requests: int
    rate_remaining: int | None
    rate_limit: int | None
    rate_reset_at: str | None


class Token(Struct, frozen=True):
    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class TokenWithSecret(Token, frozen=True, kw_only=True):
    """The secret is shown this once."""

    secret: str


class Health(Struct, frozen=True):
    status: str
    version: str
    database: str


class FieldError(Struct, frozen=True):
    field: str
    message: str


class Problem(Struct, frozen=True):
    """RFC 9457. `code` is for programs and never changes; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    allowed: list[str] | UnsetType = UNSET
    errors: list[FieldError] | UnsetType = UNSET
