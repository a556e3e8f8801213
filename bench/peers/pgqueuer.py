"""pgqueuer on PostgreSQL, by its Queries (the layer below its QueueManager)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

import uvloop

from bench.cell import Cell, Gate, Operation, Place, Tally
from bench.lanes import by_tasks
from bench.server import settle

if TYPE_CHECKING:
    from pgqueuer.queries import Queries

_FILL_BATCH = 1000

# Where installed, asyncpg serves enqueue (1.3 to 1.8 times faster here, single rounds) and batches
# (1.1 to 1.2). Single claims stay on psycopg: in three rounds each asyncpg lost at 50 lanes (0.7),
# drew at 1, and won a little at 10 (1.1).
_FASTEST = "asyncpg" if find_spec("asyncpg") else "psycopg"


class Pgqueuer:
    name = "pgqueuer"
    configuration = (
        "Queries (faster than its QueueManager.run, which adds a task and a heartbeat per job), "
        f"driver {_FASTEST}, for single claims psycopg; durability 'durable' (its default), one "
        "connection per lane, uvloop; dequeue(batch_size) and log_jobs are two commits"
    )

    def check(self, cell: Cell) -> None:
        """pgqueuer offers every cell."""

    def prepare(self, place: Place) -> None:
        uvloop.run(_install(place))

    def fill(self, place: Place, items: int) -> None:
        uvloop.run(_fill(place, items))
        settle(place.url)

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        return uvloop.run(_run(place, cell, gate))


async def _install(place: Place) -> None:
    async with _open(place) as queries:
        await queries.install()


async def _fill(place: Place, items: int) -> None:
    async with _open(place) as queries:
        for start in range(0, items, _FILL_BATCH):
            await _enqueue_many(queries, min(_FILL_BATCH, items - start))


async def _run(place: Place, cell: Cell, gate: Gate) -> Tally:
    async with AsyncExitStack() as stack:
        alone = cell.operation is Operation.WORK and cell.batch == 1
        driver = "psycopg" if alone else _FASTEST
        opened = [
            await stack.enter_async_context(_open(place, driver)) for _ in range(cell.concurrency)
        ]
        return await by_tasks([_turn(queries, cell) for queries in opened], cell, gate)


def _turn(queries: Queries, cell: Cell) -> Callable[[], Awaitable[int]]:
    async def enqueue() -> int:
        await queries.enqueue("noop", b"x")
        return 1

    async def enqueue_batch() -> int:
        await _enqueue_many(queries, cell.batch)
        return cell.batch

    if cell.operation is Operation.ENQUEUE:
        return enqueue if cell.batch == 1 else enqueue_batch
    return _worker(queries, cell.batch)


def _worker(queries: Queries, batch: int) -> Callable[[], Awaitable[int]]:
    from pgqueuer.ports.repository import EntrypointExecutionParameter
    from pgqueuer.types import QueueEntrypoint, QueueManagerId

    entrypoints = {QueueEntrypoint("noop"): EntrypointExecutionParameter(concurrency_limit=0)}
    manager = QueueManagerId(uuid.uuid4())

    async def work() -> int:
        jobs = await queries.dequeue(
            batch_size=batch,
            entrypoints=entrypoints,
            queue_manager_id=manager,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=30),
        )
        if jobs:
            await queries.log_jobs([(job, "successful", None) for job in jobs])
        return len(jobs)

    return work


async def _enqueue_many(queries: Queries, items: int) -> None:
    await queries.enqueue(["noop"] * items, [b"x"] * items, [0] * items)


@asynccontextmanager
async def _open(place: Place, driver: str = "psycopg") -> AsyncIterator[Queries]:
    from pgqueuer.queries import Queries

    if driver == "asyncpg":
        import asyncpg

        connection = await asyncpg.connect(place.url)
        yield Queries.from_asyncpg_connection(connection)
        await connection.close()
    else:
        import psycopg

        async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as connection:
            yield Queries.from_psycopg_connection(connection)
