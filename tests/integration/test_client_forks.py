"""A client in a forked process: connections and heartbeats of its own."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rota.client import SyncWorkQueueClient
from rota.client.lease import Lease
from rota.model.clock import elapsed

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
PATIENCE = 30.0


class Listener(ThreadingHTTPServer):
    """Answers everything with `{}`, and knows who asked for what."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[tuple[str, int]] = []  # path and client's port
        self.changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def port_of(self, path: str) -> int:
        def ports() -> list[int]:
            return [port for heard, port in self.heard if heard == path]

        with self.changed:
            assert self.changed.wait_for(ports, PATIENCE), f"nobody asked for {path}"
            return ports()[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.changed:
            self.server.heard.append((self.path, self.client_address[1]))
            self.server.changed.notify_all()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET  # noqa: N815 - as http.server asks for it

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is declared
        pass


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def in_a_fork(body: Callable[[], object]) -> Iterator[None]:
    """Runs in a child, which lives until the block ends."""
    parted, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(end)
            body()
            os.read(parted, 1)
        finally:
            os._exit(0)
    os.close(parted)
    try:
        yield
    finally:
        os.close(end)
        os.waitpid(child, 0)


def test_a_forked_client_asks_on_a_connection_of_its_own(listener: Listener) -> None:
    with SyncWorkQueueClient(listener.url) as client:
        client.get_project("parent")
        with in_a_fork(lambda: client.get_project("child")):
            theirs = listener.port_of("/projects/child")
        client.get_project("again")
    assert theirs != listener.port_of("/projects/parent")
    assert listener.port_of("/projects/again") == listener.port_of("/projects/parent")


def due(held_id: str) -> Lease:
    """A lease whose next heartbeat is due at once."""
    return Lease(held_id, "token", 60.0, asked_at=elapsed() - 30.0)


def test_a_forked_client_keeps_the_leases_that_it_takes(listener: Listener) -> None:
    with SyncWorkQueueClient(listener.url) as client:
        client.heartbeats.hold(due("parent"))
        listener.port_of("/work/parent/heartbeat")
        with in_a_fork(lambda: client.heartbeats.hold(due("child"))):
            theirs = listener.port_of("/work/child/heartbeat")
    assert theirs != listener.port_of("/work/parent/heartbeat")
