"""The board: items by status, column by column and page by page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta

from rota.api.answers import Answer
from rota.api.bodies import Cursor, Id, Strict
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.dashboard.rendering import (
    MOST_COUNTED,
    NEEDS_A_PERSON,
    attention,
    clock_values,
    fragment,
    midnight,
    page,
)
from rota.model.access import READ
from rota.model.clock import to_text
from rota.model.errors import NotFound
from rota.model.status import RULES, TERMINAL, VERB_OF, Status, Verb
from rota.model.work import WorkItem
from rota.queue.views import Query

CARDS_A_PAGE = 30
MOST_CARDS = 200  # that a page's script requests at once

COLUMNS: Mapping[Status, str] = {
    Status.QUEUED: "Queued",
    Status.DISPATCHED: "Dispatched",
    Status.IN_PROGRESS: "In progress",
    Status.BLOCKED: "Blocked",
    Status.IN_REVIEW: "In review",
    Status.COMPLETED: "Done today",
    Status.FAILED: "Failed",
}
EMPTY: Mapping[Status, tuple[str, str | None]] = {
    Status.QUEUED: ("No item is waiting. Add one:", 'rota add "Say hello"'),
    Status.DISPATCHED: ("Items dispatched to an agent wait here until it takes them.", None),
    Status.IN_PROGRESS: (
        "No agent is working. An agent claims an item:",
        "rota claim --agent NAME",
    ),
    Status.BLOCKED: ("No item is blocked. Items that need your help appear here.", None),
    Status.IN_REVIEW: ("Results that wait for a review appear here.", None),
    Status.COMPLETED: ("No item was completed today.", None),
    Status.FAILED: ("No item has failed.", None),
}
# The label of each verb's button, and the text of its dialog.
WORDS: Mapping[Verb, tuple[str, str]] = {
    Verb.DISPATCH: ("Dispatch", "Choose the agent that will do the work."),
    Verb.START: ("Start", "Work begins."),
    Verb.COMPLETE: ("Complete", "The work is done."),
    Verb.FAIL: ("Fail", "The work cannot be done."),
    Verb.BLOCK: ("Block", "Say what the work has to wait for."),
    Verb.RESUME: ("Resume", "Continue the work."),
    Verb.HAND_OVER: ("Hand over", "Send the result to review. Say where it is."),
    Verb.RELEASE: ("Release", "Return to the queue."),
    Verb.REOPEN: ("Reopen", "Return from review to the queue."),
    Verb.RETRY: ("Retry", "Queue again."),
    Verb.CANCEL: ("Cancel", "No agent will do the work. This cannot be undone."),
}


Said = Annotated[str, Meta(max_length=500)]  # as a form sends it: may be empty


class Filters(Strict, frozen=True):
    """What the address says to show. An empty field of the form is no filter."""

    project_id: Said | None = None
    agent: Said | None = None
    type: Said | None = None
    label: Said | None = None
    q: Said | None = None
    need: Annotated[str, Meta(pattern="^(person)?$")] | None = None


class ColumnFilters(Filters, frozen=True):
    cursor: Cursor | None = None


class CardFilters(Filters, frozen=True):
    id: Annotated[tuple[Id, ...], Meta(max_length=MOST_CARDS)] = ()


@dataclass(frozen=True, slots=True)
class Column:
    status: Status
    title: str
    count: int
    items: list[WorkItem]
    more: str | None  # address of the next page
    is_filtered: bool = False

    @property
    def shown_count(self) -> str:
        return f"{self.count:,}" if self.count < MOST_COUNTED else f"{MOST_COUNTED:,}+"

    @property
    def newest_first(self) -> bool:
        return self.status in TERMINAL

    @property
    def empty(self) -> tuple[str, str | None]:
        return (
            ("No item here matches the filter.", None) if self.is_filtered else EMPTY[self.status]
        )


def _set(filters: Filters) -> dict[str, str]:
    """The filters that are set, as query parameters."""
    names = ("project_id", "agent", "type", "label", "q", "need")
    return {name: value for name in names if (value := (getattr(filters, name) or "").strip())}


def _query(filters: Filters, since: str | None = None, cursor: str | None = None) -> Query:
    told = _set(filters)
    return Query(
        agent=told.get("agent"),
        project_id=told.get("project_id"),
        type=told.get("type"),
        label=told.get("label"),
        q=told.get("q"),
        since=since,
        limit=CARDS_A_PAGE,
        cursor=cursor,
    )


def _statuses(filters: Filters) -> tuple[Status, ...]:
    return NEEDS_A_PERSON if filters.need else tuple(COLUMNS)


async def _tally(call: Call, filters: Filters) -> dict[Status, int]:
    """Counts by status. Completed items count only if completed today."""
    query, views = _query(filters), call.ledger.views
    today = replace(query, statuses=(Status.COMPLETED,), since=to_text(midnight(call)))
    others = tuple(one for one in _statuses(filters) if one is not Status.COMPLETED)
    counted = await views.tally(replace(query, statuses=others), MOST_COUNTED)
    if Status.COMPLETED in _statuses(filters):
        counted |= await views.tally(today, MOST_COUNTED)
    return counted


async def _column(
    call: Call, status: Status, filters: Filters, count: int, cursor: str | None = None
) -> Column:
    since = to_text(midnight(call)) if status is Status.COMPLETED else None
    found = await call.ledger.views.column(status, _query(filters, since, cursor))
    more = None
    if found.cursor is not None:
        more = f"/board/{status}?{urlencode(_set(filters) | {'cursor': found.cursor})}"
    filtered = bool(_set(filters).keys() - {"need"})
    return Column(status, COLUMNS[status], count, found.items, more, filtered)


async def _choices(call: Call) -> dict[str, Any]:
    views = call.ledger.views
    return {
        "projects": (await views.projects(limit=200)).projects,
        "agents": [load.agent.name for load in await views.agents()],
    }


def _moves() -> dict[str, dict[str, str]]:
    """The verb that leads from each status to each other."""
    moves: dict[str, dict[str, str]] = {}
    for (source, target), verb in VERB_OF.items():
        moves.setdefault(source, {})[target] = verb
    return moves


_BOARD = {
    "moves": _moves(),
    "words": WORDS,
    "needs": {verb: rule.needs for verb, rule in RULES.items() if rule.needs},
    "titles": COLUMNS,
    "order": list(RULES),  # JSON objects are unordered
    "a_page": CARDS_A_PAGE,
}


@endpoint("GET", "/", scope=READ, tag="dashboard", hidden=True)
async def board(call: Call, query: Filters) -> Answer:
    """The board: what stands where."""
    counts = await _tally(call, query)
    columns = [await _column(call, one, query, counts[one]) for one in _statuses(query)]
    return await page(
        call, "board.html", "board", columns=columns, filters=query, told=_set(query),
        board=_BOARD, **await _choices(call),
    )  # fmt: skip


@endpoint("GET", "/board/{status}", scope=READ, tag="dashboard", hidden=True)
async def column(call: Call, query: ColumnFilters) -> Answer:
    """One column, from some page on: the board's script takes the cards of it."""
    if call.id not in COLUMNS:
        raise NotFound(f"there is no column {call.id!r}; the columns are {', '.join(COLUMNS)}")
    status = Status(call.id)
    counts = await _tally(call, query)
    shown = await _column(call, status, query, counts.get(status, 0), query.cursor)
    return await page(call, "column.html", "board", column=shown, told=_set(query))


@endpoint("GET", "/board", scope=READ, tag="dashboard", hidden=True)
async def cards(call: Call, query: CardFilters) -> Answer:
    """Single cards as they stand now, and the counts, for a page that has heard of a change."""
    counts = await _tally(call, query)
    items = await call.ledger.views.some(query.id)
    today = to_text(midnight(call))
    plain = _query(query)
    return fragment(
        "cards.html",
        items=[one for one in items if _shown(one, plain, query, today)],
        columns=[Column(one, COLUMNS[one], count, [], None) for one, count in counts.items()],
        attention=await attention(call),
        **clock_values(call.ledger.clock.now()),
    )


def _shown(item: WorkItem, query: Query, filters: Filters, today: str) -> bool:
    """Whether the board has a card for the item, by the same rules as the database."""
    if item.status not in _statuses(filters):
        return False
    if item.status is Status.COMPLETED and (item.completed_at or "") <= today:
        return False
    wanted = (query.project_id, query.agent, query.type)
    has = (item.project_id, item.assigned_agent, item.type)
    if any(asked is not None and asked != one for asked, one in zip(wanted, has, strict=True)):
        return False
    if query.label is not None and query.label not in item.labels:
        return False
    return query.q is None or _says(item, query.q)


def _says(item: WorkItem, text: str) -> bool:
    """Compares as the databases do: only ASCII letters ignore case."""
    plain = text.encode().lower()
    return any(plain in (one or "").encode().lower() for one in (item.description, item.body))


ENDPOINTS = (board, cards, column)
