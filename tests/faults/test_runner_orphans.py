"""A server that dies does not leave its agents to themselves."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.runner import end_orphans, orphans, supervisor
from rota.runner.cgroups import home
from rota.runner.orphans import RUN_ID, RUN_ROOT
from rota.runner.supervisor import descendants
from tests.faults.test_runner_processes import AGENT, WAYS
from tests.integration.runner_stage import Stage, processes_with, until

HERE = Path(__file__).parent


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage
        stage.kill_survivors()


class MortalServer:
    """Runs the agent with all its ways of hiding."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        agent = (*stage.script(AGENT), "stay", *WAYS.values())
        self.directory = stage.path / "state"
        self.directory.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "mortal_runner.py"), str(self.directory), *agent]
        )

    async def agent_is_there(self) -> None:
        await until((self._stage.path / "all-there").exists, "the agent's processes")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def agents_of(stage: Stage) -> list[int]:
    return processes_with(str(stage.path / "agent.py"))


async def test_a_server_killed_with_minus_9_takes_its_agents_with_it(stage: Stage) -> None:
    """Also those that have left group, session and environment."""
    server = MortalServer(stage)
    await server.agent_is_there()
    assert len(stage.survivors()) > len(WAYS)
    server.kill()
    await until(lambda: not stage.survivors(), "an end of all agents")


def test_a_server_that_dies_while_an_agent_starts_takes_it_with_it() -> None:
    """It has handed over all that is needed, and is gone before it hears of the process."""
    door, theirs = socket.socketpair()
    ours, control = socket.socketpair()
    read, write = os.pipe()
    with door, ours, Path(os.devnull).open("rb") as nothing, os.fdopen(read, "rb") as output:
        command = [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())]
        nursery = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        spec = {"argv": ["sleep", "600"], "cwd": "/", "env": {"PATH": os.defpath}}
        spec |= {"grace": 0.1, "cgroup": None}
        ours.sendall(json.dumps(spec).encode() + b"\n")
        ours.close()
        handles = [nothing.fileno(), write, write, control.fileno()]
        socket.send_fds(door, [b"+"], handles)
        control.close()
        os.close(write)
        ended, _, _ = select.select([output], [], [], 60)
        door.close()
        nursery.wait()
        assert ended
        assert output.read() == b""  # the agent's end of it is closed: there is no agent


async def test_what_nobody_looked_after_is_ended_at_the_next_start(
    stage: Stage, figure: Callable[[str], None]
) -> None:
    """Server and supervisors killed at once, as a lack of memory may do it."""
    server = MortalServer(stage)
    await server.agent_is_there()
    agents = set(agents_of(stage)) - {server.process.pid}
    above = [pid for pid, _ in descendants(server.process.pid) if pid not in agents]
    server.process.send_signal(signal.SIGSTOP)  # so that it does not hear of its supervisor
    for pid in above:
        os.kill(pid, signal.SIGKILL)
    server.kill()
    await until(lambda: not any(map(is_running, above)), "an end of the supervisors")
    assert agents & set(agents_of(stage))

    ended = await asyncio.to_thread(end_orphans, server.directory, grace=0.3)
    assert {one.run_id for one in ended} == {"run-1"}
    # One has no environment: without a supervisor, only its control group tells whose it is.
    assert len(agents_of(stage)) <= (0 if home() else 1)
    figure(f"{len(agents)} processes of a run, server and supervisor killed: {len(ended)} ended")


def is_running(pid: int) -> bool:
    """A zombie has no command line any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def sleeping(env: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **env})


async def test_runs_of_other_servers_are_not_touched(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    marks = {
        "dead": {RUN_ID: "dead", RUN_ROOT: str(mine)},
        "other": {RUN_ID: "dead", RUN_ROOT: str(other)},
        "unmarked": {RUN_ROOT: str(mine)},
        "longer": {RUN_ID: "dead", RUN_ROOT: f"{mine}2"},
    }
    processes = {name: sleeping(env) for name, env in marks.items()}
    try:
        reaped = asyncio.create_task(asyncio.to_thread(processes["dead"].wait))
        ended = await asyncio.to_thread(end_orphans, mine)
        await reaped
        assert [(one.pid, one.run_id) for one in ended] == [(processes["dead"].pid, "dead")]
        assert {name for name, one in processes.items() if one.poll() is None} == {
            *("other", "unmarked", "longer")
        }
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


async def test_a_supervisor_that_is_lost_costs_no_other_server_its_run(stage: Stage) -> None:
    other = sleeping({RUN_ID: "run-1", RUN_ROOT: str(stage.path / "other")})
    try:
        assert (await stage.run("sh", "-c", "kill -9 $PPID; sleep 60")).exit_code is None
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_what_hangs_in_the_kernel_does_not_keep_a_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def in_vain(_pid: int, _started: str, number: int) -> bool:
        tried.append(number)
        return True

    def too_long(*_: object) -> None:
        raise TimeoutError("it waits for ever")

    monkeypatch.setattr(orphans, "send", in_vain)
    monkeypatch.setattr(orphans, "KILLED_IN", 0.2)
    before = signal.signal(signal.SIGALRM, too_long)
    process = sleeping({RUN_ID: "dead", RUN_ROOT: str(tmp_path)})
    signal.alarm(30)
    try:
        (left,) = end_orphans(tmp_path, grace=0.1)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        process.kill()
        process.wait()
    assert left.pid == process.pid
    assert (tried[0], tried[-1]) == (signal.SIGTERM, signal.SIGKILL)


def test_with_nothing_to_end_a_start_is_quick(tmp_path: Path) -> None:
    before = time.monotonic()
    assert end_orphans(tmp_path, grace=300) == ()
    assert time.monotonic() - before < 60


def test_a_server_that_an_agent_started_does_not_end_itself(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rota.runner import end_orphans;"
        "print(len(end_orphans(Path(sys.argv[1]), grace=0.1)))"
    )
    env = {**os.environ, RUN_ID: "run-1", RUN_ROOT: str(tmp_path.resolve())}
    said = subprocess.run(
        ["sh", "-c", '"$@"; echo and its agent lives', "sh", sys.executable, "-c", code, tmp_path],
        env=env, capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert said.stdout.splitlines() == ["0", "and its agent lives"]


def test_what_is_left_may_end_in_its_own_way_and_is_asked_once(tmp_path: Path) -> None:
    code = """if True:
        import signal, sys, time
        asked = []
        signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
        print("there", flush=True)
        while not asked or time.monotonic() < asked[0] + 0.5:
            time.sleep(0.01)
        print(len(asked))
    """
    env = {RUN_ID: "run-1", RUN_ROOT: str(tmp_path.resolve())}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        assert left.stdout.readline() == b"there\n"
        reaping = threading.Thread(target=left.wait)
        reaping.start()
        assert [one.pid for one in end_orphans(tmp_path, grace=30.0)] == [left.pid]
        reaping.join()
        assert left.stdout.read() == b"1\n"
    assert left.returncode == 0
