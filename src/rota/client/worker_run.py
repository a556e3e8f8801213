"""One item of a worker: run it, keep its claim meanwhile, and report how it ended.

The same as `rota.journey` does on a server, by calls of the API. A lost claim ends the run, which
then changes nothing. A lost connection ends neither, as long as the lease may still hold.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rota.api.run_wire import LONGEST_SUMMARY
from rota.client.errors import PASSING
from rota.client.retries import Retries
from rota.client.shipping import LogShipping
from rota.model import work
from rota.model.clock import to_text
from rota.model.errors import ClaimLost, NotFound, RotaError
from rota.model.fleet import AgentSpec, Limits
from rota.model.runs import Run, RunEnd, RunStatus
from rota.model.schedules import Schedule, TriggerKind
from rota.prompts import Note, notes_in
from rota.queue.intake import LONGEST
from rota.runner.beside import ended_by
from rota.runner.execution import unbroken
from rota.runner.port import Meter, Runner
from rota.runner.telling import request_for, settings_for
from rota.sources.local_mapping import address_of, clean, item_of, notes_of
from rota.sources.port import ReleaseOptions, WorkItem, WorkResult
from rota.sources.verdicts import MOST_REFUSALS, SHUT_DOWN, not_to_begin, refusals_before, verdict

if TYPE_CHECKING:
    from rota.client import ClaimedItem, WorkQueueClient

log = logging.getLogger("rota.client")
T = TypeVar("T")
Json = dict[str, Any]

CANCEL_SECONDS = 2.0  # between two checks whether somebody wants the run to end
_AGAIN = Retries(base_seconds=0.25, cap_seconds=5.0)
_MOST_ARTIFACTS = 100
_LONGEST_LINE = 4_000


@dataclass(frozen=True, slots=True)
class Equipment:
    """What all runs of a worker share."""

    client: "WorkQueueClient"
    agent: AgentSpec
    schedule: Schedule | None
    runner: Runner
    logs: Path
    limits: Limits  # of one run
    node: str


class WorkerRun:
    def __init__(self, item: "ClaimedItem", equipment: Equipment) -> None:
        self._item = item
        self._with = equipment
        self._client = equipment.client

    async def live(self, began: Callable[[Run], None]) -> tuple[Run, RunEnd] | None:
        """From its start to the verdict on its item; None when it did not begin."""
        try:
            begun = await self._insisting(self._begin)
        except (ClaimLost, NotFound) as error:
            log.warning("%s is not ours any more: %s", self._item.id, error.message)
            return None
        run = run_of(begun)
        began(run)
        path = self._with.logs / f"{run.id}.jsonl"
        shipping = LogShipping(self._client, run.id, path)
        end = await self._worked(run, path, shipping)
        return run, end

    async def _worked(self, run: Run, path: Path, shipping: LogShipping) -> RunEnd:
        beside, meter = asyncio.ensure_future(shipping.follow()), Meter()
        try:
            end = await self._executed(run, path, meter)
        except asyncio.CancelledError:
            end = meter.charge(RunEnd(RunStatus.CANCELLED, error=SHUT_DOWN))
            await unbroken(self._leave(run, path, shipping, beside, end))
            raise
        except Exception as error:  # our own error must not cost the item
            log.exception("run %s failed", run.id)
            why = f"{type(error).__name__}: {error}"
            end = meter.charge(RunEnd(RunStatus.FAILED, error=why))
        await _over(beside)
        await self._conclude(run, path, shipping, end)
        return end

    async def _begin(self) -> Json:
        schedule = self._with.schedule
        return await self._client.begin_run(
            self._with.agent.name,
            self._item.id,
            self._item.lease.token,
            schedule=schedule.name if schedule else None,
            node=self._with.node,
        )

    # while it runs

    async def _executed(self, run: Run, path: Path, meter: Meter) -> RunEnd:
        agent, schedule = self._with.agent, self._with.schedule
        if (over := await not_to_begin(agent.retry, run, self._before)) is not None:
            return over
        resumes = settings_for(agent, schedule).resume_session
        request = request_for(
            agent,
            run,
            path,
            schedule=schedule,
            item=told_item(self._item.data),
            notes=await self._notes(),
            limits=self._with.limits,
            session_id=await self._session(run) if resumes else None,
            meter=meter,
        )
        return await ended_by(
            self._with.runner.execute(request),
            meter,
            {RunStatus.CLAIM_LOST: self._lost(), RunStatus.CANCELLED: self._cancelled(run)},
        )

    async def _before(self, run: Run) -> RunStatus | None:
        with contextlib.suppress(RotaError):  # then it counts as one without a result
            found = await self._client.list_runs(work_item_id=run.work_item_id, limit=2)
            return next((RunStatus(one["status"]) for one in found if one["id"] < run.id), None)
        return None

    async def _notes(self) -> list[Note]:
        """Notes that others have left on the item so far."""
        with contextlib.suppress(RotaError):  # then it has to do without
            events = (await self._client.work_get(self._item.id))["events"]
            return notes_in(
                (one["type"], one["occurred_at"], one["actor"], one["payload"]) for one in events
            )
        return []

    async def _session(self, run: Run) -> str | None:
        """The session of the latest run on this item that had one."""
        with contextlib.suppress(RotaError):  # then it begins a new one
            earlier = await self._client.list_runs(
                agent=run.agent, work_item_id=run.work_item_id, limit=20
            )
            return next((one["session_id"] for one in earlier if one["session_id"]), None)
        return None

    async def _lost(self) -> str:
        """Heartbeats have their own threads, which tell when the claim is lost."""
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        self._item.lease.when_lost(lambda: loop.call_soon_threadsafe(lost.set))
        await lost.wait()
        return "its claim was lost"

    async def _cancelled(self, run: Run) -> str:
        while True:
            await asyncio.sleep(CANCEL_SECONDS)
            with contextlib.suppress(RotaError):  # no answer: the run goes on
                if (await self._client.get_run(run.id))["cancel_requested"]:
                    return "somebody asked for its end"

    # when it has ended

    async def _conclude(self, run: Run, path: Path, shipping: LogShipping, end: RunEnd) -> None:
        """Send the log, the end of the run, and the verdict on the item. Errors in the first two
        must not prevent the third."""
        await self._tell(run, path, shipping, end, self._insisting)
        said = verdict(
            end,
            self._with.agent.retry,
            self._item.server_time,
            run.attempt,
            self._item["max_attempts"],
            review_gate=self._with.agent.review_gate,
            refusals=await self._refusals(run) if end.usage_limit else 0,
        )
        if said is None:
            return
        try:  # also if the lease is over by our own clock: the server keeps a late result
            await self._deliver(said)
        except RotaError as error:
            log.error("the verdict on %s was refused: %s", self._item.id, error.message)  # noqa: TRY400
            await self._item.give_back("report_refused")

    async def _refusals(self, run: Run) -> int:
        with contextlib.suppress(RotaError):  # then it counts as the first
            found = await self._client.list_runs(
                agent=run.agent, work_item_id=run.work_item_id, limit=MOST_REFUSALS + 1
            )
            return refusals_before(run, [_past(one) for one in found if one["id"] < run.id])
        return 0

    async def _leave(
        self,
        run: Run,
        path: Path,
        shipping: LogShipping,
        beside: "asyncio.Future[None]",
        end: RunEnd,
    ) -> None:
        """On shutdown: everything is tried only once."""
        await _over(beside)
        await self._tell(run, path, shipping, end, _once)
        await self._item.give_back(SHUT_DOWN, counted=False)

    async def _tell(
        self, run: Run, path: Path, shipping: LogShipping, end: RunEnd, how: "Persistence"
    ) -> None:
        body = end_body(end, self._with.agent)
        try:
            if await how(shipping.finish):
                await asyncio.to_thread(path.unlink, missing_ok=True)
            await how(lambda: self._client.end_run(run.id, body))
        except RotaError as error:
            log.warning("run %s: its end was not recorded: %s", run.id, error.message)

    async def _deliver(self, said: WorkResult | ReleaseOptions) -> bool:
        if isinstance(said, ReleaseOptions):
            why = said.reason or ""
            return await self._item.release(
                clean(why, LONGEST["reason"]),
                notes=clean(why, LONGEST["notes"]) if said.add_comment else None,
                available_at=to_text(said.not_before) if said.not_before else None,
                counted=said.counted,
            )
        notes, address = notes_of(said), address_of(said)
        if said.review and address:
            return await self._item.hand_over(address, notes)
        if said.outcome == "success":
            return await self._item.complete(notes, address)
        if said.outcome == "failure":
            return await self._item.fail(notes, address)
        return await self._item.block(notes)

    async def _insisting(self, call: Callable[[], Awaitable[T]]) -> T:
        """Retry until the server has answered, or the lease has lapsed by our own clock."""
        attempt = 1
        while True:
            try:
                return await call()
            except PASSING as error:
                if self._item.lease.lapsed or self._item.lost:
                    raise
                log.warning("the server is asked again: %s", error.message)
                await asyncio.sleep(_AGAIN.pause(attempt, error))
                attempt += 1


Persistence = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


async def _over(task: "asyncio.Future[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _once(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


def _past(data: Json) -> Run:
    return replace(run_of(data), status=RunStatus(data["status"]))


def run_of(data: Json) -> Run:
    """As much of the run as its own process is told."""
    return Run(
        data["id"],
        data["agent"],
        data["schedule"],
        TriggerKind(data["trigger"]),
        data["trigger_id"],
        data["node"],
        data["work_item_id"],
        data["epoch"],
        data["item_title"],
        data["attempt"],
        data["started_at"],
    )


def told_item(data: Json) -> WorkItem:
    """The item exactly as the source `queue` shows it, so that the prompt is the same."""
    known: Json = {one.name: data.get(one.name) for one in dataclasses.fields(work.WorkItem)}
    known["labels"] = tuple(data["labels"])
    return item_of(work.WorkItem(**known))


def end_body(end: RunEnd, agent: AgentSpec) -> Json:
    """The body of `POST /runs/{id}/end`."""
    return {
        "status": str(end.status),
        "summary": clean(end.summary, LONGEST_SUMMARY),
        "artifacts": _short(end.artifacts),
        "error": clean(end.error, LONGEST_SUMMARY) if end.error else None,
        "exit_code": end.exit_code,
        "session_id": clean(end.session_id, _LONGEST_LINE) if end.session_id else None,
        "input_tokens": end.usage.input_tokens,
        "output_tokens": end.usage.output_tokens,
        "cost_usd": end.usage.cost_usd,
        "turns": end.usage.turns,
        "hook_errors": _short(end.hook_errors),
        "usage_limit": end.usage_limit,
        "usage_limit_until": end.usage_limit_until,
        "limits": {
            "breaker_failures": agent.breaker.failures,
            "breaker_cooldown_seconds": agent.breaker.cooldown.total_seconds(),
            "pause_on_usage_limit": agent.pause_on_usage_limit,
        },
    }


def _short(lines: tuple[str, ...]) -> list[str]:
    return [clean(line, _LONGEST_LINE) for line in lines[:_MOST_ARTIFACTS]]
