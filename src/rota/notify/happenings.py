"""What an event of the log means to people."""

from rota.model.access import RECOVERY, SWEEPER
from rota.model.events import Event, EventType
from rota.model.notices import Happening
from rota.model.runs import in_a_row
from rota.model.status import Verb
from rota.model.work import WorkItem
from rota.queue.recovery import RUN_LOST

# All types that can ever be of interest. The position in the log moves with these, whatever the
# rules are, so that a new rule matches nothing of the past.
LOOKED_AT = (
    EventType.BLOCKED,
    EventType.FAILED,
    EventType.HANDED_OVER,
    EventType.RELEASED,
    EventType.BREAKER_OPENED,
    EventType.USAGE_LIMITED,
    EventType.SIGNAL_FIRED,
    EventType.RUN_FINISHED,
)
_PLAIN = {
    EventType.BLOCKED: Happening.BLOCKED,
    EventType.FAILED: Happening.FAILED,
    EventType.HANDED_OVER: Happening.IN_REVIEW,
    EventType.BREAKER_OPENED: Happening.BREAKER_OPEN,
    EventType.USAGE_LIMITED: Happening.USAGE_LIMIT,
    EventType.SIGNAL_FIRED: Happening.SIGNAL_FIRED,
}
_TIDYING = frozenset({SWEEPER, RECOVERY})
_NOBODY_AT_WORK = frozenset({"lease_expired", RUN_LOST})
WORDS = {
    Happening.BLOCKED: "Blocked",
    Happening.FAILED: "Failed",
    Happening.IN_REVIEW: "In review",
    Happening.STALE: "Stale",
    Happening.BUDGET: "Budget used up",
    Happening.BREAKER_OPEN: "Breaker open",
    Happening.USAGE_LIMIT: "Usage limit reached",
    Happening.SIGNAL_FIRED: "Signal fired",
}


def happenings(event: Event) -> tuple[Happening, ...]:
    """An event may be two happenings: work that was silent for too long is stale, and therefore
    blocked."""
    kind = EventType(event.type)  # one of `LOOKED_AT`: types of a newer Rota are not read at all
    plain = (_PLAIN[kind],) if kind in _PLAIN else ()
    return (Happening.STALE, *plain) if _is_stale(kind, event) else plain


def _is_stale(kind: EventType, event: Event) -> bool:
    if kind is EventType.RELEASED:
        return event.reason in _NOBODY_AT_WORK
    return kind in (EventType.BLOCKED, EventType.FAILED) and event.actor in _TIDYING


def agent_of(event: Event, item: WorkItem | None) -> str | None:
    """A lapsed claim removes the agent from the item; the event still has it."""
    named = event.agent or event.data.get("agent") or (item.assigned_agent if item else None)
    return str(named) if named else None


def title(happening: Happening, event: Event, item: WorkItem | None) -> str:
    return f"{WORDS[happening]}: {_about(event, item)}"


def _about(event: Event, item: WorkItem | None) -> str:
    if item is not None:
        return item.description
    if event.type == EventType.SIGNAL_FIRED:
        return str(event.data.get("name") or event.data.get("signal_id"))
    return f"agent {event.agent}"


def why(happening: Happening, event: Event, item: WorkItem | None) -> str:
    said = event.data.get
    match happening:
        case Happening.BREAKER_OPEN:
            return f"{in_a_row(said('failures'))}; the next try is at {said('until')}"
        case Happening.USAGE_LIMIT:
            return f"the quota of its runtime is used up until {said('until')}"
        case Happening.SIGNAL_FIRED:
            return f"signal {said('name') or said('signal_id')}: {said('action')}"
        case Happening.IN_REVIEW:
            return f"a review is wanted: {said('artifact_url') or (item and item.artifact_url)}"
        case Happening.STALE if event.type == EventType.RELEASED:
            return _gave_up(event)
        case _:
            return _told(event.reason, said("notes"))


def _told(reason: str | None, notes: str | None) -> str:
    """A reason that only repeats the verb is omitted if there are notes."""
    kept = None if notes and reason in set(Verb) else reason
    return ": ".join(one for one in (kept, notes) if one)


def _gave_up(event: Event) -> str:
    agent, attempt = event.data.get("agent") or event.agent, event.data.get("attempt")
    whose = f"{agent} was not heard of any more" if agent else "nobody was heard of any more"
    tried = f", attempt {attempt}" if attempt else ""
    return f"{event.reason}: {whose}{tried}; it is queued again"
