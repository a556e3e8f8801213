"""A disk that is full and has space again: no false answer, reads go on, no restart is needed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.testing import audit
from tests.faults.asking import demand_unavailable, post, stored
from tests.faults.history import read
from tests.faults.processes import fill, serving, small_disk


def test_a_running_server_answers_503_on_a_full_disk_and_recovers(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    fill_and_free(tmp_path, cycles=3, figure=figure)


@pytest.mark.long
def test_a_disk_that_is_full_forty_times(tmp_path: Path, figure: Callable[[str], None]) -> None:
    fill_and_free(tmp_path, cycles=40, figure=figure)


def fill_and_free(tmp_path: Path, cycles: int, figure: Callable[[str], None]) -> None:
    acknowledged: set[str] = set()
    refused: set[str] = set()
    with (
        small_disk(tmp_path / "disk", "16m") as disk,
        serving(tmp_path / "state", str(disk / "rota.db")) as server,
    ):
        number = 0

        def submit() -> bool:
            nonlocal number
            number += 1
            answer = post(server, f"item-{number}")
            if answer.status_code == 201:
                acknowledged.add(f"item-{number}")
                return True
            demand_unavailable(answer, "the disk is full", "no restart is needed")
            refused.add(f"item-{number}")
            return False

        for _ in range(cycles):
            for _ in range(5):
                assert submit()
            ballast = fill(disk)
            # What is left in a block that is there already may still be used.
            for _ in range(200):
                if not submit():
                    break
            else:
                pytest.fail("the disk is full and everything is acknowledged")
            assert not submit()
            assert stored(server) == acknowledged, "reads stay up, and tell the truth"
            ballast.unlink()
            assert submit(), "recovers without a restart"
        again = sorted(refused)[0]
        assert post(server, again).status_code == 201  # the same key, stored now
        acknowledged.add(again)
        assert stored(server) == acknowledged
        server.kill()
        records = asyncio.run(read(str(disk / "rota.db"))).records
        assert audit.faults(records) == []
        assert {record.item.description for record in records} == acknowledged
        assert "Traceback" not in server.log
    figure(
        f"{cycles} times full and back: {len(acknowledged)} acknowledged and stored,"
        f" {len(refused)} refused, 0 falsely acknowledged"
    )
