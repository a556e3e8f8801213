"""Stores records of another tool in the ledger as items: all of a file or nothing.

Each item keeps its origin in `payload.imported_from`. Items that exist already are left as they
are, so that a file can be imported again. Items reach their status by verbs, like all others.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.exchange.exporting import all_projects
from rota.exchange.incoming import Incoming, Reading, Standing, Unmapped
from rota.model.clock import Clock, IdFactory, to_text
from rota.model.errors import InvalidInput
from rota.model.events import EventType, NewEvent
from rota.model.status import Status, Verb
from rota.model.work import NewItem, Project, check_text
from rota.queue import editing, intake, moves
from rota.queue.moves import Order
from rota.storage.port import Store, Topic, Transaction

BATCH = 500
MARK = "imported_from"
# The agent of items that had ended before the import, if none is named.
NOBODY = "import"

_WAYS: dict[Standing, tuple[Verb, ...]] = {
    Standing.OPEN: (),
    Standing.HELD: (),
    Standing.DISPATCHED: (Verb.DISPATCH,),
    Standing.BLOCKED: (Verb.DISPATCH, Verb.START, Verb.BLOCK),
    Standing.COMPLETED: (Verb.DISPATCH, Verb.START, Verb.COMPLETE),
    Standing.FAILED: (Verb.DISPATCH, Verb.START, Verb.FAIL),
    Standing.CANCELLED: (Verb.CANCEL,),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """How records are imported."""

    actor: str
    project: str | None = None  # for all of them, whatever the tool says
    closed: bool = False  # also records that have ended
    dry_run: bool = False
    source: str | None = None  # a tracker's: its mirrored issues are not imported again


@dataclass(slots=True)
class Landed:
    created: dict[str, str] = field(default_factory=dict)  # record → item
    unchanged: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)  # omitted, because they have ended
    unmapped: list[Unmapped] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)  # agents that items are named for


class _DryRun(Exception):
    """Rolls everything back."""


async def land(store: Store, reading: Reading, wish: Wish) -> Landed:
    if wish.project is not None:  # otherwise every single record would report it
        check_text(wish.project, "project", intake.LONGEST["name"])
    landed = Landed()

    def body(tx: Transaction) -> None:
        nonlocal landed
        landed = Landed(unmapped=list(reading.unmapped))  # the body may run again
        _Landing(tx, reading, wish, landed, store.clock).all()
        if wish.dry_run:
            raise _DryRun

    with contextlib.suppress(_DryRun):
        await store.transact(body)
    return landed


@dataclass(slots=True)
class _Known:
    item_id: str
    status: Status
    fingerprint: str


class _Landing:
    def __init__(
        self, tx: Transaction, reading: Reading, wish: Wish, landed: Landed, clock: Clock
    ) -> None:
        self._tx, self._reading, self._wish, self._landed = tx, reading, wish, landed
        self._now, self._ids = to_text(clock.now()), IdFactory(clock)
        self._projects: dict[str, Project] = {}
        self._items: dict[str, str] = {}  # record → item, of all that are in the ledger
        self._over: set[str] = set()  # records that nobody has to wait for
        self._given_up: set[str] = set()

    def all(self) -> None:
        self._tx.begin_import()
        for project in all_projects(self._tx):
            self._projects.setdefault(project.name, project)
        known = self._known()
        fresh = [one for one in self._reading.records if not self._is_here(one, known)]
        stored = [one for one in fresh if self._is_wanted(one)]
        for batch in _batches(list(self._checked(stored))):
            self._tx.insert_items(batch, self._wish.actor, self._now)
        landed = [one for one in stored if one.key in self._landed.created]
        for one in landed:
            self._bring(one, self._items[one.key])
        for one in landed:
            self._link(one)
        self._tx.wake(Topic.READY)

    # records that were imported before

    def _known(self) -> dict[str, _Known]:
        found = {}
        for item_id, status, payload in self._tx.imported_items():
            origin = _origin(payload)
            if origin.get("tool") == self._reading.tool and origin.get("into") == self._into():
                mark = str(origin.get("fingerprint"))
                found[str(origin.get("id"))] = _Known(item_id, Status(status), mark)
        return found

    def _into(self) -> str | None:
        """Two repositories may use the same ids: each is imported into a project of its own."""
        return self._wish.project

    def _is_here(self, record: Incoming, known: dict[str, _Known]) -> bool:
        there = known.get(record.key)
        if there is None:
            return False
        self._items[record.key] = there.item_id
        if there.status is Status.CANCELLED:
            self._given_up.add(record.key)
        if there.fingerprint == record.fingerprint():
            self._landed.unchanged[record.key] = there.item_id
            return True
        self._landed.changed[record.key] = there.item_id
        self._note(
            record.key, "*", f"changed since it was imported; {there.item_id} was left as it is"
        )
        return True

    def _is_wanted(self, record: Incoming) -> bool:
        if record.standing.ended and not self._wish.closed:
            self._landed.closed.append(record.key)
            self._over.add(record.key)
            return False
        if self._wish.source is None:
            return True
        ref = record.key.rpartition("#")[2]
        if not self._tx.outside_items(self._wish.source, [ref]):
            return True
        self._note(record.key, "*", f"it stands here already, through {self._wish.source}")
        return False

    # new records

    def _checked(self, records: Sequence[Incoming]) -> Iterator[tuple[str, NewItem]]:
        for record in records:
            try:
                item = intake.checked(self._new(record))
                intake.check_optional(record.notes, "notes")
            except InvalidInput as error:
                field_name = str(error.details.get("field", "*"))
                self._note(record.key, field_name, f"left out: {error.message}")
                continue
            item_id = self._ids.new()
            self._items[record.key] = self._landed.created[record.key] = item_id
            if item.assigned_agent is not None:
                self._landed.agents.add(item.assigned_agent)
            yield item_id, item

    def _new(self, record: Incoming) -> NewItem:
        project = self._wish.project or record.project
        return NewItem(
            record.type,
            record.title,
            body=record.body,
            payload=self._payload(record),
            priority=record.priority,
            project_id=self._project(project).id if project else None,
            assigned_agent=None if record.standing.ended else record.agent,
            created_by=record.created_by,
            labels=record.labels,
            available_at=record.available_at,
        )

    def _payload(self, record: Incoming) -> dict[str, Any]:
        origin = {
            "tool": self._reading.tool,
            "id": record.key,
            "into": self._into(),
            "fingerprint": record.fingerprint(),
            **record.facts,
        }
        if record.payload is None:
            return {MARK: origin}
        if isinstance(record.payload, dict):
            return {**record.payload, MARK: origin}
        return {"payload": record.payload, MARK: origin}

    def _project(self, name: str) -> Project:
        if name not in self._projects:
            check_text(name, "project", intake.LONGEST["name"])
            made = Project(self._ids.new(), name, None, self._now, self._now)
            self._tx.insert_project(made)
            self._tx.append(
                [
                    NewEvent(
                        EventType.PROJECT_CREATED,
                        self._now,
                        self._wish.actor,
                        project_id=made.id,
                        data={"name": name},
                    )
                ]
            )
            self._projects[name] = made
        return self._projects[name]

    # their status

    def _bring(self, record: Incoming, item_id: str) -> None:
        actor, now = self._wish.actor, self._now
        for verb in _WAYS[record.standing]:
            order = Order(verb, item_id, actor, reason="imported", **self._needs(verb, record))
            moves.given(moves.apply(self._tx, order, self._ids.new(), now))
        if record.standing is Standing.HELD:
            reason = (record.why or "held where it came from")[:500]
            editing.set_hold(self._tx, item_id, reason, actor, now)
        if record.notes and record.standing is not Standing.BLOCKED:
            editing.note(self._tx, item_id, record.notes, actor=actor, token=None, now=now)
        if record.standing is Standing.COMPLETED:
            self._over.add(record.key)
        elif record.standing.ended:
            self._given_up.add(record.key)

    def _needs(self, verb: Verb, record: Incoming) -> dict[str, Any]:
        if verb is Verb.DISPATCH:
            return {"agent": record.agent or NOBODY}
        if verb is Verb.START:
            # It began elsewhere, long ago: an `available_at` in the future must not stop it.
            return {"in_passing": True, "force": True}
        if verb is Verb.BLOCK:
            return {"notes": record.why}
        outcomes = {Verb.COMPLETE: "success", Verb.FAIL: "failed", Verb.CANCEL: "cancelled"}
        return {"outcome": outcomes[verb]}

    def _link(self, record: Incoming) -> None:
        if record.standing.ended:
            return
        for blocker in record.blocked_by:
            why = self._cannot_wait(record.key, blocker)
            if why is not None:
                self._note(record.key, "dependencies", why)
            elif blocker not in self._over:
                self._tx.add_blockers(self._items[record.key], [self._items[blocker]])

    def _cannot_wait(self, key: str, blocker: str) -> str | None:
        if blocker in self._over:
            return None
        if blocker in self._given_up:
            return f"it waited for {blocker[:60]}, which was given up"
        if blocker not in self._items:
            return f"{blocker[:60]!r} is not in the file"
        if self._tx.reaches(self._items[blocker], self._items[key]):
            return f"{blocker[:60]} waits for it, too; that would be a circle"
        return None

    def _note(self, record: str, name: str, why: str) -> None:
        self._landed.unmapped.append(Unmapped(record[:100], name, why))


def _origin(payload: str) -> dict[str, Any]:
    told = json.loads(payload)
    origin = told.get(MARK) if isinstance(told, dict) else None
    return origin if isinstance(origin, dict) else {}


def _batches(
    given: Sequence[tuple[str, NewItem]],
) -> Iterator[Sequence[tuple[str, NewItem]]]:
    for start in range(0, len(given), BATCH):
        yield given[start : start + BATCH]
