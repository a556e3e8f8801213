"""A server on a real port, and a client to ask it."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLite; with `@on_both_databases` also PostgreSQL."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def served(database: str, clock: ManualClock) -> Iterator[Served]:
    with serve(database, clock=clock) as server:
        yield server


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=served.url, timeout=30) as client:
        yield client
