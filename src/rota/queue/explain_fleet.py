"""What a waiting item can expect of the fleet: which agents would take it, when, and what keeps
them from it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rota.model.agents import Agent
from rota.model.claims import ClaimRequest
from rota.model.fleet import AgentSpec, Fleet
from rota.model.runs import Run, RunFilter, RunStatus
from rota.model.schedules import ScheduleState, ScheduleType, SkipReason
from rota.model.wanted import WorkWanted
from rota.model.work import WorkItem
from rota.queue.explain_agents import kept_by_itself, kept_from_running
from rota.queue.reasons import Reason, Way
from rota.scheduler.presence import is_attended, silent_since, unseen
from rota.storage.port import Transaction
from rota.storage.schedule_port import Node

MOST_SCHEDULES = 200
MOST_TOLD = 5

# A place of servers that has none now, if one is known; "" if there has never been one. It is read
# after the nodes: a server that starts in between must not be taken for dead.
Deserted = Callable[[], str | None]


def nowhere() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Scene:
    """The time of an explanation, and what is known beside the ledger."""

    now: str
    deserted: Deserted = nowhere
    fleet: Fleet = field(default_factory=Fleet)  # as far as its file is known here


@dataclass(frozen=True, slots=True)
class FleetReasons:
    absent: list[Reason] = field(default_factory=list)  # no server runs that could wake agents
    kept: list[Reason] = field(default_factory=list)  # what keeps agents from taking it
    wakes: list[Reason] = field(default_factory=list)  # which schedule looks next
    lines: list[ClaimRequest] = field(default_factory=list)  # claims of the agents that take it
    is_free: bool = False  # as far as known, nothing keeps at least one of those agents
    is_untaken: bool = False  # all schedules are known, and none takes such items

    def around(self, obstacles: list[Reason], standing: list[Reason]) -> list[Reason]:
        """These and the item's own reasons, most important first. What keeps one agent matters
        little if another will take the item."""
        own = [one for one in standing if one not in self.kept]
        if self.is_free:
            return [*self.absent, *obstacles, *own, *self.wakes, *self.kept]
        return [*self.absent, *obstacles, *self.kept, *own, *self.wakes]


def waits_for(tx: Transaction, item: WorkItem, scene: Scene, *, ready: bool) -> FleetReasons:
    """Empty if no schedules are known: agents then ask for work by themselves. `ready`: nothing
    about the item itself keeps it from being taken."""
    known = tx.schedule_states(item.assigned_agent, None, MOST_SCHEDULES, silent_since(scene.now))
    lookers = [one for one in map(_Looker.of, known) if one and one.wanted.is_kind_of(item)]
    found = [one for one in lookers if one.wanted.fits(item)]
    if not found:
        whole = len(known) < MOST_SCHEDULES
        return _untaken(tx, item, lookers if whole else [], scene)
    kept_agents = {name: _kept(tx, name, scene) for name in {one.state.agent for one in found}}
    takers = [_Taker.of(one, kept_agents[one.state.agent], scene) for one in found]
    free = [one for one in takers if not one.kept]
    absent = _absent(tx, [one.state for one in takers], scene)
    return FleetReasons(
        absent,
        _some_of(reason for one in takers for reason in (*one.kept, *one.doubts)),
        [] if absent else _wakes(tx, free, scene.now, ready=ready),
        list(dict.fromkeys(one.line for one in free or takers)),
        is_free=any(not one.doubts for one in free),
    )


@dataclass(frozen=True, slots=True)
class _Looker:
    """A schedule, and the work that it wants."""

    state: ScheduleState
    wanted: WorkWanted

    @classmethod
    def of(cls, state: ScheduleState) -> "_Looker | None":
        """None for a schedule that takes no items, and for one that rests because no living server
        knows its agent."""
        rests = state.enabled and state.type.by_clock and state.next_run_at is None
        return None if state.source is None or rests else cls(state, WorkWanted.read(state.source))


@dataclass(frozen=True, slots=True)
class _Taker:
    """A schedule that takes such an item."""

    state: ScheduleState
    line: ClaimRequest
    kept: list[Reason]  # reasons that would end a trigger
    doubts: list[Reason]  # what its last look found; only another look can tell if it still holds

    @classmethod
    def of(cls, looker: _Looker, kept: list[Reason], scene: Scene) -> "_Taker":
        state = looker.state
        if state.running:  # reported as a running schedule, which says more than a busy slot
            kept = [one for one in kept if one.code not in _BUSY]
        return cls(
            state,
            line_of(state.agent, looker.wanted),
            [*_disabled(state), *kept],
            _doubts(state, scene.fleet),
        )


_BUSY = frozenset({"no_free_slot", "at_capacity"})


def line_of(agent: str, wanted: WorkWanted) -> ClaimRequest:
    return ClaimRequest(
        agent, types=wanted.types, labels=wanted.labels, project_id=wanted.project_id
    )


def _some_of(reasons: Iterable[Reason]) -> list[Reason]:
    """Without duplicates, and at most `MOST_TOLD`."""
    return list(dict.fromkeys(reasons))[:MOST_TOLD]


# nobody takes it


def _untaken(tx: Transaction, item: WorkItem, lookers: list[_Looker], scene: Scene) -> FleetReasons:
    if unread := _unread(item, scene.fleet):
        lines = [line_of(name, wanted) for name, wanted in unread.items()]
        return FleetReasons(_absent_for(tx, next(iter(unread)), scene), lines=lines)
    asleep = [one for one in scene.fleet.agents if _would_take(one, item)]
    if asleep:
        lines = [line_of(one.name, WorkWanted.of(one.work_source or {})) for one in asleep]
        return FleetReasons(kept=[_no_schedule(asleep)], lines=lines)
    if not lookers:
        return FleetReasons()
    return FleetReasons(kept=[_no_taker(item, lookers, scene.fleet)], is_untaken=True)


def _unread(item: WorkItem, fleet: Fleet) -> dict[str, WorkWanted]:
    """Agents of the file whose schedules would take the item. No server has read that file yet, so
    the ledger does not know them."""
    found = [
        (agent.name, WorkWanted.of(source))
        for agent in fleet.agents
        for schedule in agent.schedules
        if schedule.enabled and (source := schedule.work_source or agent.work_source) is not None
    ]
    return {
        name: wanted
        for name, wanted in found
        if item.assigned_agent in (None, name) and wanted.fits(item)
    }


def _would_take(agent: AgentSpec, item: WorkItem) -> bool:
    """For an agent without schedules, of which the ledger does not know what it takes."""
    if agent.schedules or agent.work_source is None:
        return False
    named = item.assigned_agent in (None, agent.name)
    return named and WorkWanted.of(agent.work_source).fits(item)


def _no_schedule(agents: list[AgentSpec]) -> Reason:
    names = [one.name for one in agents]
    who = f"agent '{names[0]}' takes" if len(names) == 1 else f"{_listed(names)} take"
    return Reason(
        "no_schedule",
        f"{who} it, and no schedule wakes {'it' if len(names) == 1 else 'them'}",
        (
            Way(
                f"give '{names[0]}' a schedule in rota.yaml, or start it",
                f"rota worker --agent {names[0]}",
            ),
        ),
    )


def _no_taker(item: WorkItem, lookers: list[_Looker], fleet: Fleet) -> Reason:
    if item.source is not None:
        why = f"no agent of this fleet works from {item.source}"
        added = Way(f"add an agent with the work_source {item.source}")
        return Reason("no_taker", why, (added,))
    who = f"agent '{item.assigned_agent}'" if item.assigned_agent else "an agent"
    ways = (
        Way(
            f"change work_source of {who} in rota.yaml, or the item", f"rota edit {item.id} --help"
        ),
    )
    wanted = [*(one.wanted for one in lookers), *_wanted_asleep(item, fleet)]
    if not any(one.takes_type(item) for one in wanted):
        types = sorted({name for one in wanted for name in one.types})
        taken = f"type '{item.type}', only {_listed(types)}"
        ways = (
            Way(
                f"add it to work_source.types of {who}, or give the item another type",
                f"rota edit {item.id} --type TYPE",
            ),
        )
    else:
        taken = f"it, only {_listed(sorted({one.in_words for one in wanted}), '; or ')}"
    if item.assigned_agent is not None:
        return Reason("no_taker", f"{who} does not take {taken}", ways)
    return Reason("no_taker", f"no agent of this fleet takes {taken}", ways)


def _wanted_asleep(item: WorkItem, fleet: Fleet) -> list[WorkWanted]:
    given = (
        WorkWanted.of(one.work_source)
        for one in fleet.agents
        if one.work_source and not one.schedules and item.assigned_agent in (None, one.name)
    )
    return [one for one in given if one.is_kind_of(item)]


def _listed(names: Sequence[str], between: str = ", ") -> str:
    more = len(names) - MOST_TOLD
    told = between.join(names[:MOST_TOLD])
    return f"{told} and {more} more" if more > 0 else told


# what keeps agents that would take it


def _kept(tx: Transaction, name: str, scene: Scene) -> list[Reason]:
    own = kept_by_itself(tx, name)
    full = [] if any(one.code == "no_free_slot" for one in own) else _at_capacity(tx, name)
    return [*own, *full, *kept_from_running(tx, name, scene.now, scene.fleet)]


def _at_capacity(tx: Transaction, name: str) -> list[Reason]:
    """Counts triggers and not slots: a run without an item uses no slot, but counts too."""
    most = (tx.get_agent(name) or Agent(name)).max_concurrent
    running = sum(tx.open_triggers([name]).values())
    if running < most:
        return []
    why = f"agent '{name}' has {running} of {most} runs under way"
    return [Reason("at_capacity", why, (_wait_for_runs(name),))]


def _wait_for_runs(agent: str) -> Way:
    return Way("wait; what it runs", f"rota run list --agent {agent} --status running")


def _disabled(state: ScheduleState) -> list[Reason]:
    if state.enabled:
        return []
    called = _called(state)
    enable = Way(command=f"rota schedule enable {called}")
    return [Reason("schedule_disabled", f"schedule {called} is disabled", (enable,))]


def _doubts(state: ScheduleState, fleet: Fleet) -> list[Reason]:
    """Why the schedule's last look failed, if it cannot be checked here whether that still holds: a
    source is not asked here, and a budget is in a file that may be elsewhere."""
    skip = state.last_skip_reason
    untold = skip is SkipReason.BUDGET_EXHAUSTED and fleet.agent(state.agent) is None
    passed = (state.last_completed_at or "") > (state.last_skip_at or "")
    if passed or not (untold or skip is SkipReason.SOURCE_ERROR):
        return []
    called = _called(state)
    return [
        Reason(
            str(skip),
            f"schedule {called} did not start its agent at {state.last_skip_at}:"
            f" {state.last_skip_detail or skip}",
            (Way(command=f"rota schedule show {called}"),),
        )
    ]


def _called(state: ScheduleState) -> str:
    return f"{state.agent}/{state.name}"


# who looks next


def _absent_for(tx: Transaction, agent: str, scene: Scene) -> list[Reason]:
    """For an agent that no server has stored yet. A server that is just about to may be running, so
    this says nothing unless a place is known to be deserted."""
    if scene.deserted() is None:
        return []
    return [
        replace(one, message=f"{one.message}, so '{agent}' of rota.yaml does not work")
        for one in _absent(tx, [], scene)
    ]


def _absent(tx: Transaction, states: list[ScheduleState], scene: Scene) -> list[Reason]:
    if is_attended(tx, scene.now) and not _all_at(tx.living_nodes(), scene.deserted):
        return []
    seen = tx.last_sight()
    since = f"no server has looked for work since {seen}" if seen else "no server has run yet"
    ahead = [(one.next_run_at, _called(one)) for one in states if one.next_run_at is not None]
    due = ""
    if ahead:
        moment, called = min(ahead)
        due = f"; schedule {called} {'was' if moment <= scene.now else 'is'} due at {moment}"
    return [Reason("no_server", f"{since}{due}", (Way("start a server", "rota up"),))]


def _all_at(nodes: list[Node], deserted: Deserted) -> bool:
    left = deserted()
    return all(one.place == left for one in nodes)


def _wakes(tx: Transaction, free: list[_Taker], now: str, *, ready: bool) -> list[Reason]:
    """Names the schedule that looks first. A running schedule looks again only after its run."""
    if not free:
        return []
    taker = min(free, key=lambda one: (one.state.running > 0, one.state.next_run_at or "~"))
    state = taker.state
    if state.running:
        return [_overrun(tx, state)]
    # Anything else that keeps the item would end the trigger as well.
    trigger = Way(command=f"rota schedule trigger {_called(state)}")
    ways = (trigger,) if ready and not taker.doubts else ()
    if state.next_run_at is None:
        return [_by_others(state, ways)]
    when = "is due since" if state.next_run_at <= now else "looks for work next at"
    return [Reason("next_wake", f"schedule {_called(state)} {when} {state.next_run_at}", ways)]


def _by_others(state: ScheduleState, ways: tuple[Way, ...]) -> Reason:
    called = _called(state)
    room, what = (
        ("hooks", "its webhook")
        if state.type is ScheduleType.WEBHOOK
        else ("chat", "a message of its chat")
    )
    return Reason(
        "not_by_clock",
        f"schedule {called} takes it, and only {what} wakes it, never the clock",
        (*ways, Way(f"POST /{room}/{called}")) if ways else (),
    )


def _overrun(tx: Transaction, state: ScheduleState) -> Reason:
    """For the case that all schedules are running."""
    called = _called(state)
    agent = tx.get_agent(state.agent) or Agent(state.agent)
    free = agent.max_concurrent > len(tx.busy_slots(state.agent))
    more = Way(f"give '{state.agent}', which has a slot free, one more schedule")
    return Reason(
        "already_running",
        f"schedule {called} runs already, and does not overlap itself; it looks for work again"
        " when that run has ended",
        (_wait_for_runs(state.agent), *((more,) if free else ())),
    )


# the run that has it


def run_on(tx: Transaction, item: WorkItem, scene: Scene) -> list[Reason]:
    """The open run on the item, if there is one."""
    wanted = RunFilter(work_item_id=item.id, statuses=(RunStatus.RUNNING,))
    runs = tx.list_runs(wanted, 1)
    nodes = tx.some_nodes(run.node for run in runs)
    place = scene.deserted() if nodes else None
    left = {one.id: one.seen_at for one in nodes if one.place == place}
    gone = unseen(tx, runs, scene.now) | {
        run.id: left[run.node] for run in runs if run.node in left
    }
    return [_left(run, item, gone[run.id]) if run.id in gone else _going(run) for run in runs]


def _going(run: Run) -> Reason:
    return Reason(
        "run",
        f"run {run.id} of '{run.agent}' works on it since {run.started_at}",
        (Way(command=f"rota run log {run.id} --follow"),),
    )


def _left(run: Run, item: WorkItem, seen: str) -> Reason:
    """A server elsewhere cannot know whether the agent still works: it waits for the lease."""
    lease = item.lease_expires_at
    elsewhere = f", or one elsewhere after its lease has ended at {lease}" if lease else ""
    return Reason(
        "server_gone",
        f"the server of run {run.id} of '{run.agent}' has not been seen since {seen}; the item"
        f" comes back when that server starts again{elsewhere}",
        (
            Way("start that server", "rota up"),
            Way("give it back at once", f"rota release {item.id} --force"),
        ),
    )
