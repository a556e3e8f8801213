"""Imports a ledger from a file: all of it or nothing, in one transaction."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rota.exchange.reading import Checked, Entry, entries, words
from rota.exchange.records import line_of
from rota.model.errors import InvalidInput, Refused, StorageError, StorageUnavailable
from rota.storage.port import Store, Topic, Transaction
from rota.storage.shapes import Shape

BATCH = 500
BATCH_BYTES = 1024 * 1024
MOST_TOLD = 20

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Imported:
    records: int
    stored: dict[str, int]
    skipped: int  # the ledger has exactly the same records already


class _DryRun(Exception):
    """Rolls everything back."""


@dataclass(slots=True)
class _Tally:
    told: Told
    stored: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    conflicts: list[dict[str, object]] = field(default_factory=list)
    differing: int = 0
    line: int = 0

    def conflict(self, entry: Entry, why: str) -> None:
        self.differing += 1
        if len(self.conflicts) < MOST_TOLD:
            key = words(entry.shape.key_of(entry.row))
            told = {"line": entry.number, "record": f"{entry.shape.kind} {key}", "why": why}
            self.conflicts.append(told)


async def import_ledger(
    store: Store, checked: Checked, *, dry_run: bool = False, told: Told = lambda _: None
) -> Imported:
    """Raises `InvalidInput` for a bad record, and `Refused` with `conflicts` when the ledger has
    other records under the same keys. Nothing is changed then."""
    tally = _Tally(told)

    def body(tx: Transaction) -> None:
        nonlocal tally
        tally = _Tally(told)  # the body may run again
        _store_all(tx, checked, tally)
        if dry_run:
            raise _DryRun

    try:
        await store.transact(body)
    except _DryRun:
        pass
    except StorageUnavailable:
        raise
    except StorageError as error:
        raise InvalidInput(
            f"{checked.path}, up to line {tally.line}: the ledger does not take this:"
            f" {error.message}",
            file=str(checked.path),
        ) from error
    return Imported(checked.records, dict(+tally.stored), tally.skipped)


def _store_all(tx: Transaction, checked: Checked, tally: _Tally) -> None:
    tx.begin_import()
    last_event = tx.highest_event()
    for batch in _batches(entries(checked)):
        tally.line = batch[-1].number
        if batch[0].shape.kind == "event":
            _store_events(tx, batch, tally, last_event)
        else:
            _store(tx, batch, tally)
        tally.told(tally.line)
    if tally.conflicts:
        raise _refusal(checked, tally)
    if tally.stored["event"]:
        tx.settle_event_numbers()
    for topic in Topic:
        tx.wake(topic)


def _batches(given: Iterator[Entry]) -> Iterator[list[Entry]]:
    """Each of one kind, and limited in size."""
    batch: list[Entry] = []
    size = 0
    for entry in given:
        full = len(batch) == BATCH or size > BATCH_BYTES
        if batch and (full or entry.shape is not batch[0].shape):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.line)
    if batch:
        yield batch


def _store(tx: Transaction, batch: list[Entry], tally: _Tally) -> None:
    shape = batch[0].shape
    stored = tx.import_rows(shape, [entry.row for entry in batch])
    tally.stored[shape.kind] += len(stored)
    for entry in batch:
        if shape.key_of(entry.row) not in stored:
            _compare(tx, shape, entry, tally)


def _compare(tx: Transaction, shape: Shape, entry: Entry, tally: _Tally) -> None:
    there = tx.stored_row(shape, shape.key_of(entry.row))
    if there is None:
        tally.conflict(entry, "the ledger has another record in its place")
    elif line_of(shape, there) == entry.line:
        tally.skipped += 1
    else:
        tally.conflict(entry, "the ledger has it with another content")


def _store_events(tx: Transaction, batch: list[Entry], tally: _Tally, last_event: int) -> None:
    """The past is never changed: new events come after all existing ones, and no signal of the
    ledger may take them for present events."""
    fresh = [entry for entry in batch if entry.row[0] > last_event]
    for entry in batch[: len(batch) - len(fresh)]:
        _compare(tx, entry.shape, entry, tally)
    if fresh and tx.is_heard_at_all():
        raise Refused(
            "signals of this ledger listen, and events of the file would fire them; import into"
            " an empty ledger, or cancel the signals first (rota signal list)"
        )
    if fresh:
        _store(tx, fresh, tally)


def _refusal(checked: Checked, tally: _Tally) -> Refused:
    first = tally.conflicts[0]
    others = f" and {tally.differing - 1} more" if tally.differing > 1 else ""
    return Refused(
        f"nothing was imported: {first['record']} (line {first['line']}){others} in"
        f" {checked.path.name} cannot stand beside what this ledger holds: {first['why']}; import"
        " into an empty ledger (--db)",
        conflicts=tally.conflicts,
        differing=tally.differing,
    )
