"""The verbs about runs, limits and the outbox; the statements are in sql/runs.sql."""

import json
from collections.abc import Collection, Sequence

from rota.model.agents import Slot
from rota.model.runs import (
    FIRST_POST,
    AgentLimits,
    OutboxEntry,
    PostPlace,
    Run,
    RunEnd,
    RunFilter,
    RunStatus,
    Spent,
    Tally,
)
from rota.model.schedules import TriggerKind
from rota.storage.primitives import Primitives, Row
from rota.storage.rows import encode


class RunStatements(Primitives):
    # runs

    def insert_run(self, run: Run) -> None:
        self._do(
            "insert_run",
            id=run.id,
            agent=run.agent,
            schedule=run.schedule,
            trigger_kind=run.trigger,
            trigger_id=run.trigger_id,
            node=run.node,
            work_item_id=run.work_item_id,
            epoch=run.epoch,
            item_title=run.item_title,
            attempt=run.attempt,
            started_at=run.started_at,
        )

    def end_run(self, run_id: str, end: RunEnd, now: str, seconds: float) -> Run | None:
        row = self._one(
            "end_run",
            id=run_id,
            now=now,
            status=end.status,
            summary=end.summary,
            artifacts=encode(list(end.artifacts)),
            error=end.error,
            exit_code=end.exit_code,
            session_id=end.session_id,
            input_tokens=end.usage.input_tokens,
            output_tokens=end.usage.output_tokens,
            cost_usd=end.usage.cost_usd,
            turns=end.usage.turns,
            seconds=seconds,
            hook_errors=encode(list(end.hook_errors)),
        )
        return run_of(row) if row else None

    def get_run(self, run_id: str) -> Run | None:
        row = self._one("get_run", id=run_id)
        return run_of(row) if row else None

    def list_runs(self, wanted: RunFilter, limit: int) -> list[Run]:
        conditions, values = _conditions(wanted)
        chosen = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        head = self._sql["get_run"].partition(" WHERE ")[0]
        rows = self._text(f"{head}{chosen} ORDER BY id DESC LIMIT :want", {**values, "want": limit})
        return [run_of(row) for row in rows]

    def request_cancel(self, run_id: str) -> bool:
        return bool(self._rows("request_cancel", id=run_id))

    def runs_to_cancel(self, node: str) -> list[str]:
        return [row[0] for row in self._rows("runs_to_cancel", node=node)]

    def lost_at_work(self) -> list[Run]:
        return [run_of(row) for row in self._rows("lost_at_work")]

    def dead_runs(self, before: str, place: str, node: str) -> list[Run]:
        rows = self._rows("dead_runs", before=before, place=place, node=node)
        return [run_of(row) for row in rows]

    def last_session(
        self, agent: str, schedule: str | None, work_item_id: str | None
    ) -> str | None:
        if work_item_id is not None:
            return self._value("last_session_of_item", agent=agent, work_item_id=work_item_id)
        return self._value("last_session_of_schedule", agent=agent, schedule=schedule)

    def spent(self, since: str, agent: str | None = None) -> Spent:
        if agent is None:
            row = self._one("spent_by_all", since=since)
        else:
            row = self._one("spent_by_agent", since=since, agent=agent)
        runs, seconds, tokens, usd = row or (0, 0.0, 0, 0.0)
        return Spent(runs, float(seconds), int(tokens), float(usd))

    def tallies(self, since: str) -> list[Tally]:
        return [tally_of(row) for row in self._rows("tallies", since=since)]

    def open_runs(self, limit: int) -> list[Run]:
        return [run_of(row) for row in self._rows("open_runs", want=limit)]

    def last_runs(self, agents: Sequence[str]) -> list[Run]:
        return [run_of(row) for row in self._rows("last_runs", agents=encode(list(agents)))]

    def last_scheduled_runs(self, wanted: Sequence[tuple[str, str, str]]) -> list[Run]:
        rows = self._rows("last_scheduled_runs", rows=encode(list(wanted)))
        return [run_of(row) for row in rows]

    def slots_in_use(self, agents: Sequence[str]) -> list[Slot]:
        return [Slot(*row) for row in self._rows("slots_in_use", agents=encode(list(agents)))]

    # limits

    def get_limits(self, agent: str) -> AgentLimits | None:
        row = self._one("get_limits", agent=agent)
        return AgentLimits(*row) if row else None

    def lock_limits(self, agent: str) -> AgentLimits | None:
        self._do("lock_limits", agent=agent)
        return self.get_limits(agent)  # read after the lock, to see what others have committed

    def list_limits(self) -> list[AgentLimits]:
        return [AgentLimits(*row) for row in self._rows("list_limits")]

    def put_limits(self, limits: AgentLimits, now: str) -> None:
        self._do(
            "put_limits",
            agent=limits.agent,
            failures=limits.failures,
            breaker_until=limits.breaker_until,
            usage_until=limits.usage_until,
            note=limits.note,
            now=now,
        )

    # outbox

    def post(self, entry: OutboxEntry) -> None:
        self._do(
            "post",
            id=entry.id,
            kind=entry.kind,
            agent=entry.agent,
            subject=entry.subject,
            payload=encode(entry.payload),
            created_at=entry.created_at,
            next_attempt_at=entry.next_attempt_at or entry.created_at,
        )

    def take_post(
        self,
        now: str,
        until: str,
        limit: int,
        channels: Collection[str] | None = None,
        left_over: str = "",
        *,
        left_alone: Collection[str] = (),
    ) -> list[OutboxEntry]:
        taken = self._rows(
            "take_post",
            now=now,
            until=until,
            want=limit,
            left_over=left_over,
            **_deliverable(channels, left_alone),
        )
        return sorted((letter_of(row) for row in taken), key=lambda one: one.id)

    def take_letter(self, entry_id: str, now: str, until: str) -> OutboxEntry | None:
        row = self._one("take_letter", id=entry_id, now=now, until=until)
        return letter_of(row) if row else None

    def next_post(
        self, channels: Collection[str] | None = None, left_alone: Collection[str] = ()
    ) -> str | None:
        return self._value("next_post", **_deliverable(channels, left_alone))

    def delivered(self, entry_id: str, now: str) -> None:
        self._do("delivered", id=entry_id, now=now)

    def postpone(self, entry_id: str, until: str, error: str) -> None:
        self._do("postpone", id=entry_id, until=until, error=error)

    def leave_letter(self, entry_id: str, now: str, error: str) -> None:
        self._do("leave_letter", id=entry_id, now=now, error=error)

    def bury(self, entry_id: str, now: str, error: str) -> None:
        self._do("bury", id=entry_id, now=now, error=error)

    def revive(self, entry_id: str, now: str) -> bool:
        return bool(self._rows("revive", id=entry_id, now=now))

    def list_post(
        self, *, buried: bool, limit: int, kind: str = "", after: PostPlace = FIRST_POST
    ) -> list[OutboxEntry]:
        values = {"want": limit, "kind": kind, "after": after[1]}
        if buried:
            rows = self._rows("buried_post", **values)
        else:
            rows = self._rows("waiting_post", **values, next_attempt_at=after[0])
        return [letter_of(row) for row in rows]

    def pending_subjects(self, subjects: Sequence[str]) -> set[str]:
        rows = self._rows("pending_subjects", subjects=encode(list(subjects)))
        return {row[0] for row in rows}

    def forget_post(self, before: str) -> int:
        return self._changed("forget_post", before=before)


def _deliverable(
    channels: Collection[str] | None, left_alone: Collection[str]
) -> dict[str, object]:
    return {
        "everything": int(channels is None),
        "channels": encode(sorted(channels or ())),
        "left_alone": encode(sorted(left_alone)),
    }


def _conditions(wanted: RunFilter) -> tuple[list[str], dict[str, object]]:
    conditions: list[str] = []
    values: dict[str, object] = {}
    for name in ("agent", "schedule", "work_item_id"):
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(f"{name} = :{name}")
            values[name] = value
    if wanted.before is not None:
        conditions.append("id < :before")
        values["before"] = wanted.before
    if wanted.statuses:
        places = [f":status{n}" for n in range(len(wanted.statuses))]
        conditions.append(f"status IN ({', '.join(places)})")
        values |= {f"status{n}": status for n, status in enumerate(wanted.statuses)}
    return conditions, values


def run_of(row: Row) -> Run:
    values = list(row)
    values[3] = TriggerKind(values[3])
    values[12] = RunStatus(values[12])
    values[14] = tuple(json.loads(values[14]))
    values[23] = tuple(json.loads(values[23]))
    values[24] = bool(values[24])
    return Run(*values)


def tally_of(row: Row) -> Tally:
    agent, status, runs, seconds, tokens, usd = row
    told = None if usd is None else float(usd)
    return Tally(agent, RunStatus(status), runs, float(seconds), int(tokens), told)


def letter_of(row: Row) -> OutboxEntry:
    values = list(row)
    values[4] = json.loads(values[4])
    return OutboxEntry(*values)
