"""The state directory: whose it is, and how it is called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rota.config.state_dir import StateDir


def test_a_place_keeps_its_name_and_another_machines_directory_of_the_same_path_has_its_own(
    tmp_path: Path,
) -> None:
    here = StateDir(tmp_path / ".rota")
    here.create()
    name = here.place()
    assert here.place() == StateDir(tmp_path / ".rota").place() == name
    assert (here.path / "place").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(here.path)
    here.create()  # as on a machine with the same name and the same paths
    assert here.place() != name


def test_a_clone_of_a_machine_has_a_place_of_its_own(tmp_path: Path) -> None:
    """Same name, same path, same files; only the system's own id was made anew."""
    system = tmp_path / "machine-id"
    here = StateDir(tmp_path / ".rota", system)
    here.create()
    without = here.place()
    system.write_text("1" * 32 + "\n")
    name = here.place()
    assert here.place() == name
    assert "1" * 32 not in name, "it is nobody's business"
    system.write_text("2" * 32 + "\n")
    assert len({without, name, here.place()}) == 3


def test_a_new_directory_is_hidden_from_git_and_one_that_is_there_is_left_as_it_is(
    tmp_path: Path,
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    state = StateDir(tmp_path / ".rota")
    with state.occupied():
        (state.path / "rota.db").touch()
        told = subprocess.run(
            ["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, check=True
        )
    assert told.stdout == b""
    (state.path / ".gitignore").write_text("mine")
    state.create()
    assert (state.path / ".gitignore").read_text() == "mine"
    (state.path / ".gitignore").unlink()
    state.create()
    assert not (state.path / ".gitignore").exists()


def test_a_directory_that_may_not_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    """A real process, since root may write anywhere unless that is taken from it."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o500)
    command = [sys.executable, "-m", "rota", "up", "--port", "0", "--state-dir", str(state)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv, which takes root's privileges away, is missing")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (6, "", 1), done.stderr
    assert f"the state directory {state} cannot be written; run as its owner" in done.stderr
