"""MCP over standard input and output."""

import asyncio
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.session import command

if TYPE_CHECKING:
    from rota.cli.session import Session

_MISSING = "MCP needs a package that is not installed: pip install 'rota[mcp]'"


@command("mcp", example="rota mcp --agent smith")
@click.option("--agent", help="The agent that it acts for; without it, each claim must name one.")
def mcp(session: "Session", /, agent: str | None) -> None:
    """Serve the ledger to a coding agent over MCP.

    Speaks MCP on standard input and output. The coding agent starts this command; `rota setup`
    configures it to. Like other commands, it calls the running server or opens the database. A
    server also has MCP at /mcp.
    """
    from rota.model.work import check_name

    if agent is not None:
        check_name(agent, "agent")
    if find_spec("mcp") is None:
        raise click.ClickException(_MISSING)
    _quietly()
    # A thread waits in a read that nothing can interrupt. Everything answered so far is on disk.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(session, agent))


def _quietly() -> None:
    """Logs must stay off standard output, which belongs to the protocol."""
    import logging

    from rota.config.logs import configure_logging

    configure_logging(logging.WARNING)


async def _serve(session: "Session", agent: str | None) -> None:
    from rota.cli.seats import seated, seen_file
    from rota.mcp.stdio import monotonic_of, serve

    seen = seen_file(session, agent)

    def seen_at() -> float:
        return monotonic_of(_changed_at(seen))

    async with seated(session, agent) as (seat, ledger):
        await serve(seat, ledger, seen_at)


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
