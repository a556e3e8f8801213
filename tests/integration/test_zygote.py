"""The test kit's forks are what processes that have just been started are."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.testing import zygote
from rota.testing.zygote import wire
from rota.testing.zygote.client import Zygote, ZygoteGone, true_program
from tests.acceptance.terminal import environment, until

ACTS = """
import atexit, json, locale, os, random, signal, subprocess, sys, tempfile, threading, time, uuid
import warnings


def file(number):
    # Some builds of libffi keep themselves open, wherever they are loaded.
    try:
        return os.readlink("/proc/self/fd/" + number)
    except OSError:  # the directory that was read for these numbers
        return ""


def tell():
    print(json.dumps({
        "argv": sys.argv[1:],
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "c environ": sorted(subprocess.check_output("env", text=True).split("\\n")),
        "path": sys.path,
        "warnings": [sys.warnoptions, [str(one) for one in warnings.filters]],
        "signals": {str(one): str(signal.getsignal(one)).split(" at ")[0]
                    for one in signal.valid_signals()},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "streams": [[one.name, one.encoding, one.errors, one.line_buffering, one.write_through,
                     one.isatty(), one.fileno()] for one in (sys.stdin, sys.stdout, sys.stderr)],
        "first": sys.__stdout__ is sys.stdout,
        "bytecode": sys.dont_write_bytecode,
        "zone": [time.tzname, time.timezone],
        "temporary": tempfile.gettempdir(),
        "files": len([one for one in os.listdir("/proc/self/fd") if "libffi" not in file(one)]),
        "threads": threading.active_count(),
        "main": threading.current_thread() is threading.main_thread(),
        "umask": os.umask(0o22),
        "locale": locale.getpreferredencoding(False).lower(),
    }))


def chance():
    print(random.random(), uuid.uuid4(), next(tempfile._get_candidate_names()), os.getpid())


def leave():
    how = sys.argv[1]
    atexit.register(lambda: print("after all"))
    if how == "open":
        opened = open(__file__)
        del opened
    if how == "thread":
        threading.Thread(target=lambda: (time.sleep(0.05), print("from a thread"))).start()
    sys.exit({"none": None, "text": "why", "number": 7, "large": 300}.get(how, 0))


def give_back():
    return 5


def fail():
    raise ValueError("no")


def interrupted():
    raise KeyboardInterrupt


def echo():
    for line in sys.stdin:
        sys.stdout.write(line)


def wait():
    print("waiting", flush=True)
    time.sleep(60)


def end_well():
    def end(*_):
        print("ended")
        sys.exit(3)
    signal.signal(signal.SIGTERM, end)
    wait()


def many():
    sys.stdout.write("x" * 5_000_000)
    sys.stderr.write("y" * 1_000_000)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "acts.py").write_text(ACTS)
    return tmp_path


def act(place: Path, name: str, *words: str, stdin: str = "", **variables: str) -> Any:
    env = environment(**variables)
    return zygote.run(words, env=env, cwd=place, input=stdin, entry=f"acts:{name}")


def truly(place: Path, name: str, *words: str, **variables: str) -> Any:
    return subprocess.run(
        [*true_program(f"acts:{name}"), *words],
        env=environment(**variables), cwd=place, input="", capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def under_way(place: Path, name: str) -> Any:
    """A fork that has said that it waits."""
    made = zygote.start(
        [], env=environment(), cwd=place, stdout=subprocess.PIPE, entry=f"acts:{name}"
    )
    assert made.stdout is not None
    assert made.stdout.readline() == "waiting\n"
    return made


# like a fresh one


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"TZ": "Asia/Kathmandu", "TMPDIR": "/var/tmp", "PYTHONUNBUFFERED": "1"},
        {"PYTHONWARNINGS": "error", "LANG": "C", "PYTHONDONTWRITEBYTECODE": "1"},
        {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    ],
    ids=["as it is", "zone", "warnings", "encoding"],
)
def test_a_fork_finds_what_a_fresh_process_finds(place: Path, variables: dict[str, str]) -> None:
    forked, true = (
        json.loads(how(place, "tell", "a", "Zoë", **variables).stdout) for how in (act, truly)
    )
    if "PYTHONIOENCODING" not in variables:
        # Python itself sets LC_CTYPE when it starts without a locale.
        for found in (forked, true):
            found["path"][0] = str(place)
            found["environ"].pop("LC_CTYPE", None)
            found["c environ"] = [v for v in found["c environ"] if not v.startswith("LC_CTYPE")]
    assert forked == true


def test_a_fork_on_a_terminal_knows_it(place: Path) -> None:
    ours, theirs = pty.openpty()
    with zygote.start(
        [], env=environment(PYTHONUNBUFFERED=""), cwd=place, stdin=theirs, stdout=theirs,
        stderr=theirs, entry="acts:tell",
    ):  # fmt: skip
        os.close(theirs)
        told = b""
        while not told.endswith(b"\n"):
            told += os.read(ours, 65_536)
    os.close(ours)
    assert [stream[5] for stream in json.loads(told)["streams"]] == [True, True, True]
    assert json.loads(told)["streams"][1][3]  # line by line


def test_no_fork_sees_what_another_was_told(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    (other / "acts.py").write_text(ACTS)
    first = json.loads(act(place, "tell", "one", ONLY_HERE="x").stdout)
    second = json.loads(act(other, "tell", "two").stdout)
    assert (first["environ"]["ONLY_HERE"], first["cwd"], first["argv"]) == (
        "x",
        str(place),
        ["one"],
    )
    assert "ONLY_HERE" not in second["environ"]
    assert (second["cwd"], second["argv"], second["path"][0]) == (str(other), ["two"], str(other))
    assert "ONLY_HERE" not in os.environ


def test_no_two_forks_draw_the_same_numbers(place: Path) -> None:
    drawn = [act(place, "chance").stdout.split() for _ in range(3)]
    assert all(len(set(column)) == 3 for column in zip(*drawn, strict=True))


# ends


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("leave", ["none"]), ("leave", ["text"]), ("leave", ["number"]), ("leave", ["large"]),
        ("leave", ["thread"]), ("give_back", []), ("fail", []), ("interrupted", []),
    ],
)  # fmt: skip
def test_a_fork_ends_as_a_fresh_process_ends(place: Path, name: str, words: list[str]) -> None:
    forked, true = act(place, name, *words), truly(place, name, *words)
    assert (forked.returncode, forked.stdout) == (true.returncode, true.stdout)
    assert forked.stderr.splitlines()[-1:] == true.stderr.splitlines()[-1:]


def test_what_a_fork_leaves_open_is_told(place: Path) -> None:
    for how in (act, truly):
        assert "unclosed file" in how(place, "leave", "open", PYTHONWARNINGS="error").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_fork_is_ended_by_a_signal(place: Path, number: signal.Signals) -> None:
    with under_way(place, "wait") as one:
        assert one.poll() is None
        one.send_signal(number)
        assert one.wait(30) == -number
        one.send_signal(number)  # nobody is there any more


def test_a_fork_may_handle_a_signal(place: Path) -> None:
    one = under_way(place, "end_well")
    one.terminate()
    assert one.communicate(timeout=30) == ("ended\n", None)
    assert one.returncode == 3


# streams


def test_a_fork_reads_and_says_a_lot(place: Path) -> None:
    text = "Zoë, line\n" * 100_000
    assert act(place, "echo", stdin=text).stdout == text
    done = act(place, "many")
    assert (len(done.stdout), len(done.stderr)) == (5_000_000, 1_000_000)
    assert act(place, "many", stdin="nobody reads this\n" * 100_000).returncode == 0


def test_errors_can_go_where_the_output_goes(place: Path) -> None:
    with (place / "log").open("wb") as log:
        one = zygote.start(
            [], env=environment(), cwd=place, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, entry="acts:many",
        )  # fmt: skip
        assert one.wait(30) == 0
    assert (place / "log").stat().st_size == 6_000_000


def test_a_fork_that_takes_too_long_is_ended(place: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        zygote.run([], env=environment(), cwd=place, timeout=0.05, entry="acts:wait")


# many, and nobody


def test_forks_run_beside_each_other_and_hold_nothing_of_each_other(place: Path) -> None:
    waiting = [under_way(place, "wait") for _ in range(4)]
    assert len({one.pid for one in waiting}) == 4
    # Its streams, and the directory that it reads.
    assert json.loads(act(place, "tell").stdout)["files"] == 4
    for one in reversed(waiting):
        one.kill()
        assert one.communicate(timeout=30) == ("", None)  # its pipe ends with it
        assert not Path(f"/proc/{one.pid}").exists()


def test_a_fork_does_not_outlive_who_asked_for_it(place: Path) -> None:
    one = under_way(place, "wait")
    one.stdout.close()
    one._connection.close()
    until(lambda: not Path(f"/proc/{one.pid}").exists())


@pytest.fixture
def own_zygote(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Zygote]:
    def make() -> Zygote:
        made = Zygote()
        monkeypatch.setattr("rota.testing.zygote.client.the_zygote", lambda: made)
        return made

    return make


def test_a_zygote_goes_with_its_children_and_leaves_nothing(
    place: Path, own_zygote: Callable[[], Zygote]
) -> None:
    made = own_zygote()
    assert made.scripts().is_dir()
    one = under_way(place, "wait")
    made.close()
    until(lambda: not Path(f"/proc/{one.pid}").exists())
    assert not made.directory.exists()
    one.stdout.close()
    with pytest.raises(ZygoteGone):
        one.wait(30)
    with pytest.raises(ZygoteGone):
        zygote.start([], env=environment(), cwd=place)


# for shells


def shell(place: Path, script: str) -> Any:
    path = f"{zygote.the_zygote().scripts()}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script], cwd=place, env=environment(PATH=path), capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip


def test_a_shell_has_a_rota_that_is_a_fork(place: Path) -> None:
    done = shell(
        place, "echo '{\"a\": 1}' | rota add Pipe --payload - >item && rota show $(cat item)"
    )
    assert (done.returncode, done.stderr) == (0, "made a new ledger at .rota/rota.db\n")
    assert '"a": 1' in done.stdout
    done = shell(place, "rota show nowhere; echo $?; label-state --help | head -n 1; exit 9")
    assert done.stdout == "1\nUsage: label-state [OPTIONS] COMMAND [ARGS]...\n"
    assert (done.returncode, done.stderr.startswith("rota: ")) == (9, True)


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("KILL", 137)])
def test_a_shells_signal_reaches_the_fork(place: Path, name: str, code: int) -> None:
    script = (
        "set -m; rota add x >item; rota watch --since 0 >seen &"
        " for n in {1..600}; do [ -s seen ] && break; sleep 0.05; done;"
        f" kill -{name} $!; wait $!; echo $?"
    )
    assert shell(place, script).stdout.splitlines()[-1] == str(code)


def test_the_shim_costs_next_to_nothing(place: Path) -> None:
    """It is there for that: the processor's time of a `rota --version` by it and by itself."""
    assert (
        cpu_seconds(place, "rota")
        < cpu_seconds(place, str(Path(sys.executable).parent / "rota")) / 2
    )


def cpu_seconds(place: Path, program: str) -> float:
    before = os.times()
    assert shell(place, f"{program} --version").returncode == 0
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def test_who_has_answered_before_the_question_was_over_is_heard() -> None:
    """As a command that is quicker than its shell."""
    ours, theirs = socket.socketpair()

    class Slow(socket.socket):
        def sendmsg(self, *arguments: Any) -> int:
            sent = super().sendmsg(*arguments)
            theirs.sendall(wire.NUMBER.pack(7))
            theirs.close()
            return sent

    with Slow(fileno=ours.detach()) as slow:
        wire.ask(slow, wire.Order("x", ["rota"], {}, b"/"), (0, 1, 2))
        assert wire.NUMBER.unpack(slow.recv(4)) == (7,)
