"""Calls the API on this event loop, without a socket."""

import asyncio
from collections.abc import Mapping
from urllib.parse import unquote

from rota.api.asgi import AsgiApp, Message, Receive, Scope
from rota.client.errors import ConnectionFailed
from rota.client.transport import Answer, AsyncStream, Request, SyncTransport


class Loopback:
    """Passes on the caller's own headers, so that the API checks the caller itself."""

    def __init__(
        self,
        app: AsgiApp,
        caller: Mapping[bytes, bytes] | None = None,
        *,
        address: str = "127.0.0.1",
        gone: Receive | None = None,
    ) -> None:
        """`gone` tells when the caller has disconnected: a claim that waits is then given back."""
        self._app = app
        self._gone = gone or _never
        self._caller = dict(caller or {b"host": b"localhost"})
        self._address = address

    async def send(self, request: Request) -> Answer:
        exchange = _Exchange(request.body or b"", self._gone)
        try:
            async with asyncio.timeout(request.timeout):
                await self._app(self._scope(request), exchange.receive, exchange.send)
        except TimeoutError:
            raise ConnectionFailed(
                f"no answer within {request.timeout:g} s; whether the request was carried out is"
                " not known",
                sent=True,
            ) from None
        return Answer(exchange.status, exchange.headers, bytes(exchange.body))

    async def open(self, request: Request) -> AsyncStream:
        raise NotImplementedError("nobody here follows a stream")

    async def aclose(self) -> None:
        pass

    def beside(self) -> SyncTransport:
        raise NotImplementedError("nobody here works by threads")

    def _scope(self, request: Request) -> Scope:
        path, _, query = request.path.partition("?")
        given = {
            name.lower().encode(): value.encode("latin-1")
            for name, value in request.headers.items()
            if name.lower() != "authorization"  # the environment's token is not the caller's
        }
        if request.body is not None:
            given[b"content-length"] = b"%d" % len(request.body)
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": list({**given, **self._caller}.items()),
            "client": (self._address, 0),
            "server": ("localhost", 80),
        }


async def _never() -> Message:
    """The caller never disconnects."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


class _Exchange:
    def __init__(self, body: bytes, gone: Receive) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self._sent: bytes | None = body
        self._gone = gone

    async def receive(self) -> Message:
        if self._sent is None:
            return await self._gone()
        body, self._sent = self._sent, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]
            }
        else:
            self.body += message.get("body", b"")
