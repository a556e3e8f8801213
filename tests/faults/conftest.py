"""A database of the test's own on either engine, and processes that end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.testing.postgres import OwnPostgres, own_postgres
from tests.faults.processes import Process, Server, processes


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="module")
def own() -> Iterator[OwnPostgres]:
    """A PostgreSQL that the tests of a file may stop and crash. Durable: what it has acknowledged
    must survive that."""
    with own_postgres(durable=True) as server:
        yield server


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    with processes() as start:
        yield start


@pytest.fixture
def server(tmp_path: Path, database: str) -> Iterator[Server]:
    """`rota up` in its own process, on the test's database."""
    server = Server(tmp_path / "state", database)
    server.start()
    yield server
    server.kill()
