"""Ends that cannot be recorded yet: a database that is away costs time, and nothing else."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from rota.app import make_store, open_store
from rota.model.clock import SystemClock
from rota.model.errors import StorageUnavailable
from rota.model.fleet import AgentSpec
from rota.model.schedules import Schedule, ScheduleType
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.scheduler.ending import Endings
from rota.scheduler.taking import Taken
from rota.scheduler.underway import Underway
from rota.storage.port import Transaction
from rota.testing.clock import ManualClock

POLL = Schedule("ada", "poll", ScheduleType.INTERVAL, interval=timedelta(days=1))
ADA = AgentSpec("ada", schedules=(POLL,))


class AwayFor(Endings):
    """Its database does not answer so many times."""

    def __init__(self, times: int, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.times = times

    async def record(self, info: TriggerInfo, outcome: TriggerOutcome) -> bool:
        if self.times:
            self.times -= 1
            raise StorageUnavailable("the disk is full")
        return await super().record(info, outcome)


async def test_an_end_is_recorded_when_the_database_is_back(tmp_path: Path) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1")
        scheduler._underway = underway = Underway(
            scheduler._underway._on_trigger,
            AwayFor(3, store, SystemClock()),
            scheduler.wake,
            pause,
        )
        await scheduler.open([ADA])
        with structlog.testing.capture_logs() as logged:
            await scheduler.tick()
            await underway.idle()
        assert len(pauses) == 3
        assert {one["event"] for one in logged} == {"the end of a trigger is not recorded yet"}
        state = await store.read(lambda tx: tx.schedule_state("ada", "poll", ""))
        assert state is not None
        assert state.last_completed_at is not None
        await scheduler.stop()


@pytest.mark.parametrize("at_work", [False, True])
async def test_a_scheduler_that_stops_does_not_wait_for_ever(tmp_path: Path, at_work: bool) -> None:
    async def work(_info: TriggerInfo) -> None:
        if at_work:
            await asyncio.Event().wait()

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1")
        endless = AwayFor(10**9, store, SystemClock())
        scheduler._underway = Underway(work, endless, scheduler.wake, asyncio.sleep)
        await scheduler.open([ADA])
        await scheduler.tick()
        await asyncio.sleep(0)
        await scheduler.stop(wait_for_jobs=False)
        record = await store.read(lambda tx: tx.schedule_state("ada", "poll", ""))
        assert record is not None
        assert (record.running, record.last_completed_at) == (0, None)
        assert scheduler.get_total_running_job_count() == 0


async def test_a_scheduler_that_was_stopped_and_started_waits_for_the_database_again(
    tmp_path: Path,
) -> None:
    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1")
        scheduler._underway = underway = Underway(
            scheduler._underway._on_trigger, AwayFor(2, store, SystemClock()), scheduler.wake, pause
        )
        await scheduler.open([ADA])
        await scheduler.stop()
        await scheduler.open([ADA])
        await scheduler.tick()
        await underway.idle()
        state = await store.read(lambda tx: tx.schedule_state("ada", "poll", ""))
        assert state is not None
        assert state.last_completed_at is not None
        await scheduler.stop()


async def test_a_job_that_does_not_heed_its_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.scheduler.underway.CANCEL_SECONDS", 0.05)
    let_go = asyncio.Event()

    async def deaf(_info: TriggerInfo) -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1", on_trigger=deaf)
        await scheduler.open([ADA])
        await scheduler.tick()
        stopping = asyncio.create_task(scheduler.stop(wait_for_jobs=False))
        done, _ = await asyncio.wait([stopping], timeout=20)
        let_go.set()
        await stopping
        assert done
        await scheduler.idle()


async def test_what_a_check_has_taken_is_waited_for_by_who_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written down as taken, and has not begun, when somebody wants an end."""
    ended: list[str] = []

    async def work(info: TriggerInfo) -> None:
        await asyncio.sleep(0)
        ended.append(info.schedule.name)

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1", on_trigger=work)
        await scheduler.open([ADA])
        honest, has_taken, let_go = store.transact, asyncio.Event(), asyncio.Event()

        async def slow(body: Callable[[Transaction], Any]) -> Any:
            taken = await honest(body)
            if isinstance(taken, Taken):
                has_taken.set()
                await let_go.wait()
            return taken

        monkeypatch.setattr(store, "transact", lambda body: asyncio.ensure_future(slow(body)))
        checking = asyncio.create_task(scheduler.tick())
        async with asyncio.timeout(20):
            await has_taken.wait()
        stopping = asyncio.create_task(scheduler.stop())
        assert not (await asyncio.wait([stopping], timeout=0.05))[0]
        let_go.set()
        await stopping
        assert ended == ["poll"]
        await checking


async def test_the_loop_outlives_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = asyncio.Event()

    async def note(_info: TriggerInfo) -> None:
        ran.set()

    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1", on_trigger=note, sleep=pause)
        await scheduler.open([ADA])
        honest, errors = store.transact, iter([ZeroDivisionError("ours")])

        async def faulty(body: Callable[[Transaction], Any]) -> Any:
            for error in errors:
                raise error
            return await honest(body)

        monkeypatch.setattr(store, "transact", lambda body: asyncio.ensure_future(faulty(body)))
        with structlog.testing.capture_logs() as logged:
            running = asyncio.create_task(scheduler.run(stopping := asyncio.Event()))
            async with asyncio.timeout(20):
                await ran.wait()
            stopping.set()
            await running
        assert "scheduler failed to check" in {one["event"] for one in logged}
        await scheduler.stop()


async def test_the_loop_goes_on_when_the_database_is_back(tmp_path: Path) -> None:
    store = make_store(str(tmp_path / "rota.db"))
    await store.open()
    pauses: list[float] = []
    back = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if seconds == 5.0:
            await store.open()
            back.set()
        await asyncio.sleep(0)

    ran = asyncio.Event()

    async def note(_info: TriggerInfo) -> None:
        ran.set()

    scheduler = Scheduler(store, node="n1", on_trigger=note, sleep=pause)
    await scheduler.open([ADA])
    await store.close()
    with structlog.testing.capture_logs() as logged:
        running = asyncio.create_task(scheduler.run(stopping := asyncio.Event()))
        async with asyncio.timeout(20):
            await back.wait()
            await ran.wait()
        stopping.set()
        await running
    assert "scheduler waits for the database" in {one["event"] for one in logged}
    await scheduler.stop()
    await store.close()


@pytest.mark.parametrize("file", [[AgentSpec("ada")], []], ids=["no schedule", "no agent"])
async def test_a_reload_in_the_middle_of_a_check_costs_no_trigger(
    tmp_path: Path, file: list[AgentSpec]
) -> None:
    clock, ran = ManualClock(), list[str]()

    async def note(info: TriggerInfo) -> None:
        ran.append(info.schedule.name)

    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1", clock=clock, on_trigger=note)
        quick = replace(POLL, interval=timedelta(seconds=3))
        await scheduler.open([AgentSpec("ada", schedules=(quick,))])
        await scheduler.tick()
        await scheduler.idle()
        clock.advance(3)
        # On SQLite a check gives way to others for the first time when it takes what is due.
        await asyncio.gather(scheduler.tick(), scheduler.set_agents(file))
        await scheduler.idle()
        assert ran == ["poll", "poll"]
        await scheduler.stop()


@pytest.mark.parametrize("seconds", [0.0, 0.2])
async def test_a_pause_is_cut_short_by_waking(tmp_path: Path, seconds: float) -> None:
    async with open_store(str(tmp_path / "rota.db")) as store:
        scheduler = Scheduler(store, node="n1", check_interval=3_600.0)
        await scheduler.start([AgentSpec("ada")])
        async with asyncio.timeout(20):
            while scheduler.get_state().check_count < 3:
                scheduler.wake()
                await asyncio.sleep(seconds)
        await scheduler.stop()
