"""A folder of Markdown files as people keep it, and what an agent makes of it."""

import asyncio
import fcntl
import json
import os
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rota.model.errors import ClaimLost, InvalidInput, WorkSourceError
from rota.model.work import Priority
from rota.sources.markdown import MarkdownWorkSource, create, frontmatter
from rota.sources.markdown.claimlog import RECORD, Claim, ClaimLog, End
from rota.sources.markdown.custody import Custody, Denial, Held
from rota.sources.markdown.folder import CLAIMS, Folder
from rota.sources.port import (
    ClaimFailureReason,
    FetchOptions,
    ReleaseOptions,
    WorkItem,
    WorkResult,
)
from rota.sources.registry import SourceContext
from rota.testing.clock import ManualClock

MENDED = WorkResult(
    "success",
    'mended: "all" of it\nand painted',
    details="two hinges",
    artifacts=("https://example.org/pull/1", "abc123"),
)
GIVEN_UP = WorkResult("failure", "the hinge is gone", error="no hinge")
HALF_MENDED = WorkResult("partial", "one of two hinges")

GATE = """\
---
# what the gardener wrote
title:   'Mend the gate'   # it squeaks
priority: high
labels:
    - garden
    - "iron"
estimate: 3
status: queued     # ours to change

due: 2026-06-01
---

# Mend the gate

It *squeaks*.\t

---
not front matter: at all
"""

NewSource = Callable[..., MarkdownWorkSource]


@pytest.fixture
def backlog(tmp_path: Path) -> Path:
    path = tmp_path / "backlog"
    path.mkdir()
    return path


@pytest.fixture
async def new_source(backlog: Path, clock: ManualClock) -> AsyncIterator[NewSource]:
    made: list[MarkdownWorkSource] = []

    def create(agent: str = "ada", **settings: Any) -> MarkdownWorkSource:
        made.append(MarkdownWorkSource(Folder(backlog, clock), agent, clock=clock, **settings))
        return made[-1]

    yield create
    for source in made:
        await source.aclose()


@pytest.fixture
def ada(new_source: NewSource) -> MarkdownWorkSource:
    return new_source("ada")


@pytest.fixture
def bob(new_source: NewSource) -> MarkdownWorkSource:
    return new_source("bob")


async def available(source: MarkdownWorkSource, **asked: Any) -> list[WorkItem]:
    return list((await source.fetch_available_work(FetchOptions(**asked))).items)


async def stems(source: MarkdownWorkSource) -> list[str]:
    return [item.external_id for item in await available(source)]


async def problem(source: MarkdownWorkSource) -> str:
    (found,) = await source.problems()
    return found.message


async def claimed(source: MarkdownWorkSource, item_id: str) -> None:
    result = await source.claim_work(item_id)
    assert result.success, result


def parsed(path: Path) -> dict[str, Any]:
    return frontmatter.parse(frontmatter.split(path.read_text()).matter)


# on disk


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of what was brought to the disk, in that order."""
    found, sync = list[int](), os.fsync

    def noted(handle: int) -> None:
        found.append(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def inodes(*paths: Path) -> list[int]:
    return [path.stat().st_ino for path in paths]


async def test_a_claim_is_on_disk_before_it_counts_with_all_that_leads_to_it(
    backlog: Path, ada: MarkdownWorkSource, synced: list[int]
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    claims = backlog / CLAIMS
    record = claims / "gate" / "1.claim" / RECORD
    assert synced == inodes(backlog, claims, record, claims / "gate")


async def test_a_result_is_on_disk_before_it_takes_the_place_of_the_text(
    backlog: Path, ada: MarkdownWorkSource, synced: list[int]
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    synced.clear()
    await ada.complete_work("markdown-gate", MENDED)
    done = backlog / "done"
    text, *rest = inodes(done / "gate.md", backlog, backlog, done, backlog)
    # The text, then its name; then the directory that it goes to, and both where it is and was.
    assert synced[synced.index(text) :] == [text, *rest]


# reading


async def test_a_file_is_an_item_with_all_that_stands_in_it(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    (backlog / "mend-the-gate.md").write_text(GATE)
    (item,) = await available(ada)
    assert item.id == "markdown-mend-the-gate"
    assert item.title == "Mend the gate"
    assert item.description == GATE.partition("---\n\n")[2]
    assert item.priority is Priority.HIGH
    assert item.labels == ("garden", "iron")
    assert item.url == (backlog / "mend-the-gate.md").as_uri()
    assert item.metadata == {"status": "queued", "estimate": 3, "due": "2026-06-01"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From the key\n---\n# From the heading\n", "From the key"),
        ("Some words first.\n\n## From the heading ##\n", "From the heading"),
        ("---\r\nlabels: []\r\n---\r\n# From the heading\r\n", "From the heading"),
        ("# Port it to C#\n", "Port it to C#"),
        ("# Port it to C# ##\n", "Port it to C#"),
        ("#\n# \n# ##\n# Empty ones before\n", "Empty ones before"),
        ("```sh\n# build it\n```\n# Behind some code\n", "Behind some code"),
        (f"# Far{' ' * 500_000}apart\n", "Far"),  # quickly, too
        ("no heading at all", "file-name"),
        ("", "file-name"),
        ("\ufeff---\ntitle: Behind a mark\n---\n", "Behind a mark"),
        ("---\n---\n", "file-name"),
        ("---\n# only a comment\n---\n", "file-name"),
        ("--- \ntitle: Loose fences\n---\t\n", "Loose fences"),
        ('---\ntitle: "\\x1b[31mred\\nblue"\n---\n', "[31mred blue"),
        ("----\ntitle: no fence\n----\n", "file-name"),
    ],
)
async def test_a_title_is_found_where_there_is_one(
    backlog: Path, ada: MarkdownWorkSource, text: str, title: str
) -> None:
    (backlog / "file-name.md").write_bytes(text.encode())
    (item,) = await available(ada)
    assert item.title == title


@pytest.mark.parametrize(
    ("text", "priority"),
    [("1", 1), ("5", 5), ("HIGH", 2), ("critical", 1), ("lowest", 5), ("", 3), ("null", 3)],
)
async def test_a_priority_is_a_number_or_a_name(
    backlog: Path, ada: MarkdownWorkSource, text: str, priority: int
) -> None:
    (backlog / "item.md").write_text(f"---\npriority: {text}\n---\n")
    (item,) = await available(ada)
    assert item.priority == priority


async def test_labels_may_be_written_in_one_line(backlog: Path, ada: MarkdownWorkSource) -> None:
    (backlog / "item.md").write_text("---\nlabels: iron, garden ,\n---\n")
    (item,) = await available(ada)
    assert item.labels == ("iron", "garden")


async def test_only_markdown_files_of_the_folder_itself_are_items(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    for name in ("README.md", "readme.md", ".hidden.md", "notes.txt", "done/old.md", "sub/deep.md"):
        (backlog / name).parent.mkdir(exist_ok=True)
        (backlog / name).write_text("# Not an item\n")
    (backlog / "folder.md").mkdir()
    (backlog / "item.md").write_text("# An item\n")
    assert await stems(ada) == ["item"]
    assert [one.name for one in await ada.problems()] == ["folder.md"]


async def test_items_of_one_priority_come_in_the_order_of_their_creation(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    (backlog / "a.md").write_text("---\ncreated_at: 2026-03-01\n---\n")
    (backlog / "b.md").write_text("---\ncreated_at: 2026-01-01T12:00:00+02:00\n---\n")
    (backlog / "c.md").write_text("no key, but a file's time\n")
    os.utime(backlog / "c.md", (0, datetime(2026, 2, 1, tzinfo=UTC).timestamp()))
    assert await stems(ada) == ["b", "c", "a"]


async def test_a_status_other_than_queued_keeps_an_item_back(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    for status in ("in_progress", "blocked", "failed", "completed", "cancelled"):
        (backlog / f"{status}.md").write_text(f"---\nstatus: {status}\n---\n")
        refused = await ada.claim_work(f"markdown-{status}")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert await stems(ada) == []
    assert await ada.problems() == ()


async def test_a_changed_file_is_read_again(backlog: Path, ada: MarkdownWorkSource) -> None:
    path = backlog / "item.md"
    path.write_text("# One\n")
    assert [item.title for item in await available(ada)] == ["One"]
    path.write_text("# Another\n")
    assert [item.title for item in await available(ada)] == ["Another"]
    path.unlink()
    assert await available(ada) == []


async def test_configured_labels_narrow_what_is_shown_and_given(
    backlog: Path, new_source: NewSource
) -> None:
    (backlog / "iron.md").write_text("---\nlabels: [iron]\n---\n")
    (backlog / "wip.md").write_text("---\nlabels: [iron, wip]\n---\n")
    (backlog / "wood.md").write_text("---\nlabels: [wood]\n---\n")
    source = new_source(labels=("iron",), exclude_labels=("wip",))
    assert await stems(source) == ["iron"]
    for stem in ("wip", "wood"):
        refused = await source.claim_work(f"markdown-{stem}")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
    await claimed(source, "markdown-iron")


# blockers


async def test_an_item_waits_for_those_it_names(backlog: Path, ada: MarkdownWorkSource) -> None:
    (backlog / "hinges.md").write_text("# Buy hinges\n")
    (backlog / "gate.md").write_text("---\nblocked_by: [markdown-hinges]\n---\n")
    (backlog / "paint.md").write_text("---\nblocked_by: gate.md\n---\n")
    for stem in ("hinges", "gate", "paint"):
        assert await stems(ada) == [stem]
        await claimed(ada, f"markdown-{stem}")
        assert await stems(ada) == []
        await ada.complete_work(f"markdown-{stem}", MENDED)


async def test_a_failed_blocker_sets_nothing_free(backlog: Path, ada: MarkdownWorkSource) -> None:
    (backlog / "hinges.md").write_text("# Buy hinges\n")
    (backlog / "gate.md").write_text("---\nblocked_by: [hinges]\n---\n")
    await claimed(ada, "markdown-hinges")
    await ada.complete_work("markdown-hinges", GIVEN_UP)
    assert await stems(ada) == []
    refused = await ada.claim_work("markdown-gate")
    assert (refused.reason, refused.message) == (
        ClaimFailureReason.INVALID_STATE,
        "it waits for 'hinges'",
    )


async def test_a_blocker_that_is_nowhere_is_a_problem_and_sets_nothing_free(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text("---\nblocked_by: [hignes]\n---\n")
    assert await stems(ada) == []
    assert "'hignes', which is neither here nor in done/" in await problem(ada)


async def test_a_blocker_outside_the_folder_is_a_problem(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text("---\nblocked_by: [../../etc/passwd]\n---\n")
    assert "is no name of a file here" in await problem(ada)


# bad files


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"---\ntitle: a\ntitle: b\n---\n", "found duplicate key"),
        (f"---\n{BOMB}---\n".encode(), "uses & or *"),
        (b"---\nx: " + b"[" * 5_000 + b"]" * 5_000 + b"\n---\n", "nested deeper"),
        (b"---\nx: " + b"y" * 70_000 + b"\n---\n", "at most 65536 are read"),
        (b"---\n- a list\n---\n", "lines of `key: value`"),
        (b"---\njust words\n---\n", "lines of `key: value`"),
        (b"---\n{title: in braces}\n---\n", "without braces"),
        (b"---\n1: a number\n---\n", "must be text"),
        (b"---\ntitle: a: b\n---\n", "in line 2"),
        (b"---\ntitle: \x1b\n---\n", "not YAML"),
        (b"---\nx: !!python/object:os.system ls\n---\n", "not YAML"),
        (b"---\nx: " + b"9" * 5_000 + b"\n---\n", "not YAML"),
        (b"---\na: 1\n...\nb: 2\n---\n", "not YAML"),
        (b"---\ntitle: never closed\n", "never closed"),
        (b"---\ntitle: [a, list]\n---\n", "title must be text"),
        (b"---\npriority: urgent\n---\n", "use 1 (highest) to 5"),
        (b"---\npriority: 0\n---\n", "use 1 (highest) to 5"),
        (b"---\npriority: true\n---\n", "use 1 (highest) to 5"),
        (b"---\nlabels: {a: b}\n---\n", "labels must be a list"),
        (b"---\nlabels: [1]\n---\n", "labels must be a list"),
        (b"---\nstatus: qeued\n---\n", "did you mean 'queued'"),
        (b"---\nstatus: 7\n---\n", "is unknown"),
        (b"---\ncreated_at: yesterday\n---\n", "is no time"),
        (b"# \xff\xfe\n", "not UTF-8"),
        (b"x" * (1024 * 1024 + 1), "larger than 1048576 bytes"),
    ],
)
async def test_a_bad_file_is_named_and_hurts_no_other(
    backlog: Path, ada: MarkdownWorkSource, data: bytes, told: str
) -> None:
    (backlog / "bad.md").write_bytes(data)
    (backlog / "good.md").write_text("# Good\n")
    assert await stems(ada) == ["good"]
    (found,) = await ada.problems()
    assert found.name == "bad.md"
    assert told in found.message
    assert len(found.message) < 400
    refused = await ada.claim_work("markdown-bad")
    assert (refused.reason, refused.message) == (ClaimFailureReason.INVALID_STATE, found.message)
    assert await ada.get_work("markdown-bad") is None
    await claimed(ada, "markdown-good")


@given(st.binary(max_size=300))
def test_no_bytes_whatever_break_the_reading_of_a_file(data: bytes) -> None:
    with suppress(frontmatter.BadFrontMatter):
        split = frontmatter.split(f"---\n{data.decode(errors='replace')}\n---\nbody")
        frontmatter.parse(split.matter)


async def test_a_problem_is_logged_once_until_it_is_mended_whoever_reads_the_folder(
    backlog: Path, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    (backlog / "bad.md").write_text("---\npriority: soon\n---\n")
    (backlog / "good.md").write_text("# Good\n")
    with capture_logs() as logged:
        for source in (ada, bob, ada):
            assert await stems(source) == ["good"]
    assert [(one["event"], one["file"]) for one in logged] == [("file is not offered", "bad.md")]
    assert logged[0]["why"] == await problem(ada)
    (backlog / "bad.md").write_text("---\npriority: never\n---\n# Bad\n")
    with capture_logs() as logged:
        await stems(ada)
        (backlog / "bad.md").write_text("# Mended\n")
        await stems(bob)
        await stems(ada)
    assert [one["file"] for one in logged] == ["bad.md"]


async def test_a_name_that_cannot_be_an_id_is_a_problem(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    for name in (b"bad\xff.md", b"new\nline.md", b"back\\slash.md", b"x" * 240 + b".md"):
        (backlog / os.fsdecode(name)).write_text("# Bad name\n")
    assert await stems(ada) == []
    found = await ada.problems()
    assert len(found) == 4
    assert all("cannot be an id" in one.message for one in found)
    json.dumps([one.name for one in found]).encode()


async def test_a_file_that_cannot_be_opened_is_a_problem(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(backlog / "socket.md"))
        assert "cannot be read" in await problem(ada)


async def test_a_pipe_does_not_make_anybody_wait(backlog: Path, ada: MarkdownWorkSource) -> None:
    os.mkfifo(backlog / "pipe.md")
    assert await problem(ada) == "it is not a file"


@pytest.mark.parametrize(
    "stem", ["../outside", "a/../../outside", "a/item", "a\\item", ".item", ""]
)
async def test_an_id_leads_nowhere_but_into_the_folder(
    tmp_path: Path, backlog: Path, ada: MarkdownWorkSource, stem: str
) -> None:
    (backlog / "a").mkdir()
    for place in (tmp_path / "outside.md", backlog / "a/item.md", backlog / ".item.md"):
        place.write_text("# Not for you\n")
    assert await ada.get_work(f"markdown-{stem}") is None
    refused = await ada.claim_work(f"markdown-{stem}")
    assert refused.reason is ClaimFailureReason.NOT_FOUND


async def test_links_are_not_followed(
    tmp_path: Path, backlog: Path, ada: MarkdownWorkSource
) -> None:
    (tmp_path / "outside.md").write_text("# Outside\n")
    (backlog / "out.md").symlink_to(tmp_path / "outside.md")
    (backlog / "item.md").write_text("# Inside\n")
    (backlog / "twin.md").symlink_to(backlog / "item.md")
    assert await stems(ada) == ["item"]
    assert {one.name for one in await ada.problems()} == {"out.md", "twin.md"}
    for stem in ("out", "twin"):
        assert await ada.get_work(f"markdown-{stem}") is None
        assert not (await ada.claim_work(f"markdown-{stem}")).success


@pytest.mark.parametrize("name", [".claims", "done"])
async def test_our_own_directories_do_not_lead_elsewhere(
    tmp_path: Path, backlog: Path, ada: MarkdownWorkSource, name: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (backlog / name).symlink_to(tmp_path / "elsewhere")
    (backlog / "item.md").write_text("# Item\n")
    with pytest.raises(WorkSourceError, match="symbolic link"):
        await available(ada)
    refused = await ada.claim_work("markdown-item")
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_claims_of_an_item_do_not_lead_elsewhere(
    tmp_path: Path, backlog: Path, ada: MarkdownWorkSource
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (backlog / ".claims").mkdir()
    (backlog / ".claims" / "item").symlink_to(tmp_path / "elsewhere")
    for stem in ("item", "other"):
        (backlog / f"{stem}.md").write_text("# Item\n")
    assert await stems(ada) == ["other"]
    assert not (await ada.claim_work("markdown-item")).success
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_damaged_claim_keeps_its_item_back_and_no_other(
    backlog: Path, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    for stem in ("item", "other"):
        (backlog / f"{stem}.md").write_text("# Item\n")
    await claimed(ada, "markdown-item")
    record = backlog / ".claims/item/1.claim/record.json"
    whole = json.loads(record.read_text())
    wrong = [{"agent": 7}, {"token": None}, {"lease_seconds": "900"}, {"lease_seconds": None}]
    forged = [json.dumps(whole | one) for one in wrong]
    large = json.dumps(whole) + " " * 2_000_000
    for text in ("{", "[]", '{"agent": "ada"}', "\x00", "[" * 100_000, large, *forged):
        record.write_text(text)
        assert await stems(bob) == ["other"], text[:100]
        assert "has been damaged" in await problem(bob)
    end = backlog / ".claims/item/1.end"
    end.mkdir()
    record.write_text(json.dumps(whole))
    for result in (7, "done", ["x"]):
        told = {"kind": "success", "by": "x", "agent": "ada", "at": "x", "result": result}
        (end / "record.json").write_text(json.dumps(told))
        assert await stems(bob) == ["other"], result
    shutil.rmtree(end)
    record.unlink()
    assert await stems(bob) == ["other"]
    with pytest.raises(WorkSourceError, match="damaged"):
        await ada.complete_work("markdown-item", MENDED)
    await claimed(bob, "markdown-other")


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "none"])
async def test_a_record_that_is_no_file_is_not_followed_and_not_waited_for(
    tmp_path: Path, backlog: Path, ada: MarkdownWorkSource, bob: MarkdownWorkSource, kind: str
) -> None:
    for stem in ("item", "other"):
        (backlog / f"{stem}.md").write_text("# Item\n")
    await claimed(ada, "markdown-item")
    record = backlog / ".claims/item/1.claim/record.json"
    record.rename(tmp_path / "elsewhere.json")
    if kind == "link":
        record.symlink_to(tmp_path / "elsewhere.json")
    elif kind == "pipe":
        os.mkfifo(record)
    elif kind == "directory":
        record.mkdir()
    else:  # what holds it is a file itself
        record.parent.rmdir()
        record.parent.write_text("{}")
    assert await asyncio.wait_for(stems(bob), 30) == ["other"]
    assert "has been damaged" in await problem(bob)


async def test_a_folder_that_is_not_there_is_no_empty_folder(
    tmp_path: Path, clock: ManualClock
) -> None:
    ada = MarkdownWorkSource(Folder(tmp_path / "nowhere", clock), "ada")
    with pytest.raises(WorkSourceError, match=r"correct work_source\.path"):
        await available(ada)
    refused = await ada.claim_work("markdown-item")
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR


# ends


async def test_success_moves_the_file_and_changes_only_our_keys(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    path.chmod(0o640)
    await claimed(ada, "markdown-gate")
    assert path.read_text() == GATE
    await ada.complete_work("markdown-gate", MENDED)
    assert not path.exists()
    done = backlog / "done/gate.md"
    result = parsed(done)["result"]
    assert result.pop("claim")
    assert result == {
        "outcome": "success",
        "summary": MENDED.summary,
        "details": "two hinges",
        "artifacts": list(MENDED.artifacts),
        "agent": "ada",
        "at": clock.text(),
    }
    text = done.read_text()
    start = text.index("result:\n")
    end = text.index("---\n\n# Mend")
    unchanged = text[:start] + text[end:]
    assert unchanged == GATE.replace("status: queued ", "status: completed ")
    assert stat.S_IMODE(done.stat().st_mode) == 0o640
    item = await ada.get_work("markdown-gate")
    assert item is not None
    assert (item.url, item.metadata["status"]) == (done.as_uri(), "completed")
    assert not (backlog / ".claims/gate").exists()


@pytest.mark.parametrize(
    ("result", "status"), [(GIVEN_UP, "failed"), (HALF_MENDED, "blocked")], ids=["fail", "partial"]
)
async def test_any_other_end_leaves_the_file_with_its_result(
    backlog: Path, ada: MarkdownWorkSource, result: WorkResult, status: str
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    await claimed(ada, "markdown-gate")
    await ada.complete_work("markdown-gate", result)
    keys = parsed(path)
    assert keys["status"] == status
    assert (keys["result"]["outcome"], keys["result"]["summary"]) == (
        result.outcome,
        result.summary,
    )
    assert keys["result"].get("error") == result.error
    assert path.read_text().endswith(GATE.partition("---\n\n")[2])


async def test_a_failed_item_is_taken_again_once_a_person_has_queued_it(
    backlog: Path, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    for agent in (ada, bob, ada):
        await claimed(agent, "markdown-gate")
        await agent.complete_work("markdown-gate", GIVEN_UP)
        assert await stems(bob) == []
        path.write_text(path.read_text().replace("status: failed", "status: queued"))
        assert await stems(bob) == ["gate"]
    await claimed(bob, "markdown-gate")
    await bob.complete_work("markdown-gate", MENDED)
    text = (backlog / "done/gate.md").read_text()
    assert text.count("result:") == text.count("outcome:") == 1
    assert "# what the gardener wrote" in text


async def test_a_name_may_be_used_again_and_nothing_in_done_is_overwritten(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    for text in ("# First\n", "# Second\n", "# Third\n"):
        (backlog / "gate.md").write_text(text)
        await claimed(ada, "markdown-gate")
        await ada.complete_work("markdown-gate", MENDED)
    titles = {
        path.name: path.read_text().splitlines()[-1] for path in (backlog / "done").glob("*.md")
    }
    assert titles == {"gate.md": "# First", "gate-2.md": "# Second", "gate-3.md": "# Third"}


LAYOUTS = [
    "",
    "---\n---\n",
    "---\n# only a comment\n---\n",
    "---\nstatus:\nlast: 1\n---\n",
    "---\nstatus:   # nothing yet\n---\n",
    "---\nstatus: 'queued'\n---\n",
    '---\n"status": queued\n---\n',
    "---\r\nstatus: queued\r\nlast: |\r\n  text\r\n\r\n---\r\n",
    "---\n  title: indented\n  status: queued\n---\n",
    "---\nlast: |+\n  keeps its end\n\n\n---\n",
    "---\nlast: >-\n  folded\n---\n",
    "---\nresult:\n  outcome: failure\n  nested:\n    - a\n    - b\n\n# the next\nlast: 1\n---\n",
    "---\nresult: {outcome: failure}   # in braces\nlast: 1\n---\n",
    "---\nresult: old words\n---\n",
    "---\nresult:\n- a\n- b\nlast: 1\n---\n",
    "\ufeff---\ntitle: marked\n---\n",
    "---\nlast: 'a long\n  quoted line'\n---\n",
]


@pytest.mark.parametrize("head", LAYOUTS)
def test_keys_are_changed_in_any_layout_and_the_rest_stays(head: str) -> None:
    body = "# Body\r\n\n---\nkey: value\n---\n\ttail"
    split = frontmatter.split(head + body)
    before = frontmatter.parse(split.matter)
    changes: dict[str, Any] = {
        "status": "failed",
        "result": {"outcome": "failure", "summary": 'a "b": #c\n\x85 \ufeff {'},
    }
    changed = frontmatter.changed(split, changes)
    again = frontmatter.split(changed)
    assert again.body == body
    assert frontmatter.parse(again.matter) == {**before, **changes}
    for line in split.matter.splitlines():
        if line.lstrip().startswith("#") or line.startswith("last"):
            assert line in changed
    assert frontmatter.split(frontmatter.changed(again, changes)) == again


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1000, 1000),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20),
)


@given(
    st.dictionaries(st.sampled_from(["title", "status", "result", "x", "y"]), plain),
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60),
)
def test_whatever_is_written_is_read_back(keys: dict[str, Any], body: str, said: str) -> None:
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())
    split = frontmatter.split(f"---\n{head}---\n{body}")
    changed = frontmatter.changed(split, {"status": "failed", "result": {"summary": said}})
    again = frontmatter.split(changed)
    assert again.body == body
    assert frontmatter.parse(again.matter)["result"] == {"summary": said}


async def test_an_edit_during_the_work_is_kept(backlog: Path, ada: MarkdownWorkSource) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    await claimed(ada, "markdown-gate")
    path.write_text(GATE + "And paint it.\n")
    await ada.complete_work("markdown-gate", MENDED)
    assert (backlog / "done/gate.md").read_text().endswith("And paint it.\n")


async def test_a_file_that_was_removed_during_the_work_takes_its_claim_along(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    await claimed(ada, "markdown-gate")
    path.unlink()
    await ada.complete_work("markdown-gate", MENDED)
    assert not (backlog / "done").exists()
    path.write_text(GATE)
    assert await stems(ada) == ["gate"]


async def test_a_result_that_cannot_be_written_now_is_written_when_the_file_is_mended(
    backlog: Path, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    (backlog / "other.md").write_text("# Other\n")
    await claimed(ada, "markdown-gate")
    path.write_text(GATE.replace("---\n\n# Mend", "title: twice\n---\n\n# Mend"))
    await ada.complete_work("markdown-gate", MENDED)
    assert "duplicate key" in await problem(bob)
    assert not (await bob.claim_work("markdown-gate")).success
    path.write_text(GATE)
    assert "result could not be written" in await problem(bob)
    await claimed(bob, "markdown-other")
    assert parsed(backlog / "done/gate.md")["result"]["agent"] == "ada"
    assert await bob.problems() == ()


async def test_the_reason_of_a_release_is_told_to_the_next(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    await ada.release_work("markdown-gate", ReleaseOptions("no hinge\x00\x1b"))
    (item,) = await available(bob)
    assert item.metadata["released"] == {"agent": "ada", "at": clock.text(), "reason": "no hinge"}
    assert (backlog / "gate.md").read_text() == GATE


async def test_git_does_not_see_claims(backlog: Path, ada: MarkdownWorkSource) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    assert (backlog / ".claims/.gitignore").read_text() == "*\n"
    record = json.loads((backlog / ".claims/gate/1.claim/record.json").read_text())
    assert record["agent"] == "ada"
    assert record["pid"] == os.getpid()
    assert set(record) == {"agent", "firing_id", "token", "host", "pid", "at", "lease_seconds"}


async def test_a_folder_that_cannot_be_written_to_refuses_claims(
    backlog: Path, ada: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    (backlog / ".claims").write_text("in the way\n")
    refused = await ada.claim_work("markdown-gate")
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR
    assert (backlog / "gate.md").read_text() == GATE


# leases


async def test_a_lapsed_claim_is_taken_over_and_its_holder_is_refused(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    clock.advance(899)
    assert await stems(bob) == []
    assert (await bob.claim_work("markdown-gate")).reason is ClaimFailureReason.ALREADY_CLAIMED
    clock.advance(1)
    assert await stems(bob) == ["gate"]
    await claimed(bob, "markdown-gate")
    for late in (ada.heartbeat("markdown-gate"), ada.complete_work("markdown-gate", MENDED)):
        with pytest.raises(ClaimLost):
            await late
    await ada.release_work("markdown-gate")
    assert await stems(ada) == []
    await bob.complete_work("markdown-gate", GIVEN_UP)
    assert parsed(backlog / "gate.md")["result"]["agent"] == "bob"


async def test_a_late_holder_may_finish_what_nobody_has_taken_over(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    clock.advance(10_000)
    await ada.complete_work("markdown-gate", MENDED)
    assert (backlog / "done/gate.md").exists()


async def test_a_heartbeat_extends_the_lease(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    clock.advance(800)
    await ada.heartbeat("markdown-gate")
    clock.advance(800)
    assert not (await bob.claim_work("markdown-gate")).success


async def test_claims_are_kept_alive_while_the_source_is_open(
    backlog: Path, clock: ManualClock, new_source: NewSource, bob: MarkdownWorkSource
) -> None:
    slept: asyncio.Queue[float] = asyncio.Queue()
    go_on = asyncio.Semaphore(0)

    async def sleep(seconds: float) -> None:
        slept.put_nowait(seconds)
        await go_on.acquire()
        clock.advance(seconds)

    (backlog / "gate.md").write_text(GATE)
    ada = new_source("ada", lease_seconds=300, sleep=sleep)
    await claimed(ada, "markdown-gate")
    for _ in range(6):
        assert await slept.get() == 100
        go_on.release()
    assert await slept.get() == 100
    assert not (await bob.claim_work("markdown-gate")).success
    await ada.aclose()
    clock.advance(300)
    await claimed(bob, "markdown-gate")


async def test_a_sign_of_life_from_the_far_future_holds_nothing(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource, bob: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    await claimed(ada, "markdown-gate")
    clock.advance(-1_000_000)
    await claimed(bob, "markdown-gate")


async def test_scraps_of_a_crash_are_swept_up(
    backlog: Path, clock: ManualClock, ada: MarkdownWorkSource
) -> None:
    (backlog / "gate.md").write_text(GATE)
    claims = backlog / ".claims"
    claims.mkdir()
    now = int(clock.now().timestamp())
    (claims / f".scrap-{now - 7200}-old").mkdir()
    (claims / f".scrap-{now - 7200}-old.md").write_text("half")
    (claims / f".scrap-{now - 60}-young").mkdir()
    await claimed(ada, "markdown-gate")
    assert sorted(one.name for one in claims.iterdir()) == [
        ".gitignore",
        f".scrap-{now - 60}-young",
        "gate",
    ]


# what happens between two steps


def record(agent: str) -> Claim:
    return Claim(agent, "20260501-120000-beef", f"token-of-{agent}", "host", 1, "now", 900)


def custody(backlog: Path, clock: ManualClock) -> Custody:
    return Custody(Folder(backlog, clock))


def completed_by(backlog: Path, clock: ManualClock, agent: str) -> None:
    taken = custody(backlog, clock)
    held = taken.claim("gate", record(agent))
    assert isinstance(held, Held)
    result = {"outcome": "success", "summary": f"by {agent}"}
    assert taken.complete("gate", held, End("success", held.token, agent, "now", result=result))


def test_an_item_that_was_completed_while_a_claimer_came_is_not_claimed(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (backlog / "gate.md").write_text(GATE)
    slow = Folder(backlog, clock)
    make = slow.make

    def make_late(name: str) -> Path:
        monkeypatch.undo()
        completed_by(backlog, clock, "bob")
        return make(name)

    monkeypatch.setattr(slow, "make", make_late)
    answer = Custody(slow).claim("gate", record("ada"))
    assert answer == Denial(ClaimFailureReason.INVALID_STATE, "it is completed")
    assert "agent: bob" in (backlog / "done/gate.md").read_text()


def emptied(path: Path, **_: Any) -> None:
    for name in ("1.claim", "1.end"):
        if (path / name).exists():
            (path / name).rename(path.with_name(f".{name}"))


def test_a_claim_among_those_of_an_older_file_is_none(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (backlog / "gate.md").write_text(GATE)
    enter_claim = ClaimLog.enter_claim

    def enter_late(log: ClaimLog, *given: Any) -> bool:
        monkeypatch.undo()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shutil.rmtree", emptied)  # not all taken apart yet
            completed_by(backlog, clock, "bob")
        (backlog / "gate.md").write_text(GATE)
        return enter_claim(log, *given)

    monkeypatch.setattr(ClaimLog, "enter_claim", enter_late)
    ada = custody(backlog, clock)
    held = ada.claim("gate", record("ada"))
    assert isinstance(held, Held)
    assert ada.beat("gate", held)
    assert not isinstance(custody(backlog, clock).claim("gate", record("eve")), Held)


def test_a_holder_from_the_time_of_an_older_file_is_a_stranger(
    backlog: Path, clock: ManualClock
) -> None:
    (backlog / "gate.md").write_text(GATE)
    ada = custody(backlog, clock)
    held = ada.claim("gate", record("ada"))
    assert isinstance(held, Held)
    clock.advance(900)
    completed_by(backlog, clock, "bob")
    (backlog / "gate.md").write_text(GATE)
    eve = custody(backlog, clock)
    theirs = eve.claim("gate", record("eve"))
    assert isinstance(theirs, Held)
    assert theirs.number == held.number
    end = End("success", held.token, "ada", "now", result={"outcome": "success", "summary": "late"})
    assert not ada.beat("gate", held)
    assert not ada.release("gate", held, replace(end, kind="released", result={}))
    assert not ada.complete("gate", held, end)
    assert eve.beat("gate", theirs)


def test_while_another_tidies_up_a_result_waits_and_is_not_lost(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.sources.markdown.tidying.PATIENCE", 0.0)
    (backlog / "gate.md").write_text(GATE)
    (backlog / "other.md").write_text("# Other\n")
    (backlog / ".claims").mkdir()
    with (backlog / ".claims/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        completed_by(backlog, clock, "bob")
        assert (backlog / "gate.md").read_text() == GATE
    assert isinstance(custody(backlog, clock).claim("other", record("ada")), Held)
    assert "agent: bob" in (backlog / "done/gate.md").read_text()


def test_a_new_file_is_not_taken_for_one_that_was_completed_before(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash after the move, and before the claims were discarded."""
    (backlog / "gate.md").write_text(GATE)
    monkeypatch.setattr(ClaimLog, "discard", lambda *_: None)
    completed_by(backlog, clock, "bob")
    monkeypatch.undo()
    (backlog / "gate.md").write_text(GATE)
    assert isinstance(custody(backlog, clock).claim("gate", record("ada")), Held)
    assert (backlog / "gate.md").read_text() == GATE


def test_a_person_may_queue_an_item_before_its_failure_is_noted(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash after the file was written, and before the claim says so."""
    path = backlog / "gate.md"
    path.write_text(GATE)
    monkeypatch.setattr(ClaimLog, "tell", lambda *_: None)
    ada = custody(backlog, clock)
    held = ada.claim("gate", record("ada"))
    assert isinstance(held, Held)
    result = {"outcome": "failure", "summary": "no hinge"}
    assert ada.complete("gate", held, End("failure", held.token, "ada", "now", result=result))
    monkeypatch.undo()
    path.write_text(path.read_text().replace("status: failed", "status: queued"))
    assert isinstance(custody(backlog, clock).claim("gate", record("bob")), Held)
    assert "status: queued" in path.read_text()


def test_a_file_is_read_anew_before_it_is_written(backlog: Path, clock: ManualClock) -> None:
    """Two changes within one tick of the file system's clock look like one."""
    path = backlog / "gate.md"
    path.write_text(GATE)
    folder = Folder(backlog, clock)
    old = folder.sheet(path)
    assert old is not None
    path.write_text(GATE + "And paint it.\n")
    folder.sheet(path)
    folder._known[path] = (folder._known[path][0], old)
    ada = Custody(folder)
    held = ada.claim("gate", record("ada"))
    assert isinstance(held, Held)
    result = {"outcome": "success", "summary": "mended"}
    ada.complete("gate", held, End("success", held.token, "ada", "now", result=result))
    assert (backlog / "done/gate.md").read_text().endswith("And paint it.\n")


@pytest.mark.parametrize("outcome", ["success", "failure"])
def test_an_edit_while_the_result_is_written_is_kept(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    ada = custody(backlog, clock)
    held = ada.claim("gate", record("ada"))
    assert isinstance(held, Held)

    def slow(handle: int, mode: int) -> None:
        monkeypatch.undo()
        path.write_text(GATE + "And paint it.\n")

    monkeypatch.setattr("rota.sources.markdown.tidying.os.fchmod", slow)
    result = {"outcome": outcome, "summary": "said"}
    assert ada.complete("gate", held, End(outcome, held.token, "ada", "now", result=result))
    written = backlog / "done/gate.md" if outcome == "success" else path
    assert written.read_text().endswith("And paint it.\n")
    assert parsed(written)["result"]["summary"] == "said"


def test_a_file_that_is_removed_while_the_result_is_written_does_not_come_back(
    backlog: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = backlog / "gate.md"
    path.write_text(GATE)
    ada = custody(backlog, clock)
    held = ada.claim("gate", record("ada"))
    assert isinstance(held, Held)
    monkeypatch.setattr("rota.sources.markdown.tidying.os.fchmod", lambda *_: path.unlink())
    result = {"outcome": "failure", "summary": "said"}
    assert ada.complete("gate", held, End("failure", held.token, "ada", "now", result=result))
    assert not path.exists()


def test_a_change_that_would_harm_another_key_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    split = frontmatter.split("---\nstatus: queued\nlast: 1\n---\n")
    monkeypatch.setattr(frontmatter, "_place", lambda matter, *_: (0, len(matter)))
    with pytest.raises(frontmatter.BadFrontMatter, match="without harm"):
        frontmatter.changed(split, {"status": "failed"})


# configuration


async def test_a_source_is_made_from_its_configuration(
    tmp_path: Path, backlog: Path, clock: ManualClock
) -> None:
    (backlog / "gate.md").write_text(GATE)
    (backlog / "wip.md").write_text("---\nlabels: [garden, wip]\n---\n")
    source = create(
        {"type": "markdown", "path": "backlog", "labels": ["garden"]},
        SourceContext("ada", clock=clock, directory=tmp_path),
    )
    assert await stems(source) == ["gate"]
    await source.aclose()


@pytest.mark.parametrize(
    ("config", "told"),
    [({}, "path"), ({"path": "x", "lables": []}, "did you mean 'labels'")],
)
def test_a_mistake_in_the_configuration_is_named(config: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        create({"type": "markdown", **config}, SourceContext())


# claims of an earlier process


async def test_a_report_names_its_claim_also_where_an_item_was_put_back_and_is_counted_anew(
    ada: MarkdownWorkSource, backlog: Path, clock: ManualClock
) -> None:
    (backlog / "gate.md").write_text(GATE)
    first = await ada.claim_work("markdown-gate")
    await ada.complete_work("markdown-gate", replace(MENDED, claim=first.claim))
    (backlog / "done" / "gate.md").unlink()
    (backlog / "gate.md").write_text(GATE)
    clock.advance(60)
    again = await ada.claim_work("markdown-gate")
    assert again.success
    with pytest.raises(ClaimLost):
        await ada.complete_work("markdown-gate", replace(GIVEN_UP, claim=first.claim))
    assert (await ada.release_work("markdown-gate", ReleaseOptions(claim=first.claim))).success
    await ada.heartbeat("markdown-gate")
    await ada.complete_work("markdown-gate", replace(MENDED, claim=again.claim))


async def test_a_folder_that_is_not_there_does_not_say_that_a_claim_is_lost(
    backlog: Path, new_source: NewSource
) -> None:
    """It is on another machine, say, or not mounted now. A lost claim would cost the report."""
    (backlog / "gate.md").write_text(GATE)
    made = await new_source("ada").claim_work("markdown-gate")
    moved = backlog.with_name("moved")
    shutil.move(backlog, moved)
    heir = new_source("ada")
    with pytest.raises(WorkSourceError, match="cannot be read: it is no folder"):
        await heir.complete_work("markdown-gate", replace(MENDED, claim=made.claim))
    with pytest.raises(WorkSourceError, match="cannot be read: it is no folder"):
        await heir.release_work("markdown-gate", ReleaseOptions(claim=made.claim))
    shutil.move(moved, backlog)
    await heir.complete_work("markdown-gate", replace(MENDED, claim=made.claim))


async def test_a_claim_of_an_earlier_process_is_kept_alive_until_its_end_could_be_written(
    ada: MarkdownWorkSource, new_source: NewSource, backlog: Path, clock: ManualClock
) -> None:
    (backlog / "gate.md").write_text(GATE)
    made = await ada.claim_work("markdown-gate")
    beats, slept = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.set()
        await beats.wait()
        beats.clear()

    heir = new_source("ada", sleep=sleep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Custody, "complete", _disk_full)
        with pytest.raises(WorkSourceError):
            await heir.complete_work("markdown-gate", replace(MENDED, claim=made.claim))
    clock.advance(800)
    async with asyncio.timeout(20):
        await slept.wait()
        slept.clear()
        beats.set()
        await slept.wait()  # it has beaten once
    clock.advance(800)
    assert (await new_source("bob").claim_work("markdown-gate")).reason is (
        ClaimFailureReason.ALREADY_CLAIMED
    )
    await heir.complete_work("markdown-gate", replace(MENDED, claim=made.claim))


def _disk_full(*_: object) -> bool:
    raise OSError(28, "No space left on device")
