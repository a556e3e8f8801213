"""`/mcp`: every request is a conversation of its own, so that any server can answer it.

Tokens, Host, Origin and scopes are checked before a request arrives here, and again by the API,
which the tools call with the caller's own headers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rota.api.answers import Answer, json_answer, problem_answer, raw_headers
from rota.api.asgi import AsgiApp, Headers, Message, Receive, Scope, Send
from rota.api.call import read_bytes
from rota.api.mistakes import UNKNOWN, loosely
from rota.api.problems import MethodNotAllowed
from rota.api.ws import refuse
from rota.client import WorkQueueClient
from rota.client.retries import NO_RETRIES
from rota.mcp.loopback import Loopback
from rota.mcp.messages import flaw, known_id
from rota.mcp.seat import Seat
from rota.model.access import Caller
from rota.model.errors import NotFound, RotaError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

PATH = "/mcp"
MAX_BODY_BYTES = 1024 * 1024
# The headers that say who calls and how the request may be checked.
_OF_THE_CALLER = (
    b"host", b"authorization", b"cookie", b"origin", b"sec-fetch-site", b"sec-fetch-mode",
    b"rota-actor",
)  # fmt: skip


class McpFace:
    def __init__(self, api: Callable[[], AsgiApp], ledger: str) -> None:
        """`api` is called late, because this face is a part of that app."""
        self._api = api
        self._ledger = ledger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = dict(scope["headers"])
        try:
            _demand(scope)
            answer = await _sdk()
            body = await read_bytes(headers, receive, MAX_BODY_BYTES)
        except RotaError as error:
            if scope["type"] == "websocket":
                await refuse(error, scope, receive, send)
            else:
                await problem_answer(error).deliver(receive, send)
            return
        message = loosely(body)
        if message is not UNKNOWN and (wrong := flaw(message)) is not None:
            await _told_off(message, *wrong).deliver(receive, send)
            return
        caller = {name: headers[name] for name in _OF_THE_CALLER if name in headers}
        address = (scope.get("client") or ("",))[0]
        transport = Loopback(self._api(), caller, address=address, gone=receive)
        async with WorkQueueClient(
            "http://localhost", transport=transport, retries=NO_RETRIES
        ) as client:
            seat = Seat(client, _agent_of(scope["rota.caller"]))
            await answer(seat, self._ledger, scope, _again(body, receive), send)


def _told_off(message: Any, code: int, words: str) -> Answer:
    error = {"code": code, "message": words}
    return json_answer({"jsonrpc": "2.0", "id": known_id(message), "error": error}, 400)


def _again(body: bytes, receive: Receive) -> Receive:
    """Replays the body that was read already, then receives as before."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return left.pop() if left else await receive()

    return received


def _agent_of(caller: Caller) -> str | None:
    """The agent's name, if the caller's token is for exactly one agent."""
    return next(iter(caller.agents)) if caller.agents and len(caller.agents) == 1 else None


def _demand(scope: Scope) -> None:
    if scope["type"] != "http" or scope["path"].rstrip("/") != PATH:
        raise NotFound(f"there is nothing at {scope['path'][:200]!r}; MCP is at {PATH}")
    if scope["method"] != "POST":
        raise MethodNotAllowed(
            "MCP here is POST only: there is no stream to follow and no session to end",
            headers={"allow": "POST"},
        )
    if find_spec("mcp") is None:
        raise NotFound(
            "this server was installed without MCP; install it with: pip install 'rota[mcp]'"
        )


def _safely(send: Send) -> Send:
    """Adds the headers that all our answers have, because these answers hold claim tokens."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *raw_headers(None, None)]
        await send(message)

    return told


Answering = Callable[[Seat, str, Scope, Receive, Send], Awaitable[None]]


async def _sdk() -> Answering:
    """More than a second of imports, paid by the first request, in a thread."""
    return await asyncio.to_thread(_imported)


def _imported() -> Answering:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

    from rota.mcp.server import make_server  # noqa: PLC0415

    logging.getLogger("mcp").setLevel(logging.WARNING)

    async def answer(seat: Seat, ledger: str, scope: Scope, receive: Receive, send: Send) -> None:
        server: Server[Any] = make_server(seat, ledger)
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        async with manager.run():
            await manager.handle_request(scope, receive, _safely(send))

    return answer
