"""What a run costs besides its command: 50 at a time, each from its trigger to its recorded end."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvloop

from bench.fleet import in_child
from bench.report import Outcome, Table
from bench.suites import Options

_LANES = 50
_COMMAND_SECONDS = 0.5  # so that 50 of them are under way at any time
_COMMAND = ("sleep", str(_COMMAND_SECONDS))


def run(options: Options) -> Outcome:
    turns = 2 if options.quick else 6
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as folder:
        figures = [
            {"subject": "rota", **in_child(_rota, Path(folder), turns)},
            {"subject": "asyncio subprocess", **in_child(_bare, turns)},
        ]
    return Outcome(figures, [Table("Overhead of a run, 50 at a time", _COLUMNS, _rows(figures))])


def _rota(folder: Path, turns: int) -> dict[str, Any]:
    return uvloop.run(_through_rota(folder, turns))


async def _through_rota(folder: Path, turns: int) -> dict[str, Any]:
    from rota.app import open_store
    from rota.journey import Journey
    from rota.model.clock import SystemClock
    from rota.model.fleet import AgentSpec, Fleet, RunSettings, RuntimeKind
    from rota.model.schedules import Schedule, ScheduleType, Trigger, TriggerKind
    from rota.queue.ledger import Ledger
    from rota.runner import LocalRunner
    from rota.runner.admission import Admission
    from rota.scheduler import TriggerInfo
    from rota.sources.manager import WorkSourceManager
    from rota.sources.outbox import Outbox

    settings = RunSettings(runtime=RuntimeKind.COMMAND, command=_COMMAND, working_directory=folder)
    runner = LocalRunner(folder, environ=os.environ, clock=SystemClock())
    async with open_store(str(folder / "rota.db")) as store:
        ledger = Ledger.on(store, node="bench", logs=folder / "runs")
        async with WorkSourceManager() as sources:
            journey = Journey(
                sources, ledger, Admission(store), runner, Outbox(store, ledger, sources), Fleet
            )  # fmt: skip

            async def one(lane: int) -> None:
                agent = AgentSpec(f"agent-{lane}", run=settings)
                plan = Schedule(agent.name, "s", ScheduleType.INTERVAL, timedelta(minutes=1))
                trigger = Trigger("t", agent.name, "s", "slot", TriggerKind.SCHEDULE, "bench", "")
                outcome = await journey.travel(TriggerInfo(agent, plan, trigger))
                assert outcome.outcome == "succeeded", outcome

            figures = await _measured(one, turns)
        recorded = await ledger.runs.find(limit=1_000)
        assert len(recorded) == _LANES * (turns + 1)
    runner.close()
    return figures


def _bare(turns: int) -> dict[str, Any]:
    return uvloop.run(_through_asyncio(turns))


async def _through_asyncio(turns: int) -> dict[str, Any]:
    async def one(_lane: int) -> None:
        process = await asyncio.create_subprocess_exec(
            *_COMMAND, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        await process.communicate()

    return await _measured(one, turns)


async def _measured(one: Callable[[int], Awaitable[None]], turns: int) -> dict[str, Any]:
    """Lanes begin one after another, over the time of one command, so that runs do not move in
    step. The first turn of each lane only warms up."""
    taken: list[float] = []

    async def lane(number: int) -> None:
        await asyncio.sleep(number * _COMMAND_SECONDS / _LANES)
        for turn in range(turns + 1):
            began = time.perf_counter()
            await one(number)
            if turn:
                taken.append(time.perf_counter() - began - _COMMAND_SECONDS)

    await asyncio.gather(*(lane(number) for number in range(_LANES)))
    ordered = sorted(taken)
    return {
        "runs": len(ordered),
        "overhead_p50_ms": round(statistics.median(ordered) * 1e3, 1),
        "overhead_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 1),
    }


_COLUMNS = ("subject", "runs", "overhead p50 ms", "p99 ms", "÷ bare")


def _rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    bare = figures[-1]["overhead_p50_ms"]
    return [
        [
            figure["subject"],
            str(figure["runs"]),
            f"{figure['overhead_p50_ms']:.1f}",
            f"{figure['overhead_p99_ms']:.1f}",
            f"{figure['overhead_p50_ms'] / bare:.1f}×",
        ]
        for figure in figures
    ]
