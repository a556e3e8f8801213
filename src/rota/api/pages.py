"""Lists, page by page. A page ends at its limit, or before its answer becomes too large: an item
may have most of a megabyte."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from rota.api.answers import Answer, encode, json_answer, raw
from rota.api.bodies import PageQuery
from rota.api.call import Call
from rota.model.errors import BadCursor

T = TypeVar("T")

MOST_BYTES = 4 * 1024 * 1024
PIECE = 100  # rows read at a time; at most one piece is read in vain
_ID = re.compile("[0-9a-f-]{36}")


def id_cursor(cursor: str | None) -> str | None:
    """The id after which a page begins."""
    if cursor is not None and not _ID.fullmatch(cursor):
        raise bad_cursor()
    return cursor


def bad_cursor() -> BadCursor:
    return BadCursor("cursor: not one of ours; take it from the Link header", field="cursor")


async def page_answer(
    call: Call,
    limit: int,
    start: str | None,
    ask: Callable[[int, str | None], Awaitable[tuple[Sequence[T], bool]]],
    *,
    written: Callable[[T], Any],
    place: Callable[[T], str],
    by: str = "cursor",
) -> Answer:
    """`ask` returns up to so many rows after a place, and whether there may be more. `by` is the
    query parameter for a place. Changes between two pieces may be missed or seen twice."""
    room, at, left, more = _Room(), start, limit, True
    while more and left:
        rows, more = await ask(min(left, PIECE), at)
        taken = room.take(rows, written)
        if taken:
            at = place(rows[taken - 1])
        left -= taken
        if taken < len(rows):
            left, more = 0, True
    headers = call.next_page(**{by: at}) if more and at is not None else None
    return Answer(200, room.body, b"application/json", raw(headers))


def cut_answer(
    call: Call,
    query: PageQuery,
    rows: Iterable[T],
    *,
    place: Callable[[T], str],
    written: Callable[[T], Any] = lambda row: row,
) -> Answer:
    """The same for rows that are all at hand, in the order of their places."""
    behind = [row for row in sorted(rows, key=place) if place(row) > (query.cursor or "")]
    page = behind[: query.limit]
    more = len(behind) > len(page)
    headers = call.next_page(cursor=place(page[-1])) if more else None
    return json_answer([written(row) for row in page], 200, headers)


class _Room:
    """The rows of one answer, limited by their size in bytes."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._left = MOST_BYTES

    def take(self, rows: Sequence[T], written: Callable[[T], Any]) -> int:
        """Add rows while there is room, the first in any case. Returns how many were added."""
        for number, row in enumerate(rows):
            text = encode(written(row))
            self._left -= len(text) + 1
            if self._left < 0 and self._rows:
                return number
            self._rows.append(text)
        return len(rows)

    @property
    def body(self) -> bytes:
        return b"[" + b",".join(self._rows) + b"]"
