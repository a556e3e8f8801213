"""A seat for an agent: access to the ledger on the event loop, by server or by database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rota.config.settings import is_postgres
from rota.model.errors import InvalidInput
from rota.model.work import check_name

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.mcp.seat import Seat


@asynccontextmanager
async def seated(session: "Session", agent: str | None) -> AsyncIterator["tuple[Seat, str]"]:
    """The seat, and a description of the ledger."""
    from rota.cli.destination import server_of
    from rota.client import WorkQueueClient
    from rota.client.pooled import PooledTransport
    from rota.mcp.seat import Seat

    actor = session.actor or agent or session.actor_name
    url = server_of(session)
    if url is not None:
        async with WorkQueueClient(actor=actor, transport=PooledTransport(url)) as client:
            yield Seat(client, agent), f"the server at {url}"
        return
    from rota.app import local_asgi
    from rota.mcp.loopback import Loopback

    async with (
        local_asgi(session.settings) as api,
        WorkQueueClient(actor=actor, transport=Loopback(api)) as client,
    ):
        yield Seat(client, agent, alone=True), _database(session)


def _database(session: "Session") -> str:
    """Without the rest of a PostgreSQL URL, which may hold a password."""
    database = session.settings.database
    return "a PostgreSQL database" if is_postgres(database) else f"the database {database}"


def has_ledger(session: "Session") -> bool:
    """Whether there is a ledger to look at. Looking must not create one."""
    from rota.cli.destination import missing_file, server_of

    if server_of(session) is not None:
        return True
    try:
        return missing_file(session.settings.database) is None
    except InvalidInput:
        return True  # whoever opens it reports what is wrong


def seen_file(session: "Session", agent: str | None) -> Path:
    """A coding agent's hook touches this file whenever the agent uses a tool."""
    name = "anybody" if agent is None else check_name(agent, "agent")
    return session.settings.state_dir / "agents" / f"{name}.seen"
