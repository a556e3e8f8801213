"""Explains why nobody works on an item: every reason, and what would change it."""

from dataclasses import dataclass

from rota.model.clock import from_text, to_text
from rota.model.status import Status, allowed_from
from rota.model.work import MAX_PAGE, WorkItem
from rota.queue import moves
from rota.queue.explain_agents import kept_by_itself
from rota.queue.explain_fleet import FleetReasons, Scene, run_on, waits_for
from rota.queue.explain_reviews import in_review
from rota.queue.obstacles import is_run_by_the_fleet
from rota.queue.reasons import Reason, Way, in_one_line
from rota.queue.sweeper import STALE_AFTER
from rota.storage.port import Transaction

LONGEST_NOTES = 200
_FOR_OTHERS = "give it to somebody else"


@dataclass(frozen=True, slots=True)
class Explanation:
    item: WorkItem
    claimable: bool
    summary: str
    reasons: list[Reason]


def explain(tx: Transaction, item_id: str, scene: Scene) -> Explanation:
    item = moves.find(tx, item_id)
    obstacles = [*_holds(tx, item), *_blockers(tx, item), *_not_due(item, scene.now)]
    if not allowed_from(item.status):
        obstacles = []  # nothing is left that they could keep from happening
    if item.status in (Status.QUEUED, Status.DISPATCHED):
        return _waiting(tx, item, obstacles, scene)
    running = run_on(tx, item, scene)
    standing = _standing(tx, item, running, scene.now)
    left = [reason for reason in running if reason.code == "server_gone"]
    if left:  # nobody works on it
        standing = [*left, *(one for one in standing if one.code != "in_progress")]
    reasons = [*standing, *(one for one in running if one not in left), *obstacles]
    return Explanation(item, False, reasons[0].message, reasons)


def _waiting(tx: Transaction, item: WorkItem, obstacles: list[Reason], scene: Scene) -> Explanation:
    fleet = waits_for(tx, item, scene, ready=not obstacles)
    if item.status is Status.DISPATCHED:
        standing = [*_dispatched(tx, item, fleet), *_through_source(tx, item, fleet)]
    else:
        ready = not obstacles
        standing = [*_queued(tx, item, fleet, ready=ready), *_through_source(tx, item, fleet)]
    claimable = not obstacles and not any(one.code in _STOPS for one in standing)
    reasons = fleet.around(obstacles, standing)
    return Explanation(item, claimable, reasons[0].message, reasons)


_STOPS = frozenset({"no_free_slot", "agent_paused", "in_review_limit", "through_source"})


def _holds(tx: Transaction, item: WorkItem) -> list[Reason]:
    if item.hold_reason is None:
        return []
    if item.source is not None and tx.hold_by(item.id) is not None:
        # After a semicolon, a source says what lifts its hold.
        why, _, way = item.hold_reason.partition("; ")
        return [
            Reason(
                "held_by_source",
                f"its source {item.source} holds it: {why}",
                (Way(way or f"lift it at {item.source}"),),
            )
        ]
    lift = Way(command=f"rota unhold {item.id}")
    return [Reason("held", f"it is held: {item.hold_reason}", (lift,))]


def _not_due(item: WorkItem, now: str) -> list[Reason]:
    if not item.deferred or item.available_at is None or item.available_at <= now:
        return []
    return [
        Reason(
            "not_due",
            f"it is not available before {item.available_at}{_given_back(item)}",
            (Way("wait, or let it be taken now", f"rota edit {item.id} --available-at now"),),
        )
    ]


def _given_back(item: WorkItem) -> str:
    """Why it was given back, if there was an attempt before."""
    if not item.attempts or item.status is not Status.QUEUED:
        return ""
    told, said = _beginning(item.reason), _beginning(item.notes)
    why = f" ({told})" if told and told != said else ""  # a failed run gives one text as both
    said = said and f": {said}"
    return f"; it was given back after attempt {item.attempts} of {item.max_attempts}{why}{said}"


def _beginning(text: str | None) -> str:
    line = in_one_line(text or "")
    return line if len(line) <= LONGEST_NOTES else f"{line[:LONGEST_NOTES]}…"


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
                    _way_without(item, link.blocker_id, link.blocker_status),
                )
            )
        else:
            reasons.append(
                Reason(
                    "blocked_by",
                    f"it waits for {link.blocker_id} ({link.blocker_status}):"
                    f" {link.blocker_description[:80]}",
                    (_way_past(link.blocker_id, link.blocker_status),),
                )
            )
    return reasons


def _way_without(item: WorkItem, blocker_id: str, status: Status) -> tuple[Way, ...]:
    off = Way("take the link off", f"rota edit {item.id} --blocked-by none")
    if status is not Status.FAILED:
        return (off,)
    return (Way("have that one tried again", f"rota retry {blocker_id}"), off)


def _way_past(blocker_id: str, status: Status) -> Way:
    """Whoever works on a blocker completes it; a result in review may be accepted by anybody."""
    match status:
        case Status.IN_PROGRESS:
            return Way("wait for it; who works on it", f"rota explain {blocker_id}")
        case Status.IN_REVIEW:
            return Way("accept it", f"rota done {blocker_id}")
    return Way("see what keeps that one", f"rota explain {blocker_id}")


def _standing(  # noqa: PLR0911 - one for each status
    tx: Transaction, item: WorkItem, running: list[Reason], now: str
) -> list[Reason]:
    """The reason that follows from the status of an item that does not wait for an agent."""
    match item.status:
        case Status.QUEUED | Status.DISPATCHED:
            return []
        case Status.IN_PROGRESS:
            return [_in_progress(tx, item, running, now)]
        case Status.BLOCKED:
            return [
                Reason(
                    "blocked",
                    f"it is blocked: {in_one_line(item.notes or item.reason or '')}",
                    _answer(tx, item),
                )
            ]
        case Status.IN_REVIEW:
            return [in_review(tx, item)]
        case Status.COMPLETED:
            return [Reason("completed", f"it was completed at {item.completed_at}")]
        case Status.FAILED:
            return [
                Reason(
                    "failed",
                    f"it failed at {item.completed_at}"
                    + (f" ({item.reason})" if item.reason not in (None, "fail") else "")
                    + (f": {in_one_line(item.notes)}" if item.notes else ""),
                    (Way(command=f"rota retry {item.id}"),),
                )
            ]
        case Status.CANCELLED:
            return [Reason("cancelled", f"it was cancelled at {item.completed_at}")]


def _answer(tx: Transaction, item: WorkItem) -> tuple[Way, ...]:
    """How to answer a blocked item. An agent that the fleet runs has ended, so it cannot be
    resumed: the next run reads the answer."""
    if is_run_by_the_fleet(tx, item):
        answer = f'rota release {item.id} --notes "YOUR ANSWER"'
        return (Way("answer it; the next agent reads that", answer),)
    others = Way(_FOR_OTHERS, f"rota release {item.id}")
    if item.source is not None:
        return (others,)
    return (Way("go on with it", f"rota resume {item.id}"), others)


def _queued(tx: Transaction, item: WorkItem, fleet: FleetReasons, *, ready: bool) -> list[Reason]:
    if item.assigned_agent is not None:
        return [*kept_by_itself(tx, item.assigned_agent), _named(item, fleet)]
    if not ready or item.source is not None or fleet.is_untaken:
        return []
    if not fleet.lines:
        return [_behind(item, ahead) if (ahead := tx.queued_before(item)) else _nobody_asked()]
    # If several agents would take it, the shortest line counts.
    ahead, who = min((tx.ahead_in_line(item, one), one.agent) for one in fleet.lines)
    if ahead:
        return [_behind(item, ahead, f" in the line of '{who}'")]
    return [Reason("first_in_line", f"it is ready, and first in the line of '{who}'")]


def _named(item: WorkItem, fleet: FleetReasons) -> Reason:
    nobody = f"rota edit {item.id} --agent none"
    why = f"only '{item.assigned_agent}' may take it"
    if fleet.lines:
        return Reason("named", why, (Way("wait, or name nobody", nobody),))
    why = f"{why}, and does so when it asks for work"
    return Reason("named", why, (Way("start that agent, or name nobody", nobody),))


def _behind(item: WorkItem, ahead: int, where: str = "") -> Reason:
    many = "1 item stands" if ahead == 1 else f"{ahead} items stand"
    sooner = Way("add agents, or raise its priority", f"rota edit {item.id} --priority 1")
    return Reason(
        "behind_others",
        f"it is ready; {many if ahead < 1_000 else '1000 items or more stand'} before it{where}",
        (Way("wait, or add agents") if item.priority == 1 else sooner,),
    )


def _nobody_asked() -> Reason:
    return Reason(
        "nobody_asked",
        "it is ready and first in line; no agent has asked for work since",
        (Way("start an agent, or take it", "rota claim --agent NAME"),),
    )


def _through_source(tx: Transaction, item: WorkItem, fleet: FleetReasons) -> list[Reason]:
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
            () if fleet.lines else (Way(f"start an agent that works from {item.source}"),),
        ),
        *unread,
    ]


def _dispatched(tx: Transaction, item: WorkItem, fleet: FleetReasons) -> list[Reason]:
    agent = item.assigned_agent or ""
    start = "wait for it" if fleet.lines else "start that agent"
    return [
        *kept_by_itself(tx, agent),
        Reason(
            "waits_for_agent",
            f"it is dispatched to '{agent}', which has not picked it up yet",
            (Way(f"{start}, or {_FOR_OTHERS}", f"rota release {item.id}"),),
        ),
    ]


def _in_progress(tx: Transaction, item: WorkItem, running: list[Reason], now: str) -> Reason:
    claim = tx.live_claim(item.id)
    if claim is None:
        return _without_lease(tx, item, running)
    if (claim.expires_at or "") <= now:
        return Reason(
            "lease_expired",
            f"'{claim.agent}' held it and let the lease lapse at {claim.expires_at}",
            (Way("a running server brings it back within a second; without one", "rota stale"),),
        )
    return Reason(
        "in_progress",
        f"'{claim.agent}' works on it; its lease runs until {claim.expires_at}",
        (Way("take it away", f"rota release {item.id} --force"),),
    )


def _without_lease(tx: Transaction, item: WorkItem, running: list[Reason]) -> Reason:
    """Without a lease there are no heartbeats, so silence is accepted for a while."""
    who, since = item.assigned_agent, _started(tx, item)
    until = to_text(from_text(item.updated_at) + STALE_AFTER)
    if running or item.updated_at > since:
        return Reason(
            "in_progress",
            f"'{who}' has it since {since}, without a lease; it was last updated at"
            f" {item.updated_at}",
            (Way("take it away", f"rota release {item.id}"),),
        )
    return Reason(
        "no_sign_of_life",
        f"it was started for '{who}' at {since}, without a lease and without a run, and nothing"
        f" was heard of it since; it is blocked if that stays so until {until}",
        (
            Way(_FOR_OTHERS, f"rota release {item.id}"),
            Way("if you are at it, say so", f"rota note {item.id} TEXT"),
        ),
    )


def _started(tx: Transaction, item: WorkItem) -> str:
    told = reversed(tx.events_of(item.id, MAX_PAGE))
    moved = (one.occurred_at for one in told if one.to_status == Status.IN_PROGRESS)
    return next(moved, item.updated_at)
