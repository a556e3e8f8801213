"""Agents that fork, hide, ignore signals or flood their output leave nothing behind."""

import asyncio
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from rota.model.fleet import Limits, RuntimeKind
from rota.model.runs import RunStatus
from rota.runner import supervisor
from tests.integration.runner_stage import Stage, until

# Each of these stays, and says in a file that it is there.
WAYS = {
    "fork": "spawn()",
    "ignores TERM": "spawn(ignore=True)",
    "setsid": "spawn(setsid=True, ignore=True)",
    "double fork": "spawn(twice=True, ignore=True)",
    "daemon": "spawn(twice=True, setsid=True, ignore=True)",
    "daemon without its environment": "spawn(twice=True, setsid=True, ignore=True, env={})",
    "stopped": "spawn(stop=True)",
    "another group": "spawn(group=True, ignore=True)",
}
AGENT = """
    import os, signal, subprocess, sys, time
    from pathlib import Path

    def spawn(twice=False, setsid=False, ignore=False, env=None, stop=False, group=False):
        argv = [sys.executable, __file__, "child", str(ignore), str(stop)]
        if os.fork() == 0:
            if setsid:
                os.setsid()
            if group:
                os.setpgid(0, 0)
            if twice and os.fork():
                os._exit(0)
            os.execve(argv[0], argv, os.environ if env is None else env)

    def stay(ignore, stop):
        if ignore:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(__file__).with_name(f"there-{os.getpid()}").touch()
        if stop:
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            time.sleep(60)

    if sys.argv[1] == "child":
        stay(sys.argv[2] == "True", sys.argv[3] == "True")
    ways = sys.argv[2:]
    for way in ways:
        eval(way)
    here = Path(__file__).parent
    while len(list(here.glob("there-*"))) < len(ways):
        time.sleep(0.01)
    (here / "all-there").touch()
    if sys.argv[1] == "leave":
        sys.exit(0)
    stay(True, False)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage
        stage.kill_survivors()


def all_there(stage: Stage) -> Callable[[], bool]:
    return (stage.path / "all-there").exists


async def test_a_cancelled_run_leaves_no_process(stage: Stage) -> None:
    run = asyncio.create_task(stage.run(*stage.script(AGENT), "stay", *WAYS.values()))
    await until(all_there(stage), "the agent's processes")
    # Between two forks there is one more, until it has its turn to end.
    await until(lambda: len(stage.survivors()) == len(WAYS) + 1, "no more than those")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert stage.survivors() == []


async def test_a_run_that_is_cancelled_again_and_again_still_waits(stage: Stage) -> None:
    run = asyncio.create_task(stage.run(*stage.script(AGENT), "stay", WAYS["daemon"]))
    await until(all_there(stage), "the agent's processes")
    while not run.done():
        run.cancel()
        await asyncio.sleep(0.01)
    assert run.cancelled()
    assert stage.survivors() == []


async def test_a_run_that_is_cancelled_while_it_starts_leaves_no_process(stage: Stage) -> None:
    for pause in (0, 0, 0.001, 0.003, 0.01):
        run = asyncio.create_task(stage.run("sh", "-c", "sleep 60; :", str(stage.path)))
        await asyncio.sleep(pause)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert stage.survivors() == []


async def test_a_run_that_times_out_leaves_no_process(stage: Stage) -> None:
    slow = {"timeout": timedelta(seconds=1.5)}
    end = await stage.run(*stage.script(AGENT), "stay", *WAYS.values(), **slow)
    assert end.status is RunStatus.TIMED_OUT
    assert stage.survivors() == []


async def test_an_agent_that_succeeds_leaves_no_process_either(stage: Stage) -> None:
    end = await stage.run(*stage.script(AGENT), "leave", *WAYS.values())
    assert end.status is RunStatus.SUCCEEDED
    assert stage.survivors() == []


async def test_a_run_has_not_ended_while_something_of_it_is_there_that_says_nothing(
    stage: Stage,
) -> None:
    """Its output is closed: that it has ended does not tell."""
    agent = stage.script("""
        import os, signal, sys, time
        from pathlib import Path
        if len(sys.argv) == 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for handle in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
            os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, __file__, "child"])
        else:
            time.sleep(60)
    """)
    end = await stage.run(*agent)
    assert end.status is RunStatus.SUCCEEDED
    assert stage.survivors() == []


async def test_output_that_somebody_else_keeps_open_is_not_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handle can be given to a stranger, who is no process of the run."""
    monkeypatch.setattr("rota.runner.execution.DRAINED_IN", 0.1)
    address = str(stage.path / "stranger")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        agent = stage.script(f"""
            import socket
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect({address!r})
                socket.send_fds(stranger, [b"+"], [1])
                stranger.recv(1)
        """)
        run = asyncio.create_task(stage.run(*agent))
        stranger, _ = await asyncio.to_thread(door.accept)
        with stranger:
            (kept,) = socket.recv_fds(stranger, 1, 1)[1]
        try:
            async with asyncio.timeout(30):
                assert (await run).status is RunStatus.SUCCEEDED
        finally:
            os.close(kept)


async def test_an_agent_may_end_in_its_own_way_within_the_grace(tmp_path: Path) -> None:
    with Stage(tmp_path, grace=30.0) as stage:
        agent = stage.script("""
            import signal, sys, time
            from pathlib import Path
            signal.signal(signal.SIGTERM, lambda *_: (print("tidied up"), sys.exit(0)))
            Path(__file__).with_name("all-there").touch()
            time.sleep(60)
        """)
        run = asyncio.create_task(stage.run(*agent))
        await until(all_there(stage), "the agent")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert stage.texts("stdout") == ["tidied up"]


async def test_an_agent_has_no_longer_than_its_grace(tmp_path: Path) -> None:
    with Stage(tmp_path, grace=0.1) as stage:
        agent = stage.script("""
            import signal, sys, time
            from pathlib import Path

            def linger(*_):
                time.sleep(4)  # less than the grace of whom nobody tells another
                print("had time", flush=True)

            signal.signal(signal.SIGTERM, linger)
            Path(__file__).with_name("all-there").touch()
            time.sleep(60)
        """)
        run = asyncio.create_task(stage.run(*agent))
        await until(all_there(stage), "the agent")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert stage.texts("stdout") == []


async def test_a_supervisor_that_is_told_to_end_lets_its_agent_do_so(tmp_path: Path) -> None:
    """As when a service is stopped, and everybody in its group is told at once."""
    with Stage(tmp_path, grace=30.0) as stage:
        agent = stage.script("""
            import os, signal, sys, time
            signal.signal(signal.SIGTERM, lambda *_: (print("tidied up"), sys.exit(0)))
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(60)
        """)
        end = await stage.run(*agent)
    assert (end.exit_code, end.summary) == (0, "tidied up")


async def test_an_agent_that_kills_its_supervisor_is_found_by_its_environment(
    stage: Stage,
) -> None:
    agent = stage.script("""
        import os, signal, sys, time
        if len(sys.argv) == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, __file__, "child"])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    """)
    end = await stage.run(*agent)
    assert end.status is RunStatus.FAILED
    assert end.exit_code is None
    assert "supervisor was killed" in (end.error or "")
    assert stage.survivors() == []


async def test_an_agent_that_kills_its_supervisor_at_once_is_found_too(stage: Stage) -> None:
    """Mostly before the server has heard that there is an agent."""
    for _ in range(8):
        end = await stage.run("sh", "-c", "kill -9 $PPID; sleep 60", str(stage.path))
        assert end.status is RunStatus.FAILED
        assert "supervisor was killed" in (end.error or "")
        assert stage.survivors() == []


async def test_a_storm_of_forks_is_ended(stage: Stage) -> None:
    """Each child is replaced by its successor before it ends: a list of pids is always late."""
    agent = stage.script("""
        import os, time
        from pathlib import Path
        Path(__file__).with_name("all-there").touch()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.001)
    """)
    run = asyncio.create_task(stage.run(*agent))
    await until(all_there(stage), "the storm")
    run.cancel()
    with suppress(asyncio.CancelledError):  # its first process may have ended already, and the run
        await run
    assert stage.survivors() == []


def test_the_group_alone_would_not_have_been_enough(tmp_path: Path) -> None:
    """The twin: the usual way to end an agent leaves those who went into hiding."""
    stage = Stage(tmp_path)
    process = subprocess.Popen(
        [*stage.script(AGENT), "stay", *WAYS.values()], start_new_session=True
    )
    try:
        asyncio.run(until(all_there(stage), "the agent's processes"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert len(stage.survivors()) >= 3
    finally:
        stage.kill_survivors()


def test_a_signal_is_not_sent_to_whoever_got_the_pid(tmp_path: Path) -> None:
    """A pid and the moment it was started: the first is used again, the pair is not."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        found = supervisor.stat_of(stranger.pid)
        assert found is not None
        assert not supervisor.send(stranger.pid, "1", signal.SIGKILL)
        assert stranger.poll() is None
        assert supervisor.send(stranger.pid, found[1], signal.SIGKILL)
        assert stranger.wait() == -signal.SIGKILL


# floods


def peak() -> int:
    """Megabytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param("sys.stdout.buffer.write(b'all the same\\n' * 80_000)", id="lines"),
        pytest.param("sys.stdout.buffer.write(b'x' * 1_000_000)", id="one endless line"),
        pytest.param("sys.stderr.buffer.write(b'\\xff\\n' * 500_000)", id="no text, on stderr"),
    ],
)
async def test_a_flood_of_output_leaves_memory_flat(
    stage: Stage, flood: str, figure: Callable[[str], None]
) -> None:
    agent = stage.script(f"""
        import sys
        for _ in range(200):
            {flood}
        print("\\nthe last words")
    """)
    await stage.run("true")
    before = peak()
    end = await stage.run(*agent, output_limit=1_000_000)
    assert end.status is RunStatus.SUCCEEDED
    assert end.summary.endswith("the last words")
    assert peak() - before < 30
    assert stage.log.stat().st_size < 1_400_000
    figure(f"200 MB of output: {peak() - before} MB more memory")


async def test_a_flooded_log_has_its_beginning_its_end_and_a_mark_between(stage: Stage) -> None:
    end = await stage.run("sh", "-c", "seq 1 300000; echo the end", output_limit=100_000)
    lines = stage.lines()
    kinds = [line.get("type") for line in lines]
    assert lines[0]["text"] == "1"
    assert lines[-1]["text"] == "the end"
    assert kinds.count("full") == kinds.count("dropped") == 1
    mark = lines[kinds.index("dropped")]
    kept = sum(len(line["text"]) + 1 for line in lines if line["stream"] == "stdout")
    assert abs(mark["bytes"] + kept - 1_988_903) < 20  # all of it is accounted for
    assert end.summary.endswith("the end")
    numbers = [int(line["text"]) for line in lines if line["text"].isdigit()]
    assert numbers == sorted(numbers)


async def test_a_stream_is_understood_to_its_end_though_its_log_is_full(stage: Stage) -> None:
    program = stage.program(
        """
        import json
        for n in range(3000):
            block = {"type": "text", "text": "x" * 200}
            message = {"id": n, "content": [block], "usage": {"input_tokens": 2}}
            print(json.dumps({"type": "assistant", "message": message}))
        print(json.dumps({"type": "result", "subtype": "success", "result": "all done"}))
        """,
        "claude",
    )
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE, output_limit=10_000)
    assert end.summary == "all done"
    assert end.usage.tokens == 6000
    assert stage.log.stat().st_size < 100_000


async def test_a_run_beyond_its_tokens_is_ended_at_once(stage: Stage) -> None:
    program = stage.program(
        """
        import json, sys, time
        usage = {"input_tokens": 600, "output_tokens": 1}
        print("You have hit your usage limit, a page of the web says", file=sys.stderr, flush=True)
        for n in range(2):  # no third: who reads late would count it, too
            message = {"id": n, "content": [], "usage": usage}
            print(json.dumps({"type": "assistant", "message": message}), flush=True)
        time.sleep(600)
        """,
        "claude",
    )
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE, limits=Limits(tokens=1000))
    assert end.status is RunStatus.FAILED
    assert end.error == "it used 1202 tokens, and its limit is 1000 (budget tokens)"
    assert not end.usage_limit, "it has met our limit, and not its runtime's"
    assert stage.survivors() == []
