"""The verbs of the ledger in SQL, written once for both databases.

A database provides the primitives and may override a verb where a single statement is
worth it.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rota.model.status import TERMINAL, Status
from rota.model.work import ItemFilter, Link, NewItem, WorkItem
from rota.storage.claims import ClaimStatements
from rota.storage.declaring import DeclarationStatements
from rota.storage.events import EventStatements
from rota.storage.exchanging import ExchangeStatements
from rota.storage.noticing import NoticeStatements
from rota.storage.outside import OutsideStatements
from rota.storage.port import Edit, Move, Topic
from rota.storage.records import RecordStatements
from rota.storage.rows import NEW_ITEM_FIELDS, STATUS, encode, item_of, link_of, new_item_row
from rota.storage.running import RunStatements
from rota.storage.scheduling import ScheduleStatements
from rota.storage.select import item_columns, listing, tally
from rota.storage.signalling import SignalStatements
from rota.storage.statistics import StatisticStatements

# The columns that an edit may name: a key of `Edit.changes` becomes part of the statement.
_EDITABLE = frozenset(
    {
        "type", "description", "body", "payload", "priority", "project_id", "assigned_agent",
        "pinned", "notes", "labels", "max_attempts", "available_at", "deferred", "hold_reason",
        "artifact_url", "hold_by",
    }
)  # fmt: skip


class SqlTransaction(
    RecordStatements,
    ClaimStatements,
    OutsideStatements,
    ScheduleStatements,
    RunStatements,
    SignalStatements,
    StatisticStatements,
    ExchangeStatements,
    NoticeStatements,
    DeclarationStatements,
    EventStatements,
):
    SUBMIT: ClassVar[tuple[str, ...]]  # the statements that write new items, in order

    # items

    def insert_items(
        self, items: Sequence[tuple[str, NewItem]], actor: str | None, now: str
    ) -> None:
        rows = (new_item_row(item_id, item, actor) for item_id, item in items)
        self._run_all(self.SUBMIT, NEW_ITEM_FIELDS, rows, actor=actor, now=now)
        self.topics.add(Topic.EVENTS)
        labels = [
            {"id": item_id, "label": label} for item_id, item in items for label in item.labels
        ]
        if labels:
            self._many("insert_labels", labels)

    def get_item(self, item_id: str) -> WorkItem | None:
        row = self._one("get_item", id=item_id)
        return item_of(row) if row else None

    def get_items(self, item_ids: Sequence[str]) -> list[WorkItem]:
        found = (self.get_item(item_id) for item_id in item_ids)
        return [item for item in found if item is not None]

    def list_items(self, wanted: ItemFilter) -> list[WorkItem]:
        return [item_of(row) for row in self._text(*listing(wanted))]

    def tally_items(self, wanted: ItemFilter) -> dict[Status, int]:
        return {wanted.statuses[row[0]]: int(row[1]) for row in self._text(*tally(wanted))}

    def move(self, move: Move) -> WorkItem | None:
        sources = move.sources
        row = self._one(
            "move_item",
            id=move.item_id,
            source_1=sources[0],
            source_2=sources[1 % len(sources)],
            source_3=sources[2 % len(sources)],
            target=move.target,
            now=move.now,
            reason=move.reason,
            outcome=move.outcome,
            completed_at=move.now if move.target in TERMINAL else None,
            notes=move.notes,
            artifact_url=move.artifact_url,
            agent=move.agent,
            drop_agent=int(move.drop_agent),
            slot=move.slot,
            new_epoch=int(move.new_epoch),
            reset_attempts=int(move.reset_attempts),
            available_at=move.available_at,
            token=move.token or "",
            force=int(move.force),
            ours_only=int(move.ours_only),
            version=move.version,
        )
        return item_of(row) if row else None

    def edit(self, edit: Edit) -> WorkItem | None:
        unknown = edit.changes.keys() - _EDITABLE
        if unknown:
            raise ValueError(f"not editable: {sorted(unknown)}")
        assignments = ", ".join(f"{name} = :{name}" for name in edit.changes)
        rows = self._text(
            f"UPDATE work_items SET {assignments}{', ' if assignments else ''}"
            " updated_at = :now, version = version + 1"
            f" WHERE id = :id AND version = coalesce(:version, version) RETURNING {item_columns()}",
            {**edit.changes, "now": edit.now, "id": edit.item_id, "version": edit.version},
        )
        return item_of(rows[0]) if rows else None

    def set_labels(self, item_id: str, labels: Iterable[str]) -> None:
        labels = list(labels)
        self._do("delete_labels", id=item_id)
        if labels:
            self._many("insert_labels", [{"id": item_id, "label": label} for label in labels])
        self._do("set_labels", id=item_id, labels=encode(labels))

    def promote_due(self, now: str) -> int:
        return self._changed("promote_due", now=now)

    def next_due(self) -> str | None:
        return self._value("next_due")

    def count_by_status(self) -> dict[Status, int]:
        counted = {STATUS[row[0]]: row[1] for row in self._rows("count_by_status")}
        return {status: counted.get(status, 0) for status in Status}

    def queued_before(self, item: WorkItem) -> int:
        return self._count("queued_before", priority=item.priority, id=item.id)

    # links

    def add_blockers(self, item_id: str, blocker_ids: Sequence[str]) -> list[str]:
        missing, still_open = [], 0
        # The same order everywhere, so that two transactions cannot deadlock.
        for blocker_id in sorted(blocker_ids):
            row = self._one("count_dependent", blocker_id=blocker_id)
            if row is None:
                missing.append(blocker_id)
                continue
            self._do("add_blocker", id=item_id, blocker_id=blocker_id)
            still_open += row[0] != Status.COMPLETED
        if still_open:
            self._do("add_open_blockers", id=item_id, n=still_open)
        return missing

    def clear_blockers(self, item_id: str) -> None:
        self._do("release_blockers", id=item_id)
        self._do("delete_blockers", id=item_id)
        self._do("zero_open_blockers", id=item_id)

    def blockers_of(self, item_id: str) -> list[Link]:
        return [link_of(row) for row in self._rows("blockers_of", id=item_id)]

    def blocked_by(self, item_id: str) -> list[Link]:
        return [link_of(row) for row in self._rows("blocked_by", id=item_id)]

    def reaches(self, start: str, target: str) -> bool:
        return start == target or bool(self._rows("reaches", start=start, target=target))

    def unblock_dependents(self, item_id: str, now: str) -> list[WorkItem]:
        rows = self._rows("unblock_dependents", id=item_id, now=now)
        return [item for item in map(item_of, rows) if item.open_blockers == 0]
