"""One file of the folder: read completely or refused. Symbolic links are not followed."""

import errno
import os
import re
import stat
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rota.claims.references import prose
from rota.model.errors import MalformedReference
from rota.model.status import Status
from rota.model.work import Priority
from rota.sources.markdown import frontmatter
from rota.sources.markdown.frontmatter import BadFrontMatter, Text
from rota.sources.port import WorkItem
from rota.sources.titles import one_line

PREFIX = "markdown-"
SUFFIX = ".md"
LARGEST = 1024 * 1024

_HEADING = re.compile(r"#{1,6}[ \t](.*)")
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}
_OURS = frozenset({"title", "priority", "labels", "status", "blocked_by", "created_at", "result"})


class BadSheet(Exception):
    """Why a file is no item, in words for the owner of the folder."""


@dataclass(frozen=True, slots=True)
class Sheet:
    stem: str
    text: Text
    title: str
    priority: Priority
    labels: tuple[str, ...]
    status: Status
    blocked_by: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    result: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    mode: int = 0o644


def stem_of(work_item_id: str) -> str:
    """The file name in an id; raises `MalformedReference` for anything else."""
    stem = work_item_id.removeprefix(PREFIX)
    if not work_item_id.startswith(PREFIX) or not is_name(stem):
        raise MalformedReference(
            f"{work_item_id[:100]!r} is no item of a Markdown folder; their ids are {PREFIX}<file>,"
            " without folders and without .md"
        )
    return stem


def is_name(stem: str) -> bool:
    """A file name without folders, and with no characters that upset a terminal."""
    return (
        0 < len(stem.encode(errors="replace")) <= 200
        and not stem.startswith(".")
        and stem.isprintable()
        and "/" not in stem
        and "\\" not in stem
    )


def is_item(name: str) -> bool:
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name, not a path
    return suffix == SUFFIX and not name.startswith(".") and stem.lower() != "readme"


def read(path: Path) -> bytes:
    """Raises `BadSheet` or `FileNotFoundError`. Does not block on pipes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadSheet("it is a symbolic link; put the file itself here") from None
        raise BadSheet(f"it cannot be read: {error.strerror}") from None
    try:
        return _content(handle)
    finally:
        os.close(handle)


def _content(handle: int) -> bytes:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise BadSheet("it is not a file")
    with os.fdopen(handle, "rb", closefd=False) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise BadSheet(f"it is larger than {LARGEST} bytes; move the bulk of it elsewhere")
    return data


def understood(stem: str, data: bytes, found: os.stat_result) -> Sheet:
    """Raises `BadSheet`."""
    if not is_name(stem):
        raise BadSheet("its name cannot be an id; use printable characters, at most 200 bytes")
    try:
        text = frontmatter.split(data.decode())
        keys = frontmatter.parse(text.matter)
    except UnicodeDecodeError as error:
        raise BadSheet(f"it is not UTF-8 (byte {error.start})") from None
    except BadFrontMatter as error:
        raise BadSheet(str(error)) from None
    changed = datetime.fromtimestamp(found.st_mtime, UTC)
    return Sheet(
        stem,
        text,
        _title(keys, text.body) or stem,
        _priority(keys.get("priority")),
        _names(keys, "labels"),
        _status(keys.get("status")),
        tuple(_as_stem(name) for name in _names(keys, "blocked_by")),
        _moment(keys.get("created_at")) or changed,
        changed,
        _result(keys.get("result")),
        {key: value for key, value in keys.items() if key not in _OURS},
        stat.S_IMODE(found.st_mode),
    )


def item_of(sheet: Sheet, path: Path) -> WorkItem:
    ours = {
        "status": str(sheet.status),
        "blocked_by": [f"{PREFIX}{stem}" for stem in sheet.blocked_by],
        "result": sheet.result,
    }
    return WorkItem(
        f"{PREFIX}{sheet.stem}",
        "markdown",
        sheet.stem,
        sheet.title,
        sheet.text.body.lstrip("\r\n"),
        sheet.priority,
        sheet.labels,
        path.as_uri(),
        sheet.created_at,
        sheet.updated_at,
        {**sheet.others, **{key: value for key, value in ours.items() if value}},
    )


def _title(keys: dict[str, Any], body: str) -> str:
    title = keys.get("title")
    if title is None:
        return one_line(_heading(body))
    if not isinstance(title, str):
        raise BadSheet("title must be text; put it in quotes")
    return one_line(title)


def _heading(body: str) -> str:
    """The first that says something, without the marks that may close it. Those stand apart: "C#"
    is a word."""
    for line in prose(body):
        found = _HEADING.fullmatch(line)
        words = found[1].strip() if found else ""
        rest = words.rstrip("#")
        if said := words if rest[-1:].strip() else rest.rstrip():
            return said
    return ""


def _priority(value: Any) -> Priority:
    if value is None:
        return Priority.MEDIUM
    if isinstance(value, str) and value.lower() in _PRIORITIES:
        return _PRIORITIES[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 5:
        return Priority(value)
    raise BadSheet(
        f"priority: {str(value)[:40]!r} is none; use 1 (highest) to 5, or {', '.join(_PRIORITIES)}"
    )


def _names(keys: dict[str, Any], key: str) -> tuple[str, ...]:
    value = keys.get(key)
    if isinstance(value, str):
        value = value.split(",")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadSheet(f"{key} must be a list of texts, for example {key}: [one, two]")
    return tuple(dict.fromkeys(one.strip() for one in value if one.strip()))


def _as_stem(name: str) -> str:
    return name.removeprefix(PREFIX).removesuffix(SUFFIX)


def _status(value: Any) -> Status:
    if value is None:
        return Status.QUEUED
    if isinstance(value, str) and value in set(Status):
        return Status(value)
    near = get_close_matches(str(value), list(Status), n=1)
    raise BadSheet(
        f"status: {str(value)[:40]!r} is unknown"
        + (f"; did you mean {str(near[0])!r}?" if near else f"; there are {', '.join(Status)}")
    )


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise BadSheet(
            f"created_at: {str(value)[:40]!r} is no time; write {date(2026, 5, 1)} or"
            " 2026-05-01T12:00:00Z"
        ) from None


def _result(value: Any) -> dict[str, Any]:
    """Anything but a mapping was not written by us."""
    return value if isinstance(value, dict) else {}
