"""Whom a command asks: a server that was named, the one that runs here, or the database."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.client import SyncWorkQueueClient
    from rota.client.inprocess import InProcessTransport

PROBE_SECONDS = 2.0


def connect(session: "Session") -> "SyncWorkQueueClient":
    from rota.client import SyncWorkQueueClient

    url = server_of(session)
    if url is not None:
        return SyncWorkQueueClient(url, actor=session.actor_name)
    return SyncWorkQueueClient(actor=session.actor_name, transport=application(session))


def server_of(session: "Session") -> str | None:
    """Its address, or None where the database is opened. An option wins over a variable, and a
    server over opening its database beside it."""
    if session.url and session.database:
        raise click.UsageError("--url asks a server and --db opens a database: use one of them")
    url = session.url
    if not url and not session.database:
        url = os.environ.get("ROTA_URL") or running(session)
    session.output.via = url or "database"
    return url or None


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


def application(session: "Session") -> "InProcessTransport":
    from rota.app import local_asgi
    from rota.client.inprocess import InProcessTransport

    settings = session.settings
    return InProcessTransport(lambda: local_asgi(settings))
