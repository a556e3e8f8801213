"""The log of a run as an answer: what is there, and what is added until the run has ended."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rota.api.answers import raw_headers
from rota.api.asgi import Receive, Send, chunk, pumped
from rota.api.call import Call
from rota.api.events import STREAM
from rota.api.run_wire import LogQuery
from rota.model.errors import RotaError
from rota.model.runs import Run
from rota.runner.logs import tail
from rota.runner.records import RunBook

NDJSON = "application/x-ndjson"
PIECE = 64 * 1024


@dataclass(slots=True)
class LogStream:
    """Reads the log no faster than the client takes it, so nothing piles up here."""

    path: Path
    run: Run
    book: RunBook
    offset: int
    follow: bool
    as_events: bool
    heartbeat_seconds: float
    stopping: asyncio.Event
    until_refused: Callable[[], Coroutine[Any, Any, None]]
    # An offset beyond the log includes the farewell that was sent before, so it is not sent again.
    told: bool
    status: int = 200
    _waiting: list[bytes] = field(default_factory=list)
    _size: int = 0
    _spoke_at: float = 0.0

    @classmethod
    def of(cls, call: Call, query: LogQuery, path: Path, run: Run) -> "LogStream":
        as_events = STREAM in call.headers.get(b"accept", b"")
        asked = _resumed(call, query) if as_events else query.offset
        size = _size(path)
        return cls(
            path,
            run,
            call.ledger.runs,
            min(asked, size),
            query.follow or as_events,
            as_events,
            call.settings.heartbeat_seconds,
            call.stopping,
            call.until_refused,
            asked > size,
        )

    @property
    def media_type(self) -> bytes:
        return STREAM if self.as_events else NDJSON.encode()

    async def deliver(self, receive: Receive, send: Send) -> None:
        ends = self.stopping, self.until_refused()
        await pumped(self._pump(send), receive, send, *ends, passing=RotaError)

    async def _pump(self, send: Send) -> None:
        headers = raw_headers(self.media_type, None)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._spoke_at = time.monotonic()

        async def pause(seconds: float) -> None:
            await self._flush(send)
            if time.monotonic() - self._spoke_at > self.heartbeat_seconds:
                await self._say(send, b": still here\n\n" if self.as_events else b"\n")
            await asyncio.sleep(seconds)

        lines = tail(
            self.path, follow=self.follow, from_offset=self.offset, ended=self._ended, pause=pause
        )
        async for offset, line in lines:
            self._keep(self._framed(offset, line))
            if self._size > PIECE:
                await self._flush(send)
            self.offset = offset
        if self.follow and (seen := (await self.book.get(self.run.id)).unseen_since):
            self._keep(self._framed(self.offset, _farewell(seen)))
        await self._flush(send)
        if self.as_events:
            await self._say(send, b"event: end\ndata: {}\n\n")

    async def _ended(self) -> bool:
        """Also true when the run's server is gone: nobody is left to write more, or its end."""
        run = await self.book.get(self.run.id)
        return run.status.ended or (run.unseen_since is not None and not self.told)

    def _framed(self, offset: int, line: bytes) -> bytes:
        if not self.as_events:
            return line
        # In server-sent events a CR ends a line; in JSON it is white space between two tokens.
        return b"id: %d\ndata: %s\n\n" % (offset, line.replace(b"\r", b" "))

    def _keep(self, frame: bytes) -> None:
        self._waiting.append(frame if self.as_events else frame + b"\n")
        self._size += len(frame)

    async def _flush(self, send: Send) -> None:
        if self._waiting:
            waiting, self._waiting, self._size = self._waiting, [], 0
            await self._say(send, b"".join(waiting))

    async def _say(self, send: Send, body: bytes) -> None:
        await send(chunk(body))
        self._spoke_at = time.monotonic()


def _resumed(call: Call, query: LogQuery) -> int:
    """A browser that has lost its connection says how far it had read."""
    text = call.header(b"last-event-id") or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else query.offset


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # not there yet
        return 0


def _farewell(seen: str) -> bytes:
    """Looks like a line of the log, but is in no file."""
    text = (
        f"the server of this run has not been seen since {seen}; the run ends as lost when that"
        " server starts again (rota up)"
    )
    return msgspec.json.encode({"ts": seen, "stream": "rota", "text": text, "gone": True})
