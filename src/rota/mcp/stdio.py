"""One conversation over standard input and output, for as long as its agent lives."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import structlog
from mcp.server.stdio import stdio_server

from rota.mcp.seat import Seat
from rota.mcp.server import make_server
from rota.mcp.unreadable import Answering
from rota.model.errors import ClaimLost, RotaError

log = structlog.get_logger()

LONGEST_PAUSE = 1.0  # the agent may claim something with a short lease meanwhile


async def serve(seat: Seat, ledger: str, seen_at: Callable[[], float]) -> None:
    """`seen_at`: when the agent was last seen at work outside this conversation."""
    server = make_server(seat, ledger)
    keeping = asyncio.create_task(keep(seat, seen_at), name="keep claims")
    try:
        async with stdio_server() as (read, write):
            readable = Answering(read, write)
            await server.run(readable, write, server.create_initialization_options())
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def keep(seat: Seat, seen_at: Callable[[], float]) -> None:
    """Extends claims while their agent shows signs of life, and no longer: an agent that hangs or
    has crashed must lose them. Nothing is given back at the end of a conversation, because a client
    may just be restarting its servers."""
    while True:
        await asyncio.sleep(min(seat.holdings.shortest_lease / 6, LONGEST_PAUSE))
        await refresh(seat, max(seat.called_at, seen_at()))


async def refresh(seat: Seat, alive_at: float) -> None:
    for item_id, token in seat.holdings.due(alive_at):
        try:
            await seat.client.heartbeat(item_id, token)
            seat.holdings.beaten(item_id)
        except ClaimLost:
            seat.holdings.lose(item_id)
        except RotaError as error:  # the server may come back, or the lease runs out
            log.warning("claim not kept", item=item_id, error=error.message)


def monotonic_of(wall_time: float) -> float:
    """A file's time on the monotonic clock."""
    return time.monotonic() - max(0.0, time.time() - wall_time)
