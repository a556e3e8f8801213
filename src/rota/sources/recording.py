"""Records the end of a run, together with the report on its item."""

import asyncio
from dataclasses import dataclass, replace

from rota.model.errors import InvalidInput, StorageUnavailable
from rota.model.fleet import AgentSpec
from rota.model.runs import OutboxEntry, Run, RunEnd, RunFilter
from rota.queue.ledger import Ledger
from rota.sources.holding import Taken
from rota.sources.outbox import letter
from rota.sources.port import ReleaseOptions, WorkResult
from rota.sources.verdicts import MOST_REFUSALS, refusals_before, verdict

RETRY_SECONDS = 1.0
UNTOLD = "(what it said cannot be stored)"


@dataclass(frozen=True, slots=True)
class Recorder:
    ledger: Ledger

    async def record(
        self, agent: AgentSpec, run: Run, taken: Taken | None, end: RunEnd
    ) -> list[OutboxEntry]:
        """Returns the reports to deliver now. Waits while the database is unavailable, because
        nobody else knows how the run ended. Text that the database refuses is omitted: the end
        itself must be recorded."""
        plain = _plain(end)
        while True:
            try:
                said = await self._said(agent, run, taken, end) if taken is not None else None
                letters = (
                    [letter(run, taken, said, self.ledger.clock.now())] if taken and said else []
                )
                ended = await self.ledger.runs.end(run, end, agent, letters)
            except StorageUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            except InvalidInput:
                if end == plain:
                    raise
                end = plain
            else:
                return letters if ended is not None else []

    async def _said(
        self, agent: AgentSpec, run: Run, taken: Taken, end: RunEnd
    ) -> WorkResult | ReleaseOptions | None:
        most = None
        if taken.ledger_id:
            most = (await self.ledger.views.item(taken.ledger_id)).max_attempts
        return verdict(
            end,
            agent.retry,
            self.ledger.clock.now(),
            run.attempt,
            most,
            review_gate=agent.review_gate,
            refusals=await self._refusals(run) if end.usage_limit else 0,
        )

    async def _refusals(self, run: Run) -> int:
        if run.work_item_id is None:
            return 0
        wanted = RunFilter(agent=run.agent, work_item_id=run.work_item_id, before=run.id)
        return refusals_before(run, await self.ledger.runs.find(wanted, MOST_REFUSALS))


def _plain(end: RunEnd) -> RunEnd:
    """The same end without text that a database may refuse. Plain ASCII addresses stay: a pull
    request among them makes the item wait for a review."""
    return replace(
        end,
        summary=_told(end.summary),
        error=_told(end.error) if end.error else None,
        artifacts=tuple(one for one in end.artifacts if _is_plain(one)),
        hook_errors=tuple(_told(one) for one in end.hook_errors),
        session_id=end.session_id if end.session_id and _is_plain(end.session_id) else None,
    )


def _told(text: str) -> str:
    return text if _is_plain(text) else UNTOLD


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
