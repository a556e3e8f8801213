"""Standard streams that are full or closed: one clear sentence, a code of its own, no traceback."""

import json
import os
import shlex
import subprocess
from io import DEFAULT_BUFFER_SIZE
from pathlib import Path

import pytest

from tests.acceptance.terminal import ROTA, Terminal, environment, until

DONE = "rota: what was asked is done, but the answer could not be written: No space left on device"
MAYBE = "rota: the answer could not be written: No space left on device"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    Terminal(tmp_path).type("add", "Something", "--body", "x" * 20_000)
    return tmp_path


def shell(place: Path, line: str, **variables: str) -> tuple[int, str]:
    """As a shell runs it; `rota` is started from nothing."""
    script = f'rota() {{ {shlex.join(ROTA)} "$@"; }}\n{line}'
    env = environment(PYTHONUNBUFFERED="", **variables)
    done = subprocess.run(
        ["sh", "-c", script], cwd=place, env=env, check=False, capture_output=True, text=True
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("list", 8, DONE),
        ("add another", 8, DONE),
        ("ready --label none --json", 8, MAYBE),
        ("export", 8, MAYBE),  # more than is kept back
        ("list --json", 8, DONE if DEFAULT_BUFFER_SIZE > 100_000 else MAYBE),  # 8 KiB before 3.14
        ("show nothing --json", 1, "rota: there is no work item 'nothing'"),
    ],
)
def test_a_full_disk_is_told_in_one_sentence(place: Path, words: str, code: int, told: str) -> None:
    ended, said = shell(place, f"rota {words} >/dev/full")
    assert (ended, said.splitlines()[-1].startswith(told)) == (code, True), said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert len(said.splitlines()) == 1


def test_a_full_disk_is_told_where_nothing_is_kept_back_too(place: Path) -> None:
    ended, said = shell(place, "PYTHONUNBUFFERED=1 rota add another >/dev/full")
    assert (ended, said.count("\n")) == (8, 1)
    assert said.startswith(MAYBE)
    assert "see whether what was asked is done" in said
    assert len(Terminal(place).json("list")) == 2


@pytest.mark.parametrize("more", ["", "--json"])
def test_a_claim_whose_token_cannot_be_told_is_given_back(place: Path, more: str) -> None:
    ended, said = shell(place, f"rota claim --agent smith {more} >/dev/full")
    assert ended == 8
    assert "the answer could not be written: No space left on device" in said
    assert ("is given back, for its token could not be told" in said) == (not more)
    assert_given_back(place)


def test_a_claim_that_nobody_reads_is_given_back(place: Path) -> None:
    receiving, sending = os.pipe()
    os.close(receiving)
    done = subprocess.run(
        [*ROTA, "claim", "--agent", "smith"],
        cwd=place, env=environment(), check=False, stdout=sending, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(sending)
    assert done.returncode == 141
    assert_given_back(place)


def assert_given_back(place: Path) -> None:
    here = Terminal(place)
    [item] = here.json("list")
    assert (item["status"], item["attempts"]) == ("queued", 0)
    last = here.json("show", item["id"])["events"][-1]
    assert (last["type"], last["reason"]) == ("work.released", "claimer_gone")


@pytest.mark.parametrize("more", ["", "--json"])
def test_a_claim_whose_token_nobody_can_be_told_is_given_back(place: Path, more: str) -> None:
    ended, said = shell(place, f"rota claim --agent smith {more} >&-")
    assert ended == 8
    assert "the answer could not be written: standard output is closed" in said
    assert_given_back(place)


def test_an_answer_to_nowhere_is_none_and_a_remark_to_nowhere_is_forgiven(place: Path) -> None:
    done = f"{DONE.rpartition(':')[0]}: standard output is closed\n"
    assert shell(place, "rota list >&-") == (8, done)
    assert shell(place, "rota list --status failed >&-") == (0, "no items\n")
    assert shell(place, "rota add another --json >&- 2>&- <&-") == (8, "")
    assert shell(place, "rota show nothing >&- 2>&-") == (1, "")
    assert shell(place, "rota show nothing --json >&-")[0] == 1
    assert shell(place, "rota add third --json >/dev/null 2>/dev/full") == (0, "")
    assert shell(place, "rota show nothing 2>/dev/full") == (1, "")
    assert len(Terminal(place).json("list")) == 3


@pytest.mark.parametrize("nowhere", [">&-", ">/dev/full"])
def test_a_server_that_can_tell_nobody_where_it_is_serves_all_the_same(
    place: Path, nowhere: str
) -> None:
    """So that it can be started by a program that closes everything first."""
    line = f'exec "$@" {nowhere} 2>/dev/null'
    server = subprocess.Popen(["sh", "-c", line, "sh", *ROTA, "up"], cwd=place, env=environment())
    there = place / ".rota" / "server.json"
    until(lambda: there.exists() or server.poll() is not None)
    assert json.loads(Terminal(place).type("list", "--json"))["meta"]["via"].startswith("http://")
    server.terminate()
    assert server.wait(30) == 0


def test_a_worker_that_can_tell_nobody_what_it_does_works_all_the_same(place: Path) -> None:
    (place / "rota.yaml").write_text(
        "{version: 1, agents: [{name: smith, runtime: {type: command, command: [cat]}}]}"
    )
    asked = "rota worker --agent smith --db .rota/rota.db --once --slots 1 >&-"
    assert shell(place, asked) == (0, "")
    assert len(Terminal(place).json("list", "--status", "completed")) == 1


def test_a_reader_that_goes_away_is_still_no_error(place: Path) -> None:
    Terminal(place).type("add", "More than a pipe holds", "--body", "x" * 100_000)
    line = "{ rota export; echo $? >code; } | head -c 1 >/dev/null; cat code >&2"
    assert shell(place, line) == (0, "141\n")


def test_whoever_stands_in_a_deleted_directory_hears_so(place: Path) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone && "
    ended, said = shell(place, f"{gone} rota doctor >&2")
    assert (ended, "Traceback" in said) == (1, False)
    assert "fail    environment: the directory that you are in has been deleted" in said
    ended, said = shell(place, f"{gone} rota setup claude")
    assert (ended, said.startswith("rota: the directory that you are in")) == (2, True)
