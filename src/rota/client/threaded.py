"""Blocking transports, for callers on asyncio."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from rota.client.inprocess import InProcessTransport
from rota.client.transport import Answer, Request, SyncStream, SyncTransport


class Threaded:
    """A blocking transport, moved off the event loop: the database, opened in this process."""

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
        self._inner.close()  # frees the thread that waits for a chunk


class InProcess(Threaded):
    """The database, for a caller that may stop waiting: then the call is cancelled, too, and what
    it had claimed is given back."""

    def __init__(self, inner: InProcessTransport) -> None:
        super().__init__(inner)
        self._application = inner

    async def send(self, request: Request) -> Answer:
        return await asyncio.wrap_future(self._application.sending(request))
