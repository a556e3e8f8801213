"""kill -9: of the server under load, and of a worker that holds claims."""

import random
import threading
from collections.abc import Callable

import pytest

from rota.client import SyncWorkQueueClient
from tests.faults.history import Answers, judge, read
from tests.faults.load import Load
from tests.faults.processes import Process, Server

Start = Callable[..., Process]
Figure = Callable[[str], None]


@pytest.mark.early
async def test_a_killed_server_has_lost_doubled_and_undone_nothing(
    server: Server, database: str, figure: Figure
) -> None:
    await kill_under_load(server, database, figure, items=400, kills=4, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_a_server_that_is_killed_forty_times(
    server: Server, database: str, figure: Figure, seed: int
) -> None:
    await kill_under_load(server, database, figure, items=8_000, kills=40, seed=seed)


async def kill_under_load(
    server: Server, database: str, figure: Figure, *, items: int, kills: int, seed: int
) -> None:
    dice = random.Random(seed)
    with Load(server.url, items=items) as load:
        for kill in range(kills):
            # Somewhere within its share of all answers, and then at any point of a request.
            load.wait_until_told(int(2 * items * (kill + dice.uniform(0.3, 0.9)) / kills))
            threading.Event().wait(dice.uniform(0, 0.02))
            server.kill()
            server.start()
        load.wait_until_done(60 + items / 50)
    server.kill()
    verdict = judge(await read(database), load.answers)
    figure(
        f"{items} items × {kills} kills: {verdict}; {len(load.answers.seen)} observations,"
        f" {load.unanswered} claims without an answer, {len(load.refused)} late results refused"
    )
    assert verdict.faults == []
    assert verdict.items == items == len(load.answers.submitted)


def test_a_killed_workers_items_come_back_and_are_completed_once(
    server: Server, start: Start
) -> None:
    with SyncWorkQueueClient(server.url) as client:
        client.set_agent("doomed", max_concurrent=5)
        client.set_agent("heir", max_concurrent=5)
        items = [client.work_add("chore", f"item {n}")["id"] for n in range(5)]
        worker = start("-m", "tests.faults.worker", "hold", server.url, "doomed", "5", "1")
        assert worker.hear() == [[item, 1] for item in items]
        worker.kill()

        completed = []
        while len(completed) < 5:
            taken = client.claim("heir", limit=5, lease_seconds=600, wait_seconds=20)
            assert taken, "the items of the dead worker did not come back"
            completed += [(item["id"], item["claim"]["epoch"]) for item in taken]
            for item in taken:
                client.complete(item["id"], item["claim"]["token"])

        assert sorted(completed) == [(item, 2) for item in items]
        for item_id in items:
            item = client.work_get(item_id)
            assert (item["status"], item["attempts"], item["late_results"]) == ("completed", 2, [])
            released = [e for e in item["events"] if e["type"] == "work.released"]
            assert [event["reason"] for event in released] == ["lease_expired"]


async def test_an_item_whose_workers_all_die_fails_when_its_attempts_are_spent(
    server: Server, start: Start, database: str
) -> None:
    with SyncWorkQueueClient(server.url) as client:
        item_id = client.work_add("chore", "deadly", max_attempts=2)["id"]
        for attempt in (1, 2):
            worker = start("-m", "tests.faults.worker", "hold", server.url, "doomed", "1", "1")
            assert worker.hear() == [[item_id, attempt]]
            worker.kill()
            expected = "queued" if attempt == 1 else "failed"
            while (item := client.work_get(item_id))["status"] == "in_progress":
                client.claim("nobody", wait_seconds=1, types=["other"])
            assert item["status"] == expected
        assert item["reason"] == "attempts_exhausted"
    server.kill()
    assert judge(await read(database), Answers()).faults == []


def test_a_second_server_on_the_same_state_directory_is_refused(server: Server) -> None:
    second = Server(server.home, server.database)
    with pytest.raises(RuntimeError, match="already runs on"):
        second.start()
    with SyncWorkQueueClient(server.url) as client:
        assert client.work_add("chore", "still here")["status"] == "queued"
