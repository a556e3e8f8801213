"""Reads the issues of beads: `.beads/issues.jsonl`, one issue per line."""

from pathlib import Path
from typing import Any

from rota.exchange.incoming import Incoming, Reading, Standing, file_text, json_text, sections
from rota.model.errors import InvalidInput
from rota.model.work import Priority

TOOL = "beads"
_KNOWN = frozenset(
    {
        "id", "title", "description", "design", "acceptance_criteria", "notes", "status",
        "priority", "issue_type", "assignee", "labels", "dependencies", "created_at", "updated_at",
        "created_by", "closed_at", "close_reason", "defer_until", "external_ref", "content_hash",
        "source_repo",
    }
)  # fmt: skip
_PRIORITIES = dict(enumerate(Priority))  # 0, the most urgent, to 4
_BLOCKS = ("blocks",)
_HELD = {
    "blocked": "blocked in beads",
    "deferred": "deferred in beads",
    "pinned": "pinned in beads: it is there to be read, not to be done",
}


def read(path: Path) -> Reading:
    reading = Reading(TOOL)
    for number, line in enumerate(file_text(path).split("\n"), start=1):
        if line.strip():
            _read_one(reading, json_text(line, f"{path}, line {number}"), f"line {number}")
    return reading


def _read_one(reading: Reading, record: Any, place: str) -> None:
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        raise InvalidInput(f"{place}: this is no issue of beads: it has no `id`")
    key = record["id"]
    if record.get("status") == "tombstone":
        return  # deleted in beads
    reading.leftovers(key, record, _KNOWN)
    blockers = _blockers(reading, key, record.get("dependencies"))
    standing, why = _standing(reading, key, record, bool(blockers))
    facts = {name: record[name] for name in _FACTS if record.get(name)}
    reading.add(
        Incoming(
            key,
            reading.text(key, record, "title") or key,
            type=reading.text(key, record, "issue_type") or "task",
            body=sections(
                reading.text(key, record, "description"),
                ("Design", reading.text(key, record, "design")),
                ("Acceptance criteria", reading.text(key, record, "acceptance_criteria")),
            ),
            priority=_priority(reading, key, record.get("priority", 2)),
            labels=reading.labels(key, record.get("labels")),
            agent=reading.agent(key, record.get("assignee")),
            created_by=reading.text(key, record, "created_by"),
            available_at=reading.moment(key, record, "defer_until"),
            blocked_by=blockers,
            standing=standing,
            why=why,
            notes=reading.text(key, record, "notes"),
            facts=facts,
        )
    )


_FACTS = ("created_at", "closed_at", "close_reason", "external_ref")


def _priority(reading: Reading, key: str, value: Any) -> int:
    if type(value) is int and value in _PRIORITIES:
        return _PRIORITIES[value]
    reading.note(key, "priority", f"{str(value)[:20]!r} is not 0 to 4; medium was taken")
    return Priority.MEDIUM


def _standing(
    reading: Reading, key: str, record: dict[str, Any], waits: bool
) -> tuple[Standing, str | None]:
    status = str(record.get("status") or "open")
    if status == "closed":
        return Standing.COMPLETED, None
    if status == "blocked" and waits:
        return Standing.OPEN, None  # its blockers express that here
    if status == "deferred" and record.get("defer_until"):
        return Standing.OPEN, None
    if status in _HELD:
        return Standing.HELD, _HELD[status]
    if status in ("in_progress", "hooked"):
        reading.note(key, "status", f"{status}: nobody holds it here, so it was queued")
    elif status != "open":
        reading.note(key, "status", f"{status[:40]!r} is not known; it was held")
        return Standing.HELD, f"its status in beads was {status[:40]!r}"
    return Standing.OPEN, None


def _blockers(reading: Reading, key: str, value: Any) -> tuple[str, ...]:
    if value in (None, []):
        return ()
    if not isinstance(value, list):
        reading.note(key, "dependencies", "this is no list")
        return ()
    found = []
    for one in value:
        target = one.get("depends_on_id") if isinstance(one, dict) else None
        if not isinstance(target, str):
            reading.note(key, "dependencies", "an entry names nothing that it depends on")
        elif one.get("type", "blocks") in _BLOCKS:
            found.append(target)
        else:
            kind = str(one.get("type"))[:40]
            reading.note(key, "dependencies", f"{kind} {target[:60]}: only blockers are links here")
    return reading.blockers(key, found)
