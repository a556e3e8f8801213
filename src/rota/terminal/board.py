"""The columns of the board, and the items in them."""

import asyncio
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.client import WorkQueueClient
from rota.client._async.calls import content, next_cursor, not_ours
from rota.client.project_ids import is_id, the_one_named, unknown
from rota.model.clock import to_text
from rota.model.status import Status
from rota.model.work import MAX_PAGE
from rota.terminal.filters import Filters

Json = dict[str, Any]

PAGE = 100
TITLES: Mapping[Status, str] = {
    Status.QUEUED: "Queued",
    Status.DISPATCHED: "Dispatched",
    Status.IN_PROGRESS: "In progress",
    Status.BLOCKED: "Blocked",
    Status.IN_REVIEW: "In review",
    Status.COMPLETED: "Done today",
    Status.FAILED: "Failed",
}
EMPTY: Mapping[Status, str] = {
    Status.QUEUED: "No item is waiting. Press a to add one.",
    Status.DISPATCHED: "No item waits for the agent it was dispatched to.",
    Status.IN_PROGRESS: "No agent is working.",
    Status.BLOCKED: "No item needs your help.",
    Status.IN_REVIEW: "No result waits for a review.",
    Status.COMPLETED: "No item was completed today.",
    Status.FAILED: "No item has failed.",
}
FILTERED = "No item here matches the filter. Press / to change it."
# The API lists ended items in the order of their creation. If more have ended today than fit on a
# page, looking back less far finds the latest.
_LOOKING_BACK = tuple(timedelta(minutes=minutes) for minutes in (24 * 60, 240, 60, 15, 4, 1))
_COUNT = re.compile(r'^rota_items\{status="(\w+)"\} ([0-9.e+]+)$', re.M)


@dataclass(frozen=True, slots=True)
class Page:
    items: list[Json]
    cursor: str | None


class BoardClient(WorkQueueClient):
    """A client that reads single pages: a board shows the first, and more on demand."""

    async def page(self, query: Json) -> Page:
        answer = await self._answered(self._request("GET", "/work", query=query), True)
        items = content(answer)
        if not isinstance(items, list):
            raise not_ours()
        return Page(items, next_cursor(answer.headers.get("link", "")))

    async def with_project(self, filters: Filters) -> Filters:
        """The filters with the id of the project, where its name was given."""
        name = filters.project_id
        if name is None or is_id(name):
            return filters
        found = the_one_named(name, await self.list_projects())
        if found is None:
            raise unknown(name)
        return replace(filters, project_id=found, project=name)

    async def counts(self) -> dict[str, int]:
        """How many items there are of each status."""
        answer = await self._answered(self._request("GET", "/metrics"), True)
        figures = _COUNT.findall(answer.body.decode(errors="replace"))
        return {status: int(float(number)) for status, number in figures}


@dataclass(slots=True)
class Column:
    status: Status
    items: list[Json] = field(default_factory=list)
    cursor: str | None = None  # where its next page begins
    cut: bool = False  # older items are not shown, and cannot be paged to
    least: int = 0  # known to be there, shown or not
    total: int | None = None
    narrowed: bool = False  # by a filter, so that not all items are shown

    @property
    def title(self) -> str:
        return TITLES[self.status]

    @property
    def has_more(self) -> bool:
        return self.cursor is not None or self.cut

    @property
    def count(self) -> str:
        if not self.has_more:
            return f"{len(self.items):,}"
        if self.total is not None:
            return f"{max(self.total, len(self.items)):,}"
        return f"{max(self.least, len(self.items)):,}+"

    @property
    def empty(self) -> str:
        """The text for a column without items."""
        return FILTERED if self.narrowed else EMPTY[self.status]

    def become(self, other: "Column") -> None:
        self.items, self.cursor, self.cut = other.items, other.cursor, other.cut
        self.least, self.total, self.narrowed = other.least, other.total, other.narrowed

    def place_of(self, item_id: str | None) -> int | None:
        return next((n for n, item in enumerate(self.items) if item["id"] == item_id), None)


class Board:
    def __init__(
        self, client: BoardClient, filters: Filters, page: int = PAGE, ended: int = 2 * PAGE
    ) -> None:
        """Of the items that ended today, `ended` are read at once."""
        self.client = client
        self.filters = filters
        self.columns = {status: Column(status) for status in TITLES}
        self.page = page
        self._most_ended = ended
        self._reading = asyncio.Lock()  # a page read while the list is replaced would leave a gap

    def narrow(self, filters: Filters) -> None:
        """Set other filters; columns are then read again, from the first page on."""
        self.filters = filters
        for column in self.columns.values():
            del column.items[self.page :]

    async def load(self, statuses: Collection[Status] = tuple(TITLES)) -> None:
        """Read columns again, as far as they were open. They all change together, at the end: a key
        pressed meanwhile is meant for what is on the screen."""
        async with self._reading:
            read = await asyncio.gather(*map(self._column, statuses))
            columns = {**self.columns, **{column.status: column for column in read}}
            await self._count(columns.values())
            for column in read:
                self.columns[column.status].become(column)

    async def more(self, status: Status) -> None:
        """Read the next page of a column."""
        column = self.columns[status]
        async with self._reading:
            if column.cursor is not None:
                page = await self._read(status, self.page, column.cursor)
                known = {item["id"] for item in column.items}
                column.items += [item for item in page.items if item["id"] not in known]
                column.cursor = page.cursor

    def find(self, item_id: str | None) -> tuple[Column, int] | None:
        for column in self.columns.values():
            place = column.place_of(item_id)
            if place is not None:
                return column, place
        return None

    async def _column(self, status: Status) -> Column:
        if status is Status.COMPLETED:
            return await self._ended()
        wanted = max(self.page, len(self.columns[status].items))
        found: dict[str, Json] = {}
        cursor: str | None = None
        while len(found) < wanted:
            page = await self._read(status, min(wanted - len(found), MAX_PAGE), cursor)
            # An item whose priority was changed meanwhile may be on two pages.
            found |= {item["id"]: item for item in page.items}
            cursor = page.cursor
            if cursor is None:
                break
        return Column(status, list(found.values()), cursor, narrowed=self._is_narrow)

    async def _ended(self) -> Column:
        page, today, since, least = Page([], None), midnight(), None, 0
        for back in _LOOKING_BACK:
            since = max(today, datetime.now(UTC) - back)
            page = await self._read(Status.COMPLETED, self._most_ended, since=to_text(since))
            if page.cursor is None:
                break
            least = self._most_ended
        items = sorted(page.items, key=lambda item: item["completed_at"], reverse=True)
        cut = since != today or page.cursor is not None
        return Column(Status.COMPLETED, items, cut=cut, least=least, narrowed=self._is_narrow)

    @property
    def _is_narrow(self) -> bool:
        return bool(self.filters.query())

    async def _read(
        self, status: Status, limit: int, cursor: str | None = None, since: str | None = None
    ) -> Page:
        asked = {"status": status, "limit": limit, "cursor": cursor, "since": since}
        return await self.client.page({**self.filters.query(), **asked})

    async def _count(self, columns: Collection[Column]) -> None:
        """Only if pages are left to be read, and without filters: the figures are of all items."""
        unread = any(column.cursor is not None for column in columns)
        totals = await self.client.counts() if unread and not self._is_narrow else {}
        for column in columns:
            ended = column.status is Status.COMPLETED  # the figure is not only of today
            column.total = None if ended else totals.get(column.status)


def midnight() -> datetime:
    """When the viewer's day began, in their time zone."""
    here = datetime.now().astimezone()
    return here.replace(hour=0, minute=0, second=0, microsecond=0)
