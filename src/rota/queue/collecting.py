"""Takes an item through its source: submits, dispatches and starts it in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.agents import Agent
from rota.model.claims import Claim, ClaimedItem
from rota.model.clock import IdFactory
from rota.model.errors import ClaimedByAnother, Refused, VersionMismatch
from rota.model.sources import Firing, SourceClaim
from rota.model.status import RULES, TERMINAL, Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import editing, mirroring, moves, obstacles, sweeper
from rota.queue.moves import Lease, Order
from rota.storage.port import RunAgain, Transaction

REASON = "claimed"
IN_PART = "partial"  # the reason of a blocked item whose partial result a person must look at


@dataclass(frozen=True, slots=True)
class Collection:
    """An agent's wish to take an item of a source, and how the claim signs there."""

    item: NewItem
    agent: str
    lease: Lease
    firing: Firing
    cleared: bool  # the source has looked again and no longer holds the item


def collect(tx: Transaction, wanted: Collection, ids: IdFactory, now: str) -> ClaimedItem:
    """Raises the refusal, and has then changed nothing."""
    # Lapsed claims first: one may be on this item, or fill the agent's slots.
    sweeper.catch_up(tx, now)
    _demand_at_work(tx, wanted.agent)
    row = _ready(tx, wanted, ids, now)
    try:
        claim = _started(tx, row, wanted, ids, now)
    except VersionMismatch:
        raise RunAgain from None  # another transaction has changed it
    item = moves.find(tx, row.id)
    if not tx.insert_source_claim(item, wanted.firing, now):
        raise Refused(
            f"the firing id {wanted.firing.firing_id} was used before; make a new one",
            firing_id=wanted.firing.firing_id,
        )
    return ClaimedItem(item, claim)


def kept_back(
    tx: Transaction, source: str, refs: Sequence[str], agent: str, now: str
) -> dict[str, str]:
    """Which of these references `collect` would refuse the agent now, and why. Only reads."""
    found = tx.outside_items(source, refs)
    reasons: dict[str, str] = {}
    for ref in refs:
        row, hold_by = found.get(ref, (None, None))
        try:
            if row is None:
                _demand_attempts(tx.outside_item(source, ref))
            elif not _comes_free(row, now):
                _demand_free(tx, row, agent, now)
                if row.hold_reason is not None and hold_by != mirroring.BY_SOURCE:
                    reasons[ref] = f"{_called(row)} is held: {row.hold_reason}"
        except Refused as error:
            reasons[ref] = error.message
    return reasons


def _comes_free(row: WorkItem, now: str) -> bool:
    """Whether the item becomes free before it is taken: a lapsed claim is swept, and a partial
    result is released by the person who makes the issue ready again at its source."""
    if row.status is Status.BLOCKED:
        return row.reason == IN_PART
    return row.lease_expires_at is not None and row.lease_expires_at <= now


def _demand_at_work(tx: Transaction, name: str) -> None:
    if (tx.get_agent(name) or Agent(name)).paused:
        raise Refused(f"agent '{name}' is paused; `rota agent resume {name}` ends that", agent=name)


def _ready(tx: Transaction, wanted: Collection, ids: IdFactory, now: str) -> WorkItem:
    """The live item of the reference, brought up to date with the source; a new item if there is
    none."""
    source, ref = mirroring.reference(wanted.item)
    row = tx.outside_item(source, ref)
    if row is None or row.status in TERMINAL:
        _demand_attempts(row)
        return mirroring.submitted(tx, source, [wanted.item], ids, now)[0]
    _demand_free(tx, row, wanted.agent, now)
    if row.hold_reason is not None:
        row = _unheld(tx, row, wanted, now)
    return mirroring.refresh(tx, row, wanted.item, now)


def _demand_attempts(last: WorkItem | None) -> None:
    if last is not None and mirroring.is_spent(last):
        raise Refused(
            f"{_called(last)} has used up its {last.max_attempts} attempts;"
            f" `rota retry {last.id}` gives it new ones",
            id=last.id,
            attempts=last.attempts,
        )


def _demand_free(tx: Transaction, row: WorkItem, agent: str, now: str) -> None:
    if row.status is Status.IN_PROGRESS:
        raise ClaimedByAnother(
            f"{_called(row)} is being worked on by '{row.assigned_agent}'", agent=row.assigned_agent
        )
    if row.status in (Status.BLOCKED, Status.IN_REVIEW):
        raise moves.transition_refused(row, Verb.DISPATCH)
    if row.assigned_agent not in (None, agent):
        raise Refused(
            f"{_called(row)} is for '{row.assigned_agent}' only; `rota edit {row.id} --agent none`"
            " lets others take it",
            assigned_agent=row.assigned_agent,
        )
    obstacles.demand_due(tx, row, _called(row), now)


def _unheld(tx: Transaction, row: WorkItem, wanted: Collection, now: str) -> WorkItem:
    by_source = tx.hold_by(row.id) == mirroring.BY_SOURCE
    if by_source and wanted.cleared:
        return editing.put_hold(tx, row, None, row.source, now)
    whose = (
        "its source, which has to lift it" if by_source else f"an operator; `rota unhold {row.id}`"
    )
    raise Refused(
        f"{_called(row)} is held ({row.hold_reason}) by {whose}", hold_reason=row.hold_reason
    )


def _called(row: WorkItem) -> str:
    return f"{row.source} {row.source_ref} ({row.id})"


def _started(tx: Transaction, row: WorkItem, wanted: Collection, ids: IdFactory, now: str) -> Claim:
    agent = wanted.agent
    if row.status is Status.QUEUED:
        dispatch = Order(
            Verb.DISPATCH, row.id, agent, agent=agent, reason=REASON, version=row.version,
            through_source=True,
        )  # fmt: skip
        row = moves.given(moves.apply(tx, dispatch, ids.new(), now)).item
    start = Order(
        Verb.START, row.id, agent, reason=REASON, version=row.version, lease=wanted.lease,
        through_source=True,
    )  # fmt: skip
    claim = moves.given(moves.apply(tx, start, "", now)).claim
    if claim is None:
        raise AssertionError("a start with a lease gives a claim")
    return claim


def give_back(tx: Transaction, firing_id: str, why: str, now: str) -> None:
    claim = tx.find_source_claim(firing_id, now)
    if claim is None or not tx.give_back_source_claim(firing_id, why, now):
        return
    item = moves.find(tx, claim.work_item_id)
    verb = _way_back(tx, item, claim)
    if verb is not None:
        # By force, so that it also works after the lease has lapsed and before a sweep.
        order = Order(
            verb,
            item.id,
            claim.codename,
            reason=why[:100],
            version=item.version,
            force=True,
            counted=False,
        )
        _move(tx, order, "", now)
    tx.uncount_attempt(claim.work_item_id, claim.epoch)


def _way_back(tx: Transaction, item: WorkItem, claim: SourceClaim) -> Verb | None:
    """The verb that puts the item back into the queue. None if it is there already, was taken
    again, or has ended."""
    if item.status is Status.IN_PROGRESS and item.epoch == claim.epoch:
        return Verb.RELEASE
    # It failed because this claim was wrongly counted as an attempt; see `uncount_attempt`.
    robbed = mirroring.is_spent(item) and item.attempts > item.epoch - claim.epoch
    if robbed and (tx.outside_item(claim.source, claim.source_ref) or item).id == item.id:
        return Verb.RETRY
    return None


_ENDS: dict[str, Verb] = {"success": Verb.COMPLETE, "failure": Verb.FAIL, "partial": Verb.BLOCK}

# The verbs that bring an item into progress, by the status it may have after its run has died.
_INTO_WORK: dict[Status, tuple[Verb, ...]] = {
    Status.QUEUED: (Verb.DISPATCH, Verb.START),
    Status.DISPATCHED: (Verb.START,),
    Status.BLOCKED: (Verb.RELEASE, Verb.DISPATCH, Verb.START),
    Status.FAILED: (Verb.RETRY, Verb.DISPATCH, Verb.START),
}


@dataclass(frozen=True, slots=True)
class LateEnd:
    """How a run ended: the source knows it, and the ledger does not yet."""

    firing_id: str
    outcome: str  # "success", "failure" or "partial"
    reason: str
    notes: str | None = None
    artifact_url: str | None = None
    review: bool = False  # a success that still needs a review

    @property
    def verb(self) -> Verb:
        return Verb.HAND_OVER if self.review else _ENDS[self.outcome]


def finish(tx: Transaction, end: LateEnd, ids: IdFactory, now: str) -> bool:
    """Uses the usual moves, so that dispatch log and events are complete. False if there is nothing
    to record."""
    claim = tx.find_source_claim(end.firing_id, now)
    item = None if claim is None else tx.outside_item(claim.source, claim.source_ref)
    if claim is None or item is None or (item.id, item.epoch) != (claim.work_item_id, claim.epoch):
        return False  # the reference has another item by now, or the item was taken again
    way = _way(item.status, end.verb)
    version: int | None = item.version
    for verb in way:
        notes = end.notes
        if verb is Verb.BLOCK and notes is None:
            notes = f"its run ended as {end.outcome}"
        order = Order(
            verb,
            item.id,
            claim.codename,
            agent=claim.codename if verb is Verb.DISPATCH else None,
            notes=notes if verb is end.verb else None,
            artifact_url=end.artifact_url if verb is end.verb else None,
            reason=end.reason,
            version=version,
            force=True,
            through_source=True,
            in_passing=True,
        )
        _move(tx, order, ids.new(), now)
        version = None  # the first move has locked the row: nobody else can change it now
    return bool(way)


def _move(tx: Transaction, order: Order, dispatch_id: str, now: str) -> None:
    """Moves the item as it was read. On PostgreSQL another transaction may have moved it since; the
    body then runs again."""
    try:
        moves.given(moves.apply(tx, order, dispatch_id, now))
    except VersionMismatch:
        raise RunAgain from None


def _way(status: Status, end: Verb) -> tuple[Verb, ...]:
    """The verbs that lead to that end; none if the item is there already or has ended otherwise."""
    if status in RULES[end].sources:
        return (end,)
    unfinished = end is not Verb.COMPLETE and status in (Status.FAILED, Status.BLOCKED)
    return () if unfinished or status not in _INTO_WORK else (*_INTO_WORK[status], end)
