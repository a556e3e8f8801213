"""The machine that the figures were taken on. Only ratios apply to other machines."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

_SAMPLES = 400
_PACKAGES = (
    "apsw",
    "asyncpg",
    "huey",
    "litequeue",
    "litestar",
    "persist-queue",
    "pgqueuer",
    "procrastinate",
    "psycopg",
    "rota",
    "uvicorn",
    "uvloop",
)


def facts(directory: Path) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": {"rota (apsw)": _apsw_sqlite(), "peers (stdlib)": sqlite3.sqlite_version},
        "filesystem": filesystem(directory),
        "fdatasync_4k_us": fdatasync_latency(directory),
        "load_average_before": load_average(),  # above 0, something else was running, too
        "git": _git_describe(),
        "packages": _versions(),
    }


def load_average() -> float:
    return round(os.getloadavg()[0], 2)


def is_busy() -> bool:
    """Whether other processes use so much of the machine that they would distort a figure."""
    return load_average() > 0.25 * (os.cpu_count() or 1)


def fdatasync_latency(directory: Path, samples: int = _SAMPLES) -> dict[str, float]:
    """A 4 KiB append and its fdatasync: a single commit cannot be faster than this."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        taken = sorted(_append(file.fileno()) for _ in range(samples))
    return {
        "p50": round(statistics.median(taken) * 1e6, 1),
        "p99": round(taken[int(samples * 0.99)] * 1e6, 1),
    }


def _append(descriptor: int) -> float:
    os.write(descriptor, b"\0" * 4096)
    started = time.perf_counter()
    os.fdatasync(descriptor)
    return time.perf_counter() - started


def filesystem(directory: Path) -> str:
    """The type of the mount that holds the directory; on tmpfs nothing is durable."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [m for m in mounts if directory.resolve().is_relative_to(m[1])]
    return max(holding, key=lambda mount: len(mount[1]))[2]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor()


def _apsw_sqlite() -> str:
    import apsw

    return apsw.sqlite_lib_version()


def _git_describe() -> str:
    command = ["git", "describe", "--always", "--dirty", "--tags"]
    answer = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or "no commit yet"


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
