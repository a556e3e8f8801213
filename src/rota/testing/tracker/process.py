"""Starts the stub in its own process, and makes sure that it ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rota.testing.tracker.handle import Control

END_SECONDS = 5


class TrackerStubFailed(RuntimeError):
    """The stub did not start; its output is on stderr."""


@dataclass(frozen=True, slots=True)
class TrackerStub:
    url: str  # of GitHub's API
    control: Control
    pid: int

    @property
    def gitea_url(self) -> str:
        return f"{self.url}/api/v1"


@contextmanager
def tracker_stub(*, seed: int | str = 0, port: int = 0) -> Iterator[TrackerStub]:
    """A tracker that any number of processes may use. It ends with the context, also when this
    process is killed: then its standard input ends."""
    command = [sys.executable, "-m", "rota.testing.tracker", "--until-stdin-ends"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--seed", str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C ends the tests first, and they end the stub
    )
    try:
        ready = _ready(process)
        with Control(ready["url"]) as control:
            yield TrackerStub(ready["url"], control, process.pid)
    finally:
        _end(process)


def _ready(process: subprocess.Popen[bytes]) -> dict[str, str]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise TrackerStubFailed(
            f"the tracker stub ended with status {process.wait()} before it was ready;"
            " see above for what it says"
        )
    found: dict[str, str] = json.loads(line)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        process.stdout.close()
