"""`rota board` as it is typed: on a terminal, in a pipe, and without what it needs."""

import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from select import select

import pytest

from tests.acceptance.terminal import ROTA, ThisProcess, environment

PATIENCE_SECONDS = 60.0  # only a failure waits that long
GOLDEN = """\
Queued 2
  ID  P1  0s  -      bug_fix  Mend the gate
  ID  P3  0s  smith  chore    ]0;ownedSweep [held] [waits for 1]

Dispatched 0

In progress 1
  ID  P3  0s  ann  chore  Begun [no lease]

Blocked 0

In review 0

Done today 1
  ID  P3  0s  bob  chore  Ended

Failed 0
"""


class Screen:
    """A process on a terminal of 80 × 24, and what it has written there."""

    def __init__(self, place: Path, words: list[str], **variables: str) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        env = environment(**{"TERM": "xterm-256color", "COLORTERM": "truecolor", **variables})
        self.process = subprocess.Popen(
            words, cwd=place, env=env, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.seen = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen:
            chunk = self._read(deadline)
            assert chunk, self.seen
            self.seen += chunk

    def ended(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while chunk := self._read(deadline):
            self.seen += chunk
        os.close(self._master)
        return self.process.wait(30)

    def _read(self, deadline: float) -> str:
        """A board writes again and again, so it is the time that ends a wait, not silence."""
        ready, _, _ = select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, self.seen
        try:
            return os.read(self._master, 65_536).decode(errors="replace")
        except OSError:  # how Linux says that the other side has closed
            return ""


@contextmanager
def on_a_screen(place: Path, words: list[str], **variables: str) -> Iterator[Screen]:
    screen = Screen(place, words, **variables)
    try:
        yield screen
    finally:
        screen.process.kill()
        screen.process.wait(30)


@pytest.fixture
def here(tmp_path: Path) -> ThisProcess:
    return ThisProcess(tmp_path)


def filled(here: ThisProcess) -> str:
    first = here.type("add", "Mend the gate", "--type", "bug_fix", "--priority", "1").strip()
    held = here.type(
        "add", "\x1b]0;owned\x07Sweep", "--type", "chore", "--agent", "smith", "--blocked-by", first
    ).strip()
    here.type("hold", held, "--reason", "budget")
    for title, agent in (("Begun", "ann"), ("Ended", "bob")):
        item = here.type("add", title, "--type", "chore").strip()
        here.type("dispatch", item, agent, "--start")
    here.type("done", item)
    return first


@pytest.mark.parametrize("term", ["dumb", ""])
def test_on_a_terminal_that_can_move_no_cursor_it_is_text(here: ThisProcess, term: str) -> None:
    here.type("add", "Mend the gate")
    with on_a_screen(here.place, [*ROTA, "board"], TERM=term) as screen:
        screen.until("Failed 0")  # the last column
        assert screen.ended() == 0
    assert "Mend the gate" in screen.seen
    assert "\x1b" not in screen.seen


def test_in_a_pipe_it_is_text_and_for_programs_a_document(here: ThisProcess) -> None:
    first = filled(here)
    shown = here.type("board")  # standard output is no terminal
    assert first in shown
    plain = re.sub(r"[0-9a-f-]{36}", "ID", shown)
    assert re.sub(r"  \d+s  ", "  0s  ", plain) == GOLDEN
    narrowed = here.type("board", "--once", "--search", "gate", "--limit", "1")
    assert narrowed.count("P1") == 1
    assert "Ended" not in narrowed
    assert "… and more: rota list --status queued" in here.type("board", "--limit", "1")

    data = here.json("board", "--agent", "smith", "--limit", "1000")
    assert data["filters"] == {"agent": "smith"}
    assert [column["status"] for column in data["columns"]] == [
        "queued", "dispatched", "in_progress", "blocked", "in_review", "completed", "failed",
    ]  # fmt: skip
    queued = data["columns"][0]
    assert (queued["title"], queued["total"], queued["more"]) == ("Queued", 1, False)
    assert queued["items"][0]["description"] == "\x1b]0;owned\x07Sweep"


def test_as_text_it_counts_all_that_ended_today_and_names_the_list_of_it(
    here: ThisProcess,
) -> None:
    for title in ("One", "Two", "Three", "Four", "Five"):
        item = here.type("add", title, "--agent", "ann", "--label", "x y").strip()
        here.type("dispatch", item, "ann", "--start")
        here.type("done", item)
    shown = here.type("board", "--limit", "2", "--agent", "ann", "--label", "x y")
    title, *lines = shown.partition("Done today")[2].partition("\n\n")[0].splitlines()
    assert title == " 5"
    assert [line.rpartition("  ")[2] for line in lines[:2]] == ["Five", "Four"]
    command = lines[2].partition(": ")[2]
    assert command.startswith("rota list --status completed --agent ann --label 'x y' --since 20")
    assert len(here.type(*shlex.split(command)[1:]).splitlines()) == 5
    document = here.json("board", "--limit", "2")["columns"][5]
    assert (document["total"], document["more"], len(document["items"])) == (5, True, 2)


def test_on_a_terminal_it_is_worked_by_keys_without_colours_if_so_wished(
    here: ThisProcess, tmp_path: Path
) -> None:
    filled(here)
    with on_a_screen(tmp_path, [*ROTA, "board", "--actor", "ann"], NO_COLOR="1") as screen:
        screen.until("Mend the gate")
        screen.until("live")
        screen.press("X")
        screen.until("y: yes")
        screen.press("y")
        screen.until("Why?")
        screen.press("no time\r")
        screen.until("Cancelled:")
        screen.press("q")
        assert screen.ended() == 0
    assert "\x1b]0;owned" not in screen.seen
    # No colour is set but the terminal's own.
    colours = re.findall(r"\x1b\[([0-9;]*)m", screen.seen)
    assert not [
        one for one in colours if re.search(r"(^|;)(3[0-8]|4[0-8]|9[0-7]|10[0-7])(;|$)", one)
    ]
    (cancelled,) = here.json("list", "--status", "cancelled")
    assert (cancelled["description"], cancelled["notes"]) == ("Mend the gate", "no time")


WITHOUT_TEXTUAL = """
import sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "textual":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Nowhere())
from rota.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_the_extra_it_says_what_to_install(here: ThisProcess, tmp_path: Path) -> None:
    here.type("add", "Mend the gate")
    words = [sys.executable, "-c", WITHOUT_TEXTUAL, "board"]
    with on_a_screen(tmp_path, words) as screen:
        assert screen.ended() == 2
    assert "pip install 'rota[board]'" in screen.seen
    assert "Traceback" not in screen.seen
    with on_a_screen(tmp_path, [*words, "--once"]) as screen:
        assert screen.ended() == 0
    assert "Mend the gate" in screen.seen


def test_a_server_that_is_not_there_is_said_without_a_screen(
    here: ThisProcess, tmp_path: Path
) -> None:
    words = [*ROTA, "board", "--url", "http://127.0.0.1:9"]
    with on_a_screen(tmp_path, words) as screen:
        assert screen.ended() == 5
    assert screen.seen.startswith("rota: cannot reach http://127.0.0.1:9")
