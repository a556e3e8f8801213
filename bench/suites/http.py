"""The HTTP face of `rota up` under 64 keep-alive connections; a change is durable when answered."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import rota_side
from bench.cell import Place
from bench.places import both_databases
from bench.report import Outcome, Table
from bench.suites import Options

_CONNECTIONS = 64
# Requests per turn of each script.
_REQUESTS = {"health": 1, "submit": 1, "work": 2, "going_on": 1}
_LABELS = {
    "health": "GET /health",
    "submit": "POST /work",
    "work": "claim, then complete",
    "going_on": "complete and claim the next",
}


def run(options: Options) -> Outcome:
    figures: list[dict[str, Any]] = []
    for database, place in both_databases(options.directory):
        figures += _measure(database, place, options)
    return Outcome(
        figures=figures,
        tables=[Table("HTTP, 64 keep-alive connections", _COLUMNS, [_row(f) for f in figures])],
        configuration={"rota": "`rota up`, one process; load by bench.http_load in another"},
    )


def _measure(database: str, place: Place, options: Options) -> list[dict[str, Any]]:
    with _serving(place) as server:
        found = []
        for script in _REQUESTS:
            if script in ("work", "going_on"):
                rota_side.fill_over_http(server.port, options.items)
            found.append(_load(server.port, script, options.seconds))
    health = found[0]["rate"]
    return [
        _figure(database, name, one, health) for name, one in zip(_REQUESTS, found, strict=True)
    ]


@contextmanager
def _serving(place: Place) -> Iterator[rota_side.Server]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-state-") as state,
        rota_side.up(place, Path(state)) as server,
    ):
        yield server


def _load(port: int, script: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.http_load", port, script, _CONNECTIONS, seconds]
    answer = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    summary: dict[str, Any] = json.loads(answer.stdout)
    if not summary["turns"]:
        raise rota_side.ServerFailed(f"{script}: {summary['first_error']}")
    return summary


def _figure(database: str, script: str, load: dict[str, Any], health: float) -> dict[str, Any]:
    requests = load["rate"] * _REQUESTS[script]
    return {
        "database": database,
        "call": _LABELS[script],
        **load,
        "requests_per_second": round(requests, 1),
        "share_of_health": round(requests / health, 3) if health else None,
    }


_COLUMNS = ("call", "turns/s", "requests/s", "of /health", "p50 ms", "p99 ms", "errors", "load CPU")


def _row(figure: dict[str, Any]) -> list[str]:
    share = figure["share_of_health"]
    return [
        f"{figure['database']}: {figure['call']}",
        f"{figure['rate']:,.0f}",
        f"{figure['requests_per_second']:,.0f}",
        f"{share:.0%}" if share is not None else "–",
        f"{figure['p50_ms']:.2f}",
        f"{figure['p99_ms']:.2f}",
        str(figure["errors"]),
        f"{figure['generator_cpu']:.0%}",
    ]
