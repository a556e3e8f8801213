"""persist-queue's SQLiteAckQueue."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.cell import Cell, Gate, NotOffered, Operation, Place, Tally
from bench.lanes import by_threads

if TYPE_CHECKING:
    from persistqueue import SQLiteAckQueue

# Acknowledged rows stay, and its select walks over them; clearing this often keeps it flat.
_CLEAR_EVERY = 500


class PersistQueue:
    name = "persist-queue"
    configuration = (
        "SQLiteAckQueue(auto_commit, multithreading), WAL, synchronous=FULL set explicitly, one "
        f"queue shared by the threads, clear_acked_data every {_CLEAR_EVERY} items; get and ack "
        "are two commits"
    )

    def check(self, cell: Cell) -> None:
        if cell.batch > 1:
            raise NotOffered("no batch calls")
        if cell.processes > 1 and cell.operation is Operation.WORK:
            raise NotOffered("it selects, then updates unguarded: two processes get one item")

    def prepare(self, place: Place) -> None:
        _open(place).close()

    def fill(self, place: Place, items: int) -> None:
        queue = _open(place)
        _set_synchronous(queue, "OFF")
        for number in range(items):
            queue.put(number)
        queue.close()

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        queue = _open(place)
        tally = by_threads([_turn(queue, cell)] * cell.concurrency, cell, gate)
        queue.close()
        return tally


def _turn(queue: SQLiteAckQueue, cell: Cell) -> Callable[[], int]:
    from persistqueue.exceptions import Empty

    turns = itertools.count(1)

    def enqueue() -> int:
        queue.put("noop")
        return 1

    def work() -> int:
        try:
            item = queue.get(block=False, raw=True)
        except Empty:
            return 0
        queue.ack(id=item["pqid"])
        if next(turns) % _CLEAR_EVERY == 0:
            queue.clear_acked_data(max_delete=_CLEAR_EVERY * 2, keep_latest=0)
        return 1

    return enqueue if cell.operation is Operation.ENQUEUE else work


def _open(place: Place) -> SQLiteAckQueue:
    from persistqueue import SQLiteAckQueue

    queue = SQLiteAckQueue(str(place.directory), multithreading=True, timeout=60)
    _set_synchronous(queue, "FULL")
    return queue


def _set_synchronous(queue: SQLiteAckQueue, value: str) -> None:
    """It has no option for this, so we use its two connections."""
    connections: tuple[Any, ...] = (queue._getter, queue._putter)
    for connection in connections:
        connection.execute(f"PRAGMA synchronous = {value}")
