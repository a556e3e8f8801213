"""A worker frozen beyond its lease, which wakes up in the belief that its item is its own."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from rota.client import SyncWorkQueueClient
from tests.faults.history import Answers, judge, read
from tests.faults.processes import Process, Server, eventually

Start = Callable[..., Process]
LATE_WRITES = ["heartbeat", "note", "fail", "release", "patch", "complete"]
KEPT = ["fail", "release", "complete"]  # a PATCH to completed is a completion, and said twice


def freeze_one(
    client: SyncWorkQueueClient, server: Server, start: Start, number: int
) -> tuple[Process, str]:
    """A worker that took an item, was frozen, and whose lease has lapsed."""
    item_id = client.work_add("chore", f"item {number}", max_attempts=10)["id"]
    worker = start("-m", "tests.faults.worker", "frozen", server.url, f"sleeper-{number}", "1")
    assert worker.hear() == [item_id, 1]
    worker.signal(signal.SIGSTOP)
    eventually(lambda: client.work_get(item_id)["status"] == "queued", "the lease lapses")
    return worker, item_id


def wake(worker: Process) -> list[Any]:
    worker.say("go on")
    worker.signal(signal.SIGCONT)
    answers = worker.hear_all()
    assert worker.join() == 0
    return answers


def refused(answers: list[Any]) -> list[Any]:
    assert [verb for verb, _, _ in answers] == LATE_WRITES
    return [answer for answer in answers if answer[1:] != ["claim_lost", 409]]


@pytest.mark.parametrize("new_owner", ["has_completed", "is_at_work", "is_not_there_yet"])
async def test_late_writes_of_a_frozen_worker_are_refused_and_kept(
    server: Server, start: Start, database: str, new_owner: str
) -> None:
    answers = Answers()
    with SyncWorkQueueClient(server.url) as client:
        worker, item_id = freeze_one(client, server, start, 1)
        claims = []

        def take() -> None:
            claims.extend(client.claim("heir", lease_seconds=600))

        def complete() -> None:
            client.complete(item_id, claims[0]["claim"]["token"], notes="by the heir")
            answers.completed.append((item_id, claims[0]["claim"]["epoch"]))

        steps = {"is_not_there_yet": 0, "is_at_work": 1, "has_completed": 2}[new_owner]
        for step in (take, complete)[:steps]:
            step()
        late = wake(worker)
        for step in (take, complete)[steps:]:
            step()

        assert refused(late) == []
        item = client.work_get(item_id)
        assert (item["status"], item["notes"]) == ("completed", "by the heir")
        assert (item["attempts"], item["epoch"]) == (2, 2)
        assert [one["payload"]["verb"] for one in item["late_results"]] == KEPT
        assert {(one["epoch"], one["agent"]) for one in item["late_results"]} == {(1, "sleeper-1")}
    server.kill()
    assert judge(await read(database), answers).faults == []


async def test_the_loop_of_a_frozen_worker_learns_that_its_item_is_gone(
    server: Server, start: Start, database: str
) -> None:
    with SyncWorkQueueClient(server.url) as client:
        item_id = client.work_add("chore", "item")["id"]
        # Not so short that a worker loses it which only waits for its turn on a busy machine.
        worker = start("-m", "tests.faults.worker", "loop", server.url, "sleeper", "5")
        assert worker.hear() == ["took", item_id]
        worker.signal(signal.SIGSTOP)
        eventually(lambda: client.work_get(item_id)["status"] == "queued", "the lease lapses")
        (mine,) = client.claim("heir", lease_seconds=600)
        worker.say("go on")
        worker.signal(signal.SIGCONT)
        said = [worker.hear(), worker.hear()]
        assert said[0][0] == "lost"
        assert said[1] == ["accepted", False]
        client.complete(item_id, mine["claim"]["token"], notes="by the heir")
        # It is not out of order: the next item is its own.
        second = client.work_add("chore", "second")["id"]
        assert worker.hear() == ["took", second]
        worker.say("go on")
        assert [worker.hear(), worker.hear()] == [["lost", False], ["accepted", True]]
        item = client.work_get(item_id)
        assert (item["status"], item["notes"]) == ("completed", "by the heir")
        assert [one["payload"]["notes"] for one in item["late_results"]] == ["by sleeper"]
    server.kill()
    assert judge(await read(database), Answers()).faults == []


@pytest.mark.long
async def test_of_many_frozen_workers_none_is_believed(
    server: Server, start: Start, database: str, figure: Callable[[str], None]
) -> None:
    answers, freezes, accepted = Answers(), 40, 0
    with SyncWorkQueueClient(server.url) as client:
        for number in range(freezes):
            worker, item_id = freeze_one(client, server, start, number)
            (mine,) = client.claim("heir", lease_seconds=600)
            if number % 2:
                accepted += len(refused(wake(worker)))
            client.complete(item_id, mine["claim"]["token"], notes="by the heir")
            answers.completed.append((item_id, mine["claim"]["epoch"]))
            if not number % 2:
                accepted += len(refused(wake(worker)))
            assert client.work_get(item_id)["notes"] == "by the heir"
    server.kill()
    verdict = judge(await read(database), answers)
    figure(f"{freezes} freezes, {accepted} late writes accepted; {verdict}")
    assert (accepted, verdict.faults) == (0, [])
