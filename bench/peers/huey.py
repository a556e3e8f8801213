"""huey on SQLite."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.cell import Cell, Gate, NotOffered, Operation, Place, Tally
from bench.lanes import by_threads

if TYPE_CHECKING:
    from huey import SqliteHuey

_INSTANCES = 10


class Huey:
    name = "huey"
    configuration = (
        f"SqliteHuey(fsync=True): WAL, synchronous=FULL, threads on up to {_INSTANCES} instances, "
        "each a connection behind its lock (at 10 workers faster than one). "
        "Dequeue deletes the row, so claim+complete is ONE commit and a worker that dies loses its "
        "item; a no-op's result None is not stored"
    )

    def check(self, cell: Cell) -> None:
        if cell.batch > 1:
            raise NotOffered("no batch calls")

    def prepare(self, place: Place) -> None:
        _open(place, fsync=True).storage.close()

    def fill(self, place: Place, items: int) -> None:
        huey = _open(place, fsync=False)
        noop = huey.task()(_noop)
        for _ in range(items):
            noop()
        huey.storage.close()

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        hueys = [_open(place, fsync=True) for _ in range(min(cell.concurrency, _INSTANCES))]
        turns = itertools.cycle([_turn(huey, cell) for huey in hueys])
        return by_threads(list(itertools.islice(turns, cell.concurrency)), cell, gate)


def _turn(huey: SqliteHuey, cell: Cell) -> Callable[[], int]:
    noop = huey.task()(_noop)

    def enqueue() -> int:
        noop()
        return 1

    def work() -> int:
        task = huey.dequeue()
        if task is None:
            return 0
        huey.execute(task)
        return 1

    return enqueue if cell.operation is Operation.ENQUEUE else work


def _open(place: Place, fsync: bool) -> SqliteHuey:
    from huey import SqliteHuey

    logging.getLogger("huey").setLevel(logging.ERROR)
    return SqliteHuey("bench", filename=str(place.directory / "huey.db"), fsync=fsync, timeout=60)


def _noop() -> None:
    pass
