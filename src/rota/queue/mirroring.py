"""Keeps the ledger's items of a source as the source shows them, and changes nothing else."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rota.model.clock import IdFactory
from rota.model.errors import InvalidInput, RotaError, VersionMismatch
from rota.model.sources import LiveReference, Mirrored
from rota.model.status import Outcome, Status, Verb
from rota.model.work import NewItem, WorkItem, check_text
from rota.queue import claiming, editing, intake, moves, sweeper
from rota.queue.intake import LONGEST
from rota.queue.moves import Order
from rota.storage.port import RunAgain, Transaction

BY_SOURCE = "source"
LEFT_SOURCE = "left_source"
# Keeps a transaction short, so that others do not wait long for it.
BATCH = 500

Found = dict[str, tuple[WorkItem, str | None]]


# Before anything is written


def reference(item: NewItem) -> tuple[str, str]:
    """The item's source reference. Raises if it has none, or sets a field that a source may not
    set."""
    if item.source is None or item.source_ref is None:
        raise InvalidInput("an item from outside needs source and source_ref", field="source")
    for field in ("assigned_agent", "blocked_by", "available_at"):
        if getattr(item, field):
            raise InvalidInput(
                f"{field}: an item from outside waits by its source's hold, and gets its agent"
                " when it is taken",
                field=field,
            )
    return item.source, item.source_ref


def checked(
    items: Iterable[Mirrored],
) -> tuple[dict[str, list[Mirrored]], list[tuple[str, str]]]:
    """The valid items by source, each reference once; and the refused ones, with the reason."""
    fit: dict[tuple[str, str], Mirrored] = {}
    refused = []
    for one in items:
        try:
            fit[reference(one.item)] = _checked(one)
        except RotaError as error:
            refused.append((str(one.item.source_ref), error.message))
    by_source: dict[str, list[Mirrored]] = {}
    for (source, _), one in fit.items():
        by_source.setdefault(source, []).append(one)
    return by_source, refused


def _checked(one: Mirrored) -> Mirrored:
    if one.hold_reason is not None:
        check_text(one.hold_reason, "hold_reason", LONGEST["hold_reason"])
    return replace(one, item=intake.checked(one.item))


def batches(items: Sequence[Mirrored]) -> Iterator[Sequence[Mirrored]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


# What differs


def outdated(tx: Transaction, source: str, batch: Sequence[Mirrored]) -> list[Mirrored]:
    """The entries that differ from the ledger; usually none. Only reads."""
    found = _found(tx, source, batch)
    return [one for one in batch if _is_outdated(tx, one, found)]


def _found(tx: Transaction, source: str, batch: Sequence[Mirrored]) -> Found:
    return tx.outside_items(source, [one.item.source_ref or "" for one in batch])


def _is_outdated(tx: Transaction, one: Mirrored, found: Found) -> bool:
    row, hold_by = found.get(one.item.source_ref or "", (None, None))
    if row is None:
        return not is_spent(tx.outside_item(*reference(one.item)))
    return bool(differences(row, one.item)) or _hold_differs(row, hold_by, one.hold_reason)


def is_spent(last: WorkItem | None) -> bool:
    """Whether the item failed because its attempts are used up; only `retry` gives it new ones."""
    if last is None or last.status is not Status.FAILED:
        return False
    return last.reason == sweeper.ATTEMPTS_EXHAUSTED


def differences(row: WorkItem, new: NewItem) -> dict[str, Any]:
    """The describing fields that differ, with the values of the source."""
    shown = {
        "description": new.description,
        "body": new.body,
        "priority": int(new.priority),
        "labels": new.labels,
        "payload": json.loads(json.dumps(new.payload)),
    }
    return {name: value for name, value in shown.items() if getattr(row, name) != value}


def _hold_differs(row: WorkItem, hold_by: str | None, reason: str | None) -> bool:
    """False for an operator's hold, which the source may not change."""
    return row.hold_reason != reason and (row.hold_reason is None or hold_by == BY_SOURCE)


# Bringing the ledger up to date


def update(
    tx: Transaction, source: str, batch: Sequence[Mirrored], ids: IdFactory, now: str
) -> Counter[str]:
    """Counts what was added, edited, held, unheld. Compares again, because the batch was chosen in
    an earlier transaction."""
    found = _found(tx, source, batch)
    done: Counter[str] = Counter()
    fresh = []
    for one in batch:
        if not _is_outdated(tx, one, found):
            continue
        if one.item.source_ref in found:
            done.update(_change(tx, one, *found[one.item.source_ref], now))
        else:
            fresh.append(one)
    return done + _add(tx, source, fresh, ids, now)


def _add(
    tx: Transaction, source: str, fresh: Sequence[Mirrored], ids: IdFactory, now: str
) -> Counter[str]:
    rows = submitted(tx, source, [one.item for one in fresh], ids, now)
    done = Counter(added=len(rows))
    for row, one in zip(rows, fresh, strict=True):
        if one.hold_reason is not None:
            done.update([_hold(tx, row, one.hold_reason, now)])
    return done


def submitted(
    tx: Transaction, source: str, items: Sequence[NewItem], ids: IdFactory, now: str
) -> list[WorkItem]:
    """Insert new items of a source. This wakes no waiting claim: no plain claim can take them."""
    if not items:
        return []
    for project_id in {item.project_id for item in items}:
        editing.demand_project(tx, project_id)
    fresh = list(zip(ids.several(len(items)), items, strict=True))
    tx.insert_items(fresh, source, now)
    return claiming.new_items(tx, fresh, source, now)


def _change(
    tx: Transaction, one: Mirrored, row: WorkItem, hold_by: str | None, now: str
) -> Iterator[str]:
    changed = refresh(tx, row, one.item, now)
    if changed is not row:
        yield "edited"
    if _hold_differs(row, hold_by, one.hold_reason):
        yield _hold(tx, changed, one.hold_reason, now)


def refresh(tx: Transaction, row: WorkItem, new: NewItem, now: str) -> WorkItem:
    """Apply what has changed at the source; returns the resulting item."""
    changes = differences(row, new)
    if not changes:
        return row
    wanted = editing.Patch(editing.checked_edits(changes), None, None)
    return editing.edit(tx, row, wanted, row.source, now)


def _hold(tx: Transaction, row: WorkItem, reason: str | None, now: str) -> str:
    editing.put_hold(tx, row, reason, row.source, now, by=BY_SOURCE)
    return "unheld" if reason is None else "held"


# What the source does not have any more


def unseen(tx: Transaction, source: str, seen: frozenset[str]) -> list[LiveReference]:
    """Queued items that the source no longer has. Only reads.

    An item that the source still shows as claimed by us is left to the source's
    sweep: cancelling it here would lose the count of its attempts.
    """
    return [
        one
        for one in tx.live_references(source)
        if one.status is Status.QUEUED and not one.claimed and one.source_ref not in seen
    ]


def cancel(tx: Transaction, source: str, seen: frozenset[str], now: str) -> list[str]:
    """The ids of the items that were cancelled."""
    return [_cancel(tx, source, one, now) for one in unseen(tx, source, seen)]


def _cancel(tx: Transaction, source: str, one: LiveReference, now: str) -> str:
    order = Order(
        Verb.CANCEL,
        one.item_id,
        source,
        outcome=Outcome.CANCELLED,
        reason=LEFT_SOURCE,
        version=one.version,
    )
    try:
        moves.apply(tx, order, "", now)
    except VersionMismatch:
        raise RunAgain from None  # another transaction has just changed it
    return one.item_id
