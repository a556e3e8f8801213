"""What the scheduler asks at every check reads an index from its beginning: the cost of a pass
does not grow with the schedules that are not due."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import psycopg
import pytest

from rota.app import make_store
from rota.model.schedules import ScheduleType, Trigger, TriggerKind
from rota.storage.port import Transaction
from rota.storage.schedule_port import RESTS, Standing
from rota.storage.statements import load_statements
from rota.testing.clock import ManualClock
from rota.testing.postgres import PostgresServer
from tests.contract.spelling import to_psycopg
from tests.contract.sqlite_steps import steps

CLOCK = ManualClock()
NOW = CLOCK.text()
FEW, MANY = 400, 20_000
HEAD: dict[str, Any] = {"beyond_at": "", "beyond_agent": "", "beyond_name": ""}
ROW = '["agent-7","s7","x","x","x",1,null]'

# What is asked, with what, and the index that has to answer it.
CHECK: dict[str, tuple[dict[str, Any], str]] = {
    "is_due": ({"now": NOW, **HEAD}, "schedules_due"),
    "due_schedules": ({"now": NOW, "want": 500, **HEAD}, "schedules_due"),
    "next_wake": ({"now": NOW}, "schedules_due"),
    "is_waiting": ({}, "triggers_open"),
    "open_triggers": ({"agents": '["agent-7"]'}, "triggers_open"),
    "advance_schedules": ({"rows": f"[{ROW}]", "now": NOW}, "PRIMARY"),
    "end_triggers": ({"rows": '[["t","x",null]]', "now": NOW}, "PRIMARY"),
    "note_ends": ({"rows": f"[{ROW}]", "now": NOW, "rests": RESTS}, "PRIMARY"),
    "free_waiting": ({"agents": '["agent-7"]', "now": NOW, "rests": RESTS}, "PRIMARY"),
    "schedule_state": ({"agent": "agent-7", "name": "s7", "alive_since": NOW}, "PRIMARY"),
    "schedule_states": (
        {"after_agent": "agent-3", "after_name": "s", "want": 50, "alive_since": NOW}, "PRIMARY",
    ),
    "agent_schedule_states": (
        {"agent": "agent-7", "after_name": "", "want": 50, "alive_since": NOW}, "PRIMARY",
    ),
    "taken_by": ({"node": "n"}, "triggers_open"),
    "count_waiting": ({"agent": "agent-7", "schedule": "s7"}, "triggers_open"),
    "waiting_triggers": (
        {"agents": '["agent-7", "agent-8"]', "after": "", "want": 500}, "triggers_open",
    ),
    "lose_triggers": ({"now": NOW, "error": "x"}, "triggers_open"),
    "take_up": ({"id": "t", "node": "n", "now": NOW}, "PRIMARY"),
    "prune_triggers": ({"before": "2000"}, "triggers_by_age"),
    "wakings": ({"rows": '[["agent-7","s7"]]', "since": NOW, "begin": "t9999"}, "PRIMARY"),
}  # fmt: skip


def fill(tx: Transaction, count: int) -> None:
    """Many schedules, none of them due; and many triggers, few of them open."""
    tx.put_schedules(
        [
            Standing(
                f"agent-{n // 10}", f"s{n}", ScheduleType.INTERVAL, "interval 1", True, True,
                CLOCK.text(10 + n), CLOCK.text(10 + n),
            )
            for n in range(count)
        ]
    )  # fmt: skip
    tx.insert_triggers(
        [
            Trigger(
                f"t{n}", f"agent-{n // 10}", f"s{n}", NOW, TriggerKind.SCHEDULE, "n",
                CLOCK.text(n),
            )
            for n in range(count)
        ]
    )  # fmt: skip


ENDED = "UPDATE triggers SET ended_at = 'now', outcome = 'succeeded' WHERE id NOT IN ('t7', 't8')"


async def filled(url: str, count: int) -> None:
    store = make_store(url)
    await store.open()
    await store.transact(lambda tx: fill(tx, count))
    await store.close()


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, apsw.Connection]]:
    opened = {}
    for count in (FEW, MANY):
        path: Path = tmp_path_factory.mktemp("plans") / "rota.db"
        anyio.run(filled, str(path), count)
        opened[count] = apsw.Connection(str(path))
        opened[count].config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        opened[count].execute(ENDED)
    yield opened
    for connection in opened.values():
        connection.close()


@pytest.mark.parametrize("name", CHECK)
def test_sqlite_reads_the_index(databases: dict[int, apsw.Connection], name: str) -> None:
    values, index = CHECK[name]
    rows = databases[MANY].execute(f"EXPLAIN QUERY PLAN {load_statements('sqlite')[name]}", values)
    plan = [str(row[3]) for row in rows]
    tables = [
        line for line in plan if re.match(r"(SCAN|SEARCH) (schedules|triggers|s|t|f)\b", line)
    ]
    assert all("INDEX" in line or "PRIMARY KEY" in line for line in tables), plan
    assert any(re.search(index, line) for line in plan), plan


@pytest.mark.parametrize("name", CHECK)
def test_sqlite_works_as_hard_with_fifty_times_the_schedules(
    databases: dict[int, apsw.Connection], name: str
) -> None:
    statement, values = load_statements("sqlite")[name], CHECK[name][0]
    few, many = (steps(databases[count], statement, values) for count in (FEW, MANY))
    assert 0 < many <= 1.5 * few + 100


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> Iterator["psycopg.Connection[Any]"]:
    url = postgres.create_database("rota_schedule_plans")
    anyio.run(filled, url, MANY)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ENDED.encode())
        connection.execute("VACUUM ANALYZE")
        yield connection
    postgres.drop_database("rota_schedule_plans")


@pytest.mark.parametrize("name", CHECK)
def test_postgres_reads_the_index(server: "psycopg.Connection[Any]", name: str) -> None:
    values, index = CHECK[name]
    statement = to_psycopg(load_statements("postgres")[name])
    with psycopg.ClientCursor(server) as cursor:
        cursor.execute(f"EXPLAIN (COSTS OFF) {statement}".encode(), values)
        plan = "\n".join(str(row[0]) for row in cursor.fetchall())
    assert re.search(rf"(using|on) \w*({index.replace('PRIMARY', 'pkey')})\w*", plan), plan
    assert not re.search(r"Seq Scan on (schedules|triggers)", plan), plan


@pytest.mark.parametrize("name", CHECK)
def test_postgres_prepares_it_with_an_index(server: "psycopg.Connection[Any]", name: str) -> None:
    if server.info.server_version < 160_000:
        pytest.skip("this PostgreSQL cannot say how it would run a prepared statement")
    values = CHECK[name][0]
    places = {parameter: f"${n}" for n, parameter in enumerate(values, 1)}
    text = re.sub(
        r"(?<!:):([a-z][a-z0-9_]*)",
        lambda match: places[match[1]],
        load_statements("postgres")[name],
    )
    rows = server.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {text}".encode()).fetchall()
    plan = "\n".join(str(row[0]) for row in rows)
    assert not re.search(r"Seq Scan on (schedules|triggers)", plan), plan
