"""Checks that a ledger agrees with itself: every promise that its rows can prove afterwards.

    records = await store.read(read_ledger, long=True)
    assert faults(records) == []

An item's status is compared with the fold of its events, the dispatch log with the moves that open
and close it, the claim with the epoch. `lost` and `doubled` compare a ledger with what its callers
were told.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.model.claims import Claim
from rota.model.events import Event, EventType
from rota.model.status import OUTCOME_OF, TERMINAL, Status, verb_for
from rota.model.work import Dispatch, ItemFilter, WorkItem
from rota.storage.port import Transaction

PAGE = 1_000
EVERY = 1_000_000
AT_WORK = frozenset({Status.DISPATCHED, Status.IN_PROGRESS, Status.BLOCKED, Status.IN_REVIEW})
_ENTERS_WORK = (EventType.STARTED, EventType.RESUMED)


@dataclass(frozen=True, slots=True)
class Record:
    """One item with everything that was written about it."""

    item: WorkItem
    events: Sequence[Event]
    dispatches: Sequence[Dispatch]
    claim: Claim | None


def read_ledger(tx: Transaction) -> list[Record]:
    """Events are read item by item and not by `events_after`: PostgreSQL returns those in the order
    of transactions, and holds some back while any older transaction is open, even an ANALYZE."""
    return [
        Record(
            item,
            tx.events_of(item.id, EVERY),
            tx.dispatches_of(item.id),
            tx.live_claim(item.id),
        )
        for item in all_items(tx)
    ]


def all_items(tx: Transaction) -> list[WorkItem]:
    found: list[WorkItem] = []
    while True:
        after = (found[-1].priority, found[-1].id) if found else None
        page = tx.list_items(ItemFilter(by_age=True, after=after, limit=PAGE))
        found += page
        if len(page) < PAGE:
            return found


def all_events(tx: Transaction) -> list[Event]:
    found: list[Event] = []
    while True:
        page = tx.events_after(found[-1].seq if found else 0, PAGE)
        found += page
        if len(page) < PAGE:
            return found


def faults(records: Iterable[Record]) -> list[str]:
    """What is wrong, in words; an empty list when the ledger agrees with itself."""
    records = list(records)
    return [fault for record in records for fault in _faults_of(record)] + _shared_slots(records)


def _faults_of(record: Record) -> list[str]:
    checks = (_end, _fold, _epoch, _log, _claim)
    return [f"{record.item.id}: {fault}" for check in checks for fault in check(record)]


def _end(record: Record) -> Iterable[str]:
    item = record.item
    ended = item.status in TERMINAL
    if ended != (item.completed_at is not None):
        yield f"{item.status}, but completed_at is {item.completed_at}"
    if item.outcome != OUTCOME_OF.get(item.status):
        yield f"{item.status} with the outcome {item.outcome}"
    if (item.status is Status.IN_PROGRESS) != (item.slot is not None):
        yield f"{item.status} in slot {item.slot}"


def _fold(record: Record) -> Iterable[str]:
    """The events tell the same story as the row: without a gap, and with one end at most."""
    stands: str | None = None
    for event in record.events:
        if event.to_status is None:
            continue
        if event.from_status != stands:
            yield f"event {event.seq} ({event.type}) leads from {event.from_status}, not {stands}"
        if stands is not None and verb_for(Status(stands), Status(event.to_status)) is None:
            yield f"event {event.seq}: no verb leads from {stands} to {event.to_status}"
        stands = event.to_status
    if stands != record.item.status:
        yield f"the events end in {stands}, the row says {record.item.status}"
    completions = sum(event.type == EventType.COMPLETED for event in record.events)
    if completions != (record.item.status is Status.COMPLETED):
        yield f"{completions} accepted completions of an item that is {record.item.status}"


def _epoch(record: Record) -> Iterable[str]:
    taken = [event.epoch for event in record.events if event.type in _ENTERS_WORK]
    if taken != list(range(1, len(taken) + 1)):
        yield f"taken with the epochs {taken}"
    if record.item.epoch != len(taken):
        yield f"at epoch {record.item.epoch} after {len(taken)} starts"


_CLOSES = {
    EventType.RELEASED: "released",
    EventType.REOPENED: "released",
    EventType.COMPLETED: "success",
    EventType.FAILED: "failed",
    EventType.CANCELLED: "cancelled",
}


def _log(record: Record) -> Iterable[str]:
    """The dispatch log has a row for every dispatch, closed by what ended it."""
    expected: list[str | None] = []
    for event in record.events:
        if event.type == EventType.DISPATCHED:
            expected.append(None)
        elif expected and expected[-1] is None and event.type in _CLOSES:
            expected[-1] = _CLOSES[EventType(event.type)]
    found = [dispatch.outcome for dispatch in record.dispatches]
    if found != expected:
        yield f"the dispatch log says {found}, the events say {expected}"
    open_rows = sum(dispatch.completed_at is None for dispatch in record.dispatches)
    if open_rows != (record.item.status in AT_WORK):
        yield f"{open_rows} open dispatches of an item that is {record.item.status}"


def _claim(record: Record) -> Iterable[str]:
    item, claim = record.item, record.claim
    if (claim and claim.token) != item.claim_token:
        yield "the row and the claim have different tokens"
    if claim and (claim.epoch, claim.agent, claim.slot) != (
        item.epoch,
        item.assigned_agent,
        item.slot,
    ):
        yield f"claim {claim.epoch}, {claim.agent}, {claim.slot} is not the row's"


def _shared_slots(records: Iterable[Record]) -> list[str]:
    busy = Counter(
        (record.item.assigned_agent, record.item.slot)
        for record in records
        if record.item.status is Status.IN_PROGRESS
    )
    return [
        f"{agent} works on {n} items in slot {slot}" for (agent, slot), n in busy.items() if n > 1
    ]


def lost(
    records: Iterable[Record], submitted: Iterable[str], completed: Iterable[str]
) -> list[str]:
    """Ids that a caller was told are stored or completed, and are not."""
    status = {record.item.id: record.item.status for record in records}
    return [item_id for item_id in submitted if item_id not in status] + [
        item_id for item_id in completed if status.get(item_id) is not Status.COMPLETED
    ]


def doubled(completed: Iterable[str]) -> list[str]:
    """Ids that more than one caller was told to have completed."""
    return [item_id for item_id, times in Counter(completed).items() if times > 1]
