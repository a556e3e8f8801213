"""Chores of a server that runs agents, beside its scheduler."""

import asyncio
from collections.abc import Awaitable, Callable

from rota.model.clock import Hindsight
from rota.queue.ledger import Ledger
from rota.runner.records import RunBook
from rota.sources.outbox import Outbox


class Cancelling:
    """Hears of runs that somebody wants to end through another server."""

    name = "cancelling"

    def __init__(self, runs: RunBook) -> None:
        self._runs = runs

    async def tick(self) -> float:
        await self._runs.look_for_cancels()
        return 1.0


class Housekeeping:
    name = "housekeeping"

    def __init__(
        self, ledger: Ledger, outbox: Outbox, let_go: Callable[[], Awaitable[None]]
    ) -> None:
        self._runs = ledger.runs
        self._outbox = outbox
        self._let_go = let_go
        self._hindsight = Hindsight(ledger.clock)

    async def tick(self) -> float:
        await self._let_go()
        now = self._hindsight.look()
        if now is not None:
            await self._outbox.prune(now)
            await asyncio.to_thread(self._runs.prune_logs, now)
        return 3600.0
