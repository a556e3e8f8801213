"""Following the event log, and bringing back what is stale."""

import contextlib
import sys
from collections.abc import Generator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from rota.cli.columns import event_line
from rota.cli.item_ids import ItemId, demand_item
from rota.cli.parsing import Count
from rota.cli.session import command
from rota.cli.text import local_time
from rota.model.errors import NoLedger
from rota.model.work import MAX_PAGE
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.cli.session import Session


@command("watch", example="rota watch --since 0 --type work.failed --json")
@click.option(
    "--since",
    type=Count(0),
    help="Print the events after this number; 0 prints all.",
)
@click.option("--item", "work_item_id", type=ItemId(), help="Only events of this item.")
@click.option("--type", "types", multiple=True, help="Only events of this type; repeatable.")
@click.option("--limit", type=Count(1), help="End after this many events.")
@click.option("--no-follow", is_flag=True, help="Print the events after --since, and end.")
def watch(
    session: "Session", /, since: int | None, limit: int | None, no_follow: bool, **wanted: Any
) -> None:
    """Print events as they happen.

    Begins now, or after the event that --since names. If the server goes away, the command waits
    for it. Exit code 1 when there is no such item.
    """
    with contextlib.suppress(NoLedger):  # wait for a ledger that is about to be made
        demand_item(session, wanted["work_item_id"])
    if since is None and not no_follow:  # otherwise past events are shown at once
        session.output.waiting("events")
    events = _past(session, since or 0, wanted) if no_follow else _live(session, since, wanted)
    with contextlib.closing(events):  # close here, where a Ctrl-C is handled like any other
        for event in islice(events, limit and min(limit, sys.maxsize)):
            session.output.stream(event, event_line(event))


def _live(
    session: "Session", after: int | None, wanted: dict[str, Any]
) -> Generator[dict[str, Any], None, None]:
    """Over the server's feed. Without a server, or through a proxy without WebSockets, over the
    event stream, which works everywhere."""
    from rota.cli.feed import NoFeed, follow

    client, via = session.client, session.output.via
    if via is not None and via.startswith("http"):
        with contextlib.suppress(NoFeed):
            token = environ.get("ROTA_TOKEN")
            yield from follow(via, token, after, wanted, tell=session.output.say)
    yield from client.watch(after, **wanted)


def _past(
    session: "Session", after: int, wanted: dict[str, Any]
) -> Generator[dict[str, Any], None, None]:
    while page := session.client.events(after, limit=MAX_PAGE, **wanted):
        yield from page
        after = page[-1]["seq"]


@command("stale", example="rota stale")
def stale(session: "Session", /) -> None:
    """Bring back items that nobody works on any more.

    Items whose claim has lapsed go back to the queue, or fail if their attempts are used up. Items
    that were started without a lease and have been quiet for half an hour are blocked. A running
    server does this by itself.
    """
    swept = session.client.work_stale_check()
    if session.as_json:
        session.output.document(swept)
        return
    for what in ("released", "failed", "blocked"):
        for item in swept[what]:
            print(f"{item}\t{what}")
    if not any(swept[what] for what in ("released", "failed", "blocked")):
        session.output.say("nothing is stale")
    _tell_left(session)


def _tell_left(session: "Session") -> None:
    """Items that are not stale yet, but that nobody works on."""
    for run in session.client.list_runs(status=["running"], limit=MAX_PAGE):
        if run.get("unseen_since") and run["work_item_id"]:
            session.output.say(
                f"{run['work_item_id']} waits for the server of run {run['id']}, not seen since"
                f" {local_time(run['unseen_since'])}; start `rota up`, or rota release"
                f" {run['work_item_id']} --force"
            )
