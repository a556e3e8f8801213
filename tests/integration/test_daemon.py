"""The loops of a server: how they start, stop, and take signals."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from rota import daemon
from rota.api import ApiSettings
from rota.model.clock import Clock, SystemClock
from rota.model.errors import InvalidInput, RotaError, StorageUnavailable
from rota.testing.clock import ManualClock
from rota.testing.served import serve
from tests.acceptance.terminal import environment
from tests.integration.runner_stage import until

PATIENCE = 30.0


class Running:
    """A server in this process, with an app of the test's own."""

    def __init__(
        self,
        app: Any,
        *chores: daemon.Chore,
        drain: Callable[[], Awaitable[None]] | None = None,
        reload: Callable[[], Awaitable[object]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.stopping = asyncio.Event()
        self.crew = daemon.Crew(chores, self.stopping)
        self._ready = asyncio.Event()
        self.face = daemon.Face(app, self._ready.set, clock or SystemClock(), request_seconds=1)
        listener = daemon.bind("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        duties = daemon.Duties(drain, reload)
        self._task = asyncio.create_task(
            daemon.run(self.face, listener, self.crew, self.stopping, duties)
        )

    async def ready(self) -> "Running":
        async with asyncio.timeout(PATIENCE):
            await self._ready.wait()
        return self

    async def end(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._task


class Slow:
    """A chore whose tick takes until it is cancelled."""

    name = "slow"

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def tick(self) -> float:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return 0.0


async def nothing(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_the_address_that_a_client_names_counts_for_nothing(database: str) -> None:
    """Otherwise whoever guesses tokens would name a new one each time."""
    with serve(database, ApiSettings(auth_failures=3, remember_seconds=0)) as served:
        served.run(lambda: served.ledger.tokens.create("t", ("read",)))
        codes = [
            httpx2.get(
                f"{served.url}/work",
                headers={"Authorization": f"Bearer rota_{n}", "X-Forwarded-For": f"192.0.2.{n}"},
            ).status_code
            for n in range(4)
        ]
        assert codes == [401, 401, 401, 429]
        assert "server" not in httpx2.get(f"{served.url}/health").headers


async def test_a_request_that_does_not_end_does_not_keep_the_server() -> None:
    asked = asyncio.Event()

    async def hang(_scope: Any, _receive: Any, _send: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    server = await Running(hang).ready()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    server.stopping.set()
    await server.end()
    writer.close()
    await writer.wait_closed()


async def test_answers_are_dated_by_the_clock_that_the_server_is_given() -> None:
    """Also those that never become a request."""
    clock = ManualClock(datetime(2031, 5, 1, 19, 42, 33, tzinfo=UTC))
    server = await Running(nothing, clock=clock).ready()
    for said in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"nonsense\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(said)
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.lower().count(b"\r\ndate: thu, 01 may 2031 19:42:33 gmt\r\n") == 1
        writer.close()
        await writer.wait_closed()
    server.stopping.set()
    await server.end()


def test_a_port_that_is_taken_is_said_and_no_socket_stays() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(RotaError, match=f"cannot listen on 127.0.0.1:{port}: .*--port"):
            daemon.bind("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_not_called_a_busy_port(host: str) -> None:
    advice = "; name an address of this machine with --host or ROTA_HOST"
    with pytest.raises(RotaError, match=f"cannot listen on {host}:8080: .*{advice}"):
        daemon.bind(host, 8080)


async def test_chores_come_and_go_before_and_after_the_beginning() -> None:
    early, dismissed, late = Slow(), Slow(), Slow()
    crew = daemon.Crew([early], asyncio.Event())
    crew.add(dismissed)
    await crew.dismiss(dismissed)
    crew.begin()
    crew.add(late)
    async with asyncio.timeout(PATIENCE):
        await early.begun.wait()
        await late.begun.wait()
        await crew.dismiss(early)
        assert early.cancelled.is_set()
        await crew.end(0.0)
    assert late.cancelled.is_set()
    assert not dismissed.begun.is_set()


async def test_what_cannot_be_finished_is_said_and_does_not_keep_the_server() -> None:
    async def drain() -> None:
        raise StorageUnavailable("the disk is gone")

    server = await Running(nothing, drain=drain).ready()
    with capture_logs() as logs:
        os.kill(os.getpid(), signal.SIGTERM)
        await server.end()
    assert ("could not finish what was under way", "the disk is gone") in [
        (one["event"], one.get("error")) for one in logs
    ]


async def test_a_server_whose_face_ends_by_itself_finishes_its_runs_too() -> None:
    finished = asyncio.Event()

    async def drain() -> None:
        await asyncio.sleep(0)
        finished.set()

    server = await Running(nothing, drain=drain).ready()
    server.face.should_exit = True
    await server.end()
    assert server.stopping.is_set()
    assert finished.is_set()


async def test_a_second_signal_waits_neither_for_runs_nor_for_chores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon, "CHORE_SECONDS", 2 * PATIENCE)
    begun, chore = asyncio.Event(), Slow()

    async def drain() -> None:
        begun.set()
        await asyncio.Event().wait()

    server = await Running(nothing, chore, drain=drain).ready()
    async with asyncio.timeout(PATIENCE):
        await chore.begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await server.end()
    assert chore.cancelled.is_set()


async def test_a_reload_that_fails_in_whatever_way_ends_nothing() -> None:
    troubles = [InvalidInput("a mistake"), StorageUnavailable("away"), TypeError("a bug of ours")]
    done = asyncio.Event()

    async def reload() -> None:
        if troubles:
            raise troubles.pop(0)
        done.set()

    server = await Running(nothing, reload=reload).ready()
    with capture_logs() as logs:
        for _ in range(3):
            told = len(logs)
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda told=told: len(logs) > told, "a word about it")
        async with asyncio.timeout(PATIENCE):
            os.kill(os.getpid(), signal.SIGHUP)
            await done.wait()
    assert [(one["event"].partition(";")[0], one["log_level"]) for one in logs] == [
        ("configuration not reloaded", "warning"),
        ("configuration not wholly in force", "warning"),
        ("configuration not reloaded", "error"),
    ]
    server.stopping.set()
    await server.end()


async def test_signals_are_the_callers_again_when_the_server_has_ended() -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    server = await Running(nothing).ready()
    assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    server.stopping.set()
    await server.end()
    assert {one: signal.getsignal(one) for one in before} == before


AT_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from rota.cli import main
sys.exit(main(["serve", "--port", "0"]))
"""


def test_a_server_whose_terminal_is_closed_stops(tmp_path: Path) -> None:
    """The same signal from elsewhere only has the configuration read again."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        server = subprocess.Popen(
            [sys.executable, "-c", AT_A_TERMINAL],
            cwd=tmp_path,
            env=environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            said = b""
            while not (found := re.search(rb"(http://\S+)/docs.*stop ", said, re.DOTALL)):
                said += terminal.read(4096)
            server.send_signal(signal.SIGHUP)
            assert httpx2.get(f"{found[1].decode()}/health").status_code == 200
            terminal.close()
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
            server.wait()
