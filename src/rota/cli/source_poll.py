"""One round of what a server does for a repository all the time."""

from typing import TYPE_CHECKING, Any

from rota.cli.desks import refuse_url, run
from rota.cli.output import column
from rota.cli.source_choice import choose
from rota.model.errors import InvalidInput, TrackerError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.sources import AnySource
    from rota.queue.ledger import Ledger
    from rota.sources.tending import Tending

_COLUMNS = [column("type"), column("work_item_id", "item", whole=True), column("issue")]
_MOST_EVENTS = 1_000


def poll(session: "Session", name: str) -> None:
    refuse_url(session)
    events = run(_polled(session, name))
    session.output.table(events, _COLUMNS, "nothing has changed")


async def _polled(session: "Session", name: str) -> list[dict[str, Any]]:
    from rota.app import make_tendings, open_ledger

    async with open_ledger(session.settings.database) as ledger:
        tendings = make_tendings(session.settings, ledger)
        try:
            wanted = choose(session, name)
            return await _round(_chosen(session, tendings, wanted, name), ledger)
        finally:
            for one in tendings:
                await one.aclose()


def _chosen(
    session: "Session", tendings: "list[Tending]", wanted: "AnySource", name: str
) -> "Tending":
    """A repository is tended once, however many agents work from it."""
    from rota.config.sources import Forge
    from rota.sources.lookup import ledger_name

    called = ledger_name(wanted) if isinstance(wanted, Forge) else None
    for one in tendings:
        if one.source == called:
            return one
    known = ", ".join(one.source for one in tendings) or "none"
    raise InvalidInput(
        f"{name[:100]} is not polled: only repositories that {session.settings.config} names are;"
        f" these are {known}"
    )


async def _round(tending: "Tending", ledger: "Ledger") -> list[dict[str, Any]]:
    before = await ledger.views.last_event()
    await tending.open_desk()  # raises if something is wrong with token or repository
    await tending.tick()
    error = {one.source: one.poll_error for one in await ledger.outside.states()}
    if problem := error.get(tending.source):
        raise TrackerError(problem)
    events = await ledger.views.events(before, _MOST_EVENTS)
    return [
        {"type": str(one.type), "work_item_id": one.work_item_id, "issue": item.source_ref}
        for one in events
        if one.work_item_id is not None and (item := await ledger.views.item(one.work_item_id))
    ]
