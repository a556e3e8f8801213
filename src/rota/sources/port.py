"""Work sources: places that items come from, behind five verbs.

A source says what is available, gives an item to exactly one claimant, and is told how the work
ended. Expected refusals are values (`ClaimResult.reason`); exceptions are for unexpected errors.
`rota.testing.source_contract` tests every adapter against these docstrings.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from rota.model.work import Priority

WorkOutcome = Literal["success", "failure", "partial"]


@dataclass(frozen=True, slots=True)
class WorkItem:
    """An item as its source shows it. `id` is the source's own key, `github-42`; the ledger's id of
    a claimed item is in `ClaimResult.ledger_id`."""

    id: str
    source: str  # the adapter's type: "github"
    external_id: str  # "42"
    title: str
    description: str
    priority: Priority
    labels: tuple[str, ...]
    url: str
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """An adapter that gives a priority as a number or a name fails here or nowhere, and not
        when a prompt is made of the item."""
        object.__setattr__(self, "priority", Priority(self.priority))


@dataclass(frozen=True, slots=True)
class FetchOptions:
    labels: tuple[str, ...] = ()  # the item must have all of them
    priority: tuple[Priority, ...] = ()  # the item must have one of them
    limit: int | None = None
    cursor: str | None = None
    include_claimed: bool = False

    def __post_init__(self) -> None:
        """A name, "high", would equal no item's priority, so it would select nothing."""
        object.__setattr__(self, "priority", tuple(map(Priority, self.priority)))


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Best first: by priority, then oldest."""

    items: tuple[WorkItem, ...]
    next_cursor: str | None = None
    total_count: int | None = None


class ClaimFailureReason(StrEnum):
    ALREADY_CLAIMED = "already_claimed"
    NOT_FOUND = "not_found"
    PERMISSION_DENIED = "permission_denied"
    SOURCE_ERROR = "source_error"
    INVALID_STATE = "invalid_state"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    success: bool
    work_item: WorkItem | None = None
    reason: ClaimFailureReason | None = None
    message: str | None = None
    ledger_id: str | None = None  # the item's id in the ledger, if there is a ledger
    token: str | None = None  # of the ledger's claim: for heartbeats
    epoch: int | None = None  # of the ledger's claim
    claim: str | None = None  # the source's own name; a report that names it means no later claim
    number: int | None = None  # the claim's id on the tracker, where it has one


@dataclass(frozen=True, slots=True)
class WorkResult:
    outcome: WorkOutcome
    summary: str
    details: str | None = None
    artifacts: tuple[str, ...] = ()  # addresses of pull requests, commits, paths
    error: str | None = None
    review: bool = False  # a success that completes the item only when its pull request is merged
    claim: str | None = None  # the claim of the work; None: the one that the adapter holds now


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    reason: str | None = None
    add_comment: bool = False
    not_before: datetime | None = None  # nobody takes it again before this time; needs the ledger
    counted: bool = True  # False: not a real attempt, and the ledger takes it back
    claim: str | None = None  # the claim to give back; None: the one that the adapter holds now


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    success: bool
    message: str | None = None  # why nothing was given back


class WorkSource(Protocol):
    """One place, as one agent sees it. Every verb may be called again after a crash."""

    type: str

    async def fetch_available_work(self, options: FetchOptions = FetchOptions()) -> FetchResult:  # noqa: B008 - frozen
        """Items that could be claimed now; reading changes nothing."""

    async def claim_work(self, work_item_id: str) -> ClaimResult:
        """At most one claimant of an item succeeds. A refused claimant leaves no trace."""

    async def complete_work(self, work_item_id: str, result: WorkResult) -> None:
        """Report the end of the work; repeating it is harmless.

        Success ends the item; failure and partial results leave it to a person. Raises `ClaimLost`
        when the claim has ended meanwhile: nothing is overwritten. A claim that the result names
        may have been made by an earlier process.
        """

    async def release_work(
        self,
        work_item_id: str,
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    ) -> ReleaseResult:
        """Give the item back, so that it is available again; no error when it is no longer ours. As
        in `complete_work`, a named claim may have been made by an earlier process."""

    async def get_work(self, work_item_id: str) -> WorkItem | None: ...

    async def aclose(self) -> None:
        """An adapter that has nothing to close may leave this out."""


def refused(reason: ClaimFailureReason, message: str) -> ClaimResult:
    return ClaimResult(False, reason=reason, message=message)


async def close(source: WorkSource) -> None:
    aclose = getattr(source, "aclose", None)
    if aclose is not None:
        await aclose()
