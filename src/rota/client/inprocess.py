"""Calls the application itself, without a socket: for the command line when no server runs.

The application runs on an event loop in its own thread, so that any number of threads may call it,
and lives as long as this transport.
"""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from rota.client.errors import ConnectionFailed
from rota.client.transport import Answer, Request

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
OpenApp = Callable[[], AbstractAsyncContextManager[AsgiApp]]

_STARTING_SECONDS = 60.0
_CLOSING_SECONDS = 30.0


class InProcessTransport:
    def __init__(self, open_app: OpenApp) -> None:
        """Opens the application, and raises what that raises."""
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._app: AsgiApp
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._live, args=(open_app,), name="rota-in-process", daemon=True
        )
        self._thread.start()
        failure = self._ready.get(timeout=_STARTING_SECONDS)
        if failure is not None:
            self._thread.join()
            raise failure

    def sending(self, request: Request) -> "Future[Answer]":
        return asyncio.run_coroutine_threadsafe(self._exchange(request), self._loop)

    def send(self, request: Request) -> Answer:
        calling = self.sending(request)
        try:
            return calling.result()
        except BaseException:
            calling.cancel()  # interrupted from outside: the claim it waits for is given back
            raise

    def open(self, request: Request) -> "InProcessStream":
        exchange = _Exchange(request)
        running = asyncio.run_coroutine_threadsafe(self._stream(exchange), self._loop)
        stream = InProcessStream(exchange, running.cancel)
        stream.begin(request.timeout)
        return stream

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_CLOSING_SECONDS)

    def beside(self) -> "InProcessTransport":
        return _Borrowed(self)

    # on the loop's thread

    def _live(self, open_app: OpenApp) -> None:
        try:
            self._loop.run_until_complete(self._serve(open_app))
        finally:
            self._loop.close()

    async def _serve(self, open_app: OpenApp) -> None:
        try:
            async with open_app() as self._app:
                self._ready.put(None)
                await self._stop.wait()
                await _let_end()
        except BaseException as error:  # noqa: BLE001 - the thread that opened us is waiting for it
            self._ready.put(error)

    async def _exchange(self, request: Request) -> Answer:
        exchange = _Exchange(request)
        try:
            await asyncio.wait_for(self._call(exchange), request.timeout)
        except TimeoutError:
            raise ConnectionFailed(
                f"the database gave no answer within {request.timeout:g} s; whether the request"
                " was carried out is not known",
                sent=True,
            ) from None
        return Answer(exchange.status, exchange.headers, b"".join(exchange.drained()))

    async def _stream(self, exchange: "_Exchange") -> None:
        try:
            await self._call(exchange)
        finally:
            exchange.gone.set()
            exchange.chunks.put(None)

    async def _call(self, exchange: "_Exchange") -> None:
        await self._app(exchange.scope(), exchange.receive, exchange.send)


class _Borrowed(InProcessTransport):
    """The same application for the heartbeat thread, which must not close it."""

    def __init__(self, owner: InProcessTransport) -> None:
        self._loop, self._app = owner._loop, owner._app

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _Exchange:
    """One request and its answer, as ASGI messages."""

    request: Request
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: "queue.SimpleQueue[bytes | None]" = field(default_factory=queue.SimpleQueue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: bool = False

    def scope(self) -> Message:
        path, _, query = self.request.path.partition("?")
        named = {"host": "localhost", **self.request.headers}
        if self.request.body is not None:
            named["content-length"] = str(len(self.request.body))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": self.request.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1")) for name, value in named.items()
            ],
            "client": ("127.0.0.1", 0),
            "server": ("localhost", 80),
        }

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self.request.body or b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers.update(
                (name.decode().lower(), value.decode("latin-1"))
                for name, value in message["headers"]
            )
            self.chunks.put(b"")  # tells a stream that the answer has begun
        elif message["type"] == "http.response.body":
            self.chunks.put(message.get("body", b""))

    def drained(self) -> Iterator[bytes]:
        while not self.chunks.empty():
            yield self.chunks.get() or b""


class InProcessStream:
    def __init__(self, exchange: _Exchange, cancel: Callable[[], object]) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = exchange.headers
        self._exchange = exchange
        self._cancel = cancel

    def begin(self, timeout: float) -> None:
        try:
            self._exchange.chunks.get(timeout=timeout)
        except queue.Empty:
            self.close()
            raise ConnectionFailed("the event stream did not begin", sent=True) from None
        self.status = self._exchange.status

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._exchange.chunks.get()) is not None:
            yield chunk

    def close(self) -> None:
        self._cancel()


async def _let_end() -> None:
    """Requests under way may finish (a claim is given back); streams left open may not."""
    for grace in (1.0, 0.0):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, pending = await asyncio.wait(others, timeout=grace)
            for task in pending:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
