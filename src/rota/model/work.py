"""Work items and projects, and the checks on their names and texts."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from rota.model.errors import InvalidInput
from rota.model.status import Outcome, Status


class Priority(IntEnum):
    CRITICAL = 1
    HIGH = 2
    MEDIUM = 3
    LOW = 4
    LOWEST = 5

    @classmethod
    def _missing_(cls, value: object) -> "Priority | None":
        """Sources also write a priority as its name: "high"."""
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


MAX_BATCH = 1_000
MAX_PAGE = 1_000
MAX_PAYLOAD_BYTES = 256 * 1024
MAX_PAYLOAD_DEPTH = 32
MAX_LABELS = 50
MAX_BLOCKERS = 100
DEFAULT_MAX_ATTEMPTS = 3

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NO_NAME = (
    "is not a name; use lower-case letters, digits, '.', '_' and '-', beginning with a letter or"
    " digit, at most 64"
)
KEY = re.compile(r"[!-~]{1,150}")  # an Idempotency-Key
NO_KEY = "use 1 to 150 printable ASCII characters without spaces"


class NewItem(NamedTuple):
    """An item as submitted; the queue adds the rest."""

    type: str
    description: str
    body: str | None = None
    payload: Any = None
    priority: int = Priority.MEDIUM
    project_id: str | None = None
    assigned_agent: str | None = None
    created_by: str | None = None
    labels: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    available_at: str | None = None
    source: str | None = None
    source_ref: str | None = None


@dataclass(slots=True)
class WorkItem:
    """A row of the ledger as it was read; treat it as a value.

    It is not frozen, only because a frozen dataclass with this many fields costs
    as much to build as the statement that read it.
    """

    id: str
    project_id: str | None
    type: str
    description: str
    body: str | None
    payload: Any
    priority: int
    status: Status
    reason: str | None
    assigned_agent: str | None
    pinned: bool
    slot: int | None
    created_by: str | None
    created_at: str
    updated_at: str
    completed_at: str | None
    outcome: Outcome | None
    notes: str | None
    labels: tuple[str, ...]
    artifact_url: str | None
    attempts: int
    max_attempts: int
    available_at: str | None
    deferred: bool
    hold_reason: str | None
    open_blockers: int
    dependents: int
    epoch: int
    claim_token: str | None
    lease_expires_at: str | None
    heartbeat_at: str | None
    progress: str | None
    version: int
    source: str | None
    source_ref: str | None
    came_from: Status | None


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    external_ref: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One row of the dispatch log: which agent was named for an item, and how that ended."""

    id: str
    work_item_id: str
    dispatched_at: str
    agent: str
    completed_at: str | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """`item_id` waits for `blocker_id`. Status and description are those of the other item: of the
    blocker in a list of blockers, of the waiting item in a list of dependents."""

    item_id: str
    blocker_id: str
    blocker_status: Status
    blocker_description: str


@dataclass(frozen=True, slots=True)
class Related:
    """Another item that a signal has linked to this one."""

    id: str
    status: Status
    description: str


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Which items a list shows, in which order, and after which item."""

    statuses: tuple[Status, ...] = ()
    id_prefix: str | None = None
    agent: str | None = None
    project_id: str | None = None
    type: str | None = None
    label: str | None = None
    text: str | None = None
    created_after: str | None = None
    completed_after: str | None = None
    updated_after: str | None = None
    ready_at: str | None = None  # only what nothing keeps from a claim at this moment
    by_age: bool = False
    by_end: bool = False  # last ended first; only with one terminal status
    after: tuple[int, str] | None = None  # priority and id of the last item shown
    before: tuple[str, str] | None = None  # with `by_end`: end and id of the last item shown
    limit: int = 50


def check_name(value: str, what: str) -> str:
    """Names become file names and path segments, so few characters are allowed."""
    if not NAME.fullmatch(value):
        raise InvalidInput(f"{what}: {value[:80]!r} {NO_NAME}", field=what)
    return value


def storable(text: str) -> str:
    """Make a text storable instead of refusing it, for text whose author cannot be asked to correct
    it. Half a surrogate pair becomes a question mark, and NUL is removed."""
    return text.replace("\0", "").encode(errors="replace").decode()


def check_text(value: str, what: str, longest: int, *, empty: bool = False) -> str:
    """Refuse text that one of the databases, or JSON, could not return unchanged."""
    if not empty and not value.strip():
        raise InvalidInput(f"{what} must not be empty", field=what)
    if len(value) > longest:
        raise InvalidInput(
            f"{what} has {len(value)} characters; at most {longest} are allowed", field=what
        )
    if "\x00" in value:
        raise InvalidInput(f"{what} must not contain the NUL character", field=what)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} contains half a surrogate pair", field=what) from None
    return value
