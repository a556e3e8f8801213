"""How long an item waits for an idle worker, and what that worker costs while it waits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import uvloop

from bench import rota_side
from bench.cell import Place
from bench.fleet import in_child
from bench.lanes import cpu_seconds
from bench.places import both_databases
from bench.report import Outcome, Table
from bench.suites import Options

_AGENT = "waiter"
_WAIT_SECONDS = 30.0
_PAUSE = 0.01  # between samples: the worker waits again, and the queue is idle


def run(options: Options) -> Outcome:
    samples = 100 if options.quick else 500
    idle_seconds = 2.0 if options.quick else 5.0
    figures = [
        {"database": database, **in_child(_measure, place, samples, idle_seconds)}
        for database, place in both_databases(options.directory)
    ]
    return Outcome(
        figures, [Table("Pick-up by a waiting worker", _COLUMNS, list(map(_row, figures)))]
    )


def _measure(place: Place, samples: int, idle_seconds: float) -> dict[str, Any]:
    return uvloop.run(_watch(place, samples, idle_seconds))


async def _watch(place: Place, samples: int, idle_seconds: float) -> dict[str, Any]:
    async with rota_side.opened(place) as queue:
        pairs = await _pick_ups(queue, samples)
        idle = await _idle_share(queue, idle_seconds)
    return {
        "samples": samples,
        "from_call_ms": _percentiles([from_call for from_call, _ in pairs]),
        "from_answer_ms": _percentiles([from_answer for _, from_answer in pairs]),
        "idle_cpu_percent": round(idle * 100, 2),
    }


async def _pick_ups(queue: Any, samples: int) -> list[tuple[float, float]]:
    """Seconds from the submit's call, and from its answer, to the claim's answer.

    The second may be negative, because one commit wakes both worker and submitter.
    """
    claimed: asyncio.Queue[float] = asyncio.Queue()
    worker = asyncio.create_task(_worker(queue, claimed))
    pairs = []
    for _ in range(samples):
        await asyncio.sleep(_PAUSE)
        called = time.perf_counter()
        await rota_side.submit(queue)
        answered = time.perf_counter()
        at = await claimed.get()
        pairs.append((at - called, at - answered))
    worker.cancel()
    await asyncio.wait([worker])
    return pairs


async def _worker(queue: Any, claimed: asyncio.Queue[float]) -> None:
    while True:
        held = await rota_side.claim(queue, _AGENT, wait_seconds=_WAIT_SECONDS)
        if held:
            at = time.perf_counter()
            await rota_side.complete(queue, _AGENT, held)
            claimed.put_nowait(at)


async def _idle_share(queue: Any, seconds: float) -> float:
    """CPU of the whole process, as a share of one core, while its only worker waits."""
    waiting = asyncio.create_task(rota_side.claim(queue, "idler", wait_seconds=_WAIT_SECONDS))
    await asyncio.sleep(0.5)
    burnt = cpu_seconds()
    await asyncio.sleep(seconds)
    burnt = cpu_seconds() - burnt
    waiting.cancel()
    await asyncio.wait([waiting])
    return burnt / seconds


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        name: round(ordered[int(len(ordered) * share)] * 1e3, 3)
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


_COLUMNS = (
    "database",
    "submit called → claimed p50 ms",
    "p99 ms",
    "submit answered → claimed p50 ms",
    "p99 ms",
    "idle CPU",
)


def _row(figure: dict[str, Any]) -> list[str]:
    called, answered = figure["from_call_ms"], figure["from_answer_ms"]
    return [
        figure["database"],
        f"{called['p50']:.2f}",
        f"{called['p99']:.2f}",
        f"{answered['p50']:.2f}",
        f"{answered['p99']:.2f}",
        f"{figure['idle_cpu_percent']:.2f} %",
    ]
