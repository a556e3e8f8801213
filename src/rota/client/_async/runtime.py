"""Where asyncio and threads differ. The counterpart in `_sync` is also written by hand."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rota.client.lease import Lease
from rota.client.transport import AsyncTransport

T = TypeVar("T")
Unheard = Callable[[T], Coroutine[Any, Any, None]]  # takes what nobody waits for any more

Event = asyncio.Event
sleep = asyncio.sleep

# A long poll is cancelled when the loop is stopped, so it may be as long as the server allows.
POLL_SECONDS = 30.0
# For the answer of a call that is cancelled. The end of an idle loop takes so much longer.
LAST_ANSWER_SECONDS = 0.2
SHUT_DOWN = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)


def default_transport(url: str) -> AsyncTransport:
    from rota.client.pooled import PooledTransport  # noqa: PLC0415 - httpx2 is slow to import

    return PooledTransport(url)


async def pause(event: Event, seconds: float) -> None:
    """Wait until the event is set, or time is up."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


async def heard(call: Coroutine[Any, Any, T], unheard: Unheard[T]) -> T:
    """The result of the call. If the caller is cancelled, `unheard` gets the result."""
    calling = asyncio.ensure_future(call)
    try:
        await asyncio.wait({calling})
    except asyncio.CancelledError:
        await _give_up(calling, unheard)
        raise
    return calling.result()


async def unless(stop: Event, call: Coroutine[Any, Any, T], unheard: Unheard[T]) -> T | None:
    """The same, or None when `stop` is set first; then, too, `unheard` gets the result."""
    calling = asyncio.ensure_future(call)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({calling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
        await _give_up(calling, unheard)
    except asyncio.CancelledError:
        await _give_up(calling, unheard)
        raise
    finally:
        stopping.cancel()
    return None


async def _give_up(calling: "asyncio.Future[T]", unheard: Unheard[T]) -> None:
    """Cancel the call, but not at once: its answer may be on its way."""
    try:
        await asyncio.wait({calling}, timeout=LAST_ANSWER_SECONDS)
    finally:
        calling.cancel()
    await asyncio.wait({calling})
    if not calling.cancelled() and calling.exception() is None:
        await unheard(calling.result())


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
