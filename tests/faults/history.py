"""Judges what happened: the ledger's rows and events against what its callers were told.

`rota.testing.audit` checks that a ledger agrees with itself at the end. This also checks what only
callers can know: whether an answer was forgotten, work was done twice, anything went back, or two
owned the same item or slot at any time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rota.app import open_store
from rota.model.events import Event, EventType
from rota.model.status import Status
from rota.storage.port import Transaction
from rota.testing import audit
from rota.testing.audit import Record

Slots = dict[tuple[str, int], tuple[str, int]]  # (item, epoch): (agent, slot)


@dataclass(frozen=True, slots=True)
class Ledger:
    records: Sequence[Record]
    slots: Slots


@dataclass(slots=True)
class Answers:
    """What callers were told; each answer is recorded after it came."""

    submitted: list[tuple[str, str]] = field(default_factory=list)  # key, item
    completed: list[tuple[str, int]] = field(default_factory=list)  # item, epoch
    seen: list[tuple[str, str, int, str]] = field(default_factory=list)  # by, item, version, status

    def see(self, observer: str, item: dict[str, Any]) -> None:
        self.seen.append((observer, item["id"], item["version"], item["status"]))


@dataclass(frozen=True, slots=True)
class Verdict:
    items: int
    events: int
    lost: list[str]
    doubled: list[str]
    regressed: list[str]
    shared: list[str]
    disagreeing: list[str]

    @property
    def faults(self) -> list[str]:
        return self.lost + self.doubled + self.regressed + self.shared + self.disagreeing

    def __str__(self) -> str:
        return (
            f"{self.items} items, {self.events} events: {len(self.lost)} lost,"
            f" {len(self.doubled)} doubled, {len(self.regressed)} regressed,"
            f" {len(self.shared)} shared, {len(self.disagreeing)} disagreeing"
        )


async def read(database: str) -> Ledger:
    """Past the services: by the store, in one transaction."""
    async with open_store(database) as store:
        return await store.read(_everything, long=True)


def _everything(tx: Transaction) -> Ledger:
    # By number, not in the feed's order, which differs on PostgreSQL. Of two events that depend on
    # each other, the first has the lower number.
    records = [
        replace(record, events=sorted(record.events, key=lambda event: event.seq))
        for record in audit.read_ledger(tx)
    ]
    rows = tx._text("SELECT work_item_id, epoch, agent, slot FROM claims", {})  # type: ignore[attr-defined]
    return Ledger(records, {(item, epoch): (agent, slot) for item, epoch, agent, slot in rows})


def judge(ledger: Ledger, answers: Answers) -> Verdict:
    return Verdict(
        items=len(ledger.records),
        events=sum(len(record.events) for record in ledger.records),
        lost=list(_lost(ledger.records, answers)),
        doubled=list(_doubled(ledger.records, answers)),
        regressed=list(_regressed(ledger.records, answers)),
        shared=list(_shared(ledger)),
        disagreeing=audit.faults(ledger.records),
    )


def _lost(records: Sequence[Record], answers: Answers) -> Iterable[str]:
    ends = {
        (record.item.id, event.epoch)
        for record in records
        for event in record.events
        if event.type == EventType.COMPLETED
    }
    stored = {record.item.id for record in records}
    for key, item in answers.submitted:
        if item not in stored:
            yield f"{item} was acknowledged for {key} and is not stored"
    for item, epoch in answers.completed:
        if (item, epoch) not in ends:
            yield f"{item} was acknowledged as completed in epoch {epoch} and is not"


def _doubled(records: Sequence[Record], answers: Answers) -> Iterable[str]:
    """A key is in the description of its item, so that items without an answer are found, too."""
    stored = Counter(record.item.description for record in records)
    yield from (f"{key} is stored {n} times" for key, n in stored.items() if n > 1)
    ids = defaultdict(set)
    for key, item in answers.submitted:
        ids[key].add(item)
    yield from (f"{key} was answered with {found}" for key, found in ids.items() if len(found) > 1)
    told = Counter(item for item, _ in set(answers.completed))
    yield from (f"{item} was completed by {n} holders" for item, n in told.items() if n > 1)
    for record in records:
        ends = sum(event.type == EventType.COMPLETED for event in record.events)
        if ends > 1:
            yield f"{record.item.id} was completed {ends} times"


def _regressed(records: Sequence[Record], answers: Answers) -> Iterable[str]:
    """Nobody saw an item at an older version than before, nor in a status it never had."""
    stands = {record.item.id: record for record in records}
    had = {
        record.item.id: {event.to_status for event in record.events if event.to_status}
        for record in records
    }
    newest: dict[tuple[str, str], int] = {}
    for observer, item, version, status in answers.seen:
        before = newest.get((observer, item), 0)
        if version < before:
            yield f"{observer} saw {item} at version {version} after version {before}"
        newest[observer, item] = max(version, before)
        if item not in stands:
            yield f"{observer} saw {item} as {status}, and it is not stored"
        elif version > stands[item].item.version:
            yield f"{observer} saw {item} at {version}, it is at {stands[item].item.version}"
        elif status not in had[item]:
            yield f"{observer} saw {item} as {status}, which it never was"
        elif version == stands[item].item.version and status != stands[item].item.status:
            yield f"{observer} saw {item} as {status}, it is {stands[item].item.status}"


def _shared(ledger: Ledger) -> Iterable[str]:
    """By the log, at all times: one owner of an item, one item in an agent's slot."""
    moves = sorted(
        (event for record in ledger.records for event in record.events if event.to_status),
        key=lambda event: event.seq,
    )
    holds: dict[str, tuple[str, int] | None] = {}
    works: dict[tuple[str, int], str] = {}
    for event in moves:
        item, seat = str(event.work_item_id), _seat(event, ledger.slots)
        if event.to_status == Status.IN_PROGRESS:
            if holds.get(item) is not None:
                yield f"{item} is taken by {seat} while {holds[item]} has it (event {event.seq})"
            if seat is not None and seat in works:
                yield f"{seat} takes {item} while it has {works[seat]} (event {event.seq})"
            holds[item] = seat
            if seat is not None:
                works[seat] = item
        elif held := holds.pop(item, None):
            works.pop(held, None)


def _seat(event: Event, slots: Slots) -> tuple[str, int] | None:
    return slots.get((str(event.work_item_id), event.epoch or 0))
