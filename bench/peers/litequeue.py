"""litequeue, one SQLite table."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.cell import Cell, Gate, NotOffered, Operation, Place, Tally
from bench.lanes import by_threads

if TYPE_CHECKING:
    from litequeue import LiteQueue

# Finished rows stay at the front of the index that its pop walks; pruning this often keeps it flat.
_PRUNE_EVERY = 500


class Litequeue:
    name = "litequeue"
    configuration = (
        "LiteQueue, WAL, synchronous raised from its NORMAL to FULL; pop and done are two commits. "
        "Three favours: one connection per process behind a lock of ours (at 50 lanes faster than "
        "one each), ANALYZE after the fill (else a pop sorts all ready rows: 5 times slower), "
        f"prune every {_PRUNE_EVERY} items"
    )

    def check(self, cell: Cell) -> None:
        if cell.batch > 1:
            raise NotOffered("no batch calls")

    def prepare(self, place: Place) -> None:
        _open(place).close()

    def fill(self, place: Place, items: int) -> None:
        queue = _open(place)
        with queue.transaction():
            for number in range(items):
                queue.put(str(number))
        queue.conn.execute("ANALYZE")
        queue.close()

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        queue = _open(place)
        tally = by_threads([_turn(queue, cell)] * cell.concurrency, cell, gate)
        queue.close()
        return tally


def _turn(queue: LiteQueue, cell: Cell) -> Callable[[], int]:
    lock = threading.Lock()
    turns = itertools.count(1)

    def enqueue() -> int:
        with lock:
            queue.put("noop")
        return 1

    def work() -> int:
        with lock:
            message = queue.pop()
        if message is None:
            return 0
        with lock:
            queue.done(message.message_id)
            if next(turns) % _PRUNE_EVERY == 0:
                queue.prune()
        return 1

    return enqueue if cell.operation is Operation.ENQUEUE else work


def _open(place: Place) -> LiteQueue:
    from litequeue import LiteQueue

    queue = LiteQueue(place.directory / "litequeue.db", timeout=60)
    queue.conn.execute("PRAGMA synchronous = FULL")
    return queue
