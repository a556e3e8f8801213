"""What a fleet says of itself in the log and to people."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from rota import runner
from rota.app import fleet
from rota.cli import worker
from rota.cli.session import Session
from rota.model.runs import in_a_row
from rota.runner.orphans import Orphan
from rota.runner.workspace import Removed


def test_one_failure_is_no_row() -> None:
    assert in_a_row(1) == "its last run failed"
    assert in_a_row(3) == "3 runs failed in a row"


async def test_what_was_left_running_is_logged_by_its_run_and_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "end_orphans", lambda _: (Orphan(2840, "12", "the-run"),))
    bare: Any = SimpleNamespace(_settings=SimpleNamespace(state_dir=tmp_path))
    with capture_logs() as logged:
        await fleet.FleetAtWork._tidy(cast(fleet.FleetAtWork, bare))
    (told,) = logged
    assert (told["run"], told["pid"]) == ("the-run", 2840)
    assert "Orphan" not in str(told)


async def cleaned(directory: Path, **_: object) -> tuple[Removed, ...]:
    return (Removed(directory / "tree", "rota/recovered/the-run"),)


async def test_a_worktree_that_was_left_is_logged_with_where_its_commits_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "end_orphans", lambda _: ())
    monkeypatch.setattr(fleet, "clean_worktrees", cleaned)
    bare: Any = SimpleNamespace(_settings=SimpleNamespace(state_dir=tmp_path))
    with capture_logs() as logged:
        await fleet.FleetAtWork._tidy(cast(fleet.FleetAtWork, bare))
    (told,) = logged
    assert (told["worktree"], told["commits"]) == (f"{tmp_path}/tree", "rota/recovered/the-run")


async def test_a_worker_says_where_the_commits_of_a_dead_one_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "end_orphans", lambda _: (), raising=False)
    monkeypatch.setattr(runner, "clean_worktrees", cleaned, raising=False)
    await worker._tidy(Session(), tmp_path)
    assert capsys.readouterr().err == (
        f"removed what a dead worker had left: {tmp_path}/tree; its commits are kept on"
        " rota/recovered/the-run\n"
    )
