"""The verbs of the ledger over SQL, written once for both databases.

A database brings the primitives and may override a verb where one set-based statement
is worth it.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import ClassVar

from rota.model.access import ApiToken
from rota.model.agents import Agent, AgentLoad
from rota.model.claims import Claim, ClaimResult
from rota.model.events import EVERY_EVENT, Event, EventFilter, NewEvent
from rota.model.status import TERMINAL, Outcome, Status
from rota.model.work import Dispatch, ItemFilter, Link, NewItem, Project, WorkItem
from rota.storage.exchanging import ExchangeStatements
from rota.storage.noticing import NoticeStatements
from rota.storage.outside import OutsideVerbs
from rota.storage.port import Edit, Finish, Move, Take, Topic
from rota.storage.rows import (
    STATUS,
    agent_of,
    claim_of,
    encode,
    event_of,
    event_row,
    item_of,
    link_of,
    new_item_row,
    token_of,
)
from rota.storage.running import RunStatements
from rota.storage.scheduling import ScheduleStatements
from rota.storage.select import candidates, item_columns, listing, narrowed, tally
from rota.storage.signalling import SignalStatements
from rota.storage.statistics import StatisticStatements
from rota.storage.taking import Party, Seat, by_filters, hand_out, in_order, rows_of, seat, seated

# Columns an edit may name: a key of `Edit.changes` becomes part of the statement.
_EDITABLE = frozenset(
    {
        "type", "description", "body", "payload", "priority", "project_id", "assigned_agent",
        "pinned", "notes", "labels", "max_attempts", "available_at", "deferred", "hold_reason",
        "artifact_url", "hold_by",
    }
)  # fmt: skip


def take_parameters(take: Take) -> dict[str, object]:
    """The filters of a claim, under the names that `candidates` uses."""
    named: dict[str, object] = {"agent": take.agent}
    named |= {f"type_{index}": kind for index, kind in enumerate(take.types)}
    named |= {f"label_{index}": label for index, label in enumerate(take.labels)}
    if take.project_id is not None:
        named["project_id"] = take.project_id
    return named


class SqlTransaction(
    OutsideVerbs,
    ScheduleStatements,
    RunStatements,
    SignalStatements,
    StatisticStatements,
    ExchangeStatements,
    NoticeStatements,
):
    DIALECT: ClassVar[str]
    # The statements that write new items, a claim and a batch completion, in their order.
    SUBMIT: ClassVar[tuple[str, ...]]
    TAKE: ClassVar[tuple[str, ...]]
    FINISH: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.topics: set[Topic] = set()

    def wake(self, topic: Topic) -> None:
        self.topics.add(topic)

    # projects

    def insert_project(self, project: Project) -> None:
        self._rows(
            "insert_project",
            id=project.id,
            name=project.name,
            external_ref=project.external_ref,
            created_at=project.created_at,
            updated_at=project.updated_at,
        )

    def get_project(self, project_id: str) -> Project | None:
        row = self._one("get_project", id=project_id)
        return Project(*row) if row else None

    def list_projects(self, after: str | None, limit: int) -> list[Project]:
        return [
            Project(*row) for row in self._rows("list_projects", after=after or "", limit=limit)
        ]

    def update_project(self, project: Project) -> bool:
        return bool(
            self._rows(
                "update_project",
                id=project.id,
                name=project.name,
                external_ref=project.external_ref,
                updated_at=project.updated_at,
            )
        )

    # agents

    def get_agent(self, name: str) -> Agent | None:
        row = self._one("get_agent", name=name)
        return agent_of(row) if row else None

    def put_agent(self, agent: Agent) -> None:
        self._rows(
            "put_agent",
            name=agent.name,
            max_concurrent=agent.max_concurrent,
            paused=int(agent.paused),
            max_in_review=agent.max_in_review,
            now=agent.updated_at,
        )

    def agent_loads(self) -> list[AgentLoad]:
        return [AgentLoad(agent_of(row[:6]), *row[6:]) for row in self._rows("agent_loads")]

    def busy_slots(self, agent: str) -> set[int]:
        return {row[0] for row in self._rows("busy_slots", agent=agent)}

    def on_hands(self, agent: str) -> tuple[int, int]:
        in_review, in_progress = self._rows("on_hands", agent=agent)[0]
        return in_review, in_progress

    # items

    def insert_items(
        self, items: Sequence[tuple[str, NewItem]], actor: str | None, now: str
    ) -> None:
        rows = [new_item_row(item_id, item, actor, now) for item_id, item in items]
        self._run_all(self.SUBMIT, rows=encode(rows), actor=actor, now=now)
        self.topics.add(Topic.EVENTS)
        labels = [
            {"id": item_id, "label": label} for item_id, item in items for label in item.labels
        ]
        if labels:
            self._many("insert_labels", labels)

    def get_item(self, item_id: str) -> WorkItem | None:
        row = self._one("get_item", id=item_id)
        return item_of(row) if row else None

    def get_items(self, item_ids: Sequence[str]) -> list[WorkItem]:
        found = (self.get_item(item_id) for item_id in item_ids)
        return [item for item in found if item is not None]

    def list_items(self, wanted: ItemFilter) -> list[WorkItem]:
        return [item_of(row) for row in self._text(*listing(wanted))]

    def tally_items(self, wanted: ItemFilter) -> dict[Status, int]:
        return {wanted.statuses[row[0]]: int(row[1]) for row in self._text(*tally(wanted))}

    def move(self, move: Move) -> WorkItem | None:
        sources = move.sources
        row = self._one(
            "move_item",
            id=move.item_id,
            source_1=sources[0],
            source_2=sources[1 % len(sources)],
            source_3=sources[2 % len(sources)],
            target=move.target,
            now=move.now,
            reason=move.reason,
            outcome=move.outcome,
            completed_at=move.now if move.target in TERMINAL else None,
            notes=move.notes,
            artifact_url=move.artifact_url,
            agent=move.agent,
            drop_agent=int(move.drop_agent),
            slot=move.slot,
            new_epoch=int(move.new_epoch),
            reset_attempts=int(move.reset_attempts),
            available_at=move.available_at,
            token=move.token or "",
            force=int(move.force),
            ours_only=int(move.ours_only),
            version=move.version,
        )
        return item_of(row) if row else None

    def edit(self, edit: Edit) -> WorkItem | None:
        unknown = edit.changes.keys() - _EDITABLE
        if unknown:
            raise ValueError(f"not editable: {sorted(unknown)}")
        assignments = ", ".join(f"{name} = :{name}" for name in edit.changes)
        rows = self._text(
            f"UPDATE work_items SET {assignments}{', ' if assignments else ''}"
            " updated_at = :now, version = version + 1"
            f" WHERE id = :id AND version = coalesce(:version, version) RETURNING {item_columns()}",
            {**edit.changes, "now": edit.now, "id": edit.item_id, "version": edit.version},
        )
        return item_of(rows[0]) if rows else None

    def set_labels(self, item_id: str, labels: Iterable[str]) -> None:
        labels = list(labels)
        self._rows("delete_labels", id=item_id)
        if labels:
            self._many("insert_labels", [{"id": item_id, "label": label} for label in labels])
        self._rows("set_labels", id=item_id, labels=encode(labels))

    def promote_due(self, now: str) -> int:
        return self._changed("promote_due", now=now)

    def next_due(self) -> str | None:
        row = self._one("next_due")
        return row[0] if row else None

    def count_by_status(self) -> dict[Status, int]:
        counted = {STATUS[row[0]]: row[1] for row in self._rows("count_by_status")}
        return {status: counted.get(status, 0) for status in Status}

    def queued_before(self, item: WorkItem) -> int:
        row = self._one("queued_before", priority=item.priority, id=item.id)
        return int(row[0]) if row else 0

    # links

    def add_blockers(self, item_id: str, blocker_ids: Sequence[str]) -> list[str]:
        missing, still_open = [], 0
        # In one order everywhere, so that two transactions cannot wait for each other.
        for blocker_id in sorted(blocker_ids):
            row = self._one("count_dependent", blocker_id=blocker_id)
            if row is None:
                missing.append(blocker_id)
                continue
            self._rows("add_blocker", id=item_id, blocker_id=blocker_id)
            still_open += row[0] != Status.COMPLETED
        if still_open:
            self._rows("add_open_blockers", id=item_id, n=still_open)
        return missing

    def clear_blockers(self, item_id: str) -> None:
        self._rows("release_blockers", id=item_id)
        self._rows("delete_blockers", id=item_id)
        self._rows("zero_open_blockers", id=item_id)

    def blockers_of(self, item_id: str) -> list[Link]:
        return [link_of(row) for row in self._rows("blockers_of", id=item_id)]

    def blocked_by(self, item_id: str) -> list[Link]:
        return [link_of(row) for row in self._rows("blocked_by", id=item_id)]

    def reaches(self, start: str, target: str) -> bool:
        return start == target or bool(self._rows("reaches", start=start, target=target))

    def unblock_dependents(self, item_id: str, now: str) -> list[WorkItem]:
        rows = self._rows("unblock_dependents", id=item_id, now=now)
        return [item for item in map(item_of, rows) if item.open_blockers == 0]

    # claims

    def take(self, takes: Sequence[Take], now: str) -> list[ClaimResult]:
        answers: dict[int, ClaimResult] = {}
        for numbers in by_filters(takes).values():
            group = [takes[number] for number in numbers]
            for number, party in zip(numbers, self._take_group(group, now), strict=True):
                answers[number] = party.answer()
        return [answers[number] for number in range(len(takes))]

    def _take_group(self, takes: list[Take], now: str) -> list[Party]:
        seats = self._seats({take.agent for take in takes})
        parties = [seated(take, seats[take.agent]) for take in takes]
        wanted = sum(len(party.slots) for party in parties)
        if not wanted:
            return parties
        anyone = self._candidates(takes[0], wanted, named=False)
        named: dict[str, deque[WorkItem]] = {}
        for party in parties:
            agent = party.take.agent
            if agent not in named and party.slots and seats[agent].is_named:
                named[agent] = self._candidates(party.take, wanted, named=True)
            hand_out(party, named.get(agent, deque()), anyone, now)
        if rows := rows_of(parties):
            self._run_all(self.TAKE, rows=encode(rows), now=now)
            self.topics.add(Topic.EVENTS)
        return parties

    def _seats(self, agents: set[str]) -> dict[str, Seat]:
        rows = self._rows("seats", agents=encode(sorted(agents)))
        limited = sorted(row[0] for row in rows if row[5] is not None)
        if limited:  # only they pay for being counted exactly
            self.lock_agents(limited)
            rows = self._rows("seats", agents=encode(sorted(agents)))
        return {
            name: seat(slots, busy, bool(paused), bool(is_named), most, waiting)
            for name, slots, paused, busy, is_named, most, waiting in rows
        }

    def _candidates(self, take: Take, want: int, *, named: bool) -> deque[WorkItem]:
        parameters = take_parameters(take) | {"want": want}
        statements = candidates(
            named, len(take.types), len(take.labels), take.project_id is not None, self.DIALECT
        )
        return in_order(item_of(row) for text in statements for row in self._text(text, parameters))

    def _run_all(self, names: Sequence[str], **parameters: object) -> None:
        for name in names:
            self._rows(name, **parameters)

    def lease(self, claim: Claim) -> WorkItem | None:
        row = self._one(
            "put_lease", id=claim.work_item_id, token=claim.token, expires_at=claim.expires_at
        )
        if row is None:
            return None
        self._rows(
            "insert_claim",
            id=claim.work_item_id,
            epoch=claim.epoch,
            token=claim.token,
            agent=claim.agent,
            slot=claim.slot,
            now=claim.claimed_at,
            lease_seconds=claim.lease_seconds,
        )
        return item_of(row)

    def live_claim(self, item_id: str) -> Claim | None:
        row = self._one("live_claim", id=item_id)
        return claim_of(row) if row else None

    def find_claim(self, item_id: str, token: str) -> Claim | None:
        row = self._one("find_claim", id=item_id, token=token)
        return claim_of(row) if row else None

    def extend_claim(
        self, item_id: str, token: str, now: str, expires_at: str, progress: str | None
    ) -> Claim | None:
        extended = self._rows(
            "extend_lease",
            id=item_id,
            token=token,
            now=now,
            expires_at=expires_at,
            progress=progress,
        )
        return self.live_claim(item_id) if extended else None

    def finish(self, entries: Sequence[Finish], now: str) -> list[WorkItem]:
        rows = encode([[entry.item_id, entry.token] for entry in entries])
        found = {row[0]: item_of(row) for row in self._rows("finishable", rows=rows)}
        if not found:
            return []
        # One item may be named by its holder and by a former one: the live token decides.
        kept = {
            entry.item_id: entry
            for entry in reversed(entries)
            if entry.item_id in found and entry.token == found[entry.item_id].claim_token
        }
        rows = encode([_finish_row(entry, found[entry.item_id]) for entry in kept.values()])
        self._run_all(self.FINISH, rows=rows, now=now)
        self.topics.add(Topic.EVENTS)
        return [_finished(found[entry.item_id], entry, now) for entry in kept.values()]

    def lapsed_items(self, now: str, limit: int) -> list[WorkItem]:
        return [item_of(row) for row in self._rows("lapsed_items", now=now, limit=limit)]

    def quiet_items(self, before: str, limit: int) -> list[WorkItem]:
        return [item_of(row) for row in self._rows("quiet_items", before=before, limit=limit)]

    def next_expiry(self) -> str | None:
        row = self._one("next_expiry")
        return row[0] if row else None

    # dispatch log

    def log_dispatch(self, dispatch_id: str, item_id: str, agent: str, now: str) -> None:
        self._rows("log_dispatch", dispatch_id=dispatch_id, id=item_id, agent=agent, now=now)

    def close_dispatch(self, item_id: str, now: str, outcome: str) -> None:
        self._rows("close_dispatch", id=item_id, now=now, outcome=outcome)

    def dispatches_of(self, item_id: str) -> list[Dispatch]:
        return [Dispatch(*row) for row in self._rows("dispatches_of", id=item_id)]

    # events

    def append(self, events: Sequence[NewEvent]) -> None:
        if events:
            self._rows("append_events", rows=encode([event_row(event) for event in events]))
            self.topics.add(Topic.EVENTS)

    def events_after(
        self, after: int, limit: int, wanted: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        return self._events_on(after, limit, wanted)[0]

    def events_on(self, after: int, limit: int) -> tuple[list[Event], bool]:
        return self._events_on(after, limit, EVERY_EVENT)

    def _events_on(self, after: int, limit: int, wanted: EventFilter) -> tuple[list[Event], bool]:
        text, parameters = narrowed(self._text_of("events_after"), wanted)
        rows = self._text(text, parameters | {"after": after, "limit": limit})
        settled = [event_of(row[:-1]) for row in takewhile(lambda row: row[-1], rows)]
        return settled, len(settled) < len(rows)

    def events_of(self, item_id: str, limit: int) -> list[Event]:
        return [event_of(row) for row in self._rows("events_of", id=item_id, limit=limit)]

    def last_event(self) -> int:
        row = self._one("last_event")
        return int(row[0]) if row else 0

    def highest_event(self) -> int:
        row = self._one("highest_event")
        return int(row[0]) if row else 0

    # idempotency keys

    def find_key(self, key: str) -> tuple[str, list[str]] | None:
        row = self._one("find_key", key=key)
        return (row[0], json.loads(row[1])) if row else None

    def keep_key(self, key: str, request_hash: str, item_ids: Sequence[str], now: str) -> bool:
        return bool(
            self._rows(
                "keep_key",
                key=key,
                request_hash=request_hash,
                item_ids=encode(list(item_ids)),
                now=now,
            )
        )

    def forget_keys(self, before: str) -> int:
        return self._changed("forget_keys", before=before)

    # API tokens

    def insert_token(self, token: ApiToken, secret_hash: str) -> None:
        self._rows(
            "insert_token",
            id=token.id,
            name=token.name,
            secret_hash=secret_hash,
            scopes=encode(token.scopes),
            created_at=token.created_at,
            expires_at=token.expires_at,
        )

    def find_token(self, secret_hash: str) -> ApiToken | None:
        row = self._one("find_token", secret_hash=secret_hash)
        return token_of(row) if row else None

    def list_tokens(self) -> list[ApiToken]:
        return [token_of(row) for row in self._rows("list_tokens")]

    def revoke_token(self, token_id: str, now: str) -> bool:
        return bool(self._rows("revoke_token", id=token_id, now=now))

    def touch_token(self, token_id: str, now: str) -> None:
        self._rows("touch_token", id=token_id, now=now)

    def has_live_tokens(self, now: str) -> bool:
        return bool(self._rows("has_live_tokens", now=now))


def _finish_row(entry: Finish, item: WorkItem) -> list[object]:
    data: dict[str, object] = {"outcome": Outcome.SUCCESS}
    if entry.notes is not None:
        data["notes"] = entry.notes
    return [
        item.id, entry.token, entry.notes, entry.actor, item.project_id, item.assigned_agent,
        item.epoch, encode(data),
    ]  # fmt: skip


def _finished(item: WorkItem, entry: Finish, now: str) -> WorkItem:
    """The item as the statement `finish_items` has left it."""
    item.came_from, item.status, item.reason = item.status, Status.COMPLETED, "complete"
    item.updated_at = item.completed_at = now
    item.outcome, item.slot, item.claim_token = Outcome.SUCCESS, None, None
    item.lease_expires_at = item.heartbeat_at = item.progress = None
    item.notes = item.notes if entry.notes is None else entry.notes
    item.version += 1
    return item
