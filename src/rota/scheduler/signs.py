"""Signs of life during something that takes long, while the scheduler's loop does not run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from rota.model.clock import Clock
from rota.model.errors import StorageError
from rota.scheduler.presence import Presence

log = structlog.get_logger()

LOOK_SECONDS = 1.0
Sleep = Callable[[float], Awaitable[None]]


@asynccontextmanager
async def kept_up(presence: Presence, clock: Clock, sleep: Sleep) -> AsyncIterator[None]:
    over = asyncio.Event()
    keeping = asyncio.create_task(_keep_up(presence, clock, sleep, over), name="presence")
    try:
        yield
    finally:
        over.set()
        # Not cancelled: a sign of life that arrives after `leave` would bring the node back.
        await asyncio.wait([keeping])


async def _keep_up(presence: Presence, clock: Clock, sleep: Sleep, over: asyncio.Event) -> None:
    while not await _is_over(over, sleep):
        try:
            await presence.keep(clock.now())
        except StorageError as error:
            log.warning("a sign of life waits for the database", error=error.message)


async def _is_over(over: asyncio.Event, sleep: Sleep) -> bool:
    """Wait until the next look is due; True if the block has ended."""
    waits = [asyncio.ensure_future(one) for one in (sleep(LOOK_SECONDS), over.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
    return over.is_set()
