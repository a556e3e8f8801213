"""The end of a run is recorded: together with what is to be reported of its item."""

import asyncio
from dataclasses import dataclass

from rota.model.clock import Clock
from rota.model.errors import StorageUnavailable
from rota.model.fleet import AgentSpec
from rota.model.runs import OutboxEntry, Run, RunEnd
from rota.queue.ledger import Ledger
from rota.runner.records import RunBook
from rota.sources.holding import Taken
from rota.sources.outbox import letter
from rota.sources.port import ReleaseOptions, WorkResult
from rota.sources.verdicts import verdict

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Recorder:
    ledger: Ledger
    runs: RunBook
    clock: Clock

    async def record(
        self, agent: AgentSpec, run: Run, taken: Taken | None, end: RunEnd
    ) -> list[OutboxEntry]:
        """What is to be delivered now. A database that is away is waited for: nobody else knows
        how it ended."""
        while True:
            try:
                said = await self._said(agent, run, taken, end) if taken is not None else None
                letters = [letter(run, taken, said, self.clock.now())] if taken and said else []
                ended = await self.runs.end(run, end, agent, letters)
            except StorageUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return letters if ended is not None else []

    async def _said(
        self, agent: AgentSpec, run: Run, taken: Taken, end: RunEnd
    ) -> WorkResult | ReleaseOptions | None:
        most = None
        if taken.ledger_id:
            most = (await self.ledger.views.item(taken.ledger_id)).max_attempts
        gate = agent.review_gate
        now = self.clock.now()
        return verdict(end, agent.retry, now, run.attempt, most, review_gate=gate)
