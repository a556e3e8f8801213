"""Ways to the ledger for a screen that must never stand still: on asyncio, and told of."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from rota.client.transport import (
    Answer,
    AsyncStream,
    AsyncTransport,
    Request,
    SyncStream,
    SyncTransport,
)
from rota.model.errors import RotaError


class Threaded:
    """A transport that blocks, moved off the event loop: the database, opened in this process."""

    def __init__(self, inner: SyncTransport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Answer:
        return await asyncio.to_thread(self._inner.send, request)

    async def open(self, request: Request) -> "ThreadedStream":
        return ThreadedStream(await asyncio.to_thread(self._inner.open, request))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._inner.close)

    def beside(self) -> SyncTransport:
        return self._inner.beside()


class ThreadedStream:
    def __init__(self, inner: SyncStream) -> None:
        self.status = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = iter(self._inner)
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            yield chunk

    async def aclose(self) -> None:
        self._inner.close()  # lets the thread go that waits for a chunk


class Told:
    """Says when the event stream is there, and when it cannot be had: `WorkQueueClient.watch`
    opens it anew by itself and tells nobody."""

    def __init__(self, inner: AsyncTransport) -> None:
        self._inner = inner
        self.tell: Callable[[bool], None] = lambda there: None

    async def send(self, request: Request) -> Answer:
        return await self._inner.send(request)

    async def open(self, request: Request) -> AsyncStream:
        if not request.path.startswith("/events"):
            return await self._inner.open(request)
        try:
            stream = await self._inner.open(request)
        except RotaError:
            self.tell(False)
            raise
        self.tell(stream.status == 200)
        return stream

    async def aclose(self) -> None:
        await self._inner.aclose()

    def beside(self) -> SyncTransport:
        return self._inner.beside()
