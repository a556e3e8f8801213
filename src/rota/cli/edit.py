"""Changing what an item says, without moving it."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli import item_ids
from rota.cli.item_ids import ItemId
from rota.cli.moved import moved
from rota.cli.parsing import NONE, JsonValue, Moment, Priority, Text, cleared
from rota.cli.project_names import ProjectName
from rota.cli.session import command

if TYPE_CHECKING:
    from rota.cli.session import Session


class MomentOrNone(Moment):
    """`now` and `none` mean that the item need not wait. Clocks may differ, so no time is sent."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return NONE if value in (NONE, "now") else super().convert(value, param, ctx)


@command("edit", example="rota edit ITEM --priority critical --agent none --label urgent")
@item_ids.item
@click.option("--description", help="The new title.")
@click.option("--type", help="The type of work.")
@click.option("--priority", type=Priority(), help="1 (highest) to 5, or critical … lowest.")
@click.option("--payload", type=JsonValue(), help="Data for the agent: JSON, @file or -.")
@click.option("--body", type=Text(), help="The long text: text, @file or -.")
@click.option("--agent", "assigned_agent", help="Only this agent may take it; none: any agent.")
@click.option(
    "--project",
    "project_id",
    type=ProjectName(clears=True),
    help="The project that it belongs to; none: no project.",
)
@click.option(
    "--label", "labels", multiple=True, help="The new labels, repeatable; none removes all."
)
@click.option(
    "--blocked-by",
    multiple=True,
    type=ItemId(),
    help="Items that it waits for, repeatable; none: it waits for nothing.",
)
@click.option("--max-attempts", type=int, help="How often it may be taken.")
@click.option(
    "--available-at", type=MomentOrNone(), help="Nobody may take it before: ISO 8601, +2h or now."
)
@click.option(
    "--if-version", "version", type=int, help="Change it only if it is still at this version."
)
def edit(session: "Session", /, item: str, version: int | None, **options: Any) -> None:
    """Change the fields of an item; other fields stay.

    Repeatable options replace the whole list.
    """
    changes = {name: value for name, value in options.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError("nothing to change; name at least one field")
    for name in ("assigned_agent", "project_id", "available_at"):
        if name in changes:
            changes[name] = cleared(changes[name])
    for name, option in (("labels", "--label"), ("blocked_by", "--blocked-by")):
        if name in changes:
            changes[name] = _listed(changes[name], option)
    moved(session, session.client.edit(item, version=version, **changes), "changed")


def _listed(given: tuple[str, ...], option: str) -> list[str]:
    if NONE in given and len(given) > 1:
        raise click.UsageError(f"{option} none takes all away, and cannot stand beside others")
    return [one for one in given if one != NONE]


@command("note", example="rota note ITEM 'The gate is open, the hinge is next' --token TOKEN")
@item_ids.item
@click.argument("notes", type=Text())
@click.option("--token", help="The claim's token, if you hold the claim.")
def note(session: "Session", /, item: str, notes: str, token: str | None) -> None:
    """Write a note on an item.

    NOTES is the text, @file, or - for standard input.
    """
    moved(session, session.client.note(item, notes, token=token), "noted")


@command("hold", example="rota hold ITEM --reason 'wait for the new budget'")
@item_ids.item
@click.option("--reason", required=True, help="Why nobody should pick it up.")
def hold(session: "Session", /, item: str, reason: str) -> None:
    """Hold an item, so that no agent picks it up.

    The status of the item stays as it is.
    """
    moved(session, session.client.hold(item, reason), "held")


@command("unhold", example="rota unhold ITEM")
@item_ids.item
def unhold(session: "Session", /, item: str) -> None:
    """Remove the hold from an item."""
    held = session.client.work_get(item)["hold_reason"] is not None
    moved(session, session.client.unhold(item), "no longer held" if held else "was not held")
