"""One transition from order to event. Except for batches (`claiming`), every status changes here.

Each verb is one guarded statement (`Transaction.move`). When it changes no row, the
item is read once to find out which guard refused, and the caller is told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from rota.model.access import QUEUE
from rota.model.claims import Claim, ClaimRequest, ClaimResult
from rota.model.clock import from_text, later, to_text
from rota.model.errors import (
    ClaimedByAnother,
    ClaimLost,
    InvalidInput,
    MissingRequirement,
    NotFound,
    Refused,
    TransitionRefused,
    VersionMismatch,
)
from rota.model.events import EVENT_OF, Event, EventType, NewEvent
from rota.model.status import OUTCOME_OF, RULES, TERMINAL, Outcome, Status, Verb, allowed_from
from rota.model.work import MAX_PAGE, WorkItem
from rota.queue import obstacles
from rota.storage.port import Move, RunAgain, Topic, Transaction

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Order(NamedTuple):
    """One verb on one item, with everything that the caller gave."""

    verb: Verb
    item_id: str
    actor: str | None
    token: str | None = None
    outcome: str | None = None
    notes: str | None = None
    artifact_url: str | None = None
    agent: str | None = None
    reason: str | None = None
    available_at: str | None = None
    version: int | None = None
    force: bool = False
    lease: "Lease | None" = None
    through_source: bool = False  # the order comes from the item's own source
    in_passing: bool = False  # the item leaves work again in this transaction: no slot is needed
    next: ClaimRequest | None = None  # what the holder claims in the same transaction
    counted: bool = True  # False: nobody worked, so it was no attempt, and a retry keeps the count
    details: Mapping[str, Any] = _NOTHING


@dataclass(frozen=True, slots=True)
class Lease:
    """It begins with the move. If it began while the order still waited for the database, it could
    lapse before anybody held it."""

    token: str
    seconds: float
    first_seconds: float  # until the first heartbeat

    def ends(self, now: str) -> str:
        return to_text(later(from_text(now), self.first_seconds, "lease_seconds"))


class Moved(NamedTuple):
    item: WorkItem
    claim: Claim | None = None
    repeated: bool = False  # the call was a repeat, because the first answer was lost
    next: ClaimResult | None = None  # None: not asked for


@dataclass(frozen=True, slots=True)
class Lost:
    """The caller's claim has ended. Its result was kept, so the transaction must commit: this is
    returned, not raised."""

    error: ClaimLost


_DROPS_AGENT = frozenset({Verb.RELEASE, Verb.REOPEN, Verb.RETRY})
_CLOSES_AS_RELEASED = frozenset({Verb.RELEASE, Verb.REOPEN})
_ENTERS_WORK = frozenset({Verb.START, Verb.RESUME})
# For an item with a source, these verbs are possible only through that source.
_TAKES = frozenset({Verb.DISPATCH, *_ENTERS_WORK})
# What a holder says of its work. Other verbs have no result that could be kept.
_REPORTS = frozenset({Verb.COMPLETE, Verb.FAIL, Verb.BLOCK, Verb.HAND_OVER, Verb.RELEASE})
_WAITS = frozenset({Status.QUEUED, Status.DISPATCHED, Status.BLOCKED})
FORCED = "forced"  # in an event's data: somebody other than the holder ended the claim


def check_order(order: Order) -> None:
    """Raise what can be refused without reading the item."""
    rule = RULES[order.verb]
    if rule.needs in ("outcome", "notes", "artifact_url") and not getattr(order, rule.needs):
        raise MissingRequirement(
            f"{order.verb} needs {rule.needs}{_example(rule.needs)}", field=rule.needs
        )
    expected = OUTCOME_OF.get(rule.target)
    if order.outcome is not None and order.outcome != expected:
        raise InvalidInput(
            f"outcome {str(order.outcome)!r} does not fit {order.verb}"
            + (f"; it is {str(expected)!r}" if expected else ": only terminal statuses have one"),
            field="outcome",
        )


def _example(needs: str) -> str:
    return {
        "outcome": " (success for completed, failed for failed)",
        "notes": ": say what it waits for",
        "artifact_url": ": the address of what is to be reviewed",
    }[needs]


def apply(tx: Transaction, order: Order, dispatch_id: str, now: str) -> Moved | Lost:
    """Make the move in the caller's transaction, with claim, dispatch log, events and unblocks."""
    if order.verb is Verb.RETRY:
        _demand_no_twin(tx, order.item_id)
    agent, slot, version = _who_and_where(tx, order, now)
    item = tx.move(_guarded(order, agent, slot, version, now))
    if item is None:
        return _refusal(tx, order, now)
    claim = _settle(tx, order, item, dispatch_id, now)
    if not order.counted and _ends_a_claim(order, item):
        tx.uncount_attempt(item.id, item.epoch)
        item.attempts = find(tx, item.id).attempts
    tx.append([_event(order, item), *_unblock(tx, order, item, now)])
    if item.status in (Status.QUEUED, Status.DISPATCHED) and item.source is None:
        tx.wake(Topic.READY)
    return Moved(item, claim)


def _ends_a_claim(order: Order, item: WorkItem) -> bool:
    """Whether the order ends its caller's own claim, so that this attempt may be taken back."""
    held = order.token is not None and item.came_from is Status.IN_PROGRESS
    return held and order.verb is Verb.RELEASE


def _who_and_where(
    tx: Transaction, order: Order, now: str
) -> tuple[str | None, int | None, int | None]:
    """The agent that the order names; and, if the item enters work, its slot and the version that
    was read."""
    if order.verb is Verb.DISPATCH and order.agent is None:
        item = find(tx, order.item_id)
        if item.assigned_agent is None and item.status is Status.QUEUED:
            raise MissingRequirement(
                "dispatch needs assigned_agent: who shall do it?", field="assigned_agent"
            )
    if order.verb not in _ENTERS_WORK:
        return order.agent, None, order.version
    item = find(tx, order.item_id)
    if item.status not in RULES[order.verb].sources or item.assigned_agent is None:
        return None, 0, order.version  # the guard will refuse it; the slot is never used
    if order.agent is not None and order.agent != item.assigned_agent:
        raise Refused(
            f"{item.id} is dispatched to '{item.assigned_agent}'; only the one who holds the"
            " dispatch may start it",
            assigned_agent=item.assigned_agent,
        )
    if not (order.force or order.through_source):
        # What keeps an item from a claim also keeps it from being started by id.
        obstacles.demand_unheld(item)
        if order.verb is Verb.START:
            obstacles.demand_due(tx, item, item.id, now)
        elif order.lease is None and item.source is None:
            obstacles.demand_somebody(tx, item)
    if order.verb is Verb.START and not order.in_passing:
        obstacles.demand_room(tx, item.assigned_agent)
    slot = obstacles.free_slot(tx, item.assigned_agent, in_passing=order.in_passing)
    return None, slot, item.version if order.version is None else order.version


def _demand_no_twin(tx: Transaction, item_id: str) -> None:
    """Raise if a failed item would come back while its reference has another live item."""
    item = find(tx, item_id)
    if item.status is not Status.FAILED or item.source is None or item.source_ref is None:
        return
    twin = tx.outside_item(item.source, item.source_ref)
    if twin is not None and twin.id != item.id and twin.status not in TERMINAL:
        raise Refused(
            f"{item.id} failed, and {twin.id} ({twin.status}) has stood for"
            f" {item.source} {item.source_ref} since; go on with that one, or cancel it first",
            id=twin.id,
            status=twin.status,
        )


def _guarded(
    order: Order, agent: str | None, slot: int | None, version: int | None, now: str
) -> Move:
    rule = RULES[order.verb]
    return Move(
        order.item_id,
        rule.sources,
        rule.target,
        now,
        order.reason or order.verb,
        outcome=OUTCOME_OF.get(rule.target),
        notes=order.notes,
        artifact_url=order.artifact_url,
        agent=agent,
        drop_agent=order.verb in _DROPS_AGENT,
        slot=slot,
        new_epoch=order.verb in _ENTERS_WORK,
        reset_attempts=order.verb is Verb.RETRY and order.counted,
        available_at=order.available_at,
        token=order.token,
        force=order.force,
        version=version,
        ours_only=order.verb in _TAKES and not order.through_source,
    )


def _settle(
    tx: Transaction, order: Order, item: WorkItem, dispatch_id: str, now: str
) -> Claim | None:
    """Update claim and dispatch log after the move."""
    if order.verb is Verb.DISPATCH:
        tx.log_dispatch(dispatch_id, item.id, item.assigned_agent or "", now)
    elif item.status in TERMINAL:
        tx.close_dispatch(item.id, now, OUTCOME_OF[item.status])
    elif order.verb in _CLOSES_AS_RELEASED:
        tx.close_dispatch(item.id, now, "released")
    if order.lease is None or order.verb not in _ENTERS_WORK:
        return None
    lease = order.lease
    claim = Claim(
        item.id, item.epoch, lease.token, item.assigned_agent or "", item.slot or 0, now,
        lease.seconds, lease.ends(now),
    )  # fmt: skip
    tx.lease(claim)
    item.claim_token, item.lease_expires_at = claim.token, claim.expires_at
    return claim


def _event(order: Order, item: WorkItem) -> NewEvent:
    data: dict[str, Any] = dict(order.details)
    if order.force and item.came_from is Status.IN_PROGRESS:
        data[FORCED] = True
    if item.outcome is not None:
        data["outcome"] = item.outcome
    if order.notes is not None:
        data["notes"] = order.notes
    if order.artifact_url is not None:
        data["artifact_url"] = order.artifact_url
    return NewEvent(
        EVENT_OF[order.verb],
        item.updated_at,
        actor=order.actor,
        work_item_id=item.id,
        project_id=item.project_id,
        agent=item.assigned_agent,
        reason=item.reason,
        from_status=item.came_from,
        to_status=item.status,
        epoch=item.epoch,
        data=data,
    )


def _unblock(tx: Transaction, order: Order, item: WorkItem, now: str) -> list[NewEvent]:
    if order.verb is not Verb.COMPLETE or not item.dependents:
        return []
    return unblocked(tx, item, now)


def unblocked(tx: Transaction, blocker: WorkItem, now: str) -> list[NewEvent]:
    """Events for the items that a completed blocker sets free. Failed and cancelled blockers free
    nothing."""
    free = tx.unblock_dependents(blocker.id, now)
    if free:
        tx.wake(Topic.READY)
    return [
        NewEvent(
            EventType.UNBLOCKED,
            now,
            actor=QUEUE,
            work_item_id=item.id,
            project_id=item.project_id,
            agent=item.assigned_agent,
            reason="blocker_completed",
            epoch=item.epoch,
            data={"blocker": blocker.id},
        )
        for item in free
    ]


# Why a guard refused


def find(tx: Transaction, item_id: str) -> WorkItem:
    item = tx.get_item(item_id)
    if item is None:
        raise NotFound(f"there is no work item {item_id[:100]!r}", id=item_id[:100])
    return item


def _refusal(tx: Transaction, order: Order, now: str) -> Moved | Lost:
    item = find(tx, order.item_id)
    rule = RULES[order.verb]
    if order.token is not None and item.claim_token != order.token:
        return _after_claim(tx, order, item, now)
    if order.version is not None and item.version != order.version:
        raise version_mismatch(item, order.version)
    if order.verb is Verb.START and order.token is not None:
        return Moved(item, repeated=True)  # the claim itself has started the item
    if item.source and order.verb in _TAKES and not order.through_source and item.status in _WAITS:
        raise _through_source(item)
    if item.status not in rule.sources:
        raise transition_refused(item, order.verb)
    if item.claim_token is not None and order.token is None and not order.force:
        raise ClaimedByAnother(
            f"{item.id} is claimed by '{item.assigned_agent}'; give the claim's token, or force it"
            " as a dispatcher, which ends the claim",
            agent=item.assigned_agent,
        )
    raise RunAgain  # another transaction changed the item between the two statements


def _through_source(item: WorkItem) -> Refused:
    back = "" if item.status is Status.QUEUED else f"; `rota release {item.id}` gives it back first"
    return Refused(
        f"{item.id} is {item.source_ref} of {item.source}: take it through its source, where"
        f" everybody sees the claim{back}",
        source=item.source,
        source_ref=item.source_ref,
    )


def _after_claim(tx: Transaction, order: Order, item: WorkItem, now: str) -> Moved | Lost:
    """The token is not the live one: a repeated call, a late result, or an unknown token."""
    claim = tx.find_claim(item.id, order.token or "")
    kept = claim is not None and order.verb in _REPORTS
    error = claim_lost(item, claim, kept=kept)
    if claim is None or not kept:
        raise error
    told = tx.events_of(item.id, MAX_PAGE)
    if _is_repeat(told, order, item, claim):
        return Moved(item, repeated=True)
    late = _late_result(order, item, claim, now)
    if not any(_says(one, late) for one in told):  # a late result may be repeated too
        tx.append([late])
    return Lost(error)


def claim_lost(item: WorkItem, claim: Claim | None, **details: Any) -> ClaimLost:
    how = "has ended" if claim is not None else "was never made here"
    whose = f"it is with '{item.assigned_agent}' now" if item.claim_token else "nobody holds it"
    return ClaimLost(
        f"this claim of {item.id} {how}; the item is {item.status} and {whose}. Stop working on it",
        status=item.status,
        **details,
    )


def _is_repeat(told: Sequence[Event], order: Order, item: WorkItem, claim: Claim) -> bool:
    """Whether the holder repeats the verb that ended its own claim, because the first answer was
    lost. If somebody else has moved the item, by force or later, this is no repeat."""
    if item.epoch != claim.epoch or item.status is not RULES[order.verb].target:
        return False
    last = next((one for one in reversed(told) if one.to_status), None)
    return (
        last is not None  # too many notes since to know: then it is kept as a late result
        and last.from_status == Status.IN_PROGRESS
        and FORCED not in last.data
        and last.reason == (order.reason or order.verb)
    )


def _says(event: Event, late: NewEvent) -> bool:
    return (event.type, event.epoch, event.data) == (late.type, late.epoch, late.data)


def _late_result(order: Order, item: WorkItem, claim: Claim, now: str) -> NewEvent:
    data = {
        "verb": order.verb,
        "outcome": order.outcome,
        "notes": order.notes,
        "artifact_url": order.artifact_url,
        "claimed_at": claim.claimed_at,
    }
    return NewEvent(
        EventType.LATE_RESULT,
        now,
        actor=order.actor,
        work_item_id=item.id,
        project_id=item.project_id,
        agent=claim.agent,
        reason="claim_lost",
        epoch=claim.epoch,
        data={name: value for name, value in data.items() if value is not None},
    )


def given(result: Moved | Lost) -> Moved:
    if isinstance(result, Lost):
        raise result.error
    return result


def transition_refused(item: WorkItem, wanted: Verb | Status) -> TransitionRefused:
    allowed = allowed_from(item.status)
    way = ", ".join(f"{verb} → {target}" for verb, target in allowed.items())
    return TransitionRefused(
        f"{item.id} is {item.status}; {wanted} is not possible from there"
        + (f" (possible: {way})" if way else " (nothing is: this status is final)"),
        status=item.status,
        allowed=sorted({str(target) for target in allowed.values()}),
        verbs=[str(verb) for verb in allowed],
    )


def version_mismatch(item: WorkItem, version: int) -> VersionMismatch:
    return VersionMismatch(
        f"{item.id} is at version {item.version}, not {version}; read it again and decide anew",
        version=item.version,
    )


_OUTCOMES = frozenset(Outcome)


def checked_outcome(outcome: str | None) -> str | None:
    """Accepts `failure`, the word that runs use, as `failed`."""
    if outcome is None:
        return None
    if outcome == "failure":
        return Outcome.FAILED
    if outcome not in _OUTCOMES:
        raise InvalidInput(
            f"outcome {outcome[:40]!r} is unknown; there are {', '.join(Outcome)}",
            field="outcome",
        )
    return outcome
