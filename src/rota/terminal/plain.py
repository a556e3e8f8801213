"""The board as text, for a pipe, and as a document, for programs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rota.cli.text import age, one_line
from rota.terminal.board import Board, Column
from rota.terminal.card import marks_of

Json = dict[str, Any]


def document(board: Board) -> Json:
    columns = [
        {
            "status": str(column.status),
            "title": column.title,
            "total": column.total if column.has_more else len(column.items),
            "more": column.has_more,
            "items": column.items,
        }
        for column in board.columns.values()
    ]
    return {"filters": board.filters.query(), "columns": columns}


def text_lines(board: Board, now: datetime | None = None) -> Iterator[str]:
    """One column after the other, one line an item: its id first, to be copied."""
    moment = now or datetime.now(UTC)
    for place, column in enumerate(board.columns.values()):
        if place:
            yield ""
        yield f"{column.title} {column.count}"
        yield from _table([_row(item, moment) for item in column.items])
        if column.has_more:
            yield f"  … and more: {_list(column)}"


def _row(item: Json, now: datetime) -> list[str]:
    return [
        item["id"],
        f"P{item['priority']}",
        age(item["completed_at"] or item["updated_at"], now),
        one_line(item["assigned_agent"] or "-"),
        one_line(item["type"]),
        " ".join([one_line(item["description"]), *(f"[{mark}]" for mark in marks_of(item, now))]),
    ]


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  " + "  ".join(cells).rstrip()


def _list(column: Column) -> str:
    return f"rota list --status {column.status}"
