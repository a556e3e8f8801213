"""The PostgreSQL of a run: one server, checked to be durable, and a new database per cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.cell import Place
from rota.testing.postgres import PostgresServer, postgres_server

# Room for 2 processes of 50 connections; all else is PostgreSQL's default, for every subject.
_SETTINGS = {"max_connections": "250", "shared_buffers": "256MB"}
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_RECORDED = ("server_version", *_DURABLE, "wal_sync_method", "shared_buffers")


class NotDurable(Exception):
    """The server could lose acknowledged changes in a power cut, so its rates mean nothing here."""


class Databases:
    """Makes and drops databases on one server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._numbers = itertools.count(1)

    @contextmanager
    def place(self) -> Iterator[Place]:
        name = f"bench_{next(self._numbers)}"
        url = self._server.create_database(name)
        try:
            yield Place(Path("/nonexistent"), url)
        finally:
            self._server.drop_database(name)

    def facts(self) -> dict[str, str]:
        with psycopg.connect(self._server.url) as connection:
            return {name: _show(connection, name) for name in _RECORDED}


@contextmanager
def databases() -> Iterator[Databases]:
    with postgres_server(durable=True, settings=_SETTINGS) as server:
        found = Databases(server)
        facts = found.facts()
        if wrong := {name: facts[name] for name in _DURABLE if facts[name] != _DURABLE[name]}:
            raise NotDurable(f"refusing to measure on a server with {wrong}")
        yield found


def settle(url: str) -> None:
    """Do what autovacuum would have done by now: statistics for the planner, after a fill."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _show(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return str(row[0]) if row else ""
