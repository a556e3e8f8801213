"""Rows of the database as values of the model, and back."""

import json
from typing import Any

from rota.model.access import ApiToken
from rota.model.agents import Agent
from rota.model.claims import Claim
from rota.model.events import Event, NewEvent
from rota.model.sources import LiveReference, SourceClaim
from rota.model.status import Outcome, Status
from rota.model.work import Link, NewItem, WorkItem
from rota.storage.primitives import Row

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
STATUS = {str(status): status for status in Status}
_OUTCOME = {str(outcome): outcome for outcome in Outcome}


def item_of(row: Row) -> WorkItem:
    (
        id_, project_id, type_, description, body, payload, priority, status, reason, agent,
        pinned, slot, created_by, created_at, updated_at, completed_at, outcome, notes, labels,
        artifact_url, attempts, max_attempts, available_at, deferred, hold, open_blockers,
        dependents, epoch, token, expires_at, heartbeat_at, progress, version, source,
        source_ref, came_from,
    ) = row  # fmt: skip
    return WorkItem(
        id_, project_id, type_, description, body,
        None if payload is None else json.loads(payload),
        priority, STATUS[status], reason, agent, bool(pinned), slot, created_by, created_at,
        updated_at, completed_at, None if outcome is None else _OUTCOME[outcome], notes,
        () if labels == "[]" else tuple(json.loads(labels)),
        artifact_url, attempts, max_attempts, available_at, bool(deferred), hold, open_blockers,
        dependents, epoch, token, expires_at, heartbeat_at, progress, version, source, source_ref,
        None if came_from is None else STATUS[came_from],
    )  # fmt: skip


def event_of(row: Row) -> Event:
    facts: list[Any] = [*row[:-1], json.loads(row[-1])]
    return Event(*facts)


def claim_of(row: Row) -> Claim:
    facts: list[Any] = [*row[:-1], bool(row[-1])]
    return Claim(*facts)


def link_of(row: Row) -> Link:
    return Link(row[0], row[1], STATUS[row[2]], row[3])


def agent_of(row: Row) -> Agent:
    return Agent(row[0], row[1], bool(row[2]), *row[3:])


def token_of(row: Row) -> ApiToken:
    return ApiToken(row[0], row[1], tuple(json.loads(row[2])), *row[3:])


def new_item_row(item_id: str, item: NewItem, actor: str | None, now: str) -> list[object]:
    """One entry of `:rows` for the statement `insert_items`."""
    return [
        item_id, item.project_id, item.type, item.description, item.body,
        None if item.payload is None else encode(item.payload),
        int(item.priority), item.assigned_agent, int(item.assigned_agent is not None),
        item.created_by or actor, encode(item.labels) if item.labels else "[]", item.max_attempts,
        item.available_at, int(item.available_at is not None and item.available_at > now),
        item.source, item.source_ref,
    ]  # fmt: skip


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
