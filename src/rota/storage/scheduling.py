"""The verbs about nodes, schedules and triggers; the statements are in sql/schedules.sql."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from operator import attrgetter

from rota.model.clock import first_id, from_text, to_text
from rota.model.schedules import (
    ScheduleState,
    ScheduleType,
    SkipReason,
    Trigger,
    TriggerKind,
)
from rota.storage.primitives import Primitives, Row
from rota.storage.rows import encode
from rota.storage.schedule_port import (
    RESTS,
    Advance,
    DueSchedule,
    Listed,
    Node,
    Place,
    Standing,
    TriggerEnd,
    TriggerRecord,
    Wakings,
)

# The columns that a change may name: a key becomes part of the statement.
_CHANGEABLE = frozenset({"enabled", "slot", "next_at", "last_run_at", "last_error"})
# `triggered_at` is the time in the id, unless the trigger had to wait for a node to take it up.
_LONGEST_WAIT = timedelta(hours=1)
_NODE_DIED = "the process that ran it died"
_NODE_ENDED = "the process that ran it ended"


class ScheduleStatements(Primitives):
    # nodes

    def put_node(self, node: Node) -> None:
        self._do(
            "put_node",
            id=node.id,
            place=node.place,
            pid=node.pid,
            started_at=node.started_at,
            seen_at=node.seen_at,
        )

    def see_node(self, node_id: str, now: str) -> bool:
        return bool(self._rows("see_node", id=node_id, now=now))

    def end_node(self, node_id: str, now: str) -> bool:
        ended = bool(self._rows("end_node", id=node_id, now=now))
        if ended:
            self._do("lose_triggers", now=now, error=_NODE_ENDED)
        return ended

    def end_dead_nodes(self, me: Node, silent: Sequence[Node], now: str) -> list[Trigger]:
        rows = encode([[one.id, one.seen_at] for one in silent])
        self._do("end_nodes", id=me.id, place=me.place, silent=rows, now=now)
        return [trigger_of(row) for row in self._rows("lose_triggers", now=now, error=_NODE_DIED)]

    def living_nodes(self) -> list[Node]:
        return [Node(*row) for row in self._rows("living_nodes")]

    def nodes_since(self, since: str) -> list[Node]:
        return [Node(*row) for row in self._rows("nodes_since", since=since)]

    def some_nodes(self, ids: Iterable[str]) -> list[Node]:
        return [Node(*row) for row in self._rows("some_nodes", ids=encode(sorted(set(ids))))]

    def put_roster(self, node_id: str, listed: Listed) -> None:
        self._do("put_roster", node=node_id, schedules=encode(listed))

    def other_rosters(self, node_id: str) -> list[Listed | None]:
        return _listed(self._rows("other_rosters", node=node_id))

    def living_rosters(self, since: str) -> list[Listed | None]:
        return _listed(self._rows("living_rosters", since=since))

    def last_sight(self) -> str | None:
        return self._value("last_sight")

    # schedules

    def lock_schedules(self, agents: Sequence[str]) -> None:
        self._do("lock_schedules", agents=encode(list(agents)))

    def standings(self, agents: Sequence[str]) -> list[Standing]:
        return [standing_of(row) for row in self._rows("standings", agents=encode(list(agents)))]

    def put_schedules(self, rows: Sequence[Standing]) -> None:
        if rows:
            in_order = sorted(rows, key=lambda row: (row.agent, row.name))
            self._do("put_schedules", rows=encode([standing_row(row) for row in in_order]))

    def rest_schedules(self, agents: Sequence[str]) -> int:
        return self._changed("rest_schedules", agents=encode(list(agents)), rests=RESTS)

    def drop_schedules(self, names: Sequence[tuple[str, str]], now: str) -> int:
        if not names:
            return 0
        dropped = self._changed("drop_schedules", rows=encode(sorted(names)))
        self._do("end_orphans", now=now)
        return dropped

    def schedule_state(self, agent: str, name: str, alive_since: str) -> ScheduleState | None:
        row = self._one("schedule_state", agent=agent, name=name, alive_since=alive_since)
        return state_of(row) if row else None

    def schedule_states(
        self,
        agent: str | None,
        after: tuple[str, str] | None,
        limit: int,
        alive_since: str,
    ) -> list[ScheduleState]:
        after_agent, after_name = after or ("", "")
        if agent is None:
            rows = self._rows(
                "schedule_states",
                after_agent=after_agent,
                after_name=after_name,
                want=limit,
                alive_since=alive_since,
            )
        else:
            rows = self._rows(
                "agent_schedule_states",
                agent=agent,
                after_name=after_name,
                want=limit,
                alive_since=alive_since,
            )
        return [state_of(row) for row in rows]

    def enable_schedule(self, agent: str, name: str, slot: str | None, next_at: str | None) -> bool:
        return bool(
            self._rows("enable_schedule", agent=agent, name=name, slot=slot, next_at=next_at)
        )

    def disable_schedule(self, agent: str, name: str) -> bool:
        return bool(self._rows("disable_schedule", agent=agent, name=name))

    def change_schedule(self, agent: str, name: str, changes: Mapping[str, object]) -> bool:
        if unknown := changes.keys() - _CHANGEABLE:
            raise ValueError(f"not to be changed: {sorted(unknown)}")
        assignments = ", ".join(f"{column} = :{column}" for column in ("agent", *changes))
        rows = self._text(
            f"UPDATE schedules SET {assignments} WHERE agent = :agent AND name = :name"
            " RETURNING name",
            {**changes, "agent": agent, "name": name},
        )
        return bool(rows)

    def restore_schedule(self, state: ScheduleState) -> bool:
        return bool(
            self._rows(
                "restore_schedule",
                agent=state.agent,
                name=state.name,
                type=state.type,
                definition=state.definition,
                enabled=int(state.enabled),
                next_at=state.next_run_at,
                slot=state.slot,
                last_run_at=state.last_run_at,
                last_completed_at=state.last_completed_at,
                last_error=state.last_error,
            )
        )

    # the clock

    def due_schedules(self, now: str, beyond: Place, limit: int) -> list[DueSchedule]:
        rows = self._rows("due_schedules", now=now, want=limit, **_beyond(beyond))
        return [DueSchedule(*row) for row in rows]

    def is_due(self, now: str, beyond: Place) -> bool:
        return bool(self._rows("is_due", now=now, **_beyond(beyond)))

    def next_wake(self, now: str) -> str | None:
        return self._value("next_wake", now=now)

    def ahead_of(self, now: str, agents: Sequence[str]) -> list[DueSchedule]:
        rows = self._rows("ahead_of", now=now, agents=encode(list(agents)))
        return [DueSchedule(*row) for row in rows]

    def lock_agents(self, agents: Iterable[str]) -> None:
        self._do("lock_agents", agents=encode(sorted(set(agents))))

    def open_triggers(self, agents: Iterable[str]) -> dict[tuple[str, str], int]:
        rows = self._rows("open_triggers", agents=encode(sorted(set(agents))))
        return {(row[0], row[1]): row[2] for row in rows}

    def taken_by(self, node_id: str) -> list[Trigger]:
        found = [trigger_of(row) for row in self._rows("taken_by", node=node_id)]
        return sorted(found, key=attrgetter("id"))

    def insert_triggers(self, triggers: Sequence[Trigger]) -> set[str]:
        if not triggers:
            return set()
        rows = self._rows("insert_triggers", rows=encode([trigger_row(one) for one in triggers]))
        return {row[0] for row in rows}

    def advance_schedules(self, steps: Sequence[Advance], now: str) -> int:
        if not steps:
            return 0
        rows = encode([advance_row(step) for step in steps])
        return self._changed("advance_schedules", rows=rows, now=now)

    # requested triggers

    def waiting_triggers(self, agents: Iterable[str], limit: int, after: str = "") -> list[Trigger]:
        known = encode(sorted(set(agents)))
        rows = self._rows("waiting_triggers", agents=known, after=after, want=limit)
        return [trigger_of(row) for row in rows]

    def is_waiting(self) -> bool:
        return bool(self._rows("is_waiting"))

    def count_waiting(self, agent: str, schedule: str) -> int:
        return self._count("count_waiting", agent=agent, schedule=schedule)

    def take_up(self, trigger: Trigger, now: str, fallback: tuple[str, str] | None) -> bool:
        if not self._rows("take_up", id=trigger.id, node=trigger.node, now=now):
            return False
        definition, slot = fallback or (None, None)
        self._do(
            "note_taken_up",
            agent=trigger.agent,
            schedule=trigger.schedule,
            definition=definition,
            slot=slot,
            now=now,
        )
        return True

    # ends

    def end_triggers(self, ends: Sequence[TriggerEnd], now: str) -> set[str]:
        if not ends:
            return set()
        rows = encode([[end.id, end.outcome, end.error] for end in ends])
        ended = {row[0] for row in self._rows("end_triggers", rows=rows, now=now)}
        # Of several ends of one schedule the last counts; PostgreSQL would apply an arbitrary one.
        notes = {(end.agent, end.schedule): end for end in ends if end.id in ended}
        if notes:
            in_order = [end_row(notes[key]) for key in sorted(notes)]
            self._do("note_ends", rows=encode(in_order), now=now, rests=RESTS)
        return ended

    def free_waiting(self, agents: Iterable[str], now: str) -> None:
        self._do("free_waiting", agents=encode(sorted(set(agents))), now=now, rests=RESTS)

    def get_trigger(self, trigger_id: str) -> TriggerRecord | None:
        row = self._one("get_trigger", id=trigger_id)
        return TriggerRecord(trigger_of(row[:8]), *row[8:]) if row else None

    def wakings(self, names: Sequence[tuple[str, str]], since: str) -> list[Wakings]:
        begin = first_id(to_text(from_text(since) - _LONGEST_WAIT))
        rows = self._rows("wakings", rows=encode(list(names)), since=since, begin=begin)
        return [Wakings(*row) for row in rows]

    def prune_triggers(self, before: str, now: str) -> int:
        self._do("prune_nodes", before=before)
        self._do("prune_rosters")
        pruned = self._changed("prune_triggers", before=before)
        self._do("expire_waiting", before=before, now=now)
        return pruned


def _listed(rows: Iterable[Row]) -> list[Listed | None]:
    return [None if row[0] is None else json.loads(row[0]) for row in rows]


def _beyond(place: Place) -> dict[str, object]:
    return dict(zip(("beyond_at", "beyond_agent", "beyond_name"), place, strict=True))


def trigger_of(row: Row) -> Trigger:
    id_, agent, schedule, slot, kind, node, triggered_at, message = row
    return Trigger(id_, agent, schedule, slot, TriggerKind(kind), node, triggered_at, message)


def trigger_row(trigger: Trigger) -> list[object]:
    return [
        trigger.id, trigger.agent, trigger.schedule, trigger.slot, trigger.kind, trigger.node,
        trigger.triggered_at, trigger.message,
    ]  # fmt: skip


def standing_of(row: Row) -> Standing:
    facts = list(row)
    facts[2], facts[4], facts[5] = ScheduleType(row[2]), bool(row[4]), bool(row[5])
    return Standing(*facts)


def standing_row(row: Standing) -> list[object]:
    return [
        row.agent, row.name, row.type, row.definition, int(row.configured), int(row.enabled),
        row.next_at, row.slot, row.source,
    ]  # fmt: skip


def state_of(row: Row) -> ScheduleState:
    facts = list(row)
    facts[2], facts[4] = ScheduleType(row[2]), bool(row[4])
    if row[5] == RESTS:
        facts[5] = facts[6] = None
    facts[10] = None if row[10] is None else SkipReason(row[10])
    return ScheduleState(*facts)


def advance_row(step: Advance) -> list[object]:
    return [
        step.agent, step.name, step.expected, step.slot, step.next_at, int(step.ran), step.skip,
    ]  # fmt: skip


def end_row(end: TriggerEnd) -> list[object]:
    keep = end.skip is not None and end.skip is not SkipReason.SOURCE_ERROR
    return [
        end.agent, end.schedule, end.error, end.skip, end.slot, end.next_at, int(keep),
        end.definition,
    ]  # fmt: skip
