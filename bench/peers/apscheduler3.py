"""APScheduler 3, in memory and with its SQLAlchemy job store: the same measurements as for Rota."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.cell import Place

CONFIGURATION = {
    "apscheduler, memory": "BackgroundScheduler, MemoryJobStore: nothing outlives the process.",
    "apscheduler, sqlalchemy": (
        "BackgroundScheduler, SQLAlchemyJobStore; SQLite in WAL with synchronous=FULL, or"
        " PostgreSQL. There is no record of what was run."
    ),
}
_FAR = timedelta(days=300)


class Counter:
    """What jobs do. Only module-level functions, because the store pickles their names."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.left = 0
        self.done = threading.Event()
        self.late: list[float] = []

    def reset(self, left: int) -> None:
        self.left, self.late = left, []
        self.done.clear()


COUNTER = Counter()


def count() -> None:
    with COUNTER.lock:
        COUNTER.left -= 1
        if COUNTER.left == 0:
            COUNTER.done.set()


def note_lateness(slot: float) -> None:
    late = time.time() - slot
    with COUNTER.lock:
        COUNTER.late.append(late)


def make(place: Place | None) -> Any:
    from apscheduler.executors.pool import ThreadPoolExecutor
    from apscheduler.schedulers.background import BackgroundScheduler

    return BackgroundScheduler(
        jobstores={"default": _job_store(place)},
        executors={"default": ThreadPoolExecutor(20)},
        timezone=UTC,
        job_defaults={"misfire_grace_time": 3_600},
    )


def _job_store(place: Place | None) -> Any:
    if place is None:
        from apscheduler.jobstores.memory import MemoryJobStore

        return MemoryJobStore()
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from sqlalchemy import create_engine, event

    if place.url:
        engine = create_engine(place.url.replace("postgresql://", "postgresql+psycopg://"))
        return SQLAlchemyJobStore(engine=engine)
    engine = create_engine(f"sqlite:///{place.directory}/aps.db")

    def durable(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(engine, "connect", durable)

    return SQLAlchemyJobStore(engine=engine)


def idle_passes(place: Place | None, schedules: int, samples: int) -> list[float]:
    scheduler = make(place)
    first = datetime.now(UTC) + _FAR
    for n in range(schedules):
        moment = first + timedelta(seconds=n)
        scheduler.add_job(count, "interval", days=1, start_date=moment)
    scheduler.start()
    taken = []
    for _ in range(samples):
        began = time.perf_counter()
        scheduler._process_jobs()
        taken.append(time.perf_counter() - began)
    scheduler.shutdown()
    return taken


def due_at_once(place: Place | None, schedules: int) -> float:
    """All due at one moment. Timed until the last has run and its next time is stored."""
    scheduler = make(place)
    COUNTER.reset(schedules)
    now = datetime.now(UTC)
    for _ in range(schedules):
        scheduler.add_job(count, "interval", days=1, next_run_time=now)
    began = time.perf_counter()
    scheduler.start()
    COUNTER.done.wait(600)
    taken = time.perf_counter() - began
    scheduler.shutdown()
    return taken


def lateness(place: Place | None, schedules: int, seconds: float) -> list[float]:
    scheduler = make(place)
    COUNTER.reset(-1)
    scheduler.start(paused=True)
    first = time.time() + 2
    per_second = schedules / 60
    for n in range(int(per_second * seconds)):
        slot = first + n / per_second
        moment = datetime.fromtimestamp(slot, UTC)
        scheduler.add_job(note_lateness, "date", run_date=moment, args=(slot,))
    scheduler.resume()
    time.sleep(max(first + seconds + 1 - time.time(), 0))
    scheduler.shutdown()
    return COUNTER.late
