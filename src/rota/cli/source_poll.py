"""One round of what a server does for a repository all the time."""

import asyncio
from typing import TYPE_CHECKING, Any

from rota.cli.desks import refuse_url
from rota.cli.output import column
from rota.model.errors import InvalidInput, TrackerError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.queue.ledger import Ledger
    from rota.sources.tending import Tending

_COLUMNS = [column("type"), column("work_item_id", "item"), column("source_ref", "issue")]
_MOST_EVENTS = 1_000


def poll(session: "Session", name: str) -> None:
    refuse_url(session)
    events = asyncio.run(_polled(session, name))
    session.output.table(events, _COLUMNS)
    if not events:
        session.output.say("nothing has changed")


async def _polled(session: "Session", name: str) -> list[dict[str, Any]]:
    from rota.app import make_tendings, open_ledger
    from rota.config.logs import configure_logging

    configure_logging()
    async with open_ledger(session.settings.database) as ledger:
        tendings = make_tendings(session.settings, ledger)
        try:
            return await _round(_chosen(tendings, name), ledger)
        finally:
            for one in tendings:
                await one.aclose()


def _chosen(tendings: "list[Tending]", name: str) -> "Tending":
    from rota.config.fleet import source_name

    for one in tendings:
        if name in (source_name(one.settings), one.source):  # type: ignore[arg-type]
            return one
    known = ", ".join(one.source for one in tendings) or "none"
    raise InvalidInput(
        f"no repository called {name[:100]!r} is configured, and no other kind of source is"
        f" polled; configured are {known}"
    )


async def _round(tending: "Tending", ledger: "Ledger") -> list[dict[str, Any]]:
    before = await ledger.views.last_event()
    await tending.open_desk()  # what is wrong with token or repository is raised here
    await tending.tick()
    error = {one.source: one.poll_error for one in await ledger.outside.states()}
    if problem := error.get(tending.source):
        raise TrackerError(problem)
    events = await ledger.views.events(before, _MOST_EVENTS)
    return [await _told(ledger, one.type, one.work_item_id) for one in events]


async def _told(ledger: "Ledger", kind: str, item_id: str) -> dict[str, Any]:
    item = await ledger.views.item(item_id)
    return {"type": str(kind), "work_item_id": item_id, "source_ref": item.source_ref}
