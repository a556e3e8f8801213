"""Calls git, one call at a time in each repository."""

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rota.model.errors import InvalidInput
from rota.runner.environment import inherited

GIT_PATIENCE = 120.0  # seconds; a large tree takes long
LOCK_PATIENCE = 120.0  # seconds, if the caller names none
TURN = 0.02  # seconds between two attempts to get the lock
SAID_AFTER = 1.0  # seconds until a wait is logged


class NeverOurTurn(TimeoutError):
    """Another process held a repository for too long."""


@asynccontextmanager
async def alone_in(
    repository: Path,
    seconds: float | None = None,
    waiting: Callable[[str], None] | None = None,
) -> AsyncIterator[None]:
    """One caller at a time, also across servers: git fails on a worktree that another process is
    just creating. The lock is on the directory itself, so that nothing is written there.

    `waiting` is called with the reason for the wait. Raises NeverOurTurn after `seconds`.
    """
    try:
        handle = os.open(repository, os.O_RDONLY)
    except OSError:
        yield  # git will report what is wrong with it
        return
    try:
        await _our_turn(handle, repository, LOCK_PATIENCE if seconds is None else seconds, waiting)
        yield
    finally:
        os.close(handle)


async def _our_turn(
    handle: int, repository: Path, seconds: float, waiting: Callable[[str], None] | None
) -> None:
    """By polling, because another process may hold the lock."""
    clock = asyncio.get_running_loop().time
    began = clock()
    while not _locked(handle):
        waited = clock() - began
        if waited >= seconds:
            raise NeverOurTurn(f"another process holds the lock on {repository}")
        if waiting is not None and waited >= SAID_AFTER:
            waiting(f"it waits for the lock on {repository}, which another process holds")
            waiting = None
        await asyncio.sleep(TURN)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


class Git:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._env = {**inherited(environ), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}

    async def run(self, place: Path, *arguments: str) -> str:
        """Its output. Raises InvalidInput with git's own words when it refuses."""
        code, out, err = await self._called(place, arguments)
        if code:
            raise _refused(err)
        return out

    async def asked(self, place: Path, *arguments: str) -> str | None:
        """Its output; None when git says no. Raises InvalidInput when git was killed."""
        code, out, err = await self._called(place, arguments)
        if code < 0:
            raise _refused(err)
        return None if code else out

    async def _called(self, place: Path, arguments: tuple[str, ...]) -> tuple[int, str, str]:
        """Its exit code, output and error output."""
        try:
            process = await asyncio.create_subprocess_exec(
                "git", *arguments,
                cwd=place,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise InvalidInput(
                "git was not found, and workspace is `worktree`; install it"
            ) from None
        try:
            out, err = await asyncio.wait_for(process.communicate(), GIT_PATIENCE)
        except (TimeoutError, asyncio.CancelledError) as error:
            # With all that it started: git has others check out for it, and filters of the
            # repository, such as that of Git LFS, may go on for long.
            with suppress(ProcessLookupError):  # it was about to end
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise InvalidInput(f"git took longer than {GIT_PATIENCE:g} s in {place}") from None
        code = process.returncode or 0
        return code, out.decode(errors="replace").strip("\n"), err.decode(errors="replace")


def _refused(complaint: str) -> InvalidInput:
    said = complaint.strip().splitlines() or ["git failed"]
    return InvalidInput(said[-1][:500])
