"""The event log: as pages, and as a stream that can be resumed without a gap."""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from msgspec import UNSET

from rota.api import schemas, wire
from rota.api.answers import Reply, encode, json_answer, raw_headers
from rota.api.asgi import Receive, Send, attend
from rota.api.bodies import EventQuery
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.model.access import READ
from rota.model.errors import InvalidInput, StorageError
from rota.model.events import Event
from rota.queue.views import Views

STREAM = b"text/event-stream"
PAGE = 100
# A wake-up can be lost (another process, a cut connection): look again anyway.
LOOK_AGAIN_SECONDS = 2.0
FAREWELL_SECONDS = 1.0


@endpoint(
    "GET", "/events", scope=READ, tag="events", gives=list[schemas.Event],
    takes=("Last-Event-ID",), sets=("Link",),
)  # fmt: skip
async def list_events(call: Call, query: EventQuery) -> Reply:
    """Read the event log, from the oldest on or behind `after`.

    With `Accept: text/event-stream` it is a stream of server-sent events that goes on: behind
    `Last-Event-ID`, else behind `after`, else from now on.
    """
    resumed = _last_event_id(call)
    if STREAM in call.headers.get(b"accept", b""):
        return await _stream(call, query, resumed)
    events = await call.ledger.views.events(
        query.after or 0, query.limit, query.work_item_id, query.type
    )
    full = len(events) == query.limit
    headers = call.next_page(after=str(events[-1].seq)) if full else None
    return json_answer([wire.event_of(one) for one in events], 200, headers)


async def _stream(call: Call, query: EventQuery, after: int | None) -> Reply:
    views = call.ledger.views
    if after is None:
        after = await views.last_event() if query.after is UNSET else query.after
    # Asks for a page now, so that a wrong filter is refused while there still is a status to send.
    await views.events(after, 1, query.work_item_id, query.type)
    return EventStream(
        views, after, query.work_item_id, query.type, call.settings.heartbeat_seconds, call.stopping
    )


def _last_event_id(call: Call) -> int | None:
    text = call.header(b"last-event-id")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidInput(f"Last-Event-ID: {text[:40]!r} is none of ours", field="Last-Event-ID")
    return int(text)


@dataclass(slots=True)
class EventStream:
    """Pulls pages as fast as its reader takes them, and no faster: nothing piles up here."""

    views: Views
    after: int
    work_item_id: str | None
    types: tuple[str, ...]
    heartbeat_seconds: float
    stopping: asyncio.Event
    status: int = 200

    async def deliver(self, receive: Receive, send: Send) -> None:
        pump = asyncio.ensure_future(self._pump(send))
        gone = await attend(pump, receive, self.stopping)
        if not gone:
            with contextlib.suppress(TimeoutError):  # a reader that does not read
                await asyncio.wait_for(send(_chunk(b"", more=False)), FAREWELL_SECONDS)
        if not pump.cancelled():
            with contextlib.suppress(StorageError):  # the reader comes back and goes on from there
                pump.result()

    async def _pump(self, send: Send) -> None:
        headers = raw_headers(STREAM, None)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        # An id without data: whoever loses the connection before the first event resumes here.
        await send(_chunk(b"retry: 2000\nid: %d\n\n" % self.after))
        quiet_since = time.monotonic()
        while True:
            seen = self.views.events_seen()
            page = await self._next_page()
            if page:
                await send(_chunk(b"".join(map(_frame, page))))
                quiet_since = time.monotonic()
            if len(page) == PAGE:
                continue
            left = quiet_since + self.heartbeat_seconds - time.monotonic()
            if left <= 0:
                await send(_chunk(b": still here\n\n"))
                quiet_since = time.monotonic()
                left = self.heartbeat_seconds
            await self.views.wait_for_events(seen, min(left, LOOK_AGAIN_SECONDS))

    async def _next_page(self) -> list[Event]:
        filtered = self.work_item_id is not None or self.types
        last = await self.views.last_event() if filtered else 0
        page = await self.views.events(self.after, PAGE, self.work_item_id, self.types)
        if page:
            self.after = page[-1].seq
        elif last > self.after:
            # Nothing for this reader up to there: the next look need not begin as far back.
            self.after = last
        return page


def _frame(event: Event) -> bytes:
    data = encode(wire.event_of(event))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), data)


def _chunk(body: bytes, *, more: bool = True) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": more}


ENDPOINTS = (list_events,)
