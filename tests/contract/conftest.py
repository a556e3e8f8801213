"""Both databases behind one set of fixtures: a test that takes `store` runs on each."""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import apsw
import psycopg
import pytest

from rota.app import make_store
from rota.model.fleet import AgentSpec
from rota.queue import Ledger, WorkQueue
from rota.queue.views import Views
from rota.scheduler import Scheduler
from rota.storage.port import Store, Topic, Transaction
from rota.storage.postgres import PostgresStore
from rota.testing.clock import ManualClock
from rota.testing.emptying import empty
from rota.testing.postgres import PostgresServer, find_binaries
from tests.contract.nodes import NewNode, Node, Stage
from tests.contract.spelling import to_psycopg

pytest.register_assert_rewrite("rota.testing.store_contract")

PATIENCE = 20.0


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
    empty(shared_postgres)
    return shared_postgres


@pytest.fixture(scope="session")
def new_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database to copy: creating its tables for every test would take as long as the test."""
    path = tmp_path_factory.mktemp("new") / "rota.db"
    anyio.run(make_store(str(path)).upgrade)
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("new_sqlite"), tmp_path / "rota.db")
        return f"sqlite:///{tmp_path}/rota.db"
    url: str = request.getfixturevalue("empty_postgres")
    return url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@asynccontextmanager
async def _opened(database: str, clock: ManualClock) -> AsyncIterator[Store]:
    store = make_store(database, clock)
    if isinstance(store, PostgresStore):
        store = PostgresStore(database, lanes=4, clock=clock)  # each lane is one more connection
    await store.open()
    if isinstance(store, PostgresStore):
        await store.wait(Topic.READY, 0, PATIENCE)  # its listener treats everything as news once
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(database: str, clock: ManualClock) -> AsyncIterator[Store]:
    async with _opened(database, clock) as opened:
        yield opened


@pytest.fixture
def beside(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each read, whether it is kept off the event loop."""
    found, read = list[bool](), store.read

    async def noted(body: Callable[[Transaction], Any], *, long: bool = False) -> Any:
        found.append(long)
        return await read(body, long=long)

    monkeypatch.setattr(store, "read", noted)
    return found


@pytest.fixture
async def another_store(
    database: str, clock: ManualClock
) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """More stores on the same database, as other processes have them."""
    async with AsyncExitStack() as after_the_test:

        async def open_another() -> Store:
            return await after_the_test.enter_async_context(_opened(database, clock))

        yield open_another


@pytest.fixture
async def one_lane(database: str, store: Store, clock: ManualClock) -> AsyncIterator[Store]:
    """A store that runs one body at a time, so that a test can hold it up."""
    if database.startswith("sqlite"):
        yield store
        return
    narrow = PostgresStore(database, lanes=1, clock=clock)
    await narrow.open()
    yield narrow
    await narrow.close()


@pytest.fixture(scope="session", autouse=True)
def server_programs() -> Iterator[None]:
    """`pg_dump` refuses servers newer than itself, so use the one that came with the server."""
    binaries = find_binaries()
    with pytest.MonkeyPatch.context() as patch:
        if binaries is not None and (binaries / "pg_dump").exists():
            patch.setenv("PATH", str(binaries), prepend=os.pathsep)
        yield


@pytest.fixture
async def new_node(store: Store, clock: ManualClock) -> AsyncIterator[NewNode]:
    async with AsyncExitStack() as after_the_test:

        async def make(*agents: AgentSpec, name: str = "n1", **options: Any) -> Node:
            stage = Stage()
            facts = {"clock": clock, "on_trigger": stage, **options}
            scheduler = Scheduler(facts.pop("store", store), node=name, **facts)
            await scheduler.open(agents)
            after_the_test.push_async_callback(scheduler.stop, wait_for_jobs=False)
            return Node(scheduler, stage)

        yield make


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger.on(store)


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

    Its refusals are raised as `apsw.Error` or `psycopg.Error`.
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
