"""What may be asked of a database about nodes, schedules and triggers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.schedules import ScheduleState, ScheduleType, SkipReason, Trigger

# Where in the line of those that are due: next time, agent, name.
Place = tuple[str, str, str]
HEAD: Place = ("", "", "")
# The next time of a schedule that rests, because no living node has it: never. Its slot is kept, so
# that whoever comes back with it knows what was missed. Nobody is told this time.
RESTS = "9999-12-31T00:00:00.000000Z"
# The names of the schedules that a node has in its file, by agent.
Listed = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Node:
    """A process that runs agents."""

    id: str
    place: str  # host and state directory
    pid: int
    started_at: str
    seen_at: str
    ended_at: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule as far as its times go: a row to be written, or one that was read."""

    agent: str
    name: str
    type: ScheduleType
    definition: str
    configured: bool
    enabled: bool
    next_at: str | None
    slot: str | None
    last_completed_at: str | None = None  # read, never written by `put_schedules`
    source: str | None = None  # what it takes work from; see `WorkWanted`


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose time has come."""

    agent: str
    name: str
    definition: str
    slot: str
    next_at: str


@dataclass(frozen=True, slots=True)
class Advance:
    """Where a schedule goes from its slot. It holds only while the slot is still the expected."""

    agent: str
    name: str
    expected: str
    slot: str
    next_at: str
    ran: bool = False  # counted as a trigger
    skip: SkipReason | None = None  # counted as a skip


@dataclass(frozen=True, slots=True)
class TriggerEnd:
    """How a trigger ended, and what its schedule learns from it."""

    id: str
    agent: str
    schedule: str
    outcome: str
    error: str | None = None  # the schedule's last error, unless it was a mere skip
    skip: SkipReason | None = None
    # Of interval schedules, which count from here; ignored where the schedule does not wake, or has
    # another definition by now.
    slot: str | None = None
    next_at: str | None = None
    definition: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    """A trigger, and how it ended."""

    trigger: Trigger  # whose node is "" while nobody has taken it up
    ended_at: str | None
    outcome: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Wakings:
    """Triggers of one schedule that ended alike within the same ten minutes."""

    agent: str
    schedule: str
    outcome: str  # "running" where there is none yet, "waiting" where nobody has taken it up
    count: int
    first_at: str
    last_at: str


class ScheduleVerbs(Protocol):
    """Part of `Transaction`."""

    # nodes
    def put_node(self, node: Node) -> None:
        """Enter a node, or bring it back after it was taken for dead."""

    def see_node(self, node_id: str, now: str) -> bool:
        """Note that it lives; False when it has been ended, or is not there."""

    def end_node(self, node_id: str, now: str) -> bool:
        """It is gone; False when it was so already. Triggers that it had open are lost."""

    def end_dead_nodes(self, me: Node, silent: Sequence[Node], now: str) -> list[Trigger]:
        """End these nodes, unless they were seen since they were read, and other processes of my
        place.

        Their open triggers end with the outcome `lost`, and are returned.
        """

    def living_nodes(self) -> list[Node]: ...
    def nodes_since(self, since: str) -> list[Node]:
        """Those that were seen since then, also such as have ended."""

    def some_nodes(self, ids: Iterable[str]) -> list[Node]:
        """Those of these that are known, living or not; in no order."""

    def put_roster(self, node_id: str, listed: Listed) -> None:
        """What a node has in its file."""

    def other_rosters(self, node_id: str) -> list[Listed | None]:
        """Of each living node but this; None where it has not said yet."""

    def last_sight(self) -> str | None:
        """When any node, living or not, was last seen."""

    # schedules
    def standings(self, agents: Sequence[str]) -> list[Standing]:
        """All schedules of these agents, in no order."""

    def put_schedules(self, rows: Sequence[Standing]) -> None:
        """Store new schedules and new definitions; what was run and skipped is kept."""

    def rest_schedules(self, agents: Sequence[str]) -> int:
        """Let the schedules of all other agents sleep: nobody is there who knows them. They keep
        their slots; see `RESTS`."""

    def drop_schedules(self, names: Sequence[tuple[str, str]], now: str) -> int:
        """Forget schedules, and end what was asked of them."""

    def schedule_state(self, agent: str, name: str, alive_since: str) -> ScheduleState | None:
        """`running` counts triggers of nodes that were seen since then."""

    def schedule_states(
        self,
        agent: str | None,
        after: tuple[str, str] | None,
        limit: int,
        alive_since: str,
    ) -> list[ScheduleState]:
        """By agent and name, behind `after`."""

    def enable_schedule(self, agent: str, name: str, slot: str | None, next_at: str | None) -> bool:
        """What an operator says; the file's word changes nothing until it changes itself."""

    def disable_schedule(self, agent: str, name: str) -> bool: ...

    def change_schedule(self, agent: str, name: str, changes: Mapping[str, object]) -> bool:
        """Set columns by name: enabled, slot, next_at, last_run_at, last_error."""

    def restore_schedule(self, state: ScheduleState) -> bool:
        """Take over what another scheduler knew: its times, its last error, and whether it is
        enabled. False when there is no such schedule, or it has run here already."""

    # the clock
    def due_schedules(self, now: str, beyond: Place, limit: int) -> list[DueSchedule]:
        """Those whose time has come, the longest due first, behind a place in that line; locked.

        One that another transaction is at is not returned.
        """

    def is_due(self, now: str, beyond: Place) -> bool: ...

    def next_wake(self, now: str) -> str | None:
        """The earliest time later than now at which a schedule wakes."""

    def ahead_of(self, now: str, agents: Sequence[str]) -> list[DueSchedule]:
        """Schedules of these agents that wake later than now."""

    def lock_agents(self, agents: Iterable[str]) -> None:
        """Until the end of the transaction, nobody else counts or opens triggers of these, counts
        what they have in review, or says how much they may do."""

    def open_triggers(self, agents: Iterable[str]) -> dict[tuple[str, str], int]:
        """How many triggers of each (agent, schedule) are taken up and have not ended."""

    def insert_triggers(self, triggers: Sequence[Trigger]) -> set[str]:
        """The ids of those that were new; a slot that was triggered before stays as it is."""

    def advance_schedules(self, steps: Sequence[Advance], now: str) -> int: ...

    # triggers that somebody asked for
    def waiting_triggers(self, agents: Iterable[str], limit: int, after: str = "") -> list[Trigger]:
        """Of each schedule of these agents the oldest that no node has taken up: it runs once at a
        time. Oldest first, behind an id; locked, with their schedules."""

    def is_waiting(self) -> bool: ...

    def count_waiting(self, agent: str, schedule: str) -> int: ...

    def take_up(self, trigger: Trigger, now: str, fallback: tuple[str, str] | None) -> bool:
        """Give a waiting trigger to `trigger.node`. `fallback`: the definition of an interval
        schedule, and the slot at which it wakes if nobody lives to see the end. It counts only
        where the schedule is still defined so."""

    # ends
    def end_triggers(self, ends: Sequence[TriggerEnd], now: str) -> set[str]:
        """The ids of those that were open. Of the others nothing is changed."""

    def free_waiting(self, agents: Iterable[str], now: str) -> None:
        """Let a schedule of each agent that waits for room be looked at now: the longest due."""

    def get_trigger(self, trigger_id: str) -> TriggerRecord | None: ...

    def wakings(self, names: Sequence[tuple[str, str]], since: str) -> list[Wakings]:
        """Of these schedules, since then, the earliest first."""

    def prune_triggers(self, before: str, now: str) -> int:
        """Forget triggers that ended and are older than a time, and nodes that ended before it;
        and what nodes had that have ended.

        Triggers that nobody has taken up since then end as `expired`.
        """
