"""Reads a folder of Backlog.md: a Markdown file with front matter for each task."""

from pathlib import Path
from typing import Any

from rota.exchange.incoming import Incoming, Reading, Standing, file_text
from rota.model.errors import InvalidInput
from rota.sources.markdown.frontmatter import BadFrontMatter, parse, split

TOOL = "backlog"
# Drafts, the archive, documents and decisions are not work.
_FOLDERS = ("tasks", "completed")
_HOMES = ("", "backlog", ".backlog")
_KNOWN = frozenset(
    {
        "id", "title", "status", "assignee", "reporter", "created_date", "updated_date",
        "completed_date", "labels", "dependencies", "priority", "type", "subtasks",
        "parent_task_id", "ordinal",
    }
)  # fmt: skip
_OPEN = ("to do", "todo", "open", "ready", "backlog", "")
_DONE = ("done", "completed", "closed")
_MOST_FILES = 20_000


def read(folder: Path) -> Reading:
    reading = Reading(TOOL)
    for file in _files(folder):
        try:
            _read_one(reading, file)
        except BadFrontMatter as error:
            reading.note(file.name, "front matter", str(error))
    return reading


def _files(folder: Path) -> list[Path]:
    homes = [folder / name for name in _HOMES if (folder / name / "tasks").is_dir()]
    if not homes:
        raise InvalidInput(
            f"{folder} is no folder of Backlog.md: there is no `tasks` in it, nor in `backlog`"
        )
    found = [
        file
        for name in _FOLDERS
        for file in sorted((homes[0] / name).glob("*.md"))
        if file.is_file() and not file.is_symlink()
    ]
    if len(found) > _MOST_FILES:
        raise InvalidInput(f"{folder} holds more than {_MOST_FILES} tasks; import it in parts")
    return found


def _read_one(reading: Reading, file: Path) -> None:
    text = split(file_text(file))
    facts = parse(text.matter)
    if not facts.get("id"):
        reading.note(file.name, "id", "the front matter has no id; the file was left out")
        return
    key = _key(facts["id"])
    reading.leftovers(key, facts, _KNOWN)
    if facts.get("parent_task_id"):
        reading.note(key, "parent_task_id", "there are no parents here; only blockers are links")
    standing, why = _standing(reading, key, file, facts)
    reading.add(
        Incoming(
            key,
            reading.text(key, facts, "title") or key,
            type=reading.text(key, facts, "type") or "task",
            body=text.body.strip() or None,
            priority=reading.priority(key, facts.get("priority")),
            labels=reading.labels(key, facts.get("labels")),
            agent=reading.agent(key, facts.get("assignee")),
            created_by=reading.text(key, facts, "reporter"),
            blocked_by=reading.blockers(key, _needs(reading, key, facts.get("dependencies"))),
            standing=standing,
            why=why,
            facts={"created_at": str(facts["created_date"])} if facts.get("created_date") else {},
        )
    )


def _key(value: Any) -> str:
    """`TASK-7` in one file is `task-7` in another."""
    return str(value).strip().lower()


def _needs(reading: Reading, key: str, value: Any) -> list[str]:
    if value in (None, []):
        return []
    if not isinstance(value, list):
        reading.note(key, "dependencies", "this is no list")
        return []
    return [_key(one) for one in value]


def _standing(
    reading: Reading, key: str, file: Path, facts: dict[str, Any]
) -> tuple[Standing, str | None]:
    status = str(facts.get("status") or "").strip()
    word = status.lower().lstrip("○◒●◑✔ ")  # some versions write a symbol before the status
    if word in _DONE or file.parent.name == "completed":
        return Standing.COMPLETED, None
    if word in _OPEN:
        return Standing.OPEN, None
    if word in ("in progress", "doing"):
        reading.note(key, "status", "in progress: nobody holds it here, so it was queued")
        return Standing.OPEN, None
    if word not in ("blocked", "review", "in review"):
        reading.note(key, "status", f"{status[:40]!r} is a word of your own; it was held")
    return Standing.HELD, f"its status in Backlog.md was {status[:40]!r}"
