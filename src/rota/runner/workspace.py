"""Where a run works: its agent's directory, or a git worktree of it for this run alone.

A worktree begins detached, so that no branch is made for a run that commits nothing. Commits that
no branch or tag holds when it is removed are kept by a new branch, `rota/<agent>/<run>`. If that
branch cannot be created, they are kept by `refs/rota/kept/<run>`. If that fails too, the worktree
stays.
"""

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from rota.model.errors import InvalidInput, RotaError
from rota.model.fleet import Keep, RunSettings, Workspace
from rota.model.runs import RunStatus
from rota.runner.execution import unbroken
from rota.runner.git import Git, NeverOurTurn, alone_in

log = structlog.get_logger()

KEPT = ".kept"  # a file beside a worktree that outlives its run

_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Place:
    """The directory where the program is started, and the worktree that contains it, if any."""

    directory: Path
    worktree: Path | None = None
    repository: Path | None = None  # its repository: git's common directory


@dataclass(frozen=True, slots=True)
class Removed:
    """`ref` holds commits of the run that no other ref had: a branch, or a ref in place of one."""

    path: Path
    ref: str | None = None


class Workspaces:
    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        """Worktrees are made below this directory only."""
        self._directory = directory
        self._git = Git(environ)

    async def prepare(
        self,
        run_id: str,
        settings: RunSettings,
        seconds: float | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> Place:
        """Raises NeverOurTurn when others have held the repository for `seconds`; `waiting` is
        called before that, when the wait begins to be long."""
        place = settings.working_directory
        if not place.is_dir():
            raise InvalidInput(
                f"the working directory {place} does not exist; create it, or correct the agent's"
                " working_directory"
            )
        if settings.workspace is Workspace.SHARED:
            return Place(place.resolve())
        top, prefix, repository = await self._repository(place.resolve())
        commit = await self._commit(top, settings.base_branch)
        async with alone_in(repository, seconds, waiting):
            path = await self._add(run_id, top, repository, commit)
        return Place(path / prefix, path, repository)

    async def _add(self, run_id: str, top: Path, repository: Path, commit: str) -> Path:
        path = self._directory / run_id
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The repository's own checkout hooks are meant for people.
        quietly = ("-c", f"core.hooksPath={os.devnull}")
        is_new = not path.exists()
        try:
            await self._git.run(top, *quietly, "worktree", "add", "--detach", str(path), commit)
        except (asyncio.CancelledError, InvalidInput):
            # A git that was killed leaves half a worktree, perhaps a large one.
            if is_new:
                with suppress(InvalidInput):  # the first error tells more
                    await unbroken(self._drop(path, repository))
            raise
        return path

    async def _repository(self, place: Path) -> tuple[Path, str, Path]:
        wanted = ("--show-toplevel", "--show-prefix", "--git-common-dir")
        try:
            told = await self._git.run(place, "rev-parse", *wanted)
        except InvalidInput as error:
            raise InvalidInput(
                f"{place} is not in a git repository, and workspace is `worktree`; run `git init`"
                f" there, or set workspace to `shared` ({error.message})"
            ) from None
        if told.count("\n") != 2:
            raise InvalidInput(f"{place} has a line break in its path; git cannot tell where it is")
        top, prefix, common = told.split("\n")
        return Path(top), prefix, place / common

    async def _commit(self, top: Path, base: str | None) -> str:
        try:
            name = f"{base or 'HEAD'}^{{commit}}"
            return await self._git.run(top, "rev-parse", "--verify", "--end-of-options", name)
        except InvalidInput:
            raise InvalidInput(
                f"{top} has no commit {base!r} to begin a worktree at; correct base_branch"
                if base
                else f"{top} has no commit yet, and a worktree begins at one; make the first commit"
            ) from None

    def keeps(self, place: Place, settings: RunSettings, status: RunStatus) -> bool:
        """Whether this worktree outlives its run. If so, it is marked."""
        kept = settings.keep_worktree is Keep.ALWAYS or (
            settings.keep_worktree is Keep.ON_FAILURE and status is not RunStatus.SUCCEEDED
        )
        if kept and place.worktree is not None:
            place.worktree.with_name(place.worktree.name + KEPT).touch(mode=0o600)
        return kept

    async def remove(self, place: Place, agent: str) -> Removed | None:
        """Raises InvalidInput when it has commits that cannot be kept: then it is left as it is."""
        if place.worktree is None or place.repository is None:
            return None
        head = await self._head(place.worktree, place.repository)
        ref = None
        if head is not None and not await self._is_held(place.repository, head):
            branch = f"rota/{_NAME.sub('-', agent)}/{place.worktree.name}"
            ref = await self._hold(place.worktree, place.repository, branch, head)
        await self._discard(place.worktree, place.repository)
        return Removed(place.worktree, ref)

    async def _head(self, worktree: Path, repository: Path) -> str | None:
        """The commit of its HEAD. None: git itself says that there is none."""
        if _is_there(worktree):
            head = await self._git.asked(worktree, "rev-parse", "--verify", "HEAD")
            if head is not None:
                return head
        if not _is_there(repository):
            return None
        # The agent has broken the worktree. The repository, too, knows its HEAD. If that cannot be
        # read either, the error keeps the worktree: there may be commits.
        listed = await self._git.run(repository, "worktree", "list", "--porcelain")
        return _listed_head(listed, worktree)

    async def _is_held(self, repository: Path, commit: str) -> bool:
        """Asked of the repository, because the worktree's own refs, as those of a bisection, go
        with it. An error counts as no: a wrong no only costs a branch."""
        wanted = ("--count=1", "--contains", commit, "--format=%(refname)")
        try:
            return bool(await self._git.run(repository, "for-each-ref", *wanted))
        except InvalidInput:
            return False

    async def _hold(self, worktree: Path, repository: Path, branch: str, commit: str) -> str:
        """A ref for commits that would be lost. A branch `rota/…` cannot exist beside a branch
        `rota`, and not every agent's name may be part of a branch name."""
        try:
            await self._git.run(repository, "branch", branch, commit)
        except InvalidInput as refused:
            ref = f"refs/rota/kept/{worktree.name}"
            try:
                await self._git.run(repository, "update-ref", ref, commit)
            except InvalidInput as error:
                raise InvalidInput(
                    f"its commits up to {commit[:12]} can be held by no branch ({refused.message})"
                    f" and by no other ref ({error.message}), so it stays: {worktree}"
                ) from error
            return ref
        return branch

    async def _discard(self, worktree: Path, repository: Path) -> None:
        async with alone_in(repository):
            await self._drop(worktree, repository)

    async def _drop(self, worktree: Path, repository: Path) -> None:
        """The caller must hold the repository's lock."""
        remove = ("worktree", "remove", "--force", "--force", str(worktree))
        try:
            await self._git.run(repository, *remove)
        except InvalidInput:  # its .git is gone, or the repository is
            await asyncio.to_thread(shutil.rmtree, worktree, True)
            if _is_there(repository):
                await self._git.run(repository, "worktree", "prune")

    async def clean(self) -> tuple[Removed, ...]:
        """Remove worktrees that crashed servers have left. Those kept on purpose stay, and so do
        those with commits that cannot be kept."""
        removed = []
        for worktree in self._leftovers():
            try:
                place = Place(worktree, worktree, _repository_of(worktree))
                done = await self.remove(place, "recovered")
            except (RotaError, NeverOurTurn, OSError) as error:  # the others are still cleaned up
                log.warning("a worktree stays", path=str(worktree), why=str(error))
                continue
            if done is None:  # it is no worktree, or not any more
                shutil.rmtree(worktree, ignore_errors=True)
            removed.append(done or Removed(worktree))
        return tuple(removed)

    def _leftovers(self) -> Iterator[Path]:
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            kept = path.with_name(path.name + KEPT).exists()
            if path.is_dir() and not path.is_symlink() and not kept:
                yield path


async def clean_worktrees(directory: Path, *, environ: Mapping[str, str]) -> tuple[Removed, ...]:
    """Called at the start of a server, with its runner's directory."""
    return await Workspaces(worktrees_in(directory), environ).clean()


def worktrees_in(directory: Path) -> Path:
    return directory / "worktrees"


def _is_there(directory: Path) -> bool:
    return directory.is_dir()


def _listed_head(listed: str, worktree: Path) -> str | None:
    """The HEAD of this worktree in git's list; zeros mean no commit."""
    wanted = str(worktree.resolve())
    for one in listed.split("\n\n"):
        facts = dict(line.partition(" ")[::2] for line in one.splitlines())
        if facts.get("worktree") == wanted:
            head = facts.get("HEAD", "")
            return head if head.strip("0") else None
    return None


def _repository_of(worktree: Path) -> Path | None:
    """A worktree's `.git` is a file that names <repository>/.git/worktrees/<name>, perhaps relative
    to the worktree."""
    mark = worktree / ".git"
    if not _is_file(mark):
        return None
    told = mark.read_text(errors="replace")[:4096]
    inside = (worktree / told.removeprefix("gitdir:").strip()).resolve()
    is_one = inside.parent.name == "worktrees" and _is_file(inside / "HEAD")
    return inside.parent.parent if is_one else None


def _is_file(path: Path) -> bool:
    """Raises if that cannot be seen. Since 3.14, `Path.is_file` says no then, and a worktree that
    could not be looked at for a moment would be removed with its commits."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
