"""The event log, as pages or as a stream that can be resumed without a gap."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from rota.api import schemas, wire
from rota.api.answers import Answer, Beginning, Reply, encode, raw, raw_headers
from rota.api.asgi import Receive, Send, chunk, pumped
from rota.api.bodies import EventQuery
from rota.api.call import Call
from rota.api.pages import page_answer
from rota.api.routing import Endpoint, endpoint, given
from rota.feed import Entry, Feed, Overrun, Reading, Wanted
from rota.model.access import READ
from rota.model.errors import InvalidInput, StorageError
from rota.model.events import Event

STREAM = b"text/event-stream"


def written(event: Event) -> str:
    """The form in which the feed keeps an event for all its readers."""
    return encode(wire.event_of(event)).decode()


@endpoint(
    "GET", "/events", scope=READ, tag="events", gives=list[schemas.Event],
    takes=("Last-Event-ID",), sets=("Link", "Rota-Last-Event"),
)  # fmt: skip
async def list_events(feed: Feed, call: Call, query: EventQuery) -> Reply:
    """Read the event log, from its beginning or after `after`.

    With `Accept: text/event-stream` the answer is a stream of server-sent events that goes on.
    It begins after `Last-Event-ID`, else after `after`, else now.

    A caller that names an event beyond the end of the log has seen another log. A stream then
    begins now, and says where that is. A page is then empty, and `Rota-Last-Event` says where
    the log ends.
    """
    resumed = _last_event_id(call)
    if STREAM in call.headers.get(b"accept", b""):
        return await _stream(feed, call, query, resumed)
    return await _page(call, query)


async def _page(call: Call, query: EventQuery) -> Answer:
    async def ask(limit: int, after: str | None) -> tuple[list[Event], bool]:
        found = await call.ledger.views.events(
            int(after or 0), limit, query.work_item_id, query.type
        )
        return found, len(found) == limit

    answer = await page_answer(
        call, query.limit, str(query.after or 0), ask, written=wire.event_of,
        place=lambda event: str(event.seq), by="after",
    )  # fmt: skip
    if answer.body == b"[]":
        answer.headers += raw(await _end(call, query))
    return answer


async def _end(call: Call, query: EventQuery) -> dict[str, str]:
    """Only for a reader beyond the log's end, which would wait there while events go by unseen."""
    views = call.ledger.views
    if not query.after or query.after <= await views.highest_event():
        return {}
    return {"rota-last-event": str(await views.last_event())}


async def _stream(feed: Feed, call: Call, query: EventQuery, after: int | None) -> Reply:
    views = call.ledger.views
    if after is None:
        after = await views.last_event() if query.after is UNSET else query.after
    # Read one page now, so that a wrong filter is refused while a status can still be sent.
    await views.events(after, 1, query.work_item_id, query.type)
    if call.wants_head:
        return Beginning(STREAM)
    wanted = Wanted(query.type, query.work_item_id)
    return EventStream(
        feed.follow(wanted, after),
        call.settings.heartbeat_seconds,
        call.stopping,
        call.until_refused,
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
    """Follows the feed. A slow reader gets the rest page by page, at its own pace."""

    follow: AbstractAsyncContextManager[Reading]
    heartbeat_seconds: float
    stopping: asyncio.Event
    until_refused: Callable[[], Coroutine[Any, Any, None]]
    status: int = 200

    async def deliver(self, receive: Receive, send: Send) -> None:
        ends = self.stopping, self.until_refused()
        await pumped(self._pump(send), receive, send, *ends, passing=StorageError)

    async def _pump(self, send: Send) -> None:
        headers = raw_headers(STREAM, None)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with self.follow as reading:
            # An id without data: a reader that disconnects before the first event resumes here.
            await send(chunk(b"retry: 2000\nid: %d\n\n" % reading.position))
            quiet_since = time.monotonic()
            while True:
                left = quiet_since + self.heartbeat_seconds - time.monotonic()
                page = await self._next(reading, left)
                if page:
                    await reading.hand_out(send(chunk(b"".join(map(_frame, page)))))
                elif left <= 0:
                    await send(chunk(b": still here\n\n"))
                if page or left <= 0:
                    quiet_since = time.monotonic()

    async def _next(self, reading: Reading, seconds: float) -> list[Entry]:
        try:
            return await reading.next(max(0.0, seconds))
        except Overrun:
            reading.go_back()
            return []


def _frame(entry: Entry) -> bytes:
    event = entry.event
    return f"id: {event.seq}\nevent: {event.type}\ndata: {entry.text}\n\n".encode()


_EVENT_ENDPOINTS = (list_events,)


def event_endpoints(feed: Feed) -> tuple[Endpoint, ...]:
    return given(feed, _EVENT_ENDPOINTS)
