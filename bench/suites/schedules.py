"""What schedules cost: a pass when nothing is due, idling, a thousand at once, lateness."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop

from bench.cell import Place
from bench.fleet import in_child
from bench.lanes import cpu_seconds
from bench.peers import apscheduler3
from bench.places import both_databases
from bench.report import Outcome, Table
from bench.suites import Options

_DUE = 1_000
_PER_MINUTE = 1_000


def run(options: Options) -> Outcome:
    sizes = (10, 1_000) if options.quick else (10, 1_000, 100_000)
    seconds = 5.0 if options.quick else 60.0
    figures: list[dict[str, Any]] = []
    for database, place in both_databases(options.directory):
        figures.append({"subject": f"rota, {database}", **in_child(_rota, place, sizes, seconds)})
        name = f"apscheduler, sqlalchemy, {database}"
        figures.append({"subject": name, **in_child(_peer, place, sizes, seconds)})
    memory = in_child(_peer, None, sizes, seconds)
    figures.append({"subject": "apscheduler, memory", **memory})
    return Outcome(
        figures,
        [Table("Schedules", _columns(sizes), [_row(one, sizes) for one in figures])],
        {"rota": "A trigger is a row, its end another write; on disk before the next check.",
         **apscheduler3.CONFIGURATION},
    )  # fmt: skip


# Rota


def _rota(place: Place, sizes: tuple[int, ...], seconds: float) -> dict[str, Any]:
    return uvloop.run(_measure(place, sizes, seconds))


async def _measure(place: Place, sizes: tuple[int, ...], seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"idle": {}}
    for size in sizes:
        async with _emptied(place) as store:
            found["idle"][str(size)] = await _idle(store, size, found, min(seconds, 10.0))
    async with _emptied(place) as store:
        found["due_seconds"] = round(await _due(store), 3)
    async with _emptied(place) as store:
        found |= _quantiles(await _lateness(store, seconds))
    return found


@asynccontextmanager
async def _emptied(place: Place) -> AsyncIterator[Any]:
    from rota.app import open_store

    url = place.url or str(place.directory / "rota.db")
    async with open_store(url) as store:
        for table in ("triggers", "schedules", "nodes"):
            text = f"DELETE FROM {table}"  # noqa: S608 - names of our own
            await store.transact(lambda tx, text=text: tx._text(text, {}))  # type: ignore[misc]
        yield store


def _agents(size: int, **schedule: Any) -> list[Any]:
    """Ten schedules per agent, with times all over next year."""
    from rota.model.fleet import AgentSpec
    from rota.model.schedules import Schedule, ScheduleType

    def one(agent: int, n: int) -> Schedule:
        facts = schedule or {
            "type": ScheduleType.CRON,
            "cron": f"{n % 60} {n // 60 % 24} {1 + n % 28} {1 + (n // 7) % 12} *",
        }
        return Schedule(f"agent-{agent}", f"s{n}", **facts)

    return [
        AgentSpec(
            f"agent-{start // 10}",
            schedules=tuple(one(start // 10, n) for n in range(start, min(start + 10, size))),
            max_concurrent=1_000,
        )
        for start in range(0, size, 10)
    ]


async def _idle(store: Any, size: int, found: dict[str, Any], seconds: float) -> dict[str, float]:
    from rota.scheduler import Scheduler

    gc.collect()
    before = _resident()
    scheduler = Scheduler(store, node="bench")
    await scheduler.open(_agents(size))
    gc.collect()
    found["bytes_per_schedule"] = round((_resident() - before) / size)
    await scheduler.tick()
    taken = []
    for _ in range(300):
        began = time.perf_counter()
        await scheduler.tick()
        taken.append(time.perf_counter() - began)
    burnt, began = cpu_seconds(), time.perf_counter()
    stopping = asyncio.Event()
    loop = asyncio.create_task(scheduler.run(stopping))
    await asyncio.sleep(seconds)
    stopping.set()
    await loop
    found["idle_cpu_percent"] = round(
        100 * (cpu_seconds() - burnt) / (time.perf_counter() - began), 2
    )
    await scheduler.stop()
    return {"p50_us": round(statistics.median(taken) * 1e6, 1)}


async def _due(store: Any) -> float:
    from rota.model.schedules import ScheduleType
    from rota.scheduler import Scheduler

    scheduler = Scheduler(store, node="bench")
    every = {"type": ScheduleType.INTERVAL, "interval": timedelta(days=1)}
    await scheduler.open(_agents(_DUE, **every))
    began = time.perf_counter()
    await scheduler.tick()
    await scheduler.idle()
    taken = time.perf_counter() - began
    assert scheduler.get_state().trigger_count == _DUE
    await scheduler.stop()
    return taken


async def _lateness(store: Any, seconds: float) -> list[float]:
    from rota.model.clock import to_text
    from rota.model.schedules import ScheduleType
    from rota.scheduler import Scheduler, TriggerInfo

    late: list[float] = []

    async def note(info: TriggerInfo) -> None:
        slot = datetime.fromisoformat(info.trigger.slot)
        late.append((datetime.now(UTC) - slot).total_seconds())

    scheduler = Scheduler(store, node="bench", on_trigger=note)
    every = {"type": ScheduleType.INTERVAL, "interval": timedelta(seconds=60)}
    agents = _agents(_PER_MINUTE, **every)
    await scheduler.open(agents)
    first = datetime.now(UTC) + timedelta(seconds=2)

    def spread(tx: Any) -> None:
        for n, one in enumerate(one for agent in agents for one in agent.schedules):
            slot = to_text(first + timedelta(seconds=60) * n / _PER_MINUTE)
            tx.change_schedule(one.agent, one.name, {"slot": slot, "next_at": slot})

    await store.transact(spread)
    stopping = asyncio.Event()
    loop = asyncio.create_task(scheduler.run(stopping))
    await asyncio.sleep(seconds + 2)
    stopping.set()
    await loop
    await scheduler.stop()
    return late


# the peer


def _peer(place: Place | None, sizes: tuple[int, ...], seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"idle": {}}
    for size in sizes:
        if place is not None and size > 10_000:
            continue  # each job is added by its own commit, which would take minutes
        samples = apscheduler3.idle_passes(_fresh(place, f"idle-{size}"), size, 100)
        found["idle"][str(size)] = {"p50_us": round(statistics.median(samples) * 1e6, 1)}
    found["due_seconds"] = round(apscheduler3.due_at_once(_fresh(place, "due"), _DUE), 3)
    late = apscheduler3.lateness(_fresh(place, "late"), _PER_MINUTE, seconds)
    return found | _quantiles(late)


def _fresh(place: Place | None, name: str) -> Place | None:
    """A new directory on SQLite; on PostgreSQL the job table is emptied."""
    if place is None:
        return None
    if not place.url:
        folder = place.directory / name
        folder.mkdir()
        return Place(folder)
    import psycopg

    with psycopg.connect(place.url, autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS apscheduler_jobs")
    return place


def _quantiles(late: list[float]) -> dict[str, Any]:
    ordered = sorted(late)
    if not ordered:
        return {"triggers": 0, "late_p50_ms": None, "late_p99_ms": None}
    return {
        "triggers": len(ordered),
        "late_p50_ms": round(statistics.median(ordered) * 1e3, 2),
        "late_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 2),
    }


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _columns(sizes: tuple[int, ...]) -> list[str]:
    idle = [f"idle pass of {size:,}: µs" for size in sizes]
    return ["subject", *idle, "idle CPU %", "bytes each", f"{_DUE:,} due: s", "late p50 ms", "p99"]


def _row(figure: dict[str, Any], sizes: tuple[int, ...]) -> list[str]:
    idle = [figure["idle"].get(str(size), {}).get("p50_us", "") for size in sizes]
    rest = ("idle_cpu_percent", "bytes_per_schedule", "due_seconds", "late_p50_ms", "late_p99_ms")
    return [figure["subject"], *map(str, idle), *(str(figure.get(name, "")) for name in rest)]
