"""Follow-ups: what signals ask to be done about an item, beside its own work."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.item_ids import ItemId, demand_item
from rota.cli.output import Column, Json, column, time_column
from rota.cli.parsing import Span, Text, limit_option
from rota.cli.session import group
from rota.cli.text import local_time, shortened
from rota.model.signals import FollowUpStatus

if TYPE_CHECKING:
    from rota.cli.session import Session

follow_up = group(
    "follow-up",
    "List, claim and complete follow-ups of signals.\n\nA follow-up is something to be done about"
    " an item beside its own work.",
    "rota follow-up claim --agent smith --lease 15m",
)

_TITLE_WIDTH = 80


def _title(one: Json) -> str:
    return shortened(one["title"], _TITLE_WIDTH)


_COLUMNS = [
    column("id", whole=True),
    column("status"),
    column("work_item_id", "item", whole=True, beginning=True, spare=1),
    column("agent", spare=3),
    column("holder", spare=4),
    time_column("created_at", "age", spare=2),
    Column("title", lambda one: one["title"], _title, folds=True),
]


@follow_up.member("list", example="rota follow-up list --status open --agent smith")
@click.option(
    "--status",
    type=click.Choice([str(one) for one in FollowUpStatus]),
    help="Only follow-ups with this status.",
)
@click.option("--item", "work_item_id", type=ItemId(), help="Only follow-ups of this item.")
@click.option("--agent", help="Only follow-ups that this agent may claim.")
@limit_option()
def list_follow_ups(session: "Session", /, limit: int, **filters: Any) -> None:
    """List follow-ups by age.

    In a pipe the columns are id, status, item, the agent that it is meant for, its holder, creation
    and title.
    """
    found = session.client.follow_ups(**filters, limit=limit + 1)
    if not found:
        demand_item(session, filters["work_item_id"])
    session.output.page(found, limit, _COLUMNS, "no follow-ups")


@follow_up.member("claim", example="rota follow-up claim --agent smith --lease 15m")
@click.option("--agent", required=True, help="The agent that claims.")
@click.option(
    "--lease", "lease_seconds", type=Span(), help="How long the claim holds.  [default: 15m]"
)
def claim(session: "Session", /, agent: str, lease_seconds: float | None) -> None:
    """Claim the oldest open follow-up for an agent.

    Follow-ups that are meant for another agent are left out. Exit code 1 when there is none. Prints
    the lease's token, which every later command about the follow-up needs.
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
@click.option("--token", required=True, help="The token of the lease.")
@click.option(
    "--lease", "lease_seconds", type=Span(), help="The new lease, from now on.  [default: 15m]"
)
def heartbeat(
    session: "Session", /, follow_up: str, token: str, lease_seconds: float | None
) -> None:
    """Extend the lease of a follow-up.

    Exit code 7: the lease is lost, stop working on the follow-up.
    """
    kept = session.client.heartbeat_follow_up(follow_up, token, lease_seconds=lease_seconds)
    until = local_time(kept["lease_expires_at"])
    session.output.line(kept, f"{kept['id']} is yours until {until}")


@follow_up.member("done", example="rota follow-up done FOLLOW_UP --token TOKEN --notes 'asked'")
@click.argument("follow_up")
@click.option("--token", help="The token of the lease; not needed while nobody holds it.")
@click.option(
    "--outcome", type=click.Choice(["success", "failed"]), help="How it ended.  [default: success]"
)
@click.option("--notes", type=Text(), help="A note on the follow-up: text, @file or -.")
def done(session: "Session", /, follow_up: str, **how: Any) -> None:
    """Complete a follow-up."""
    _show(session, session.client.complete_follow_up(follow_up, **how))


@follow_up.member("cancel", example="rota follow-up cancel FOLLOW_UP --notes 'settled already'")
@click.argument("follow_up")
@click.option("--token", help="The token of the lease; not needed while nobody holds it.")
@click.option("--notes", type=Text(), help="A note on the follow-up: text, @file or -.")
def cancel(session: "Session", /, follow_up: str, **how: Any) -> None:
    """Cancel a follow-up, so that nobody does it."""
    _show(session, session.client.cancel_follow_up(follow_up, **how))


@follow_up.member("release", example="rota follow-up release FOLLOW_UP --token TOKEN")
@click.argument("follow_up")
@click.option("--token", required=True, help="The token of the lease.")
def release(session: "Session", /, follow_up: str, token: str) -> None:
    """Give a follow-up back, so that others can claim it."""
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
