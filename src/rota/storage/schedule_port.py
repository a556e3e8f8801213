"""What may be asked of a database about nodes, schedules and triggers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.schedules import ScheduleState, ScheduleType, SkipReason, Trigger

# A position in the order of due schedules: next time, agent, name.
Place = tuple[str, str, str]
HEAD: Place = ("", "", "")
# The next time of a schedule that rests because no living node has it: never. Its slot is kept, so
# that a node that comes back with it knows what was missed. This time is never shown.
RESTS = "9999-12-31T00:00:00.000000Z"
# The names of the schedules in a node's file, by agent.
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
    """The definition and times of a schedule: a row to be written, or one that was read."""

    agent: str
    name: str
    type: ScheduleType
    definition: str
    configured: bool
    enabled: bool
    next_at: str | None
    slot: str | None
    last_completed_at: str | None = None  # read, never written by `put_schedules`
    source: str | None = None  # the source that it takes work from; see `WorkWanted`


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
    """The step of a schedule from its slot to the next. It applies only while the slot is still the
    expected one."""

    agent: str
    name: str
    expected: str
    slot: str
    next_at: str
    ran: bool = False  # counted as a trigger
    skip: SkipReason | None = None  # counted as a skip


@dataclass(frozen=True, slots=True)
class TriggerEnd:
    """How a trigger ended, and what is recorded on its schedule."""

    id: str
    agent: str
    schedule: str
    outcome: str
    error: str | None = None  # becomes the schedule's last error, unless this was a mere skip
    skip: SkipReason | None = None
    # For interval schedules, which count from the end; ignored if the schedule does not wake or has
    # another definition by now.
    slot: str | None = None
    next_at: str | None = None
    definition: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    """A trigger, and how it ended."""

    trigger: Trigger  # its node is "" until a node takes it up
    ended_at: str | None = None
    outcome: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Wakings:
    """Triggers of one schedule with the same outcome, from the same ten minutes."""

    agent: str
    schedule: str
    outcome: str  # "running" while there is none, "waiting" while no node has taken it up
    count: int
    first_at: str
    last_at: str


class ScheduleVerbs(Protocol):
    """Part of `Transaction`."""

    # nodes
    def put_node(self, node: Node) -> None:
        """Add a node, or bring it back after it was taken for dead."""

    def see_node(self, node_id: str, now: str) -> bool:
        """Record that the node lives; False when it has been ended, or does not exist."""

    def end_node(self, node_id: str, now: str) -> bool:
        """End a node; False when it had already ended. Its open triggers end as `lost`."""

    def end_dead_nodes(self, me: Node, silent: Sequence[Node], now: str) -> list[Trigger]:
        """End the silent nodes, unless they were seen since they were read, and all other nodes of
        my place.

        Open triggers of nodes that are not living end with the outcome `lost`, and are returned.
        """

    def living_nodes(self) -> list[Node]: ...
    def nodes_since(self, since: str) -> list[Node]:
        """Nodes that were seen since then, living or ended."""

    def some_nodes(self, ids: Iterable[str]) -> list[Node]:
        """The nodes with these ids, living or ended; in no order."""

    def put_roster(self, node_id: str, listed: Listed) -> None:
        """Store which schedules a node has in its file."""

    def other_rosters(self, node_id: str) -> list[Listed | None]:
        """The roster of every other living node; None for a node that has not stored one yet."""

    def living_rosters(self, since: str) -> list[Listed | None]:
        """The same of all living nodes that were seen since then."""

    def last_sight(self) -> str | None:
        """When any node, living or ended, was last seen."""

    # schedules
    def lock_schedules(self, agents: Sequence[str]) -> None:
        """Until the end of this transaction, no other changes the schedules of these agents."""

    def standings(self, agents: Sequence[str]) -> list[Standing]:
        """All schedules of these agents, in no order."""

    def put_schedules(self, rows: Sequence[Standing]) -> None:
        """Store new schedules and new definitions; the record of runs and skips is kept."""

    def rest_schedules(self, agents: Sequence[str]) -> int:
        """Let the schedules of all other agents rest, because no living node has them. They keep
        their slots; see `RESTS`."""

    def drop_schedules(self, names: Sequence[tuple[str, str]], now: str) -> int:
        """Delete schedules, and end their waiting triggers."""

    def schedule_state(self, agent: str, name: str, alive_since: str) -> ScheduleState | None:
        """`running` counts open triggers of living nodes seen since `alive_since`."""

    def schedule_states(
        self,
        agent: str | None,
        after: tuple[str, str] | None,
        limit: int,
        alive_since: str,
    ) -> list[ScheduleState]:
        """By agent and name, after `after`."""

    def enable_schedule(self, agent: str, name: str, slot: str | None, next_at: str | None) -> bool:
        """For an operator. The file does not override this until the file's own value changes."""

    def disable_schedule(self, agent: str, name: str) -> bool: ...

    def change_schedule(self, agent: str, name: str, changes: Mapping[str, object]) -> bool:
        """Set columns by name: enabled, slot, next_at, last_run_at, last_error."""

    def restore_schedule(self, state: ScheduleState) -> bool:
        """Take over what another scheduler knew: its times, its last error, and whether it is
        enabled. Adds the schedule if it does not exist. False when it has run here already."""

    # the clock
    def due_schedules(self, now: str, beyond: Place, limit: int) -> list[DueSchedule]:
        """Due schedules, the longest due first, after a place in that order; locked.

        Schedules that another transaction has locked are not returned.
        """

    def is_due(self, now: str, beyond: Place) -> bool: ...

    def next_wake(self, now: str) -> str | None:
        """The earliest time after now at which a schedule wakes."""

    def ahead_of(self, now: str, agents: Sequence[str]) -> list[DueSchedule]:
        """Schedules of these agents that wake later than now."""

    def lock_agents(self, agents: Iterable[str]) -> None:
        """Until the end of this transaction, no other transaction counts or opens triggers of these
        agents, counts their items in review, or changes their limits."""

    def open_triggers(self, agents: Iterable[str]) -> dict[tuple[str, str], int]:
        """The number of triggers of each (agent, schedule) that are taken up and have not ended."""

    def taken_by(self, node_id: str) -> list[Trigger]:
        """The open triggers of a node, oldest first."""

    def insert_triggers(self, triggers: Sequence[Trigger]) -> set[str]:
        """The ids of the new ones; a slot that already has a trigger keeps it."""

    def advance_schedules(self, steps: Sequence[Advance], now: str) -> int: ...

    # requested triggers
    def waiting_triggers(self, agents: Iterable[str], limit: int, after: str = "") -> list[Trigger]:
        """For each schedule of these agents the oldest trigger that no node has taken up, because a
        schedule runs once at a time. Oldest first, after an id; locked, with their schedules."""

    def is_waiting(self) -> bool: ...

    def count_waiting(self, agent: str, schedule: str) -> int: ...

    def take_up(self, trigger: Trigger, now: str, fallback: tuple[str, str] | None) -> bool:
        """Give a waiting trigger to `trigger.node`. `fallback`: the definition of an interval
        schedule, and the slot at which it wakes if the end of the run is never recorded. It applies
        only while the schedule still has that definition."""

    # ends
    def end_triggers(self, ends: Sequence[TriggerEnd], now: str) -> set[str]:
        """The ids of those that were open; the others are not changed."""

    def free_waiting(self, agents: Iterable[str], now: str) -> None:
        """Make one schedule of each agent due now: of those that wait for room, the longest due."""

    def get_trigger(self, trigger_id: str) -> TriggerRecord | None: ...

    def wakings(self, names: Sequence[tuple[str, str]], since: str) -> list[Wakings]:
        """Of these schedules since then, earliest first."""

    def prune_triggers(self, before: str, now: str) -> int:
        """Delete ended triggers that are older than `before`, nodes that ended before it, and the
        rosters of ended nodes.

        Waiting triggers that are older than `before` end as `expired`.
        """
