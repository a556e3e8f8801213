"""procrastinate on PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvloop

from bench.cell import Cell, Gate, NotOffered, Operation, Place, Tally
from bench.lanes import by_tasks
from bench.server import settle

if TYPE_CHECKING:
    from procrastinate import App

_FILL_BATCH = 1000


class Procrastinate:
    name = "procrastinate"
    configuration = (
        "App on PsycopgConnector, pool of one connection per lane without its check round trip, "
        "autocommit, uvloop; lanes of job_manager.fetch_job and finish_job, two commits"
    )

    def check(self, cell: Cell) -> None:
        if cell.operation is Operation.WORK and cell.batch > 1:
            raise NotOffered("a worker fetches one job at a time")

    def prepare(self, place: Place) -> None:
        uvloop.run(_install(place))

    def fill(self, place: Place, items: int) -> None:
        uvloop.run(_fill(place, items))
        settle(place.url)

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        return uvloop.run(_run(place, cell, gate))


async def _install(place: Place) -> None:
    async with _open(place, 1) as app:
        await app.schema_manager.apply_schema_async()


async def _fill(place: Place, items: int) -> None:
    async with _open(place, 1) as app:
        for start in range(0, items, _FILL_BATCH):
            await _defer_many(app, min(_FILL_BATCH, items - start))


async def _run(place: Place, cell: Cell, gate: Gate) -> Tally:
    async with _open(place, cell.concurrency) as app:
        turn = await _turn(app, cell)
        return await by_tasks([turn] * cell.concurrency, cell, gate)


async def _turn(app: App, cell: Cell) -> Callable[[], Awaitable[int]]:
    task = app.tasks["noop"]

    async def enqueue() -> int:
        await task.defer_async()
        return 1

    async def enqueue_batch() -> int:
        await _defer_many(app, cell.batch)
        return cell.batch

    if cell.operation is Operation.ENQUEUE:
        return enqueue if cell.batch == 1 else enqueue_batch
    return await _worker(app)


async def _worker(app: App) -> Callable[[], Awaitable[int]]:
    from procrastinate.jobs import Status

    manager = app.job_manager
    worker_id = await manager.register_worker()

    async def work() -> int:
        job = await manager.fetch_job(queues=None, worker_id=worker_id)
        if job is None:
            return 0
        await manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
        return 1

    return work


async def _defer_many(app: App, items: int) -> None:
    await app.tasks["noop"].batch_defer_async(*[{}] * items)


async def _noop() -> None:
    pass


@asynccontextmanager
async def _open(place: Place, connections: int) -> AsyncIterator[App]:
    from procrastinate import App, PsycopgConnector

    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    connector = PsycopgConnector(
        conninfo=place.url,
        min_size=connections,
        max_size=connections,
        kwargs={"autocommit": True},
        pool_factory=_unchecked_pool,
    )
    app = App(connector=connector)
    app.task(name="noop")(_noop)
    async with app.open_async():
        yield app


def _unchecked_pool(**arguments: Any) -> Any:
    """Its default pool sends `SELECT 1` before each use, one more round trip for every call."""
    from psycopg_pool import AsyncConnectionPool

    return AsyncConnectionPool(**{**arguments, "check": None})
