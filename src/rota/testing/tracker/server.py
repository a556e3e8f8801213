"""The stub on a port, in this process."""

import json
import os
import select
import socket
import sys
import threading
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rota.testing.tracker.app import CUT, TrackerApp

WATCH_SECONDS = 0.5


class _Protocol(HttpToolsProtocol):
    """Lets the application cut the connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: Any = self.scope
        scope["extensions"] = {CUT: self.transport.abort}


def run(port: int, seed: int | str, *, until_stdin_ends: bool) -> None:
    """Serve until told to stop. The first line on stdout is the address."""
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    taken = listener.getsockname()[1]
    config = uvicorn.Config(
        TrackerApp(seed),
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the stub has its own time
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        backlog=512,
    )
    if until_stdin_ends:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{taken}", "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[listener])


def _end_with_parent() -> None:
    """The process that started us holds the other end of our standard input. Its pid is watched,
    too: a process that it forked may hold that end as well, and live on."""
    parent = os.getppid()
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], WATCH_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            break
    os._exit(0)  # at once: some requests may be meant to hang for ever
