"""What the fleet says to an item that waits: who would take it, when, and what keeps them."""

from dataclasses import dataclass, field

from rota.model.runs import AgentLimits, RunFilter, RunStatus
from rota.model.schedules import ScheduleState, SkipReason
from rota.model.work import WorkItem
from rota.queue.reasons import Reason
from rota.storage.port import Transaction

MOST_SCHEDULES = 200
MOST_TOLD = 5
# They say that all is well, or that there was nothing to take when it was last looked at.
_HARMLESS = frozenset({SkipReason.NO_WORK, SkipReason.NOT_DUE, SkipReason.ALREADY_RUNNING})


@dataclass(frozen=True, slots=True)
class FleetReasons:
    kept: list[Reason] = field(default_factory=list)  # what keeps agents from looking
    wakes: list[Reason] = field(default_factory=list)  # who looks next


def waits_for(tx: Transaction, item: WorkItem, now: str) -> FleetReasons:
    """Nothing where no schedules are known: then agents ask for work by themselves."""
    states = [
        state
        for state in tx.schedule_states(item.assigned_agent, None, MOST_SCHEDULES, now)
        if state.source == _kind(item)
    ]
    if not states:
        return FleetReasons()
    agents = {state.agent for state in states}
    limits = [limit for limit in tx.list_limits() if limit.agent in agents]
    kept = [reason for limit in limits for reason in _limited(limit, now)]
    kept += [_skipped(state) for state in states if _is_kept(state)]
    return FleetReasons(kept[:MOST_TOLD], _wakes(states))


def _kind(item: WorkItem) -> str:
    """Of the source that it is taken through: `github` of `github:owner/repo`."""
    return item.source.partition(":")[0] if item.source else "queue"


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


def _wakes(states: list[ScheduleState]) -> list[Reason]:
    ahead = [(state.next_run_at, state) for state in states if state.next_run_at is not None]
    if not ahead:
        return []
    moment, state = min(ahead, key=lambda pair: pair[0])
    called = f"{state.agent}/{state.name}"
    return [
        Reason(
            "next_wake",
            f"schedule {called} looks for work next at {moment}",
            f"rota schedule trigger {called}",
        )
    ]


def run_on(tx: Transaction, item: WorkItem) -> list[Reason]:
    """The run that works on it, if it is one of ours."""
    wanted = RunFilter(work_item_id=item.id, statuses=(RunStatus.RUNNING,))
    return [
        Reason(
            "run",
            f"run {run.id} of '{run.agent}' works on it since {run.started_at}",
            f"rota run log {run.id} --follow",
        )
        for run in tx.list_runs(wanted, 1)
    ]
