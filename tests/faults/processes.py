"""The processes that the fault tests start, stop, freeze and kill: servers and workers."""

import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest

from rota.testing import zygote

T = TypeVar("T")

DEADLINE_SECONDS = 45.0
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    """Below the ephemeral range: a client that keeps reconnecting to a stopped server could
    otherwise get that very port as its own, and talk to itself."""
    for port in random.sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port between 20000 and 30000")


def eventually(look: Callable[[], T], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """Poll until another process shows a true result."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.01)
    return found


class Process:
    """A program of ours that writes lines of JSON to standard output, and reads standard input."""

    def __init__(self, *command: str, cwd: Path = ROOT, errors: IO[bytes] | None = None) -> None:
        self._popen = _started(command, cwd, os.environ | {"PYTHONUNBUFFERED": "1"}, errors)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with suppress(ValueError):
            for line in self._popen.stdout:
                self._lines.put(line.decode())
        self._lines.put(None)

    def line(self, seconds: float = DEADLINE_SECONDS) -> str:
        """The next line of its output; an error if it ends instead."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no word from {self._popen.args} in {seconds:.0f} s") from None
        if line is None:
            raise EOFError(f"{self._popen.args} ended with {self._popen.wait()}")
        return line

    def hear(self, seconds: float = DEADLINE_SECONDS) -> Any:
        return json.loads(self.line(seconds))

    def hear_all(self) -> list[Any]:
        """All its remaining output, until it ends."""
        heard = []
        with suppress(EOFError):
            while True:
                heard.append(self.hear())
        return heard

    def say(self, word: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(word.encode() + b"\n")
        self._popen.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        self._popen.kill()
        self.join()

    def join(self, seconds: float = DEADLINE_SECONDS) -> int:
        status = self._popen.wait(seconds)
        self._reader.join()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        return status

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _started(
    command: tuple[str, ...], cwd: Path, env: dict[str, str], errors: IO[bytes] | None
) -> zygote.Process:
    """`rota` is a fork; the tests' own programs start a new interpreter."""
    pipe = subprocess.PIPE
    if command[:2] == ("-m", "rota"):
        return zygote.start(
            command[2:], cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=errors, text=False
        )
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=cwd,
        env=env,
        stdin=pipe,
        stdout=pipe,
        stderr=errors,
        start_new_session=True,
    )


@contextmanager
def processes() -> Iterator[Callable[..., Process]]:
    """`start(*command)`; whatever still runs at the end is killed."""
    started: list[Process] = []

    def start(*command: str, **how: Any) -> Process:
        started.append(Process(*command, **how))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()


class Server:
    """`rota up` on one state directory and one port, which may be started repeatedly."""

    def __init__(self, home: Path, database: str, *options: str, program: str = "rota") -> None:
        self.home = home
        self._program = program
        self.database = database
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self._process: Process | None = None
        home.mkdir(parents=True, exist_ok=True)

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        return (self.home / "server.log").read_text()

    def start(self) -> None:
        with (self.home / "server.log").open("ab") as log:
            self._process = Process(
                "-m", self._program, "--state-dir", str(self.home), "--db", self.database,
                "up", "--port", str(self.port), *self._options, errors=log,
            )  # fmt: skip
        try:
            while not self.process.line().startswith("  stop"):
                pass
        except EOFError as error:
            self.kill()
            raise RuntimeError(self.log) from error

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of that size, which only root can make."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space that is left, to the last byte."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return ballast


@contextmanager
def serving(home: Path, database: str, **how: Any) -> Iterator[Server]:
    server = Server(home, database, **how)
    server.start()
    try:
        yield server
    finally:
        server.kill()
