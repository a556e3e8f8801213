"""What a signal listens to, and whether its condition holds, judged within one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rota.model.clock import from_text, to_text
from rota.model.events import Event
from rota.model.signals import (
    NEEDS_ITEM,
    ActionKind,
    Condition,
    FiringRecord,
    Signal,
    TriggerOn,
)
from rota.model.work import WorkItem
from rota.storage.port import Transaction


@dataclass(frozen=True, slots=True)
class Holds:
    """The condition holds. `seen` are the firings whose causes this firing also covers."""

    seq: int = 0
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Waits:
    until: str


@dataclass(frozen=True, slots=True)
class Not:
    why: str


Verdict = Holds | Waits | Not

SEEN_BEFORE = "an earlier firing has seen this"


def keys(condition: Condition, work_item_id: str | None) -> list[str]:
    """The keys of events that may make the condition true. Each is as selective as possible, so
    that unrelated transitions cost nothing."""
    match condition.kind:
        case TriggerOn.RUN_FINISHED:
            return [f"run.finished:{condition.agent or ''}"]
        case TriggerOn.SOURCE_EVENT:
            return ["source.event:"]
        case TriggerOn.ALL_IN | TriggerOn.ANY_IN if condition.items:
            return [f"item:{one}:{to}" for one in condition.items for to in condition.to]
        case TriggerOn.ALL_IN | TriggerOn.ANY_IN:
            return [f"project:{condition.project_id}:{to}" for to in condition.to]
    if work_item_id is not None:
        place = f"item:{work_item_id}"
    elif condition.project_id is not None:
        place = f"project:{condition.project_id}"
    elif condition.agent is not None:
        place = f"agent:{condition.agent}"
    else:
        place = "any"
    return [f"{place}:{to}" for to in condition.to]


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be judged; `item` is the signal's own item, or else that of the event."""

    signal: Signal
    firing: FiringRecord
    event: Event | None
    item: WorkItem | None
    now: str


def judge(tx: Transaction, case: Case) -> Verdict:
    if (why := _pointless(case)) is not None:
        return Not(why)
    match case.signal.condition.kind:
        case TriggerOn.TRANSITION:
            return _moved(tx, case)
        case TriggerOn.ALL_IN | TriggerOn.ANY_IN:
            return _gathered(tx, case.signal, case.firing)
        case TriggerOn.TIME:
            return _in_time(tx, case)
        case TriggerOn.RUN_FINISHED:
            return _ran(case.signal, case.event)
        case TriggerOn.SOURCE_EVENT:
            return _heard(case.signal.condition, case.event)


def _pointless(case: Case) -> str | None:
    kind = case.signal.action.kind
    if case.item is None and kind in NEEDS_ITEM:
        return f"there is no item that {kind} could be about"
    if kind is ActionKind.RELEASE and _is_taken_since(case.event, case.item):
        return "it has been taken anew since"
    return None


def _is_taken_since(event: Event | None, item: WorkItem | None) -> bool:
    """Releasing it now would end the claim of somebody whom the event was not about."""
    if event is None or item is None or event.work_item_id != item.id:
        return False
    return event.epoch is not None and event.epoch < item.epoch


def _moved(tx: Transaction, case: Case) -> Verdict:
    condition, event = case.signal.condition, case.event
    if event is None or event.work_item_id is None:
        return Not("the event is not there")
    why = _another_move(condition, event) or _outside(condition, case.item, event.agent)
    if why is not None:
        return Not(why)
    if condition.nth > 1:
        times = tx.count_moves(event.work_item_id, condition, event.seq)
        if times < condition.nth:
            return Not(f"this was time {times} of {condition.nth}")
    return Holds(event.seq)


def _another_move(condition: Condition, event: Event) -> str | None:
    if event.to_status not in condition.to:
        return f"it went to {event.to_status}"
    if condition.from_ and event.from_status not in condition.from_:
        return f"it came from {event.from_status}"
    if condition.reasons and event.reason not in condition.reasons:
        return f"the reason was {event.reason}"
    return None


def _outside(condition: Condition, item: WorkItem | None, agent: str | None) -> str | None:
    """Why the item does not match the condition's filters; None if it does."""
    if item is None:
        return "the item is not there"
    if condition.project_id is not None and item.project_id != condition.project_id:
        return f"it is of project {item.project_id}"
    if condition.types and item.type not in condition.types:
        return f"it is of type {item.type}"
    if not set(condition.labels) <= set(item.labels):
        return "it lacks a label"
    if condition.agent is not None and condition.agent not in (agent, item.assigned_agent):
        return f"it was with {agent or item.assigned_agent}"
    return None


def _gathered(tx: Transaction, signal: Signal, firing: FiringRecord) -> Verdict:
    """The causes covered are identified by their firings and not by event numbers: on PostgreSQL an
    event with a lower number may be committed later."""
    found = tx.gather(signal.id, signal.condition)
    if firing.id and firing.id not in found.firings:  # a test against past events has no id
        return Not(SEEN_BEFORE)
    if signal.condition.kind is TriggerOn.ALL_IN:
        enough = found.inside == found.total > 0
    else:
        enough = found.inside > 0
    if not enough:
        return Not(f"{found.inside} of {found.total} are there")
    return Holds(firing.event_seq or 0, found.firings)


def _in_time(tx: Transaction, case: Case) -> Verdict:
    condition, event = case.signal.condition, case.event
    if event is not None:
        verdict = _still(tx, condition, event, case.item)
        if verdict is not None:
            return verdict
    began = event.occurred_at if event is not None else case.signal.created_at
    wait = timedelta(seconds=condition.after_seconds or 0)
    due = condition.at or to_text(from_text(began) + wait)
    return Holds(case.firing.event_seq or 0) if due <= case.now else Waits(due)


def _still(
    tx: Transaction, condition: Condition, event: Event, item: WorkItem | None
) -> Not | None:
    """Why the condition no longer holds: the item does not match, or has moved since the event."""
    why = _outside(condition, item, event.agent)
    if why is not None:
        return Not(why)
    moved = tx.has_moved_since(event.work_item_id or "", event.seq)
    return Not("it has moved on since") if moved else None


def _ran(signal: Signal, event: Event | None) -> Verdict:
    condition = signal.condition
    if event is None:
        return Not("the event is not there")
    if signal.work_item_id not in (None, event.work_item_id):
        return Not("it was not on this item")
    if condition.outcomes and event.reason not in condition.outcomes:
        return Not(f"it ended as {event.reason}")
    if condition.schedule is not None and event.data.get("schedule") != condition.schedule:
        return Not(f"it was of schedule {event.data.get('schedule')}")
    return Holds(event.seq)


def _heard(condition: Condition, event: Event | None) -> Verdict:
    if event is None:
        return Not("the event is not there")
    if condition.source is not None and event.data.get("source") != condition.source:
        return Not(f"it came from {event.data.get('source')}")
    for path, wanted in condition.fields.items():
        if _at(event.data.get("payload", {}), path) != wanted:
            return Not(f"{path} is not {wanted!r}")
    return Holds(event.seq)


def _at(payload: Any, path: str) -> Any:
    """The value at a dotted path, such as `pull_request.merged`."""
    for name in path.split("."):
        if not isinstance(payload, Mapping):
            return None
        payload = payload.get(name)
    return payload
