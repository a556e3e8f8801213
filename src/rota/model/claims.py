"""Claims: an exclusive right to an item, with a token, an epoch and a lease."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rota.model.work import WorkItem

DEFAULT_LEASE_SECONDS = 900
MAX_LEASE_SECONDS = 7 * 24 * 3600
MAX_WAIT_SECONDS = 60
MAX_SLOTS = 1_000
MAX_IN_REVIEW = 1_000


# Tuples, because every claim makes one of each: a frozen dataclass takes three to six times as
# long to build.


class Claim(NamedTuple):
    """The holder shows the token; the epoch fences writes."""

    work_item_id: str
    epoch: int
    token: str
    agent: str
    slot: int
    claimed_at: str
    lease_seconds: float
    expires_at: str | None
    heartbeat_at: str | None = None
    progress: str | None = None
    live: bool = True  # False: it has ended; expiry, heartbeat and progress are not its own


class ClaimRequest(NamedTuple):
    agent: str
    limit: int = 1
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    project_id: str | None = None
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    wait_seconds: float = 0


class NothingClaimed(StrEnum):
    """Why a claim got nothing."""

    NOTHING_READY = "nothing_ready"
    NO_FREE_SLOT = "no_free_slot"
    AGENT_PAUSED = "agent_paused"
    IN_REVIEW_LIMIT = "in_review_limit"


class ClaimedItem(NamedTuple):
    item: WorkItem
    claim: Claim


class ClaimResult(NamedTuple):
    items: list[ClaimedItem]
    reason: NothingClaimed | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One entry of a batch completion."""

    id: str
    token: str | None
    outcome: str | None = "success"
    notes: str | None = None
    actor: str | None = None
    version: int | None = None  # if given, the completion is refused at any other version
    next: ClaimRequest | None = None  # what the holder claims in the same transaction
    artifact_url: str | None = None
