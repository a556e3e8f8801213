"""litequeue, one SQLite table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from typing import TYPE_CHECKING

from bench.cell import Cell, Gate, NotOffered, Operation, Place, Tally
from bench.lanes import by_threads

if TYPE_CHECKING:
    from litequeue import LiteQueue

# Finished rows stay at the front of the index its pop walks: pruned at this pace it stays flat.
_PRUNE_EVERY = 500


class Litequeue:
    name = "litequeue"
    configuration = (
        "LiteQueue, WAL, synchronous raised from its NORMAL to FULL, one connection per thread "
        "(it has no lock of its own), busy timeout 60 s; pop and done are two commits. Two favours: "
        f"ANALYZE after the fill (else every pop sorts all ready rows) and prune every {_PRUNE_EVERY}"
    )

    def check(self, cell: Cell) -> None:
        if cell.is_batch:
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
        queues = [_open(place) for _ in range(cell.lanes)]
        turns = itertools.count(1)
        tally = by_threads([_turn(queue, cell, turns) for queue in queues], cell, gate)
        for queue in queues:
            queue.close()
        return tally


def _turn(queue: LiteQueue, cell: Cell, turns: Iterator[int]) -> Callable[[], int]:
    def enqueue() -> int:
        queue.put("noop")
        return 1

    def work() -> int:
        message = queue.pop()
        if message is None:
            return 0
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
