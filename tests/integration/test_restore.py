"""`rota db restore`: a backup takes the place of a ledger, also after a crash and in a crash."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import apsw
import pytest

from rota.app import make_store
from rota.storage import sqlite_files
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


def restorable(place: Path) -> tuple[Path, Path]:
    """A ledger, and a backup to write over it."""
    paths = place / "rota.db", place / "backup.db"
    for path in paths:
        anyio.run(make_store(str(path)).upgrade)
    return paths


def test_what_is_restored_is_its_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    ledger, backup = restorable(tmp_path)
    for path in (ledger, backup):
        path.chmod(0o644)
    kept = sqlite_files.restore(ledger, backup, tmp_path / "kept.db").kept
    assert kept == tmp_path / "kept.db"
    assert [path.stat().st_mode & 0o777 for path in (ledger, kept)] == [0o600, 0o600]


@pytest.mark.parametrize("sound", [True, False])
def test_what_is_kept_is_on_disk_before_the_old_ledger_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sound: bool
) -> None:
    ledger, backup = restorable(tmp_path)
    if not sound:
        ledger.write_bytes(b"no database" * 1000)
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        assert stat.S_ISDIR(os.fstat(handle).st_mode)
        steps.append("settled")
        sync(handle)

    def replaced(path: Path, target: Path) -> Path:
        steps.append(f"new {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    sqlite_files.restore(ledger, backup, tmp_path / "kept.db")
    # A sound one is written over by SQLite; one that it cannot read was linked before.
    expected = ["new kept.db", "settled"] if sound else ["settled", "new rota.db", "settled"]
    assert steps == expected
    assert (tmp_path / "kept.db").exists()


# For each number that it reads, a process that ends without a word, as by a kill, before the line
# of that number of all that it goes through once it has begun to write.
CRASHING = """
import os, sys
from pathlib import Path
from rota.app import make_store
from rota.storage import sqlite_files

WRITING = (
    "_replace", "_make", "_alone", "_keep", "_copied", "_copy", "_exchange", "_link",
    "_move_sides", "_locked",
)

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


def killed(home: Path) -> dict[str, bytes]:
    """The files of a ledger whose last change stands in its log alone."""
    subprocess.run([sys.executable, "-c", KILLED], cwd=home, check=False)
    files = {one.name: one.read_bytes() for one in home.glob("rota.db*")}
    assert set(files) == {"rota.db", "rota.db-wal", "rota.db-shm"}
    return files


def crashes(home: Path, files: dict[str, bytes]) -> Iterator[None]:
    """A restore over these files is cut short before each line in turn, and at last is not."""
    with subprocess.Popen(
        [sys.executable, "-c", CRASHING],
        cwd=home, env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as crashing:  # fmt: skip
        assert crashing.stdin is not None
        assert crashing.stdout is not None
        code, line = "9", 0
        while code == "9":
            for one in home.iterdir():
                one.unlink()
            for name, data in files.items():
                (home / name).write_bytes(data)
            line += 1
            crashing.stdin.write(f"{line}\n")
            crashing.stdin.flush()
            code = crashing.stdout.readline().strip()
            yield
        crashing.stdin.close()
    assert code == "0"


def sound_titles(path: Path) -> set[str]:
    with closing(apsw.Connection(str(path))) as ledger:
        assert ledger.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        rows = ledger.execute("SELECT description FROM work_items").fetchall()
    return {str(row[0]) for row in rows}


def test_a_crash_at_any_line_leaves_the_old_ledger_or_the_new_one_whole(here: ThisProcess) -> None:
    home = ledger_of(here).parent
    seen: list[set[str]] = []
    for _ in crashes(home, killed(home)):
        seen.append(sound_titles(home / "rota.db"))
        if seen[-1] == {"Old"}:
            assert titles(here, "--db", str(home / "kept.db")) == {"Old", "Newest"}
    old = sum(one == {"Old", "Newest"} for one in seen)
    assert old > 20
    assert seen == [{"Old", "Newest"}] * old + [{"Old"}] * (len(seen) - old)


def test_a_crash_at_any_line_leaves_a_damaged_ledger_or_the_new_one_whole(
    here: ThisProcess,
) -> None:
    home = ledger_of(here).parent
    damaged = killed(home) | {"rota.db": garbage(b"")}
    seen: list[bool] = []
    for _ in crashes(home, damaged):
        seen.append((home / "rota.db").read_bytes() != garbage(b""))
        [log] = home.glob("*-wal")
        assert log.read_bytes() == damaged["rota.db-wal"]
        if seen[-1]:
            assert (home / "kept.db").read_bytes() == garbage(b"")
            assert log.name == "kept.db-wal"
            assert sound_titles(home / "rota.db") == {"Old"}
    assert seen.index(True) > 20
    assert seen == sorted(seen)


def full(*_: object) -> None:
    raise apsw.FullError("database or disk is full")


@pytest.mark.parametrize("left", [b"", b"no database at all" * 400], ids=["empty", "garbage"])
def test_a_disk_that_is_full_leaves_a_damaged_ledger_and_its_log_as_they_were(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    home = ledger_of(here).parent
    killed(home)
    ledger_of(here).write_bytes(left)
    before = {one.name: one.read_bytes() for one in home.glob("rota*")}
    monkeypatch.setattr(sqlite_files, "_copy", full)
    assert "the disk is full" in here.json("db", "restore", "backup.db", code=6)["message"]
    assert {one.name: one.read_bytes() for one in home.glob("rota*")} == before


def refused(*_: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_who_hears_that_it_failed_hears_where_the_old_ledger_is(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_of(here)
    ledger.write_bytes(garbage(b""))
    with monkeypatch.context() as failing:
        failing.setattr(sqlite_files, "settle", refused)
        message = here.json("db", "restore", "backup.db", code=6)["message"]
    [kept] = ledger.parent.glob("*-before-restore-*")
    assert f"the old ledger is kept as {kept.relative_to(here.place)}" in message
    assert kept.read_bytes() == garbage(b"")
    here.type("db", "restore", "backup.db")
    assert titles(here) == {"Old"}


def test_a_damaged_ledger_is_replaced_where_files_cannot_be_linked(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger_of(here).write_bytes(garbage(b""))
    monkeypatch.setattr(Path, "hardlink_to", refused)
    kept = here.place / here.json("db", "restore", "backup.db")["kept"]
    assert (kept.read_bytes(), titles(here)) == (garbage(b""), {"Old"})


# logs that have lost their ledger


@pytest.mark.parametrize("lost", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_the_log_of_a_ledger_that_is_gone_is_kept(
    here: ThisProcess, lost: Callable[[Path], object]
) -> None:
    home = ledger_of(here).parent
    log = killed(home)["rota.db-wal"]
    lost(ledger_of(here))
    kept = here.place / here.json("db", "restore", "backup.db")["kept"]
    assert (kept.name[-7:], kept.read_bytes(), titles(here)) == (".db-wal", log, {"Old"})
    assert not kept.with_name(kept.name[:-4]).exists(), "who opened that would delete the log"


def test_a_log_that_was_kept_alone_is_not_played_over_what_is_kept_next(here: ThisProcess) -> None:
    home = ledger_of(here).parent
    killed(home)
    ledger_of(here).unlink()
    asked = ledger_of(here), here.place / "backup.db", home / "kept.db"
    assert sqlite_files.restore(*asked).kept == home / "kept.db-wal"
    log = (home / "kept.db-wal").read_bytes()
    kept = sqlite_files.restore(*asked).kept
    assert kept is not None
    assert sound_titles(kept) == {"Old"}
    assert (home / "kept.db-wal").read_bytes() == log


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


def test_a_damaged_ledger_that_another_process_has_open_is_left_alone(here: ThisProcess) -> None:
    ledger = ledger_of(here)
    (here.place / "garbage").write_bytes(garbage(b""))
    with closing(apsw.Connection(str(ledger))) as other:
        other.execute("PRAGMA journal_mode = DELETE").fetchall()
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM work_items").fetchall()
        # Not by this process: who closes a file gives up all locks that it has on it.
        subprocess.run(["cp", "garbage", ledger], cwd=here.place, check=True)
        refused = Terminal(here.place).json("db", "restore", "backup.db", code=7)
        assert "is open in another process" in refused["message"]
    assert ledger.read_bytes() == garbage(b"")
    assert not list(ledger.parent.glob("*restore*"))


def test_the_log_of_a_ledger_that_another_process_makes_is_left_alone(here: ThisProcess) -> None:
    ledger = here.place / "new.db"
    with closing(apsw.Connection(str(ledger))) as other:
        other.execute("BEGIN EXCLUSIVE")
        log = here.place / "new.db-journal"
        log.write_bytes(b"log")
        words = ("db", "restore", "backup.db", "--db", "new.db")
        refused = Terminal(here.place).json(*words, code=7)
        assert "is open in another process" in refused["message"]
        assert log.read_bytes() == b"log"


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
