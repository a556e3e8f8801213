"""Where a command sends its requests: a named server, the one that runs here, or the database."""

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.server_clock import Dated, theirs
from rota.model.errors import NoLedger, StorageError, StorageUnavailable

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.client import SyncWorkQueueClient
    from rota.client.inprocess import InProcessTransport
    from rota.client.transport import Answer, Request, SyncStream, SyncTransport
    from rota.config import Settings

PROBE_SECONDS = 2.0
PATIENCE_SECONDS, LOOK_SECONDS = 15.0, 0.1
# Paths that can create a ledger, by a method that writes; an agent may be set before it is first
# seen. All others only look, or name something that must already exist.
_BEGINS = re.compile(
    r"/(work(/batch|/claim)?|projects|signals|tokens|follow-ups/claim|agents/[^/]+"
    r"|schedules/[^/]+/[^/]+/restore)"
)


def connect(session: "Session") -> "SyncWorkQueueClient":
    from rota.client import SyncWorkQueueClient
    from rota.client.plain import PlainTransport
    from rota.client.retries import NO_RETRIES, Retries

    url = server_of(session)
    way = application(session) if url is None else Dated(PlainTransport(url))
    # A database that we open ourselves has waited for its locks before it gives up.
    retries = NO_RETRIES if url is None else Retries()
    return SyncWorkQueueClient(actor=session.actor_name, transport=way, retries=retries)


def server_of(session: "Session") -> str | None:
    """The server's address, or None where the database is opened. An option takes precedence over a
    variable, and a server over opening its database beside it."""
    theirs.forget()
    if session.url and session.database:
        raise click.UsageError("--url asks a server and --db opens a database: use one of them")
    url = session.url
    if not url and not session.database:
        url = os.environ.get("ROTA_URL") or running(session)
    session.output.via = url or "database"
    return url or None


def running(session: "Session") -> str | None:
    """The server of the state directory, if it answers. While starting or stopping it does not."""
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


def application(session: "Session") -> "SyncTransport":
    path = missing_file(session.settings.database)
    if path is None:
        return opened(session.settings)
    return Unmade(session.settings, path, tell=session.output.say)


def opened(settings: "Settings") -> "InProcessTransport":
    from rota.app import local_asgi
    from rota.client.inprocess import InProcessTransport

    return InProcessTransport(lambda: local_asgi(settings))


def missing_file(database: str) -> Path | None:
    """The file of a ledger that does not exist yet; None where there is something to open."""
    from rota.app import sqlite_path

    if "://" in database and not database.startswith("sqlite://"):
        return None
    path = sqlite_path(database)
    try:
        path.stat()
    except FileNotFoundError:
        return path
    except OSError:
        pass  # whoever opens it reports what is wrong
    return None


def no_ledger(path: Path) -> NoLedger:
    return NoLedger(
        f"there is no ledger at {path} yet; `rota up` makes one, and so does `rota add`; or name"
        " another with --db or --state-dir"
    )


class Unmade:
    """A ledger that does not exist yet. A request that could begin a ledger creates it. One that
    reads, or names something, does not: in the wrong directory the user gets an error and leaves no
    ledger there."""

    def __init__(
        self,
        settings: "Settings",
        path: Path,
        sleep: Callable[[float], object] = time.sleep,
        *,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`tell` is called when the ledger is created, perhaps in the wrong directory."""
        self._settings, self._path, self._sleep, self._tell = settings, path, sleep, tell
        self._making = threading.Lock()
        self._made: InProcessTransport | None = None

    def send(self, request: "Request") -> "Answer":
        return self._for(request).send(request)

    def open(self, request: "Request") -> "SyncStream":
        """A stream waits anyway, and `rota up &` may be about to create the ledger."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._path.exists() and time.monotonic() < deadline:
            self._sleep(LOOK_SECONDS)
        return self._for(request).open(request)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def beside(self) -> "SyncTransport":
        return self._inner().beside()

    def _for(self, request: "Request") -> "InProcessTransport":
        if not _begins(request) and self._made is None and not self._path.exists():
            raise no_ledger(self._path)
        return self._inner()

    def _inner(self) -> "InProcessTransport":
        with self._making:
            if self._made is None:
                is_new = not self._path.exists()
                self._made = self._opened()
                if is_new:
                    self._tell(f"made a new ledger at {self._path}")
            return self._made

    def _opened(self) -> "InProcessTransport":
        try:
            return opened(self._settings)
        except StorageUnavailable as error:  # which the client would retry
            details = {"code": error.code, **error.details}
            raise StorageError(error.message, **details) from error


def _begins(request: "Request") -> bool:
    path = request.path.partition("?")[0]
    return request.method != "GET" and _BEGINS.fullmatch(path) is not None
