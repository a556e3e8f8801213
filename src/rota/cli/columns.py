"""How items and events look in a list."""

from typing import Any

from rota.cli.output import Column, column, time_column
from rota.cli.text import local_time, one_line, shortened

_TITLE_WIDTH = 80

ITEMS = [
    column("id", whole=True, beginning=True),
    column("priority", "pri"),
    column("status"),
    column("type", spare=2),
    column("assigned_agent", "agent", spare=3),
    time_column("created_at", "age"),
    Column(
        "description",
        lambda item: item["description"],
        lambda item: shortened(item["description"], _TITLE_WIDTH),
        folds=True,
    ),
]


def event_line(event: dict[str, Any]) -> str:
    """One event on a line: when, what, which item, who, and what was said."""
    reason, notes = event.get("reason"), (event.get("payload") or {}).get("notes")
    words = [
        str(event["seq"]),
        local_time(event["occurred_at"])[:19],
        event["type"],
        event.get("work_item_id") or event.get("project_id") or event.get("agent") or "",
        f"by {event['actor']}" if event.get("actor") else "",
        f"({reason})" if reason else "",
        shortened(notes, _TITLE_WIDTH) if notes and notes != reason else "",
    ]
    return "  ".join(one_line(word) for word in words if word)
