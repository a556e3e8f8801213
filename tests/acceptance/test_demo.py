"""`rota demo`, as a newcomer runs it: a real fleet, its story, and nothing left behind."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rota.cli import demo
from rota.config import StateDir
from rota.config.loading import load_fleet
from rota.testing import zygote
from tests.acceptance.terminal import Terminal, environment, until
from tests.faults.processes import free_port

Json = dict[str, Any]


class Playing:
    """A demo under way, as a program reads it."""

    def __init__(self, process: zygote.Process) -> None:
        self.process = process
        assert process.stdout is not None
        self._lines = process.stdout
        first = self._next()
        self.url, self.home = first["demo"]["url"], Path(first["demo"]["directory"])
        self.server = StateDir(self.home / ".rota").running()
        self.events: list[Json] = []

    def _next(self) -> Json:
        line = self._lines.readline()
        assert line, "it ended early"
        return json.loads(line)["data"]  # type: ignore[no-any-return]

    def read_until(self, enough: Callable[[list[Json]], object]) -> None:
        while not enough(self.events):
            self.events.append(self._next()["event"])

    def rest(self) -> list[Json]:
        return [json.loads(line)["data"] for line in self._lines.readlines()]

    def is_gone(self) -> bool:
        """With every process that it has started; they all carry its directory."""
        assert self.server is not None
        return not Path(f"/proc/{self.server.pid}").exists() and not left_of(self.home)


def left_of(home: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:  # it has ended meanwhile, or is not ours
            continue
        if os.fsencode(home) in text and process.name != str(os.getpid()):
            found.append(process.name)
    return found


@contextmanager
def playing(*words: str, **variables: str) -> Iterator[Playing]:
    process = zygote.start(
        ["demo", "--json", "--port", "0", *words],
        env=environment(**variables),
        cwd=Path.cwd(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Playing(process)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()


def of(events: list[Json], kind: str, **wanted: str) -> list[Json]:
    return [
        one
        for one in events
        if one["type"] == kind and all(one[name] == value for name, value in wanted.items())
    ]


def retried(events: list[Json]) -> list[str]:
    """Items of which one run failed and a later one did not."""
    failed = {one["work_item_id"] for one in of(events, "run.finished", reason="failed")}
    return [
        one["work_item_id"] for one in of(events, "work.completed") if one["work_item_id"] in failed
    ]


def is_told(events: list[Json]) -> bool:
    """The whole story: a failure and its retry, a question, and an item that waited for another."""
    freed = {one["work_item_id"] for one in of(events, "work.unblocked")}
    done = {one["work_item_id"] for one in of(events, "work.completed")}
    return bool(retried(events) and of(events, "work.blocked") and freed and freed <= done)


def seconds_between(first: Json, second: Json) -> float:
    moments = [datetime.fromisoformat(one["occurred_at"]) for one in (first, second)]
    return (moments[1] - moments[0]).total_seconds()


def test_the_fleet_of_the_demo_shows_what_a_fleet_can_do() -> None:
    with playing("--seconds", "120") as story:
        fleet = load_fleet(story.home / "rota.yaml").fleet
        assert {plan.type for one in fleet.agents for plan in one.schedules} == {"interval", "cron"}
        story.read_until(is_told)
        projects = of(story.events, "project.created")
        assert len(projects) == 2
        begun = of(story.events, "run.started")[0]
        assert seconds_between(of(story.events, "work.submitted")[0], begun) < 30
        story.process.send_signal(signal.SIGINT)
        *_, last = story.rest()
        assert story.process.wait() == 0
    summary = last["summary"]
    assert summary["runs"]["failed"] == 1
    assert summary["runs"]["partial"] == 1
    assert [one["description"] for one in summary["waiting"]] == [
        "Import stops at files with two headers"
    ]
    until(story.is_gone)
    assert not story.home.exists()


def test_the_demo_ends_by_itself_and_touches_no_database_of_yours(tmp_path: Path) -> None:
    shell = Terminal(
        tmp_path,
        {
            "DATABASE_URL": "postgresql://nobody@192.0.2.1/live",
            "ROTA_URL": "http://192.0.2.1:1",
            "ROTA_HOST": "0.0.0.0",
            "ROTA_TOKEN": "rota_of_another_server",
            "ROTA_CONFIG": "/nowhere/rota.yaml",
            "TMPDIR": str(tmp_path),
        },
    )
    told = shell.type("demo", "--port", "0", "--seconds", "8")
    assert "The board is at http://127.0.0.1:" in told
    assert "came in      Review: currency rounding" in told
    assert "  items    " in told
    assert re.search(r"  skips    \d+ times a schedule woke nobody: there was no work, ", told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_told_to_end_ends_as_with_ctrl_c(number: signal.Signals) -> None:
    with playing("--seconds", "120") as story:
        story.read_until(lambda events: of(events, "run.started"))
        story.process.send_signal(number)
        assert "summary" in story.rest()[-1]
        assert story.process.wait() == 0
        assert story.process.stderr is not None
        assert story.process.stderr.read() == ""
    until(story.is_gone)
    assert not story.home.exists()


def test_a_demo_that_is_killed_takes_its_server_and_agents_with_it() -> None:
    with playing("--seconds", "120") as story:
        story.read_until(lambda events: of(events, "run.started"))
        assert left_of(story.home)
        story.process.kill()
        story.process.wait()
        until(story.is_gone)
    shutil.rmtree(story.home)


def test_a_demo_that_is_kept_can_be_gone_on_with(tmp_path: Path) -> None:
    """Also where `rota` is not on the path."""
    bare = "/usr/bin:/bin"
    shell = Terminal(tmp_path, {"TMPDIR": str(tmp_path), "PATH": bare})
    ended = shell.run("demo", "--port", "0", "--seconds", "8", "--keep")
    [home] = tmp_path.iterdir()
    [called] = re.findall(rf"cd {home} && (.+) up$", ended.stderr, re.M)
    again = [*shlex.split(called), "list", "--json"]
    assert subprocess.run(again, cwd=home, env={"PATH": bare}, check=True)
    assert len(Terminal(home).json("list", "--all")) >= 12


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = Terminal(tmp_path).run("demo", "--port", str(port))
    assert ended.returncode == 6
    told = f"rota: the demo's server did not start: cannot listen on 127.0.0.1:{port}: "
    assert ended.stderr.startswith(told)


def test_beside_a_server_on_the_usual_port_the_demo_takes_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        monkeypatch.setattr(demo, "USUAL_PORT", taken.getsockname()[1])
        assert demo._port() == 0
    assert demo._port() == demo.USUAL_PORT
