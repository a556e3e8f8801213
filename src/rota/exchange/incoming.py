"""The records that a reader of another tool's file has found, and what it could not map."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rota.model.clock import parse_time, to_text
from rota.model.errors import InvalidInput
from rota.model.work import MAX_BLOCKERS, MAX_LABELS, NAME, Priority

LARGEST_FILE = 64 * 1024 * 1024
_LONGEST_LABEL = 100
_PRIORITIES = {
    "critical": Priority.CRITICAL,
    "high": Priority.HIGH,
    "medium": Priority.MEDIUM,
    "low": Priority.LOW,
}


class Standing(StrEnum):
    """The state of a record, in our terms."""

    OPEN = "open"
    HELD = "held"  # nobody should pick it up yet; `why` is the reason
    DISPATCHED = "dispatched"  # to `agent`
    BLOCKED = "blocked"  # `agent` has begun and cannot go on; `why` is the reason
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (Standing.COMPLETED, Standing.FAILED, Standing.CANCELLED)


@dataclass(slots=True)
class Incoming:
    """One record of another tool, to be stored as an item."""

    key: str  # the tool's own id of it
    title: str
    type: str = "task"
    body: str | None = None
    payload: Any = None  # the tool's own payload, where it has one
    priority: int = Priority.MEDIUM
    labels: tuple[str, ...] = ()
    agent: str | None = None
    created_by: str | None = None
    available_at: str | None = None
    blocked_by: tuple[str, ...] = ()  # by their keys
    standing: Standing = Standing.OPEN
    why: str | None = None
    notes: str | None = None
    project: str | None = None  # where the tool itself has projects
    facts: dict[str, Any] = field(default_factory=dict)  # kept with the item, for people to read

    def fingerprint(self) -> str:
        """Changes when the record has changed since it was imported."""
        said = [
            self.title, self.type, self.body, self.payload, int(self.priority), self.labels,
            self.agent, self.blocked_by, self.standing, self.why, self.notes, self.available_at,
        ]  # fmt: skip
        text = json.dumps(said, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Unmapped:
    record: str
    field: str
    why: str


@dataclass(slots=True)
class Reading:
    """All records of a file, in its order."""

    tool: str
    records: list[Incoming] = field(default_factory=list)
    unmapped: list[Unmapped] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)

    def note(self, record: str, name: str, why: str) -> None:
        self.unmapped.append(Unmapped(record[:100], name, why))

    def add(self, record: Incoming) -> None:
        if record.key in self._keys:
            raise InvalidInput(f"the record {record.key[:100]!r} comes twice; nothing was imported")
        self._keys.add(record.key)
        self.records.append(record)

    # fields that most tools have

    def leftovers(self, key: str, record: Mapping[str, Any], known: Collection[str]) -> None:
        """Notes fields with a value that have no counterpart here."""
        for name, value in record.items():
            if name not in known and value not in (None, "", [], {}, False):
                self.note(key, str(name)[:60], "there is no such field here")

    def text(self, key: str, record: Mapping[str, Any], name: str) -> str | None:
        value = record.get(name)
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        self.note(key, name, "this is no text")
        return None

    def labels(self, key: str, value: Any) -> tuple[str, ...]:
        words = [value] if isinstance(value, str) else value
        if words in (None, [], ""):
            return ()
        if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
            self.note(key, "labels", "this is no list of words")
            return ()
        named = [one.strip() for one in words if one.strip()]
        fine = [one for one in dict.fromkeys(named) if len(one) <= _LONGEST_LABEL][:MAX_LABELS]
        if len(fine) < len(set(named)):
            self.note(
                key, "labels", f"more than {MAX_LABELS}, or longer than {_LONGEST_LABEL} characters"
            )
        return tuple(fine)

    def agent(self, key: str, value: Any) -> str | None:
        """Only a valid name of an agent; some tools write `@` before it."""
        given = value if isinstance(value, list) else [value]
        names = [str(one).removeprefix("@") for one in given if one]
        if not names:
            return None
        if len(names) > 1:
            self.note(key, "assignee", f"an item has one agent; {names[0][:64]!r} was taken")
        if NAME.fullmatch(names[0]):
            return names[0]
        self.note(key, "assignee", f"{names[0][:64]!r} cannot be the name of an agent")
        return None

    def priority(self, key: str, value: Any) -> int:
        """By its name."""
        known = _PRIORITIES.get(str(value or "medium").lower())
        if known is None:
            self.note(key, "priority", f"{str(value)[:20]!r} is not known; medium was taken")
        return known or Priority.MEDIUM

    def moment(self, key: str, record: Mapping[str, Any], name: str) -> str | None:
        value = record.get(name)
        if value in (None, ""):
            return None
        try:
            return to_text(parse_time(str(value), name))
        except InvalidInput:
            self.note(key, name, f"{str(value)[:40]!r} is not a time")
            return None

    def blockers(self, key: str, keys: list[str]) -> tuple[str, ...]:
        wanted = [one for one in dict.fromkeys(keys) if one != key]
        if len(wanted) > MAX_BLOCKERS:
            self.note(key, "dependencies", f"only the first {MAX_BLOCKERS} were taken")
        return tuple(wanted[:MAX_BLOCKERS])


def sections(first: str | None, *named: tuple[str, str | None]) -> str | None:
    """Joins several texts, each under its heading."""
    parts = [first] if first else []
    parts += [f"## {title}\n\n{text}" for title, text in named if text]
    return "\n\n".join(parts) or None


def file_text(path: Path) -> str:
    try:
        if path.is_dir():
            raise InvalidInput(f"{path} is a directory; name the file")
        with path.open("rb") as file:  # a pipe, for example, does not tell its size
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise InvalidInput(
                f"{path} is larger than {LARGEST_FILE // 1024 // 1024} MiB; split it first"
            )
        return content.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text") from None


def json_text(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise InvalidInput(f"{where}: it is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"{where}: this is not JSON: {error}") from None


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
