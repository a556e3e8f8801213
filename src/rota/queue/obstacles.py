"""What keeps an item from being started: its own state, or that of its agent."""

from rota.model.agents import Agent, room_for_reviews
from rota.model.errors import InReviewLimit, NoFreeSlot, Refused
from rota.model.runs import RunFilter
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.storage.port import Transaction


def demand_unheld(item: WorkItem) -> None:
    if item.hold_reason is not None:
        raise Refused(
            f"{item.id} is held ({item.hold_reason}); `rota unhold {item.id}` lets it go on",
            hold_reason=item.hold_reason,
        )


def demand_due(tx: Transaction, item: WorkItem, called: str, now: str) -> None:
    """Raise if the item waits for a blocker or for its time."""
    if item.open_blockers:
        links = tx.blockers_of(item.id)
        waits = [one.blocker_id for one in links if one.blocker_status is not Status.COMPLETED]
        raise Refused(
            f"{called} waits for {', '.join(waits)}; complete that first, or"
            f" `rota edit {item.id} --blocked-by none`",
            blocked_by=waits,
        )
    if item.available_at is not None and item.available_at > now:
        raise Refused(
            f"{called} is not available before {item.available_at};"
            f" `rota edit {item.id} --available-at now` lets it go",
            available_at=item.available_at,
        )


MOST_SCHEDULES = 200


def is_run_by_the_fleet(tx: Transaction, item: WorkItem) -> bool:
    """Whether the fleet starts its agent for one item at a time: a schedule of the agent takes
    items, or a run took this one. Such an agent has ended and cannot go on with a resumed item."""
    runs = tx.list_runs(RunFilter(work_item_id=item.id), 1)
    if runs and runs[0].epoch == item.epoch:
        return True
    states = tx.schedule_states(item.assigned_agent or "", None, MOST_SCHEDULES, "")
    return any(one.source is not None for one in states)


def demand_somebody(tx: Transaction, item: WorkItem) -> None:
    """Raise if nobody would go on with an item that is resumed without a lease."""
    if is_run_by_the_fleet(tx, item):
        raise Refused(
            f"'{item.assigned_agent}' is woken by the fleet, and nobody would go on with {item.id};"
            f' give it back with your answer: rota release {item.id} --notes "…". Who does it'
            " himself takes a lease, or forces it",
            assigned_agent=item.assigned_agent,
        )


def demand_room(tx: Transaction, name: str) -> None:
    """Raise at the limit of items in review. For new work only: a resumed item is not new."""
    agent = tx.get_agent(name)
    if agent is None or agent.max_in_review is None:
        return
    tx.lock_agents([name])
    waiting, busy = tx.on_hands(name)
    if room_for_reviews(agent.max_in_review, waiting, busy) == 0:
        raise InReviewLimit(
            f"{in_review_words(agent, waiting, busy)}; see to its reviews first, or raise the"
            f" limit: rota agent set {name} --max-in-review N",
            agent=name,
            max_in_review=agent.max_in_review,
            in_review=waiting,
        )


def in_review_words(agent: Agent, waiting: int, busy: int) -> str:
    under_way = f", and it works on {busy} more" if busy else ""
    return f"agent '{agent.name}' has {waiting} of {agent.max_in_review} items in review{under_way}"


def free_slot(tx: Transaction, agent: str, *, in_passing: bool = False) -> int:
    slots = (tx.get_agent(agent) or Agent(agent)).max_concurrent
    busy = tx.busy_slots(agent)
    if in_passing or len(busy) < slots:
        return next(slot for slot in range(len(busy) + 1) if slot not in busy)
    raise NoFreeSlot(
        f"agent '{agent}' already works on {len(busy)} of {slots} items; finish or release one,"
        f" or raise its limit with `rota agent set {agent} --max-concurrent N`",
        agent=agent,
        max_concurrent=slots,
    )
