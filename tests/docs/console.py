"""Runs the commands of a page as printed, and compares their output with what is shown.

A block marked `console` holds commands after `$ ` (continued after `> `) and their output. All
blocks of a page run in one shell, on a terminal, in an empty directory with a server on it. A
comment `<!-- file: NAME -->` before a block saves the block as that file beforehand; a comment
`<!-- server: none -->` anywhere leaves the server out.

There `rota` is a fork (`rota.testing.zygote`), except on the README, whose commands start a new
interpreter.

In what is shown, an id or token matches any, but always the same one; times, ages and `…` match
anything.
"""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rota.testing import zygote
from tests.docs.pages import Block, blocks

PRINTED_URL = "http://127.0.0.1:8080"
BIN = Path(sys.executable).parent
STARTING_SECONDS = 30.0
SCRIPT_SECONDS = 120.0

_WITHOUT_SERVER = "<!-- server: none -->"
_MARK = "\x1e"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Step:
    command: str
    shown: str


@dataclass(frozen=True)
class Result:
    printed: str
    status: int


def steps_of(block: Block) -> Iterator[Step]:
    command: list[str] = []
    shown: list[str] = []
    for line in block.text.splitlines():
        goes_on = bool(command) and not shown
        if line.startswith("$ "):
            if command:
                yield Step("\n".join(command), "\n".join(shown))
            command, shown = [line[2:]], []
        elif goes_on and line.startswith("> "):
            command.append(line[2:])
        elif goes_on and command[-1].endswith("\\"):
            command.append(line)
        else:
            shown.append(line)
    if command:
        yield Step("\n".join(command), "\n".join(shown))


def steps_on(page: Path) -> list[Step]:
    return [
        step for block in blocks(page) if block.language == "console" for step in steps_of(block)
    ]


def check(
    page: Path,
    directory: Path,
    replaced: Mapping[str, str] | None = None,
    programs: Path | None = None,
) -> None:
    """Run the page; the first command with another result than shown is an AssertionError.

    `replaced` maps addresses as printed to those of the test; `programs` is a directory of programs
    that replace those a reader has.
    """
    with ExitStack() as stack:
        real, variables = dict(replaced or {}), {}
        if _WITHOUT_SERVER not in page.read_text():
            real[PRINTED_URL] = variables["ROTA_URL"] = stack.enter_context(server(directory))
        if programs is not None:
            variables["PATH"] = f"{programs}:{environment(directory)['PATH']}"
        _prepare(page, directory, real)
        steps = steps_on(page)
        commands = [_exchanged(step.command, real) for step in steps]
        begin = "" if page.name == "README.md" else _forks()
        results = _run(commands, directory, variables, begin)
    printed = {theirs: ours for ours, theirs in real.items()}
    expectation = Expectation()
    for step, result in zip(steps, results, strict=True):
        expectation.hold(step, Result(_exchanged(result.printed, printed), result.status))


def _exchanged(text: str, pairs: Mapping[str, str]) -> str:
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text


def _prepare(page: Path, directory: Path, real: Mapping[str, str]) -> None:
    """What a reader has who followed the page so far: the environment, and the files saved."""
    (directory / ".venv").symlink_to(BIN.parent)
    for block in blocks(page):
        if block.file is not None:
            path = directory / block.file
            assert not path.exists(), f"{page.name} saves {block.file} twice"
            path.write_text(_exchanged(block.text, real))


def environment(directory: Path, **more: str) -> dict[str, str]:
    """Nothing of ours: the tester's variables must not change the outcome."""
    return {
        "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(directory),
        "LOGNAME": "you",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "xterm",
        "NO_COLOR": "1",
        "PYTHONWARNINGS": "error",
        **more,
    }


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """`rota up` on a free port, with a reader's state directory: `.rota`."""
    with (directory / "server.log").open("wb") as log:
        running = zygote.start(
            ["up", "--port", "0"],
            cwd=directory,
            env=environment(directory),
            stdout=log,
            stderr=subprocess.STDOUT,
            program=BIN / "rota",
        )
        try:
            yield _url_of(running, directory)
        finally:
            running.terminate()
            running.wait(STARTING_SECONDS)


def _url_of(running: zygote.Process, directory: Path) -> str:
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        try:
            url = str(json.loads((directory / ".rota" / "server.json").read_text())["url"])
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return url
        except (OSError, ValueError):
            time.sleep(0.02)  # another process, so there is nothing to wait on
    raise AssertionError(f"rota up: {(directory / 'server.log').read_text()}")


def _forks() -> str:
    """By alias, because `activate` puts the environment's own `rota` first on the path."""
    scripts = zygote.the_zygote().scripts()
    names = ("rota", "label-state")
    return "\n".join(["shopt -s expand_aliases", *(f"alias {n}={scripts / n}" for n in names), ""])


def _run(
    commands: list[str], directory: Path, variables: Mapping[str, str], begin: str = ""
) -> list[Result]:
    if not commands:
        return []
    script = begin + "".join(
        f"printf '{_MARK}begin\\n'\n{command}\nprintf '{_MARK}end %s\\n' $?\n"
        for command in commands
    )
    printed = _on_a_terminal(script, directory, variables)
    found = re.findall(rf"{_MARK}begin\n(.*?){_MARK}end (\d+)\n", printed, re.S)
    assert len(found) == len(commands), f"the shell ended early:\n{printed}"
    return [Result(text, int(status)) for text, status in found]


def _on_a_terminal(script: str, directory: Path, variables: Mapping[str, str]) -> str:
    """Standard output and error go to one terminal, as they do for a reader."""
    ours, theirs = pty.openpty()
    path = directory / ".commands"
    path.write_text(script)
    shell = subprocess.Popen(
        ["bash", path.name],
        cwd=directory,
        env=environment(directory, COLUMNS="100", **variables),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        text = _printed_by(shell, ours)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # with what it left in the background
        shell.wait()
        os.close(ours)
        path.unlink()
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip(" ") for line in lines)


def _printed_by(shell: "subprocess.Popen[bytes]", terminal: int) -> str:
    """Until the shell has ended; processes in the background may hold the terminal longer."""
    chunks: list[bytes] = []
    deadline = time.monotonic() + SCRIPT_SECONDS
    while time.monotonic() < deadline:
        ended = shell.poll() is not None
        if select.select([terminal], [], [], 0 if ended else 0.1)[0]:
            try:
                chunks.append(os.read(terminal, 65_536))
            except OSError:  # how a terminal says that its last writer is gone
                break
        elif ended:
            break
    return b"".join(chunks).decode(errors="replace")


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
_SECRET = r"rota_[\w-]{43}"
_TOKEN = r"(?<![\w-])[\w-]{22}(?![\w-])"
_PLACEHOLDERS = {
    "same": rf"{_UUID}|{_SECRET}|{_TOKEN}",
    "moment": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "clock": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: \+0000 \(\+?\d+[smhd]\))?",
    "age": r"\b\d+[smhd]\b",
    "rest": r"^…$",
    "any": r"…",
    "space": r"[ \t]+",
}
_SHOWN = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _PLACEHOLDERS.items()), re.M)


class Expectation:
    """Remembers which id or token of a page corresponds to which of the run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def hold(self, step: Step, result: Result) -> None:
        groups: list[str] = []
        shown, printed = step.shown.strip(), result.printed.strip()
        found = re.fullmatch(self._pattern(shown, groups), printed)
        assert found, f"\n$ {step.command}\nshown:\n{shown}\n\nprinted:\n{printed}"
        self._real |= {text: found[f"g{n}"] for n, text in enumerate(groups)}
        refused = shown.startswith("rota: ")
        assert refused == (result.status != 0), (
            f"$ {step.command}\nended with {result.status}:\n{result.printed}"
        )

    def _pattern(self, shown: str, groups: list[str]) -> str:
        pattern, end = "", 0
        for found in _SHOWN.finditer(shown):
            pattern += re.escape(shown[end : found.start()]) + self._placeholder(found, groups)
            end = found.end()
        return pattern + re.escape(shown[end:])

    def _placeholder(self, found: re.Match[str], groups: list[str]) -> str:
        name, text = found.lastgroup, found[0]
        if name == "same":
            if text in self._real:
                return re.escape(self._real[text])
            if text in groups:
                return rf"(?P=g{groups.index(text)})"
            groups.append(text)
            form = _UUID if re.fullmatch(_UUID, text) else rf"{_SECRET}|[\w-]{{22}}"
            return rf"(?P<g{len(groups) - 1}>{form})"
        return {
            "moment": _PLACEHOLDERS["moment"],
            "clock": _PLACEHOLDERS["clock"],
            "age": r"\d+[smhd]",
            "rest": r"(?s:.*?)",
            "any": r"[^\n]*?",
            "space": r"[ \t]+",
        }[name or ""]
