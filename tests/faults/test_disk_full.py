"""A disk that is full and has space again: no false answer, reads go on, no restart is needed."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.model.clock import SystemClock
from rota.model.errors import StorageUnavailable
from rota.runner.logs import RunLog, append, tail
from rota.runner.redaction import NOTHING
from rota.testing import audit
from tests.acceptance.terminal import Terminal
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


def test_a_command_that_opens_the_ledger_on_a_full_disk_says_that_it_is_full(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        here = Terminal(disk)
        here.type("add", "Before")
        ballast = fill(disk)
        for words in (("add", "Meanwhile"), ("list",)):
            said = here.json(*words, code=6)["message"]
            assert "the disk is full; free some space and try again" in said, words
        ballast.unlink()
        assert [one["description"] for one in here.json("list")] == ["Before"]


async def test_the_log_of_a_run_has_whole_lines_though_its_disk_was_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        path = disk / "log"
        log = RunLog(path, 1024 * 1024, NOTHING, SystemClock())
        log.open()
        with log:
            log.say("first")
            ballast = fill(disk)
            log.write([{"text": "torn " * 2000}, {"text": "lost"}])
            follower = tail(path, follow=True, pause=lambda _: asyncio.sleep(0))
            seen = [await anext(follower)]
            assert seen[0][0] < path.stat().st_size, "half a line, as far as there was space"
            log.say("nobody reads this")
            ballast.unlink()
            log.say("there is space again")
            async with asyncio.timeout(10):
                seen += [await anext(follower), await anext(follower)]
        await follower.aclose()
        lines = [json.loads(line)["text"] for line in path.read_bytes().splitlines()]
    assert lines[:3] == ["first", "torn " * 2000, "there is space again"]
    assert [json.loads(line)["text"] for _, line in seen] == lines[:3]
    assert lines[3].endswith("bytes of output were dropped here")


def test_a_piece_of_a_log_that_found_no_space_can_be_sent_again(tmp_path: Path) -> None:
    line = json.dumps({"text": "x" * 10_000}).encode() + b"\n"
    with small_disk(tmp_path / "disk", "64k") as disk:
        path = disk / "log"
        assert append(path, 0, line, limit=10**6) == len(line)
        ballast = fill(disk)
        with pytest.raises(StorageUnavailable, match="No space left on device"):
            append(path, len(line), line * 2, limit=10**6)
        assert not path.read_bytes().endswith(b"\n"), "half a line, as far as there was space"
        ballast.unlink()
        assert append(path, len(line), line * 2, limit=10**6) == len(line) * 3
        assert path.read_bytes() == line * 3
