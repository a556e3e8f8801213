"""One item as a few short lines."""

from datetime import datetime
from typing import Any

from rich.cells import cell_len, chop_cells, set_cell_size

from rota.cli.server_clock import theirs
from rota.cli.text import age, one_line
from rota.model.status import TERMINAL, Status

Json = dict[str, Any]

_TITLE_LINES = 2


def card_lines(item: Json, width: int, most: int) -> tuple[list[list[str]], list[list[str]]]:
    """The words of the title and of the facts, together no more than fit on a card."""
    title = wrapped(one_line(item["description"]).split(" "), width, _TITLE_LINES)
    return title, wrapped(facts_of(item), width, most - len(title))


def facts_of(item: Json) -> list[str]:
    """The most important first, because the end may be cut off."""
    now = theirs.now()
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


def wrapped(words: list[str], width: int, most: int) -> list[list[str]]:
    """At most so many lines of so many cells; text that is cut off ends with a mark."""
    lines: list[list[str]] = []
    for piece in (piece for word in words for piece in chop_cells(word, max(1, width))):
        room = width - cell_len(" ".join(lines[-1])) - 1 if lines else -1
        if cell_len(piece) <= room:
            lines[-1].append(piece)
        elif len(lines) < most:
            lines.append([piece])
        else:
            whole = room < 1  # then the last word has to make room for the mark
            last = lines[-1].pop() if whole else piece
            lines[-1].append(_cut(last, cell_len(last) if whole else room))
            break
    return lines


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…"
