"""The scheduler: takes due schedules, runs them side by side, and sleeps until the next.

All times are in the ledger, with an index on the next time; nothing is kept here that
would have to be rebuilt after a crash. A check without due schedules reads only the
beginning of that index, however many schedules there are.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

import structlog

from rota.model.clock import Clock, Hindsight, IdFactory, from_text, to_text
from rota.model.errors import SchedulerError, SchedulerShutdownError, StorageError
from rota.model.fleet import AgentSpec
from rota.model.runs import RunStatus
from rota.model.schedules import ScheduleCheck, Trigger
from rota.scheduler.due import Rng
from rota.scheduler.ending import Endings
from rota.scheduler.keeping import Keeping
from rota.scheduler.presence import Presence
from rota.scheduler.roster import Roster
from rota.scheduler.signs import kept_up
from rota.scheduler.syncing import rewind
from rota.scheduler.taking import Taken, Taker, check, take_due, take_waiting
from rota.scheduler.triggering import OnTrigger, TriggerInfo, succeed
from rota.scheduler.underway import Underway
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import HEAD, Place, TriggerEnd

log = structlog.get_logger()

CHECK_SECONDS = 1.0
RETRY_SECONDS = 5.0
SHORTEST_PAUSE = 0.001
# Time servers make smaller steps back all the time.
STEP_BACK = timedelta(seconds=1)
# For how long due schedules of other nodes' agents are skipped at the head of the line.
FOREIGN_FOR = timedelta(seconds=30)
# For how long a commit without an answer may still come through.
UNSURE_FOR = timedelta(minutes=1)
REWIND_PAGE = 1_000
PAGES_AT_ONCE = 20
KEEP_TRIGGERS = timedelta(days=30)
TIDY_EVERY = timedelta(hours=1)


class SchedulerStatus(StrEnum):
    STOPPED = "stopped"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class SchedulerState:
    status: SchedulerStatus
    started_at: datetime | None
    check_count: int
    trigger_count: int
    last_check_at: datetime | None


class Scheduler:
    """Embedding programs call `start` and `stop`; the daemon calls `open`, `tick` and `stop`."""

    name = "scheduler"

    def __init__(
        self,
        store: Store,
        *,
        node: str,
        place: str | None = None,
        check_interval: float = CHECK_SECONDS,
        on_trigger: OnTrigger = succeed,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Rng | None = None,
    ) -> None:
        """`place` has one living process at a time, such as host and state directory: what a dead
        process left open there is ended when the next one starts."""
        self._store = store
        self._node = node
        self._check_interval = check_interval
        self._clock = clock or store.clock
        self._sleep = sleep
        self._rng = rng
        self._ids = IdFactory(self._clock)
        self._presence = Presence(store, node, place or node)
        self._keeping = Keeping(store, node, rng)
        self._came_back = self._fewer = self._set_right = False
        self._roster = Roster()
        endings = Endings(store, self._clock, rng, lambda: self._roster)
        self._underway = Underway(on_trigger, endings, self.wake, sleep)
        self._status = SchedulerStatus.STOPPED
        self._started_at: datetime | None = None
        self._last_check_at: datetime | None = None
        self._check_count = self._trigger_count = 0
        self._unsure_until: datetime | None = None
        self._foreign: Place = HEAD
        self._foreign_since: datetime | None = None
        self._loop: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._ticking = asyncio.Lock()
        self._tidied_at: datetime | None = None
        self._hindsight = Hindsight(self._clock)
        self.woken = asyncio.Event()

    # life

    async def start(self, agents: Iterable[AgentSpec]) -> None:
        await self.open(agents)
        self._loop = asyncio.create_task(self.run(self._stopping), name="scheduler")

    async def open(self, agents: Iterable[AgentSpec]) -> None:
        """Everything except the loop, for a caller that calls `tick` itself."""
        if self._status is not SchedulerStatus.STOPPED:
            raise SchedulerError(f"the scheduler is {self._status}; stop it before starting again")
        now = self._clock.now()
        entered = await self._presence.enter(now)
        self._say_lost(entered.lost)
        await self.set_agents(agents)
        if entered.put_back:
            await self._rewind(now)
        self._stopping.clear()
        self._started_at = now
        self._status = SchedulerStatus.RUNNING

    async def set_agents(self, agents: Iterable[AgentSpec]) -> None:
        """May be called while running. Triggers already under way go on as they began."""
        self._roster = Roster.of(agents)
        await self._keeping.take_on(self._roster, self._clock.now())
        self._foreign = HEAD
        self.wake()

    async def stop(self, wait_for_jobs: bool = True, timeout: float = 30.0) -> None:
        """Take nothing more, wait for what runs, and cancel what does not end in time."""
        if self._status is SchedulerStatus.STOPPED:
            return
        self._status = SchedulerStatus.STOPPING
        self._stopping.set()
        if self._loop is not None:
            await asyncio.wait([self._loop])
            self._loop = None
        # Waits for a check that is under way, so that what it took is begun and drained too. Other
        # nodes see signs of life meanwhile.
        async with self._ticking, kept_up(self._presence, self._clock, self._sleep):
            late = await self._underway.drain(timeout if wait_for_jobs else 0.0)
        await self._presence.leave(self._clock.now())
        self._status = SchedulerStatus.STOPPED
        if late and wait_for_jobs:
            raise SchedulerShutdownError(
                f"Scheduler shutdown timed out after {timeout:g} s with {late} job(s) still"
                " running; they were cancelled",
                timed_out=True,
                running_job_count=late,
            )

    async def idle(self) -> None:
        """Wait until nothing runs on this node."""
        await self._underway.idle()

    # state

    def is_running(self) -> bool:
        return self._status is SchedulerStatus.RUNNING

    def get_status(self) -> SchedulerStatus:
        return self._status

    def get_state(self) -> SchedulerState:
        return SchedulerState(
            self._status,
            self._started_at,
            self._check_count,
            self._trigger_count,
            self._last_check_at,
        )

    def get_running_job_count(self, agent: str) -> int:
        return self.running()[agent]

    def get_total_running_job_count(self) -> int:
        return len(self._underway)

    @property
    def roster(self) -> Roster:
        """The agents that this node knows."""
        return self._roster

    async def check(self, agent: str, schedule: str) -> ScheduleCheck:
        """Whether the clock would trigger a schedule now, and if not, why."""
        taker = self._taker(self._clock.now())
        return await self._store.read(lambda tx: check(tx, taker, (agent, schedule)))

    def running(self) -> Counter[str]:
        """By agent: the number of triggers under way on this node."""
        return self._underway.by_agent()

    def wake(self) -> None:
        """Look at once: something may have become due."""
        self.woken.set()

    # the loop

    async def run(self, stopping: asyncio.Event) -> None:
        """Runs until it is stopped. If the database is unreachable, it waits and goes on."""
        while not stopping.is_set() and self.is_running():
            try:
                pause = await self.tick()
            except StorageError as error:
                log.warning("scheduler waits for the database", error=error.message)
                pause = RETRY_SECONDS
            except Exception:
                log.exception("scheduler failed to check")
                pause = RETRY_SECONDS
            await self._rest(pause, stopping)

    async def _rest(self, pause: float, stopping: asyncio.Event) -> None:
        waits = [
            asyncio.ensure_future(one)
            for one in (self._sleep(pause), stopping.wait(), self.woken.wait())
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def tick(self) -> float:
        """One check: start what is due; returns the seconds to wait before the next."""
        async with self._ticking:
            self.woken.clear()
            if not self.is_running():
                return self._check_interval
            now = self._clock.now()
            await self._mind_the_clock(now)
            kept = await self._presence.keep(now)
            self._say_lost(kept.lost)
            self._came_back |= kept.came_back
            self._fewer |= kept.fewer
            self._set_right |= kept.set_right
            await self._look_over(now)
            await self._tidy(now)
            await self._begin_left(now)
            pause = await self._check(now)
            self._check_count += 1
            self._last_check_at = now
            return pause

    async def _look_over(self, now: datetime) -> None:
        """A mended schedule may be due and lie in the skipped head of the line, so start over."""
        if self._came_back:
            mended = await self._keeping.look_over_all(now)
            self._came_back = False
        else:
            mended = await self._keeping.look_over(now)
        if mended:
            self._foreign = HEAD
        if self._fewer:
            await self._keeping.let_others_rest()
            self._fewer = False
        if self._set_right:
            log.warning("a server whose clock was ahead has gone, or its clock was put back")
            await self._rewind(now)
            self._set_right = False

    async def _tidy(self, now: datetime) -> None:
        if self._tidied_at is None or not timedelta(0) <= now - self._tidied_at < TIDY_EVERY:
            moment, self._tidied_at = self._hindsight.look(), now
            before = "" if moment is None else to_text(moment - KEEP_TRIGGERS)
            await self._store.transact(lambda tx: tx.prune_triggers(before, to_text(now)))

    async def _mind_the_clock(self, now: datetime) -> None:
        before = self._last_check_at
        if before is not None and now < before - STEP_BACK:
            log.warning("the clock was put back", seconds=(before - now).total_seconds())
            await self._rewind(now)

    async def _rewind(self, now: datetime) -> None:
        for part in self._roster.parts(REWIND_PAGE):
            await self._store.transact(partial(rewind, roster=part, now=now, rng=self._rng))
        self._foreign = HEAD

    async def _check(self, now: datetime) -> float:
        text, beyond = to_text(now), self._beyond(now)

        def look(tx: Transaction) -> tuple[bool, bool, str | None]:
            return tx.is_due(text, beyond), tx.is_waiting(), tx.next_wake(text)

        due, waiting, next_wake = await self._store.read(look)
        if waiting:  # requested triggers go first: the clock can wait for the next check
            await self._take_waiting(now)
        if due and await self._take_due(now):
            return SHORTEST_PAUSE
        if due or waiting:
            next_wake = await self._store.read(lambda tx: tx.next_wake(text))
        return self._pause(next_wake)

    async def _take_waiting(self, now: datetime) -> None:
        """To the end of the line: there may be no room for the first ones, but for later ones."""
        after, more = "", True
        while more and self.is_running():
            taker = self._taker(now)
            taken = await self._taken(partial(take_waiting, taker=taker, after=after), now)
            self._begin(taken.triggers, taker.roster)
            after, more = taken.last_id, taken.more

    async def _take_due(self, now: datetime) -> bool:
        """Returns whether there is more. One check is limited, because this node must show signs of
        life in between."""
        for _ in range(PAGES_AT_ONCE):
            taker, beyond = self._taker(now), self._beyond(now)
            taken = await self._taken(partial(take_due, taker=taker, beyond=beyond), now)
            self._begin(taken.triggers, taker.roster)
            self._foreign = taken.foreign_until
            if not (taken.more and self.is_running()):
                return False
        return True

    async def _taken(self, take: Callable[[Transaction], Taken], now: datetime) -> Taken:
        try:
            return await self._store.transact(take)
        except BaseException:  # it may have been committed all the same
            self._unsure_until = now + UNSURE_FOR
            raise

    async def _begin_left(self, now: datetime) -> None:
        """Begin what this node took by a commit whose answer was lost. Otherwise nobody would end
        it while the node lives, and its schedule would run no more."""
        if self._unsure_until is None:
            return
        under_way = self._underway.ids()  # first: what ends meanwhile must not begin again
        taken = await self._store.read(lambda tx: tx.taken_by(self._node))
        left = [one for one in taken if one.id not in under_way]
        known = [one for one in left if (one.agent, one.schedule) in self._roster.schedules]
        self._begin(known, self._roster)
        await self._end_lost([one for one in left if one not in known], now)
        if not now < self._unsure_until:
            self._unsure_until = None

    async def _end_lost(self, triggers: Sequence[Trigger], now: datetime) -> None:
        """For schedules that the file has lost since."""
        why = "its schedule is not in the file any more"
        ends = [
            TriggerEnd(one.id, one.agent, one.schedule, RunStatus.LOST, why) for one in triggers
        ]

        def body(tx: Transaction) -> None:
            tx.end_triggers(ends, to_text(now))
            tx.free_waiting({one.agent for one in ends}, to_text(now))

        if ends:
            await self._store.transact(body)
            self._say_lost(triggers)

    def _taker(self, now: datetime) -> Taker:
        return Taker(self._node, self._roster, now, self._ids.new, self._rng)

    def _beyond(self, now: datetime) -> Place:
        """The place after the due schedules of other nodes; now and then the head again, because
        those may change."""
        since = self._foreign_since
        if since is None or not timedelta(0) <= now - since < FOREIGN_FOR:
            self._foreign, self._foreign_since = HEAD, now
        return self._foreign

    def _pause(self, next_wake: str | None) -> float:
        if next_wake is None:
            return self._check_interval
        ahead = (from_text(next_wake) - self._clock.now()).total_seconds()
        return min(max(ahead, SHORTEST_PAUSE), self._check_interval)

    def _begin(self, triggers: Iterable[Trigger], roster: Roster) -> None:
        """Uses the roster that the triggers were taken with: it may have changed meanwhile."""
        for trigger in triggers:
            agent, schedule = (
                roster.agents[trigger.agent],
                roster.schedules[trigger.agent, trigger.schedule],
            )
            self._trigger_count += 1
            self._underway.begin(TriggerInfo(agent, schedule, trigger))

    def _say_lost(self, lost: Sequence[Trigger]) -> None:
        for one in lost:
            log.warning("trigger lost", agent=one.agent, schedule=one.schedule, node=one.node)
