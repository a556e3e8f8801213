"""A pool of PostgreSQL connections that lends one for each transaction.

This is PgBouncer's mode `transaction`, except that the pool never lends the same connection twice
in a row. So what a client leaves in a session (a prepared statement, a setting, LISTEN) is not
there for that client any more, but for others.

It speaks only as much of the protocol as this needs: messages are passed on unchanged, and a
connection is free again when the server says that no transaction is open.
"""

import asyncio
import secrets
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

SIZE = 3
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_GREETING = b"R" + struct.pack("!II", 8, 0)
_READY = b"Z" + struct.pack("!Ic", 5, b"I")
_GONE = (OSError, EOFError, asyncio.IncompleteReadError)


class _Side:
    """One end of a conversation. A task always reads its next message, so that no message is lost
    when a caller stops waiting."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.next = asyncio.ensure_future(_message(reader))
        self.told = b""  # of a server: its parameters, for new clients

    async def hear(self) -> bytes:
        await asyncio.wait([self.next])
        return self.take()

    def take(self) -> bytes:
        message = self.next.result()
        self.next = asyncio.ensure_future(_message(self._reader))
        return message

    def say(self, message: bytes) -> None:
        self._writer.write(message)

    def close(self) -> None:
        self.next.cancel()
        self._writer.close()

    async def gone(self) -> None:
        self.close()
        with suppress(*_GONE):
            await self._writer.wait_closed()
        await asyncio.wait([self.next])


@dataclass(eq=False)
class Pool:
    """`lent` counts how often a connection was lent."""

    server: str
    size: int
    lent: int = 0
    port: int = 0
    _free: "asyncio.Queue[_Side | None]" = field(default_factory=asyncio.Queue)

    @property
    def url(self) -> str:
        where = urlsplit(self.server)
        return where._replace(netloc=f"{where.username}@127.0.0.1:{self.port}").geturl()

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        for _ in range(self.size):
            self._free.put_nowait(None)
        listening = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        listening.close()
        ours = asyncio.all_tasks() - {asyncio.current_task()}
        for task in ours:
            task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)
        while not self._free.empty():
            if (backend := self._free.get_nowait()) is not None:
                await backend.gone()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await _begin(reader, writer):
                await self._greeted(_Side(reader, writer))
        except _GONE:
            pass
        finally:
            writer.close()
            with suppress(*_GONE):
                await writer.wait_closed()

    async def _greeted(self, client: _Side) -> None:
        try:
            backend = await self._lend()
            self._free.put_nowait(backend)
            key = b"K" + struct.pack("!I", 12) + secrets.token_bytes(8)
            client.say(_GREETING + backend.told + key + _READY)
            while (first := await client.hear())[:1] != b"X":
                await self._served(client, first)
        finally:
            await client.gone()

    async def _served(self, client: _Side, first: bytes) -> None:
        backend = await self._lend()
        self.lent += 1
        try:
            await _transaction(client, first, backend)
        except BaseException:  # in mid-transaction: closing the connection ends it
            self._free.put_nowait(None)
            await backend.gone()
            raise
        self._free.put_nowait(backend)

    async def _lend(self) -> _Side:
        """The connection that was idle longest. One that has died meanwhile is replaced."""
        backend = await self._free.get()
        if backend is not None and not backend.next.done():
            return backend
        try:
            if backend is not None:
                await backend.gone()
            return await _connected(self.server)
        except BaseException:
            self._free.put_nowait(None)
            raise


async def _begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    while True:
        length, code = struct.unpack("!II", await reader.readexactly(8))
        await reader.readexactly(length - 8)
        if code not in (_SSL, _GSS):
            return bool(code != _CANCEL)
        writer.write(b"N")


async def _connected(server: str) -> _Side:
    where = urlsplit(server)
    backend = _Side(*await asyncio.open_connection(where.hostname, where.port))
    name = where.path.removeprefix("/")
    said = b"\0".join([b"user", (where.username or "").encode(), b"database", name.encode()])
    body = struct.pack("!I", 3 << 16) + said + b"\0\0"
    backend.say(struct.pack("!I", len(body) + 4) + body)
    try:
        backend.told = await _greeting_of(backend)
    except BaseException:  # a server that restarts may hang up here
        await backend.gone()
        raise
    return backend


async def _greeting_of(backend: _Side) -> bytes:
    told = b""
    while (message := await backend.hear())[:1] != b"Z":
        if message[:1] == b"E":
            raise ConnectionError(message)
        told += message if message[:1] == b"S" else b""
    return told


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


async def _transaction(client: _Side, first: bytes, backend: _Side) -> None:
    """Pass messages both ways, until no transaction is open and every message is answered."""
    message, answers_due, is_complete = first, 0, False
    while True:
        if message:
            backend.say(message)
            is_complete = message[:1] in (b"S", b"Q")
            answers_due += is_complete
        await asyncio.wait((client.next, backend.next), return_when=asyncio.FIRST_COMPLETED)
        message = b""
        if backend.next.done():
            answer = backend.take()
            client.say(answer)
            answers_due -= answer[:1] == b"Z"
            if answer == _READY and not answers_due and is_complete:
                return
        elif client.next.done():
            message = client.take()


@contextmanager
def transaction_pool(server: str, size: int = SIZE) -> Iterator[Pool]:
    pool, ready = Pool(server, size), threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    serving = pool.serve(ready, stop)
    thread = threading.Thread(target=lambda: loop.run_until_complete(serving), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield pool
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
