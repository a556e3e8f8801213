"""One firing, from its cause to its action: one guarded transaction."""

from dataclasses import replace
from typing import Any

from rota.model.access import SIGNALS
from rota.model.clock import IdFactory
from rota.model.events import Event, EventType, NewEvent
from rota.model.signals import FiringFacts, FiringRecord, FiringStatus, Signal, SignalStatus
from rota.queue.enrolment import project_of
from rota.signals.actions import Occasion, behind, perform
from rota.signals.conditions import SEEN_BEFORE, Case, Not, Waits, judge
from rota.storage.port import RunAgain, Topic, Transaction


def fire(
    tx: Transaction, firing_id: str, owner: str, now: str, ids: IdFactory
) -> FiringStatus | None:
    """Fire a firing that was leased in an earlier transaction; None when it is no longer ours."""
    firing = tx.get_firing(firing_id)
    if (
        firing is None
        or firing.status is not FiringStatus.PROCESSING
        or firing.lease_owner != owner
    ):
        return None
    return fire_taken(tx, firing, owner, now, ids)


def fire_taken(
    tx: Transaction, firing: FiringRecord, owner: str, now: str, ids: IdFactory
) -> FiringStatus | None:
    """Fire a firing that this transaction knows to be ours; None when it has to wait for its time.

    One transaction counts the signal, performs the action, ends the firing and writes the event. If
    the process dies on the way, nothing has happened; a second try finds the firing ended.
    """
    facts = tx.firing_facts(firing)
    if facts is None or facts.signal.status is not SignalStatus.ACTIVE:
        why = f"the signal is {facts.signal.status if facts else 'gone'}"
        return _skip(tx, firing, owner, now, why)
    signal, event, item = facts.signal, facts.event, facts.item
    if signal.expires_at is not None and signal.expires_at <= now:
        return _skip(tx, firing, owner, now, "the signal is expired")
    verdict = judge(tx, Case(signal, firing, event, item, now))
    if isinstance(verdict, Waits):
        tx.postpone_firing(firing.id, owner, verdict.until, None, counted=False)
        return None
    if isinstance(verdict, Not):
        return _skip(tx, firing, owner, now, verdict.why)
    loop = _loop(tx, facts, firing)
    if loop is not None:
        _tell_stopped(tx, signal, firing, now, loop)
        return _skip(tx, firing, owner, now, loop)
    last = signal.condition.is_moment or (
        signal.max_fires is not None and signal.fires + 1 >= signal.max_fires
    )
    made = perform(tx, Occasion(signal, firing, event, item, now, ids))
    ended = replace(firing, status=FiringStatus.ENQUEUED, error=None, result=made)
    told = _fired(signal, firing, event, made, now)
    told = replace(told, project_id=item.project_id if item else None)
    if not tx.conclude_firing(signal, ended, told, verdict.seq, last=last):
        raise RunAgain
    tx.skip_firings(verdict.seen - {firing.id}, SEEN_BEFORE, now)
    return FiringStatus.ENQUEUED


def _skip(tx: Transaction, firing: FiringRecord, owner: str, now: str, why: str) -> FiringStatus:
    tx.end_firing(replace(firing, status=FiringStatus.SKIPPED, error=why), owner, now)
    return FiringStatus.SKIPPED


def _loop(tx: Transaction, facts: FiringFacts, firing: FiringRecord) -> str | None:
    """How the signal has set itself off, if it did more than `max_depth` times in a row."""
    signal = facts.signal
    line = tx.ancestry(firing.work_item_id or "") if facts.is_descendant else []
    if behind(signal, facts.event).count(signal.id) > signal.max_depth:
        how = "its own moves set it off"
    elif line.count(signal.id) > signal.max_depth:
        how = "this item was made by follow-ups of this very signal"
    else:
        return None
    return (
        f"a loop: {how}, more than {signal.max_depth} deep; narrow its condition, or raise"
        " max_depth"
    )


def give_up(tx: Transaction, firing: FiringRecord, owner: str, now: str, error: str) -> None:
    """End it as failed. It is kept for people to see, who can retry it."""
    if not tx.end_firing(replace(firing, status=FiringStatus.FAILED, error=error), owner, now):
        return
    signal = tx.get_signal(firing.signal_id)
    if signal is not None:
        _tell_stopped(tx, signal, firing, now, error)


def _tell_stopped(
    tx: Transaction, signal: Signal, firing: FiringRecord, now: str, error: str
) -> None:
    told = _told(EventType.SIGNAL_STOPPED, signal, firing, now, {"error": error})
    tx.append([replace(told, project_id=project_of(tx, told.work_item_id))])
    tx.wake(Topic.EVENTS)


def _fired(
    signal: Signal, firing: FiringRecord, event: Event | None, made: dict[str, Any], now: str
) -> NewEvent:
    data = {"action": str(signal.action.kind), "cause": event.seq if event else None} | made
    return _told(EventType.SIGNAL_FIRED, signal, firing, now, data)


def _told(
    kind: EventType, signal: Signal, firing: FiringRecord, now: str, data: dict[str, Any]
) -> NewEvent:
    known = {"signal_id": signal.id, "firing_id": firing.id, "name": signal.name} | data
    return NewEvent(
        kind,
        now,
        actor=SIGNALS,
        work_item_id=signal.work_item_id or firing.work_item_id,
        data={name: value for name, value in known.items() if value is not None},
    )
