"""Lanes: the callers of one process, as threads or tasks, which work until their share is done."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import Awaitable, Callable, Sequence

from bench.cell import Cell, Gate, Tally


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Share:
    """What is left for this process: items, and time. Many threads call `take`."""

    def __init__(self, cell: Cell, gate: Gate) -> None:
        self.left = cell.items // cell.processes
        self.batch = cell.batch
        self.done = 0
        self._lock = threading.Lock()
        gate.wait()
        self._cpu = cpu_seconds()
        self.started = time.monotonic()
        self.deadline = self.started + cell.seconds

    def take(self) -> bool:
        with self._lock:
            if self.left < self.batch or time.monotonic() >= self.deadline:
                return False
            self.left -= self.batch
            return True

    def finished(self, items: int) -> None:
        with self._lock:
            self.done += items

    def tally(self) -> Tally:
        return Tally(self.done, self.started, time.monotonic(), cpu_seconds() - self._cpu)


def by_threads(turns: Sequence[Callable[[], int]], cell: Cell, gate: Gate) -> Tally:
    """One thread per turn function. A turn returns how many items it moved; zero ends its lane."""
    errors: list[BaseException] = []
    holder: list[Share] = []
    ready = threading.Barrier(len(turns), action=lambda: holder.append(Share(cell, gate)))

    def lane(turn: Callable[[], int]) -> None:
        try:
            ready.wait()
            _work(turn, holder[0])
        except BaseException as error:  # noqa: BLE001 - raised again below, by the caller
            errors.append(error)

    threads = [threading.Thread(target=lane, args=(turn,)) for turn in turns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return holder[0].tally()


def _work(turn: Callable[[], int], share: Share) -> None:
    while share.take():
        moved = turn()
        if not moved:
            return
        share.finished(moved)


async def by_tasks(turns: Sequence[Callable[[], Awaitable[int]]], cell: Cell, gate: Gate) -> Tally:
    """As `by_threads`, on one event loop."""
    share = Share(cell, gate)

    async def lane(turn: Callable[[], Awaitable[int]]) -> None:
        while share.take():
            moved = await turn()
            if not moved:
                return
            share.finished(moved)

    async with asyncio.TaskGroup() as group:
        for turn in turns:
            group.create_task(lane(turn))
    return share.tally()
