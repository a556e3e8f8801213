"""Everything the benchmark knows of Rota, in one place."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvloop

from bench.cell import Cell, Gate, Operation, Place, Tally
from bench.lanes import by_tasks
from bench.server import settle

if TYPE_CHECKING:
    from rota.queue import WorkQueue

_LEASE_SECONDS = 60
_FILL_BATCH = 1000
_ACTOR = "bench"

Held = list[tuple[str, str]]  # claimed items: id and token


class Rota:
    name = "rota"
    configuration = (
        "WorkQueue in process, as `rota up` opens it: SQLite in WAL with synchronous=FULL and group "
        "commit, or PostgreSQL with synchronous_commit=on; claim (lease, token, event) and complete "
        "are two commits, each lane is an agent of its own; uvloop"
    )

    def check(self, cell: Cell) -> None:
        """It offers every cell."""

    def prepare(self, place: Place) -> None:
        uvloop.run(_prepare(place))

    def fill(self, place: Place, items: int) -> None:
        uvloop.run(_fill(place, items))
        if place.url:
            settle(place.url)

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        return uvloop.run(_run(place, cell, gate))


def database_url(place: Place) -> str:
    return place.url or f"sqlite:///{place.directory / 'rota.db'}"


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[WorkQueue]:
    from rota.app import open_queue

    async with open_queue(database_url(place)) as queue:
        yield queue


async def submit(queue: WorkQueue) -> None:
    from rota.model.work import NewItem

    await queue.submit(NewItem(type="noop", description="x"), actor=_ACTOR)


async def submit_many(queue: WorkQueue, items: int) -> None:
    from rota.model.work import NewItem

    await queue.submit_many(
        [NewItem(type="noop", description="x") for _ in range(items)], actor=_ACTOR
    )


async def fill(queue: WorkQueue, items: int) -> None:
    for start in range(0, items, _FILL_BATCH):
        await submit_many(queue, min(_FILL_BATCH, items - start))


async def claim(queue: WorkQueue, agent: str, limit: int = 1, wait_seconds: float = 0) -> Held:
    from rota.model.claims import ClaimRequest

    request = ClaimRequest(
        agent=agent, limit=limit, lease_seconds=_LEASE_SECONDS, wait_seconds=wait_seconds
    )
    result = await queue.claim(request)
    return [(claimed.item.id, claimed.claim.token) for claimed in result.items]


async def complete(queue: WorkQueue, agent: str, held: Held) -> None:
    for item_id, token in held:
        await queue.complete(item_id, token=token, outcome="success", actor=agent)


async def complete_many(queue: WorkQueue, agent: str, held: Held) -> None:
    from rota.model.claims import Completion

    done = [Completion(id=item_id, token=token, outcome="success") for item_id, token in held]
    await queue.complete_many(done, actor=agent)


async def allow(queue: WorkQueue, agent: str, slots: int) -> None:
    await queue.set_agent(agent, max_concurrent=slots)


async def _prepare(place: Place) -> None:
    async with opened(place):
        pass


async def _fill(place: Place, items: int) -> None:
    async with opened(place) as queue:
        await fill(queue, items)


async def _run(place: Place, cell: Cell, gate: Gate) -> Tally:
    async with opened(place) as queue:
        turns = [await _turn(queue, cell, lane) for lane in range(cell.lanes)]
        return await by_tasks(turns, cell, gate)


async def _turn(queue: WorkQueue, cell: Cell, lane: int) -> Callable[[], Awaitable[int]]:
    async def enqueue() -> int:
        await submit(queue)
        return 1

    async def enqueue_batch() -> int:
        await submit_many(queue, cell.batch)
        return cell.batch

    if cell.operation is Operation.ENQUEUE:
        return enqueue
    if cell.operation is Operation.ENQUEUE_BATCH:
        return enqueue_batch
    return await _worker(queue, f"lane-{os.getpid()}-{lane}", cell)


async def _worker(queue: WorkQueue, agent: str, cell: Cell) -> Callable[[], Awaitable[int]]:
    finish = complete_many if cell.is_batch else complete
    if cell.is_batch:
        await allow(queue, agent, cell.batch)

    async def work() -> int:
        held = await claim(queue, agent, limit=cell.batch)
        if held:
            await finish(queue, agent, held)
        return len(held)

    return work
