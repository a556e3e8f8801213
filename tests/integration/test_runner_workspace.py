"""A git worktree for each run."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.model.fleet import Keep, Workspace
from rota.model.runs import RunStatus
from rota.runner import clean_worktrees
from tests.integration.runner_stage import ENVIRON, Stage, until

TREE: dict[str, Any] = {"workspace": Workspace.WORKTREE}
COMMIT = "git -c user.name=a -c user.email=a@example.org commit -q"


def git(place: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        git(stage.place, "init", "-q", "-b", "main")
        (stage.place / "sub").mkdir()
        (stage.place / "sub" / "file").write_text("one")
        git(stage.place, "add", ".")
        git(stage.place, "commit", "-qm", "one")
        yield stage


def trees(stage: Stage) -> list[str]:
    return git(stage.place, "worktree", "list").splitlines()


async def test_a_run_works_in_a_worktree_that_is_removed(stage: Stage) -> None:
    line = "pwd; cat file; echo mess > other; git status --short"
    end = await stage.run("sh", "-c", line, **TREE, working_directory=stage.place / "sub")
    where, *rest = end.summary.splitlines()
    assert where == str(stage.path / "state" / "worktrees" / "run-1" / "sub")
    assert rest == ["one?? other"]
    assert not stage.is_there(where)
    assert len(trees(stage)) == 1
    assert git(stage.place, "status", "--short") == ""
    assert git(stage.place, "branch", "--format=%(refname:short)") == "main"


async def test_many_runs_at_once_do_not_meet(stage: Stage) -> None:
    """Made and removed at the same time, git's own worktrees would."""
    line = "echo $ROTA_RUN_ID > sub/file; cat sub/file"
    requests = [stage.request("sh", "-c", line, **TREE) for _ in range(20)]
    ends = await asyncio.gather(*(stage.runner.execute(one) for one in requests))
    assert [end.error for end in ends] == [None] * 20
    assert [end.summary for end in ends] == [f"run-{n}" for n in range(1, 21)]
    assert len(trees(stage)) == 1


async def test_commits_that_nobody_holds_are_kept_on_a_branch(stage: Stage) -> None:
    line = f"echo two > sub/file; {COMMIT} -am two"
    end = await stage.run("sh", "-c", line, **TREE)
    assert end.status is RunStatus.SUCCEEDED
    assert git(stage.place, "show", "rota/tester/run-1:sub/file") == "two"
    assert stage.texts("rota", "worktree") == [
        "its commits are kept on the branch rota/tester/run-1"
    ]
    assert git(stage.place, "show", "main:sub/file") == "one"


async def test_commits_on_a_branch_of_the_agents_need_no_other(stage: Stage) -> None:
    line = f"git switch -qc fix; echo two > sub/file; {COMMIT} -am two"
    await stage.run("sh", "-c", line, **TREE)
    branches = git(stage.place, "branch", "--format=%(refname:short)").splitlines()
    assert branches == ["fix", "main"]


async def test_a_worktree_begins_at_the_branch_that_was_named(stage: Stage) -> None:
    git(stage.place, "branch", "release")
    (stage.place / "sub" / "file").write_text("two")
    git(stage.place, "commit", "-qam", "two")
    end = await stage.run("cat", "sub/file", **TREE, base_branch="release", prompt="")
    assert end.summary == "one"


@pytest.mark.parametrize("base", ["nowhere", "--upload-pack=touch owned", "-x"])
async def test_a_branch_that_is_not_there_is_said(stage: Stage, base: str) -> None:
    end = await stage.run("true", **TREE, base_branch=base)
    assert end.status is RunStatus.FAILED
    assert "correct base_branch" in (end.error or "")
    assert not (stage.place / "owned").exists()


async def test_a_directory_that_is_no_repository_says_what_to_do(stage: Stage) -> None:
    plain = stage.path / "plain"
    plain.mkdir()
    end = await stage.run("true", **TREE, working_directory=plain)
    assert end.status is RunStatus.FAILED
    assert f"{plain} is not in a git repository" in (end.error or "")
    assert "set workspace to `shared`" in (end.error or "")


async def test_a_repository_without_a_commit_says_what_to_do(stage: Stage) -> None:
    fresh = stage.path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    end = await stage.run("true", **TREE, working_directory=fresh)
    assert "make the first commit" in (end.error or "")


@pytest.mark.parametrize(
    ("keep", "line", "kept"),
    [
        (Keep.NEVER, "exit 1", False),
        (Keep.ON_FAILURE, "exit 1", True),
        (Keep.ON_FAILURE, "exit 0", False),
        (Keep.ALWAYS, "exit 0", True),
    ],
)
async def test_a_worktree_is_kept_when_asked(
    stage: Stage, keep: Keep, line: str, kept: bool
) -> None:
    await stage.run("sh", "-c", f"echo work > new; {line}", **TREE, keep_worktree=keep)
    worktree = stage.path / "state" / "worktrees" / "run-1"
    assert worktree.exists() is kept
    said = [f"its worktree is kept: {worktree}"] if kept else []
    assert stage.texts("rota", "worktree") == said
    await clean_worktrees(stage.path / "state", environ=ENVIRON)  # at the next start
    assert worktree.exists() is kept


async def test_a_cancelled_runs_worktree_is_removed(stage: Stage) -> None:
    run = asyncio.create_task(stage.run("sh", "-c", "touch there; sleep 60", **TREE))
    worktree = stage.path / "state" / "worktrees" / "run-1"
    await until((worktree / "there").exists, "the agent")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not worktree.exists()
    assert len(trees(stage)) == 1


async def test_an_agent_that_breaks_its_worktree_does_not_break_the_repository(
    stage: Stage,
) -> None:
    end = await stage.run("sh", "-c", "rm .git; rm -r sub; echo gone > .git", **TREE)
    assert end.status is RunStatus.SUCCEEDED
    assert len(trees(stage)) == 1
    assert git(stage.place, "status", "--short") == ""


async def test_what_a_crashed_server_left_is_removed_at_the_next_start(stage: Stage) -> None:
    state = stage.path / "state"
    for name in ("crashed", "alive"):
        git(stage.place, "worktree", "add", "-q", "--detach", str(state / "worktrees" / name))
    lost = state / "worktrees" / "crashed"
    (lost / "sub" / "file").write_text("precious")
    git(lost, "commit", "-qam", "not pushed")
    (state / "worktrees" / "half-made").mkdir()
    elsewhere = stage.path / "elsewhere"
    elsewhere.mkdir()
    (state / "worktrees" / "link").symlink_to(elsewhere)

    removed = await clean_worktrees(state, ["alive"], environ=ENVIRON)

    assert {(one.path.name, one.branch) for one in removed} == {
        ("crashed", "rota/recovered/crashed"),
        ("half-made", None),
    }
    assert sorted(path.name for path in (state / "worktrees").iterdir()) == ["alive", "link"]
    assert elsewhere.exists()
    assert git(stage.place, "show", "rota/recovered/crashed:sub/file") == "precious"
    assert len(trees(stage)) == 2


async def test_hooks_of_the_repository_are_not_run_by_making_a_worktree(stage: Stage) -> None:
    hook = stage.place / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {stage.path / 'hooked'}\n")
    hook.chmod(0o755)
    await stage.run("true", **TREE)
    assert not (stage.path / "hooked").exists()
