"""What a claim costs as the queue behind it grows. It should stay flat. Only Rota is measured."""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import uvloop

from bench import rota_side
from bench.cell import Place
from bench.fleet import in_child
from bench.lanes import cpu_seconds
from bench.places import both_databases
from bench.report import Outcome, Table
from bench.server import settle
from bench.suites import Options

_BATCH = 50
_AGENT = "depth"
_RARE = ("rare",)  # the label of one item, behind all the others


def run(options: Options) -> Outcome:
    depths = (1_000, 100_000) if options.quick else (1_000, 100_000, 1_000_000)
    samples = 100 if options.quick else 400
    figures: list[dict[str, Any]] = []
    for database, place in both_databases(options.directory):
        measured = in_child(_measure, place, depths, samples)
        figures += [{"database": database, **one, **_ratios(one, measured[0])} for one in measured]
    return Outcome(figures, [Table("Cost of a claim by depth", _COLUMNS, list(map(_row, figures)))])


def _measure(place: Place, depths: tuple[int, ...], samples: int) -> list[dict[str, Any]]:
    return uvloop.run(_climb(place, depths, samples))


async def _climb(place: Place, depths: tuple[int, ...], samples: int) -> list[dict[str, Any]]:
    """One queue that is filled further and further; items that a sample completes are replaced."""
    found = []
    queued = 0
    async with rota_side.opened(place) as queue:
        await rota_side.allow(queue, _AGENT, _BATCH)
        for depth in depths:
            await rota_side.fill(queue, depth - queued)
            queued = depth
            _settle(place)
            await _claims(queue, 1, samples // 10)  # warms caches and prepared statements
            single = await _claims(queue, 1, samples)
            batch = await _claims(queue, _BATCH, samples // 5)
            await rota_side.submit_many(queue, 1, _RARE)
            rare = await _claims(queue, 1, samples, _RARE)
            found.append({"depth": depth, "single": single, "batch": batch, "rare": rare})
    return found


def _settle(place: Place) -> None:
    if place.url:
        settle(place.url)
    os.sync()
    time.sleep(1)


async def _claims(
    queue: Any, limit: int, samples: int, labels: tuple[str, ...] = ()
) -> dict[str, float]:
    """Times only the claim; completion and replacement happen between the samples."""
    wall, cpu = [], []
    for _ in range(samples):
        burnt, started = cpu_seconds(), time.perf_counter()
        held = await rota_side.claim(queue, _AGENT, limit, labels=labels)
        wall.append((time.perf_counter() - started) / len(held))
        cpu.append((cpu_seconds() - burnt) / len(held))
        await rota_side.complete_many(queue, _AGENT, held)
        await rota_side.submit_many(queue, len(held), labels)
    return {
        "p50_us": round(statistics.median(wall) * 1e6, 1),
        "p99_us": round(sorted(wall)[int(samples * 0.99)] * 1e6, 1),
        "cpu_us": round(statistics.mean(cpu) * 1e6, 1),
    }


def _ratios(one: dict[str, Any], smallest: dict[str, Any]) -> dict[str, float]:
    return {
        f"{kind}_ratio": round(one[kind]["p50_us"] / smallest[kind]["p50_us"], 2)
        for kind in ("single", "batch", "rare")
    }


_COLUMNS = (
    "queued",
    "claim p50 µs",
    "p99 µs",
    "CPU µs",
    "÷ smallest",
    f"batch of {_BATCH}: µs/item",
    "CPU µs",
    "÷ smallest",
    "by a rare label: µs",
    "÷ smallest",
)


def _row(figure: dict[str, Any]) -> list[str]:
    single, batch = figure["single"], figure["batch"]
    return [
        f"{figure['database']}: {figure['depth']:,}",
        f"{single['p50_us']:,.0f}",
        f"{single['p99_us']:,.0f}",
        f"{single['cpu_us']:,.0f}",
        f"{figure['single_ratio']:.2f}×",
        f"{batch['p50_us']:,.1f}",
        f"{batch['cpu_us']:,.1f}",
        f"{figure['batch_ratio']:.2f}×",
        f"{figure['rare']['p50_us']:,.0f}",
        f"{figure['rare_ratio']:.2f}×",
    ]
