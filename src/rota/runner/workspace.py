"""Where a run works: its agent's directory, or a git worktree of it for this run alone.

A worktree begins detached, so that no branch is made for a run that commits nothing. Commits
that no branch or tag holds when it is removed are kept by one: `rota/<agent>/<run>`.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.model.errors import InvalidInput, RotaError
from rota.model.fleet import Keep, RunSettings, Workspace
from rota.model.runs import RunStatus
from rota.runner.execution import unbroken
from rota.runner.git import Git, alone_in

KEPT = ".kept"  # a file beside a worktree that outlives its run

_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the program is started; and the worktree that this lies in, if it is one."""

    directory: Path
    worktree: Path | None = None
    repository: Path | None = None  # whose worktree it is: the directory that git calls common


@dataclass(frozen=True, slots=True)
class Removed:
    """`branch` holds what the run had committed and nobody else had."""

    path: Path
    branch: str | None = None


class Workspaces:
    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        """Worktrees are made below this directory, and nowhere else."""
        self._directory = directory
        self._git = Git(environ)

    async def prepare(self, run_id: str, settings: RunSettings) -> Place:
        place = settings.working_directory
        if not place.is_dir():
            raise InvalidInput(
                f"the working directory {place} does not exist; create it, or correct the agent's"
                " working_directory"
            )
        if settings.workspace is Workspace.SHARED:
            return Place(place.resolve())
        return await self._add(run_id, place.resolve(), settings.base_branch)

    async def _add(self, run_id: str, place: Path, base: str | None) -> Place:
        top, prefix, repository = await self._repository(place)
        commit = await self._commit(top, base)
        path = self._directory / run_id
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The repository's own hooks are for people who check something out.
        quietly = ("-c", f"core.hooksPath={os.devnull}")
        try:
            async with alone_in(repository):
                await self._git.run(top, *quietly, "worktree", "add", "--detach", str(path), commit)
        except asyncio.CancelledError:
            await unbroken(self._discard(path, repository))
            raise
        return Place(path / prefix, path, repository)

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
        """Whether this worktree outlives its run. It is marked then."""
        kept = settings.keep_worktree is Keep.ALWAYS or (
            settings.keep_worktree is Keep.ON_FAILURE and status is not RunStatus.SUCCEEDED
        )
        if kept and place.worktree is not None:
            place.worktree.with_name(place.worktree.name + KEPT).touch(mode=0o600)
        return kept

    async def remove(self, place: Place, agent: str) -> Removed | None:
        if place.worktree is None or place.repository is None:
            return None
        run_id = place.worktree.name
        branch = await self._rescue(place.worktree, f"rota/{_NAME.sub('-', agent)}/{run_id}")
        await self._discard(place.worktree, place.repository)
        return Removed(place.worktree, branch)

    async def _rescue(self, worktree: Path, branch: str) -> str | None:
        """A branch for commits that would be lost."""
        try:
            head = await self._git.run(worktree, "rev-parse", "--verify", "HEAD")
            holders = await self._git.run(
                worktree, "for-each-ref", "--count=1", "--contains", head, "--format=%(refname)"
            )
            if holders:
                return None
            await self._git.run(worktree, "branch", branch, head)
        except InvalidInput:
            return None  # the agent has broken it; there is nothing to hold
        return branch

    async def _discard(self, worktree: Path, repository: Path) -> None:
        remove = ("worktree", "remove", "--force", "--force", str(worktree))
        async with alone_in(repository):
            try:
                await self._git.run(repository, *remove)
            except InvalidInput:  # its .git is gone, or the repository is
                await asyncio.to_thread(shutil.rmtree, worktree, True)
                await self._git.run(repository, "worktree", "prune")

    async def clean(self, alive: Collection[str] = ()) -> tuple[Removed, ...]:
        """Remove what servers that crashed have left; what was kept on purpose stays."""
        removed = []
        for worktree in self._leftovers(alive):
            place = Place(worktree, worktree, _repository_of(worktree))
            try:
                removed.append(await self.remove(place, "recovered") or Removed(worktree))
            except RotaError:
                continue
            finally:
                shutil.rmtree(worktree, ignore_errors=True)
        return tuple(removed)

    def _leftovers(self, alive: Collection[str]) -> Iterator[Path]:
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            kept = path.with_name(path.name + KEPT).exists()
            if path.is_dir() and not path.is_symlink() and not kept and path.name not in alive:
                yield path


async def clean_worktrees(
    directory: Path, alive: Collection[str] = (), *, environ: Mapping[str, str]
) -> tuple[Removed, ...]:
    """Called at the start of a server, with its runner's directory."""
    return await Workspaces(worktrees_in(directory), environ).clean(alive)


def worktrees_in(directory: Path) -> Path:
    return directory / "worktrees"


def _repository_of(worktree: Path) -> Path | None:
    """A worktree's `.git` is a file that names <repository>/.git/worktrees/<name>."""
    mark = worktree / ".git"
    if not mark.is_file():
        return None
    told = mark.read_text(errors="replace")[:4096]
    inside = Path(told.removeprefix("gitdir:").strip())
    is_ours = inside.is_absolute() and inside.parent.name == "worktrees"
    return inside.parent.parent if is_ours else None
