"""Who works, and on how much at once."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.output import Column, column
from rota.cli.session import group

if TYPE_CHECKING:
    from rota.cli.session import Session

agent = group("agent", "Who works, and on how much at once.", "rota agent list")

_COLUMNS = [
    column("name"),
    column("in_progress"),
    column("dispatched"),
    column("max_concurrent"),
    Column("paused", lambda one: "paused" if one["paused"] else ""),
]


def _show(session: "Session", one: dict[str, Any]) -> None:
    session.output.facts(one, [(one_.title, one_.value(one)) for one_ in _COLUMNS])


@agent.member("list", example="rota agent list")
def list_agents(session: "Session", /) -> None:
    """List agents that are configured or have work on their hands."""
    session.output.table(session.client.agents(), _COLUMNS)


@agent.member("set", example="rota agent set smith --max-concurrent 3")
@click.argument("name")
@click.option("--max-concurrent", type=click.IntRange(1), help="On how many items at once.")
def set_agent(session: "Session", /, name: str, max_concurrent: int | None) -> None:
    """Configure an agent; without options it only becomes known."""
    _show(session, session.client.set_agent(name, max_concurrent=max_concurrent))


@agent.member("pause", example="rota agent pause smith")
@click.argument("name")
def pause(session: "Session", /, name: str) -> None:
    """Let an agent take nothing more; what it has, it keeps."""
    _show(session, session.client.set_agent(name, paused=True))


@agent.member("resume", example="rota agent resume smith")
@click.argument("name")
def resume(session: "Session", /, name: str) -> None:
    """Let a paused agent take work again."""
    _show(session, session.client.set_agent(name, paused=False))
