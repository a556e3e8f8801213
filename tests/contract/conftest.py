"""Both databases behind one set of fixtures: a test that takes `store` runs on each."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import apsw
import psycopg
import pytest

from rota.app import make_store, open_store
from rota.queue import Ledger, WorkQueue
from rota.queue.views import Views
from rota.storage.port import Store
from rota.storage.statements import to_psycopg
from rota.testing.clock import ManualClock
from rota.testing.postgres import PostgresServer

pytest.register_assert_rewrite("rota.testing.store_contract")

TABLES = (
    "projects, agents, work_items, work_item_labels, work_item_links, dispatch_log, claims,"
    " events, idempotency_keys, api_tokens"
)


@pytest.fixture(scope="session")
def shared_postgres(postgres: PostgresServer) -> Iterator[str]:
    """One database for all tests here: emptying its tables is ten times quicker than a new one."""
    name = f"rota_contract_{uuid4().hex}"
    url = postgres.create_database(name)
    anyio.run(make_store(url).upgrade)
    yield url
    postgres.drop_database(name)


@pytest.fixture
def empty_postgres(shared_postgres: str) -> str:
    with psycopg.connect(shared_postgres, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {TABLES} RESTART IDENTITY".encode())
    return shared_postgres


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    url: str = request.getfixturevalue("empty_postgres")
    return url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(database: str, clock: ManualClock) -> AsyncIterator[Store]:
    async with open_store(database, clock) as opened:
        yield opened


@pytest.fixture
async def another_store(
    database: str, clock: ManualClock
) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """More stores on the same database, as other processes have them."""
    async with AsyncExitStack() as after_the_test:

        async def open_another() -> Store:
            return await after_the_test.enter_async_context(open_store(database, clock))

        yield open_another


@pytest.fixture
def ledger(store: Store, clock: ManualClock) -> Ledger:
    return Ledger.on(store, clock)


@pytest.fixture
def queue(ledger: Ledger) -> WorkQueue:
    return ledger.queue


@pytest.fixture
def views(ledger: Ledger) -> Views:
    return ledger.views


Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def sql(database: str, store: Store) -> Iterator[Sql]:
    """The database itself, past all verbs: `sql("DELETE FROM events WHERE seq = :n", n=1)`.

    What it refuses is raised as `apsw.Error` or `psycopg.Error`.
    """
    if database.startswith("sqlite"):
        lite = apsw.Connection(database.removeprefix("sqlite:///"))
        lite.execute("PRAGMA foreign_keys = ON")
        yield lambda statement, **values: lite.execute(statement, values).fetchall()
        lite.close()
        return
    with psycopg.connect(database, autocommit=True) as server:

        def run(statement: str, **values: object) -> list[tuple[Any, ...]]:
            cursor = server.execute(to_psycopg(statement).encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield run
