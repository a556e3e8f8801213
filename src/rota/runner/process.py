"""Starts programs so that none of their processes is left behind.

The server's side of `supervisor.py`: a nursery, which is started when first needed, and a handle
for each supervised program.
"""

import asyncio
import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.model.errors import InvalidInput, StorageUnavailable
from rota.runner import cgroups, supervisor
from rota.runner.orphans import RUN_ID, RUN_ROOT, end_run
from rota.runner.supervisor import GRACE

START_PATIENCE = 60.0  # seconds
END_PATIENCE = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start. `env` is its whole environment."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    grace: float = GRACE

    def encoded(self, group: Path | None) -> bytes:
        """With the control group that it shall be in."""
        spec = {
            "argv": list(self.argv),
            "cwd": str(self.cwd),
            "env": dict(self.env),
            "grace": self.grace,
            "cgroup": None if group is None else str(group),
        }
        return json.dumps(spec).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Handles:
    """The program's ends of its pipes; closed here once they are handed over."""

    stdin: int
    stdout: int
    stderr: int


class Supervised:
    """A program and all its descendants."""

    def __init__(self, env: Mapping[str, str], pipe: "Pipe") -> None:
        self._env = env
        self._pipe = pipe
        self._exit_code: int | None = None
        self._over = False
        self.left: tuple[int, ...] = ()  # processes that could not be killed

    @property
    def exit_code(self) -> int | None:
        """Negative: the signal that killed it. None: not known, because its supervisor was
        killed."""
        return self._exit_code

    async def exited(self) -> None:
        """Until the program itself has ended; its descendants may still run."""
        while not self._over and self._exit_code is None:
            await self._hear()

    async def gone(self) -> None:
        """Until none of its processes is left."""
        while not self._over:
            await self._hear()

    def end(self) -> None:
        """TERM to all of its processes now, KILL after the program's grace."""
        self._pipe.write(b"end\n")

    async def _hear(self) -> None:
        told = await self._pipe.read()
        if told is None:
            await self._supervisor_is_lost()
        elif "exit" in told:
            self._exit_code = told["exit"]
        elif "left" in told:
            self.left = tuple(told["left"])
            self._over = True

    async def _supervisor_is_lost(self) -> None:
        """The supervisor was killed: an agent can do that. Its processes are found by their
        control group or their environment."""
        await _end_marked(self._env)
        self._over = True

    def close(self) -> None:
        self._pipe.close()


class Pipe:
    """The connection to one supervisor: lines of JSON in, orders out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> dict[str, Any] | None:
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def write(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            self._writer.write(order)

    def close(self) -> None:
        self._writer.close()


class Nursery:
    """Starts programs. Close it when no more will be started."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._door: socket.socket | None = None
        self._groups = cgroups.home()

    async def start(self, program: Program, handles: Handles) -> Supervised:
        """Raises InvalidInput, with words for people, when it cannot be started. Must not be
        cancelled halfway: the caller shields it."""
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            _close(handles)
            raise
        try:
            self._hand_over(handles, theirs)
        except OSError as error:
            ours.close()
            raise StorageUnavailable(
                f"cannot start processes: {error.strerror}; the machine may be out of processes"
                " or memory"
            ) from error
        finally:
            theirs.close()
            _close(handles)
        return await self._introduced(program, ours)

    async def _introduced(self, program: Program, ours: socket.socket) -> Supervised:
        pipe = Pipe(*await asyncio.open_unix_connection(sock=ours))
        pipe.write(program.encoded(self._group_for(program.env)))
        try:
            told = await asyncio.wait_for(pipe.read(), START_PATIENCE)
        except TimeoutError:  # e.g. a directory on a disk that does not answer
            told = {"error": {"errno": None, "text": "the machine does not answer", "of": None}}
        if told is not None and "pid" in told:
            return Supervised(program.env, pipe)
        pipe.close()
        if told is None:  # the supervisor was killed, perhaps by the program it had started
            await _end_marked(program.env)
        raise InvalidInput(_why_not(program, (told or {}).get("error")))

    def _group_for(self, env: Mapping[str, str]) -> Path | None:
        if self._groups is None or RUN_ID not in env:
            return None
        return cgroups.fresh(self._groups, env[RUN_ROOT], env[RUN_ID])

    def _hand_over(self, handles: Handles, connection: socket.socket) -> None:
        passed = [handles.stdin, handles.stdout, handles.stderr, connection.fileno()]
        try:
            socket.send_fds(self._opened(), [b"+"], passed)
        except (BrokenPipeError, ConnectionResetError):
            self.close()  # the nursery was killed; supervisors do not need it
            socket.send_fds(self._opened(), [b"+"], passed)

    def _opened(self) -> socket.socket:
        if self._door is None:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._process = self._started(theirs.fileno())
                except OSError:
                    ours.close()
                    raise
            self._door = ours
        return self._door

    def _started(self, door: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(door)],
            pass_fds=[door],
            env={},  # the server's environment must not be readable there
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # readers of the server's must not wait for agents
            start_new_session=True,  # Ctrl-C is meant for the server
        )

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
        if self._process is not None:
            try:
                self._process.wait(timeout=END_PATIENCE)  # it ends when its socket closes
            except subprocess.TimeoutExpired:  # unless it has been stopped
                self._process.kill()
                self._process.wait()
            self._process = None


async def _end_marked(env: Mapping[str, str]) -> None:
    """End the processes of a program whose supervisor is gone."""
    if RUN_ID in env:
        await asyncio.to_thread(end_run, env[RUN_ID], env[RUN_ROOT])


def _close(handles: Handles) -> None:
    for handle in {handles.stdin, handles.stdout, handles.stderr}:
        os.close(handle)


def _why_not(program: Program, error: Mapping[str, Any] | None) -> str:
    name = program.argv[0]
    if error is None:
        return (
            f"{name} could not be started: its supervisor was killed; the machine may be out of"
            " memory"
        )
    if error["errno"] == errno.ENOENT:
        return _not_found(program, error["of"])
    advice = {
        errno.EACCES: "may not be executed; run `chmod +x` on it, or name its interpreter",
        errno.ENOEXEC: "is not a program; begin it with a line like #!/bin/sh",
        errno.E2BIG: "has arguments that are too long; give the prompt by stdin or file",
    }
    return f"{name} {advice.get(error['errno'], 'could not be started: ' + error['text'])}"


def _not_found(program: Program, of: str | None) -> str:
    name = program.argv[0]
    if of == str(program.cwd):
        return f"the working directory {of} is gone; create it, or correct working_directory"
    if "/" in name:
        return f"{name} is not there (seen from {program.cwd}); correct the agent's command"
    return (
        f"the command {name!r} was not found; install it, or name it with its whole path"
        f" (PATH is {program.env.get('PATH', 'not set')})"
    )
