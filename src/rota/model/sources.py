"""What the ledger knows of work from sources: claims on trackers, approvals, states."""

from dataclasses import dataclass
from typing import TypedDict

from rota.model.status import Status
from rota.model.work import NewItem


@dataclass(frozen=True, slots=True)
class Firing:
    """How one of our claims signs in a tracker's claim log; the nonce exposes a forgery."""

    firing_id: str
    codename: str
    fleet: str
    nonce: str


@dataclass(frozen=True, slots=True)
class SourceClaim:
    """Our claim on a tracker, and the state of the ledger's claim behind it."""

    firing_id: str
    source: str
    source_ref: str
    work_item_id: str
    epoch: int
    codename: str
    fleet: str
    nonce: str
    entry_id: int | None  # the tracker's own number; None until the tracker has answered
    created_at: str
    ended_at: str | None
    outcome: str | None
    status: Status  # of the item, now
    token: str | None  # of the ledger's claim, while that is live
    lapsed: bool = False  # the lease has lapsed but is not swept: a heartbeat would renew it

    @property
    def live(self) -> bool:
        """The item still has the claim that was made with this, and its lease has not lapsed."""
        return self.token is not None

    @property
    def over(self) -> bool:
        """The ledger's claim has ended, and no heartbeat can renew it."""
        return self.token is None and not self.lapsed


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An item as its source shows it, whether agents may take it or not.

    `hold_reason` says why agents may not, and after a semicolon what lifts the hold:
    "nobody trusted has agreed to this text; put the label agent:implement on it".
    """

    item: NewItem
    hold_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Mirroring:
    """What a mirroring changed, and the references that could not be stored, with the reason."""

    added: int = 0
    edited: int = 0
    held: int = 0
    unheld: int = 0
    refused: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.edited or self.held or self.unheld or self.refused)


@dataclass(frozen=True, slots=True)
class LiveReference:
    """The live item of a source reference, in short."""

    item_id: str
    source_ref: str
    status: Status
    version: int
    claimed: bool  # its source still shows a claim of ours


@dataclass(frozen=True, slots=True)
class InReview:
    """An item that waits for a review, in short."""

    item_id: str
    version: int
    address: str
    source: str | None
    source_ref: str | None


@dataclass(frozen=True, slots=True)
class ReviewLook:
    """What a source found when it looked at the pull request that an item waits for."""

    item_id: str
    source: str
    address: str
    found: str  # "open" or "gone"
    looked_at: str = ""  # set when it is stored


@dataclass(frozen=True, slots=True)
class Approval:
    """A trusted person has agreed to this text."""

    source: str
    source_ref: str
    text_hash: str
    approved_by: int
    approved_at: str
    seen_at: str


@dataclass(frozen=True, slots=True)
class SourceState:
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


class StateNote(TypedDict, total=False):
    """Changes to the state of a source. A missing key changes nothing; `requests` are added to the
    count."""

    polled_at: str | None
    poll_error: str | None
    swept_at: str | None
    warning: str | None
    settle_seconds: float | None
    requests: int
    rate_remaining: int | None
    rate_limit: int | None
    rate_reset_at: str | None
