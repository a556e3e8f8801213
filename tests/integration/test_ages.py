"""Ages are counted by the server's clock, whatever the clock of the one who looks says."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from rota.cli.server_clock import ServerClock
from rota.client.plain import PlainTransport
from rota.client.transport import Request
from rota.model.work import NewItem
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from tests.acceptance.terminal import ThisProcess


@contextmanager
def dated(served: Served, clock: ManualClock) -> Iterator[str]:
    """The address of a server whose machine has this clock, as its answers say."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            inner = PlainTransport(served.url)
            answer = inner.send(Request("GET", self.path, {}))
            inner.close()
            self.send_response_only(answer.status)
            self.send_header("date", format_datetime(clock.now(), usegmt=True))
            self.end_headers()
            self.wfile.write(answer.body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("minutes", [-10, 10])
def test_ages_are_those_of_a_server_whose_clock_differs(tmp_path: Path, minutes: int) -> None:
    clock = ManualClock(datetime.now(UTC) + timedelta(minutes=minutes))
    with (
        serve(f"sqlite:///{tmp_path}/rota.db", clock=clock) as served,
        dated(served, clock) as url,
    ):
        item = served.run(lambda: served.ledger.queue.submit(NewItem("chore", "Mend the gate")))
        clock.advance(210)
        here = ThisProcess(tmp_path)
        for words in (("show", item.id), ("board", "--once")):
            told = here.type(*words, "--url", url)
            assert re.search(r"[( ]3m[) ]", told), told
        # The next command opens the database itself, whose times are of this machine's clock.
        assert "(3m)" not in here.type("show", item.id, "--db", f"{tmp_path}/rota.db")


def test_a_clock_that_agrees_is_not_corrected(tmp_path: Path) -> None:
    with serve(f"sqlite:///{tmp_path}/rota.db") as served:
        item = served.run(lambda: served.ledger.queue.submit(NewItem("chore", "Mend the gate")))
        told = ThisProcess(tmp_path).type("show", item.id, "--url", served.url)
        assert re.search(r"created .*\(\d+s\)", told), told


def test_a_date_that_a_server_wrote_a_moment_ago_is_not_corrected_by() -> None:
    clock, now = ServerClock(), datetime.now(UTC)
    clock.hear(format_datetime(now - timedelta(seconds=2), usegmt=True), now)
    assert clock.now() >= now
