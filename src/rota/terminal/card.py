"""One item as a few short lines."""

from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len, set_cell_size

from rota.cli.text import age, one_line
from rota.model.status import TERMINAL, Status

Json = dict[str, Any]

_TITLE_LINES = 2


def card_lines(
    item: Json, width: int, most: int, now: datetime | None = None
) -> tuple[list[str], list[str]]:
    """The title and the facts, together no more than fit on a card."""
    title = wrapped(one_line(item["description"]).split(" "), width, _TITLE_LINES)
    return title, wrapped(facts_of(item, now), width, most - len(title))


def facts_of(item: Json, now: datetime | None = None) -> list[str]:
    """What matters most comes first: the end may be cut off."""
    now = now or datetime.now(UTC)
    words = [
        f"P{item['priority']}",
        age(item["completed_at"] or item["updated_at"], now),
        one_line(item["assigned_agent"] or ""),
        *marks_of(item, now),
        one_line(item["type"]),
    ]
    return [word for word in words if word]


def marks_of(item: Json, now: datetime) -> list[str]:
    waits = item["open_blockers"]
    marks = {
        "held": item["hold_reason"] is not None,
        f"waits for {waits}": waits > 0,
        "deferred": _ahead(item["available_at"], now) and item["status"] == Status.QUEUED,
        "leased": item["lease_expires_at"] is not None,
        "no lease": item["status"] == Status.IN_PROGRESS and item["lease_expires_at"] is None,
        f"try {item['attempts']}/{item['max_attempts']}": item["attempts"] > 1
        and item["status"] not in TERMINAL - {Status.FAILED},
    }
    return [mark for mark, true in marks.items() if true]


def _ahead(moment: str | None, now: datetime) -> bool:
    return moment is not None and datetime.fromisoformat(moment) > now


def wrapped(words: list[str], width: int, most: int) -> list[str]:
    """At most so many lines of so many cells; what is cut off leaves a mark."""
    lines: list[str] = []
    line = ""
    for word in words:
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= width:
            line = joined
            continue
        if line and len(lines) + 1 >= most:
            return [*lines, _cut(joined, width)]
        if line:
            lines.append(line)
        line = word
        while cell_len(line) > width and len(lines) + 1 < most:
            head = _head(line, width)
            lines.append(head)
            line = line[len(head) :]
        if cell_len(line) > width:
            return [*lines, _cut(line, width)]
    return [*lines, line] if line else lines


def _head(text: str, width: int) -> str:
    """As many whole characters as fit; at least one, however narrow it is."""
    end = len(text)
    while end > 1 and cell_len(text[:end]) > width:
        end -= 1
    return text[:end]


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…"
