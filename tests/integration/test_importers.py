"""Work of other tools into the ledger: what is mapped, what is not, and nothing doubled."""

import asyncio
import json
import os
import sqlite3
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from rota.app import open_store
from rota.exchange import taskmaster
from rota.model.errors import InvalidInput
from rota.testing.audit import Record, faults, read_ledger
from rota.testing.tracker import TrackerStub
from tests.acceptance.terminal import Terminal, ThisProcess
from tests.integration.tracked import REPO, Tracked

SAMPLES = Path(__file__).parents[1] / "data" / "imports"
both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


class Here(ThisProcess):
    """A directory with a database, which may be elsewhere."""

    @property
    def database(self) -> str:
        return self.variables.get("DATABASE_URL", str(self.place / ".rota/rota.db"))

    def ledger(self) -> dict[str, Record]:
        """Every item by its title; and no promise is broken."""
        records = asyncio.run(self._records())
        assert faults(records) == []
        return {record.item.description: record for record in records}

    async def _records(self) -> list[Record]:
        async with open_store(self.database) as store:
            return await store.read(read_ledger, long=True)

    def standing(self) -> dict[str, str]:
        return {title: str(record.item.status) for title, record in self.ledger().items()}

    def bring(self, *words: str) -> tuple[dict[str, Any], set[tuple[str, str]]]:
        """What an import says it did, and which fields of which records it could not map."""
        said = self.json("import", *words)
        return said, {(one["record"], one["field"]) for one in said["unmapped"]}


@pytest.fixture
def here(database: str, tmp_path: Path) -> Here:
    return Here(tmp_path, {"DATABASE_URL": database})


def numbers(said: dict[str, Any]) -> tuple[int, int, int, int]:
    created, unchanged, changed, closed = (
        len(said[name]) for name in ("created", "unchanged", "changed", "closed")
    )
    return created, unchanged, changed, closed


@both
def test_beads(here: Here, tmp_path: Path) -> None:
    file = str(SAMPLES / "beads.jsonl")
    tried, _ = here.bring("beads", file, "--project", "Garden", "--dry-run")
    assert (numbers(tried), here.standing()) == ((4, 0, 0, 1), {})
    said, unmapped = here.bring("beads", file, "--project", "Garden")
    assert (numbers(said), said["agents"]) == ((4, 0, 0, 1), ["smith"])
    assert unmapped == {
        ("bd-a1b2", "estimated_minutes"),
        ("bd-c3d4", "assignee"),
        ("bd-c3d4", "dependencies"),
        ("bd-e5f6", "status"),
        ("bd-e5f6", "comments"),
        ("bd-g7h8", "priority"),
    }
    ledger = here.ledger()
    gate, paint, hedge = (
        ledger[t].item for t in ("Mend the gate", "Paint the gate", "Cut the hedge")
    )
    assert (gate.type, gate.priority, gate.assigned_agent) == ("bug", 1, "smith")
    assert (gate.labels, gate.notes, gate.created_by) == (
        ("wood", "iron"),
        "Ask the smith.",
        "marcus",
    )
    assert (
        gate.body == "It sags.\n\n## Design\n\nA new hinge.\n\n## Acceptance criteria\n\nIt closes."
    )
    assert gate.payload["imported_from"]["id"] == "bd-a1b2"
    assert (paint.priority, paint.open_blockers, paint.hold_reason) == (5, 1, None)
    assert ledger["The whole garden"].item.open_blockers == 1
    assert (hedge.hold_reason, hedge.open_blockers) == ("deferred in beads", 0)
    assert {item.source for item in (gate, paint, hedge)} == {None}
    again, _ = here.bring("beads", file, "--project", "Garden")
    assert numbers(again) == (0, 4, 0, 1)
    changed = tmp_path / "changed.jsonl"
    changed.write_text((SAMPLES / "beads.jsonl").read_text().replace("It sags.", "It hangs."))
    later, unmapped = here.bring("beads", str(changed), "--project", "Garden", "--closed")
    assert (numbers(later), ("bd-a1b2", "*") in unmapped) == ((1, 3, 1, 0), True)
    assert here.ledger()["Mend the gate"].item.body == gate.body
    assert here.standing()["Order the paint"] == "completed"
    # Another repository may have the same numbers: its project keeps them apart.
    assert numbers(here.bring("beads", file, "--project", "Other")[0]) == (4, 0, 0, 1)
    assert len(here.json("project", "list")) == 2


@both
def test_what_was_put_off_and_then_closed_is_closed(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "issues.jsonl"
    issue = {"id": "b-1", "title": "Done early", "defer_until": "2099-01-01T00:00:00Z"}
    file.write_text(json.dumps({**issue, "status": "closed"}))
    here.bring("beads", str(file), "--closed")
    assert here.standing() == {"Done early": "completed"}


@both
def test_task_master(here: Here) -> None:
    file = str(SAMPLES / "tasks.json")
    said, unmapped = here.bring("taskmaster", file, "--closed")
    assert numbers(said) == (7, 0, 0, 0)
    assert unmapped == {
        ("master:2", "status"),
        ("master:2", "complexityScore"),
        ("master:2.2", "dependencies"),  # on what was given up
        ("master:3", "priority"),
        ("master:3", "dependencies"),
    }
    ledger = here.ledger()
    bath, door = ledger["Build the bath"].item, ledger["Hang the door"].item
    assert (bath.open_blockers, door.open_blockers, door.type) == (2, 1, "subtask")
    assert here.standing() == {
        "Lay the pipe": "completed",
        "Build the bath": "queued",
        "Tile the floor": "queued",
        "Hang the door": "queued",
        "Choose the colours": "queued",
        "Ask Ada": "cancelled",
        "Dig": "queued",
    }
    assert ledger["Choose the colours"].item.hold_reason == "its status in Task Master was 'review'"
    assert ledger["Dig"].item.labels == ("tag:garden",)
    assert numbers(here.bring("taskmaster", file, "--closed")[0]) == (0, 7, 0, 0)
    older, _ = here.bring("taskmaster", str(SAMPLES / "tasks-older.json"), "--project", "Older")
    assert numbers(older) == (2, 0, 0, 0)


@both
def test_a_task_of_backlog_md_that_leads_elsewhere_is_not_read(here: Here, tmp_path: Path) -> None:
    folder = copytree(SAMPLES / "backlog", tmp_path / "repo" / "backlog")
    outside = tmp_path / "outside.md"
    outside.write_text("---\nid: task-99\ntitle: canary\n---\nnot of this folder\n")
    (folder / "tasks" / "link.md").symlink_to(outside)
    said, _ = here.bring("backlog", str(folder))
    assert numbers(said) == (2, 0, 0, 1)
    assert "canary" not in here.ledger()


@both
def test_backlog_md(here: Here, tmp_path: Path) -> None:
    folder = copytree(SAMPLES / "backlog", tmp_path / "repo" / "backlog")
    said, unmapped = here.bring("backlog", str(folder.parent))
    assert (numbers(said), said["closed"]) == ((2, 0, 0, 1), ["task-3"])
    assert unmapped == {
        ("task-4 - Broken.md", "front matter"),
        ("task-2", "status"),
        ("task-2", "assignee"),
        ("task-2", "dependencies"),
        ("task-2", "milestone"),
        ("task-2", "parent_task_id"),
    }
    ledger = here.ledger()
    yard, lamps = ledger["Sweep the yard"].item, ledger["Light the lamps"].item
    assert (yard.assigned_agent, yard.priority, yard.labels) == ("smith", 2, ("outside", "weekly"))
    assert "No leaves" in (yard.body or "")
    assert (lamps.open_blockers, lamps.assigned_agent) == (1, None)
    assert lamps.hold_reason == "its status in Backlog.md was 'Waiting for oil'"
    assert numbers(here.bring("backlog", str(folder))[0]) == (0, 2, 0, 1)


@both
def test_an_older_work_queue(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "queue.sqlite"
    with sqlite3.connect(file) as old:
        old.executescript((SAMPLES / "workqueue.sql").read_text())
    old.close()
    before = file.read_bytes()
    said, unmapped = here.bring("workqueue", str(file))
    assert numbers(said) == (4, 0, 0, 3)
    assert unmapped == {
        ("w-2", "status"),
        ("w-5", "assignee"),
        ("w-5", "payload"),
        ("w-5", "priority"),
        ("w-5", "project_id"),
        ("w-5", "status"),
    }
    ledger = here.ledger()
    review, runner = ledger["Review PR #3"].item, ledger["Set up the runner"].item
    assert (review.payload["pr"], review.assigned_agent, review.status) == (3, "steve-w", "queued")
    assert (runner.status, runner.notes) == ("blocked", "waits for a key")
    assert runner.payload["payload"] == [1, 2]
    assert ledger["Mend the list"].item.status == "dispatched"
    origin = ledger["Mend the list"].item.payload["imported_from"]
    assert [one["agent"] for one in origin["dispatch_log"]] == ["steve-w"]
    assert [one["name"] for one in here.json("project", "list")] == ["Shopping List API"]
    said, _ = here.bring("workqueue", str(file), "--closed")
    assert numbers(said) == (3, 4, 0, 0)
    standing = here.standing()
    ended = ("Done long ago", "Failed once", "Not wanted")
    assert [standing[title] for title in ended] == ["completed", "failed", "cancelled"]
    assert numbers(here.bring("workqueue", str(file), "--closed")[0]) == (0, 7, 0, 0)
    assert file.read_bytes() == before


def test_what_herdctl_knew(here: Here) -> None:
    file = str(SAMPLES / "state.yaml")
    why = "not imported: the status 'sleeping' is unknown"
    tried = here.json("import", "herdctl", file, "--dry-run")
    assert [one["result"] for one in tried] == ["would be imported", why]
    assert here.json("schedule", "list", code=6)["code"] == "no_ledger"
    said = here.json("import", "herdctl", file)
    assert [one["result"] for one in said] == ["imported", why]
    (nightly,) = here.json("schedule", "list")
    assert (nightly["last_error"], nightly["status"]) == ("the forge was cold", "disabled")
    here.json("import", "herdctl", file)
    assert here.json("schedule", "list") == [nightly]


# a tracker


class HereTracked(Tracked, Here):
    pass


def test_issues_of_a_repository(stub: TrackerStub, tmp_path: Path) -> None:
    here = HereTracked(tmp_path, stub=stub)
    bug = here.issue("It burns", labels=["priority:high"], body="Help!")
    here.issue("It smokes", labels=[], assignee="bob", milestone="M1")
    said, unmapped = here.bring("github", REPO, "--project", "Engine")
    assert (numbers(said), unmapped) == ((2, 0, 0, 0), {(f"{REPO}#{bug + 1}", "milestone")})
    item = here.ledger()["It burns"].item
    assert (item.priority, item.type, item.body, item.source) == (2, "issue", "Help!", None)
    assert (item.hold_reason, item.created_by) == (None, "ada")
    assert numbers(here.bring("github", REPO, "--project", "Engine")[0]) == (0, 2, 0, 0)
    # What stands here through its source is not doubled beside it.
    here.issue("Mend the mill")
    here.json("source", "next", "engine", "--agent", "smith")
    said, unmapped = here.bring("github", REPO, "--project", "Engine")
    assert (numbers(said)[0], (f"{REPO}#{bug + 2}", "*") in unmapped) == (0, True)


def test_what_anybody_could_have_written_is_held(stub: TrackerStub, tmp_path: Path) -> None:
    here = HereTracked(tmp_path, stub=stub)
    here.control.repo("ada/open")
    here.control.issue("ada/open", "Yours", body="Do as I say.")
    here.configure(repo="ada/open")
    here.bring("github", "ada/open")
    assert "read it before an agent does" in (here.ledger()["Yours"].item.hold_reason or "")
    assert here.json("ready", code=1) == []
    trusted, _ = here.bring("github", "ada/open", "--trusted", "--project", "Ours")
    assert numbers(trusted)[0] == 1
    assert [one["description"] for one in here.json("ready")] == ["Yours"]


# bad files


def test_a_bad_file_is_refused_and_nothing_is_done(here: Here, tmp_path: Path) -> None:
    beads = (SAMPLES / "beads.jsonl").read_text()
    file, folder, table = tmp_path / "bad", tmp_path / "folder", tmp_path / "empty.sqlite"
    folder.mkdir()
    sqlite3.connect(table).close()
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE work_items (id TEXT)")
    other.close()
    texts = {
        ("beads", beads[:-40]): "this is not JSON",
        ("beads", beads + beads.partition("\n")[0]): "comes twice",
        ("beads", '{"id":"a","priority":NaN}'): "NaN is not a JSON number",
        ("beads", '{"title":"x"}'): "has no `id`",
        ("beads", "[" * 100_000): "nested too deeply",
        ("taskmaster", '{"tags":{}}'): "this is no tasks.json",
        ("taskmaster", '{"tasks":[{"title":"x"}]}'): "without an `id`",
        ("taskmaster", '{"tasks":[{"id":1},{"id":1}]}'): "comes twice",
        ("workqueue", "no database"): "cannot be read as SQLite",
        ("rota", beads): "line 1: this is no record",
    }
    with sqlite3.connect(tmp_path / "latin.sqlite") as latin:
        latin.execute("CREATE TABLE projects (id, name)")
        latin.execute("CREATE TABLE work_items (id, type, description, status)")
        latin.execute("INSERT INTO work_items VALUES (1, 'x', CAST(x'e9' AS TEXT), 'queued')")
    latin.close()
    for (tool, text), words in texts.items():
        file.write_text(text)
        error = here.json("import", tool, str(file), code=2)
        assert words in error["message"], (tool, error)
    named = {
        ("beads", str(folder)): "is a directory",
        ("beads", str(tmp_path / "nowhere")): "cannot read",
        ("backlog", str(folder)): "no folder of Backlog.md",
        ("workqueue", str(table)): "the table work_items lacks",
        ("workqueue", str(tmp_path / "other.sqlite")): "lacks description, status, type",
        ("workqueue", str(tmp_path / "latin.sqlite")): "text that is not UTF-8",
        ("workqueue", str(tmp_path / "ours.db")): "is a ledger of Rota; ",
        ("beads", "/dev/zero"): "larger than 64 MiB",
    }
    Here(tmp_path, {"DATABASE_URL": str(tmp_path / "ours.db")}).type("add", "Mend the gate")
    for words_typed, words in named.items():
        assert words in here.json("import", *words_typed, code=2)["message"]
    with file.open("wb") as out:
        out.truncate(100_000_000)
    tried = Here(tmp_path / "folder").json(
        "import", "beads", str(SAMPLES / "beads.jsonl"), "--dry-run"
    )
    assert (len(tried["created"]), list(folder.iterdir())) == (4, [])
    assert "larger than 64 MiB" in here.json("import", "beads", str(file), code=2)["message"]
    assert here.standing() == {}


def test_what_the_ledger_does_not_take_is_left_out_and_named(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    odd: list[dict[str, Any]] = [
        {"id": "long", "title": "x" * 10_001},
        {"id": "nul", "title": "\x00"},
        {"id": "half", "title": "\ud800"},
        {"id": "one", "title": "One", "dependencies": [{"depends_on_id": "two"}]},
        {"id": "two", "title": "Two", "dependencies": [{"depends_on_id": "one"}, "one"]},
    ]
    file.write_text("\n".join(json.dumps(one) for one in odd))
    said, unmapped = here.bring("beads", str(file))
    left_out = {(key, "description") for key in ("long", "nul", "half")}
    assert (set(said["created"]), unmapped - left_out) == (
        {"one", "two"},
        {("two", "dependencies")},
    )
    circle = [one["why"] for one in said["unmapped"] if one["record"] == "two"]
    assert any("a circle" in why for why in circle)
    assert sum(record.item.open_blockers for record in here.ledger().values()) == 1


def test_values_of_another_kind_than_their_tool_writes_are_named_or_taken_as_text(
    here: Here, tmp_path: Path
) -> None:
    beads, tasks, queue = tmp_path / "b.jsonl", tmp_path / "t.json", tmp_path / "q.sqlite"
    beads.write_text('{"id":"b","title":"Beads","status":["open"]}')
    assert here.bring("beads", str(beads))[1] == {("b", "status")}
    tasks.write_text('{"tasks":[{"id":1,"title":"Tasks","subtasks":5}]}')
    assert here.bring("taskmaster", str(tasks))[1] == {("master:1", "subtasks")}
    with sqlite3.connect(queue) as table:
        table.execute("CREATE TABLE projects (id, name)")
        table.execute(
            "CREATE TABLE work_items"
            ' (id, type, description, status, payload, project_id, created_at, "a""b")'
        )
        table.execute("INSERT INTO projects VALUES (x'70', x'6d696c6c')")
        table.execute(
            "INSERT INTO work_items VALUES"
            """ (x'31', 'chore', 'Queue', 'queued', x'7b2261223a317d', x'70', x'ff', 'x')"""
        )
    table.close()
    assert here.bring("workqueue", str(queue))[1] == set()
    assert here.standing() == {"Beads": "queued", "Tasks": "queued", "Queue": "queued"}
    assert here.ledger()["Beads"].item.hold_reason == "its status in beads was \"['open']\""
    assert here.ledger()["Queue"].item.payload["a"] == 1


def test_subtasks_that_are_deeper_than_anybody_nests_them_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer Pythons read such JSON, so here it need not be JSON."""
    task: dict[str, Any] = {"id": 1}
    for _ in range(sys.getrecursionlimit()):
        task = {"id": 1, "subtasks": [task]}
    monkeypatch.setattr(taskmaster, "json_text", lambda *_: {"tasks": [task]})
    file = tmp_path / "tasks.json"
    file.touch()
    with pytest.raises(InvalidInput, match="nested too deeply"):
        taskmaster.read(file)


# by hand


def test_a_ledger_is_exported_and_imported_by_command(tmp_path: Path) -> None:
    here, shell = ThisProcess(tmp_path), Terminal(tmp_path)
    here.type("add", "Worth keeping")
    done = here.json("export", "--output", "ledger.jsonl")
    assert done["counts"] == {"item": 1, "event": 1, "request": 1}
    assert here.run("export", "--output", "ledger.jsonl").returncode == 2
    assert "one document" in here.json("export", code=2)["message"]
    piped = shell.run("export")
    assert piped.stdout.splitlines()[1:] == (tmp_path / "ledger.jsonl").read_text().splitlines()[1:]
    assert f"sha256 {done['sha256']}" in piped.stderr
    back = shell.run("import", "rota", "-", "--db", "other.db", "--json", stdin=piped.stdout)
    assert json.loads(back.stdout)["data"]["stored"] == done["counts"]
    here.type("add", "Something else", "--db", "other.db")
    assert here.json("import", "rota", "ledger.jsonl", "--db", "other.db")["skipped"] == 3
    assert len(here.json("list", "--db", "other.db")) == 2
    here.type("add", "Elsewhere", "--db", "third.db")
    conflict = here.run("import", "rota", "ledger.jsonl", "--db", "third.db")
    assert (conflict.returncode, "line 3: event 1" in conflict.stderr) == (7, True)


def test_of_what_comes_by_standard_input_no_file_is_named(tmp_path: Path) -> None:
    shell = Terminal(tmp_path)
    for given, told in (("", "standard input is empty"), ("x", "standard input, line 1: ")):
        refused = shell.run("import", "rota", "-", stdin=given)
        assert (refused.returncode, refused.stderr[:6]) == (2, "rota: ")
        assert refused.stderr[6:].startswith(told)
    shell.type("add", "Elsewhere")
    shell.type("add", "Worth keeping", "--db", "other.db")
    conflict = shell.run("import", "rota", "-", stdin=shell.type("export", "--db", "other.db"))
    assert (conflict.returncode, "rota-import-" in conflict.stderr) == (7, False)
    refused = shell.run("import", "rota", "-", "--json", stdin="")
    assert json.loads(refused.stdout)["error"]["details"]["file"] == "standard input"


def test_an_export_that_can_be_read_only_once_is_refused_and_says_how_to_give_it(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        refused = ThisProcess(tmp_path, {}).json("import", "rota", f"/dev/fd/{reading}", code=2)
    finally:
        os.close(reading)
    assert "give it as standard input: rota import rota -" in refused["message"]


def test_only_a_database_is_exported_not_a_server(tmp_path: Path) -> None:
    """By its address alone we would silently take the empty database beside us for it."""
    here = ThisProcess(tmp_path, {"ROTA_URL": "http://127.0.0.1:9"})
    for words in (
        ("export", "--output", "x.jsonl"),
        ("import", "beads", str(SAMPLES / "beads.jsonl")),
    ):
        error = here.json(*words, code=2)
        assert "is a server" in error["message"]
    assert list(tmp_path.iterdir()) == []
