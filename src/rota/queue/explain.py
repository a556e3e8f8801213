"""Why is nobody working on this? Every reason, and what would change it."""

from dataclasses import dataclass

from rota.model.agents import Agent, room_for_reviews
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.queue import moves
from rota.queue.explain_fleet import Deserted, nowhere, run_on, waits_for
from rota.queue.explain_reviews import waits_for_review
from rota.queue.obstacles import in_review_words
from rota.queue.reasons import Reason
from rota.storage.port import Transaction

LONGEST_NOTES = 200


@dataclass(frozen=True, slots=True)
class Explanation:
    item: WorkItem
    claimable: bool
    summary: str
    reasons: list[Reason]


def explain(tx: Transaction, item_id: str, now: str, deserted: Deserted = nowhere) -> Explanation:
    """`deserted` tells a place of servers that has none now."""
    item = moves.find(tx, item_id)
    obstacles = [*_holds(tx, item), *_blockers(tx, item), *_not_due(item, now)]
    standing = _standing(tx, item, now, ready=not obstacles)
    waiting = item.status in (Status.QUEUED, Status.DISPATCHED)
    claimable = waiting and not obstacles and not any(r.code in _STOPS for r in standing)
    if waiting:
        fleet = waits_for(tx, item, now, deserted)
        reasons = [*obstacles, *fleet.kept, *standing, *fleet.wakes]
    else:
        running = run_on(tx, item, now, deserted)
        left = [reason for reason in running if reason.code == "server_gone"]
        if left:  # nobody works on it
            standing = [*left, *(one for one in standing if one.code != "in_progress")]
        reasons = [*standing, *(one for one in running if one not in left), *obstacles]
    return Explanation(item, claimable, reasons[0].message, reasons)


_STOPS = frozenset({"no_free_slot", "agent_paused", "in_review_limit", "through_source"})


def _holds(tx: Transaction, item: WorkItem) -> list[Reason]:
    if item.hold_reason is None:
        return []
    if item.source is not None and tx.hold_by(item.id) is not None:
        # A source says behind a semicolon what lifts its hold.
        why, _, lift = item.hold_reason.partition("; ")
        return [
            Reason(
                "held_by_source",
                f"its source {item.source} holds it: {why}",
                lift or f"lift it at {item.source}",
            )
        ]
    return [Reason("held", f"it is held: {item.hold_reason}", f"rota unhold {item.id}")]


def _not_due(item: WorkItem, now: str) -> list[Reason]:
    if not item.deferred or item.available_at is None or item.available_at <= now:
        return []
    return [
        Reason(
            "not_due",
            f"it is not available before {item.available_at}{_given_back(item)}",
            f"wait, or change available_at: rota edit {item.id} --available-at now",
        )
    ]


def _given_back(item: WorkItem) -> str:
    """Why it waits, where a try came before."""
    if not item.attempts or item.status is not Status.QUEUED:
        return ""
    why = f" ({item.reason})" if item.reason else ""
    said = f": {item.notes[:LONGEST_NOTES]}" if item.notes else ""
    return f"; it was given back after attempt {item.attempts} of {item.max_attempts}{why}{said}"


def _blockers(tx: Transaction, item: WorkItem) -> list[Reason]:
    reasons = []
    for link in tx.blockers_of(item.id):
        if link.blocker_status is Status.COMPLETED:
            continue
        if link.blocker_status in (Status.FAILED, Status.CANCELLED):
            reasons.append(
                Reason(
                    "blocker_will_not_complete",
                    f"it waits for {link.blocker_id}, which is {link.blocker_status};"
                    " only a completed blocker sets it free",
                    (
                        f"rota retry {link.blocker_id}, or take the link off: "
                        if link.blocker_status is Status.FAILED
                        else "take the link off: "
                    )
                    + f"rota edit {item.id} --blocked-by none",
                )
            )
        else:
            reasons.append(
                Reason(
                    "blocked_by",
                    f"it waits for {link.blocker_id} ({link.blocker_status}):"
                    f" {link.blocker_description[:80]}",
                    f"complete {link.blocker_id}",
                )
            )
    return reasons


def _standing(  # noqa: PLR0911 - one for each status
    tx: Transaction, item: WorkItem, now: str, *, ready: bool
) -> list[Reason]:
    """What its status itself says; nothing only where an obstacle says it all."""
    match item.status:
        case Status.QUEUED:
            return [*_queued(tx, item, ready=ready), *_through_source(tx, item)]
        case Status.DISPATCHED:
            return [*_dispatched(tx, item), *_through_source(tx, item)]
        case Status.IN_PROGRESS:
            return [_in_progress(tx, item, now)]
        case Status.BLOCKED:
            return [
                Reason(
                    "blocked",
                    f"it is blocked: {item.notes or item.reason}",
                    (f"rota resume {item.id}, or " if item.source is None else "")
                    + f"rota release {item.id} for somebody else",
                )
            ]
        case Status.IN_REVIEW:
            return [
                Reason(
                    "in_review",
                    waits_for_review(tx, item),
                    f"merge it or close it there; or rota done {item.id} to accept it,"
                    f" rota reopen {item.id} to have it done again",
                )
            ]
        case Status.COMPLETED:
            return [Reason("completed", f"it was completed at {item.completed_at}")]
        case Status.FAILED:
            return [
                Reason(
                    "failed",
                    f"it failed at {item.completed_at}"
                    + (f" ({item.reason})" if item.reason not in (None, "fail") else "")
                    + (f": {item.notes}" if item.notes else ""),
                    f"rota retry {item.id}",
                )
            ]
        case Status.CANCELLED:
            return [Reason("cancelled", f"it was cancelled at {item.completed_at}")]


def _queued(tx: Transaction, item: WorkItem, *, ready: bool) -> list[Reason]:
    if item.assigned_agent is not None:
        return [
            *_agent(tx, item.assigned_agent),
            Reason(
                "named",
                f"only '{item.assigned_agent}' may take it, and has not asked for work yet",
                f"start that agent, or name nobody: rota edit {item.id} --agent none",
            ),
        ]
    if not ready or item.source is not None:
        return []
    ahead = tx.queued_before(item)
    if ahead:
        many = "1 item stands" if ahead == 1 else f"{ahead} items stand"
        return [
            Reason(
                "behind_others",
                f"it is ready; {many if ahead < 1_000 else '1000 items or more stand'} before it",
                f"raise its priority (rota edit {item.id} --priority 1), or add agents",
            )
        ]
    return [
        Reason(
            "nobody_asked",
            "it is ready and first in line; no agent has asked for work since",
            "start an agent, or take it: rota claim --agent NAME",
        )
    ]


def _through_source(tx: Transaction, item: WorkItem) -> list[Reason]:
    if item.source is None:
        return []
    state = tx.source_state(item.source)
    unread = (
        [Reason("source_error", f"its source could not be read: {state.poll_error}")]
        if state is not None and state.poll_error is not None
        else []
    )
    return [
        Reason(
            "through_source",
            f"it is taken through its source {item.source}",
            f"start an agent that works from {item.source}",
        ),
        *unread,
    ]


def _dispatched(tx: Transaction, item: WorkItem) -> list[Reason]:
    agent = item.assigned_agent or ""
    return [
        *_agent(tx, agent),
        Reason(
            "waits_for_agent",
            f"it is dispatched to '{agent}', which has not picked it up yet",
            f"start that agent, or rota release {item.id} for somebody else",
        ),
    ]


def _agent(tx: Transaction, name: str) -> list[Reason]:
    agent = tx.get_agent(name) or Agent(name)
    reasons = []
    if agent.paused:
        reasons.append(
            Reason("agent_paused", f"agent '{name}' is paused", f"rota agent resume {name}")
        )
    busy = len(tx.busy_slots(name))
    if busy >= agent.max_concurrent:
        reasons.append(
            Reason(
                "no_free_slot",
                f"agent '{name}' works on {busy} of {agent.max_concurrent} items",
                f"wait, or rota agent set {name} --max-concurrent {agent.max_concurrent + 1}",
            )
        )
    waiting, busy = tx.on_hands(name)
    if room_for_reviews(agent.max_in_review, waiting, busy) == 0:
        reasons.append(
            Reason(
                "in_review_limit",
                in_review_words(agent, waiting, busy),
                f"see to its reviews (rota list --status in_review --agent {name}), or"
                f" rota agent set {name} --max-in-review N",
            )
        )
    return reasons


def _in_progress(tx: Transaction, item: WorkItem, now: str) -> Reason:
    claim = tx.live_claim(item.id)
    if claim is None:
        return Reason(
            "in_progress",
            f"'{item.assigned_agent}' works on it, without a lease, since {item.updated_at}",
            f"rota release {item.id} --force takes it away",
        )
    if (claim.expires_at or "") <= now:
        return Reason(
            "lease_expired",
            f"'{claim.agent}' held it and let the lease lapse at {claim.expires_at}",
            "the sweeper brings it back within a second of a running server; or rota stale",
        )
    return Reason(
        "in_progress",
        f"'{claim.agent}' works on it; its lease runs until {claim.expires_at}",
        f"rota release {item.id} --force takes it away",
    )
