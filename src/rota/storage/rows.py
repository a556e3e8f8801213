"""Turns rows of the database into values of the model, and back."""

import json
from collections.abc import Sequence
from typing import Any

from rota.model.access import ApiToken
from rota.model.agents import Agent
from rota.model.claims import Claim
from rota.model.events import Event, NewEvent
from rota.model.sources import LiveReference, SourceClaim
from rota.model.status import Outcome, Status
from rota.model.work import Link, NewItem, Related, WorkItem
from rota.storage.primitives import Row

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
STATUS = {str(status): status for status in Status}
_OUTCOME = {str(outcome): outcome for outcome in Outcome}


def item_of(row: Row) -> WorkItem:
    """Built from the row as it is, then converted where the model differs: naming every field
    takes twice as long."""
    item = WorkItem(*row)
    item.status = STATUS[item.status]
    item.pinned, item.deferred = item.pinned == 1, item.deferred == 1
    labels: Any = item.labels
    item.labels = () if labels == "[]" else tuple(json.loads(labels))
    if item.payload is not None:
        item.payload = json.loads(item.payload)
    if item.outcome is not None:
        item.outcome = _OUTCOME[item.outcome]
    if item.came_from is not None:
        item.came_from = STATUS[item.came_from]
    return item


def event_of(row: Row) -> Event:
    facts: list[Any] = [*row[:-1], json.loads(row[-1])]
    return Event(*facts)


def claim_of(row: Row) -> Claim:
    facts: list[Any] = [*row[:-1], bool(row[-1])]
    return Claim(*facts)


def link_of(row: Row) -> Link:
    return Link(row[0], row[1], STATUS[row[2]], row[3])


def related_of(row: Row) -> Related:
    return Related(row[0], STATUS[row[1]], row[2])


def agent_of(row: Row) -> Agent:
    return Agent(row[0], row[1], bool(row[2]), *row[3:])


def token_of(row: Row) -> ApiToken:
    return ApiToken(row[0], row[1], tuple(json.loads(row[2])), *row[3:])


NEW_ITEM_FIELDS = (
    "id", "type", "description", "priority", "labels", "max_attempts", "created_by", "payload",
    "body", "project_id", "assigned_agent", "available_at", "source", "source_ref",
)  # fmt: skip


def new_item_row(item_id: str, item: NewItem, actor: str | None) -> list[object]:
    """One entry of `:rows` for the statement `insert_items`. Fields that most items lack come last,
    so that they are not sent to PostgreSQL (see `trimmed`)."""
    return [
        item_id, item.type, item.description, int(item.priority),
        encode(item.labels) if item.labels else "[]", item.max_attempts, item.created_by or actor,
        None if item.payload is None else encode(item.payload), item.body, item.project_id,
        item.assigned_agent, item.available_at, item.source, item.source_ref,
    ]  # fmt: skip


def trimmed(row: Sequence[object]) -> Sequence[object]:
    """The row without the empty values at its end."""
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]


EVENT_FIELDS = (
    "type", "occurred_at", "actor", "work_item_id", "project_id", "agent", "reason", "from_status",
    "to_status", "epoch", "data",
)  # fmt: skip


def event_row(event: NewEvent) -> list[object]:
    """One entry of `:rows` for the statement `append_events`."""
    return [
        event.type, event.occurred_at, event.actor, event.work_item_id, event.project_id,
        event.agent, event.reason, event.from_status, event.to_status, event.epoch,
        encode(event.data) if event.data else "{}",
    ]  # fmt: skip


def source_claim_of(row: Row) -> SourceClaim:
    facts: list[Any] = [*row[:-3], STATUS[row[-3]], row[-2], bool(row[-1])]
    return SourceClaim(*facts)


def reference_of(row: Row) -> LiveReference:
    return LiveReference(row[0], row[1], STATUS[row[2]], row[3], bool(row[4]))
