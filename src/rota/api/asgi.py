"""The ASGI interface as this face uses it, and helpers that watch a connection."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from email.utils import format_datetime
from typing import Any, TypeVar

from rota.model.clock import Clock

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[bytes, bytes]
T = TypeVar("T")

FAREWELL_SECONDS = 1.0


class ClientGone(Exception):
    """The client has disconnected, so nobody is left to answer."""


def dated(clock: Clock) -> tuple[bytes, bytes]:
    """The header that says when an answer was made."""
    return b"date", format_datetime(clock.now(), usegmt=True).encode()


def with_dates(app: AsgiApp, clock: Clock) -> AsgiApp:
    """For callers in this process: between them and the application is no server that does it."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], dated(clock)]
            await send(message)

        await app(scope, receive, sent)

    return called


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Await `work` and return its result. If the client disconnects first, `work` is cancelled, so
    that it gives back what it would have handed out."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    gone.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        if gone.done():
            raise ClientGone from None
        raise
    finally:
        gone.cancel()


async def has_gone(receive: Receive) -> bool:
    """Whether the client has disconnected. Does not wait. Only for use after the body was read."""
    gone = asyncio.ensure_future(_disconnected(receive))
    await asyncio.sleep(0)
    if gone.done():
        return True
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    return False


def chunk(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def pumped(
    pump: Coroutine[Any, Any, None],
    receive: Receive,
    send: Send,
    stopping: asyncio.Event,
    until_refused: Coroutine[Any, Any, None],
    *,
    passing: type[Exception],
) -> None:
    """Run `pump`, which sends a stream, until one of the ends of `attend`. A `passing` error is
    suppressed: the reader reconnects and resumes from there."""
    pumping = asyncio.ensure_future(pump)
    gone = await attend(pumping, receive, stopping, until_refused)
    if not gone:
        with contextlib.suppress(TimeoutError):  # the reader does not read
            await asyncio.wait_for(send(chunk(b"", more=False)), FAREWELL_SECONDS)
    if not pumping.cancelled():
        with contextlib.suppress(passing):
            pumping.result()


async def attend(
    work: "asyncio.Future[Any]",
    receive: Receive,
    stopping: asyncio.Event,
    *ends: Coroutine[Any, Any, None],
) -> bool:
    """Wait until `work` is done, the client has disconnected, the server stops or one of the `ends`
    is reached.

    Afterwards `work` is done or cancelled. Returns True if the client has disconnected.
    """
    gone = asyncio.ensure_future(_disconnected(receive))
    others = [asyncio.ensure_future(one) for one in (stopping.wait(), *ends)]
    tasks = (work, gone, *others)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return gone.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
