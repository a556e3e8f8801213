"""`rota db restore`: a backup takes the place of a ledger, also after a crash and in a crash."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.acceptance.terminal import Terminal, ThisProcess, environment, running_server


@pytest.fixture
def here(tmp_path: Path) -> ThisProcess:
    """With a backup, and a ledger that has gone on since."""
    here = ThisProcess(tmp_path)
    here.type("add", "Old")
    here.type("db", "backup", "backup.db")
    here.type("add", "New")
    return here


def titles(here: Terminal, *words: str) -> set[str]:
    return {one["description"] for one in here.json("list", *words)}


def ledger_of(here: Terminal) -> Path:
    return here.place / ".rota" / "rota.db"


def test_after_a_crash_the_log_of_the_old_ledger_is_not_played_over_the_new(tmp_path: Path) -> None:
    shell = Terminal(tmp_path)
    shell.type("add", "Old")
    shell.type("db", "backup", "backup.db")
    with running_server(tmp_path) as server:
        shell.type("add", "New")
        refused = shell.run("db", "restore", "backup.db")
        assert (refused.returncode, f"(pid {server.pid})" in refused.stderr) == (7, True)
        shell.type("db", "restore", "backup.db", "--db", "elsewhere/rota.db")
        server.send_signal(signal.SIGKILL)
        server.wait(30)
    assert (tmp_path / ".rota" / "rota.db-wal").stat().st_size > 0
    done = shell.json("db", "restore", "backup.db")
    kept = tmp_path / done["kept"]
    assert sorted(one.name for one in kept.parent.glob("rota*")) == [kept.name, "rota.db"]
    assert {one.stat().st_mode & 0o777 for one in kept.parent.glob("rota*")} == {0o600}
    assert (titles(shell), titles(shell, "--db", str(kept))) == ({"Old"}, {"Old", "New"})


# For each number that it reads, a process that ends without a word, as by a kill, before the line
# of that number of all that it goes through once it has begun to write.
CRASHING = """
import os, sys
from pathlib import Path
from rota.storage import sqlite_files

WRITING = ("_replace", "_make", "_alone", "_keep", "_copy", "_settle", "_move_aside")

def crashing(left):
    def trace(frame, event, argument):
        nonlocal left
        code = frame.f_code
        if code.co_filename != sqlite_files.__file__ or code.co_name not in WRITING:
            return None
        left -= event == "line"
        if not left:
            os._exit(9)
        return trace
    return trace

for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.settrace(crashing(int(line)))
        sqlite_files.restore(Path("rota.db"), Path("../backup.db"), Path("kept.db"))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

KILLED = """
import apsw, os
ledger = apsw.Connection("rota.db")
ledger.execute("PRAGMA journal_mode = WAL")
ledger.execute("UPDATE work_items SET description = 'Newest' WHERE description = 'New'")
os._exit(9)
"""


def test_a_crash_at_any_line_leaves_the_old_ledger_or_the_new_one_whole(here: ThisProcess) -> None:
    home = ledger_of(here).parent
    subprocess.run([sys.executable, "-c", KILLED], cwd=home, check=False)
    crashed = {one.name: one.read_bytes() for one in home.glob("rota.db*")}
    assert set(crashed) == {"rota.db", "rota.db-wal", "rota.db-shm"}
    seen: list[set[str]] = []
    with subprocess.Popen(
        [sys.executable, "-c", CRASHING],
        cwd=home, env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as crashing:  # fmt: skip
        assert crashing.stdin is not None
        assert crashing.stdout is not None
        code = "9"
        while code == "9":
            for one in home.iterdir():
                one.unlink()
            for name, data in crashed.items():
                (home / name).write_bytes(data)
            crashing.stdin.write(f"{len(seen) + 1}\n")
            crashing.stdin.flush()
            code = crashing.stdout.readline().strip()
            with closing(apsw.Connection(str(home / "rota.db"))) as ledger:
                assert ledger.execute("PRAGMA quick_check").fetchall() == [("ok",)]
                rows = ledger.execute("SELECT description FROM work_items").fetchall()
            seen.append({str(row[0]) for row in rows})
            if seen[-1] == {"Old"}:
                assert titles(here, "--db", str(home / "kept.db")) == {"Old", "Newest"}
        crashing.stdin.close()
    assert code == "0"
    old = sum(one == {"Old", "Newest"} for one in seen)
    assert old > 20
    assert seen == [{"Old", "Newest"}] * old + [{"Old"}] * (len(seen) - old)


def text(path: Path) -> None:
    path.write_text("this is no database, but it is long enough to look like one" * 100)


def another_program(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as other:
        other.execute("CREATE TABLE schema_migrations (version integer)")


def nothing(path: Path) -> None:
    path.touch()


def damaged(path: Path) -> None:
    data = path.with_name("backup.db").read_bytes()
    path.write_bytes(data[:20_000] + b"\0" * 60_000 + data[80_000:])


def newer(path: Path) -> None:
    path.write_bytes(path.with_name("backup.db").read_bytes())
    with closing(apsw.Connection(str(path))) as ahead:
        ahead.execute("INSERT INTO schema_migrations VALUES ('9999_later', 'x', 'x')")


@pytest.mark.parametrize(
    ("make", "code", "why"),
    [
        (text, 2, "is not a SQLite database"),
        (another_program, 2, "no ledger of Rota"),
        (nothing, 2, "no ledger of Rota"),
        (damaged, 2, "is damaged"),
        (newer, 6, "9999_later"),
    ],
)
def test_what_is_no_sound_ledger_of_this_rota_is_refused_and_changes_nothing(
    here: ThisProcess, make: Callable[[Path], None], code: int, why: str
) -> None:
    make(here.place / "wrong.db")
    before = ledger_of(here).read_bytes()
    assert why in here.json("db", "restore", "wrong.db", code=code)["message"]
    assert ledger_of(here).read_bytes() == before
    assert not list(ledger_of(here).parent.glob("*restore*"))


def test_where_it_is_not_possible_it_says_what_is(here: ThisProcess) -> None:
    assert "is the ledger itself" in here.run("db", "restore", ".rota/rota.db").stderr
    url = "postgresql://rota@db/rota"
    refused = here.json("db", "restore", "backup.db", "--db", url, code=7)
    assert "pg_restore --no-owner --dbname NAME backup.db" in refused["message"]
    here.variables["ROTA_URL"] = "http://127.0.0.1:9"
    assert "is a server" in here.json("db", "restore", "backup.db", code=2)["message"]


def test_a_ledger_that_another_process_has_open_is_left_alone(here: ThisProcess) -> None:
    """One that holds no state directory: `rota watch`, or a program that embeds Rota."""
    with closing(apsw.Connection(str(ledger_of(here)))) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("SELECT count(*) FROM work_items").fetchall()
        refused = Terminal(here.place).json("db", "restore", "backup.db", code=7)
        assert "is open in another process" in refused["message"]
    assert titles(here) == {"Old", "New"}
    here.type("db", "restore", "backup.db")


def hole(data: bytes) -> bytes:
    return data[:20_000] + b"\0" * 60_000 + data[80_000:]


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def garbage(data: bytes) -> bytes:
    return b"This is no database at all. " * 400


@pytest.mark.parametrize("spoilt", [hole, half, garbage])
def test_a_damaged_ledger_is_found_by_the_doctor_and_replaced(
    here: ThisProcess, spoilt: Callable[[bytes], bytes]
) -> None:
    here.variables["PORT"] = "0"
    ledger = ledger_of(here)
    ledger.write_bytes(spoilt(ledger.read_bytes()))
    [failed] = [one for one in here.json("doctor", code=1) if one["status"] == "fail"]
    if spoilt is not garbage:
        assert "it is damaged" in failed["message"]
        assert "rota db restore FILE" in failed["fix"]
    done = here.json("db", "restore", "backup.db")
    assert (here.place / done["kept"]).exists()
    assert titles(here) == {"Old"}
    here.type("doctor")


def test_a_link_to_a_ledger_stays_one(here: ThisProcess) -> None:
    (here.place / "link.db").symlink_to(ledger_of(here))
    ledger_of(here).write_bytes(garbage(b""))
    kept = Path(here.json("db", "restore", "backup.db", "--db", "link.db")["kept"])
    assert (kept.parent, kept.read_bytes()) == (ledger_of(here).parent, garbage(b""))
    assert (here.place / "link.db").is_symlink()
    assert titles(here) == {"Old"}


def test_where_there_is_no_ledger_yet_the_backup_becomes_it(here: ThisProcess) -> None:
    words = ("--db", "new/rota.db")
    assert here.json("db", "restore", "backup.db", *words)["kept"] is None
    assert titles(here, *words) == {"Old"}
    assert (here.place / "new").stat().st_mode & 0o777 == 0o700
    assert (here.place / "new" / "rota.db").stat().st_mode & 0o777 == 0o600
