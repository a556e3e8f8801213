"""Edits, notes and holds of an item."""

import json
from dataclasses import dataclass, replace
from typing import Any

from rota.model.errors import InvalidInput, Refused, VersionMismatch
from rota.model.events import EventType, NewEvent
from rota.model.status import TERMINAL, Status, Verb, verb_for
from rota.model.work import WorkItem, check_name, check_text
from rota.queue import intake, moves
from rota.queue.intake import LONGEST
from rota.queue.moves import Lost, Moved, Order
from rota.queue.submitting import add_blockers
from rota.storage.port import Edit, RunAgain, Topic, Transaction


@dataclass(frozen=True, slots=True)
class Patch:
    """New values of describing fields and, if given, the status to move to."""

    edits: dict[str, Any]
    blocked_by: tuple[str, ...] | None
    target: Status | None


def patch(tx: Transaction, order: Order, wanted: Patch, dispatch_id: str, now: str) -> Moved | Lost:
    """Edit, then move. The verb follows from the item's status and the target."""
    item = moves.find(tx, order.item_id)
    if order.version is not None and item.version != order.version:
        raise moves.version_mismatch(item, order.version)
    late = order.token is not None and item.claim_token != order.token
    if late and wanted.target is None:
        raise moves.claim_lost(item, tx.find_claim(item.id, order.token or ""))
    # Edits of a former holder are ignored too; the move below answers that the claim is lost.
    if not late and _has_edits(wanted, order):
        notes = order.notes if wanted.target is None else None
        item = edit(tx, item, wanted, order.actor, now, notes=notes)
    if wanted.target is None:
        return Moved(item)
    verb = verb_for(item.status, wanted.target)
    if verb is None and not late:
        raise moves.transition_refused(item, wanted.target)
    verb = verb or _verb_toward(wanted.target)
    ready = order._replace(
        verb=verb, outcome=_default_outcome(verb, order.outcome), version=item.version
    )
    moves.check_order(ready)
    try:
        return moves.apply(tx, ready, dispatch_id, now)
    except VersionMismatch:  # only on PostgreSQL: another transaction has moved the item since
        if order.version is None:
            raise RunAgain from None
        raise


def _has_edits(wanted: Patch, order: Order) -> bool:
    return bool(
        wanted.edits
        or wanted.blocked_by is not None
        or (wanted.target is None and order.notes is not None)
    )


def _default_outcome(verb: Verb, outcome: str | None) -> str | None:
    return "cancelled" if verb is Verb.CANCEL and outcome is None else outcome


def _verb_toward(target: Status) -> Verb:
    """For a former holder's PATCH: the verb it would have meant while in progress."""
    return verb_for(Status.IN_PROGRESS, target) or Verb.RELEASE


def checked_edits(changes: dict[str, Any]) -> dict[str, Any]:
    """The checked fields as columns. `labels` stays a tuple, because it is stored separately."""
    edits = dict(changes)
    if "type" in edits:
        check_text(edits["type"] or "", "type", LONGEST["type"])
    if "description" in edits:
        check_text(edits["description"] or "", "description", LONGEST["description"])
    if "body" in edits:
        intake.check_optional(edits["body"], "body")
    if "priority" in edits:
        intake.check_priority(edits["priority"])
    if "max_attempts" in edits:
        intake.check_attempts(edits["max_attempts"])
    if "assigned_agent" in edits and edits["assigned_agent"] is not None:
        check_name(edits["assigned_agent"], "assigned_agent")
    if "payload" in edits:
        payload = intake.check_payload(edits["payload"])
        edits["payload"] = None if payload is None else json.dumps(payload, ensure_ascii=False)
    if "labels" in edits:
        edits["labels"] = intake.check_labels(tuple(edits["labels"] or ()))
    if "available_at" in edits:
        edits["available_at"] = intake.check_moment(edits["available_at"], "available_at")
    return edits


def edit(
    tx: Transaction,
    item: WorkItem,
    wanted: Patch,
    actor: str | None,
    now: str,
    *,
    notes: str | None = None,
) -> WorkItem:
    """Change describing fields: one event for all of them, and one for a note."""
    columns = _columns(tx, item, wanted, now)
    if notes is not None:
        columns["notes"] = notes
    if wanted.blocked_by is not None:
        # Before the edit: this may wait for a lock, and must not hold the item's row meanwhile.
        _replace_blockers(tx, item, wanted.blocked_by)
    if tx.edit(Edit(item.id, now, columns, item.version)) is None:
        raise RunAgain
    if "labels" in wanted.edits:
        tx.set_labels(item.id, wanted.edits["labels"])
    changed = moves.find(tx, item.id)
    names = sorted({*wanted.edits, *(["blocked_by"] if wanted.blocked_by is not None else [])})
    if names:
        tx.append([about(changed, EventType.EDITED, actor, now, {"fields": names})])
        if item.source is None:
            tx.wake(Topic.READY)
    if "notes" in columns:
        tx.append([about(changed, EventType.NOTED, actor, now, {"notes": notes})])
    return changed


def _columns(tx: Transaction, item: WorkItem, wanted: Patch, now: str) -> dict[str, object]:
    edits = wanted.edits
    columns: dict[str, object] = {k: v for k, v in edits.items() if k != "labels"}
    demand_project(tx, edits.get("project_id"))
    if "available_at" in edits:
        columns["deferred"] = int((edits["available_at"] or "") > now)
    if "assigned_agent" in edits:
        if edits["assigned_agent"] != item.assigned_agent and item.status is not Status.QUEUED:
            raise _stays_with_its_agent(item)
        if wanted.target is Status.DISPATCHED:
            del columns["assigned_agent"]  # the dispatch itself names the agent
        else:
            columns["pinned"] = int(edits["assigned_agent"] is not None)
    return columns


def _stays_with_its_agent(item: WorkItem) -> Refused:
    back = verb_for(item.status, Status.QUEUED)
    if back is None:
        why = f"{item.id} is {item.status}; this status is final, and its agent no longer changes"
    else:
        why = (
            f"{item.id} is {item.status} with '{item.assigned_agent}'; {back} it before naming"
            " another agent"
        )
    return Refused(why, status=item.status)


def demand_project(tx: Transaction, project_id: str | None) -> None:
    if project_id is not None and tx.get_project(project_id) is None:
        raise InvalidInput(
            f"project_id: there is no project {project_id[:100]!r}", field="project_id"
        )


def _replace_blockers(tx: Transaction, item: WorkItem, blocked_by: tuple[str, ...]) -> None:
    blocked_by = intake.check_blockers(blocked_by)
    for blocker in blocked_by:
        if tx.reaches(blocker, item.id):
            raise InvalidInput(
                f"blocked_by: {blocker[:100]} waits for {item.id} itself; that would be a circle",
                field="blocked_by",
            )
    tx.clear_blockers(item.id)
    add_blockers(tx, item.id, blocked_by)


def note(
    tx: Transaction, item_id: str, notes: str, *, actor: str | None, token: str | None, now: str
) -> WorkItem:
    item = moves.find(tx, item_id)
    if token is not None and item.claim_token != token:
        raise moves.claim_lost(item, tx.find_claim(item.id, token))
    # The version only guards the claim: without a token, concurrent changes do not refuse a note.
    seen = None if token is None else item.version
    changed = tx.edit(Edit(item.id, now, {"notes": notes}, seen))
    if changed is None:
        raise RunAgain
    tx.append([about(changed, EventType.NOTED, actor, now, {"notes": notes})])
    return changed


def set_hold(
    tx: Transaction, item_id: str, reason: str | None, actor: str | None, now: str
) -> WorkItem:
    """Put an operator's hold on an item, or take it off (no reason).

    A failed item may be held too: the hold stays when the item is retried.
    """
    item = moves.find(tx, item_id)
    if item.status in TERMINAL and item.status is not Status.FAILED:
        raise Refused(f"{item.id} is {item.status}; a finished item needs no hold")
    by_source = item.source is not None and tx.hold_by(item.id) is not None
    if by_source and reason is None:
        raise Refused(
            f"{item.id} is held by its source {item.source}: {item.hold_reason}; lift it there,"
            " or it would be held again at once",
            source=item.source,
            hold_reason=item.hold_reason,
        )
    if item.hold_reason == reason and not by_source:
        return item
    return put_hold(tx, item, reason, actor, now)


def put_hold(
    tx: Transaction,
    item: WorkItem,
    reason: str | None,
    actor: str | None,
    now: str,
    *,
    by: str | None = None,
) -> WorkItem:
    """Set or clear the hold; `by` is 'source' for the source's own hold."""
    hold: dict[str, object] = {"hold_reason": reason, "hold_by": None if reason is None else by}
    changed = tx.edit(Edit(item.id, now, hold, item.version))
    if changed is None:
        raise RunAgain
    kind = EventType.UNHELD if reason is None else EventType.HELD
    tx.append([replace(about(changed, kind, actor, now), reason=reason)])
    if reason is None and item.source is None:
        tx.wake(Topic.READY)
    return changed


def about(
    item: WorkItem,
    kind: EventType,
    actor: str | None,
    now: str,
    data: dict[str, Any] | None = None,
) -> NewEvent:
    """An event about an item that keeps its status."""
    return NewEvent(
        kind,
        now,
        actor=actor,
        work_item_id=item.id,
        project_id=item.project_id,
        agent=item.assigned_agent,
        epoch=item.epoch,
        data=data or {},
    )
