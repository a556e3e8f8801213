"""Takes due slots and requested triggers in one transaction: across all nodes, only once.

Whether a schedule is already running and whether its agent has room is decided by
the ledger's open triggers, under a lock on the agent, so that two nodes cannot both
take the last place.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from rota.model.clock import from_text, to_text
from rota.model.errors import NotFound
from rota.model.fleet import AgentSpec
from rota.model.schedules import (
    CatchUp,
    Schedule,
    ScheduleCheck,
    ScheduleType,
    SkipReason,
    Trigger,
    TriggerKind,
)
from rota.scheduler.due import Plan, Rhythm, Rng, plan, waking
from rota.scheduler.roster import Name, Roster
from rota.storage.port import Transaction
from rota.storage.schedule_port import HEAD, Advance, DueSchedule, Place

PAGE = 500
# A slot that waits for room is looked at again when a trigger of its agent ends, or after this.
WAIT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Taker:
    """The node that takes, its roster, and the time."""

    node: str
    roster: Roster
    now: datetime
    new_id: Callable[[], str]
    rng: Rng | None = None

    @property
    def text(self) -> str:
        return to_text(self.now)


@dataclass(frozen=True, slots=True)
class Taken:
    triggers: tuple[Trigger, ...] = ()
    more: bool = False  # the page was full
    # Up to this place there are only schedules that this node does not know.
    foreign_until: Place = HEAD
    last_id: str = ""  # the last requested trigger that was looked at


@dataclass(slots=True)
class _Room:
    """How many triggers are open, including those of this transaction."""

    of_schedule: Counter[Name] = field(default_factory=Counter)
    of_agent: Counter[str] = field(default_factory=Counter)

    @classmethod
    def now(cls, tx: Transaction, agents: set[str], *, lock: bool = True) -> "_Room":
        if lock:
            tx.lock_agents(agents)
        room = cls()
        for name, count in tx.open_triggers(agents).items():
            room.take(name, count)
        return room

    def take(self, name: Name, count: int = 1) -> None:
        self.of_schedule[name] += count
        self.of_agent[name[0]] += count

    def refusal(self, name: Name, agent: AgentSpec) -> SkipReason | None:
        if self.of_schedule[name]:
            return SkipReason.ALREADY_RUNNING
        if self.of_agent[name[0]] >= agent.max_concurrent:
            return SkipReason.AT_CAPACITY
        return None


def take_due(tx: Transaction, taker: Taker, beyond: Place = HEAD) -> Taken:
    page = tx.due_schedules(taker.text, beyond, PAGE)
    ours = [row for row in page if (row.agent, row.name) in taker.roster.schedules]
    foreign, more = _foreign_until(page, taker.roster, beyond), len(page) == PAGE
    if not ours:
        return Taken(more=more, foreign_until=foreign)
    room = _Room.now(tx, {row.agent for row in ours})
    steps, triggers = [], []
    for row in ours:
        step, trigger = _decide(row, taker, room)
        steps.append(step)
        if trigger is not None:
            triggers.append(trigger)
    new = tx.insert_triggers(triggers)
    run_before = {(one.agent, one.schedule) for one in triggers if one.id not in new}
    tx.advance_schedules([_uncounted(step, run_before) for step in steps], taker.text)
    fired = tuple(one for one in triggers if one.id in new)
    return Taken(fired, more, foreign)


def _foreign_until(page: list[DueSchedule], roster: Roster, beyond: Place) -> Place:
    for row in page:
        if (row.agent, row.name) in roster.schedules:
            break
        beyond = (row.next_at, row.agent, row.name)
    return beyond


def _uncounted(step: Advance, run_before: set[Name]) -> Advance:
    """A slot that was already run is passed over without counting a trigger."""
    return replace(step, ran=False) if (step.agent, step.name) in run_before else step


def _decide(row: DueSchedule, taker: Taker, room: _Room) -> tuple[Advance, Trigger | None]:
    name = (row.agent, row.name)
    schedule, agent = taker.roster.schedules[name], taker.roster.agents[row.agent]
    rhythm = Rhythm.read(row.definition)
    planned = plan(
        rhythm, from_text(row.slot), from_text(row.next_at), taker.now, schedule.catch_up
    )
    onward = _onward(row, planned, rhythm, schedule, taker)
    if planned.slot is None:
        return replace(onward, skip=SkipReason.MISSED), None
    refusal = room.refusal(name, agent)
    if refusal is not None:
        if _keeps_slot(refusal, schedule):
            onward = replace(onward, slot=to_text(planned.slot), next_at=to_text(taker.now + WAIT))
        return replace(onward, skip=refusal), None
    room.take(name)
    missed = SkipReason.MISSED if planned.missed else None
    return replace(onward, ran=True, skip=missed), _trigger(row, planned.slot, taker)


def _onward(
    row: DueSchedule, planned: Plan, rhythm: Rhythm, schedule: Schedule, taker: Taker
) -> Advance:
    at = waking(rhythm, planned.following, taker.now, schedule.jitter_percent, taker.rng)
    return Advance(row.agent, row.name, row.slot, to_text(planned.following), to_text(at))


def _keeps_slot(refusal: SkipReason, schedule: Schedule) -> bool:
    """A slot that only lacked room is kept. A slot that the schedule's own last run overran is not,
    unless `catch_up` wants every slot of a cron schedule."""
    every = schedule.type is ScheduleType.CRON and schedule.catch_up is CatchUp.ALL
    return refusal is SkipReason.AT_CAPACITY or every


def _trigger(row: DueSchedule, slot: datetime, taker: Taker) -> Trigger:
    return Trigger(
        taker.new_id(),
        row.agent,
        row.name,
        to_text(slot),
        TriggerKind.SCHEDULE,
        taker.node,
        taker.text,
    )


def take_waiting(tx: Transaction, taker: Taker, after: str = "") -> Taken:
    """Triggers that people, webhooks and chats request wait until there is room."""
    page = tx.waiting_triggers(taker.roster.agents, PAGE, after)
    more, last_id = len(page) == PAGE, page[-1].id if page else ""
    ours = [one for one in page if (one.agent, one.schedule) in taker.roster.schedules]
    if not ours:
        return Taken(more=more, last_id=last_id)
    room = _Room.now(tx, {one.agent for one in ours})
    fired = []
    for one in ours:
        name = (one.agent, one.schedule)
        if room.refusal(name, taker.roster.agents[one.agent]) is None:
            taken = replace(one, node=taker.node, triggered_at=taker.text)
            if tx.take_up(taken, taker.text, _fallback(taker.roster.schedules[name], taker)):
                room.take(name)
                fired.append(taken)
    return Taken(tuple(fired), more=more, last_id=last_id)


def check(tx: Transaction, taker: Taker, name: Name) -> ScheduleCheck:
    """Whether the clock would trigger a schedule now, without doing it."""
    reason = _hindrance(tx, taker, name)
    return ScheduleCheck(*name, reason is None, reason)


def _hindrance(tx: Transaction, taker: Taker, name: Name) -> SkipReason | None:
    state = tx.schedule_state(*name, "")
    agent = taker.roster.agents.get(name[0])
    if state is None or agent is None:
        raise NotFound(f"this node has no schedule {name[0][:80]}/{name[1][:80]}")
    if not state.type.by_clock:
        return SkipReason.UNSUPPORTED_TYPE
    if not state.enabled:
        return SkipReason.DISABLED
    refusal = _Room.now(tx, {agent.name}, lock=False).refusal(name, agent)
    if refusal is not None:
        return refusal
    due = state.next_run_at is not None and state.next_run_at <= taker.text
    return None if due else SkipReason.NOT_DUE


def take_one(tx: Transaction, taker: Taker, trigger: Trigger) -> Trigger | SkipReason:
    """Insert a requested trigger and take it up at once, if there is room."""
    name = (trigger.agent, trigger.schedule)
    room = _Room.now(tx, {trigger.agent})
    refusal = room.refusal(name, taker.roster.agents[trigger.agent])
    if refusal is not None:
        return refusal
    tx.insert_triggers([replace(trigger, node="")])
    tx.take_up(trigger, taker.text, _fallback(taker.roster.schedules[name], taker))
    return trigger


def _fallback(schedule: Schedule, taker: Taker) -> tuple[str, str] | None:
    rhythm = Rhythm.of(schedule)
    if rhythm.interval is None:
        return None
    return rhythm.text, to_text(rhythm.after(taker.now))
