"""What reaches a terminal and what does not, and how little is imported for it."""

import os
import pty
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.cli.text import age, lines, local_time, one_line, shortened, with_local_times
from tests.acceptance.terminal import ROTA, Terminal, ThisProcess, environment

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202edrow\u2066[red]x\r\ny\x00\u2028"
CLEAN = "]0;owned[2J31mdrow[red]x y"


def on_a_terminal(
    place: Path, *words: str, columns: int = 160, code: int = 0, **variables: str
) -> str:
    """What a person's terminal gets to see."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*ROTA, *words],
        cwd=place,
        env=environment(TERM="xterm-256color", COLUMNS=str(columns), **variables),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65_536):
            seen += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(master)
    assert process.wait(30) == code, seen
    return seen.decode()


@pytest.fixture
def shell(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_a_title_cannot_command_the_terminal(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    title = EVIL.replace("\x00", "")
    item = here.type("add", title, "--body", title, "--label", "\x1b[31m").strip()
    here.type("hold", item, "--reason", title)
    for words in (
        ["list"],
        ["show", item],
        ["explain", item],
        ["watch", "--since", "0", "--no-follow"],
    ):
        seen = on_a_terminal(tmp_path, *words, NO_COLOR="1")
        for bad in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\u202e", "\u2066", "\u2028", "\x1b[31m"):
            assert bad not in seen, words
        plain = here.type(*words)
        assert not any(letter in plain for letter in "\x1b\x07\x9b\u202e\u2028\r\x00")
    assert "[red]x" in on_a_terminal(tmp_path, "list")  # square brackets are no markup
    done = here.run("show", "\x1b[2J")
    assert "\x1b" not in done.stderr


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    item = here.type("add", "Colourful").strip()
    here.type("dispatch", item, "ann", "--start")
    assert "\x1b[36m" in on_a_terminal(tmp_path, "list")
    assert "\x1b[3" not in on_a_terminal(tmp_path, "list", NO_COLOR="1")
    assert "\x1b" not in here.type("list")


def test_a_table_has_titles_and_ages_and_a_pipe_has_tabs_and_times(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    item = here.type("add", "Look").strip()
    table = on_a_terminal(tmp_path, "list", NO_COLOR="1")
    assert "description" in table
    assert item in table
    assert datetime.now(UTC).strftime("%Y-") not in table
    [row] = here.type("list").splitlines()
    assert datetime.fromisoformat(row.split("\t")[5])
    assert on_a_terminal(tmp_path, "list", "--json").startswith("{")


def test_a_table_says_which_columns_had_no_room_and_its_short_ids_are_taken(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    title = "Mend the gate of the north tower before the winter comes"
    here.type("add", title, "--type", "code_review", "--agent", "smith")
    seen = on_a_terminal(tmp_path, "list", columns=80, NO_COLOR="1").splitlines()
    assert seen[-1] == "no room for type; a wider terminal or --json has all"
    short = seen[1].split()[0]
    assert len(short) == 13
    assert here.json("show", short)["description"] == title
    assert "no room" not in on_a_terminal(tmp_path, "list", columns=160)
    assert here.run("list").stderr == ""  # a pipe has all columns


def test_a_claim_is_told_as_facts_on_a_terminal_and_as_a_row_in_a_pipe(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    here.type("agent", "set", "smith", "--max-concurrent", "3")
    ids = [here.type("add", f"Mend gate {n}", "--body", "With\ncare").strip() for n in range(3)]
    row = here.type("claim", "--agent", "smith").split("\t")
    assert (row[0], row[4]) == (ids[0], "Mend gate 0\n")
    seen = on_a_terminal(tmp_path, "claim", "--agent", "smith", "--limit", "2", columns=80)
    lines = [" ".join(line.split()) for line in seen.splitlines()]
    for number in (1, 2):
        assert f"id {ids[number]}" in lines
        assert f"description Mend gate {number}" in lines
    assert lines.count("body With") == 2
    tokens = [line.partition(" ")[2] for line in lines if line.startswith("token ")]
    assert [len(one) for one in tokens] == [22, 22]
    assert "" in lines  # between the two


def test_figures_begin_with_the_first_hour_in_which_there_was_anything(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    here.type("db", "upgrade")
    empty = on_a_terminal(tmp_path, "stats", NO_COLOR="1").splitlines()
    assert (empty[1].split(), empty[-1]) == (["open", "0"], "")  # and no table
    here.type("add", "Mend the gate")
    seen = on_a_terminal(tmp_path, "stats", NO_COLOR="1").splitlines()
    first, *others = seen[seen.index("") + 2 :]
    assert first.split()[2] == "1"
    assert len(others) <= 1  # a new hour may have begun since
    assert len(here.type("stats").splitlines()) == 24


def test_a_list_without_rows_is_one_line(tmp_path: Path) -> None:
    ThisProcess(tmp_path).type("db", "upgrade")
    assert on_a_terminal(tmp_path, "list").splitlines() == ["no open items"]


def test_who_waits_at_a_terminal_is_told_for_what(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    here.type("agent", "set", "ann", "--max-concurrent", "1")
    words = ["claim", "--agent", "ann", "--wait", "0.2s"]
    seen = on_a_terminal(tmp_path, *words, code=1)
    assert seen.startswith("\x1b[2mwaiting for an item … (Ctrl-C ends it)\x1b[0m")
    assert "waiting" not in on_a_terminal(tmp_path, *words, "--json", code=1)
    assert "waiting" not in here.run(*words).stderr
    here.type("add", "At once")
    assert "waiting" not in on_a_terminal(tmp_path, *words)
    watch = ["watch", "--limit", "1"]
    assert "waiting" not in on_a_terminal(tmp_path, *watch, "--since", "0")
    with ThreadPoolExecutor(1) as other:
        seen = other.submit(on_a_terminal, tmp_path, *watch)
        while not seen.done():  # whenever it begins to follow, something happens then
            here.type("add", "Something")
    assert "waiting for events … (Ctrl-C ends it)" in seen.result().splitlines()[0]


def test_who_waits_for_a_tracker_is_told_so_and_hears_no_number_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text(
        "{sources: [{type: gitea, repo: ada/engine, api_url: 'http://127.0.0.1:1',"
        " auth: {token_env: SOME_TOKEN}}]}"
    )
    given = {"NO_COLOR": "1", "SOME_TOKEN": "x"}
    waiting, failed, *_ = on_a_terminal(tmp_path, "source", "check", code=1, **given).splitlines()
    assert "waiting for an answer about gitea:ada/engine … (Ctrl-C ends it)" in waiting
    assert failed.startswith(
        "fail    source gitea:ada/engine: Gitea, GET /user: 127.0.0.1:1 cannot"
    )
    assert "Errno" not in failed


def test_the_board_as_text_fits_the_terminal_and_not_the_pipe(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    title, agent = "Mend the gate of the north tower, and say what broke it", "a" * 64
    item = here.type("add", title, "--agent", agent).strip()
    here.type("hold", item, "--reason", "later")
    lines = on_a_terminal(tmp_path, "board", "--once", columns=100).splitlines()
    (row,) = [line for line in lines if item in line]
    assert len(row) <= 100
    assert "aaaaaaaaaaa…  work  Mend the gate " in row
    assert row.endswith("… [held]")
    assert f"{agent}  work  {title} [held]\n" in here.type("board", "--once")


def test_a_server_names_commands_as_they_find_it_from_this_shell(tmp_path: Path) -> None:
    rota = str(Path(sys.executable).with_name("rota"))
    for place in ((), ("--state-dir", "other state")):
        with subprocess.Popen(
            [rota, "up", "--port", "0", *place], cwd=tmp_path,
            env=environment(PATH="/usr/bin:/bin"),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as server:  # fmt: skip
            assert server.stdout
            *_, fleet, following = [server.stdout.readline().strip() for _ in range(6)]
            server.terminate()
        assert fleet == f"fleet      none yet:  {rota} init  writes a rota.yaml to begin with"
        assert following.endswith(f'  {shlex.join([rota, "add", *place])} --type chore "Say hello"')


def test_exact_times_are_in_the_viewers_zone(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    item = here.type("add", "Look").strip()
    shown = Terminal(tmp_path, {"TZ": "Asia/Kathmandu"}).type("show", item)
    assert "+0545" in shown


def test_explain_tells_a_person_times_in_their_zone_and_a_pipe_in_full(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    item = here.type("add", "Later", "--available-at", "2999-06-30T12:00:00Z").strip()
    assert "before 2999-06-30T12:00:00.000000Z\n" in here.type("explain", item)
    told = on_a_terminal(tmp_path, "explain", item, TZ="Asia/Kathmandu")
    assert "it is not available before 2999-06-30 17:45:00 +0545 (+" in told
    no_time = "on 2026-06-31T12:00:00.000000Z"
    assert with_local_times(no_time) == no_time


def imported(*words: str) -> set[str]:
    program = (
        "import sys\n"
        "from rota.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["list", "--help"]])
def test_help_and_version_import_nothing_heavy(words: list[str]) -> None:
    heavy = {"rich", "httpx2", "httpx", "asyncio", "litestar", "msgspec", "apsw", "psycopg"}
    heavy |= {"structlog", "uvicorn", "jinja2", "ssl", "concurrent", "pydantic"}
    assert heavy & imported(*words) == set()


def interrupted(place: Path, call: str) -> subprocess.CompletedProcess[str]:
    """The entry point of a script, with Ctrl-C at the first import that takes its time."""
    (place / "click.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    script = f"import sys\nfrom rota.cli import {call}\nsys.exit({call}())"
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment(PYTHONPATH=str(place)),
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("call", ["main", "label_state"])
def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_word(
    tmp_path: Path, call: str
) -> None:
    done = interrupted(tmp_path, call)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_nothing_is_imported_before_ctrl_c_is_expected() -> None:
    script = "import sys\nbefore = set(sys.modules)\nimport rota.cli\n"
    script += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["rota", "rota.cli"]


def test_asking_a_server_needs_no_event_loop_and_no_database(shell: Terminal) -> None:
    program = (
        "import sys\n"
        "from rota.cli import main\n"
        "assert main(['list', '--url', 'http://127.0.0.1:1']) == 5\n"
        "print('\\n'.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"asyncio", "rich", "httpx2", "litestar", "msgspec", "apsw"} & names == set()


def test_a_terminal_without_our_letters_is_forgiven(tmp_path: Path) -> None:
    shell = Terminal(tmp_path, {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    shell.type("add", "Zoë …")
    assert "Zo? ?" in shell.type("list")


# text


def test_text_is_stripped_of_everything_that_is_not_text() -> None:
    assert one_line(EVIL) == CLEAN
    assert lines("a\r\nb\x1b\nc\td") == "a\nb\nc    d"
    assert one_line("Zoë 日本 👩‍💻 – fine") == "Zoë 日本 👩‍💻 – fine"
    assert one_line(None) == "None"
    assert shortened("a" * 10, 5) == "aaaa…"


def test_ages_are_one_number() -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    for seconds, text in (
        (0, "0s"), (59, "59s"), (60, "1m"), (3_599, "59m"), (7_200, "2h"), (86_400 * 3, "3d"),
        (-90, "+1m"),
    ):  # fmt: skip
        assert age((now - timedelta(seconds=seconds)).isoformat(), now) == text
    assert age(None) == ""
    assert local_time(None) == ""


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_time_at_the_end_of_all_times_can_be_shown(
    moment: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert local_time(moment).endswith("d)")
    finally:
        monkeypatch.undo()
        time.tzset()
