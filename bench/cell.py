"""The terms of the harness: a cell is a figure to measure, a tally is one process's share of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class Operation(StrEnum):
    ENQUEUE = "enqueue"  # a call and a commit
    WORK = "claim+complete"  # claimed, then completed, per turn of a lane


@dataclass(frozen=True)
class Cell:
    operation: Operation
    concurrency: int  # callers or lanes per process
    batch: int  # items per call, or per turn of a lane
    processes: int
    items: int
    seconds: float  # the cell ends then even if items are left: the rate needs no more

    @property
    def label(self) -> str:
        many = f" of {self.batch}" if self.batch > 1 else ""
        return f"{self.operation} ×{self.concurrency}{many}, {self.processes}p"


@dataclass(frozen=True)
class Place:
    """Where a subject keeps its queue: an empty directory, or an empty PostgreSQL database."""

    directory: Path
    url: str = ""


@dataclass(frozen=True)
class Tally:
    done: int
    started: float  # time.monotonic, which on Linux all processes share
    ended: float
    cpu_seconds: float


@dataclass(frozen=True)
class Figure:
    """One measured cell of one subject."""

    subject: str
    operation: str
    concurrency: int
    batch: int
    processes: int
    items: int = 0
    seconds: float = 0.0
    rate: float | None = None  # items per second; None, with a note, if it could not be measured
    cpu_us: float | None = None  # CPU of the client processes per item, without a server's
    fdatasync_us: float | None = None  # just before; if far off, the figure was disturbed
    rates: tuple[float, ...] = ()  # of all rounds, of which `rate` is the median
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class NotOffered(Exception):
    """The subject cannot do this cell safely, or at all; the text says why."""


class Subject(Protocol):
    """One queue under test. An instance travels to child processes, so it pickles."""

    name: str
    configuration: str  # one sentence for the report: its setup, and what it promises

    def check(self, cell: Cell) -> None:
        """Raise NotOffered if the cell would be unfair or unsafe."""

    def prepare(self, place: Place) -> None:
        """Create the schema."""

    def fill(self, place: Place, items: int) -> None:
        """Add items in the fastest way; this is not timed."""

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        """Open everything, pass the gate, work the cell's share, close."""


@dataclass
class Gate:
    """Blocks until every process of the cell has opened its connections."""

    wait: Callable[[], Any] = field(default=lambda: None)
