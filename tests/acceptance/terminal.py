"""A terminal for tests of the command line: real processes, or this one where they are many.

The processes are forks of one that has imported everything (`rota.testing.zygote`). Those of the
README, of `test_cli_terminal` and of the fault tests' own programs start a new interpreter.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from rota.cli import main
from rota.testing import zygote

ROTA = [sys.executable, "-m", "rota"]
_OURS = ("ROTA_", "DATABASE_URL", "PORT", "NO_COLOR", "FORCE_COLOR", "_ROTA_COMPLETE")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    # Port 0 is always free; the default one may be that of a server that somebody uses here.
    return {**kept, "TZ": "UTC", "PORT": "0", **more}


@dataclass
class Terminal:
    """A directory to run commands in."""

    place: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        variables = environment(**self.variables)
        return zygote.run(words, env=variables, cwd=self.place, input=stdin, timeout=60)

    def type(self, *words: str, stdin: str = "", code: int = 0) -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str, code: int = 0) -> Any:
        document = json.loads(self.type(*words, "--json", code=code))
        assert document["schema_version"] == 1
        return document["data"] if "data" in document else document["error"]


class ThisProcess(Terminal):
    """The same in a tenth of the time; without its own terminal, signals and imports."""

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        out, err = StringIO(), StringIO()
        with (
            chdir(self.place),
            mock.patch.dict(os.environ, environment(**self.variables), clear=True),
            mock.patch.object(sys, "stdin", StringIO(stdin)),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(list(words))
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@contextmanager
def running_server(
    place: Path, *words: str, command: str = "up", **variables: str
) -> Iterator[zygote.Process]:
    server = zygote.start(
        [command, "--port", "0", *words],
        cwd=place,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert server.stdout is not None
    try:
        until(lambda: (place / ".rota" / "server.json").exists() or server.poll() is not None)
        assert server.poll() is None, server.stdout.read()
        yield server
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


def until(true: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)  # another process, so there is nothing to wait on
