"""`GET /ws`: who may open a WebSocket, how many there may be, and how they end with the server."""

import asyncio
import contextlib
import resource
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rota.api.answers import Answer, json_answer, problem_answer
from rota.api.asgi import Headers, Message, Receive, Scope, Send
from rota.api.auth import Gate
from rota.api.call import Call
from rota.api.frames import schema
from rota.api.routing import Endpoint, endpoint
from rota.api.ws_connection import Connection, Doors
from rota.api.ws_limits import WsLimits
from rota.api.ws_problems import TooManyConnections, UpgradeRequired
from rota.api.ws_requests import RequestType, request_types
from rota.api.ws_subscriptions import OWN_REQUESTS
from rota.feed import Feed
from rota.model.access import READ, Caller
from rota.model.errors import RotaError, Unauthenticated

PATH = "/ws"
HTTP_RESPONSE = "websocket.http.response"


@dataclass(frozen=True, slots=True)
class Handshake:
    scope: Scope
    headers: Headers
    receive: Receive
    send: Send

    @property
    def address(self) -> str:
        return str((self.scope.get("client") or ("",))[0])


class Sockets:
    """The open WebSockets of this process."""

    def __init__(
        self,
        gate: Gate,
        feed: Feed,
        routes: Sequence[Endpoint],
        *,
        stopping: asyncio.Event,
        limits: WsLimits | None = None,
    ) -> None:
        self.kinds = request_types(routes)
        self._types: dict[str, RequestType] = {one.name: one for one in self.kinds}
        self._gate = gate
        self._feed = feed
        self._stopping = stopping
        self._limits = limits or WsLimits()
        self._most = min(self._limits.connections, _open_files() * 3 // 4)
        self._open: set[Connection] = set()
        self._watcher: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        return len(self._open)

    async def serve(
        self,
        shake: Handshake,
        call: Callable[[Caller, Receive, Headers], Call],
        explain: Callable[[Exception], RotaError],
    ) -> None:
        """Serve one WebSocket, from handshake to end. A refusal here is sent as an HTTP status."""
        self._demand_room()
        who = await self._caller(shake)
        self._demand_room()  # others may have come meanwhile, or the server may be stopping
        doors = Doors(
            shake.receive, shake.send, call, explain, self._admission(shake), self._gate.again
        )
        connection = Connection(
            doors, self._feed, self._types, self._limits, caller=who, headers=shake.headers
        )
        self._open.add(connection)
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(), name="websockets")
        try:
            await connection.run()
        finally:
            self._open.discard(connection)
            await self._rest()

    def _demand_room(self) -> None:
        if self._stopping.is_set() or len(self._open) >= self._most:
            raise TooManyConnections(
                "this server has as many WebSockets as it takes, or is about to stop; try later",
                headers={"retry-after": "5"},
            )

    async def _caller(self, shake: Handshake) -> Caller | None:
        """None where a token is needed and the handshake brought no valid one. A page can send it
        in its first frame, and learns there, not here, that it is signed out."""
        try:
            caller = await self._gate.caller(shake.headers, shake.address)
        except Unauthenticated:
            if b"authorization" in shake.headers:
                raise
            return None
        caller.demand(READ)
        return caller

    def _admission(self, shake: Handshake) -> Callable[[Headers], Awaitable[Caller]]:
        async def admit(headers: Headers) -> Caller:
            caller = await self._gate.caller(headers, shake.address)
            caller.demand(READ)
            return caller

        return admit

    async def _watch(self) -> None:
        """One task for all: ends connections when the server stops or their token is revoked."""
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._limits.recheck_seconds)
            for one in tuple(self._open):
                if not self._stopping.is_set():
                    await one.check()
        for one in tuple(self._open):
            one.end(1001, "the server stops")

    async def _rest(self) -> None:
        if self._open or self._watcher is None:
            return
        watcher, self._watcher = self._watcher, None
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


async def refuse(error: RotaError, scope: Scope, receive: Receive, send: Send) -> None:
    """With a status and a problem document where the server can send them before the upgrade."""
    await receive()
    if HTTP_RESPONSE not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return

    async def renamed(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await problem_answer(error).deliver(receive, renamed)


@endpoint("GET", PATH, scope=None, tag="events", hidden=True)
async def ws_without_upgrade(call: Call) -> Answer:
    """Tell who comes by plain HTTP what is spoken here."""
    raise UpgradeRequired(
        f"{PATH} is a WebSocket; open it as one: an HTTP request has to ask for the upgrade",
        headers={"upgrade": "websocket", "connection": "upgrade"},
    )


def socket_endpoints(sockets: Sockets) -> tuple[Endpoint, ...]:
    @endpoint("GET", f"{PATH}/schema.json", scope=READ, tag="events", hidden=True)
    async def ws_schema(call: Call) -> Answer:
        """Describe the frames of /ws."""
        return json_answer(schema((*OWN_REQUESTS, *sockets.kinds)))

    return ws_without_upgrade, ws_schema


def _open_files() -> int:
    """Beyond so many open files the process can accept nobody, nor open its database."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
