"""A node of a fleet on a clock that the test moves: `python -m tests.faults.schedule_node …`."""

import asyncio
import os
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rota.model.clock import IdFactory, SystemClock
from rota.model.fleet import AgentSpec
from rota.model.schedules import CatchUp, Schedule, ScheduleType, Trigger
from rota.scheduler import Scheduler, TriggerInfo
from rota.storage import postgres, postgres_transaction
from rota.storage.schedule_port import DueSchedule, Place
from tests.faults.worker import opened, say

START = datetime(2026, 3, 28, 20, tzinfo=UTC)  # a few hours before summer time begins in Berlin
SCHEDULES = 200
RHYTHMS = (
    ("*/10 * * * *", "UTC"),
    ("0 * * * *", "Europe/Berlin"),
    ("30 2 * * *", "Europe/Berlin"),
    ("*/20 * * * *", "Australia/Lord_Howe"),
    ("15,45 * * * *", "America/New_York"),
)


def agents(policy: str) -> list[AgentSpec]:
    """Twenty agents with ten schedules each."""
    return [
        AgentSpec(
            f"agent-{a}",
            schedules=tuple(schedule(a, s, policy) for s in range(SCHEDULES // 20)),
            max_concurrent=100,
        )
        for a in range(20)
    ]


def schedule(agent: int, number: int, policy: str) -> Schedule:
    text, zone = RHYTHMS[number % len(RHYTHMS)]
    return Schedule(
        f"agent-{agent}",
        f"s{number}",
        ScheduleType.CRON,
        cron=text,
        timezone=zone,
        catch_up=CatchUp(policy),
    )


@dataclass(frozen=True)
class FileClock:
    """Shows what the test has written."""

    path: Path

    def now(self) -> datetime:
        return datetime.fromisoformat(self.path.read_text())

    def set(self, moment: datetime) -> None:
        """Atomically, so that nobody reads half a time."""
        new = self.path.with_suffix(".new")
        new.write_text(moment.isoformat())
        new.replace(self.path)


AHEAD_OF_ALL = (
    "SELECT agent, name, definition, slot, next_at FROM schedules WHERE next_at IS NOT NULL"
)


class Careless(postgres_transaction.PostgresTransaction):
    """The planted bug: nothing is locked, open triggers of others are ignored, and a slot that was
    triggered already counts as new."""

    def due_schedules(self, now: str, beyond: Place, limit: int) -> list[DueSchedule]:
        found = [row for row in self._text(AHEAD_OF_ALL, {}) if row[4] <= now]
        return [DueSchedule(*row) for row in found[:limit]]

    def lock_agents(self, agents: Iterable[str]) -> None:
        pass

    def open_triggers(self, agents: Iterable[str]) -> dict[tuple[str, str], int]:
        return {}

    def insert_triggers(self, triggers: Sequence[Trigger]) -> set[str]:
        super().insert_triggers(triggers)
        return {one.id for one in triggers}


def forget_the_guards() -> None:
    postgres.PostgresTransaction = Careless  # type: ignore[misc]


async def main(url: str, place: str, *rest: str) -> None:
    clock, log, policy, bug = rest
    if bug == "guards":
        forget_the_guards()
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    dice = random.Random()

    async def run(info: TriggerInfo) -> None:
        trigger = info.trigger
        os.write(written, f"{trigger.agent}/{trigger.schedule} {trigger.slot}\n".encode())
        await asyncio.sleep(dice.uniform(0, 0.03))  # so that kills hit runs

    async with opened(url) as store:
        scheduler = Scheduler(
            store,
            node=IdFactory(SystemClock()).new(),
            place=place,
            clock=FileClock(Path(clock)),
            on_trigger=run,
            check_interval=0.01,
        )
        await scheduler.start(agents(policy))
        say("ready")
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
