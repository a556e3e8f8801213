"""What the fleet says to an item that waits: who would take it, when, and what keeps them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rota.model.agents import Agent
from rota.model.runs import AgentLimits, Run, RunFilter, RunStatus
from rota.model.schedules import ScheduleState, SkipReason
from rota.model.wanted import WorkWanted
from rota.model.work import WorkItem
from rota.queue.reasons import Reason
from rota.scheduler.presence import is_attended, silent_since, unseen
from rota.storage.port import Transaction
from rota.storage.schedule_port import Node

MOST_SCHEDULES = 200
MOST_TOLD = 5
# They say that all is well, or that there was nothing to take when it was last looked at.
_HARMLESS = frozenset({SkipReason.NO_WORK, SkipReason.NOT_DUE, SkipReason.ALREADY_RUNNING})

# A place of servers that has none now, if one is known. It is asked after the nodes were read: who
# comes between the two must not be taken for dead.
Deserted = Callable[[], str | None]


def nowhere() -> None:
    return None


@dataclass(frozen=True, slots=True)
class FleetReasons:
    kept: list[Reason] = field(default_factory=list)  # what keeps agents from looking
    wakes: list[Reason] = field(default_factory=list)  # who looks next


def waits_for(
    tx: Transaction, item: WorkItem, now: str, deserted: Deserted = nowhere
) -> FleetReasons:
    """Nothing where no schedules are known: then agents ask for work by themselves."""
    known = tx.schedule_states(item.assigned_agent, None, MOST_SCHEDULES, silent_since(now))
    lookers = [one for one in map(_Looker.of, known) if one is not None and one.is_kind_of(item)]
    states = [one.state for one in lookers if one.wanted.fits(item)]
    if not states:
        whole = len(known) < MOST_SCHEDULES
        return FleetReasons([_no_taker(item, lookers)] if lookers and whole else [])
    agents = {state.agent for state in states}
    limits = [limit for limit in tx.list_limits() if limit.agent in agents]
    kept = [reason for limit in limits for reason in _limited(limit, now)]
    kept += [_skipped(state) for state in states if _is_kept(state)]
    return FleetReasons(kept[:MOST_TOLD], _wakes(tx, states, now, deserted))


@dataclass(frozen=True, slots=True)
class _Looker:
    """A schedule, and what it looks for."""

    state: ScheduleState
    wanted: WorkWanted

    @classmethod
    def of(cls, state: ScheduleState) -> "_Looker | None":
        """None for one that takes no items, and for one that rests, because no server that knows
        its agent is there."""
        rests = state.enabled and state.type.by_clock and state.next_run_at is None
        return None if state.source is None or rests else cls(state, WorkWanted.read(state.source))

    def is_kind_of(self, item: WorkItem) -> bool:
        return self.wanted.is_kind_of(item)


def _no_taker(item: WorkItem, lookers: list[_Looker]) -> Reason:
    if item.source is not None:
        why = f"no agent of this fleet works from {item.source}"
        return Reason("no_taker", why, f"add an agent with the work_source {item.source}")
    who = f"agent '{item.assigned_agent}'" if item.assigned_agent else "an agent"
    fix = f"rota edit {item.id} --help, or change work_source of {who} in rota.yaml"
    if not any(one.wanted.takes_type(item) for one in lookers):
        types = sorted({name for one in lookers for name in one.wanted.types})
        taken = f"type '{item.type}', only {', '.join(types[:MOST_TOLD])}"
        fix = f"rota edit {item.id} --type TYPE, or add it to work_source.types of {who}"
    else:
        wanted = sorted({one.wanted.in_words for one in lookers})
        taken = f"it, only {'; or '.join(wanted[:MOST_TOLD])}"
    if item.assigned_agent is not None:
        return Reason("no_taker", f"{who} does not take {taken}", fix)
    return Reason("no_taker", f"no agent of this fleet takes {taken}", fix)


def _limited(limits: AgentLimits, now: str) -> list[Reason]:
    name = limits.agent
    reasons = []
    if (limits.breaker_until or "") > now:
        why = f"the breaker of '{name}' is open until {limits.breaker_until}: {limits.note}"
        reasons.append(Reason("breaker_open", why, f"mend it, then rota agent resume {name}"))
    if (limits.usage_until or "") > now:
        why = f"the quota of '{name}' is used up until {limits.usage_until}"
        reasons.append(Reason("usage_limit", why, "wait; it goes on by itself"))
    return reasons


def _is_kept(state: ScheduleState) -> bool:
    if not state.enabled:
        return True
    return state.last_skip_reason is not None and state.last_skip_reason not in _HARMLESS


def _skipped(state: ScheduleState) -> Reason:
    called = f"{state.agent}/{state.name}"
    if not state.enabled:
        return Reason(
            "schedule_disabled", f"schedule {called} is disabled", f"rota schedule enable {called}"
        )
    return Reason(
        str(state.last_skip_reason),
        f"schedule {called} did not start its agent at {state.last_skip_at}:"
        f" {state.last_skip_detail or state.last_skip_reason}",
        f"rota schedule show {called}",
    )


def _wakes(
    tx: Transaction, states: list[ScheduleState], now: str, deserted: Deserted
) -> list[Reason]:
    """By the schedule that looks first; one that runs does so when it has ended, and not before."""
    ahead = [(state.next_run_at, state) for state in states if state.next_run_at is not None]
    if not ahead:
        return []
    moment, state = min(ahead, key=lambda pair: (pair[1].running > 0, pair[0]))
    called = f"{state.agent}/{state.name}"
    if not is_attended(tx, now) or _all_at(tx.living_nodes(), deserted):
        seen = tx.last_sight()
        since = f"no server has looked for work since {seen}" if seen else "no server has run yet"
        due = "was due at" if moment <= now else "is due at"
        return [
            Reason("no_server", f"{since}; schedule {called} {due} {moment}", "start `rota up`")
        ]
    if state.running:
        return [_overrun(tx, state)]
    when = "is due since" if moment <= now else "looks for work next at"
    return [
        Reason("next_wake", f"schedule {called} {when} {moment}", f"rota schedule trigger {called}")
    ]


def _all_at(nodes: list[Node], deserted: Deserted) -> bool:
    left = deserted()
    return all(one.place == left for one in nodes)


def _overrun(tx: Transaction, state: ScheduleState) -> Reason:
    """Of schedules that all run."""
    called = f"{state.agent}/{state.name}"
    agent = tx.get_agent(state.agent) or Agent(state.agent)
    free = agent.max_concurrent > len(tx.busy_slots(state.agent))
    more = f"; or give '{state.agent}', which has a slot free, one more schedule" if free else ""
    return Reason(
        "already_running",
        f"schedule {called} runs already, and does not overlap itself; it looks for work again"
        " when that run has ended",
        f"wait (rota run list --agent {state.agent} --status running){more}",
    )


def run_on(tx: Transaction, item: WorkItem, now: str, deserted: Deserted = nowhere) -> list[Reason]:
    """The run that works on it, if it is one of ours."""
    wanted = RunFilter(work_item_id=item.id, statuses=(RunStatus.RUNNING,))
    runs = tx.list_runs(wanted, 1)
    nodes = tx.some_nodes(run.node for run in runs)
    place = deserted() if nodes else None
    left = {one.id: one.seen_at for one in nodes if one.place == place}
    gone = unseen(tx, runs, now) | {run.id: left[run.node] for run in runs if run.node in left}
    return [_left(run, item, gone[run.id]) if run.id in gone else _going(run) for run in runs]


def _going(run: Run) -> Reason:
    return Reason(
        "run",
        f"run {run.id} of '{run.agent}' works on it since {run.started_at}",
        f"rota run log {run.id} --follow",
    )


def _left(run: Run, item: WorkItem, seen: str) -> Reason:
    """A server elsewhere cannot know whether the agent is still at it: it waits for the lease."""
    lease = item.lease_expires_at
    elsewhere = f", or one elsewhere after its lease has ended at {lease}" if lease else ""
    return Reason(
        "server_gone",
        f"the server of run {run.id} of '{run.agent}' has not been seen since {seen}; the item"
        f" comes back when that server starts again{elsewhere}",
        f"start `rota up`; or rota release {item.id} --force",
    )
