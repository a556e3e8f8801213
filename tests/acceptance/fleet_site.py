"""A directory with a `rota.yaml`, agents that act, and `rota up` in its own process."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError

from rota.testing import zygote
from tests.acceptance.terminal import ThisProcess, environment, until

ACTOR = Path(__file__).with_name("fleet_actor.py")
QUEUE = {"type": "queue"}
T = TypeVar("T")


def schedule(**facts: Any) -> dict[str, Any]:
    return {"type": "interval", "interval": "1s", "prompt": "Process this:", **facts}


def whole_lines(file: Path) -> list[Any]:
    """The lines of a file that another process may be writing: the last may be incomplete."""
    written = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in written.splitlines(keepends=True) if line.endswith("\n")]


class Node:
    """`rota up`, which may be started repeatedly; its output is kept in a file."""

    def __init__(self, place: Path, variables: dict[str, str], *words: str) -> None:
        self._place = place
        self._variables = variables
        self._words = words
        self._process: zygote.Process | None = None
        self.state = place / ".rota"

    @property
    def process(self) -> zygote.Process:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        return (self._place / "up.log").read_text()

    @property
    def url(self) -> str:
        url: str = self._announced()["url"]
        return url

    def _announced(self) -> Any:
        with suppress(OSError, ValueError):
            return json.loads((self.state / "server.json").read_text())
        return {}

    def start(self) -> "Node":
        self._place.mkdir(exist_ok=True)
        with (self._place / "up.log").open("ab") as log:
            self._process = zygote.start(
                ["up", "--port", "0", *self._words],
                cwd=self._place,
                env=environment(**self._variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        pid = self.process.pid
        until(lambda: self._announced().get("pid") == pid or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        return self

    def kill(self) -> None:
        """As the kernel would kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, seconds: float = 60) -> int:
        self.process.terminate()
        return self.process.wait(seconds)

    def ask(self, method: str, path: str, content: Any = None) -> tuple[int, Any]:
        """Calls the API as any program would."""
        request = urllib.request.Request(
            self.url + path,
            json.dumps(content or {}).encode() if method == "POST" else None,
            {"content-type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)


class Site(ThisProcess):
    """Commands run in this process, because there are many of them; `rota up` does not."""

    nodes: list[Node]

    def __init__(self, place: Path, **variables: str) -> None:
        super().__init__(place, variables)
        self.nodes = []

    # setup

    @property
    def diary(self) -> Path:
        return self.place / "diary.jsonl"

    def runtime(self) -> dict[str, Any]:
        return {"type": "command", "command": [sys.executable, "-S", str(ACTOR), str(self.diary)]}

    def agent(self, name: str = "smith", **facts: Any) -> dict[str, Any]:
        return {
            "name": name,
            "runtime": self.runtime(),
            "work_source": QUEUE,
            "schedules": {"often": schedule()},
            "retry": {"backoff": "1s"},
            **facts,
        }

    def configure(self, *agents: dict[str, Any], **more: Any) -> None:
        """JSON is valid YAML."""
        (self.place / "rota.yaml").write_text(json.dumps({"agents": list(agents), **more}))

    def up(self, *words: str) -> Node:
        return self.node(self.place, *words).start()

    def node(self, place: Path, *words: str) -> Node:
        self.nodes.append(Node(place, self.variables, *words))
        return self.nodes[-1]

    def add(self, title: str = "Mend the gate", *plays: str, words: tuple[str, ...] = ()) -> str:
        body = "\n".join(f"PLAY: {one}" for one in plays)
        return self.type("add", title, "--body", body, *words).strip()

    # results

    def starts(self, **facts: Any) -> list[dict[str, Any]]:
        """The agents that were started; `item="…"` selects those of one item."""
        return [one for one in whole_lines(self.diary) if facts.items() <= one.items()]

    def shown(self, item: str) -> Any:
        return self.json("show", item)

    def await_status(self, item: str, status: str) -> Any:
        return self.eventually(
            lambda: one if (one := self.shown(item))["status"] == status else None,
            f"{item} is not {status}",
        )

    def await_start(self, count: int = 1, **facts: Any) -> dict[str, Any]:
        """The last of `count` starts."""
        found = self.eventually(
            lambda: found if len(found := self.starts(**facts)) >= count else None,
            f"not {count} starts of {facts}",
        )
        return found[count - 1]

    def runs(self, item: str | None = None) -> list[Any]:
        """Oldest first."""
        words = ("--item", item) if item else ()
        return list(reversed(self.json("run", "list", *words)))

    def await_delivered(self) -> None:
        """A delivery is recorded a moment after it has arrived."""
        self.eventually(lambda: self.json("outbox", "list") == [] or None, "something waits")

    def await_run(self, run: str, status: str) -> Any:
        """A run's row is closed a moment after its last process is gone."""
        [found] = self.eventually(
            lambda: [one for one in self.runs() if (one["id"], one["status"]) == (run, status)],
            f"{run} is not {status}",
        )
        return found

    def events(self, item: str | None = None) -> list[Any]:
        told = self.type("watch", "--since", "0", "--no-follow", "--json").splitlines()
        found = [json.loads(line)["data"] for line in told]
        return [one for one in found if item is None or one["work_item_id"] == item]

    def kinds(self, item: str) -> list[str]:
        return [one["type"] for one in self.events(item)]

    def schedule(self, agent: str, name: str = "often") -> Any:
        status, found = self.nodes[-1].ask("GET", f"/schedules/{agent}/{name}")
        assert status == 200, found
        return found

    def eventually(self, look: Callable[[], T | None], what: str, seconds: float = 30) -> T:
        found: list[T] = []

        def see() -> bool:
            one = look()
            if one:
                found.append(one)
            return bool(one)

        try:
            until(see, seconds)
        except AssertionError:
            said = self.nodes[-1].log if self.nodes else ""
            raise AssertionError(f"{what}\n{said[-4000:]}") from None
        return found[0]

    # processes

    def alive(self) -> list[int]:
        """Processes left by runs of this directory: their environment has its path."""
        mark = f"ROTA_RUN_ROOT={self.place}".encode()
        return [pid for pid in _processes() if mark in _environ(pid)]

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]


def _environ(pid: int) -> bytes:
    """Empty for zombies, and for processes that have just ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@contextmanager
def site(place: Path, **variables: str) -> Iterator[Site]:
    made = Site(place, **variables)
    try:
        yield made
    finally:
        made.close()
