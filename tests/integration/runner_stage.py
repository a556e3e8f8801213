"""A runner with its own directory, and agents that are real programs."""

import asyncio
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from rota.model.clock import SystemClock
from rota.model.fleet import Limits, RunSettings, RuntimeKind
from rota.model.runs import RunEnd
from rota.runner import LocalRunner, RunRequest

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
DEADLINE = 60.0


class Stage:
    def __init__(self, path: Path, *, environ: Mapping[str, str] = ENVIRON, **more: Any) -> None:
        self.path = path
        self.place = path / "place"
        self.place.mkdir(exist_ok=True)
        self.runner = LocalRunner(
            path / "state", environ=environ, clock=SystemClock(), **{"grace": 0.3, **more}
        )
        self._runs = 0
        self.log = path / "logs" / "0.jsonl"

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.runner.close()

    def script(self, text: str, name: str = "agent.py") -> tuple[str, str]:
        """An agent in Python: the argv that starts it."""
        path = self.path / name
        path.write_text(textwrap.dedent(text))
        return sys.executable, str(path)

    def program(self, text: str, name: str) -> str:
        """An executable file."""
        path = self.path / name
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        path.chmod(0o755)
        return str(path)

    def request(
        self,
        *command: str,
        prompt: str = "do it",
        limits: Limits | None = None,
        session_id: str | None = None,
        environ: Mapping[str, str] | None = None,
        context: Mapping[str, Any] | None = None,
        heard: Callable[[str], None] | None = None,
        **settings: Any,
    ) -> RunRequest:
        self._runs += 1
        self.log = self.path / "logs" / f"{self._runs}.jsonl"
        defaults: dict[str, Any] = {
            "runtime": RuntimeKind.COMMAND,
            "working_directory": self.place,
            "timeout": timedelta(seconds=DEADLINE),
        }
        return RunRequest(
            run_id=f"run-{self._runs}",
            agent="tester",
            settings=RunSettings(command=command, **{**defaults, **settings}),
            prompt=prompt,
            log=self.log,
            limits=limits or Limits(),
            session_id=session_id,
            environ=environ or {},
            context=context or {},
            heard=heard,
        )

    async def run(self, *command: str, **more: Any) -> RunEnd:
        return await self.runner.execute(self.request(*command, **more))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def texts(self, stream: str | None = None, kind: str | None = None) -> list[str]:
        return [
            line["text"]
            for line in self.lines()
            if stream in {None, line.get("stream")} and kind in {None, line.get("type")}
        ]

    def is_there(self, path: str) -> bool:
        return Path(path).exists()

    def survivors(self) -> list[int]:
        """Processes of this test, by their command line; the nursery is not one of them."""
        return processes_with(str(self.path))

    def kill_survivors(self) -> None:
        for pid in self.survivors():
            with suppress(ProcessLookupError):  # it was about to end
                os.kill(pid, signal.SIGKILL)


def processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                found.append(int(entry.name))
    return found


async def until(look: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(0.01)
    return found
