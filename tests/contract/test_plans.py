"""The hot statements read an index from its beginning and stop: their cost does not grow."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import psycopg
import pytest

from rota.app import make_store
from rota.model.status import Status
from rota.model.work import ItemFilter, NewItem
from rota.storage.port import Transaction
from rota.storage.postgres_connection import connect
from rota.storage.select import candidates, line, listing, tally
from rota.storage.sqlite_values import named_in, with_values
from rota.storage.statements import load_statements
from rota.testing.clock import ManualClock
from rota.testing.postgres import PostgresServer
from tests.contract.spelling import to_psycopg
from tests.contract.sqlite_steps import steps

NOW = ManualClock().text()
WANT = 5
MANY, FEW = 20_000, 400

Statement = tuple[str, Any]  # its text, and its values


def claim(
    named: bool = False,
    types: int = 0,
    labels: int = 0,
    project: bool = False,
) -> Callable[[str], list[Statement]]:
    asked = {"named": named, "types": types, "labels": labels, "project": project}
    values: dict[str, Any] = {"want": WANT, "agent": "ada"}
    values |= {f"type_{n}": f"type-{n}" for n in range(types)}
    values |= {f"label_{n}": "red" for n in range(labels)}
    values |= {"project_id": "p-1"} if project else {}
    return lambda dialect: [(text, values) for text in candidates(dialect, **asked)]


def before_in_line(types: int = 0) -> Callable[[str], list[Statement]]:
    values: dict[str, Any] = {"agent": "ada", "priority": 1, "id": PLACE[1], "most": WANT}
    values |= {f"type_{n}": f"type-{n}" for n in range(types)}
    text = line(types=types, labels=0, project=False)
    return lambda _: [(text, values)]


def named(name: str, **values: Any) -> Callable[[str], list[Statement]]:
    return lambda dialect: [(load_statements(dialect)[name], values)]


def lists(**values: Any) -> Callable[[str], list[Statement]]:
    return lambda dialect: [listing(ItemFilter(**{"limit": 51, **values}))]


REPO = "github:owner/repo"
PLACE = (3, "0190a000-0000-7000-8000-000000000000")
# What is asked, and the index that has to answer it.
CLAIMS: dict[str, tuple[Callable[[str], list[Statement]], str]] = {
    "a claim": (claim(), "work_items_ready"),
    "a claim of one type": (claim(types=1), "work_items_ready_by_type"),
    "a claim of three types": (claim(types=3), "work_items_ready_by_type"),
    "a claim of what is the agent's": (claim(named=True), "work_items_by_agent"),
    "a claim of one type of what is the agent's": (
        claim(named=True, types=1),
        "work_items_by_agent",
    ),
    "a claim within a project": (claim(project=True), "work_items_by_project"),
    "a claim with a label": (claim(labels=1), "PRIMARY|ready_labels_pkey"),
    "a claim of two types with a label": (claim(types=2, labels=1), "PRIMARY|ready_labels_pkey"),
}
LISTS: dict[str, tuple[Callable[[str], list[Statement]], str]] = {
    "a claim with two labels, which are put in order": (
        claim(labels=2),
        "PRIMARY|ready_labels_pkey",
    ),
    "a list by status": (lists(statuses=(Status.BLOCKED,)), "work_items_by_status"),
    "a list of what has ended": (
        lists(statuses=(Status.COMPLETED,), limit=WANT),
        "work_items_by_status",
    ),
    "a list of what is queued": (lists(statuses=(Status.QUEUED,)), "work_items_waiting"),
    "a list of what may be taken": (lists(statuses=(Status.QUEUED,)), "work_items_ready"),
    "a list of what is in progress": (lists(statuses=(Status.IN_PROGRESS,)), "per_slot"),
    "a list by two statuses": (
        lists(statuses=(Status.QUEUED, Status.FAILED)),
        "work_items_by_status",
    ),
    "a list of everything": (lists(), "work_items_by_status"),
    "a list by the beginning of ids": (lists(id_prefix="0190", by_age=True), "work_items_pkey|id"),
    "a page further on": (
        lists(statuses=(Status.COMPLETED,), after=PLACE),
        "work_items_by_status",
    ),
    "a page further on of what is queued": (
        lists(statuses=(Status.QUEUED,), after=PLACE),
        "work_items_waiting",
    ),
    "a list by agent": (
        lists(statuses=(Status.QUEUED,), agent="ada"),
        "work_items_by_agent",
    ),
    "a list by project": (
        lists(statuses=(Status.QUEUED,), project_id="p-1"),
        "work_items_by_project",
    ),
    "what ended last": (
        lists(statuses=(Status.COMPLETED,), by_end=True, limit=WANT),
        "work_items_by_end",
    ),
    "what ended before that": (
        lists(statuses=(Status.COMPLETED,), by_end=True, limit=WANT, before=(NOW, PLACE[1])),
        "work_items_by_end",
    ),
    "how many there are, up to a few": (
        lambda _: [tally(ItemFilter((Status.BLOCKED, Status.COMPLETED), limit=WANT))],
        "work_items_by",
    ),
    "how many are queued, up to a few": (
        lambda _: [tally(ItemFilter((Status.QUEUED,), limit=WANT))],
        "work_items_waiting",
    ),
    "how many stand before an item": (
        named("queued_before", priority=1, id=PLACE[1]),
        "work_items_ready",
    ),
    "how many stand before an item in an agent's line": (
        before_in_line(types=2),
        "work_items_ready_by_type",
    ),
    "how many stand before an item among the agent's own": (
        before_in_line(),
        "work_items_by_agent",
    ),
    "items that are due": (named("promote_due", now=NOW), "work_items_deferred"),
    "when the next item is due": (named("next_due"), "work_items_deferred"),
    "claims that have lapsed": (named("lapsed_items", now=NOW, limit=9), "work_items_by_lease"),
    "when the next claim lapses": (named("next_expiry"), "work_items_by_lease"),
    "an agent's slots": (named("busy_slots", agent="ada"), "in_progress|by_agent"),
    "what some agents may take": (
        named("seats", agents='["ada"]'),
        "by_agent|in_progress_per_slot",
    ),
    "what an agent has on its hands": (
        named("on_hands", agent="ada"),
        "by_agent|in_progress_per_slot",
    ),
    "what waits for a review": (
        named("waiting_reviews", place="github.com/owner/repo/pull", limit=9),
        "work_items_by_status|PRIMARY|reviews_pkey",
    ),
    "an item's events": (named("events_of", id="x", limit=9), "events_by_item"),
    "an item's dispatches": (named("dispatches_of", id="x"), "dispatch_log_pkey|PRIMARY"),
    "what an item blocks": (named("blocked_by", id="x"), "work_item_links_by_blocker"),
    "the item of a reference": (
        named("outside_item", source=REPO, source_ref="7"),
        "by_source|source_ref",
    ),
    "the items of some references": (
        named("outside_items", source=REPO, refs='["7", "8", "9"]'),
        "by_source|source_ref",
    ),
    "all items of a source": (named("live_references", source=REPO), "by_source|source_ref"),
    "a claim of a follow-up": (
        named("lease_follow_up", agent="ada", token="t", now=NOW, until=NOW),
        "work_item_tasks_open",
    ),
    "an item's follow-ups": (
        named("follow_ups_of", item=PLACE[1], status="", agent="", after="", want=9),
        "work_item_tasks_by_item",
    ),
    "our claims that a source shows": (
        named("open_source_claims", source=REPO, now=NOW),
        "source_claims_open",
    ),
    "our claim of a reference": (
        named("latest_source_claim", source=REPO, source_ref="7", now=NOW),
        "source_claims_open",
    ),
}
ALL = CLAIMS | LISTS


def fill(tx: Transaction, count: int) -> None:
    """Most of it is done, as in any queue that has been used for a while."""
    for start in range(0, count, 1_000):
        items = [
            (
                f"0190a000-0000-7000-8000-{start + n:012d}",
                NewItem(
                    f"type-{n % 7}",
                    "x",
                    priority=1 + n % 5,
                    project_id=f"p-{n % 5}",
                    assigned_agent="ada" if n % 11 == 0 else None,
                    labels=("red",) if n % 13 == 0 else (),
                    available_at=ManualClock().text(n - 100) if n % 17 == 0 else None,
                ),
            )
            for n in range(min(1_000, count - start))
        ]
        tx.insert_items(items, None, ManualClock().text(-200))
    mirror(tx, count // 2)


def mirror(tx: Transaction, count: int) -> None:
    """At the head of the line, too: a claim that read them would wade through all of them."""
    for start in range(0, count, 1_000):
        items = [
            (
                f"0190a000-0000-7000-9000-{n:012d}",
                NewItem(
                    f"type-{n % 7}",
                    "x",
                    priority=1,
                    project_id="p-1",
                    labels=("red",),
                    source=REPO,
                    source_ref=str(n),
                ),
            )
            for n in range(start, min(start + 1_000, count))
        ]
        tx.insert_items(items, None, ManualClock().text(-200))


# Few of the claims that were ever made are open.
CLAIMED = (
    "INSERT INTO source_claims (firing_id, source, source_ref, work_item_id, epoch, codename,"
    " fleet, nonce, entry_id, created_at, ended_at, outcome)"
    " SELECT id, source, source_ref, id, 0, 'c', 'f', 'n', NULL, 'now',"
    " CASE WHEN length(source_ref) > 1 THEN 'now' END,"
    " CASE WHEN length(source_ref) > 1 THEN 'done' END FROM work_items WHERE source IS NOT NULL"
)

FOLLOWED = (
    "INSERT INTO work_item_tasks (id, work_item_id, title, status, created_at, completed_at,"
    " outcome) SELECT id, id, 't', 'completed', 'now', 'now', 'success' FROM work_items"
)
PROJECTS = "INSERT INTO projects VALUES ('p-{0}', 'p', NULL, 'now', 'now')"
DONE = (
    "UPDATE work_items SET status = 'completed', outcome = 'success', completed_at = substr(id, 25)"
    " WHERE assigned_agent IS NULL AND substr(id, 35) IN ('10', '20', '30', '40', '50', '60')"
    " AND source IS NULL"
)

# At the head of the line, so that whoever reads the line from there wades through all of them.
HELD = (
    "UPDATE work_items SET hold_reason = 'wait'"
    " WHERE status = 'queued' AND priority = 1 AND assigned_agent IS NULL AND source IS NULL"
)


async def _filled(url: str, count: int, execute: Callable[[str], Any]) -> None:
    store = make_store(url)
    await store.open()
    for n in range(5):
        execute(PROJECTS.format(n))
    await store.transact(lambda tx: fill(tx, count))
    execute(DONE)
    execute(HELD)
    execute(CLAIMED)
    execute(FOLLOWED)
    await store.close()


# SQLite


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, apsw.Connection]]:
    """A small and a large one."""
    opened = {}
    for count in (FEW, MANY):
        path = tmp_path_factory.mktemp("plans") / "rota.db"
        anyio.run(make_store(str(path)).upgrade)
        opened[count] = _connected(path)
        anyio.run(_filled, str(path), count, opened[count].execute)
    yield opened
    for connection in opened.values():
        connection.close()


def _connected(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def sqlite_plan(connection: apsw.Connection, statement: Statement) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement[0]}", statement[1])
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize(("ask", "index"), ALL.values(), ids=ALL.keys())
def test_sqlite_reads_the_index(
    databases: dict[int, apsw.Connection],
    ask: Callable[[str], list[Statement]],
    index: str,
) -> None:
    for statement in ask("sqlite"):
        plan = sqlite_plan(databases[MANY], statement)
        tables = [
            line
            for line in plan
            if re.match(r"(SCAN|SEARCH) (work_items|events|claims|work_item_tasks)\b", line)
        ]
        assert all("INDEX" in line or "PRIMARY KEY" in line for line in tables), plan
        assert any(re.search(rf"\b\w*({index})\w*\b", line) for line in plan), plan


@pytest.mark.parametrize("ask", [ask for ask, _ in CLAIMS.values()], ids=CLAIMS.keys())
def test_sqlite_sorts_nothing_for_a_claim(
    databases: dict[int, apsw.Connection], ask: Callable[[str], list[Statement]]
) -> None:
    for statement in ask("sqlite"):
        plan = sqlite_plan(databases[MANY], statement)
        assert not any("TEMP B-TREE" in line for line in plan), plan


GROWS = ("items that are due", "an agent's slots", "all items of a source")
FLAT = [name for name in ALL if name not in GROWS]


@pytest.mark.parametrize("name", FLAT)
def test_sqlite_works_as_hard_with_fifty_times_the_items(
    databases: dict[int, apsw.Connection], name: str
) -> None:
    for statement in ALL[name][0]("sqlite"):
        few, many = (steps(databases[count], *statement) for count in (FEW, MANY))
        assert 0 < many <= 1.5 * few + 100, name


def test_sqlite_begins_with_the_rarest_label(databases: dict[int, apsw.Connection]) -> None:
    ((text, values),) = claim(labels=2)("sqlite")
    rare_last, rare_first = (
        steps(databases[MANY], text, values | {"label_0": first, "label_1": second})
        for first, second in (("red", "rare"), ("rare", "red"))
    )
    assert max(rare_last, rare_first) < 500  # hundreds of ready items are red


def test_sqlite_counts_what_has_ended_in_the_index_alone(
    databases: dict[int, apsw.Connection],
) -> None:
    """History only grows: a look at each row made a scrape of the metrics ten times as long."""
    plan = sqlite_plan(databases[MANY], (load_statements("sqlite")["count_by_status"], {}))
    assert "SCAN work_items USING COVERING INDEX work_items_by_end" in plan, plan


# What changes many rows at once, and the table whose rows are looked up for it.
CHANGES = {
    "take_items": "work_items",
    "finish_items": "work_items",
    "finish_log": "dispatch_log",
}


def spelt(name: str, size: int) -> Statement:
    """A statement over many rows, of which each value is a time; no plan depends on them."""
    text = load_statements("sqlite")[name]
    count = len(named_in(text))
    constants = tuple(dict.fromkeys(re.findall(r":(now|actor)\b", text)))
    return with_values(text, constants, size, count), (NOW,) * (len(constants) + size * count)


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("name", CHANGES)
def test_sqlite_looks_up_each_row_that_it_changes(
    databases: dict[int, apsw.Connection], name: str, size: int
) -> None:
    table = CHANGES[name]
    plan = sqlite_plan(databases[MANY], spelt(name, size))
    assert f"SCAN {table}" not in plan, plan
    assert any(re.match(rf"SEARCH {table} USING .*\((work_item_)?id=", one) for one in plan)


@pytest.mark.parametrize("name", ["insert_items", "take_log", *CHANGES])
def test_sqlite_makes_no_table_for_every_row_that_it_writes(
    databases: dict[int, apsw.Connection], name: str
) -> None:
    """In a CHECK it does, for a list with more than two values: a tenth of what a claim cost."""
    text, values = spelt(name, 2)
    program = databases[FEW].execute(f"EXPLAIN {text}", values).fetchall()
    body = program[: program[0][3]]  # behind it are what is set up once, and triggers
    loops = [(row[3], row[0]) for row in body if row[1] in ("Next", "Goto") and row[3] < row[0]]
    tables = [row[0] for row in body if row[1] == "OpenEphemeral" and body[row[0] - 1][1] != "Once"]
    assert loops
    assert not [at for at in tables if any(first <= at <= last for first, last in loops)], body


# PostgreSQL


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> Iterator["psycopg.Connection[Any]"]:
    url = postgres.create_database("rota_plans")
    anyio.run(make_store(url).upgrade)
    with psycopg.connect(url, autocommit=True) as connection:
        anyio.run(_filled, url, MANY, lambda text: connection.execute(text.encode()))
        connection.execute("VACUUM ANALYZE")
        yield connection
    postgres.drop_database("rota_plans")


def postgres_plan(
    connection: "psycopg.Connection[Any]", statement: Statement, *options: str
) -> str:
    asked = ", ".join(("COSTS OFF", *options))
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(f"EXPLAIN ({asked}) {to_psycopg(statement[0])}".encode(), statement[1])
        return "\n".join(str(row[0]) for row in cursor.fetchall())


def generic_plan(connection: "psycopg.Connection[Any]", statement: Statement) -> str:
    """As a prepared statement may come to have it: for any values."""
    places = {name: f"${n}" for n, name in enumerate(statement[1], 1)}
    text = re.sub(r"(?<!:):([a-z][a-z0-9_]*)", lambda match: places[match[1]], statement[0])
    rows = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {text}".encode()).fetchall()
    return "\n".join(str(row[0]) for row in rows)


HOT = {
    "a claim": named("take_items", rows="[]", now=NOW),
    "a completion": named("finish_items", rows="[]", now=NOW),
    "the seats of agents": named("seats", agents="[]"),
    "an item's dispatches": named("dispatches_of", id="x"),
}


@pytest.mark.parametrize("what", HOT)
def test_a_table_that_was_seen_empty_is_not_read_as_a_whole(empty_postgres: str, what: str) -> None:
    """A plan is kept while the table grows."""
    anyio.run(make_store(empty_postgres).upgrade)
    ((text, values),) = HOT[what]("postgres")
    statement = text, dict(sorted(values.items()))
    with psycopg.connect(empty_postgres, autocommit=True) as plain:
        plain.execute("VACUUM ANALYZE")
        assert "Seq Scan" in generic_plan(plain, statement), "what the planner would do by itself"
    with connect(empty_postgres, "rota") as ours:
        assert "Seq Scan" not in generic_plan(ours, statement)


@pytest.mark.parametrize("labels", [1, 2])
def test_a_claim_by_label_looks_items_up_before_the_tables_were_analysed(
    empty_postgres: str, labels: int
) -> None:
    anyio.run(make_store(empty_postgres).upgrade)
    ((text, values),) = claim(labels=labels)("postgres")
    with connect(empty_postgres, "rota") as ours:
        plan = generic_plan(ours, (text, values))
    assert re.search(r"Index Only Scan using ready_labels_pkey on ready_labels r\b", plan), plan
    assert "Index Scan using work_items_pkey on work_items" in plan, plan
    assert "Sort Key: r." not in plan, plan


# A table without rows is read whole, and so is one of which a third is wanted; rightly so.
WHOLE = (
    "an item's dispatches",
    "what an item blocks",
    "all items of a source",
    "what waits for a review",
    "what some agents may take",  # of the agents themselves there are few
    "how many are queued, up to a few",
)
POSTGRES = [name for name in ALL if name not in WHOLE]


@pytest.mark.parametrize("name", POSTGRES)
def test_postgres_reads_the_index(server: "psycopg.Connection[Any]", name: str) -> None:
    ask, index = ALL[name]
    for statement in ask("postgres"):
        plan = postgres_plan(server, statement)
        assert re.search(rf"(using|on) \w*({index.replace('PRIMARY', 'pkey')})\w*", plan), plan
        assert "Seq Scan" not in plan, plan


@pytest.mark.parametrize("name", CLAIMS)
def test_postgres_prepares_a_claim_with_an_index(
    server: "psycopg.Connection[Any]", name: str
) -> None:
    if server.info.server_version < 160_000:
        pytest.skip("this PostgreSQL cannot say how it would run a prepared statement")
    for statement in CLAIMS[name][0]("postgres"):
        plan = generic_plan(server, statement)
        assert "Seq Scan" not in plan, plan


@pytest.mark.parametrize("name", ["take_items", "finish_items"])
def test_postgres_looks_up_each_row_that_it_changes(
    server: "psycopg.Connection[Any]", name: str
) -> None:
    statement = (load_statements("postgres")[name], {"rows": "[]", "now": NOW})
    plan = generic_plan(server, statement)
    assert "Seq Scan on work_items" not in plan
    assert "Update on work_items" in plan


def test_postgres_takes_the_first_open_items_without_sorting_or_wading(
    server: "psycopg.Connection[Any]",
) -> None:
    (statement,) = claim()("postgres")
    plan = postgres_plan(server, statement, "ANALYZE", "TIMING OFF")
    assert re.search(r"Index Scan using work_items_ready\b", plan), plan
    assert "Sort" not in plan, plan
    assert not re.search(r"(rows=|Rows Removed by Filter: )\d{3,}", plan), plan
