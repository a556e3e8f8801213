"""Follow-ups: what signals ask to be done about an item, beside its own work."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.item_ids import ItemId
from rota.cli.known import demand_item
from rota.cli.output import Column, Json, column, time_column
from rota.cli.parsing import Span, Text
from rota.cli.session import group
from rota.cli.text import local_time, shortened
from rota.model.signals import FollowUpStatus

if TYPE_CHECKING:
    from rota.cli.session import Session

follow_up = group(
    "follow-up",
    "What signals ask to be done about an item.",
    "rota follow-up claim --agent smith --lease 15m",
)

_TITLE_WIDTH = 80


def _title(one: Json) -> str:
    return shortened(one["title"], _TITLE_WIDTH)


_COLUMNS = [
    column("id", whole=True),
    column("status"),
    column("work_item_id", "item", whole=True, spare=1),
    column("agent", spare=3),
    column("holder", spare=4),
    time_column("created_at", "age", spare=2),
    Column("title", lambda one: one["title"], _title, folds=True),
]


@follow_up.member("list", example="rota follow-up list --status open --agent smith")
@click.option(
    "--status", type=click.Choice([str(one) for one in FollowUpStatus]), help="Only these."
)
@click.option("--item", "work_item_id", type=ItemId(), help="Of this item.")
@click.option("--agent", help="Those that this agent may have.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most."
)
def list_follow_ups(session: "Session", /, limit: int, **filters: Any) -> None:
    """List follow-ups by age.

    In a pipe the columns are id, status, item, the agent it is meant for, who has it, creation and
    title.
    """
    found = session.client.follow_ups(**filters, limit=limit + 1)
    if not found:
        demand_item(session, filters["work_item_id"])
    session.output.table(found[:limit], _COLUMNS, more=len(found) > limit)
    if not found:
        session.output.say("no follow-ups")
    elif len(found) > limit:
        session.output.say(f"there are more; see them with --limit {limit * 10}")


@follow_up.member("claim", example="rota follow-up claim --agent smith --lease 15m")
@click.option("--agent", required=True, help="Who takes it.")
@click.option("--lease", "lease_seconds", type=Span(), help="For how long.  [default: 15m]")
def claim(session: "Session", /, agent: str, lease_seconds: float | None) -> None:
    """Take the oldest follow-up that is not meant for another; exit code 1 when there is none.

    The token that is printed belongs to every later call about it.
    """
    taken = session.client.claim_follow_up(agent, lease_seconds=lease_seconds)
    if taken is None:
        session.output.negative(None, "nothing_open", f"there is no follow-up for {agent}")
        return
    token, how = taken["token"], f"rota follow-up done {taken['id']} --token {taken['token']}"
    session.output.facts(taken, [*facts_of(taken), ("token", token)])
    session.output.say(f"when it is done: {how} --notes …")


@follow_up.member("heartbeat", example="rota follow-up heartbeat FOLLOW_UP --token TOKEN")
@click.argument("follow_up")
@click.option("--token", required=True, help="Its lease's.")
@click.option("--lease", "lease_seconds", type=Span(), help="For how long.  [default: 15m]")
def heartbeat(
    session: "Session", /, follow_up: str, token: str, lease_seconds: float | None
) -> None:
    """Keep a follow-up for another lease; exit code 7 says to stop working on it."""
    kept = session.client.heartbeat_follow_up(follow_up, token, lease_seconds=lease_seconds)
    if session.as_json:
        session.output.document(kept)
    else:
        print(f"{kept['id']} is yours until {local_time(kept['lease_expires_at'])}")


@follow_up.member("done", example="rota follow-up done FOLLOW_UP --token TOKEN --notes 'asked'")
@click.argument("follow_up")
@click.option("--token", help="Its lease's; not needed while nobody has it.")
@click.option("--outcome", type=click.Choice(["success", "failed"]), help="[default: success]")
@click.option("--notes", type=Text(), help="Text, @file or -.")
def done(session: "Session", /, follow_up: str, **how: Any) -> None:
    """Complete a follow-up."""
    _show(session, session.client.complete_follow_up(follow_up, **how))


@follow_up.member("cancel", example="rota follow-up cancel FOLLOW_UP --notes 'settled already'")
@click.argument("follow_up")
@click.option("--token", help="Its lease's; not needed while nobody has it.")
@click.option("--notes", type=Text(), help="Text, @file or -.")
def cancel(session: "Session", /, follow_up: str, **how: Any) -> None:
    """Say that nobody shall do it."""
    _show(session, session.client.cancel_follow_up(follow_up, **how))


@follow_up.member("release", example="rota follow-up release FOLLOW_UP --token TOKEN")
@click.argument("follow_up")
@click.option("--token", required=True, help="Its lease's.")
def release(session: "Session", /, follow_up: str, token: str) -> None:
    """Give a follow-up back, for another to take."""
    _show(session, session.client.release_follow_up(follow_up, token))


def _show(session: "Session", one: Json) -> None:
    session.output.facts(one, facts_of(one))


def facts_of(one: Json) -> list[tuple[str, object]]:
    return [
        ("id", one["id"]),
        ("item", one["work_item_id"]),
        ("status", one["status"]),
        ("title", _title(one)),
        ("body", one["body"]),
        ("agent", one["agent"]),
        ("holder", one["holder"]),
        ("lease", local_time(one["lease_expires_at"])),
        ("created", local_time(one["created_at"])),
        ("ended", local_time(one["completed_at"])),
        ("outcome", one["outcome"]),
        ("notes", one["notes"]),
    ]
