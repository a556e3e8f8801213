"""A run, and what may end it from outside."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from rota.model.runs import RunEnd, RunStatus

Watch = Coroutine[Any, Any, str]


async def ended_by(
    execution: Coroutine[Any, Any, RunEnd], watches: Mapping[RunStatus, Watch]
) -> RunEnd:
    """The run's own end, or that of the first watch that returns: it says why.

    Whichever it is, and also when the caller is cancelled, the run is over when this returns.
    """
    running = asyncio.ensure_future(execution)
    watching = {asyncio.ensure_future(watch): status for status, watch in watches.items()}
    try:
        await asyncio.wait({running, *watching}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        watch = next(one for one in watching if one.done())
        return RunEnd(watching[watch], error=watch.result())
    finally:
        for task in (running, *watching):
            task.cancel()
        await asyncio.gather(running, *watching, return_exceptions=True)
