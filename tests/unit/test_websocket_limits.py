"""How many WebSockets a server takes, and how they end with it, while a token is being checked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.api import ApiSettings, create_app
from rota.api.app import Api
from rota.api.ws_limits import WsLimits
from rota.app import open_ledger
from rota.model.access import Caller, everyone
from rota.model.errors import RotaError, StorageUnavailable, Unauthenticated

SECONDS = 20.0


class Socket:
    """One WebSocket as an ASGI server hands it to the app."""

    def __init__(self, api: Api) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()
        self._heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._heard.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket", "path": "/ws", "query_string": b"", "scheme": "ws",
            "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1),
            "extensions": {"websocket.http.response": {}},
        }  # fmt: skip
        self.task = asyncio.create_task(api(scope, self._heard.get, self._send))

    async def _send(self, message: Any) -> None:
        self.sent.put_nowait(dict(message))
        if message["type"] == "websocket.close":
            await self.reads.wait()
            self._heard.put_nowait({"type": "websocket.disconnect", "code": message["code"]})

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            return await self.sent.get()


class SlowGate:
    """Answers who somebody is when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.is_waited_for = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.trouble: RotaError | None = None

    async def caller(self, *_: object) -> Caller:
        self.asked.release()
        if not self.may_answer.is_set():
            self.is_waited_for.set()
        await self.may_answer.wait()
        return everyone()

    async def again(self, *_: object) -> Caller:
        if self.trouble is not None:
            self.asked.release()
            raise self.trouble
        return await self.caller()


@asynccontextmanager
async def serving(
    path: Path, stopping: asyncio.Event, monkeypatch: pytest.MonkeyPatch, **limits: float
) -> AsyncIterator[tuple[Callable[[], Socket], SlowGate]]:
    gate = SlowGate()
    async with open_ledger(f"sqlite:///{path}/rota.db") as ledger:
        api = create_app(
            ledger, ApiSettings(trusted=True), stopping=stopping, ws=WsLimits(**limits)
        )
        monkeypatch.setattr("rota.api.auth.Gate.caller", gate.caller)
        monkeypatch.setattr("rota.api.auth.Gate.again", gate.again)
        sockets: list[Socket] = []

        def open_one() -> Socket:
            sockets.append(Socket(api))
            return sockets[-1]

        yield open_one, gate
        stopping.set()
        gate.may_answer.set()
        await asyncio.wait_for(asyncio.gather(*(one.task for one in sockets)), SECONDS)


async def asked(gate: SlowGate, times: int) -> None:
    async with asyncio.timeout(SECONDS):
        for _ in range(times):
            await gate.asked.acquire()


async def test_those_that_are_looked_at_together_do_not_pass_the_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, asyncio.Event(), monkeypatch, connections=2) as (open_one, gate):
        sockets = [open_one() for _ in range(5)]
        await asked(gate, 5)
        gate.may_answer.set()
        answers = [(await one.next())["type"] for one in sockets]
        assert sorted(answers) == ["websocket.accept"] * 2 + ["websocket.http.response.start"] * 3


async def test_who_is_looked_at_while_the_server_stops_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()
    async with serving(tmp_path, stopping, monkeypatch) as (open_one, gate):
        socket = open_one()
        await asked(gate, 1)
        stopping.set()
        gate.may_answer.set()
        assert (await socket.next())["status"] == 503


async def test_a_stop_in_the_midst_of_looking_at_tokens_ends_all_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()
    async with serving(tmp_path, stopping, monkeypatch, recheck_seconds=0.01) as (open_one, gate):
        gate.may_answer.set()
        sockets = [open_one() for _ in range(3)]
        for one in sockets:
            assert (await one.next())["type"] == "websocket.accept"
        await asked(gate, 3)
        gate.may_answer.clear()
        await asked(gate, gate.asked._value + 1)
        stopping.set()
        gate.may_answer.set()
        for one in sockets:
            while (told := await one.next())["type"] != "websocket.close":
                pass
            assert told["code"] == 1001


async def test_a_database_that_does_not_answer_ends_nobody_and_a_revoked_token_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"recheck_seconds": 0.01}
    async with serving(tmp_path, asyncio.Event(), monkeypatch, **limits) as (open_one, gate):
        gate.may_answer.set()
        socket = open_one()
        assert (await socket.next())["type"] == "websocket.accept"
        gate.trouble = StorageUnavailable("away")
        await asked(gate, gate.asked._value + 3)
        assert socket.sent.empty()
        gate.trouble = Unauthenticated("revoked")
        told = await socket.next()
        assert (told["type"], told["code"]) == ("websocket.close", 1008)


async def test_who_does_not_read_the_farewell_keeps_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()
    limits = {"farewell_seconds": 0.05}
    async with serving(tmp_path, stopping, monkeypatch, **limits) as (open_one, gate):
        gate.may_answer.set()
        socket = open_one()
        assert (await socket.next())["type"] == "websocket.accept"
        socket.reads.clear()
        stopping.set()
        assert (await socket.next())["type"] == "websocket.close"
        await asyncio.wait_for(socket.task, SECONDS)
