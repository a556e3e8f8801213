"""The board as text, for a pipe, and as a document, for programs."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.cli.server_clock import theirs
from rota.cli.text import age, one_line, shortened
from rota.model.status import Status
from rota.terminal.board import Board, Column, midnight
from rota.terminal.card import marks_of

Json = dict[str, Any]

_NAME, _TITLE = 12, 16  # the fewest letters that can still be recognised


def document(board: Board) -> Json:
    columns = [
        {
            "status": str(column.status),
            "title": column.title,
            "total": column.total if column.has_more else len(column.items),
            "more": _is_more(board, column),
            "items": column.items[: board.page],
        }
        for column in board.columns.values()
    ]
    return {"filters": board.filters.query(), "columns": columns}


def text_lines(board: Board, width: int | None = None) -> Iterator[str]:
    """One column after another, one line for each item: its id first, to be copied. With a `width`,
    words are cut to it."""
    now = theirs.now()
    for place, column in enumerate(board.columns.values()):
        if place:
            yield ""
        yield f"{column.title} {column.count}"
        yield from _table([_row(item, now) for item in column.items[: board.page]], width)
        if _is_more(board, column):
            yield f"  … and more: {_list(board, column)}"


def _is_more(board: Board, column: Column) -> bool:
    return column.has_more or len(column.items) > board.page


@dataclass(frozen=True, slots=True)
class _Row:
    cells: list[str]  # the last two are names, which may be long
    title: str
    marks: str


def _row(item: Json, now: datetime) -> _Row:
    cells = [
        item["id"],
        f"P{item['priority']}",
        age(item["completed_at"] or item["updated_at"], now),
        one_line(item["assigned_agent"] or "-"),
        one_line(item["type"]),
    ]
    marks = "".join(f" [{mark}]" for mark in marks_of(item, now))
    return _Row(cells, one_line(item["description"]), marks)


def _table(rows: list[_Row], width: int | None) -> Iterator[str]:
    table = [_cut(row.cells) if width else row.cells for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    for row, cells in zip(rows, table, strict=True):
        begin = "".join(f"  {cell.ljust(wide)}" for cell, wide in zip(cells, widths, strict=True))
        room = max(_TITLE, width - len(begin) - len(row.marks) - 2) if width else len(row.title)
        yield f"{begin}  {shortened(row.title, room)}{row.marks}"


def _cut(cells: list[str]) -> list[str]:
    return [*cells[:-2], *(shortened(name, _NAME) for name in cells[-2:])]


def _list(board: Board, column: Column) -> str:
    words = ["rota", "list", "--status", str(column.status), *board.filters.options()]
    if column.status is Status.COMPLETED:
        words += ["--since", midnight().isoformat(timespec="minutes")]
    return shlex.join(words)
