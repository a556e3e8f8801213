"""Where the machine has control groups, nothing of a run escapes, not even without a supervisor."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.model.runs import RunStatus
from rota.runner import cgroups, end_orphans, process, supervisor
from rota.runner.cgroups import fresh, home, left
from tests.faults.test_runner_processes import AGENT, WAYS
from tests.integration.runner_stage import Stage, until

# Goes on as a new process all the time: who looks it up and kills it singly needs luck.
HOPPING = """
    import fcntl, os, signal
    from pathlib import Path
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    here = Path(__file__).parent
    lock = (here / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # its children have it, too
    (here / "all-there").touch()
    while not (here / "enough").exists():
        if os.fork():
            os._exit(0)
"""


@pytest.fixture
def groups() -> Path:
    found = home()
    if found is None:
        pytest.skip("control groups cannot be made here: run as root, or in a delegated service")
    return found


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage
        stage.kill_survivors()


def root_of(stage: Stage) -> str:
    return str((stage.path / "state").resolve())


@pytest.mark.usefixtures("groups")
async def test_an_agent_is_in_a_group_of_its_own_while_it_runs(stage: Stage) -> None:
    run = asyncio.create_task(stage.run(*stage.script(AGENT), "stay", *WAYS.values()))
    await until((stage.path / "all-there").exists, "the agent's processes")
    ((group, run_id),) = left(root_of(stage)).items()
    assert run_id == "run-1"
    assert set(stage.survivors()) <= set(supervisor.members(group))
    assert os.getpid() not in supervisor.members(group)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert left(root_of(stage)) == {}


@pytest.mark.usefixtures("groups")
async def test_a_daemon_without_environment_does_not_outlive_a_run_whose_supervisor_it_killed(
    stage: Stage,
) -> None:
    script = AGENT.replace('if sys.argv[1] == "leave":', "os.kill(os.getppid(), signal.SIGKILL)")
    agent = stage.script(script.replace("        sys.exit(0)\n", ""))
    end = await stage.run(*agent, "stay", WAYS["daemon without its environment"])
    assert end.exit_code is None  # nobody was there to hear of it
    assert stage.survivors() == []
    assert left(root_of(stage)) == {}


@pytest.mark.usefixtures("groups")
async def test_a_process_that_is_another_one_all_the_time_is_killed(stage: Stage) -> None:
    run = asyncio.create_task(stage.run(*stage.script(HOPPING)))
    try:
        await until((stage.path / "all-there").exists, "the agent")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        with (stage.path / "lock").open() as lock:  # a list of processes would not show it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert left(root_of(stage)) == {}
    finally:
        (stage.path / "enough").touch()


# Where the group of the agent is; and a process that is in it, or in one that is inside it.
IN_THE_GROUP = """
    import os, subprocess, sys
    from pathlib import Path
    own = Path("/proc/self/cgroup").read_text().partition("0::")[2].splitlines()[0]
    group = Path(os.environ["GROUPS"] + own, sys.argv[1])
    group.mkdir(exist_ok=True)
    stay = [sys.executable, "-c", "import time; time.sleep(60)", __file__]
    pid = int(sys.argv[2]) or subprocess.Popen(stay).pid
    (group / "cgroup.procs").write_text(str(pid))
"""


@pytest.mark.usefixtures("groups")
async def test_groups_that_an_agent_makes_inside_its_own_go_with_it(stage: Stage) -> None:
    end = await stage.run(*stage.script(IN_THE_GROUP), "inner", "0", environ=mounted())
    assert end.status is RunStatus.SUCCEEDED, stage.texts()
    assert stage.survivors() == []
    assert left(root_of(stage)) == {}


@pytest.mark.usefixtures("groups")
async def test_what_an_agent_has_taken_into_its_group_ends_with_it(stage: Stage) -> None:
    """It is no descendant of the agent: only its group tells."""
    other = bystander()
    try:
        script = stage.script(IN_THE_GROUP)
        end = await stage.run(*script, ".", str(other.pid), environ=mounted())
        assert end.status is RunStatus.SUCCEEDED, stage.texts()
        assert left(root_of(stage)) == {}  # not even if it takes a moment to die
        assert await asyncio.to_thread(other.wait, 30) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()


def bystander() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "60"])


def mounted() -> dict[str, str]:
    found = cgroups._own(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup"))
    return {"GROUPS": str(found[0]) if found else ""}


@pytest.mark.usefixtures("groups")
async def test_a_program_that_cannot_be_started_leaves_no_group(stage: Stage) -> None:
    end = await stage.run("/nonexistent/agent")
    assert end.status is RunStatus.FAILED
    assert left(root_of(stage)) == {}


@pytest.mark.parametrize("there", [True, False])
async def test_a_machine_that_refuses_a_group_runs_the_agent_without(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    """A directory in which a group can be made, but is none; and one that is gone."""
    place = tmp_path / "groups"
    if there:
        place.mkdir()
    monkeypatch.setattr(process.cgroups, "home", lambda: place)
    with Stage(stage.path) as refused:
        end = await refused.run(*refused.script(AGENT), "leave", *WAYS.values())
    assert end.status is RunStatus.SUCCEEDED
    assert refused.survivors() == []
    assert not there or list(place.iterdir()) == []


def sleeping(group: Path) -> "subprocess.Popen[bytes]":
    """A process without environment in a new group."""
    group.mkdir()
    code = (
        "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text('0');"
        "print('in', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(group / "cgroup.procs")]
    process = subprocess.Popen(command, env={}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"in\n"
    return process


async def test_groups_of_other_servers_are_not_touched(groups: Path, tmp_path: Path) -> None:
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    dead, alive = fresh(groups, mine, "run-1"), fresh(groups, other, "run-1")
    processes = {dead: sleeping(dead), alive: sleeping(alive)}
    try:
        reaped = asyncio.create_task(asyncio.to_thread(processes[dead].wait))
        ended = await asyncio.to_thread(end_orphans, Path(mine), grace=0.0)
        await reaped
        assert [(one.pid, one.run_id) for one in ended] == [(processes[dead].pid, "run-1")]
        assert not dead.exists()
        assert supervisor.members(alive) == [processes[alive].pid]
    finally:
        for group, one in processes.items():
            one.kill()
            one.wait()
            supervisor.remove_groups(group)


CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]


def test_a_server_in_another_container_ends_nothing_here(groups: Path, tmp_path: Path) -> None:
    """Both have the same directory, as containers of one image do, and see the same groups."""
    if subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a namespace for processes cannot be made here: run as root")
    group = fresh(groups, str(tmp_path.resolve()), "run-1")
    other = sleeping(group)
    code = (
        "import subprocess, sys; from pathlib import Path; from rota.runner import end_orphans;"
        "marks = {'ROTA_RUN_ID': 'run-2', 'ROTA_RUN_ROOT': sys.argv[1]};"
        "left = subprocess.Popen([sys.executable, '-c', 'input()'], env=marks, stdin=-1);"
        "print(*(one.run_id for one in end_orphans(Path(sys.argv[1]), grace=0.0)), left.wait())"
    )
    try:
        said = subprocess.run(
            [*CONTAINER, sys.executable, "-c", code, str(tmp_path.resolve())],
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        assert said.stdout == f"run-2 {-signal.SIGKILL}\n"
        assert supervisor.members(group) == [other.pid]
    finally:
        other.kill()
        other.wait()
        supervisor.remove_groups(group)


def test_a_run_is_told_from_one_whose_id_begins_alike(groups: Path, tmp_path: Path) -> None:
    made = {fresh(groups, str(tmp_path), one): one for one in ("run-1", "run-1-a", "run-12")}
    try:
        for group in made:
            group.mkdir()
        assert left(str(tmp_path)) == made
        assert set(left(str(tmp_path), "run-1").values()) == {"run-1"}
    finally:
        for group in made:
            supervisor.remove_groups(group)


def test_a_server_in_the_group_of_a_run_does_not_end_itself(groups: Path, tmp_path: Path) -> None:
    """An agent may start a server, even one with the same directory."""
    code = (
        "import sys; from pathlib import Path; from rota.runner import end_orphans;"
        "Path(sys.argv[1]).write_text('0');"
        "print(len(end_orphans(Path(sys.argv[2]), grace=0.1)))"
    )
    group = fresh(groups, str(tmp_path.resolve()), "run-1")
    group.mkdir()
    try:
        said = subprocess.run(
            [sys.executable, "-c", code, str(group / "cgroup.procs"), str(tmp_path)],
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        assert said.stdout == "0\n"
        assert group.exists()
    finally:
        supervisor.remove_groups(group)
