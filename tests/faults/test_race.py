"""Many processes on one queue: every item is done once, and nobody sleeps beside work."""

import random
import time
from collections import Counter
from collections.abc import Callable

import anyio
import pytest

from rota.model.status import Status
from rota.model.work import NewItem
from rota.queue import WorkQueue
from rota.storage.port import Store
from tests.faults.history import Answers, judge, read
from tests.faults.processes import Process
from tests.faults.worker import STOP, opened

# Two processes each; those with one slot get in each other's way all the time.
AGENTS = {"ada": 8, "bob": 6, "cleo": 1, "dan": 1}
STUCK_SECONDS = 40.0  # less than a claim waits

Start = Callable[..., Process]
Figure = Callable[[str], None]


@pytest.mark.early
async def test_eight_processes_complete_every_item_exactly_once(
    database: str, start: Start, figure: Figure
) -> None:
    await run_race(database, start, figure, items=2_000, single=20, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
async def test_eight_processes_complete_ten_thousand_items(
    database: str, start: Start, figure: Figure, seed: int
) -> None:
    await run_race(database, start, figure, items=10_000, single=200, seed=seed)


async def run_race(
    database: str, start: Start, figure: Figure, *, items: int, single: int, seed: int
) -> None:
    dice = random.Random(seed)
    answers = Answers()
    async with opened(database) as store:
        queue = WorkQueue(store)
        for agent, slots in AGENTS.items():
            await queue.set_agent(agent, max_concurrent=slots)
        workers = [
            start("-m", "tests.faults.worker", "race", database, agent, str(limit))
            for agent in AGENTS
            for limit in (1, 5)
        ]
        for worker in workers:
            assert worker.hear() == "ready"
        began = time.perf_counter()
        await submit_all(queue, answers, items, dice)
        await all_done(store, items)
        seconds = time.perf_counter() - began
        slowest = 0.0
        for n in range(single):  # everybody sleeps now: each must wake somebody
            asked = time.perf_counter()
            await submit(queue, answers, [f"single {n}"])
            await all_done(store, items + n + 1)
            slowest = max(slowest, time.perf_counter() - asked)
        done = items + single
        for _ in range(2):  # one stop for each process of an agent, and it must wake that agent
            for agent in AGENTS:
                await queue.submit(NewItem(STOP, f"stop {done}", assigned_agent=agent))
                done += 1
            await all_done(store, done)
    shares = []
    for worker in workers:
        said = worker.hear_all()
        assert worker.join() == 0
        shares.append(len(said))
        answers.completed += [(item, epoch) for item, epoch in said]
    verdict = judge(await read(database), answers)
    figure(
        f"{verdict}; {items / seconds:,.0f} items/s by {len(workers)} processes, shares"
        f" {min(shares)} to {max(shares)}; slowest wake-up {slowest * 1000:.0f} ms"
    )
    assert verdict.faults == []
    assert len(answers.completed) == done == verdict.items
    assert set(Counter(item for item, _ in answers.completed).values()) == {1}


async def submit(queue: WorkQueue, answers: Answers, keys: list[str]) -> None:
    stored = await queue.submit_many([NewItem("chore", key) for key in keys], actor="race")
    answers.submitted += [(item.description, item.id) for item in stored.items]


async def submit_all(queue: WorkQueue, answers: Answers, count: int, dice: random.Random) -> None:
    """In batches of many sizes, so that the workers run dry now and then."""
    keys = [f"item {n}" for n in range(count)]
    while keys:
        size = dice.choice((1, 1, 5, 30, 100))
        batch, keys = keys[:size], keys[size:]
        await submit(queue, answers, batch)


async def all_done(store: Store, count: int) -> None:
    """Until so many are completed. Fails when nothing moves although work is there."""
    before, moved = -1, time.monotonic()
    while (done := await completed(store)) < count:
        if done != before:
            before, moved = done, time.monotonic()
        if time.monotonic() - moved > STUCK_SECONDS:
            pytest.fail(f"{done} of {count} are completed, and nobody wakes up for the rest")
        await anyio.sleep(0.01)


async def completed(store: Store) -> int:
    counts = await store.read(lambda tx: tx.count_by_status())
    return counts[Status.COMPLETED]
