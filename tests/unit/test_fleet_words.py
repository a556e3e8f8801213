"""What a fleet says of itself in the log and to people."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from rota.app import fleet
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


async def test_a_worktree_that_was_left_is_logged_with_where_its_commits_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cleaned(*_: object, **__: object) -> tuple[Removed, ...]:
        return (Removed(tmp_path / "tree", "rota/recovered/the-run"),)

    monkeypatch.setattr(fleet, "end_orphans", lambda _: ())
    monkeypatch.setattr(fleet, "clean_worktrees", cleaned)
    bare: Any = SimpleNamespace(_settings=SimpleNamespace(state_dir=tmp_path))
    with capture_logs() as logged:
        await fleet.FleetAtWork._tidy(cast(fleet.FleetAtWork, bare))
    (told,) = logged
    assert (told["worktree"], told["commits"]) == (f"{tmp_path}/tree", "rota/recovered/the-run")
