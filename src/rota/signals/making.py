"""Adds signals to the ledger, with their keys, and cancels them."""

from rota.model.errors import InvalidInput, Refused
from rota.model.events import EventType, NewEvent
from rota.model.signals import (
    Action,
    ActionKind,
    FiringRecord,
    FiringStatus,
    NewSignal,
    Signal,
    SignalStatus,
    TriggerOn,
)
from rota.queue.enrolment import project_of
from rota.signals.conditions import keys
from rota.storage.port import Topic, Transaction


def signal_of(new: NewSignal, signal_id: str, actor: str | None, now: str) -> Signal:
    return Signal(
        signal_id,
        new.work_item_id,
        new.name,
        new.condition,
        new.action,
        SignalStatus.ACTIVE,
        new.max_fires,
        0,
        new.max_depth,
        new.expires_at,
        new.created_by or actor,
        new.configured,
        now,
        now,
    )


def insert(tx: Transaction, signal: Signal, now: str) -> Signal:
    """Insert the signal with its keys. A condition that may hold already is checked once, by a
    firing without an event."""
    demand_what_it_names(tx, signal)
    _demand_free_name(tx, signal.name)
    tx.insert_signal(signal, keys(signal.condition, signal.work_item_id))
    if signal.condition.kind in (TriggerOn.ALL_IN, TriggerOn.ANY_IN, TriggerOn.TIME) and not (
        signal.condition.while_in
    ):
        tx.insert_firing(
            FiringRecord(
                f"{signal.id}:created",
                signal.id,
                "created",
                None,
                signal.work_item_id,
                FiringStatus.QUEUED,
                0,
                signal.condition.at or now,
                now,
            )
        )
    tx.append([event_of(tx, EventType.SIGNAL_CREATED, signal, signal.created_by, now)])
    tx.wake(Topic.EVENTS)
    return signal


def cancel(tx: Transaction, signal: Signal, actor: str | None, now: str) -> bool:
    """False when the signal is not active."""
    if not tx.end_signal(signal.id, SignalStatus.CANCELLED, now):
        return False
    tx.append([event_of(tx, EventType.SIGNAL_CANCELLED, signal, actor, now)])
    tx.wake(Topic.EVENTS)
    return True


def _demand_free_name(tx: Transaction, name: str | None) -> None:
    taken = tx.signal_named(name) if name is not None else None
    if taken is not None:
        raise Refused(
            f"name: signal {taken} is called {name!r} and still active; cancel it, or choose"
            " another name",
            field="name",
            signal_id=taken,
        )


def demand_what_it_names(tx: Transaction, signal: Signal) -> None:
    if signal.work_item_id is not None and tx.get_item(signal.work_item_id) is None:
        raise InvalidInput(
            f"work_item_id: there is no work item {signal.work_item_id[:100]!r}",
            field="work_item_id",
        )
    missing = [one for one in signal.condition.items if tx.get_item(one) is None]
    if missing:
        raise InvalidInput(
            f"trigger.items: there is no work item {missing[0][:100]!r}", field="trigger.items"
        )
    for place, about in (("trigger", signal.condition), ("action", signal.action)):
        if about.project_id is not None and tx.get_project(about.project_id) is None:
            field = f"{place}.project_id"
            raise InvalidInput(
                f"{field}: there is no project {about.project_id[:100]!r}", field=field
            )
    if signal.action.kind is ActionKind.TRIGGER and not signal.configured:
        _demand_schedule(tx, signal.action, signal.created_at)


def _demand_schedule(tx: Transaction, action: Action, since: str) -> None:
    """Only if the ledger has schedules: before the first `rota up` it has none."""
    agent, name = action.agent or "", action.schedule or ""
    if tx.schedule_state(agent, name, since) is None and tx.schedule_states(None, None, 1, since):
        raise InvalidInput(
            f"action.schedule: there is no schedule {agent}/{name}; rota schedule list shows those"
            " that there are",
            field="action.schedule",
        )


def event_of(
    tx: Transaction, kind: EventType, signal: Signal, actor: str | None, now: str
) -> NewEvent:
    data = {"signal_id": signal.id, "name": signal.name, "kind": str(signal.condition.kind)}
    return NewEvent(
        kind,
        now,
        actor=actor,
        work_item_id=signal.work_item_id,
        project_id=signal.condition.project_id or project_of(tx, signal.work_item_id),
        data={name: value for name, value in data.items() if value is not None},
    )
