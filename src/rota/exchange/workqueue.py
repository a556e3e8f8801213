"""Reads the SQLite file of an older work queue: projects, work_items, dispatch_log."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from rota.exchange.incoming import Incoming, Reading, Standing
from rota.model.errors import InvalidInput
from rota.model.work import Priority

TOOL = "workqueue"
_NEEDED = {
    "work_items": ("id", "type", "description", "status"),
    "projects": ("id", "name"),
}
_STANDINGS = {
    "queued": Standing.OPEN,
    "dispatched": Standing.DISPATCHED,
    "in_progress": Standing.DISPATCHED,
    "blocked": Standing.BLOCKED,
    "completed": Standing.COMPLETED,
    "failed": Standing.FAILED,
    "cancelled": Standing.CANCELLED,
}
_KNOWN = frozenset(
    {
        "id", "project_id", "type", "description", "payload", "priority", "status",
        "assigned_agent", "created_by", "created_at", "updated_at", "completed_at", "outcome",
        "notes",
    }
)  # fmt: skip

_BY_AGE = ("created_at", "dispatched_at", "id")

Record = dict[str, Any]


def read(path: Path) -> Reading:
    reading = Reading(TOOL)
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            _read_all(reading, connection, path)
        finally:
            connection.close()
    except apsw.Error as error:
        raise InvalidInput(f"{path} cannot be read as SQLite: {error}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} holds text that is not UTF-8") from None
    return reading


def _read_all(reading: Reading, connection: apsw.Connection, path: Path) -> None:
    if "sha256" in _columns(connection, "schema_migrations"):
        # It has the same tables and more; read here, it would lose claims, links and events.
        raise InvalidInput(
            f"{path} is a ledger of Rota; read a backup back with rota db restore, or merge it:"
            " rota export --db FILE --output ledger.jsonl, then rota import rota ledger.jsonl"
        )
    for table, columns in _NEEDED.items():
        lack = set(columns) - _columns(connection, table)
        if lack:
            raise InvalidInput(
                f"{path} is no work queue of this kind: the table {table} lacks"
                f" {', '.join(sorted(lack))}"
            )
    projects = {one["id"]: one["name"] for one in _rows(connection, "projects")}
    dispatched = defaultdict(list)
    if "id" in _columns(connection, "dispatch_log"):
        for one in _rows(connection, "dispatch_log"):
            dispatched[one.get("work_item_id")].append(_dispatch(one))
    for record in _rows(connection, "work_items"):
        _read_one(reading, record, projects, dispatched[record["id"]])


def _columns(connection: apsw.Connection, table: str) -> set[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return {str(row[0]) for row in rows}


def _rows(connection: apsw.Connection, table: str) -> Iterator[Record]:
    """By age, so that the items get the same order. `table` is one of three constant names."""
    names = sorted(name for name in _columns(connection, table) if '"' not in name)
    columns = ", ".join(f'"{name}"' for name in names)
    order = ", ".join(name for name in _BY_AGE if name in names)
    for row in connection.execute(f"SELECT {columns} FROM {table} ORDER BY {order}"):  # noqa: S608
        yield dict(zip(names, map(_text, row), strict=True))


def _text(value: Any) -> Any:
    """SQLite accepts bytes where text is expected; the code after this does not."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _dispatch(record: Record) -> Record:
    names = ("agent", "dispatched_at", "completed_at", "outcome")
    return {name: record[name] for name in names if record.get(name) is not None}


def _read_one(
    reading: Reading, record: Record, projects: dict[str, str], dispatched: list[Record]
) -> None:
    key = str(record["id"])
    reading.leftovers(key, record, _KNOWN)
    agent = reading.agent(key, record.get("assigned_agent"))
    notes = reading.text(key, record, "notes")
    standing, why = _standing(reading, key, record, agent, notes)
    facts = {name: record[name] for name in ("created_at", "completed_at") if record.get(name)}
    reading.add(
        Incoming(
            key,
            reading.text(key, record, "description") or key,
            type=reading.text(key, record, "type") or "task",
            payload=_payload(reading, key, record.get("payload")),
            priority=_priority(reading, key, record.get("priority")),
            agent=agent,
            created_by=reading.text(key, record, "created_by"),
            standing=standing,
            why=why,
            notes=notes,
            project=_project(reading, key, record.get("project_id"), projects),
            facts=facts | ({"dispatch_log": dispatched[:100]} if dispatched else {}),
        )
    )


def _standing(
    reading: Reading, key: str, record: Record, agent: str | None, notes: str | None
) -> tuple[Standing, str | None]:
    status = str(record["status"])
    if status not in _STANDINGS:
        reading.note(key, "status", f"{status[:40]!r} is not known; it was held")
        return Standing.HELD, f"its status in the work queue was {status[:40]!r}"
    standing = _STANDINGS[status]
    if standing.ended or standing is Standing.OPEN:
        return standing, None
    if agent is None:
        reading.note(key, "status", f"{status} with no agent's name; it was queued and held")
        return Standing.HELD, f"its status in the work queue was {status}"
    if status == "in_progress":
        reading.note(key, "status", f"in_progress: dispatched to {agent} again, who may start it")
    return standing, notes or "blocked in the work queue"


def _payload(reading: Reading, key: str, text: Any) -> Any:
    if text in (None, ""):
        return None
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        reading.note(key, "payload", "this is not JSON; it was kept as text")
        return str(text)


def _priority(reading: Reading, key: str, value: Any) -> int:
    if value is None:
        return Priority.MEDIUM
    if type(value) is int and value in tuple(Priority):
        return value
    reading.note(key, "priority", f"{str(value)[:20]!r} is not 1 to 5; medium was taken")
    return Priority.MEDIUM


def _project(reading: Reading, key: str, project_id: Any, projects: dict[str, str]) -> str | None:
    if project_id is None:
        return None
    if project_id not in projects:
        reading.note(key, "project_id", f"there is no project {str(project_id)[:60]!r} in the file")
    return projects.get(project_id)
