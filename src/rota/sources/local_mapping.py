"""Converts an item of the ledger to a source's item, and a source's result to the ledger's
terms."""

from contextlib import suppress
from typing import assert_never
from uuid import UUID

from rota.model import work
from rota.model.clock import from_text
from rota.model.cursors import unpack
from rota.model.errors import InvalidInput, MalformedReference
from rota.model.status import Verb
from rota.model.work import Priority, storable
from rota.queue.intake import LONGEST, check_url
from rota.sources.paging import bad_cursor
from rota.sources.port import WorkItem, WorkResult
from rota.sources.reports import pull_request
from rota.sources.titles import one_line

PREFIX = "queue-"


def verb_of(result: WorkResult) -> Verb:
    match result.outcome:
        case "success":
            return Verb.HAND_OVER if result.review else Verb.COMPLETE
        case "failure":
            return Verb.FAIL
        case "partial":
            return Verb.BLOCK
        case _:
            assert_never(result.outcome)


def ledger_id_of(work_item_id: str) -> str:
    item_id = work_item_id.removeprefix(PREFIX)
    with suppress(ValueError):
        if work_item_id.startswith(PREFIX) and str(UUID(item_id)) == item_id:
            return item_id
    raise MalformedReference(
        f"{work_item_id[:100]!r} is no item of the queue; their ids are {PREFIX}<uuid>"
    )


def items_of(items: list[work.WorkItem]) -> tuple[WorkItem, ...]:
    return tuple(map(item_of, items))


def item_of(item: work.WorkItem) -> WorkItem:
    title, _, rest = item.description.strip().partition("\n")
    parts = (rest.strip("\n"), item.body or "")
    return WorkItem(
        f"{PREFIX}{item.id}",
        "queue",
        item.id,
        one_line(title) or item.id,
        "\n\n".join(part for part in parts if part),
        Priority(item.priority),
        item.labels,
        "",
        from_text(item.created_at),
        from_text(item.updated_at),
        {
            "type": item.type,
            "status": str(item.status),
            "payload": item.payload,
            "project_id": item.project_id,
            "created_by": item.created_by,
            "attempts": item.attempts,
        },
    )


def key_of(item: work.WorkItem) -> tuple[int, str]:
    return item.priority, item.id


def read_cursor(cursor: str) -> tuple[str | None, tuple[int, str]]:
    match unpack(cursor):
        case [str() | None as page, int() as priority, str() as item_id]:
            return page, (priority, item_id)
    raise bad_cursor()


def notes_of(result: WorkResult) -> str:
    """Everything the run reported, for people who read the item."""
    parts = [
        result.summary,
        result.details,
        f"Error: {result.error}" if result.error else None,
        "\n".join(f"- {artifact}" for artifact in result.artifacts),
    ]
    said = clean("\n\n".join(part for part in parts if part), LONGEST["notes"])
    return said or f"({result.outcome}, nothing was said)"


def address_of(result: WorkResult) -> str | None:
    """The pull request to be reviewed; otherwise the first artifact that is a valid URL."""
    if result.review and (pull := pull_request(result.artifacts)):
        return pull
    for artifact in result.artifacts:
        with suppress(InvalidInput):
            return check_url(artifact)
    return None


def clean(text: str, longest: int) -> str:
    """Removes what the ledger would refuse: an agent's mistake must not cost its result."""
    plain = storable(text).strip()
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
