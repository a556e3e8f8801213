"""One item from its source to its report, from top to bottom: the module to read first.

A schedule has triggered. May its agent run at all? Is there work? Then an item is claimed and the
agent runs on it while the claim is kept alive. The end is recorded together with its report, and
the report is delivered. Signals and notifications then follow from the events.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from rota.model.errors import RotaError, StorageError
from rota.model.fleet import Fleet
from rota.model.runs import Run, RunEnd, RunStatus
from rota.model.schedules import SkipReason
from rota.queue.ledger import Ledger
from rota.runner.admission import Admission
from rota.runner.beside import ended_by
from rota.runner.budget import tighter
from rota.runner.port import Meter, Runner
from rota.runner.telling import request_for, settings_for
from rota.scheduler import TriggerInfo, TriggerOutcome
from rota.sources import holding
from rota.sources.holding import Sourced, Taken
from rota.sources.manager import WorkSourceManager
from rota.sources.outbox import Outbox
from rota.sources.recording import Recorder
from rota.sources.verdicts import SHUT_DOWN, not_to_begin
from rota.tracing import note, span

log = structlog.get_logger()


@dataclass(frozen=True)
class Journey:
    sources: WorkSourceManager
    ledger: Ledger
    admission: Admission
    runner: Runner
    outbox: Outbox
    fleet: Callable[[], Fleet]

    async def travel(self, info: TriggerInfo) -> TriggerOutcome:
        source = info.schedule.work_source or info.agent.work_source
        refusal = await self.admission.refusal(info.agent, for_an_item=source is not None)
        if refusal is not None:
            return TriggerOutcome.skipped(refusal.reason, refusal.detail)
        if source is None:
            return await self._work(info, None)
        agent = Sourced(info.agent.name, source)
        try:
            found = await self.sources.get_next_work_item(agent)
        except RotaError as error:
            return TriggerOutcome.skipped(SkipReason.SOURCE_ERROR, error.message)
        taken = holding.taken_of(agent, found)
        if taken is None:
            return TriggerOutcome.skipped(*holding.why_nothing(found))
        return await self._work(info, taken)

    async def _work(self, info: TriggerInfo, taken: Taken | None) -> TriggerOutcome:
        run, meter = None, Meter()
        try:
            run = await self._begin(info, taken)
            log.info("run begins", run=run.id, agent=run.agent, item=run.work_item_id)
            with span("run", run=run.id, agent=run.agent, item=run.work_item_id) as current:
                end = await self._execute(info, run, taken, meter)
                note(current, status=str(end.status), cost_usd=end.usage.cost_usd)
        except asyncio.CancelledError:
            end = meter.charge(RunEnd(RunStatus.CANCELLED, error=SHUT_DOWN))
            await asyncio.shield(self._conclude(info, run, taken, end))
            raise
        except Exception as error:  # an unexpected error must not leave the item stuck
            why = f"{type(error).__name__}: {error}"
            end = meter.charge(RunEnd(RunStatus.FAILED, error=why))
            await self._conclude(info, run, taken, end)
            raise
        await self._conclude(info, run, taken, end)
        said = log.info if _error(end) is None else log.warning
        said("run ended", run=run.id, agent=run.agent, status=end.status, error=_error(end))
        item = taken.item if taken is not None else None
        return TriggerOutcome(end.status, error=_error(end), work_item=item)

    async def _begin(self, info: TriggerInfo, taken: Taken | None) -> Run:
        claimed = taken.ledger_id if taken else None
        return await self.ledger.runs.begin(
            info.agent.name,
            info.trigger.kind,
            schedule=info.schedule.name,
            trigger_id=info.trigger.id,
            item=await self.ledger.views.item(claimed) if claimed else None,
            title=taken.item.title if taken is not None else None,
        )

    async def _execute(
        self, info: TriggerInfo, run: Run, taken: Taken | None, meter: Meter
    ) -> RunEnd:
        if (over := await not_to_begin(info.agent.retry, run, self.ledger.runs.before)) is not None:
            return over
        resumes = settings_for(info.agent, info.schedule).resume_session
        request = request_for(
            info.agent,
            run,
            self.ledger.runs.log(run.id),
            schedule=info.schedule,
            trigger=info.trigger,
            item=taken.item if taken is not None else None,
            claim=taken.number if taken is not None else None,
            notes=await holding.notes_so_far(self.ledger, taken.ledger_id if taken else None),
            limits=tighter(info.agent.budget.per_run, self.fleet().budget.per_run),
            session_id=await self.ledger.runs.session(run) if resumes else None,
            meter=meter,
        )
        return await ended_by(
            self.runner.execute(request),
            meter,
            {
                RunStatus.CLAIM_LOST: holding.until_lost(self.ledger, taken),
                RunStatus.CANCELLED: self._cancelled(run),
            },
        )

    async def _cancelled(self, run: Run) -> str:
        await self.ledger.runs.asked(run).wait()
        return "somebody asked for its end"

    async def _conclude(
        self, info: TriggerInfo, run: Run | None, taken: Taken | None, end: RunEnd
    ) -> None:
        """Record the end together with its reports, then deliver those."""
        if run is None:  # the run could not even be recorded: nobody has worked
            await holding.give_back(self.sources, taken, end.error)
            return
        recorder = Recorder(self.ledger)
        letters = await recorder.record(info.agent, run, taken, end)
        if taken and not letters:  # there is nothing more to report to its source
            await self.sources.let_go(taken.item.id, agent=taken.agent, claim=taken.claim)
        for one in letters:
            with suppress(StorageError):  # the outbox tries it again
                await self.outbox.deliver(one)


def _error(end: RunEnd) -> str | None:
    failed = end.status not in (RunStatus.SUCCEEDED, RunStatus.PARTIAL)
    return (end.error or end.summary or str(end.status)) if failed else None
