"""Where asyncio and threads differ. The counterpart in `_sync` is also written by hand."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rota.client.lease import Lease
from rota.client.transport import AsyncTransport

T = TypeVar("T")

Event = asyncio.Event
sleep = asyncio.sleep

# A long poll is cancelled when the loop is stopped, so it may be as long as the server allows.
POLL_SECONDS = 30.0
SHUT_DOWN = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)


def default_transport(url: str) -> AsyncTransport:
    from rota.client.pooled import PooledTransport  # noqa: PLC0415 - httpx2 is slow to import

    return PooledTransport(url)


async def pause(event: Event, seconds: float) -> None:
    """Wait until the event is set, or time is up."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


async def unless(stop: Event, call: Coroutine[Any, Any, T]) -> T | None:
    """The result of the call; None when `stop` is set first, and the call is cancelled."""
    calling = asyncio.ensure_future(call)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({calling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return calling.result() if calling.done() else None
    finally:
        stopping.cancel()
        if not calling.done():
            calling.cancel()
            await asyncio.wait({calling})


async def attended(body: Coroutine[Any, Any, object], lease: Lease) -> None:
    """Run the body; cancel it when the lease is lost, because its item is somebody else's."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(body)
    lease.when_lost(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    if not (task.cancelled() and lease.lost):
        task.result()


async def side_by_side(
    lane: Callable[[], Coroutine[Any, Any, None]], count: int, stop: Event
) -> None:
    """Run `count` lanes. The first that fails stops the others, and its error is raised."""
    lanes = [asyncio.ensure_future(lane()) for _ in range(count)]
    try:
        await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        for one in lanes:
            one.cancel()
        await asyncio.wait(lanes)  # each gives back what it holds
        raise
    stop.set()
    await asyncio.wait(lanes)
    failed = [one for one in lanes if one.cancelled() or one.exception()]
    for one in failed:
        one.result()
