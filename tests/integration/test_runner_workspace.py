"""A git worktree for each run."""

import asyncio
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rota.runner.git
from rota.model.fleet import Keep, Limits, Workspace
from rota.model.runs import RunStatus
from rota.runner import clean_worktrees
from rota.runner.workspace import KEPT
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
    trees_of_all = stage.path / "state" / "worktrees"
    assert where == str(trees_of_all / "run-1" / "sub")
    assert trees_of_all.stat().st_mode & 0o777 == 0o700
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


@pytest.mark.parametrize(
    ("agent", "taken"),
    [("tester", "rota"), ("tester", "rota/tester"), ("smith.lock", None), ("a..b", None)],
)
async def test_commits_are_kept_where_there_can_be_no_such_branch(
    stage: Stage, agent: str, taken: str | None
) -> None:
    if taken:
        git(stage.place, "branch", taken)
    request = stage.request("sh", "-c", f"echo two > sub/file; {COMMIT} -am two", **TREE)
    await stage.runner.execute(replace(request, agent=agent))
    assert git(stage.place, "show", "refs/rota/kept/run-1:sub/file") == "two"
    assert stage.texts("rota") == ["its commits are kept on the ref refs/rota/kept/run-1"]
    assert len(trees(stage)) == 1


async def test_a_worktree_whose_commits_nothing_can_hold_stays(stage: Stage) -> None:
    git(stage.place, "branch", "rota")
    git(stage.place, "update-ref", "refs/rota/kept", "main")
    await stage.run("sh", "-c", f"echo two > sub/file; {COMMIT} -am two", **TREE)
    worktree = stage.path / "state" / "worktrees" / "run-1"
    (said,) = stage.texts("rota", "warning")
    assert said.endswith(f"so it stays: {worktree}")
    assert await clean_worktrees(stage.path / "state", environ=ENVIRON) == ()
    assert git(worktree, "show", "HEAD:sub/file") == "two"
    git(stage.place, "branch", "-m", "rota", "other")  # and the next start finds a way
    (removed,) = await clean_worktrees(stage.path / "state", environ=ENVIRON)
    assert removed.ref == "rota/recovered/run-1"
    assert git(stage.place, "show", "rota/recovered/run-1:sub/file") == "two"
    assert not worktree.exists()


async def test_git_gets_no_secrets_asks_nobody_and_speaks_english(stage: Stage) -> None:
    told = stage.path / "told"
    watched = stage.path / "watched" / "git"
    watched.parent.mkdir()
    watched.write_text(f'#!/bin/sh\nenv >> {told}\nexec {shutil.which("git")} "$@"\n')
    watched.chmod(0o755)
    path = f"{watched.parent}:{ENVIRON['PATH']}"
    environ = {**ENVIRON, "PATH": path, "A_SECRET": "hunter2-hunter2", "LC_ALL": "de_DE.UTF-8"}
    (stage.path / "other").mkdir()
    with Stage(stage.path / "other", environ=environ) as other:
        end = await other.run("true", **TREE, working_directory=stage.place)
    assert end.status is RunStatus.SUCCEEDED
    lines = told.read_text().splitlines()
    assert {"GIT_TERMINAL_PROMPT=0", "LC_ALL=C"} <= set(lines)
    assert not [line for line in lines if "hunter2" in line or line == "LC_ALL=de_DE.UTF-8"]


@pytest.mark.parametrize("line", ["kill -9 $$", "exec sleep 3600"])
async def test_a_worktree_stays_when_git_cannot_say_where_it_stands(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    worktree = stage.path / "state" / "worktrees" / "run-1"
    git(stage.place, "worktree", "add", "-q", "--detach", str(worktree))
    ill = stage.path / "ill" / "git"
    ill.parent.mkdir()
    ill.write_text(f"#!/bin/sh\n{line}\n")
    ill.chmod(0o755)
    monkeypatch.setattr(rota.runner.git, "GIT_PATIENCE", 0.5)
    environ = {**ENVIRON, "PATH": f"{ill.parent}:{ENVIRON['PATH']}"}
    assert await clean_worktrees(stage.path / "state", environ=environ) == ()
    assert worktree.exists()


@pytest.mark.parametrize("harm", ["echo gone > .git", 'rm -r "$PWD"'])
async def test_commits_of_a_worktree_that_its_agent_broke_are_kept(stage: Stage, harm: str) -> None:
    await stage.run("sh", "-c", f"echo two > sub/file; {COMMIT} -am two; {harm}", **TREE)
    assert git(stage.place, "show", "rota/tester/run-1:sub/file") == "two"
    assert len(trees(stage)) == 1


async def test_commits_of_a_repository_that_cannot_be_read_for_now_are_kept(stage: Stage) -> None:
    config = stage.place / ".git" / "config"
    sound = config.read_text()
    line = f"echo two > sub/file; {COMMIT} -am two; echo '[' >> '{config}'"
    end = await stage.run("sh", "-c", line, **TREE)
    assert end.status is RunStatus.SUCCEEDED
    (said,) = stage.texts("rota", "warning")
    assert said.startswith("its worktree could not be removed: fatal: bad config line")
    assert await clean_worktrees(stage.path / "state", environ=ENVIRON) == ()
    config.write_text(sound)
    await clean_worktrees(stage.path / "state", environ=ENVIRON)
    assert git(stage.place, "show", "rota/recovered/run-1:sub/file") == "two"
    assert len(trees(stage)) == 1


async def test_what_goes_with_the_worktree_holds_no_commits(stage: Stage) -> None:
    line = f"echo two > sub/file; {COMMIT} -am two; git update-ref refs/bisect/bad HEAD"
    await stage.run("sh", "-c", line, **TREE)
    assert git(stage.place, "show", "rota/tester/run-1:sub/file") == "two"


async def test_a_worktree_that_has_no_commit_any_more_is_removed(stage: Stage) -> None:
    await stage.run("sh", "-c", "git switch -q --orphan fresh", **TREE)
    assert stage.texts("rota") == []
    assert len(trees(stage)) == 1


async def test_a_repository_of_the_agents_own_making_is_not_removed(stage: Stage) -> None:
    line = f"rm .git; git init -q; git add .; {COMMIT} -m own"
    await stage.run("sh", "-c", line, **TREE)
    (said,) = stage.texts("rota", "warning")
    worktree = stage.path / "state" / "worktrees" / "run-1"
    assert said.endswith(f"so it stays: {worktree}")
    assert git(worktree, "log", "-1", "--format=%s") == "own"


async def test_a_worktree_whose_repository_is_gone_is_removed(stage: Stage) -> None:
    worktree = stage.path / "state" / "worktrees" / "run-1"
    git(stage.place, "worktree", "add", "-q", "--detach", str(worktree))
    shutil.rmtree(stage.place)
    (removed,) = await clean_worktrees(stage.path / "state", environ=ENVIRON)
    assert removed.ref is None
    assert not worktree.exists()


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


async def test_a_directory_whose_name_git_would_break_in_two_is_refused(stage: Stage) -> None:
    odd = stage.place / "two\nlines"
    odd.mkdir()
    end = await stage.run("true", **TREE, working_directory=odd)
    assert end.status is RunStatus.FAILED
    assert "has a line break in its path" in (end.error or "")


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


async def test_a_worktree_that_cannot_be_marked_does_not_cost_the_end_of_its_run(
    stage: Stage,
) -> None:
    line = f"ln -s /nonexistent/mark ../run-1{KEPT}; echo all done"
    end = await stage.run("sh", "-c", line, **TREE, keep_worktree=Keep.ALWAYS)
    assert (end.status, end.summary) == (RunStatus.SUCCEEDED, "all done")
    (said,) = stage.texts("rota", "warning")
    assert said.startswith("its worktree is kept only until the next start, for want of a mark:")
    assert (stage.path / "state" / "worktrees" / "run-1" / "sub").exists()


async def test_a_cancelled_runs_worktree_is_removed(stage: Stage) -> None:
    run = asyncio.create_task(stage.run("sh", "-c", "touch there; sleep 60", **TREE))
    worktree = stage.path / "state" / "worktrees" / "run-1"
    await until((worktree / "there").exists, "the agent")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not worktree.exists()
    assert len(trees(stage)) == 1


@pytest.fixture
def slow_checkout(stage: Stage) -> Path:
    """A filter of the repository, as Git LFS has one, that takes for ever. The path is there once
    it is at work."""
    begun = stage.path / "begun"
    smudge = stage.path / "smudge.sh"
    smudge.write_text(f"touch '{begun}'\nsleep 40\ncat\n")
    git(stage.place, "config", "filter.slow.smudge", f"sh '{smudge}'")
    (stage.place / ".gitattributes").write_text("sub/file filter=slow\n")
    git(stage.place, "add", ".")
    git(stage.place, "commit", "-qm", "two")
    return begun


async def test_a_run_that_is_cancelled_while_its_worktree_is_made_leaves_nothing(
    stage: Stage, slow_checkout: Path
) -> None:
    run = asyncio.create_task(stage.run("true", **TREE))
    await until(slow_checkout.exists, "the checkout")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert stage.survivors() == []  # git has others check out for it
    assert list((stage.path / "state" / "worktrees").iterdir()) == []
    assert len(trees(stage)) == 1


async def test_a_worktree_that_takes_too_long_leaves_nothing(
    stage: Stage, slow_checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rota.runner.git, "GIT_PATIENCE", 1.0)
    end = await stage.run("true", **TREE)
    assert end.status is RunStatus.FAILED
    assert end.error == f"git took longer than 1 s in {stage.place}"
    assert stage.is_there(str(slow_checkout))
    assert stage.survivors() == []
    assert list((stage.path / "state" / "worktrees").iterdir()) == []
    assert len(trees(stage)) == 1


async def test_a_worktree_that_cannot_be_made_says_why_though_nothing_else_works(
    stage: Stage,
) -> None:
    ill = stage.path / "ill" / "git"
    ill.parent.mkdir()
    ill.write_text(
        f"""#!/bin/sh
        case "$*" in
            *"worktree add"*) echo "fatal: no space left" >&2; exit 128 ;;
            *worktree*) echo "fatal: something else" >&2; exit 128 ;;
        esac
        exec {shutil.which("git")} "$@"
        """
    )
    ill.chmod(0o755)
    environ = {**ENVIRON, "PATH": f"{ill.parent}:{ENVIRON['PATH']}"}
    with Stage(stage.path, environ=environ) as poor:
        end = await poor.run("true", **TREE)
    assert (end.status, end.error) == (RunStatus.FAILED, "fatal: no space left")


async def test_a_worktree_that_is_there_already_is_not_taken_from_its_run(stage: Stage) -> None:
    worktree = stage.path / "state" / "worktrees" / "run-1"
    git(stage.place, "worktree", "add", "-q", "--detach", str(worktree))
    (worktree / "sub" / "file").write_text("precious")
    end = await stage.run("true", **TREE)
    assert end.status is RunStatus.FAILED
    assert "already exists" in (end.error or "")
    assert (worktree / "sub" / "file").read_text() == "precious"


async def test_an_agent_that_breaks_its_worktree_does_not_break_the_repository(
    stage: Stage,
) -> None:
    end = await stage.run("sh", "-c", "rm .git; rm -r sub; echo gone > .git", **TREE)
    assert end.status is RunStatus.SUCCEEDED
    assert len(trees(stage)) == 1
    assert git(stage.place, "status", "--short") == ""


async def test_commits_are_kept_of_a_crashed_run_whose_worktree_names_its_place_relatively(
    stage: Stage,
) -> None:
    worktree = stage.path / "state" / "worktrees" / "run-1"
    git(stage.place, "worktree", "add", "-q", "--detach", str(worktree))
    git(worktree, "commit", "-q", "--allow-empty", "-m", "two")
    # As newer versions of git do by themselves, where worktree.useRelativePaths is set.
    (worktree / ".git").write_text("gitdir: ../../../place/.git/worktrees/run-1\n")
    (removed,) = await clean_worktrees(stage.path / "state", environ=ENVIRON)
    assert removed.ref == "rota/recovered/run-1"
    assert git(stage.place, "log", "-1", "--format=%s", "rota/recovered/run-1") == "two"
    assert len(trees(stage)) == 1
    assert not worktree.exists()


async def test_a_worktree_that_cannot_be_looked_at_does_not_keep_the_others_from_being_removed(
    stage: Stage,
) -> None:
    state = stage.path / "state"
    odd, usual = (state / "worktrees" / name for name in ("a-odd", "usual"))
    odd.mkdir(parents=True)
    (odd / ".git").write_text(f"gitdir: {'x' * 300}/worktrees/run")  # longer than a name may be
    git(stage.place, "worktree", "add", "-q", "--detach", str(usual))
    removed = await clean_worktrees(state, environ=ENVIRON)
    assert [one.path for one in removed] == [usual]
    assert odd.exists()


async def test_what_a_crashed_server_left_is_removed_at_the_next_start(stage: Stage) -> None:
    state = stage.path / "state"
    lost = state / "worktrees" / "crashed"
    git(stage.place, "worktree", "add", "-q", "--detach", str(lost))
    (lost / "sub" / "file").write_text("precious")
    git(lost, "commit", "-qam", "not pushed")
    (state / "worktrees" / "half-made").mkdir()
    elsewhere = stage.path / "elsewhere"
    elsewhere.mkdir()
    (state / "worktrees" / "link").symlink_to(elsewhere)
    (state / "worktrees" / f"deleted-by-hand{KEPT}").touch()

    removed = await clean_worktrees(state, environ=ENVIRON)

    assert {(one.path.name, one.ref) for one in removed} == {
        ("crashed", "rota/recovered/crashed"),
        ("half-made", None),
    }
    left = sorted(path.name for path in (state / "worktrees").iterdir())
    assert left == [f"deleted-by-hand{KEPT}", "link"]
    assert elsewhere.exists()
    assert git(stage.place, "show", "rota/recovered/crashed:sub/file") == "precious"
    assert len(trees(stage)) == 1


@pytest.fixture
def lock(stage: Stage) -> Iterator[int]:
    """The repository is in other hands; let it go by `flock`."""
    handle = os.open(stage.place / ".git", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield handle
    os.close(handle)


@pytest.mark.parametrize(
    ("limits", "status", "why"),
    [
        (Limits(), RunStatus.TIMED_OUT, "its timeout of 0.5 s"),
        (Limits(wall_time=timedelta(seconds=0.1)), RunStatus.FAILED, "(budget wall_time)"),
    ],
)
async def test_a_run_does_not_wait_for_a_repository_beyond_its_timeout(
    stage: Stage, lock: int, limits: Limits, status: RunStatus, why: str
) -> None:
    run = stage.run("true", **TREE, timeout=timedelta(seconds=0.5), limits=limits)
    end = await asyncio.wait_for(run, 30)
    assert end.status is status
    assert why in (end.error or "")
    assert (end.error or "").endswith(f"another process holds the lock on {stage.place / '.git'}")


async def test_a_run_that_waits_for_a_repository_says_so(stage: Stage, lock: int) -> None:
    run = asyncio.create_task(stage.run("echo", "done", **TREE))
    said = f"it waits for the lock on {stage.place / '.git'}, which another process holds"
    await until(lambda: stage.log.exists() and stage.texts("rota"), "a word of it")
    fcntl.flock(lock, fcntl.LOCK_UN)
    assert (await run).summary == "done"
    assert stage.texts("rota", "warning") == [said]


async def test_a_run_that_is_cancelled_while_it_waits_for_a_repository_ends_at_once(
    stage: Stage, lock: int
) -> None:
    run = asyncio.create_task(stage.run("true", **TREE))
    await until(lambda: stage.log.exists() and stage.texts("rota"), "a word of it")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 30)


async def test_a_worktree_stays_while_others_keep_its_repository(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has ended does not wait for ever, nor does the start of a server."""
    monkeypatch.setattr(rota.runner.git, "LOCK_PATIENCE", 0.1)
    state, worktree = stage.path / "state", stage.path / "state" / "worktrees" / "run-1"
    line = "touch there; until [ -e go ]; do sleep 0.01; done"
    run = asyncio.create_task(stage.run("sh", "-c", line, **TREE))
    await until((worktree / "there").exists, "the agent")
    handle = os.open(stage.place / ".git", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        (worktree / "go").touch()
        assert (await asyncio.wait_for(run, 30)).status is RunStatus.SUCCEEDED
        (said,) = stage.texts("rota", "warning")
        assert said.startswith("its worktree could not be removed: another process holds the lock")
        assert await clean_worktrees(state, environ=ENVIRON) == ()
    finally:
        os.close(handle)
    assert [one.path for one in await clean_worktrees(state, environ=ENVIRON)] == [worktree]
    assert not worktree.exists()


async def test_hooks_of_the_repository_are_not_run_by_making_a_worktree(stage: Stage) -> None:
    hook = stage.place / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {stage.path / 'hooked'}\n")
    hook.chmod(0o755)
    await stage.run("true", **TREE)
    assert not (stage.path / "hooked").exists()
