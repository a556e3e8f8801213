"""Upgrades in their own processes: `python -m tests.contract.upgrades crash|race URL …`.

This process only forks, once everything is imported; its children upgrade, are killed, or check
what is left. Each result is a line of JSON.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg

from rota.app import make_store, open_queue, open_store, sqlite_path
from rota.model.work import NewItem
from rota.storage import migrations, postgres, sqlite
from rota.storage.migrations import Migration

ALL = [
    "0001_ledger",
    "0002_sources",
    "0003_fleet",
    "0004_signals",
    "0005_signal_plan",
    "0006_review_gate",
    "0007_notifications",
    "0008_dead_letters",
    "0009_given_back",
    "0010_fewer_trees",
    "0011_declarations",
    "0012_rosters",
    "0013_ready_labels",
    "0014_follows",
    "0015_no_gap",
]
NEXT = Migration(
    "9999_next",
    "CREATE TABLE next_things (id text PRIMARY KEY NOT NULL);\n"
    "ALTER TABLE projects ADD COLUMN next_column text;\n"
    "INSERT INTO next_things SELECT id FROM work_items;\n"
    "CREATE INDEX next_index ON projects (next_column);\n",
)
OLD = migrations.migrations


def new(dialect: str) -> tuple[Migration, ...]:
    return (*OLD(dialect), NEXT)


def first_only(dialect: str) -> tuple[Migration, ...]:
    return OLD(dialect)[:1]


def carry(wanted: Callable[[str], tuple[Migration, ...]]) -> None:
    """Act as another version of Rota: every module that asks for migrations gets these."""
    for module in (migrations, sqlite, postgres):
        module.migrations = wanted  # type: ignore[attr-defined]


def say(word: Any) -> None:
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


# the children


def in_child(work: Callable[[], Any]) -> tuple[int, Any]:
    """Run it in a fork. Returns its wait status, and what it returned if it got that far."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)
        answer = json.dumps(work())
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    status = os.waitpid(pid, 0)[1]
    return status, json.loads(said) if said else None


def upgrade(url: str) -> list[str]:
    return asyncio.run(make_store(url).upgrade())


def upgrade_until(url: str, start_from: str, count: int) -> list[str]:
    """Die before the statement of that number; return if there are fewer."""
    if start_from == "old":
        carry(new)
    left = count

    def tick() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = lambda *_: tick() or True

    apsw.connection_hooks.append(watch)
    _watch_psycopg(tick)
    return upgrade(url)


def _watch_psycopg(tick: Callable[[], None]) -> None:
    execute, command = psycopg.Connection.execute, psycopg.Connection._exec_command

    def one_by_one(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        cursor = None
        for statement in statements(query):
            tick()
            cursor = execute(self, statement, *arguments, **options)
        return cursor

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        tick()  # BEGIN and COMMIT
        return command(self, *arguments, **options)

    psycopg.Connection.execute = one_by_one  # type: ignore[method-assign, assignment]
    psycopg.Connection._exec_command = counted  # type: ignore[method-assign]


def statements(text: str) -> list[str]:
    """A migration, statement by statement; text between $$ is one statement."""
    parts = re.split(r"(\$\$.*?\$\$)", text, flags=re.DOTALL)
    whole = "".join(part if part.startswith("$$") else part.replace(";\n", "\0") for part in parts)
    return [one for one in whole.split("\0") if re.sub(r"--.*", "", one).strip()]


def look(url: str) -> dict[str, Any]:
    """What a database has: tables, indexes, triggers, columns, and how many items."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            return _look(
                lambda sql: connection.execute(sql.encode()).fetchall(),
                "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " UNION ALL SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal"
                " UNION ALL SELECT column_name::text FROM information_schema.columns"
                " WHERE table_schema = 'public' ORDER BY 1",
            )
    if not sqlite_path(url).exists():
        return {"objects": [], "applied": [], "items": 0}
    lite = apsw.Connection(str(sqlite_path(url)))
    try:
        assert lite.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return _look(
            lambda sql: lite.execute(sql).fetchall(),
            "SELECT name FROM sqlite_schema UNION ALL"
            " SELECT c.name FROM sqlite_schema s, pragma_table_info(s.name) c ORDER BY 1",
        )
    finally:
        lite.close()


def _look(ask: Callable[[str], list[Any]], objects: str) -> dict[str, Any]:
    found = [name for (name,) in ask(objects) if not name.startswith("sqlite_")]
    if "schema_migrations" not in found:
        return {"objects": found, "applied": [], "items": 0}
    return {
        "objects": found,
        "applied": [name for (name,) in ask("SELECT name FROM schema_migrations ORDER BY 1")],
        "items": ask("SELECT count(*) FROM work_items")[0][0],
    }


def fill(url: str) -> None:
    async def main() -> None:
        async with open_queue(url) as queue:
            await queue.submit(NewItem("chore", "x"))

    asyncio.run(main())


def empty(url: str) -> None:
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    else:
        shutil.rmtree(sqlite_path(url).parent, ignore_errors=True)
        sqlite_path(url).parent.mkdir(mode=0o700)


# the modes


def crash(url: str, start_from: str, step: str) -> None:
    """Kill an upgrade before its first, second, … statement, each time on the old database."""
    killed, count = True, 1
    while killed:
        _, before = in_child(partial(prepare, url, start_from))
        status, applied = in_child(partial(upgrade_until, url, start_from, count))
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        _, (after, again, final) = in_child(partial(mend, url, start_from))
        say([count, killed, before, after, again, final, applied])
        count += int(step)


def prepare(url: str, start_from: str) -> dict[str, Any]:
    empty(url)
    if start_from == "first":
        carry(first_only)
    if start_from != "nothing":
        fill(url)
    return look(url)


def mend(url: str, start_from: str) -> list[Any]:
    """What is left, what a later upgrade does, and what there is then."""
    if start_from == "old":
        carry(new)
    return [look(url), upgrade(url), look(url)]


def race(url: str, rounds: str, how: str) -> None:
    """Several processes at once on an empty database; what each of them applied."""
    for _ in range(int(rounds)):
        in_child(lambda: empty(url))
        gate_reader, gate_writer = os.pipe()
        children = [_racer(url, how, gate_reader, gate_writer) for _ in range(4)]
        os.close(gate_writer)  # all of them see the end of the pipe, and start
        os.close(gate_reader)
        results = []
        for pid, reader in children:
            with os.fdopen(reader) as pipe:
                said = pipe.read()
            results.append([os.waitpid(pid, 0)[1], said])
        say([results, in_child(lambda: look(url))[1]])


def _racer(url: str, how: str, gate_reader: int, gate_writer: int) -> tuple[int, int]:
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(gate_writer)
        os.read(gate_reader, 1)
        try:
            applied = upgrade(url) if how == "upgrade" else asyncio.run(_open(url))
            os.write(writer, json.dumps(applied).encode())
        except BaseException as error:  # noqa: BLE001 - the test shall hear of it
            os.write(writer, repr(error).encode())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    return pid, reader


async def _open(url: str) -> list[str]:
    async with open_store(url) as store:
        return (await store.schema()).applied


# for tests


def in_processes(*arguments: str) -> list[Any]:
    command = [sys.executable, "-m", "tests.contract.upgrades", *arguments]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def demand_whole(url: str, start_from: str, step: int, figure: Callable[[str], None]) -> None:
    *killed, finished = in_processes("crash", url, start_from, str(step))
    figure(f"{len(killed)} points of death, each left the old schema whole")
    assert len(killed) * step > 10
    wanted = {"nothing": ALL, "first": ALL[1:], "old": [NEXT.name]}[start_from]
    for point, was_killed, before, after, again, final, _ in killed:
        assert was_killed, point
        assert after == before, f"killed before statement {point}"
        assert again == wanted, f"the upgrade after a death before statement {point}"
        assert final == finished[5]
    assert finished[1] is False
    assert finished[6] == wanted
    assert finished[3] == finished[5]
    assert finished[5]["items"] == (start_from != "nothing")


if __name__ == "__main__":
    {"crash": crash, "race": race}[sys.argv[1]](*sys.argv[2:])
