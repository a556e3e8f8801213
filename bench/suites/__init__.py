"""The suites by name: each is a module with `run(options) -> Outcome`, imported on use."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from bench.report import Outcome

NAMES = (
    "sqlite",
    "postgres",
    "depth",
    "pickup",
    "http",
    "startup",
    "runs",
    "schedules",
    "signals",
    "feed",
    "dashboard",
)


@dataclass(frozen=True)
class Options:
    items: int
    seconds: float  # the longest time for one cell
    rounds: int
    quick: bool
    directory: Path  # on the disk to be measured
    only: frozenset[str]  # subjects, all when empty


def run(name: str, options: Options) -> Outcome:
    outcome: Outcome = importlib.import_module(f"bench.suites.{name}").run(options)
    return outcome
