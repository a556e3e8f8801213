"""The actions of signals, performed in the transaction that ends the firing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.model.clock import IdFactory
from rota.model.errors import NotFound, Refused, VersionMismatch
from rota.model.events import Event
from rota.model.notices import NOTIFICATION
from rota.model.runs import OutboxEntry
from rota.model.schedules import Trigger, TriggerKind
from rota.model.signals import (
    Action,
    ActionKind,
    FiringRecord,
    FollowUp,
    FollowUpStatus,
    Signal,
    TriggerOn,
)
from rota.model.status import TERMINAL, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import editing, intake, moves, submitting
from rota.queue.moves import Order
from rota.queue.submitting import Submission
from rota.scheduler.service import insert_asked
from rota.signals.action_specs import PLACE
from rota.storage.port import RunAgain, Topic, Transaction

NOTIFY = "notify"  # to an address
BEHIND = "signals"  # in the data of a move: the signals behind it, each set off by the one before
DEFAULT_TYPE = "follow_up"


@dataclass(frozen=True, slots=True)
class Occasion:
    """Everything about one firing that an action may need."""

    signal: Signal
    firing: FiringRecord
    event: Event | None
    item: WorkItem | None
    now: str
    ids: IdFactory

    @property
    def actor(self) -> str:
        return f"signal:{self.signal.name or self.signal.id}"


def behind(signal: Signal, event: Event | None) -> list[str]:
    """The signals whose moves led to this firing, the first one first. A signal that waits for a
    time begins anew: what moves an item once an hour is no loop."""
    if event is None or signal.condition.kind is TriggerOn.TIME:
        return []
    return list(event.data.get(BEHIND, ()))


def perform(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    """The ids of what it made, by kind; `enqueued_job_id` for an item or a trigger."""
    return _DEEDS[occasion.signal.action.kind](tx, occasion)


def _item(occasion: Occasion) -> WorkItem:
    """Of an action that needs one: `judge` lets no other pass."""
    if occasion.item is None:
        raise NotFound(f"there is no item that {occasion.signal.action.kind} could be about")
    return occasion.item


def _follow_up(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    """Without an item, or for one that has ended, a new item is submitted instead."""
    item, action = occasion.item, occasion.signal.action
    if item is None or item.status in TERMINAL:
        return _submit(tx, occasion)
    made = FollowUp(
        occasion.ids.new(),
        item.id,
        occasion.signal.id,
        occasion.firing.id,
        filled(action.title, occasion) or f"Look after: {item.description}"[:500],
        filled(action.body, occasion),
        FollowUpStatus.OPEN,
        action.agent,
        occasion.now,
    )
    tx.insert_follow_up(made)
    return {"follow_up_id": made.id}


def _submit(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    action, parent = occasion.signal.action, occasion.item
    new = intake.checked(_new_item(action, parent, occasion))
    (answer,) = submitting.submit(
        tx, [Submission([new], occasion.actor)], occasion.ids, occasion.now
    )
    if isinstance(answer, Exception):
        raise answer
    item_id = answer.items[0].id
    # By its cause, which may be another item than the signal's own: so loops are counted.
    cause, followed = occasion.firing.work_item_id, parent.id if parent else None
    tx.put_lineage(item_id, cause, occasion.signal.id, followed)
    return {"work_item_id": item_id, "enqueued_job_id": item_id}


def _new_item(action: Action, parent: WorkItem | None, occasion: Occasion) -> NewItem:
    about = parent.description if parent else occasion.signal.name or occasion.signal.id
    title = filled(action.title, occasion) or f"Follow up: {about}"
    origin = {
        "signal_id": occasion.signal.id,
        "firing_id": occasion.firing.id,
        "follows": parent.id if parent else None,
    }
    project = action.project_id or (parent.project_id if parent else None)
    return NewItem(
        action.type or DEFAULT_TYPE,
        title[: intake.LONGEST["description"]],
        body=filled(action.body, occasion),
        payload={**(action.payload or {}), "signal": origin},
        priority=action.priority or (parent.priority if parent else 3),
        project_id=project,
        assigned_agent=action.agent,
        created_by=occasion.actor[: intake.LONGEST["created_by"]],
        labels=action.labels,
    )


def _dispatch(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    agent = occasion.signal.action.agent
    return _move(tx, occasion, Verb.DISPATCH, agent=agent)


def _release(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    return _move(tx, occasion, Verb.RELEASE, reason=occasion.signal.action.reason, force=True)


def _move(tx: Transaction, occasion: Occasion, verb: Verb, **facts: Any) -> dict[str, Any]:
    item, signal = _item(occasion), occasion.signal
    details = {BEHIND: [*behind(signal, occasion.event), signal.id]}
    order = Order(verb, item.id, occasion.actor, details=details, version=item.version, **facts)
    try:
        moves.given(moves.apply(tx, order, occasion.ids.new(), occasion.now))
    except VersionMismatch:  # it has moved since the condition was judged
        raise RunAgain from None
    return {"work_item_id": item.id}


def _hold(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    item, reason = _item(occasion), occasion.signal.action.reason
    why = reason or f"held by signal {occasion.signal.name or occasion.signal.id}"
    editing.set_hold(tx, item.id, why, occasion.actor, occasion.now)
    return {"work_item_id": item.id}


def _trigger(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    action, new_id = occasion.signal.action, occasion.ids.new()
    agent, schedule = action.agent or "", action.schedule or ""
    if tx.schedule_state(agent, schedule, occasion.now) is None:
        raise Refused(f"there is no schedule {agent}/{schedule}; rota schedule list shows them")
    message = filled(action.body, occasion)
    asked = Trigger(new_id, agent, schedule, new_id, TriggerKind.MANUAL, "", occasion.now, message)
    insert_asked(tx, asked)
    return {"trigger_id": new_id, "enqueued_job_id": new_id}


def _notify(tx: Transaction, occasion: Occasion) -> dict[str, Any]:
    action = occasion.signal.action
    facts = {
        "url": action.url,
        "channel": action.channel,
        "name": occasion.signal.name,
        "title": filled(action.title, occasion),
        "text": filled(action.body, occasion),
        "signal_id": occasion.signal.id,
        "firing_id": occasion.firing.id,
        "work_item_id": occasion.item.id if occasion.item else None,
    }
    kind, subject = (
        (NOTIFICATION, action.channel) if action.channel else (NOTIFY, occasion.firing.id)
    )
    entry = OutboxEntry(f"notify-{occasion.firing.id}", kind, None, subject, facts, occasion.now)
    tx.post(entry)
    tx.wake(Topic.POST)
    return {"outbox_id": entry.id}


_DEEDS: dict[ActionKind, Callable[[Transaction, Occasion], dict[str, Any]]] = {
    ActionKind.FOLLOW_UP: _follow_up,
    ActionKind.SUBMIT: _submit,
    ActionKind.DISPATCH: _dispatch,
    ActionKind.RELEASE: _release,
    ActionKind.HOLD: _hold,
    ActionKind.TRIGGER: _trigger,
    ActionKind.NOTIFY: _notify,
}


def filled(template: str | None, occasion: Occasion) -> str | None:
    """Fill in the fields of a template. Braces inside a value are not filled in again."""
    if template is None:
        return None
    facts = _facts(occasion)
    return PLACE.sub(lambda place: str(facts.get(place[1]) or ""), template)


def _facts(occasion: Occasion) -> Mapping[str, object]:
    item, event, signal = occasion.item, occasion.event, occasion.signal
    facts: dict[str, object] = {"signal.id": signal.id, "signal.name": signal.name}
    if item is not None:
        facts |= {
            "item.id": item.id,
            "item.description": item.description,
            "item.type": item.type,
            "item.status": item.status,
            "item.priority": item.priority,
            "item.agent": item.assigned_agent,
            "item.project_id": item.project_id,
            "item.artifact_url": item.artifact_url,
            "item.notes": item.notes,
        }
    if event is not None:
        facts |= {
            "event.seq": event.seq,
            "event.type": event.type,
            "event.reason": event.reason,
            "event.from": event.from_status,
            "event.to": event.to_status,
            "event.actor": event.actor,
            "event.agent": event.agent,
            "event.at": event.occurred_at,
            "run.id": event.data.get("run_id"),
            "run.status": event.data.get("status"),
            "run.summary": event.data.get("summary"),
            "run.error": event.data.get("error"),
            "run.schedule": event.data.get("schedule"),
        }
    return facts
