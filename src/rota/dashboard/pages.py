"""The pages, rendered on the server: they read well without JavaScript."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rota import __version__
from rota.model.clock import from_text
from rota.model.status import Status, allowed_from
from rota.queue.ledger import Ledger

CARDS_A_COLUMN = 50

COLUMNS: Mapping[Status, str] = {
    Status.QUEUED: "Queued",
    Status.DISPATCHED: "Dispatched",
    Status.IN_PROGRESS: "In progress",
    Status.BLOCKED: "Blocked",
    Status.IN_REVIEW: "In review",
    Status.COMPLETED: "Completed",
    Status.FAILED: "Failed",
}
EMPTY: Mapping[Status, str] = {
    Status.QUEUED: 'Nothing waits. Add work with: rota add --type chore "Say hello"',
    Status.DISPATCHED: "Nothing is dispatched and not yet picked up.",
    Status.IN_PROGRESS: "Nobody is at work. An agent takes work with: rota claim --agent NAME",
    Status.BLOCKED: "Nothing needs your help.",
    Status.IN_REVIEW: "Nothing waits for a review.",
    Status.COMPLETED: "Nothing is completed yet.",
    Status.FAILED: "Nothing has failed.",
}
NEEDS_A_PERSON = (Status.BLOCKED, Status.IN_REVIEW, Status.FAILED)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("rota.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = __version__
    return environment


def _render(template: str, **values: Any) -> bytes:
    return _environment().get_template(template).render(**values).encode()


def age(moment: str, now: datetime) -> str:
    """How long ago, in one unit: 40s, 3m, 2h, 5d."""
    seconds = max(0, int((now - from_text(moment)).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


async def board(ledger: Ledger) -> bytes:
    counts = await ledger.views.counts()
    now = ledger.clock.now()
    columns = []
    for status, title in COLUMNS.items():
        items = await ledger.views.column(status, CARDS_A_COLUMN)
        columns.append(
            {
                "status": status,
                "title": title,
                "count": counts[status],
                "more": counts[status] - len(items),
                "empty": EMPTY[status],
                "cards": [{"item": item, "age": age(item.updated_at, now)} for item in items],
            }
        )
    return _render(
        "board.html",
        columns=columns,
        attention=sum(counts[status] for status in NEEDS_A_PERSON),
        last_event=await ledger.views.last_event(),
    )


async def item(ledger: Ledger, item_id: str) -> bytes:
    detail = await ledger.views.detail(item_id)
    explanation = await ledger.views.explain(item_id)
    return _render(
        "item.html",
        item=detail.item,
        detail=detail,
        explanation=explanation,
        allowed=allowed_from(detail.item.status),
        age=age(detail.item.updated_at, ledger.clock.now()),
        last_event=await ledger.views.last_event(),
    )


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def static(name: str) -> tuple[bytes, str] | None:
    """A file of ours by its plain name, and its media type; None for anything else."""
    stem, dot, ending = name.rpartition(".")
    if not dot or ending not in _TYPES or not stem.isalnum():
        return None
    file = resources.files("rota.dashboard") / "static" / name
    return (file.read_bytes(), _TYPES[ending]) if file.is_file() else None
