"""The doctor: finds what is wrong, says what mends it, and mends what it may."""

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.cli import checks
from rota.config import StateDir
from rota.model.clock import SystemClock
from rota.testing.served import serve
from tests.acceptance.terminal import ThisProcess, running_server


@pytest.fixture
def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def here(tmp_path: Path, free_port: int) -> ThisProcess:
    return ThisProcess(tmp_path, {"PORT": str(free_port)})


def findings(here: ThisProcess, *words: str, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    by_status: dict[str, list[dict[str, Any]]] = {"ok": [], "warn": [], "fail": []}
    for one in here.json("doctor", *words, code=code):
        by_status[one["status"]].append(one)
    return by_status


def test_where_nothing_is_yet_nothing_is_made_and_nothing_fails(
    here: ThisProcess, tmp_path: Path
) -> None:
    found = findings(here)
    assert {one["check"] for one in found["warn"]} == {"state directory", "database"}
    assert list(tmp_path.iterdir()) == []


def test_fix_makes_what_is_missing(here: ThisProcess, tmp_path: Path) -> None:
    found = findings(here, "--fix")
    assert found["warn"] == found["fail"] == []
    assert (tmp_path / ".rota").stat().st_mode & 0o777 == 0o700
    assert here.json("db", "status")["current"]


def test_a_healthy_ledger_is_all_ok_for_people_too(here: ThisProcess) -> None:
    here.type("add", "Something")
    text = here.type("doctor")
    assert {line.split()[0] for line in text.splitlines()} == {"ok"}
    for check in ("environment", "state directory", "database", "clock", "port", "disk"):
        assert f"{check}: " in text


def test_files_that_others_can_read_fail_and_are_mended(here: ThisProcess, tmp_path: Path) -> None:
    here.type("add", "Private")
    (tmp_path / ".rota").chmod(0o755)
    (tmp_path / ".rota" / "rota.db").chmod(0o644)
    failed = findings(here, code=1)["fail"]
    assert [one["fix"] for one in failed] == ["chmod 700 .rota", "chmod 600 .rota/rota.db"]
    text = here.type("doctor", code=1)
    assert "fail    state directory: .rota is open to others (0755)\n        chmod 700" in text
    mended = json.loads(here.type("doctor", "--fix", "--json"))
    assert len(mended["meta"]["mended"]) == 2
    assert (tmp_path / ".rota").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / ".rota" / "rota.db").stat().st_mode & 0o777 == 0o600
    assert findings(here)["fail"] == []


def test_what_is_no_ledger_keeps_its_permissions(here: ThisProcess, tmp_path: Path) -> None:
    """A slip in DATABASE_URL must not close somebody's file, or make a directory unusable."""
    (tmp_path / "notes").write_text("this is no database, but it is long enough to look like one")
    (tmp_path / "directory").mkdir()
    with closing(sqlite3.connect(tmp_path / "contacts.db")) as other:
        other.execute("CREATE TABLE contacts (name)")
    for name, mode in (("notes", 0o644), ("directory", 0o755), ("contacts.db", 0o644)):
        (tmp_path / name).chmod(mode)
        [failed] = findings(here, "--fix", "--db", name, code=1)["fail"]
        assert name in failed["message"]
        assert (tmp_path / name).stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize(("mode", "content"), [(0o1777, "server.lock"), (0o755, "index.html")])
def test_a_directory_of_others_is_not_closed_to_them(
    here: ThisProcess, tmp_path: Path, mode: int, content: str
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / content).touch()
    shared.chmod(mode)
    [failed] = findings(here, "--fix", "--state-dir", "shared", code=1)["fail"]
    assert (failed["check"], failed["fix"]) == (
        "state directory", "name one of your own with --state-dir",
    )  # fmt: skip
    assert shared.stat().st_mode & 0o7777 == mode


def test_no_ledger_is_made_among_the_files_of_others(here: ThisProcess, tmp_path: Path) -> None:
    www = tmp_path / "www"
    www.mkdir(0o755)
    (www / "index.html").touch()
    here.type("doctor", "--fix", "--state-dir", "www", code=1)
    assert [one.name for one in www.iterdir()] == ["index.html"]


@pytest.mark.parametrize("content", [".gitignore", "server.lock", "rota.db"])
def test_a_state_directory_is_closed_whatever_it_has(
    here: ThisProcess, tmp_path: Path, content: str
) -> None:
    here.type("add", "Private", "--db", "elsewhere.db")
    state = tmp_path / "mine"
    state.mkdir()
    (state / content).touch()
    state.chmod(0o755)
    here.type("doctor", "--fix", "--state-dir", "mine", "--db", "elsewhere.db")
    assert state.stat().st_mode & 0o7777 == 0o700


def test_a_damaged_database_of_another_program_keeps_its_permissions(
    here: ThisProcess, tmp_path: Path
) -> None:
    other = tmp_path / "contacts.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE contacts (name)")
        connection.executemany("INSERT INTO contacts VALUES (?)", [("x" * 900,)] * 99)
        connection.commit()
    with other.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    other.chmod(0o644)
    [failed] = findings(here, "--fix", "--db", other.name, code=1)["fail"]
    assert "it is damaged" in failed["message"]
    assert other.stat().st_mode & 0o7777 == 0o644


def test_a_file_that_is_no_database_fails(here: ThisProcess, tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, but it is long enough to look like one")
    (tmp_path / "no.db").chmod(0o600)
    [failed] = findings(here, "--db", "no.db", code=1)["fail"]
    assert "not a SQLite database" in failed["message"]


def test_a_schema_that_is_behind_fails_and_is_upgraded(
    here: ThisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.type("add", "Old")
    from rota.storage import migrations

    real = migrations.state_of
    behind = [True]

    def state_of(dialect: str, applied: dict[str, str]) -> Any:
        from dataclasses import replace

        state = real(dialect, applied)
        return replace(state, pending=["0002_next"]) if behind[0] else state

    monkeypatch.setattr("rota.storage.sqlite.state_of", state_of)
    [failed] = findings(here, code=1)["fail"]
    assert (failed["check"], failed["fix"]) == ("database", "rota db upgrade")
    assert here.json("db", "status", code=1)["pending"] == ["0002_next"]
    behind[0] = False
    assert findings(here)["fail"] == []


def test_a_clock_behind_the_ledger_fails(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        ahead = datetime.now(UTC) + timedelta(hours=1)
        earlier.setattr(SystemClock, "now", lambda _: ahead)
        here.type("add", "From the future")
    [failed] = findings(here, code=1)["fail"]
    assert (failed["check"], "future" in failed["message"]) == ("clock", True)


def test_a_clock_that_jumps_is_noticed(here: ThisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    here.type("add", "Now")
    times: Iterator[float] = iter([1000.0, 2000.0])
    real = time.time

    def jumping() -> float:
        return next(times, real())

    monkeypatch.setattr("rota.cli.checks.time.time", jumping)
    [warned] = list(checks.clock(checks.Settings()))
    assert (warned.status, "jumped" in warned.message) == ("warn", True)


def of_port(here: ThisProcess, status: str) -> dict[str, Any]:
    found = findings(here, code=1 if status == "fail" else 0)[status]
    [one] = [one for one in found if one["check"] == "port"]
    return one


def test_a_port_is_free_ours_or_somebody_elses(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path)
    here.type("add", "Something")
    state = StateDir(tmp_path / ".rota")
    with serve(str(tmp_path / ".rota" / "rota.db")) as served:
        here.variables["PORT"] = str(served.port)
        another = of_port(here, "fail")
        assert "a Rota server that answers there, but not that of .rota" in another["message"]
        with state.occupied():
            state.announce(served.url)
            assert of_port(here, "ok")["message"].endswith("is taken by the server of .rota")
    with closing(socket.create_server(("127.0.0.1", 0))) as stranger:
        stranger.settimeout(0)
        here.variables["PORT"] = str(stranger.getsockname()[1])
        failed = of_port(here, "fail")
        assert "no Rota server" in failed["message"]
        assert "PORT=…, or write web: {port: …}" in failed["fix"]


def test_a_server_that_runs_here_is_asked_whether_it_takes_changes(
    here: ThisProcess, tmp_path: Path
) -> None:
    with running_server(tmp_path):
        running = StateDir(tmp_path / ".rota").running()
        assert running is not None
        url = running.url
        [told] = (one for one in findings(here)["ok"] if one["check"] == "server")
        assert told["message"] == f"{url} answers, and takes changes"
        for part in (tmp_path / ".rota").glob("rota.db*"):
            part.unlink()
        here.run("add", "Too late")
        [told] = findings(here, "--fix", code=1)["fail"]
        assert told["check"] == "server"
        assert told["message"].startswith(f"{url}: the database answers and stores nothing")
        assert not (tmp_path / ".rota" / "rota.db").exists(), "nothing is put in its place"
    assert not any(one["check"] == "server" for one in findings(here)["ok"])


def test_who_would_be_refused_by_the_server_that_runs_here_is_warned(
    here: ThisProcess, tmp_path: Path
) -> None:
    with running_server(tmp_path):
        secret = here.type("token", "create", "boss", "--scope", "admin").strip()
        [told] = findings(here)["warn"]
        assert (told["check"], told["fix"]) == ("server", "correct ROTA_TOKEN")
        assert "this server wants a token" in told["message"]
        known = ThisProcess(tmp_path, {**here.variables, "ROTA_TOKEN": secret})
        assert findings(known)["warn"] == []


def test_the_port_that_is_looked_at_is_the_one_that_would_be_taken(
    tmp_path: Path, free_port: int
) -> None:
    here = ThisProcess(tmp_path, {"PORT": ""})
    (tmp_path / "rota.yaml").write_text(f"web: {{port: {free_port}}}\n")
    assert of_port(here, "ok")["message"] == f"127.0.0.1:{free_port} is free"
    here.variables["PORT"] = "0"
    assert of_port(here, "ok")["message"] == "127.0.0.1:0 is free"


def test_wrong_variables_are_named(here: ThisProcess) -> None:
    here.variables["PORT"] = "http"
    [failed] = findings(here, code=1)["fail"]
    assert "PORT" in failed["message"]
    here.variables.update(PORT="0", ROTA_TOKEN="hunter2", ROTA_URL="http://127.0.0.1:1")
    found = findings(here, code=1)
    assert "ROTA_URL" in found["fail"][0]["message"]
    assert "ROTA_TOKEN" in found["warn"][0]["message"]


def test_who_lets_other_machines_in_hears_whether_a_token_is_needed(tmp_path: Path) -> None:
    there = ThisProcess(tmp_path, {"ROTA_HOST": "0.0.0.0"})
    unprotected = "ROTA_HOST 0.0.0.0 can be reached by other machines"
    assert unprotected in messages(there, "warn")
    there.type("add", "Something")
    assert unprotected in messages(there, "warn")
    there.type("token", "create", "ops", "--scope", "admin")
    assert unprotected not in messages(there, "warn")
    assert f"{unprotected}, and every call needs a token" in messages(there, "ok")


def messages(here: ThisProcess, status: str) -> list[str]:
    return [one["message"] for one in findings(here).get(status, [])]


def test_the_database_is_shown_without_its_password(here: ThisProcess) -> None:
    url = "postgresql://rota:hunter2@127.0.0.1:1/rota"
    text = here.run("doctor", "--db", url).stdout
    assert "postgresql://rota@127.0.0.1:1/rota" in text
    assert "hunter2" not in text


def test_what_a_dead_server_left_behind_is_found_and_removed(
    here: ThisProcess, tmp_path: Path
) -> None:
    here.type("add", "Something")
    left = tmp_path / ".rota" / "server.json"
    left.write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    assert "left behind" in findings(here)["warn"][0]["message"]
    findings(here, "--fix")
    assert not left.exists()


def test_an_address_of_another_machine_is_told_from_a_busy_port(
    tmp_path: Path, free_port: int
) -> None:
    there = ThisProcess(tmp_path, {"PORT": str(free_port), "ROTA_HOST": "192.0.2.1"})
    [failed] = findings(there, code=1)["fail"]
    assert failed["message"].startswith(f"cannot listen on 192.0.2.1:{free_port}: Cannot assign")
    assert failed["fix"] == "name an address of this machine with --host or ROTA_HOST"


def test_a_full_disk_fails(here: ThisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    here.type("add", "Something")

    class Usage:
        free = 1024

    monkeypatch.setattr("rota.cli.checks.shutil.disk_usage", lambda _: Usage)
    assert [one["check"] for one in findings(here, code=1)["fail"]] == ["disk"]
    Usage.free = 100 * 1024**2
    assert [one["check"] for one in findings(here)["warn"]] == ["disk"]


def test_a_read_only_file_system_is_told_from_somebody_elses_directory(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.type("add", "Something")
    monkeypatch.setattr("rota.cli.checks.os.access", lambda *_: False)
    [failed] = findings(here, code=1)["fail"]
    assert "chown" in failed["fix"]

    class Mounted:
        f_flag, f_blocks, f_bavail, f_bfree, f_frsize = os.ST_RDONLY, 10**9, 10**9, 10**9, 4096

    monkeypatch.setattr("rota.cli.checks.os.statvfs", lambda _: Mounted)
    [failed] = findings(here, code=1)["fail"]
    assert failed["message"] == ".rota is on a file system that is read-only"
    assert failed["fix"].startswith("mount it for writing")


def test_a_state_directory_that_cannot_be_made_fails(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rota.cli.checks.os.access", lambda *_: False)
    [failed] = findings(here, code=1)["fail"]
    assert failed["message"] == f".rota cannot be made, because {tmp_path} cannot be written"


def test_what_a_message_advises_is_what_mends_it(here: ThisProcess, tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("sources: [{type: markdown, path: gone}]\n")
    [failed] = findings(here, code=1)["fail"]
    assert failed["message"].endswith("gone cannot be read: it is no folder")
    assert failed["fix"] == "create it, or correct work_source.path"


def test_a_state_directory_that_is_a_file_fails(here: ThisProcess, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = findings(here, "--state-dir", "file", "--fix", code=1)["fail"]
    assert "is a file" in failed[0]["message"]
    assert [one["check"] for one in failed] == ["state directory", "database"]
