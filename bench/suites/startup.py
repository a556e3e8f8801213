"""How long a person waits for the command line, and how much memory an idle server takes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import rota_side
from bench.cell import Place
from bench.report import Outcome, Table
from bench.suites import Options

_IDLE_SECONDS = 3.0
_BASELINE = "python -c pass"
_COMMANDS = {
    _BASELINE: [sys.executable, "-c", "pass"],
    "import rota": [sys.executable, "-c", "import rota"],
    "rota --version": [rota_side.COMMAND, "--version"],
    "rota --help": [rota_side.COMMAND, "--help"],
}


def run(options: Options) -> Outcome:
    medians = _medians(3 if options.quick else 10)
    figures = [_figure(name, seconds, medians[_BASELINE]) for name, seconds in medians.items()]
    figures.append(_resident(options.directory))
    return Outcome(figures, [Table("Start-up", ("what", "value", "÷ python"), _rows(figures))])


def _medians(samples: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    with tempfile.TemporaryDirectory(prefix="bench-pyc-") as folder:
        surroundings = _with_bytecode(folder)
        for number in range(samples + 1):  # in turn, so that a slow moment affects all of them
            for name, command in _COMMANDS.items():
                seconds = _timed(command, surroundings)
                if number:  # the first one compiled the modules
                    taken[name].append(seconds)
    return {name: statistics.median(times) for name, times in taken.items()}


def _with_bytecode(folder: str) -> dict[str, str]:
    """An installed Rota has its bytecode. If a shell forbids writing it, every command is slow."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def _timed(command: list[str], surroundings: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=surroundings)
    return time.perf_counter() - started


def _figure(name: str, seconds: float, baseline: float) -> dict[str, Any]:
    return {
        "what": name,
        "median_ms": round(seconds * 1e3, 1),
        "ratio_to_python": round(seconds / baseline, 2),
    }


def _resident(directory: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=directory) as folder:
        place = Place(Path(folder))
        with rota_side.up(place, Path(folder)) as server:
            time.sleep(_IDLE_SECONDS)
            return {"what": "rota up, idle", "rss_mib": round(server.resident_bytes() / 2**20, 1)}


def _rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [figure["what"], f"{figure['median_ms']} ms", f"{figure['ratio_to_python']}×"]
        if "median_ms" in figure
        else [figure["what"], f"{figure['rss_mib']} MiB", ""]
        for figure in figures
    ]
