"""Reads Task Master's `tasks.json`: `{"tasks": […]}`, or a list of tasks for each tag."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rota.exchange.incoming import Incoming, Reading, Standing, file_text, json_text, sections
from rota.model.errors import InvalidInput

TOOL = "taskmaster"
_DEFAULT_TAG = "master"
_KNOWN = frozenset(
    {
        "id", "title", "description", "details", "testStrategy", "status", "priority", "assignee",
        "dependencies", "subtasks", "labels", "parentTaskId", "parentId", "updatedAt", "createdAt",
    }
)  # fmt: skip
_STANDINGS = {
    "pending": Standing.OPEN,
    "in-progress": Standing.OPEN,
    "done": Standing.COMPLETED,
    "completed": Standing.COMPLETED,
    "cancelled": Standing.CANCELLED,
    "deferred": Standing.HELD,
    "blocked": Standing.HELD,
    "review": Standing.HELD,
}


def read(path: Path) -> Reading:
    reading = Reading(TOOL)
    for tag, tasks in _lists(path, json_text(file_text(path), str(path))):
        for task in tasks:
            try:
                _read_one(reading, tag, task, None)
            except RecursionError:  # newer Pythons parse JSON deeper than they recurse
                raise InvalidInput(f"{path}: subtasks are nested too deeply") from None
    return reading


def _lists(path: Path, content: Any) -> Iterator[tuple[str, list[Any]]]:
    """The older form has one list and no tag; in the newer form that is `master`."""
    if isinstance(content, dict) and isinstance(content.get("tasks"), list):
        yield _DEFAULT_TAG, content["tasks"]
        return
    tags = content.items() if isinstance(content, dict) else ()
    found = [
        (str(tag), part["tasks"])
        for tag, part in tags
        if isinstance(part, dict) and isinstance(part.get("tasks"), list)
    ]
    if not found:
        raise InvalidInput(f"{path}: this is no tasks.json: neither it nor a tag has `tasks`")
    yield from found


def _read_one(reading: Reading, tag: str, task: Any, parent: str | None) -> str:
    if not isinstance(task, dict) or not isinstance(task.get("id"), int | str):
        raise InvalidInput(f"the tag {tag[:60]!r} holds an entry without an `id`")
    key = _key(tag, task["id"], parent)
    reading.leftovers(key, task, _KNOWN)
    inside = task.get("subtasks") or []
    if not isinstance(inside, list):
        reading.note(key, "subtasks", "this is no list")
        inside = []
    number = _number(task["id"], parent)
    children = [_read_one(reading, tag, one, number) for one in inside]
    standing, why = _standing(reading, key, task)
    reading.add(
        Incoming(
            key,
            reading.text(key, task, "title") or key,
            type="subtask" if parent else "task",
            body=sections(
                reading.text(key, task, "description"),
                ("Details", reading.text(key, task, "details")),
                ("Test strategy", reading.text(key, task, "testStrategy")),
            ),
            priority=reading.priority(key, task.get("priority")),
            labels=(*reading.labels(key, task.get("labels")), *_tag_label(tag)),
            agent=reading.agent(key, task.get("assignee")),
            # A task is done when its subtasks are.
            blocked_by=reading.blockers(key, [*_needs(reading, key, tag, task, parent), *children]),
            standing=standing,
            why=why,
        )
    )
    return key


def _number(own: object, parent: str | None) -> str:
    """Subtasks are numbered within their task; some files write `1.2` in full."""
    text = str(own)
    return text if parent is None or text.startswith(f"{parent}.") else f"{parent}.{text}"


def _key(tag: str, own: object, parent: str | None) -> str:
    return f"{tag}:{_number(own, parent)}"


def _tag_label(tag: str) -> tuple[str, ...]:
    return () if tag == _DEFAULT_TAG else (f"tag:{tag[:90]}",)


def _needs(
    reading: Reading, key: str, tag: str, task: dict[str, Any], parent: str | None
) -> list[str]:
    """In a subtask, a number alone means a sibling; `3.1` and the like are complete."""
    given = task.get("dependencies") or []
    if not isinstance(given, list):
        reading.note(key, "dependencies", "this is no list")
        return []
    return [
        f"{tag}:{one}" if "." in str(one) else _key(tag, one, parent)
        for one in given
        if isinstance(one, int | str)
    ]


def _standing(reading: Reading, key: str, task: dict[str, Any]) -> tuple[Standing, str | None]:
    status = str(task.get("status") or "pending").lower().replace("_", "-")
    if status == "in-progress":
        reading.note(key, "status", "in-progress: nobody holds it here, so it was queued")
    if status not in _STANDINGS:
        reading.note(key, "status", f"{status[:40]!r} is not known; it was held")
    standing = _STANDINGS.get(status, Standing.HELD)
    held = f"its status in Task Master was {status[:40]!r}"
    return standing, held if standing is Standing.HELD else None
