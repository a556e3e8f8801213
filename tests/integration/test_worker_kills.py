"""Workers that are killed at any moment: nothing is lost, and nothing is done twice over."""

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Process, Server, eventually, processes
from tests.integration.runner_stage import processes_with
from tests.integration.workers import Yard, heard

Start = Callable[..., Process]

KILLS, SLOTS = 5, 2


@pytest.fixture
def yard(tmp_path: Path, database: str) -> Iterator[Yard]:
    path = tmp_path / "yard"
    path.mkdir()
    server = Server(tmp_path / "server", database)
    server.start()
    with processes() as start:
        yard = Yard(path, server, start)
        yield yard
        yard.close()
    server.kill()


@pytest.mark.early
@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
def test_killed_workers_lose_no_item_and_complete_none_twice(
    yard: Yard, figure: Callable[[str], None]
) -> None:
    chance = random.Random(4711)
    yard.configure(attempts=100)  # of its agent: a kill costs one
    yard.client.set_agent("ann", max_concurrent=SLOTS)
    options = ("--slots", str(SLOTS), "--lease", "2s")
    items = []
    worker = yard.worker(*options)
    for number in range(KILLS):
        items += [yard.add(f"SAY {number}", max_attempts=100) for _ in range(SLOTS)]
        run = heard(worker, "started")["run_id"]
        if chance.random() < 0.5:  # after its end was recorded, about when the verdict is given
            eventually(lambda run=run: yard.client.get_run(run)["ended_at"], "its end")  # type: ignore[misc]
        worker.signal(signal.SIGKILL)
        worker.join()
        worker = yard.worker(*options)
    eventually(
        lambda: {yard.item(item)["status"] for item in items} == {"completed"}, "all of them", 90
    )
    worker.signal(signal.SIGTERM)
    assert worker.join() == 0
    events = yard.client.events(types=["work.completed"], limit=1000)
    completions = Counter(event["work_item_id"] for event in events)
    assert completions == Counter(items)
    runs = yard.client.list_runs()
    cut = [run for run in runs if run["status"] != "succeeded"]
    assert len(cut) <= KILLS * SLOTS, "only those of the killed are not known to have ended"
    eventually(lambda: not processes_with(str(yard.path / "agent.py")), "no agent is left")
    figure(
        f"{len(items)} items × {KILLS} workers killed: 0 lost, 0 completed twice, {len(runs)} runs,"
        f" {len(cut)} cut short"
    )
