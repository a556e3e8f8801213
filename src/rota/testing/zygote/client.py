"""Asks a zygote for processes, which can be used like a `subprocess.Popen`."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

import rota
from rota.testing.zygote import shim
from rota.testing.zygote.wire import NUMBER, Order, ask, read_exactly

ROTA = "rota.cli:main"
_STARTING_SECONDS = 60.0
_BACKLOG = 64
_BIN = Path(sys.executable).parent
_SCRIPTS = {"rota": ROTA, "label-state": "rota.cli:label_state"}
# A child applies these itself; any other setting of Python needs a new interpreter.
_HEEDED = {"PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


class ZygoteGone(RuntimeError):
    """The zygote has ended; its output is on stderr."""


class Zygote:
    """One for a test process. It ends with that process, however that ends."""

    def __init__(self) -> None:
        # The zygote removes it, because it sees the end of this process in any case.
        self.directory = Path(tempfile.mkdtemp(prefix="rota-zygote-"))
        self._address = str(self.directory / "socket")
        self._python = _words_to_python(os.environ)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address)
            listener.listen(_BACKLOG)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __package__, str(listener.fileno()), str(self.directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={k: v for k, v in os.environ.items() if k not in _HEEDED},
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C ends the tests first, and they end the zygote
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_STARTING_SECONDS)
        try:
            connection.connect(self._address)
        except OSError as error:
            connection.close()
            raise ZygoteGone(f"cannot reach the zygote: {error}") from error
        return connection

    def suits(self, environ: Mapping[str, str]) -> bool:
        """Whether a fork behaves like a process started with these variables."""
        return _words_to_python(environ) == self._python

    def scripts(self) -> Path:
        """A directory for PATH, whose `rota` and `label-state` are forks, too."""
        place = self.directory / "bin"
        if not place.exists():
            place.mkdir()
            for name, entry in _SCRIPTS.items():
                _write_shim(place / name, self._address, entry)
        return place

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_STARTING_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)  # if it was killed, it has not done so


def _words_to_python(environ: Mapping[str, str]) -> dict[str, str]:
    told = {k: v for k, v in environ.items() if k.startswith("PYTHON") and k not in _HEEDED}
    locale = next(filter(None, map(environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "C")
    # Python uses UTF-8 in the C locale, and in each of its spellings.
    return told | ({} if locale.startswith(("C", "POSIX")) else {"locale": locale})


def _write_shim(path: Path, address: str, entry: str) -> None:
    program = os.fsencode(_BIN / path.name)
    head = (
        f"#!{sys.executable} -IS\nSOCKET = {address!r}\nENTRY = {entry!r}\nPROGRAM = {program!r}\n"
    )
    path.write_text(head + Path(shim.__file__).read_text())
    path.chmod(0o755)


@cache
def the_zygote() -> Zygote:
    made = Zygote()
    atexit.register(made.close)
    return made


class Forked:
    """A child of the zygote, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        connection: socket.socket,
        words: Sequence[str],
        pipes: Sequence[IO[Any] | None],
    ) -> None:
        self._connection = connection
        self.args = list(words)
        self.stdin, self.stdout, self.stderr = pipes
        self.pid = self._number()
        self.returncode: int | None = None

    def _number(self) -> int:
        try:
            (found,) = NUMBER.unpack(read_exactly(self._connection, NUMBER.size))
        except (EOFError, ConnectionError) as error:
            self._connection.close()
            raise ZygoteGone("the zygote has ended") from error
        return int(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self.wait()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                status = self._number()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self.returncode = os.waitstatus_to_exitcode(status)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:  # noqa: A002 - subprocess's name
        """Write the input, and return all output until the process ends."""
        heard: dict[IO[Any], Any] = {}

        def listen(pipe: IO[Any]) -> None:
            heard[pipe] = pipe.read()

        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe is not None]
        listeners = [threading.Thread(target=listen, args=[p], daemon=True) for p in pipes]
        for one in listeners:
            one.start()
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        self.wait(timeout)
        for one in listeners:
            one.join(timeout)
        for pipe in pipes:
            pipe.close()
        return tuple(heard.get(p) if p is not None else None for p in (self.stdout, self.stderr))  # type: ignore[return-value]


Process = Forked | subprocess.Popen[Any]


def start(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    text: bool = True,
    entry: str = ROTA,
    program: Path | None = None,
) -> Process:
    """`rota WORDS …` in its own process: a fork, or a new interpreter where a fork is not enough.

    `program` is the script that it takes itself for, the first of its arguments.
    """
    zygote = the_zygote()
    if not zygote.suits(env):
        return subprocess.Popen(
            [*true_program(entry), *words],
            env=dict(env), cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, text=text,
        )  # fmt: skip
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    argv = [str(program or _program(entry)), *words]
    order = Order(entry, argv, encoded, os.fsencode(Path(cwd).absolute()))
    with ExitStack() as unless_it_begins, ExitStack() as once_it_has:
        streams = _Streams(unless_it_begins, once_it_has, text)
        theirs = (streams.input(stdin), streams.output(1, stdout), streams.output(2, stderr))
        connection = unless_it_begins.enter_context(zygote.connect())
        ask(connection, order, theirs)
        pipes = [streams.ours.get(number) for number in range(3)]
        made = Forked(connection, words, pipes)
        unless_it_begins.pop_all()
        return made


def true_program(entry: str = ROTA) -> list[str]:
    if entry == ROTA:
        return [sys.executable, "-m", "rota"]
    module, _, name = entry.partition(":")
    return [sys.executable, "-c", f"import sys; from {module} import {name}; sys.exit({name}())"]


def _program(entry: str) -> str:
    """What the interpreter would put first into sys.argv."""
    return str(Path(rota.__file__).with_name("__main__.py")) if entry == ROTA else "-c"


class _Streams:
    """The child's ends of its streams, closed here once the child has them; and our ends."""

    def __init__(self, failed: ExitStack, after: ExitStack, text: bool) -> None:
        self._failed = failed
        self._after = after
        self._text = text
        self._output: dict[int, int] = {}
        self.ours: dict[int, IO[Any]] = {}

    def input(self, wanted: int | IO[Any] | None) -> int:
        if wanted != subprocess.PIPE:
            return self._given(0, wanted)
        theirs, ours = os.pipe()
        self._keep(0, theirs, ours, "w")
        return theirs

    def output(self, number: int, wanted: int | IO[Any] | None) -> int:
        if wanted == subprocess.STDOUT:
            return self._output[1]
        if wanted == subprocess.PIPE:
            ours, theirs = os.pipe()
            self._keep(number, theirs, ours, "r")
        else:
            theirs = self._given(number, wanted)
        self._output[number] = theirs
        return theirs

    def _keep(self, number: int, theirs: int, ours: int, mode: str) -> None:
        self._after.callback(os.close, theirs)
        how = {"encoding": "utf-8"} if self._text else {}
        pipe = os.fdopen(ours, mode if self._text else f"{mode}b", **how)  # type: ignore[call-overload]
        self.ours[number] = self._failed.enter_context(pipe)

    def _given(self, number: int, wanted: int | IO[Any] | None) -> int:
        if wanted is None:
            return number
        if wanted == subprocess.DEVNULL:
            nothing = os.open(os.devnull, os.O_RDWR)
            self._after.callback(os.close, nothing)
            return nothing
        return wanted if isinstance(wanted, int) else wanted.fileno()


def run(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str,
    input: str = "",  # noqa: A002 - subprocess's name
    timeout: float = 60,
    **facts: Any,
) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` with captured text; `facts` are those of `start`."""
    pipe = subprocess.PIPE
    with start(words, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, **facts) as one:
        try:
            out, err = one.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            one.kill()
            raise
    assert one.returncode is not None
    return subprocess.CompletedProcess(list(words), one.returncode, out, err)
