"""A run, and the watches that may end it from outside."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from rota.model.runs import RunEnd, RunStatus
from rota.runner.port import Meter

Watch = Coroutine[Any, Any, str]


async def ended_by(
    execution: Coroutine[Any, Any, RunEnd], meter: Meter, watches: Mapping[RunStatus, Watch]
) -> RunEnd:
    """The run's own end, or that of the first watch that returns: the watch gives the reason, and
    the run's meter what was used until then.

    In every case, also when the caller is cancelled, the run is over when this returns.
    """
    running = asyncio.ensure_future(execution)
    watching = {asyncio.ensure_future(watch): status for status, watch in watches.items()}
    try:
        done, _ = await asyncio.wait({running, *watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (running, *watching):
            task.cancel()
        await asyncio.gather(running, *watching, return_exceptions=True)
    if running in done:
        return running.result()
    watch = next(one for one in watching if one in done)
    # Only now: a program that is told to end may still report its usage.
    return meter.charge(RunEnd(watching[watch], error=watch.result()))
