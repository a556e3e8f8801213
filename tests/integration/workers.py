"""A server and workers in their own processes, and an agent that follows its item."""

import sys
import textwrap
from pathlib import Path
from typing import Any

from rota.client import SyncWorkQueueClient
from tests.faults.processes import Process, Server

# The item's text is its script: one order per line.
AGENT = """
import json, os, sys, time
from pathlib import Path

prompt = sys.stdin.read()
for line in prompt.splitlines():
    order, _, rest = line.partition(" ")
    if order == "SAY":
        print(rest, flush=True)
    elif order == "TOUCH":
        Path(rest).touch()
    elif order == "WAIT":
        while not Path(rest).exists():
            time.sleep(0.01)
    elif order == "ENV":
        print(rest, "is", os.environ.get(rest), flush=True)
    elif order == "PROMPT":
        Path(rest).write_text(prompt)
    elif order == "RESULT":
        Path(os.environ["ROTA_RESULT_FILE"]).write_text(rest)
    elif order == "EXIT":
        sys.exit(int(rest))
"""
CONFIG = """
version: 1
agents:
  - name: ann
    working_directory: {place}
    default_prompt: Do what the item says.
    instances: {{max_concurrent: 1}}
    retry: {{max_attempts: {attempts}, backoff: 60s}}
    breaker: {{failures: {failures}, cooldown: 1h}}
    env: {{COLOUR: red}}
    timeout: 60s
    runtime:
      type: {runtime}
      command: ["{python}", "{agent}"]
"""


class Yard:
    """A directory in which workers run."""

    def __init__(self, path: Path, server: Server, start: Any) -> None:
        self.path = path
        self.server = server
        self._start = start
        self.client = SyncWorkQueueClient(server.url)
        self.place = path / "place"
        self.place.mkdir()
        (path / "agent.py").write_text(textwrap.dedent(AGENT))
        self.configure()

    def configure(
        self, failures: int = 5, runtime: str = "command", more: str = "", attempts: int = 2
    ) -> None:
        text = CONFIG.format(
            place=self.place,
            python=sys.executable,
            agent=self.path / "agent.py",
            failures=failures,
            runtime=runtime,
            attempts=attempts,
        )
        (self.path / "rota.yaml").write_text(text + textwrap.indent(more, "    "))

    def worker(self, *options: str, url: str | None = None, database: str | None = None) -> Process:
        where = ("--db", database) if database else ("--url", url or self.server.url)
        process: Process = self._start(
            "-m", "rota", "worker", "--json", *where, "--agent", "ann",
            "--state-dir", str(self.path / "state"), *options, cwd=self.path,
        )  # fmt: skip
        return process

    def once(self, database: str | None = None) -> dict[str, Any]:
        """One item, from its start to its end. Returns the worker's last event."""
        worker = self.worker("--once", database=database)
        said = [one["data"] for one in worker.hear_all() if "data" in one]
        assert worker.join() == 0
        ended: dict[str, Any] = said[-1]
        return ended

    def add(self, *script: str, **facts: Any) -> str:
        item = self.client.work_add("chore", "Mend the gate", body="\n".join(script), **facts)
        return str(item["id"])

    def item(self, item_id: str) -> dict[str, Any]:
        return self.client.work_get(item_id)

    def run(self, item_id: str) -> dict[str, Any]:
        """The latest run on the item."""
        return self.client.list_runs(work_item_id=item_id)[0]

    def close(self) -> None:
        self.client.close()


def heard(worker: Process, event: str) -> dict[str, Any]:
    """The next event of this kind; earlier ones are skipped."""
    while True:
        said: dict[str, Any] = worker.hear()["data"]
        if said["event"] == event:
            return said
