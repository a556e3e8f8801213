"""Any program as an agent: its prompt, its environment, its output, its end."""

import asyncio
import itertools
import json
import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from rota.model.fleet import Limits, PromptBy, RuntimeKind
from rota.model.runs import RunStatus
from rota.runner.supervisor import descendants
from tests.integration.runner_stage import ENVIRON, Stage, until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


# the prompt


async def test_a_prompt_comes_by_stdin(stage: Stage) -> None:
    end = await stage.run("cat", prompt="résumé $HOME `id` {prompt}")
    assert end.status is RunStatus.SUCCEEDED
    assert end.exit_code == 0
    assert end.summary == "résumé $HOME `id` {prompt}"


async def test_a_prompt_comes_as_an_argument_that_nobody_interprets(stage: Stage) -> None:
    nasty = "; touch owned $(touch owned) `touch owned` '\"\n--help *"
    end = await stage.run("printf", "%s", prompt=nasty, prompt_by=PromptBy.ARGUMENT)
    assert end.summary == nasty
    assert list(stage.place.iterdir()) == []


async def test_an_argument_has_a_place_for_the_prompt(stage: Stage) -> None:
    end = await stage.run("printf", "<%s>", "a {prompt} b", prompt="x", prompt_by=PromptBy.ARGUMENT)
    assert end.summary == "<a x b>"


async def test_a_prompt_comes_in_a_file_that_is_removed_afterwards(stage: Stage) -> None:
    agent = stage.script("""
        import os, sys
        path = sys.argv[1]
        print(open(path).read(), oct(os.stat(path).st_mode & 0o777), path, sep="|")
    """)
    end = await stage.run(*agent, prompt="in a file", prompt_by=PromptBy.FILE)
    text, mode, path = end.summary.split("|")
    assert (text, mode) == ("in a file", "0o600")
    assert not stage.is_there(path)


@pytest.mark.parametrize("by", [PromptBy.STDIN, PromptBy.FILE])
async def test_a_prompt_of_a_megabyte_arrives_whole(stage: Stage, by: PromptBy) -> None:
    agent = stage.script("""
        import sys
        text = open(sys.argv[1]).read() if len(sys.argv) > 1 else sys.stdin.read()
        print(len(text), text[-3:])
    """)
    end = await stage.run(*agent, prompt="é" * 500_000 + "end", prompt_by=by)
    assert end.summary == "500003 end"


async def test_a_megabyte_as_an_argument_is_refused_with_advice(stage: Stage) -> None:
    end = await stage.run("true", prompt="x" * 1_000_000, prompt_by=PromptBy.ARGUMENT)
    assert end.status is RunStatus.FAILED
    assert "set runtime.prompt to stdin or file" in (end.error or "")


async def test_an_agent_that_does_not_read_its_prompt_is_not_waited_for(stage: Stage) -> None:
    end = await stage.run("true", prompt="x" * 1_000_000)
    assert end.status is RunStatus.SUCCEEDED


async def test_half_a_character_in_a_prompt_does_not_stop_the_run(stage: Stage) -> None:
    end = await stage.run("cat", prompt="cut \ud83d off")
    assert end.summary == "cut ? off"


# the environment


async def test_the_environment_is_an_allow_list(tmp_path: Path) -> None:
    environ = {
        **ENVIRON,
        "LC_TIME": "C",
        "DATABASE_URL": "postgresql://rota:hunter22@db/rota",
        "ROTA_TOKEN": "rota_0123456789abcdef0123",
        "PYTHONPATH": "/elsewhere",
        "GH_TOKEN": "ghp_canary",
        "NAMED": "yes",
    }
    with Stage(tmp_path, environ=environ) as stage:
        end = await stage.run("env", env_pass=("NAMED",), env={"MINE": "1"}, environ={"ITEM": "7"})
    names = {line.partition("=")[0] for line in end.summary.splitlines()}
    assert names == {
        *("PATH", "HOME", "LANG", "LC_TIME", "NAMED", "MINE", "ITEM"),
        *("ROTA_AGENT", "ROTA_RESULT_FILE", "ROTA_RUN_ID", "ROTA_RUN_ROOT"),
    }


async def test_the_item_lies_in_a_file_until_the_run_has_ended(stage: Stage) -> None:
    item = {"title": "Mend \ud83d it", "metadata": {"payload": {"gate": 3}}}
    agent = stage.script("""
        import json, os, stat
        path = os.environ["ROTA_ITEM_FILE"]
        mode = stat.S_IMODE(os.stat(path).st_mode)
        print(path, oct(mode), json.load(open(path))["metadata"]["payload"]["gate"])
    """)
    end = await stage.run(*agent, context={"item": item})
    path, mode, gate = end.summary.split()
    assert (mode, gate, stage.is_there(path)) == ("0o600", "3", False)
    assert (await stage.run("env")).summary.find("ROTA_ITEM_FILE") == -1, "without an item"


async def test_an_agent_cannot_be_given_another_runs_mark(stage: Stage) -> None:
    end = await stage.run("env", env={"ROTA_RUN_ID": "forged"}, environ={"ROTA_RUN_ROOT": "/"})
    assert "forged" not in end.summary
    assert f"ROTA_RUN_ROOT={stage.path / 'state'}" in end.summary


async def test_what_an_agent_writes_is_its_owners_alone(stage: Stage) -> None:
    end = await stage.run("sh", "-c", "touch made; umask")
    assert end.summary == "0077"
    assert stat.S_IMODE((stage.place / "made").stat().st_mode) == 0o600


async def test_an_agent_has_a_session_of_its_own_and_no_open_files(stage: Stage) -> None:
    agent = stage.script("""
        import os
        own = os.getsid(0) == os.getpgid(0) == os.getpid()
        print(own, os.listdir("/proc/self/fd"))
    """)
    end = await stage.run(*agent)
    assert end.summary == "True ['0', '1', '2', '3']"  # 3 is the directory being listed


async def test_an_agent_ignores_and_blocks_no_signal_that_we_do(stage: Stage) -> None:
    """Its pipes would not break, and its children would be lost to it."""
    end = await stage.run("grep", "-E", "^Sig(Ign|Blk):", "/proc/self/status")
    blocked, ignored = (int(line.split()[1], 16) for line in end.summary.splitlines())
    ours = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    assert [one for one in ours if (blocked | ignored) >> (one - 1) & 1] == []


# what keeps it from starting


async def test_a_command_that_is_not_there_says_what_to_do(stage: Stage) -> None:
    end = await stage.run("no-such-agent-program")
    assert end.status is RunStatus.FAILED
    assert "'no-such-agent-program' was not found; install it" in (end.error or "")
    assert ENVIRON["PATH"] in (end.error or "")


async def test_a_path_that_is_not_there_says_what_to_do(stage: Stage) -> None:
    end = await stage.run("./agent.sh")
    assert f"./agent.sh is not there (seen from {stage.place})" in (end.error or "")


async def test_a_file_that_may_not_be_executed_says_what_to_do(stage: Stage) -> None:
    (stage.place / "agent.sh").write_text("#!/bin/sh\n")
    end = await stage.run("./agent.sh")
    assert "may not be executed; run `chmod +x`" in (end.error or "")


async def test_a_file_that_is_no_program_says_what_to_do(stage: Stage) -> None:
    (stage.place / "agent").write_bytes(b"\x01\x02")
    (stage.place / "agent").chmod(0o755)
    end = await stage.run("./agent")
    assert "#!/bin/sh" in (end.error or "")


def open_files() -> set[int]:
    """The handle that lists them is closed by the time it is looked at."""
    listed = list(Path("/proc/self/fd").iterdir())
    return {int(one.name) for one in listed if one.is_symlink()}


@pytest.mark.parametrize("command", ["no-such-agent-program", "true"])
async def test_a_run_leaves_no_file_open_whether_it_starts_or_not(
    stage: Stage, command: str
) -> None:
    await stage.run("true")  # the nursery stays
    before = open_files()
    await stage.run(command, prompt="something to read")
    assert open_files() == before


@contextmanager
def free_handles(most: int) -> Iterator[None]:
    used = open_files()
    unused = (number for number in itertools.count() if number not in used)
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(unused, most, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@pytest.mark.parametrize("most", range(8))  # a log, two pipes, a prompt and a connection
async def test_a_server_without_free_handles_fails_the_run_and_keeps_none(
    stage: Stage, most: int
) -> None:
    await stage.run("true")
    before = open_files()
    with free_handles(most):
        end = await stage.run("true", prompt="something to read")
    assert end.status is RunStatus.FAILED
    assert "Too many open files" in (end.error or "")
    assert open_files() == before
    assert (await stage.run("true")).status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("most", range(8, 16))  # as many as it takes to start the nursery, too
async def test_a_server_without_free_handles_at_its_first_run_keeps_none(
    stage: Stage, most: int
) -> None:
    before = open_files()
    with free_handles(most):
        end = await stage.run("true", prompt="something to read")
    assert end.status is RunStatus.SUCCEEDED or "Too many open files" in (end.error or "")
    stage.runner.close()
    assert open_files() == before
    assert (await stage.run("true")).status is RunStatus.SUCCEEDED


async def test_a_missing_working_directory_says_what_to_do(stage: Stage) -> None:
    end = await stage.run("true", working_directory=stage.path / "nowhere")
    assert end.status is RunStatus.FAILED
    assert f"{stage.path / 'nowhere'} does not exist; create it" in (end.error or "")


async def test_an_agent_without_a_command_says_what_to_do(stage: Stage) -> None:
    assert "no command" in ((await stage.run()).error or "")


async def test_an_id_that_is_a_path_is_refused(stage: Stage) -> None:
    request = stage.request("true")
    evil = type(request)(
        run_id="../../x", agent="a", settings=request.settings, prompt="", log=request.log
    )
    end = await stage.runner.execute(evil)
    assert "not the id of a run" in (end.error or "")


# how it ends


async def test_a_nonzero_exit_is_a_failure_with_its_last_words(stage: Stage) -> None:
    end = await stage.run("sh", "-c", "echo tried; echo no disk >&2; exit 3")
    assert end.status is RunStatus.FAILED
    assert end.exit_code == 3
    assert end.summary == "tried"
    assert end.error == "it exited with 3: no disk"


async def test_an_agent_that_is_killed_says_by_which_signal(stage: Stage) -> None:
    end = await stage.run("sh", "-c", "kill -SEGV $$")
    assert end.status is RunStatus.FAILED
    assert end.exit_code == -11
    assert end.error == "it was killed by SIGSEGV"


async def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with Stage(tmp_path, grace=30.0) as stage:  # nobody is killed who only waits for his turn
        end = await stage.run("sleep", "60", timeout=timedelta(seconds=0.2))
    assert end.status is RunStatus.TIMED_OUT
    assert end.error == "it ran longer than its timeout of 0.2 s"
    assert end.exit_code == -15


async def test_a_limit_of_wall_time_beyond_the_timeout_changes_nothing(stage: Stage) -> None:
    end = await stage.run(
        "sleep", "5", timeout=timedelta(seconds=0.2), limits=Limits(wall_time=timedelta(hours=1))
    )
    assert end.status is RunStatus.TIMED_OUT
    assert (stage.path / "state" / "scratch").stat().st_mode & 0o777 == 0o700


async def test_a_limit_of_wall_time_is_named(stage: Stage) -> None:
    end = await stage.run("sleep", "60", limits=Limits(wall_time=timedelta(seconds=0.2)))
    assert end.status is RunStatus.FAILED
    assert "its limit of 0.2 s (budget wall_time)" in (end.error or "")


async def test_a_runner_runs_many_at_once(stage: Stage) -> None:
    import asyncio

    requests = [
        stage.request("sh", "-c", "cat; echo $ROTA_RUN_ID", prompt=f"{n}\n") for n in range(12)
    ]
    ends = await asyncio.gather(*(stage.runner.execute(one) for one in requests))
    assert [end.summary for end in ends] == [f"{n}\nrun-{n + 1}" for n in range(12)]


async def test_a_runner_works_on_the_servers_own_event_loop(tmp_path: Path) -> None:
    import uvloop

    async def go() -> str:
        with Stage(tmp_path) as stage:
            return (await stage.run("cat", prompt="by uvloop")).summary

    import threading

    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(uvloop.run(go())))
    thread.start()
    thread.join(60)
    assert found == ["by uvloop"]


async def test_a_supervisor_has_nothing_of_the_servers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent can look at it: same user, and its parent. And a Ctrl-C is for the server."""
    monkeypatch.setenv("A_SECRET", "hunter2-hunter2")
    agent = stage.script("""
        import json, os
        from pathlib import Path
        above = Path(f"/proc/{os.getppid()}")
        names = [os.readlink(above / "fd" / str(n)) for n in range(3)]
        print(json.dumps([(above / "environ").read_text(), names, os.getsid(os.getppid())]))
    """)
    end = await stage.run(*agent)
    environ, names, session = json.loads(end.summary)
    assert "A_SECRET" not in environ
    assert names == [os.devnull] * 3
    assert session != os.getsid(0)


async def test_a_nursery_that_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Stage(tmp_path) as stage:
        assert (await stage.run("true")).status is RunStatus.SUCCEEDED
        nursery = stage.runner._nursery._process
        assert nursery is not None
        os.kill(nursery.pid, signal.SIGSTOP)
        monkeypatch.setattr("rota.runner.process.START_PATIENCE", 0.1)
        monkeypatch.setattr("rota.runner.process.END_PATIENCE", 0.1)
        end = await stage.run("true")
        assert end.error == "true could not be started: the machine does not answer"
    assert nursery.returncode == -signal.SIGKILL


async def test_supervisors_that_have_ended_leave_nothing_behind(stage: Stage) -> None:
    """A nursery lives as long as its server: one zombie for each run would use up all pids."""
    for _ in range(3):
        await stage.run("true")
    nursery = stage.runner._nursery._process
    assert nursery is not None
    await until(lambda: not descendants(nursery.pid), "an end of the supervisors")


async def test_a_nursery_that_was_killed_is_started_again(stage: Stage) -> None:
    await stage.run("true")
    process = stage.runner._nursery._process
    assert process is not None
    process.kill()
    await until(lambda: os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT), "its end")
    assert (await stage.run("echo", "again")).summary == "again"


async def test_a_nursery_that_was_killed_beside_a_run_is_started_again_and_the_run_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor of the run holds nothing that would pass for a living nursery."""
    monkeypatch.setattr("rota.runner.process.START_PATIENCE", 5.0)
    line = "touch there; until [ -e go ]; do sleep 0.01; done; echo done"
    going = asyncio.create_task(stage.run("sh", "-c", line))
    await until((stage.place / "there").exists, "the first agent")
    process = stage.runner._nursery._process
    assert process is not None
    process.kill()
    await until(lambda: os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT), "its end")
    again = await stage.run("echo", "again")
    (stage.place / "go").touch()
    assert (again.summary, (await going).summary) == ("again", "done")


async def test_progress_is_heard(stage: Stage) -> None:
    heard: list[str] = []
    await stage.run("printf", "\\033[31mred\\033[0m\\n", heard=heard.append)
    assert heard == ["red"]


# functions


async def test_a_python_function_is_an_agent(stage: Stage) -> None:
    (stage.place / "worker.py").write_text(
        "def work(call):\n"
        "    print('working on', call.item['id'])\n"
        "    return {'outcome': 'partial', 'summary': call.prompt.upper(),\n"
        "            'artifacts': ['https://example.org/report'], 'error': 'half of it'}\n"
        "async def later(call):\n"
        "    return f'{call.agent}: {call.run_id}'\n"
        "def nothing(call): pass\n"
        "def broken(call): raise LookupError('no such thing')\n"
        "def odd(call): return 7\n"
        "def silent(call): raise ValueError\n"
        "def torn(call):\n"
        "    import os\n"
        "    open(os.environ['ROTA_RESULT_FILE'], 'w').write('{\"summary\": \"half of it\"}')\n"
        "    raise LookupError('no such thing')\n"
    )
    python = {"runtime": RuntimeKind.PYTHON}
    end = await stage.run(
        callable="worker:work", prompt="do it", context={"item": {"id": 42}}, **python
    )
    assert end.status is RunStatus.PARTIAL
    assert (end.summary, end.error) == ("DO IT", "half of it")
    assert end.artifacts == ("https://example.org/report",)
    assert stage.texts("stdout") == ["working on 42"]

    assert (await stage.run(callable="worker:later", **python)).summary == "tester: run-2"
    assert (await stage.run(callable="worker:nothing", **python)).status is RunStatus.SUCCEEDED

    end = await stage.run(callable="worker:broken", **python)
    assert end.status is RunStatus.FAILED
    assert end.error == "LookupError: no such thing"
    assert any("Traceback" in text for text in stage.texts("stderr"))

    end = await stage.run(callable="worker:odd", **python)
    assert "return None, a text or a mapping" in (end.error or "")
    end = await stage.run(callable="nowhere:f", **python)
    assert end.error == "ModuleNotFoundError: No module named 'nowhere'"
    assert (await stage.run(callable="worker:silent", **python)).error == "ValueError"
    end = await stage.run(callable="worker:torn", **python)
    assert end.summary == "half of it"
    assert (end.error or "").startswith("it exited with 1: Traceback")
    end = await stage.run(callable="nowhere", **python)
    assert "write package.module:function" in (end.error or "")
