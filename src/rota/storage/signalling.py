"""The verbs about signals, firings and follow-ups; the statements are in sql/signals.sql."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from typing import Any

from rota.model.events import Event, NewEvent
from rota.model.signals import (
    Action,
    ActionKind,
    Condition,
    FiringFacts,
    FiringRecord,
    FiringStatus,
    FollowUp,
    FollowUpStatus,
    Gathering,
    Signal,
    SignalStatus,
    TriggerOn,
)
from rota.model.work import Related
from rota.storage.events import EventStatements
from rota.storage.primitives import Row
from rota.storage.rows import encode, event_of, item_of, related_of

# The number of columns of each in a row that holds several records.
_OF_SIGNAL, _OF_EVENT = len(fields(Signal)), len(fields(Event))


class SignalStatements(EventStatements):
    # signals

    def insert_signal(self, signal: Signal, keys: Sequence[str]) -> None:
        self._do(
            "insert_signal",
            id=signal.id,
            work_item_id=signal.work_item_id,
            name=signal.name,
            trigger_kind=signal.condition.kind,
            trigger_spec=encode(_plain(signal.condition)),
            action=encode(_plain(signal.action)),
            max_fires=signal.max_fires,
            max_depth=signal.max_depth,
            expires_at=signal.expires_at,
            created_by=signal.created_by,
            configured=int(signal.configured),
            now=signal.created_at,
        )
        self._do("insert_young", id=signal.id)
        self._do("insert_signal_keys", id=signal.id, keys=encode(sorted(set(keys))))

    def get_signal(self, signal_id: str) -> Signal | None:
        row = self._one("get_signal", id=signal_id)
        return signal_of(row) if row else None

    def list_signals(
        self,
        status: SignalStatus | None,
        work_item_id: str | None,
        after: str | None,
        limit: int,
        *,
        newest: bool = False,
    ) -> list[Signal]:
        rows = self._rows(
            "newest_signals" if newest else "list_signals",
            status=status or "",
            item=work_item_id or "",
            after=after or ("~" if newest else ""),
            want=limit,
        )
        return [signal_of(row) for row in rows]

    def named_signals(self) -> list[Signal]:
        return [signal_of(row) for row in self._rows("named_signals")]

    def declared_signal(self, name: str) -> Signal | None:
        row = self._one("declared_signal", name=name)
        return signal_of(row) if row else None

    def signal_named(self, name: str) -> str | None:
        return self._value("signal_named", name=name)

    def end_signal(self, signal_id: str, status: SignalStatus, now: str) -> bool:
        ended = self._rows("end_signal", id=signal_id, status=status, now=now)
        if ended:
            self._do("drop_signal_keys", id=signal_id)
        return bool(ended)

    def expire_signals(self, now: str) -> list[str]:
        due = [row[0] for row in self._rows("expiring_signals", now=now)]
        return [one for one in due if self.end_signal(one, SignalStatus.EXPIRED, now)]

    def next_signal_end(self) -> str | None:
        return self._value("next_signal_end")

    def has_young(self) -> bool:
        return bool(self._rows("has_young"))

    def bound_young(self) -> None:
        self._do("bound_young")

    def catch_up(self) -> int:
        return len(self._rows("catch_up"))

    def is_heard(self, key: str) -> bool:
        return bool(self._rows("is_heard", key=key))

    # firings

    def insert_firing(self, firing: FiringRecord) -> bool:
        return bool(
            self._rows(
                "insert_firing",
                id=firing.id,
                signal_id=firing.signal_id,
                dedupe_key=firing.dedupe_key,
                event_seq=firing.event_seq,
                work_item_id=firing.work_item_id,
                next_attempt_at=firing.next_attempt_at,
                created_at=firing.created_at,
            )
        )

    def take_firings(
        self, owner: str, now: str, until: str, limit: int, since: str = ""
    ) -> list[FiringRecord]:
        rows = self._rows(
            "take_firings", owner=owner, now=now, until=until, want=limit, since=since
        )
        return sorted((firing_of(row) for row in rows), key=lambda one: one.event_seq or 0)

    def get_firing(self, firing_id: str) -> FiringRecord | None:
        row = self._one("get_firing", id=firing_id)
        return firing_of(row) if row else None

    def firing_facts(self, firing: FiringRecord) -> FiringFacts | None:
        row = self._one(
            "firing_facts", id=firing.signal_id, seq=firing.event_seq, item=firing.work_item_id
        )
        if row is None:
            return None
        signal, event = row[:_OF_SIGNAL], row[_OF_SIGNAL : _OF_SIGNAL + _OF_EVENT]
        item = row[_OF_SIGNAL + _OF_EVENT : -1]
        return FiringFacts(
            signal_of(signal),
            None if event[0] is None else event_of(event),
            None if item[0] is None else item_of(item),
            bool(row[-1]),
        )

    def conclude_firing(
        self, signal: Signal, firing: FiringRecord, told: NewEvent, seq: int, *, last: bool
    ) -> bool:
        now, owner = told.occurred_at, firing.lease_owner or ""
        counted = self._rows(
            "fire_signal", id=signal.id, fires=signal.fires, now=now, seq=seq, last=int(last)
        )
        if not counted or not self.end_firing(firing, owner, now):
            return False
        if last:
            self._do("drop_signal_keys", id=signal.id)
        self.append([told])
        return True

    def end_firing(self, firing: FiringRecord, owner: str, now: str) -> bool:
        return bool(
            self._rows(
                "end_firing",
                id=firing.id,
                owner=owner,
                now=now,
                status=firing.status,
                error=firing.error,
                result=encode(firing.result),
            )
        )

    def postpone_firing(
        self, firing_id: str, owner: str, until: str, error: str | None, *, counted: bool
    ) -> bool:
        return bool(
            self._rows(
                "postpone_firing",
                id=firing_id,
                owner=owner,
                until=until,
                error=error,
                uncounted=int(not counted),
            )
        )

    def skip_firings(self, ids: Collection[str], why: str, now: str) -> None:
        if ids:
            self._do("skip_firings", ids=encode(sorted(ids)), error=why, now=now)

    def retry_firing(self, firing_id: str, now: str) -> bool:
        return bool(self._rows("retry_firing", id=firing_id, now=now))

    def firings_of(self, signal_id: str, limit: int) -> list[FiringRecord]:
        return [firing_of(row) for row in self._rows("firings_of", id=signal_id, want=limit)]

    def list_firings(
        self, status: FiringStatus, limit: int, after: tuple[str, str] | None = None
    ) -> list[FiringRecord]:
        created_at, last = after or ("", "")
        rows = self._rows(
            "list_firings", status=status, created_at=created_at, after=last, want=limit
        )
        return [firing_of(row) for row in rows]

    def next_firing(self) -> str | None:
        return self._value("next_firing")

    # facts for conditions

    def has_moved_since(self, item_id: str, seq: int) -> bool:
        return bool(self._rows("has_moved_since", id=item_id, seq=seq))

    def count_moves(self, item_id: str, condition: Condition, seq: int) -> int:
        return self._count(
            "count_moves",
            id=item_id,
            statuses=encode(list(condition.to)),
            origins=encode(list(condition.from_)),
            reasons=encode(list(condition.reasons)),
            seq=seq,
        )

    def gather(self, signal_id: str, condition: Condition) -> Gathering:
        statuses, items = encode(list(condition.to)), encode(list(condition.items))
        if condition.items:
            row = self._one("gather_items", signal=signal_id, items=items, statuses=statuses)
        else:
            row = self._one(
                "gather_project",
                signal=signal_id,
                project=condition.project_id,
                statuses=statuses,
            )
        total, inside, ids = row or (0, 0, "[]")
        return Gathering(int(total), int(inside), frozenset(json.loads(ids)))

    # loops

    def put_lineage(
        self, item_id: str, parent_id: str | None, signal_id: str, follows_id: str | None
    ) -> None:
        self._do(
            "put_lineage",
            id=item_id,
            parent_id=parent_id,
            signal_id=signal_id,
            follows_id=follows_id,
        )

    def followed(self, item_id: str) -> list[Related]:
        return [related_of(row) for row in self._rows("followed", id=item_id)]

    def followers(self, item_id: str, limit: int) -> list[Related]:
        return [related_of(row) for row in self._rows("followers", id=item_id, limit=limit)]

    def ancestry(self, item_id: str) -> list[str]:
        return [row[0] for row in self._rows("ancestry", id=item_id)]

    # follow-ups

    def insert_follow_up(self, follow_up: FollowUp) -> bool:
        return bool(
            self._rows(
                "insert_follow_up",
                id=follow_up.id,
                work_item_id=follow_up.work_item_id,
                signal_id=follow_up.signal_id,
                firing_id=follow_up.firing_id,
                title=follow_up.title,
                body=follow_up.body,
                agent=follow_up.agent,
                now=follow_up.created_at,
            )
        )

    def get_follow_up(self, follow_up_id: str) -> FollowUp | None:
        row = self._one("get_follow_up", id=follow_up_id)
        return follow_up_of(row) if row else None

    def list_follow_ups(
        self,
        status: FollowUpStatus | None,
        work_item_id: str | None,
        agent: str | None,
        after: str | None,
        limit: int,
    ) -> list[FollowUp]:
        asked = {
            "status": status or "", "agent": agent or "", "after": after or "", "want": limit,
        }  # fmt: skip
        rows = (
            self._rows("list_follow_ups", **asked)
            if work_item_id is None
            else self._rows("follow_ups_of", item=work_item_id, **asked)
        )
        return [follow_up_of(row) for row in rows]

    def lease_follow_up(self, agent: str, token: str, now: str, until: str) -> FollowUp | None:
        row = self._one("lease_follow_up", agent=agent, token=token, now=now, until=until)
        return follow_up_of(row) if row else None

    def extend_follow_up(self, follow_up_id: str, token: str, until: str) -> FollowUp | None:
        row = self._one("extend_follow_up", id=follow_up_id, token=token, until=until)
        return follow_up_of(row) if row else None

    def end_follow_up(
        self,
        follow_up_id: str,
        token: str | None,
        status: FollowUpStatus,
        *,
        now: str,
        outcome: str | None = None,
        notes: str | None = None,
    ) -> FollowUp | None:
        row = self._one(
            "end_follow_up",
            id=follow_up_id,
            token=token or "",
            status=status,
            now=now,
            outcome=outcome,
            notes=notes,
        )
        return follow_up_of(row) if row else None

    def release_follow_up(self, follow_up_id: str, token: str) -> bool:
        return bool(self._rows("release_follow_up", id=follow_up_id, token=token))


def _plain(value: Condition | Action) -> dict[str, Any]:
    """Without fields that were not given, so that a spec reads as it was written."""
    return {name: one for name, one in asdict(value).items() if one not in (None, (), {}, False)}


def spelled(value: Condition | Action) -> dict[str, Any]:
    """As it comes back from the database, for comparison."""
    found: dict[str, Any] = json.loads(encode(_plain(value)))
    return found


def _tuples(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in spec.items()}


def condition_of(spec: dict[str, Any]) -> Condition:
    return Condition(**_tuples(spec) | {"kind": TriggerOn(spec["kind"])})


def action_of(spec: dict[str, Any]) -> Action:
    return Action(**_tuples(spec) | {"kind": ActionKind(spec["kind"])})


def signal_of(row: Row) -> Signal:
    values = list(row)
    values[3] = condition_of(json.loads(values[3]))
    values[4] = action_of(json.loads(values[4]))
    values[5] = SignalStatus(values[5])
    values[11] = bool(values[11])
    return Signal(*values)


def firing_of(row: Row) -> FiringRecord:
    values = list(row)
    values[5] = FiringStatus(values[5])
    values[13] = json.loads(values[13])
    return FiringRecord(*values)


def follow_up_of(row: Row) -> FollowUp:
    values = list(row)
    values[6] = FollowUpStatus(values[6])
    return FollowUp(*values)
