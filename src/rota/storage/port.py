"""What the rest of Rota may ask of a database, in the words of the domain.

`Store` brings a synchronous body into one transaction; `Transaction` is what the
body speaks to. The body cannot await, so nobody calls the network under a lock.
Both databases pass one contract suite; these docstrings are the contract.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from rota.model.access import ApiToken
from rota.model.agents import Agent, AgentLoad
from rota.model.claims import Claim, ClaimRequest, ClaimResult
from rota.model.clock import Clock
from rota.model.events import EVERY_EVENT, Event, EventFilter, EventType, NewEvent
from rota.model.sources import (
    Approval,
    Firing,
    InReview,
    LiveReference,
    ReviewLook,
    SourceClaim,
    SourceState,
    StateNote,
)
from rota.model.status import Status
from rota.model.work import Dispatch, ItemFilter, Link, NewItem, Project, WorkItem
from rota.storage.declaration_port import DeclarationVerbs
from rota.storage.exchange_port import ExchangeVerbs
from rota.storage.notice_port import NoticeVerbs
from rota.storage.run_port import RunVerbs
from rota.storage.schedule_port import ScheduleVerbs
from rota.storage.signal_port import SignalVerbs
from rota.storage.statistic_port import StatisticVerbs

T = TypeVar("T")


class RunAgain(Exception):
    """Raised by a body that lost a race: its transaction is undone and it is run again."""


class Topic(StrEnum):
    """What a commit may wake somebody for."""

    READY = "ready"  # an item may have become claimable
    EVENTS = "events"  # the event log has grown
    POST = "post"  # there is something to be delivered


@dataclass(frozen=True, slots=True)
class Move:
    """One transition, complete with its guards.

    The row changes only if the item stands in one of `sources`, at `version`
    where one is named, and the live claim's token (or the lack of a claim)
    agrees; `force` leaves the claim out of it.
    """

    item_id: str
    sources: tuple[Status, ...]
    target: Status
    now: str
    reason: str | None
    outcome: str | None = None
    notes: str | None = None
    artifact_url: str | None = None
    agent: str | None = None  # set when given, kept when None
    drop_agent: bool = False
    slot: int | None = None
    new_epoch: bool = False
    reset_attempts: bool = False
    available_at: str | None = None  # set when given, kept when None
    token: str | None = None
    force: bool = False
    version: int | None = None
    ours_only: bool = False  # refuse an item that is taken through its source


class Take(NamedTuple):
    """A claim about to be made: who, which items, and the tokens to hand out."""

    agent: str
    tokens: Sequence[str]  # as many as items are wanted
    dispatch_ids: Sequence[str]
    lease_seconds: float
    expires_at: str
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    project_id: str | None = None


class Finish(NamedTuple):
    """One entry of a batch completion, by the holder's token."""

    item_id: str
    token: str
    notes: str | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class Edit:
    """New values of an item's describing fields; the names are columns."""

    item_id: str
    now: str
    changes: dict[str, object]
    version: int | None = None


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Which migrations a database has had, and which it still wants."""

    applied: list[str]
    pending: list[str]
    unknown: list[str]  # applied by a newer Rota
    changed: list[str]  # applied, but the text differs from ours


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A transaction in whose middle a process has stopped."""

    mark: str  # of this very state of it
    pid: int  # of the database's process
    silent: float  # seconds
    ended: bool


class Transaction(
    ScheduleVerbs,
    RunVerbs,
    SignalVerbs,
    StatisticVerbs,
    ExchangeVerbs,
    NoticeVerbs,
    DeclarationVerbs,
    Protocol,
):
    """The verbs of the ledger. Everything done here is committed together or not at all."""

    def wake(self, topic: Topic) -> None:
        """Wake whoever waits for this topic, once the transaction is committed."""

    # projects
    def insert_project(self, project: Project) -> None: ...
    def get_project(self, project_id: str) -> Project | None: ...
    def list_projects(self, after: str | None, limit: int) -> list[Project]:
        """In the order of their ids, which is the order they were made in."""

    def update_project(
        self, project_id: str, changes: Mapping[str, str | None], now: str
    ) -> Project | None:
        """Change its name, its external reference or both, whichever is named; None when there is
        no such project."""

    # agents
    def get_agent(self, name: str) -> Agent | None: ...
    def put_agent(self, agent: Agent) -> None: ...
    def agent_loads(self) -> list[AgentLoad]:
        """Every agent that is configured or has work on its hands, by name."""

    def busy_slots(self, agent: str) -> set[int]: ...

    def on_hands(self, agent: str) -> tuple[int, int]:
        """How many of its items are in review, and in progress, at one moment."""

    # items
    def insert_items(
        self, items: Sequence[tuple[str, NewItem]], actor: str | None, now: str
    ) -> None:
        """Store new items as queued, with their labels and events, on behalf of `actor`.

        Blockers are added by `add_blockers`.
        """

    def get_item(self, item_id: str) -> WorkItem | None: ...
    def get_items(self, item_ids: Sequence[str]) -> list[WorkItem]:
        """Those that exist, in the order asked for."""

    def list_items(self, wanted: ItemFilter) -> list[WorkItem]:
        """By priority and age, by age alone (`by_age`), or by their end (`by_end`); at most
        `limit`, after `after`."""

    def tally_items(self, wanted: ItemFilter) -> dict[Status, int]:
        """How many there are in each of the statuses, each counted up to `limit`."""

    def move(self, move: Move) -> WorkItem | None:
        """Make one guarded transition; None when a guard refused it and nothing changed."""

    def edit(self, edit: Edit) -> WorkItem | None:
        """Change describing fields; None when the version has passed or there is no item."""

    def set_labels(self, item_id: str, labels: Iterable[str]) -> None: ...
    def promote_due(self, now: str) -> int:
        """Let deferred items whose time has come be claimed; how many there were."""

    def next_due(self) -> str | None:
        """When the next deferred item becomes claimable."""

    def count_by_status(self) -> dict[Status, int]: ...
    def queued_before(self, item: WorkItem) -> int:
        """How many claimable items stand before this one, counted up to 1,000."""

    # links
    def add_blockers(self, item_id: str, blocker_ids: Sequence[str]) -> list[str]:
        """Make an item wait for others, and return the ids that do not exist.

        Serialised against the blockers' completion: a blocker that completes
        at the same moment is either counted and taken off again, or not counted.
        """

    def clear_blockers(self, item_id: str) -> None: ...
    def blockers_of(self, item_id: str) -> list[Link]: ...
    def blocked_by(self, item_id: str) -> list[Link]:
        """The items that wait for this one."""

    def reaches(self, start: str, target: str) -> bool:
        """Does `start` wait, directly or through others, for `target`?

        The answer holds until the end of the transaction: nobody adds a link meanwhile
        who asked this before.
        """

    def unblock_dependents(self, item_id: str, now: str) -> list[WorkItem]:
        """Take a completed blocker off its dependents; those that wait for nothing any more."""

    # claims
    def take(self, takes: Sequence[Take], now: str) -> list[ClaimResult]:
        """Claim for several agents at once; one answer each, in their order.

        An agent gets what is dispatched to it first, then what is queued in its
        name or in nobody's; by priority, then age. Each item gets a new epoch, a
        slot, a claim, its dispatch row and its events in this transaction. Never
        waits for, nor returns, an item that another transaction is taking, and
        never returns one that has a source.
        """

    def foresee(self, claims: Sequence[ClaimRequest]) -> None:
        """These are about to be taken behind the next `finish`, if all goes well: the database may
        be asked for them in the same breath. Only a hint; `take` finds what it finds."""

    def ahead_in_line(self, item: WorkItem, claim: ClaimRequest) -> int:
        """How many items such a claim would take before this one, counted up to 1,000."""

    def lease(self, claim: Claim) -> WorkItem | None:
        """Put a claim on an item that this transaction started; None if it is not started."""

    def live_claim(self, item_id: str) -> Claim | None: ...
    def find_claim(self, item_id: str, token: str) -> Claim | None:
        """The claim with this token, live or ended."""

    def claim_at(self, item_id: str, epoch: int) -> Claim | None:
        """The claim that gave the item this epoch, live or ended."""

    def extend_claim(
        self, item_id: str, token: str, now: str, expires_at: str, progress: str | None
    ) -> Claim | None:
        """Push the expiry of a live claim out; None when it is not live."""

    def finish(self, entries: Sequence[Finish], now: str) -> list[WorkItem]:
        """Complete many claimed items at once, with log and events; those whose guard held.
        An item is named once."""

    def lapsed_items(self, now: str, limit: int) -> list[WorkItem]:
        """Claimed items whose lease has run out, locked against other sweepers."""

    def quiet_items(self, before: str, limit: int) -> list[WorkItem]:
        """In progress without a lease, and neither updated nor noted since `before`."""

    def next_expiry(self) -> str | None: ...

    # dispatch log
    def log_dispatch(self, dispatch_id: str, item_id: str, agent: str, now: str) -> None: ...
    def close_dispatch(self, item_id: str, now: str, outcome: str) -> None:
        """Close the item's open dispatch row, if there is one."""

    def dispatches_of(self, item_id: str) -> list[Dispatch]: ...

    # events
    def append(self, events: Sequence[NewEvent]) -> None: ...
    def events_after(
        self, after: int, limit: int, wanted: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        """Committed events behind `after`, in an order in which nothing is skipped.

        A later call with the last `seq` returned misses no event, also none of
        a transaction that took its numbers early and committed late.
        """

    def events_on(self, after: int, limit: int) -> tuple[list[Event], bool]:
        """The same, and whether committed events are held back because an older transaction is
        still open: nobody is woken when that one ends without an event."""

    def events_of(self, item_id: str, limit: int, kind: EventType | None = None) -> list[Event]:
        """The newest `limit` events of an item, of one type or of all, oldest first."""

    def last_event(self) -> int:
        """The `seq` to follow from when the past is of no interest."""

    def highest_event(self) -> int:
        """The highest `seq` there is, which need not be the last."""

    # idempotency keys
    def find_key(self, key: str) -> tuple[str, list[str]] | None:
        """The request hash and item ids kept under a key."""

    def keep_key(self, key: str, request_hash: str, item_ids: Sequence[str], now: str) -> bool:
        """Remember a key; False when it is there already."""

    def forget_keys(self, before: str) -> int: ...

    # other transactions
    def hurry(self, seconds: float) -> None:
        """Wait for a lock of another session no longer than this, in this transaction."""

    # items that come from outside
    def outside_item(self, source: str, source_ref: str) -> WorkItem | None:
        """The item that stands for a reference: the live one, else the latest."""

    def outside_items(
        self, source: str, refs: Sequence[str]
    ) -> dict[str, tuple[WorkItem, str | None]]:
        """The live items of these references, by reference, each with its `hold_by`."""

    def live_references(self, source: str) -> list[LiveReference]:
        """All live items of a source, in short."""

    def hold_by(self, item_id: str) -> str | None:
        """'source' when the item's own source put its hold on; None for an operator's, or none.

        It is set by `edit` together with `hold_reason`, and never without one.
        """

    def uncount_attempt(self, item_id: str, epoch: int) -> None:
        """Take back the attempt that a claim counted, also where others have taken it since."""

    # reviews
    def waiting_reviews(self, place: str, limit: int) -> list[InReview]:
        """Items in review whose address begins so behind its scheme, in whatever letters;
        `place` is in small ones. Those first that were looked at longest ago, or never."""

    def note_looks(self, source: str, looks: Sequence[ReviewLook], now: str) -> None:
        """Keep what was found; what this source was once asked and waits no longer is forgotten."""

    def review_look(self, item_id: str) -> ReviewLook | None: ...

    # who we are to other fleets
    def fleet(self) -> str | None: ...
    def keep_fleet(self, fleet: str) -> None:
        """Once for ever: when there is a name already, that one stays."""

    # our claims on trackers
    def insert_source_claim(self, item: WorkItem, firing: Firing, now: str) -> bool:
        """Open a row for the claim that `item` has now; False when the firing id was used."""

    def find_source_claim(self, firing_id: str, now: str) -> SourceClaim | None:
        """Open or ended; `now` decides whether the ledger's claim behind it is live."""

    def open_source_claims(self, source: str, now: str) -> list[SourceClaim]:
        """Those that the source still shows, oldest item first."""

    def latest_source_claim(self, source: str, source_ref: str, now: str) -> SourceClaim | None:
        """The latest open one of a reference."""

    def enter_source_claim(self, firing_id: str, entry_id: int) -> bool:
        """Keep the tracker's number; False when there is a lower one already, or no such claim."""

    def give_back_source_claim(self, firing_id: str, outcome: str, now: str) -> bool:
        """It was not granted; once, also of one that has ended. How that ended stands."""

    def end_source_claim(self, firing_id: str, outcome: str, now: str) -> bool:
        """Close the row; False when it is closed already, or not there."""

    # what else is known of sources
    def put_approval(self, approval: Approval) -> None:
        """Keep an approval. Of one text the later counts, whichever was seen first."""

    def latest_approval(self, source: str, source_ref: str) -> Approval | None: ...
    def keep_delivery(self, delivery_id: str, now: str) -> bool:
        """Remember a delivery; False when it is there already."""

    def forget_deliveries(self, before: str) -> int: ...
    def note_source_state(self, source: str, note: StateNote) -> None:
        """Change what the note names, and add its requests to the count."""

    def source_state(self, source: str) -> SourceState | None: ...
    def source_states(self) -> list[SourceState]:
        """By source."""

    # API tokens
    def insert_token(self, token: ApiToken, secret_hash: str) -> None: ...
    def find_token(self, secret_hash: str) -> ApiToken | None: ...
    def list_tokens(self) -> list[ApiToken]: ...
    def revoke_token(self, token_id: str, now: str) -> bool: ...
    def touch_token(self, token_id: str, now: str) -> None: ...
    def has_tokens(self) -> bool:
        """That were not revoked; expired ones count."""


class Store(Protocol):
    """One database. Safe to use from one event loop; several processes may share it."""

    url: str
    # The time by which all go who share this database.
    clock: Clock
    # How many gathered transactions are worth having on their way at once.
    width: int
    # Why the last change could not be stored: the disk is full, the file is gone. None once one
    # was that wrote something; what finds nothing to change proves nothing.
    refusal: str | None

    async def open(self) -> None:
        """Connect and check the schema; raises `SchemaBehind` or `SchemaAhead`."""

    async def close(self) -> None:
        """Finish what was accepted, then let go."""

    def transact(self, body: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """Run `body` in one transaction; return only after it is durably committed.

        A body may be run again when the database asks for it (a deadlock, two
        claims for one slot), so it must not touch anything but its transaction.
        An exception of the body rolls its changes back, and only its own.
        A caller who is cancelled while waiting does not undo what was accepted.
        """

    async def read(self, body: Callable[[Transaction], T], *, long: bool = False) -> T:
        """Run a body that only reads. `long` keeps it off the event loop."""

    async def wait(self, topic: Topic, seen: int, timeout: float) -> int:
        """Wait until the topic's counter has passed `seen` or time is up; the counter.

        A wake-up may be missed when a notification is lost, so callers treat
        the timeout as a reason to look again.
        """

    def counter(self, topic: Topic) -> int: ...

    async def end_abandoned(self, silent: float, looked: Collection[str]) -> list[Abandoned]:
        """Find transactions that hold up others, and whose process has been silent for so many
        seconds: a machine that was suspended, for example. Those that were `looked` at before, and
        have not gone on since, are ended."""

    async def schema(self) -> SchemaState: ...
    async def upgrade(self) -> list[str]:
        """Apply what is missing, under a lock; the names applied."""

    async def backup(self, target: Path) -> None:
        """Write a consistent copy while others go on working."""

    async def size(self) -> int:
        """Bytes the database takes."""
