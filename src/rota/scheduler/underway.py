"""The triggers under way on this node: runs them side by side and records their ends."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from rota.model.errors import StorageError
from rota.model.runs import RunStatus
from rota.scheduler.ending import Endings
from rota.scheduler.triggering import OnTrigger, TriggerInfo, TriggerOutcome

log = structlog.get_logger()

RETRY_SECONDS = 5.0
CANCEL_SECONDS = 5.0  # for a cancelled callback to end


class Underway:
    def __init__(
        self,
        on_trigger: OnTrigger,
        endings: Endings,
        ended: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`ended` is called whenever a trigger has ended, because there is room then."""
        self._on_trigger = on_trigger
        self._endings = endings
        self._on_end = ended
        self._sleep = sleep
        self._tasks: dict[asyncio.Task[None], TriggerInfo] = {}
        self._draining = False

    def __len__(self) -> int:
        return len(self._tasks)

    def by_agent(self) -> Counter[str]:
        return Counter(info.agent.name for info in self._tasks.values())

    def ids(self) -> set[str]:
        return {info.trigger.id for info in self._tasks.values()}

    def begin(self, info: TriggerInfo) -> None:
        task = asyncio.create_task(self._carry_out(info), name=f"trigger {info.trigger.id}")
        self._tasks[task] = info
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._on_end()

    async def idle(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def drain(self, seconds: float) -> int:
        """Wait this long, then cancel the rest; returns how many were cancelled."""
        self._draining = True
        try:
            return await self._drain(seconds)
        finally:
            self._draining = False

    async def _drain(self, seconds: float) -> int:
        if not self._tasks:
            return 0
        _, late = await asyncio.wait(self._tasks, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=CANCEL_SECONDS)
        return len(late)

    async def _carry_out(self, info: TriggerInfo) -> None:
        try:
            outcome = await self._on_trigger(info) or TriggerOutcome(RunStatus.SUCCEEDED)
        except asyncio.CancelledError:
            outcome = TriggerOutcome(RunStatus.CANCELLED, error="the scheduler was stopped")
        except Exception as error:
            log.exception("trigger failed", agent=info.agent.name, schedule=info.schedule.name)
            outcome = TriggerOutcome(RunStatus.FAILED, error=f"{type(error).__name__}: {error}")
        await self._record(info, outcome)

    async def _record(self, info: TriggerInfo, outcome: TriggerOutcome) -> None:
        """Tries until the database answers. If it stays away, another node ends the trigger as
        lost."""
        while True:
            try:
                counted = await self._endings.record(info, outcome)
            except StorageError as error:
                log.warning("the end of a trigger is not recorded yet", error=error.message)
                if self._draining:
                    return
                await self._sleep(RETRY_SECONDS)
            else:
                if not counted:
                    log.warning("a trigger ended that was taken for lost", id=info.trigger.id)
                return
