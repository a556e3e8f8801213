"""Reads for all faces: lists, one item with its history, events, counts."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rota.model.agents import AgentLoad
from rota.model.claims import Claim
from rota.model.clock import to_text
from rota.model.cursors import pack, unpack
from rota.model.errors import BadCursor, InvalidInput, NotFound
from rota.model.events import Event, EventFilter, EventType
from rota.model.fleet import Fleet
from rota.model.signals import FollowUp, Signal
from rota.model.status import TERMINAL, Status
from rota.model.work import (
    MAX_PAGE,
    Dispatch,
    ItemFilter,
    Link,
    Project,
    Related,
    WorkItem,
    check_text,
)
from rota.queue import explain, explain_agents, intake, moves
from rota.queue.explain import Explanation
from rota.queue.explain_fleet import Deserted, Scene, nowhere
from rota.queue.obstacles import is_run_by_the_fleet
from rota.queue.reasons import Reason
from rota.storage.port import Store, Topic, Transaction

# A page up to this size is read on the event loop; see rota.storage.sqlite.
SHORT_PAGE = 100
EVENTS_SHOWN = 200
LATE_SHOWN = 50
_DIGITS = re.compile(r"[0-9a-f-]{1,36}")
FOLLOWING_SHOWN = 50  # items that follow, follow-ups, and signals, of one item


@dataclass(frozen=True, slots=True)
class Page:
    items: list[WorkItem]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ProjectPage:
    projects: list[Project]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything the ledger knows about one item."""

    item: WorkItem
    dispatch_log: list[Dispatch]
    events: list[Event]
    claim: Claim | None
    blocked_by: list[Link]
    blocks: list[Link]
    follows: list[Related]
    followed_by: list[Related]  # by age
    follow_ups: list[FollowUp]  # by age
    waits_for_an_answer: bool  # blocked by a run that has ended: resuming would reach nobody
    late_results: list[Event]  # including those older than `events`


@dataclass(frozen=True, slots=True)
class Following:
    """The follow-ups of an item, and its signals, which may make more."""

    follow_ups: list[FollowUp]
    signals: list[Signal]


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a list, in the words of the API."""

    statuses: tuple[str, ...] = ()
    agent: str | None = None
    project_id: str | None = None
    type: str | None = None
    label: str | None = None
    q: str | None = None
    since: str | None = None
    updated_since: str | None = None
    id_prefix: str | None = None
    ready: bool = False
    limit: int = 50
    cursor: str | None = None

    @property
    def by_age(self) -> bool:
        """Otherwise by priority, and then by age."""
        return self.since is not None or self.id_prefix is not None


class Views:
    def __init__(
        self,
        store: Store,
        *,
        deserted: Deserted = nowhere,
        fleet: Callable[[], Fleet] = Fleet,
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._deserted = deserted
        self._fleet = fleet

    def _now(self) -> str:
        return to_text(self._clock.now())

    async def items(self, query: Query) -> Page:
        wanted = _filter(query, self._now())
        if query.ready and not wanted.statuses:
            return Page([], None)

        def body(tx: Transaction) -> list[WorkItem]:
            return tx.list_items(wanted)

        short = query.limit <= SHORT_PAGE and _stands_together(wanted)
        found = await self._store.read(body, long=not short)
        more = len(found) > query.limit
        page = found[: query.limit]
        return Page(page, place_of(page[-1], by_age=wanted.by_age) if more else None)

    async def column(self, status: Status, query: Query) -> Page:
        """One status of a board: what comes next, or, for a terminal status, what ended last."""
        if status not in TERMINAL:
            return await self.items(replace(query, statuses=(status,), since=None))
        wanted = replace(
            _filter(replace(query, statuses=(status,), cursor=None), self._now()),
            by_age=False,
            by_end=True,
            before=None if query.cursor is None else _end(query.cursor),
        )
        found = await self._store.read(lambda tx: tx.list_items(wanted), long=True)
        page = found[: query.limit]
        more = len(found) > query.limit
        return Page(page, pack(["e", page[-1].completed_at, page[-1].id]) if more else None)

    async def tally(self, query: Query, most: int) -> dict[Status, int]:
        """The number of items in each of the statuses, counted up to `most`."""
        wanted = replace(_filter(replace(query, limit=1), self._now()), limit=most)
        return await self._store.read(lambda tx: tx.tally_items(wanted), long=True)

    async def some(self, item_ids: Sequence[str]) -> list[WorkItem]:
        """The items that exist."""
        return await self._store.read(lambda tx: tx.get_items(item_ids))

    async def item(self, item_id: str) -> WorkItem:
        return await self._store.read(lambda tx: moves.find(tx, item_id))

    async def claim_at(self, item_id: str, epoch: int) -> Claim | None:
        """The claim that gave the item this epoch, live or ended."""
        return await self._store.read(lambda tx: tx.claim_at(item_id, epoch))

    async def claim(self, item_id: str, token: str) -> Claim | None:
        """The claim of an item with this token, live or ended."""
        return await self._store.read(lambda tx: tx.find_claim(item_id, token))

    async def detail(self, item_id: str) -> Detail:
        def body(tx: Transaction) -> Detail:
            item = moves.find(tx, item_id)
            return Detail(
                item,
                tx.dispatches_of(item.id),
                tx.events_of(item.id, EVENTS_SHOWN),
                tx.live_claim(item.id),
                tx.blockers_of(item.id),
                tx.blocked_by(item.id),
                tx.followed(item.id),
                tx.followers(item.id, FOLLOWING_SHOWN),
                tx.list_follow_ups(None, item.id, None, None, FOLLOWING_SHOWN),
                item.status is Status.BLOCKED and is_run_by_the_fleet(tx, item),
                tx.events_of(item.id, LATE_SHOWN, EventType.LATE_RESULT),
            )

        return await self._store.read(body)

    async def following(self, item_id: str) -> Following:
        """Oldest first."""
        return await self._store.read(
            lambda tx: Following(
                tx.list_follow_ups(None, item_id, None, None, FOLLOWING_SHOWN),
                tx.list_signals(None, item_id, None, FOLLOWING_SHOWN),
            )
        )

    async def explain(self, item_id: str) -> Explanation:
        scene = Scene(self._now(), self._deserted, self._fleet())
        return await self._store.read(lambda tx: explain.explain(tx, item_id, scene))

    async def refusals(self, agents: Sequence[str]) -> dict[str, list[Reason]]:
        """By agent: why a run would be refused, if one were requested now."""
        now, fleet = self._now(), self._fleet()

        def body(tx: Transaction) -> dict[str, list[Reason]]:
            return {name: explain_agents.refusals(tx, name, now, fleet) for name in agents}

        return await self._store.read(body, long=True)

    async def project(self, project_id: str) -> Project:
        found = await self._store.read(lambda tx: tx.get_project(project_id))
        if found is None:
            raise NotFound(f"there is no project {project_id[:100]!r}", id=project_id[:100])
        return found

    async def projects(self, limit: int = 50, cursor: str | None = None) -> ProjectPage:
        _check_limit(limit)
        after = None
        if cursor is not None:
            after = _text(_read_cursor(cursor, "p", 1)[0])
        found = await self._store.read(lambda tx: tx.list_projects(after, limit + 1))
        page = found[:limit]
        return ProjectPage(page, pack(["p", page[-1].id]) if len(found) > limit else None)

    async def agents(self) -> list[AgentLoad]:
        return await self._store.read(lambda tx: tx.agent_loads(), long=True)

    async def counts(self) -> dict[Status, int]:
        return await self._store.read(lambda tx: tx.count_by_status(), long=True)

    async def events(
        self,
        after: int = 0,
        limit: int = 50,
        work_item_id: str | None = None,
        types: Sequence[str] = (),
    ) -> list[Event]:
        _check_limit(limit)
        known = set(EventType)
        for kind in types:
            if kind not in known:
                raise InvalidInput(
                    f"type: {kind[:80]!r} is no event type; there are {', '.join(sorted(known))}",
                    field="type",
                )
        wanted = EventFilter(work_item_id, tuple(types))
        # With a filter by type, the log is read to its end if nothing matches.
        long = limit > SHORT_PAGE or bool(types)
        return await self._store.read(lambda tx: tx.events_after(after, limit, wanted), long=long)

    async def events_on(self, after: int, limit: int) -> tuple[list[Event], bool]:
        """Events of all types, and whether some are held back; see `Transaction.events_on`."""
        return await self._store.read(lambda tx: tx.events_on(after, limit))

    async def last_event(self) -> int:
        return await self._store.read(lambda tx: tx.last_event())

    async def highest_event(self) -> int:
        return await self._store.read(lambda tx: tx.highest_event())

    def events_seen(self) -> int:
        return self._store.counter(Topic.EVENTS)

    async def wait_for_events(self, seen: int, seconds: float) -> int:
        """Sleep until the event log may have grown; see `Store.wait`."""
        return await self._store.wait(Topic.EVENTS, seen, seconds)

    async def alive(self) -> None:
        """Raises `StorageUnavailable` when the database does not answer."""
        await self._store.read(lambda tx: tx.next_due())


def _filter(query: Query, now: str) -> ItemFilter:
    _check_limit(query.limit)
    statuses = tuple(dict.fromkeys(_status(text) for text in query.statuses))
    if query.ready:
        statuses = _claimable(statuses)
    since = intake.check_moment(query.since, "since")
    # With terminal statuses only, `since` means the end: monitoring asks what was completed since.
    ended = bool(statuses) and all(status in TERMINAL for status in statuses)
    for field in ("agent", "project_id", "type", "label", "q"):
        value = getattr(query, field)
        if value is not None:
            check_text(value, field, 500)
    if query.id_prefix is not None and not _DIGITS.fullmatch(query.id_prefix):
        raise InvalidInput(
            f"id_prefix: {query.id_prefix[:40]!r} is not the beginning of an id", field="id_prefix"
        )
    return ItemFilter(
        statuses=statuses,
        id_prefix=query.id_prefix,
        agent=query.agent,
        project_id=query.project_id,
        type=query.type,
        label=query.label,
        text=query.q,
        created_after=None if ended else since,
        completed_after=since if ended else None,
        updated_after=intake.check_moment(query.updated_since, "updated_since"),
        ready_at=now if query.ready else None,
        by_age=query.by_age,
        after=None if query.cursor is None else _position(query.cursor, query.by_age),
        limit=query.limit + 1,
    )


def _stands_together(wanted: ItemFilter) -> bool:
    """Whether one index range holds the page. Otherwise the read may pass over years of items, and
    on the event loop every other call, such as a heartbeat, would wait."""
    picked = (wanted.type, wanted.label, wanted.text, wanted.updated_after, wanted.ready_at)
    if any(one is not None for one in picked):
        return False
    if wanted.by_age:
        return not (wanted.statuses or wanted.agent or wanted.project_id)
    if wanted.agent is None:
        return True
    at_hand = bool(wanted.statuses) and TERMINAL.isdisjoint(wanted.statuses)
    return at_hand and wanted.project_id is None


def _claimable(statuses: tuple[Status, ...]) -> tuple[Status, ...]:
    """Those of the statuses in which an item can be ready; of all, if none is named."""
    claimable = (Status.QUEUED, Status.DISPATCHED)
    return tuple(one for one in statuses or claimable if one in claimable)


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise InvalidInput(
            f"status: {text[:40]!r} is unknown; there are {', '.join(Status)}", field="status"
        ) from None


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit: {limit} is out of range; use 1 to {MAX_PAGE}", field="limit")


# Cursors: the sort key of the last item shown.


def place_of(item: WorkItem, *, by_age: bool) -> str:
    """The cursor of the page after this item."""
    return pack(["a" if by_age else "w", item.priority, item.id])


def _position(cursor: str, by_age: bool) -> tuple[int, str]:
    priority, item_id = _read_cursor(cursor, "a" if by_age else "w", 2)
    if not isinstance(priority, int) or not 0 <= priority <= 9:
        raise _bad_cursor()
    return priority, _text(item_id)


def _end(cursor: str) -> tuple[str, str]:
    end, item_id = _read_cursor(cursor, "e", 2)
    return _text(end), _text(item_id)


def _text(part: Any) -> str:
    if not isinstance(part, str) or "\x00" in part or not part.isascii():
        raise _bad_cursor()
    return part


def _read_cursor(cursor: str, kind: str, length: int) -> list[Any]:
    parts = unpack(cursor)
    if not isinstance(parts, list) or len(parts) != length + 1 or parts[0] != kind:
        raise _bad_cursor()
    return parts[1:]


def _bad_cursor() -> BadCursor:
    return BadCursor(
        "cursor: not one of ours, or of a list with another order; take it from the Link header"
        " of the page before",
        field="cursor",
    )
