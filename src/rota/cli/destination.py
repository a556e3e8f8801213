"""Whom a command asks: a server that was named, the one that runs here, or the database."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.client import SyncWorkQueueClient

PROBE_SECONDS = 2.0


def connect(session: "Session") -> "SyncWorkQueueClient":
    """An option wins over a variable, and a server over opening its database beside it."""
    if session.url and session.database:
        raise click.UsageError("--url asks a server and --db opens a database: use one of them")
    if session.url:
        return _server(session, session.url)
    if session.database:
        return _in_process(session)
    url = os.environ.get("ROTA_URL") or running(session)
    return _server(session, url) if url else _in_process(session)


def running(session: "Session") -> str | None:
    """The server of the state directory, if it answers; starting or stopping, it does not."""
    from rota.client.errors import ConnectionFailed
    from rota.client.plain import PlainTransport
    from rota.client.transport import Request
    from rota.config import StateDir

    found = StateDir(session.settings.state_dir).running()
    if found is None:
        return None
    transport = PlainTransport(found.url)
    try:
        transport.send(Request("GET", "/health", {}, timeout=PROBE_SECONDS))
    except ConnectionFailed:
        return None
    finally:
        transport.close()
    return found.url


def _server(session: "Session", url: str) -> "SyncWorkQueueClient":
    from rota.client import SyncWorkQueueClient

    session.output.via = url
    return SyncWorkQueueClient(url, actor=session.actor_name)


def _in_process(session: "Session") -> "SyncWorkQueueClient":
    from rota.app import local_asgi
    from rota.client import SyncWorkQueueClient
    from rota.client.inprocess import InProcessTransport

    session.output.via = "database"
    settings = session.settings
    transport = InProcessTransport(lambda: local_asgi(settings))
    return SyncWorkQueueClient(actor=session.actor_name, transport=transport)
