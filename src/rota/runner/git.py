"""Calling git, one at a time in each repository."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rota.model.errors import InvalidInput
from rota.runner.environment import inherited

GIT_PATIENCE = 120.0  # seconds; a large tree takes its time
TURN = 0.02  # seconds between two looks whether it is our turn


@asynccontextmanager
async def alone_in(repository: Path) -> AsyncIterator[None]:
    """One at a time, also of several servers: git stumbles over a worktree that another is just
    making. The lock is on the directory itself, so that nothing is written there."""
    try:
        handle = os.open(repository, os.O_RDONLY)
    except OSError:
        yield  # git will say what is wrong with it
        return
    try:
        while not _locked(handle):  # noqa: ASYNC110 (another process may hold it)
            await asyncio.sleep(TURN)
        yield
    finally:
        os.close(handle)


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
        """What it printed. InvalidInput with git's own words when it refuses."""
        try:
            process = await asyncio.create_subprocess_exec(
                "git", *arguments,
                cwd=place,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except FileNotFoundError:
            raise InvalidInput(
                "git was not found, and workspace is `worktree`; install it"
            ) from None
        try:
            out, err = await asyncio.wait_for(process.communicate(), GIT_PATIENCE)
        except (TimeoutError, asyncio.CancelledError) as error:
            process.kill()
            await process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise InvalidInput(f"git took longer than {GIT_PATIENCE:g} s in {place}") from None
        if process.returncode:
            said = err.decode(errors="replace").strip().splitlines() or ["git failed"]
            raise InvalidInput(said[-1][:500])
        return out.decode(errors="replace").strip("\n")
