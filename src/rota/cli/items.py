"""Submitting items and listing them."""

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from rota.cli.columns import ITEMS
from rota.cli.item_ids import ItemId
from rota.cli.parsing import JsonValue, Moment, Priority, Text, limit_option
from rota.cli.project_names import ProjectName
from rota.cli.session import command
from rota.model.status import Status

if TYPE_CHECKING:
    from rota.cli.session import Session

STATUSES = [str(status) for status in Status]
# A failed item is open: it waits for a person, and nothing but `rota retry` moves it.
OPEN = [one for one in STATUSES if one not in (Status.COMPLETED, Status.CANCELLED)]
_OVER = [one for one in STATUSES if one not in OPEN]


@command(
    "add",
    example="rota add 'Mend the gate' --type bug_fix --priority high --payload '{\"gate\": 3}'",
)
@click.argument("description")
@click.option("--type", "kind", default="work", show_default=True, help="The type of work.")
@click.option("--priority", type=Priority(), help="1 (highest) to 5, or critical … lowest.")
@click.option("--payload", type=JsonValue(), help="Data for the agent: JSON, @file or -.")
@click.option("--body", type=Text(), help="The long text: text, @file or -.")
@click.option("--agent", help="Only this agent may take it.")
@click.option("--project", "project_id", type=ProjectName(), help="The project that it belongs to.")
@click.option("--label", "labels", multiple=True, help="A label; repeatable.")
@click.option(
    "--blocked-by", multiple=True, type=ItemId(), help="An item that it waits for; repeatable."
)
@click.option("--max-attempts", type=int, help="How often it may be taken.  [default: 3]")
@click.option("--available-at", type=Moment(), help="Nobody may take it before: ISO 8601, or +2h.")
@click.option("--created-by", help="Who asks for the work.  [default: the actor]")
@click.option("--key", help="Idempotency key: the same key and item are submitted once.")
def add(session: "Session", /, description: str, kind: str, key: str | None, **fields: Any) -> None:
    """Submit a work item, and print its id.

    DESCRIPTION is its title.
    """
    for name in ("labels", "blocked_by"):
        fields[name] = list(fields[name]) or None
    item = session.client.work_add(kind, description, idempotency_key=key, **fields)
    session.output.line(item, item["id"])


@command("list", example="rota list --status in_progress --status blocked --since 2h")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(STATUSES),
    help="Only items with this status; repeatable.  [default: open items]",
)
@click.option("--all", "every", is_flag=True, help="Also completed and cancelled items.")
@click.option("--agent", help="Only items of this agent.")
@click.option("--project", "project_id", type=ProjectName(), help="Only items of this project.")
@click.option("--type", help="Only items of this type.")
@click.option("--label", help="Only items with this label.")
@click.option("--search", "q", help="Only items whose title or body contains this.")
@click.option(
    "--since",
    type=Moment(past=True),
    help="Only items created since: ISO 8601 or 2h; with only final statuses, ended since.",
)
@click.option("--updated-since", type=Moment(past=True), help="Only items changed since.")
@limit_option()
def list_items(
    session: "Session", /, status: tuple[str, ...], every: bool, limit: int, **filters: Any
) -> None:
    """List open items by priority and age.

    Open is what is neither completed nor cancelled: a failed item waits for a person.
    """
    if status and every:
        raise click.UsageError("--all is for items with any status, and --status for some: use one")
    wanted = status or (STATUSES if every else OPEN)
    of_these = session.client.work_each(wanted, **filters, limit=limit + 1)
    found = list(islice(of_these, limit + 1))
    if status or every:
        session.output.page(found, limit, ITEMS, "no items")
        return
    session.output.page(found, limit, ITEMS, "no open items")
    if not session.as_json and session.client.work_list(_OVER, **filters, limit=1):
        session.output.say("completed and cancelled items are not shown; see them with --all")


@command("ready", example="rota ready --agent smith")
@click.option("--agent", help="Only items that this agent can claim, also those dispatched to it.")
@click.option("--project", "project_id", type=ProjectName(), help="Only items of this project.")
@click.option("--type", help="Only items of this type.")
@click.option("--label", help="Only items with this label.")
@limit_option()
def ready(session: "Session", /, agent: str | None, limit: int, **filters: Any) -> None:
    """List the items that can be claimed now.

    Exit code 1 when there are none.
    """
    found = list(islice(session.client.work_ready(agent, **filters), limit))
    if not found:
        whose = f" for {agent}" if agent else ""
        session.output.negative([], "nothing_ready", f"nothing is ready{whose}")
    session.output.table(found, ITEMS)
