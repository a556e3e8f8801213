"""A server on a real port, and clients for it."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import httpx2
import psycopg
import pytest

from rota.app import make_store, open_ledger
from rota.client import SyncWorkQueueClient, WorkQueueClient
from rota.queue.ledger import Ledger
from rota.signals import SignalScheduler
from rota.testing.clock import ManualClock
from rota.testing.postgres import PostgresServer
from rota.testing.served import Served, serve


@pytest.fixture(scope="session")
def upgraded_postgres(postgres: PostgresServer) -> Iterator[str]:
    name = f"rota_served_{uuid4().hex}"
    url = postgres.create_database(name)
    anyio.run(make_store(url).upgrade)
    yield url
    postgres.drop_database(name)


@pytest.fixture
def emptied_postgres(upgraded_postgres: str) -> str:
    """Emptying the tables is ten times quicker than a new database."""
    with psycopg.connect(upgraded_postgres, autocommit=True) as connection:
        row = connection.execute(
            "SELECT string_agg(tablename, ', ') FROM pg_tables"
            " WHERE schemaname = 'public' AND tablename <> 'schema_migrations'"
        ).fetchone()
        assert row is not None
        connection.execute(f"TRUNCATE {row[0]} RESTART IDENTITY".encode())
    return upgraded_postgres


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLite; with `@on_both_databases` also PostgreSQL."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    url: str = request.getfixturevalue("emptied_postgres")
    return url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def upgraded_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new") / "rota.db"
    anyio.run(make_store(str(path)).upgrade)
    return path


@pytest.fixture
async def ledger(
    upgraded_sqlite: Path, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Ledger]:
    shutil.copy(upgraded_sqlite, tmp_path / "rota.db")
    async with open_ledger(str(tmp_path / "rota.db"), clock) as opened:
        yield opened


@pytest.fixture
def served(database: str, clock: ManualClock, tmp_path: Path) -> Iterator[Served]:
    with serve(database, clock=clock, logs=tmp_path / "runs") as server:
        yield server


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=served.url, timeout=30) as client:
        yield client


@pytest.fixture
async def client(served: Served) -> AsyncIterator[WorkQueueClient]:
    async with WorkQueueClient(served.url) as client:
        yield client


@pytest.fixture
def sync_client(served: Served) -> Iterator[SyncWorkQueueClient]:
    with SyncWorkQueueClient(served.url) as client:
        yield client


@pytest.fixture
def tick(served: Served) -> Callable[[], int]:
    """Everything that is due fires; how many did."""
    processor = SignalScheduler(served.store, owner="test")
    return lambda: served.run(processor.tick)
