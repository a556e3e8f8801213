"""Nodes of a fleet that check when a test tells them to, and the agents they wake."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rota.model.fleet import AgentSpec
from rota.model.schedules import Schedule, ScheduleState, ScheduleType, Trigger
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.storage.port import Store

PATIENCE = 20.0


def every(minutes: float = 5, name: str = "poll", agent: str = "ada", **values: Any) -> Schedule:
    interval = timedelta(minutes=minutes)
    return Schedule(agent, name, ScheduleType.INTERVAL, interval=interval, **values)


def cron(text: str = "*/10 * * * *", name: str = "clock", **values: Any) -> Schedule:
    return Schedule("ada", name, ScheduleType.CRON, cron=text, **values)


def agent(*schedules: Schedule, name: str = "ada", room: int = 100) -> AgentSpec:
    return AgentSpec(
        name, schedules=tuple(replace(s, agent=name) for s in schedules), max_concurrent=room
    )


class Stage:
    """Runs agents: each stays until the test lets it go."""

    def __init__(self) -> None:
        self.came: list[Trigger] = []
        self.stays = False
        self.answer: TriggerOutcome | Exception | None = None
        self._doors: dict[str, asyncio.Event] = {}
        self._entered = asyncio.Event()

    async def __call__(self, info: TriggerInfo) -> TriggerOutcome | None:
        self.came.append(info.trigger)
        self._entered.set()
        if self.stays:
            door = self._doors[info.trigger.id] = asyncio.Event()
            await door.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def slots(self, name: str | None = None) -> list[str]:
        return [one.slot for one in self.came if name is None or one.schedule == name]

    def send_off(self) -> None:
        for door in self._doors.values():
            door.set()


class Node:
    """A scheduler that checks when it is told to."""

    def __init__(self, scheduler: Scheduler, stage: Stage) -> None:
        self.scheduler = scheduler
        self.stage = stage

    async def tick(self) -> float:
        """One check; what it started then runs to its end, unless it stays."""
        pause = await self.scheduler.tick()
        await asyncio.sleep(0)
        if not self.stage.stays:
            await self.settle()
        return pause

    async def settle(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.scheduler.idle()


class Pulse:
    """A sleep that ends when the test wants it to."""

    def __init__(self) -> None:
        self._asleep, self._over = asyncio.Event(), asyncio.Event()

    async def sleep(self, _seconds: float) -> None:
        self._over.clear()
        self._asleep.set()
        await self._over.wait()

    async def beat(self) -> None:
        """Lets the sleeper do its work until it sleeps again."""
        self._asleep.clear()
        self._over.set()
        async with asyncio.timeout(PATIENCE):
            await self._asleep.wait()


NewNode = Callable[..., Awaitable[Node]]


async def state(store: Store, name: str = "poll", who: str = "ada") -> ScheduleState:
    found = await store.read(lambda tx: tx.schedule_state(who, name, ""))
    assert found is not None
    return found
