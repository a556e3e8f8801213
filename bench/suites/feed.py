"""The live feed of `rota up`: from a commit to the clients that follow, and what many clients cost.

The server is one process and all clients are another; on two cores they compete.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench import rota_side
from bench.fleet import in_child
from bench.places import both_databases
from bench.report import Outcome, Table
from bench.suites import Options

_NOTE = 90_000  # characters of a large event
_SECONDS = 600.0


def run(options: Options) -> Outcome:
    samples, crowd, moves = (100, 50, 60) if options.quick else (1_000, 1_000, 1_000)
    silent, idle = (20, 100) if options.quick else (1_000, 10_000)
    figures = []
    for database, place in both_databases(options.directory):
        with (
            tempfile.TemporaryDirectory(prefix="bench-state-") as state,
            rota_side.up(place, Path(state)) as server,
        ):
            figure: dict[str, Any] = {"database": database}
            figure["event_ms"] = in_child(_latency, server.port, samples, False)
            figure["signal_ms"] = in_child(_latency, server.port, samples, True)
            for name, work, count in (
                ("crowd", _crowd, (crowd, moves)),
                ("silent", _silent, (silent,)),
                ("idle", _idle, (idle,)),
            ):
                before = _memory_mb(server.process.pid)
                figure[name] = in_child(work, server.port, *count, server.process.pid)
                figure[name]["memory_mb_before"] = before
            figures.append(figure)
    return Outcome(figures, [_latencies(figures), _crowds(figures)])


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return round(int(line.split()[1]) / 1024, 1)


# a client


class _Client:
    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []

    async def ask(self, kind: str, **payload: Any) -> Any:
        number = f"{next(self._numbers)}"
        frame = {"request_id": number, "type": kind, "payload": payload}
        await self.connection.send(json.dumps(frame))
        while True:
            heard = json.loads(await self.connection.recv())
            if heard.get("request_id") == number:
                assert heard["ok"], heard
                return heard["result"]
            self._events.append(heard)

    async def event(self) -> dict[str, Any]:
        if self._events:
            return self._events.pop(0)
        found: dict[str, Any] = json.loads(await self.connection.recv())
        return found


@asynccontextmanager
async def _client(port: int, **options: Any) -> AsyncIterator[_Client]:
    from websockets.asyncio.client import connect

    how = {"proxy": None, "compression": None, "open_timeout": 60, "ping_interval": None, **options}
    async with connect(f"ws://127.0.0.1:{port}/ws", **how) as connection:
        yield _Client(connection)


# from a commit to a client


def _latency(port: int, samples: int, by_signal: bool) -> dict[str, float]:
    return uvloop.run(_measured(port, samples, by_signal))


async def _measured(port: int, samples: int, by_signal: bool) -> dict[str, float]:
    """From the answer to the writer, which comes right after the commit, to the event."""
    taken = []
    kind = "work.signal.fired" if by_signal else "work.dispatched"
    async with _client(port) as writer, _client(port) as reader:
        await reader.ask("subscribe", types=[kind])
        for _ in range(samples):
            item = (await writer.ask("work.create", type="bench", description="x"))["id"]
            if by_signal:
                trigger = {"kind": "work_item.status.transition", "to": ["dispatched"]}
                await writer.ask("work.signal.create", work_item_id=item, trigger=trigger)
            heard = asyncio.create_task(_moment(reader))
            await writer.ask("work.transition", work_item_id=item, verb="dispatch",
                             assigned_agent="bench")  # fmt: skip
            committed = time.perf_counter()
            taken.append(max(0.0, await heard - committed))
    ordered = sorted(taken)
    return {
        "p50": round(ordered[len(ordered) // 2] * 1e3, 3),
        "p99": round(ordered[int(len(ordered) * 0.99)] * 1e3, 3),
    }


async def _moment(reader: _Client) -> float:
    async with asyncio.timeout(30):
        await reader.event()
    return time.perf_counter()


# many readers


def _crowd(port: int, clients: int, moves: int, pid: int) -> dict[str, Any]:
    return uvloop.run(_told(port, clients, moves, pid))


async def _told(port: int, clients: int, moves: int, pid: int) -> dict[str, Any]:
    """Every client must receive every event of the moves, in the same order."""
    async with AsyncExitStack() as opened, asyncio.timeout(_SECONDS):
        crowd = [await opened.enter_async_context(_client(port)) for _ in range(clients)]
        for one in crowd:
            await one.ask("subscribe", types=["work.submitted"])
        began = time.perf_counter()
        hearing = [asyncio.create_task(_seqs(one, moves)) for one in crowd]
        writer = await opened.enter_async_context(_client(port))
        for _ in range(moves):
            await writer.ask("work.create", type="bench", description="x")
        written = time.perf_counter() - began
        heard = await asyncio.gather(*hearing)
        seconds = time.perf_counter() - began
        memory = _memory_mb(pid)
    gaps = sum(one != heard[0] for one in heard)
    return {
        "clients": clients,
        "moves": moves,
        "gaps": gaps,
        "write_seconds": round(written, 2),
        "seconds": round(seconds, 2),
        "events_per_second": round(clients * moves / seconds),
        "memory_mb": memory,
    }


async def _seqs(client: _Client, count: int) -> list[int]:
    return [(await client.event())["seq"] for _ in range(count)]


# many clients that do not read


def _silent(port: int, clients: int, pid: int) -> dict[str, Any]:
    return uvloop.run(_unread(port, clients, pid))


async def _unread(port: int, clients: int, pid: int) -> dict[str, Any]:
    """The clients subscribe and stop reading, while 200 events of 90 KB pass; a write is timed."""
    async with AsyncExitStack() as opened, asyncio.timeout(_SECONDS):
        for _ in range(clients):
            one = await opened.enter_async_context(_client(port, max_queue=1, close_timeout=0.1))
            await one.ask("subscribe")
        async with _client(port) as writer:
            item = (await writer.ask("work.create", type="bench", description="x"))["id"]
            note: dict[str, str] = {"notes": "n" * _NOTE}
            taken: list[float] = []
            for _ in range(200):
                began = time.perf_counter()
                await asyncio.to_thread(rota_side.request, port, "POST", f"/work/{item}/note", note)
                taken.append(time.perf_counter() - began)
        memory = _memory_mb(pid)
    ordered = sorted(taken)
    return {
        "clients": clients,
        "write_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 1),
        "memory_mb": memory,
    }


def _idle(port: int, clients: int, pid: int) -> dict[str, Any]:
    return uvloop.run(_still(port, clients, pid))


async def _still(port: int, clients: int, pid: int) -> dict[str, Any]:
    """Open and subscribed, while no event for them happens; a write is timed."""
    async with AsyncExitStack() as opened, asyncio.timeout(_SECONDS):
        for _ in range(clients):
            one = await opened.enter_async_context(_client(port))
            await one.ask("subscribe", types=["project.created"])
        taken = []
        async with _client(port) as writer:
            for _ in range(200):
                began = time.perf_counter()
                await writer.ask("work.create", type="bench", description="x")
                taken.append(time.perf_counter() - began)
        memory = _memory_mb(pid)
    ordered = sorted(taken)
    return {
        "clients": clients,
        "write_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 1),
        "memory_mb": memory,
    }


def _latencies(figures: list[dict[str, Any]]) -> Table:
    return Table(
        "From the commit to a WebSocket client",
        ("database", "event p50 ms", "p99 ms", "work.signal.fired p50 ms", "p99 ms"),
        [
            [
                one["database"],
                *(f"{one[kind][p]:.2f}" for kind in ("event_ms", "signal_ms") for p in one[kind]),
            ]
            for one in figures
        ],
    )


def _crowds(figures: list[dict[str, Any]]) -> Table:
    rows = []
    for one in figures:
        crowd, silent, idle = one["crowd"], one["silent"], one["idle"]
        rows += [
            [
                f"{one['database']}: {crowd['clients']:,} read {crowd['moves']:,} events",
                f"{crowd['gaps']} gaps, {crowd['events_per_second']:,}/s",
                f"{crowd['memory_mb_before']:.0f} → {crowd['memory_mb']:.0f}",
            ],
            *(
                [
                    f"{one['database']}: {found['clients']:,} {name}",
                    f"a write p99 {found['write_p99_ms']} ms",
                    f"{found['memory_mb_before']:.0f} → {found['memory_mb']:.0f}",
                ]
                for name, found in (("do not read", silent), ("idle", idle))
            ),
        ]
    return Table("Many clients", ("clients", "outcome", "server MB"), rows)
