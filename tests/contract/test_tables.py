"""What the tables refuse by themselves, past all services: the promises, kept where data lives."""

from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest

from rota.model.errors import StorageError
from rota.model.events import EventType, NewEvent
from rota.model.status import Status
from rota.model.work import NewItem
from rota.storage.port import Store, Transaction
from rota.testing.clock import ManualClock

Sql = Callable[..., list[tuple[Any, ...]]]
REFUSED = (apsw.ConstraintError, psycopg.IntegrityError, psycopg.errors.RaiseException)
NOW = ManualClock().text()


def row(item_id: str, **values: object) -> tuple[str, dict[str, object]]:
    columns: dict[str, object] = {
        "id": item_id,
        "type": "chore",
        "description": "x",
        "status": "queued",
        "created_at": NOW,
        "updated_at": NOW,
    }
    columns |= values
    names = ", ".join(columns)
    marks = ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO work_items ({names}) VALUES ({marks})", columns


AT_WORK: dict[str, object] = {"assigned_agent": "ada", "slot": 0}
STANDS_WELL: dict[str, dict[str, object]] = {
    "queued": {},
    "dispatched": {"assigned_agent": "ada"},
    "in_progress": AT_WORK,
    "blocked": {},
    "in_review": {},
    "completed": {"completed_at": NOW, "outcome": "success"},
    "failed": {"completed_at": NOW, "outcome": "failed"},
    "cancelled": {"completed_at": NOW, "outcome": "cancelled"},
}


async def test_every_status_has_a_row_that_the_table_accepts(sql: Sql) -> None:
    assert set(STANDS_WELL) == set(Status)
    for status, values in STANDS_WELL.items():
        statement, columns = row(status, status=status, **values)
        sql(statement, **columns)


OUTSIDE: dict[str, object] = {"source": "s", "source_ref": "1"}
ILL: dict[str, dict[str, object]] = {
    "an unknown status": {"status": "done"},
    "no status": {"status": None},
    "no type": {"type": None},
    "no description": {"description": None},
    "a priority of 0": {"priority": 0},
    "a priority of 6": {"priority": 6},
    "fewer than no attempts": {"attempts": -1},
    "no attempt allowed": {"max_attempts": 0},
    "fewer than no blockers": {"open_blockers": -1},
    "fewer than no dependents": {"dependents": -1},
    "half deferred": {"deferred": 2},
    "half pinned": {"pinned": 2},
    "queued with an end": {"completed_at": NOW},
    "queued with an outcome": {"outcome": "success"},
    "queued in a slot": {"slot": 0},
    "queued with a claim": {"claim_token": "t", "lease_expires_at": NOW},
    "blocked with a claim": {"status": "blocked", "claim_token": "t", "lease_expires_at": NOW},
    "dispatched to nobody": {"status": "dispatched"},
    "in progress by nobody": {"status": "in_progress", "slot": 0},
    "in progress in no slot": {"status": "in_progress", "assigned_agent": "ada"},
    "in progress with an end": {"status": "in_progress", **AT_WORK, "completed_at": NOW},
    "a claim without an expiry": {"status": "in_progress", **AT_WORK, "claim_token": "t"},
    "an expiry without a claim": {"status": "in_progress", **AT_WORK, "lease_expires_at": NOW},
    "completed without an end": {"status": "completed", "outcome": "success"},
    "completed without an outcome": {"status": "completed", "completed_at": NOW},
    "completed as failed": {"status": "completed", "completed_at": NOW, "outcome": "failed"},
    "failed as success": {"status": "failed", "completed_at": NOW, "outcome": "success"},
    "failed without an outcome": {"status": "failed", "completed_at": NOW},
    "cancelled as failed": {"status": "cancelled", "completed_at": NOW, "outcome": "failed"},
    "an unknown project": {"project_id": "nowhere"},
    "held by its source for no reason": {"hold_by": "source", **OUTSIDE},
    "held by a source it has not": {"hold_by": "source", "hold_reason": "wait"},
    "held by a stranger": {"hold_by": "me", "hold_reason": "wait", **OUTSIDE},
}


@pytest.mark.parametrize("values", ILL.values(), ids=ILL.keys())
async def test_an_item_cannot_be(sql: Sql, values: dict[str, object]) -> None:
    statement, columns = row("x", **values)
    with pytest.raises(REFUSED):
        sql(statement, **columns)
    assert sql("SELECT count(*) FROM work_items") == [(0,)]


QUEUED: dict[str, object] = {"status": "queued", "completed_at": None, "outcome": None}
# What an item may have at first, and later.
TURNS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "its status": (QUEUED, {"status": "completed", "completed_at": NOW, "outcome": "success"}),
    "its agent": ({"assigned_agent": None}, {"assigned_agent": "ada"}),
    "its hold": ({"hold_reason": None}, {"hold_reason": "wait"}),
    "its blockers": ({"open_blockers": 0}, {"open_blockers": 1}),
    "its time": ({"deferred": 0}, {"deferred": 1}),
    "its priority": ({"priority": 3}, {"priority": 1}),
}


@pytest.mark.parametrize(("first", "later"), TURNS.values(), ids=TURNS.keys())
async def test_the_labels_of_what_may_be_taken_follow(
    sql: Sql, first: dict[str, object], later: dict[str, object]
) -> None:
    def change(values: dict[str, object]) -> None:
        words = ", ".join(f"{name} = :{name}" for name in values)
        sql(f"UPDATE work_items SET {words} WHERE id = 'a'", **values)

    def kept() -> list[tuple[Any, ...]]:
        rows = "SELECT label, item_priority, work_item_id FROM ready_labels ORDER BY 3, 1"
        return [tuple(one) for one in sql(rows)]

    def is_ready(priority: int) -> list[tuple[Any, ...]]:
        return [("blue", priority, "a"), ("red", priority, "a"), ("red", 3, "b")]

    for item_id, labels in {"a": ["red", "blue"], "b": ["red"], "c": []}.items():
        statement, columns = row(item_id, labels=str(labels).replace("'", '"'))
        sql(statement, **columns)
        for label in labels:
            sql("INSERT INTO work_item_labels VALUES (:label, :id)", label=label, id=item_id)
    assert kept() == is_ready(3)
    change(later)
    there = is_ready(1) if "priority" in later else [("red", 3, "b")]
    assert kept() == there
    sql("DELETE FROM work_item_labels WHERE work_item_id = 'a' AND label = 'red'")
    sql("INSERT INTO work_item_labels VALUES ('red', 'a')")
    assert kept() == there, "a label alone makes no item ready"
    change(first)
    assert kept() == is_ready(3)
    sql("DELETE FROM work_item_labels WHERE work_item_id = 'a'")
    assert kept() == [("red", 3, "b")]


async def test_the_labels_of_an_item_of_a_source_are_not_in_line(sql: Sql) -> None:
    statement, columns = row("a", labels='["red"]', source="s", source_ref="1")
    sql(statement, **columns)
    sql("INSERT INTO work_item_labels VALUES ('red', 'a')")
    sql("UPDATE work_items SET priority = 1")
    assert sql("SELECT count(*) FROM ready_labels") == [(0,)]


async def test_one_agent_has_one_item_in_progress_per_slot(sql: Sql) -> None:
    def start(item_id: str, agent: str, slot: int) -> None:
        statement, columns = row(item_id, status="in_progress", assigned_agent=agent, slot=slot)
        sql(statement, **columns)

    start("a", "ada", 0)
    start("b", "ada", 1)
    start("c", "bob", 0)
    with pytest.raises(REFUSED):
        start("d", "ada", 0)


async def test_one_source_reference_has_one_live_item(sql: Sql) -> None:
    for item_id, source, reference in [("a", "s", "1"), ("b", "s", "2"), ("c", None, None)]:
        statement, columns = row(item_id, source=source, source_ref=reference)
        sql(statement, **columns)
    statement, columns = row("d", source="s", source_ref="1")
    with pytest.raises(REFUSED):
        sql(statement, **columns)
    for item_id, status in [("e", "failed"), ("f", "completed"), ("g", "cancelled")]:
        ended = {**STANDS_WELL[status], "source": "s", "source_ref": "1"}
        statement, columns = row(item_id, status=status, **ended)
        sql(statement, **columns)
    with pytest.raises(REFUSED):  # it cannot come back beside the live one
        sql("UPDATE work_items SET status = 'queued', completed_at = NULL, outcome = NULL"
            " WHERE id = 'e'")  # fmt: skip


FIRING = (
    "INSERT INTO work_signal_firings (id, signal_id, dedupe_key, status, next_attempt_at,"
    " created_at) VALUES (:id, :signal, :cause, 'queued', 'now', 'now')"
)


async def test_a_signal_has_one_firing_for_each_cause(sql: Sql) -> None:
    for signal in ("s", "t"):
        sql("INSERT INTO work_signals (id, status, trigger_kind, trigger_spec, action, created_at,"
            " updated_at) VALUES (:id, 'active', 'time', '{}', '{}', 'now', 'now')",
            id=signal)  # fmt: skip
    for firing, signal, cause in [("a", "s", "1"), ("b", "s", "2"), ("c", "t", "1")]:
        sql(FIRING, id=firing, signal=signal, cause=cause)
    with pytest.raises(REFUSED):
        sql(FIRING, id="d", signal="s", cause="1")


CLAIM = (
    "INSERT INTO source_claims (firing_id, source, source_ref, work_item_id, epoch, codename,"
    " fleet, nonce, created_at, ended_at, outcome)"
    " VALUES (:firing_id, 's', '1', :item, 1, 'c', 'f', 'n', 'now', :ended_at, :outcome)"
)


async def test_a_claim_at_a_source_is_of_an_item_and_ends_with_an_outcome(sql: Sql) -> None:
    statement, columns = row("a", source="s", source_ref="1")
    sql(statement, **columns)
    good: dict[str, object] = {"item": "a", "ended_at": None, "outcome": None}
    sql(CLAIM, firing_id="1", **good)
    sql(CLAIM, firing_id="2", **{**good, "ended_at": "now", "outcome": "done"})
    for ill in ({"item": "ghost"}, {"ended_at": "now"}, {"outcome": "done"}):
        with pytest.raises(REFUSED):
            sql(CLAIM, firing_id="3", **{**good, **ill})
    with pytest.raises(REFUSED):
        sql(CLAIM, firing_id="1", **good)


async def given_history(store: Store, *ids: str) -> None:
    def body(tx: Transaction) -> None:
        tx.insert_items([(item_id, NewItem("chore", "x")) for item_id in ids], None, NOW)
        for item_id in ids:
            tx.log_dispatch(f"dispatch-{item_id}", item_id, "ada", NOW)
            tx.append([NewEvent(EventType.NOTED, NOW, work_item_id=item_id, epoch=1)])

    await store.transact(body)


@pytest.mark.parametrize(
    "change",
    ["type = 'other'", "data = '{}'", "epoch = 2", "actor = 'me'", "occurred_at = 'never'"],
)
async def test_an_event_cannot_be_changed(store: Store, sql: Sql, change: str) -> None:
    await given_history(store, "a", "b")
    before = sql("SELECT * FROM events ORDER BY seq")
    with pytest.raises(REFUSED):
        sql(f"UPDATE events SET {change}")
    assert sql("SELECT * FROM events ORDER BY seq") == before


async def test_an_event_cannot_be_deleted(store: Store, sql: Sql) -> None:
    await given_history(store, "a", "b")
    with pytest.raises(REFUSED):
        sql("DELETE FROM events WHERE work_item_id = 'a'")
    assert sql("SELECT count(*) FROM events") == [(4,)]


CLOSE = "completed_at = 'then', outcome = 'success'"


async def test_a_dispatch_can_be_closed_once(store: Store, sql: Sql) -> None:
    await given_history(store, "a")
    sql(f"UPDATE dispatch_log SET {CLOSE}")
    for again in (CLOSE, "completed_at = NULL, outcome = NULL", "outcome = 'failed'"):
        with pytest.raises(REFUSED):
            sql(f"UPDATE dispatch_log SET {again}")
    assert sql("SELECT completed_at, outcome FROM dispatch_log") == [("then", "success")]


@pytest.mark.parametrize(
    "change",
    [
        "agent = 'bob'",
        "dispatched_at = 'never'",
        "id = 'other'",
        "work_item_id = 'b'",
        f"agent = 'bob', {CLOSE}",
        f"work_item_id = 'b', {CLOSE}",
        f"dispatched_at = 'never', {CLOSE}",
        f"id = 'other', {CLOSE}",
        "completed_at = 'then'",
        "outcome = 'success'",
        "completed_at = 'then', outcome = 'unknown'",
    ],
)
async def test_a_dispatch_cannot_be_changed_otherwise(store: Store, sql: Sql, change: str) -> None:
    await given_history(store, "a", "b")
    before = sql("SELECT * FROM dispatch_log ORDER BY id")
    with pytest.raises(REFUSED):
        sql(f"UPDATE dispatch_log SET {change} WHERE work_item_id = 'a'")
    assert sql("SELECT * FROM dispatch_log ORDER BY id") == before


async def test_a_dispatch_cannot_be_deleted(store: Store, sql: Sql) -> None:
    await given_history(store, "a")
    with pytest.raises(REFUSED):
        sql("DELETE FROM dispatch_log")


ORPHANS = {
    "a claim": "INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at,"
    " lease_seconds) VALUES ('ghost', 1, 't', 'ada', 0, 'now', 60)",
    "a dispatch": "INSERT INTO dispatch_log (id, work_item_id, dispatched_at, agent)"
    " VALUES ('d', 'ghost', 'now', 'ada')",
    "a label": "INSERT INTO work_item_labels (label, work_item_id) VALUES ('x', 'ghost')",
    "a link from nothing": "INSERT INTO work_item_links VALUES ('ghost', 'a')",
    "a link to nothing": "INSERT INTO work_item_links VALUES ('a', 'ghost')",
    "a link to itself": "INSERT INTO work_item_links VALUES ('a', 'a')",
}


@pytest.mark.parametrize("statement", ORPHANS.values(), ids=ORPHANS.keys())
async def test_nothing_hangs_on_an_item_that_is_not_there(
    store: Store, sql: Sql, statement: str
) -> None:
    await given_history(store, "a")
    with pytest.raises(REFUSED):
        sql(statement)


async def test_an_item_with_a_history_cannot_be_deleted(store: Store, sql: Sql) -> None:
    await given_history(store, "a")
    with pytest.raises(REFUSED):
        sql("DELETE FROM work_items")


async def test_one_epoch_of_an_item_has_one_claim(store: Store, sql: Sql) -> None:
    await given_history(store, "a")
    statement = (
        "INSERT INTO claims (work_item_id, epoch, token, agent, slot, claimed_at, lease_seconds)"
        " VALUES ('a', 1, :token, 'ada', 0, 'now', 60)"
    )
    sql(statement, token="first")
    with pytest.raises(REFUSED):
        sql(statement, token="second")


async def test_the_store_itself_keeps_foreign_keys(store: Store) -> None:
    with pytest.raises(StorageError):
        await store.transact(lambda tx: tx.log_dispatch("d", "ghost", "ada", NOW))
