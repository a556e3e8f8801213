"""A server that dies at its first commit, at its second, and so on, until an item has gone all the
way from its source to its report without reaching that point: its successor brings it home."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.app import open_store
from rota.journey import Journey
from rota.model.events import EventType
from rota.model.fleet import AgentSpec, Fleet, Retry
from rota.model.runs import Run, RunEnd, RunFilter, RunStatus
from rota.model.schedules import Schedule, ScheduleType
from rota.model.status import Status
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.queue.recovery import Recovery
from rota.runner.admission import Admission
from rota.runner.port import RunRequest
from rota.runner.records import RunBook
from rota.scheduler import Scheduler
from rota.sources.manager import WorkSourceManager
from rota.sources.outbox import Outbox
from rota.sources.registry import SourceContext
from rota.storage.port import Store, Transaction
from rota.testing import audit
from rota.testing.clock import ManualClock

Figure = Callable[[str], None]
LEASE = 60.0
EVERY = timedelta(minutes=5)
OFTEN = Schedule("smith", "often", ScheduleType.INTERVAL, interval=EVERY, prompt="Mend it.")
SMITH = AgentSpec(
    "smith",
    schedules=(OFTEN,),
    work_source={"type": "queue", "lease_seconds": LEASE},
    retry=Retry(max_attempts=9),
)


class MortalStore:
    """Dies at its n-th commit: just before it, or just after, when nobody hears the answer. From
    then on nothing comes back to whoever asks: the dead hear nothing."""

    def __init__(self, store: Store, point: int, *, after: bool) -> None:
        self._store = store
        self._left = point
        self._after = after
        self.dead = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, body: Callable[[Transaction], Any]) -> "asyncio.Future[Any]":
        if self._left > 1:
            self._left -= 1
            return self._store.transact(body)
        if self._left == 1:
            self._left = 0
            self._dying = asyncio.ensure_future(self._die(body))
        return asyncio.get_running_loop().create_future()

    async def _die(self, body: Callable[[Transaction], Any]) -> None:
        if self._after:
            await self._store.transact(body)
        self.dead.set()

    async def read(self, body: Callable[[Transaction], Any], *, long: bool = False) -> Any:
        if self.dead.is_set():
            await asyncio.Future()
        return await self._store.read(body, long=long)


@dataclass
class Agent:
    """The one that works: it needs no time, and always succeeds."""

    starts: int = 0

    async def execute(self, request: RunRequest) -> RunEnd:
        self.starts += 1
        return RunEnd(RunStatus.SUCCEEDED, "Mended.")


async def live(store: Any, clock: ManualClock, node: str, logs: Path, agent: Agent) -> None:
    """What a server does from its start on, until nothing is left to do."""
    ledger = Ledger.on(store, node=node, logs=logs)
    context = SourceContext(ledger=ledger, clock=clock)
    async with WorkSourceManager(context) as sources:
        outbox = Outbox(store, ledger, sources)
        admission = Admission(store)
        journey = Journey(sources, ledger, admission, agent, outbox, Fleet)
        scheduler = Scheduler(
            store, node=node, place="here", on_trigger=journey.travel, clock=clock
        )
        recovery = Recovery(ledger, "here")
        await scheduler.open([SMITH])
        await recovery.tick()
        await outbox.resume()
        for _ in range(4):
            await scheduler.tick()
            await scheduler.idle()
            await outbox.tick()
            await recovery.tick()
            await ledger.sweeper.tick()
            clock.advance(EVERY.total_seconds() + 1)
        await scheduler.stop()


async def died(mortal: MortalStore, life: Coroutine[Any, Any, None]) -> bool:
    """Lead a life until it ends, one way or the other; whatever it had begun goes with it."""
    others = asyncio.all_tasks()
    living, dying = asyncio.ensure_future(life), asyncio.ensure_future(mortal.dead.wait())
    async with asyncio.timeout(60):
        await asyncio.wait([living, dying], return_when=asyncio.FIRST_COMPLETED)
    while left := asyncio.all_tasks() - others:  # some would still wait for others in their end
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.01)
    if not mortal.dead.is_set():
        living.result()
    return mortal.dead.is_set()


async def wrongs(store: Store, item_id: str) -> list[str]:
    def look(tx: Transaction) -> list[str]:
        (record,) = [one for one in audit.read_ledger(tx) if one.item.id == item_id]
        runs = tx.list_runs(RunFilter(work_item_id=item_id), 100)
        completed = [one for one in record.events if one.type == EventType.COMPLETED]
        succeeded = [one for one in runs if one.status is RunStatus.SUCCEEDED]
        found = {
            "not completed": record.item.status is not Status.COMPLETED,
            "not completed once": len(completed) != 1,
            "not succeeded once": len(succeeded) != 1,
            "runs without an end": any(one.ended_at is None for one in runs),
            "reports that wait": tx.list_post(buried=False, limit=1) != [],
            "the ledger disagrees with itself": audit.faults([record]) != [],
        }
        return [name for name, is_so in found.items() if is_so]

    return await store.read(look, long=True)


async def die_everywhere(database: str, logs: Path) -> tuple[int, list[str]]:
    clock, points, found, agent = ManualClock(), 0, [], Agent()
    async with open_store(database, clock) as store:
        for after in (False, True):
            reached, step = True, 0
            while reached:
                step += 1
                queue = Ledger.on(store).queue
                item = await queue.submit(NewItem("chore", "Mend the gate", max_attempts=9))
                mortal, name = MortalStore(store, step, after=after), f"{after}-{step}"
                reached = await died(mortal, live(mortal, clock, name, logs, agent))
                points += reached
                clock.advance(LEASE + 1)
                await live(store, clock, f"heir of {name}", logs, agent)
                found += [f"{name}: {one}" for one in await wrongs(store, item.id)]
    return points, found


async def test_a_server_that_dies_at_any_commit_loses_and_doubles_nothing(
    database: str, tmp_path: Path, figure: Figure
) -> None:
    points, found = await die_everywhere(database, tmp_path / "runs")
    figure(f"{points} points of death, {len(found)} violations")
    assert found == []
    assert points > 20


async def test_a_server_that_ends_a_run_before_it_writes_down_the_report_would_be_found_out(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = RunBook.end

    async def apart(
        self: RunBook, run: Run, end: RunEnd, agent: Any = None, letters: Any = ()
    ) -> Run | None:
        ended = await together(self, run, end, agent)

        def post(tx: Transaction) -> None:
            for letter in letters:
                tx.post(letter)

        await self._store.transact(post)
        return ended

    monkeypatch.setattr(RunBook, "end", apart)
    _, found = await die_everywhere(database, tmp_path / "runs")
    assert any("not succeeded once" in one for one in found)
