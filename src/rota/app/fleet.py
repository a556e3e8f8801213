"""The fleet of one process: put together, started, read again, brought to its end."""

import asyncio
import contextlib
import shlex
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog
from msgspec import structs

from rota.api.fleet_config import Gone, Reloaded
from rota.api.hooks import Receiver
from rota.app.chores import Cancelling, Housekeeping
from rota.app.desks import source_context
from rota.app.sources import read_fleet, work_sources
from rota.app.tendings import make_tendings, receivers
from rota.config import Settings
from rota.config.state_dir import StateDir
from rota.daemon import Crew
from rota.journey import Journey
from rota.model.access import CONFIGURATION
from rota.model.errors import InvalidInput, SchedulerShutdownError
from rota.model.fleet import Fleet
from rota.model.notices import NOTIFICATION
from rota.model.runs import OutboxEntry
from rota.model.wanted import WorkWanted
from rota.notify import Courier, Notices
from rota.notify.reading import Plan
from rota.queue.ledger import Ledger
from rota.queue.recovery import Recovery
from rota.runner import LocalRunner, clean_worktrees, end_orphans
from rota.runner.admission import Admission
from rota.runner.redaction import variables_named_in
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.scheduler.roster import Roster
from rota.signals import SignalChore, Signals, SignalScheduler
from rota.signals.actions import NOTIFY
from rota.signals.declared import declared, warnings_of
from rota.sources.manager import WorkSourceManager
from rota.sources.outbox import Outbox
from rota.sources.tending import Tending
from rota.storage.port import Store
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.config.loading import Loaded

log = structlog.get_logger()

# For a run that is cut short at a shutdown: to end its processes, which have five seconds before
# they are killed, to write its end down, and to give its item back.
ENDING_SECONDS = 15.0
_QUEUE = "queue"
# From a claim to the first heartbeat of its run; a tracker may take its time in between.
FIRST_LEASE_SECONDS = 120.0


class FleetAtWork:
    """What `rota up` does beside answering: it wakes agents, and looks after their sources."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        ledger: Ledger,
        signals: Signals,
        *,
        node: str,
        loaded: "Loaded",
        crew: Crew,
    ) -> None:
        state = StateDir(settings.state_dir)
        place = state.place()
        self._settings = settings
        self._ledger = ledger
        self._everybody = loaded.fleet  # also those who are woken by other servers
        self._loaded = loaded if settings.agents else _without_agents(loaded)
        self._web = loaded.web  # as the server was started
        self._crew = crew
        context = source_context(settings, ledger)
        self._context = replace(context, first_lease_seconds=FIRST_LEASE_SECONDS)
        self._sources = WorkSourceManager(self._context)
        self._runner = self._make_runner()
        self._signals = signals
        self._home = state.home()
        self._courier = self._make_courier()
        couriers: dict[str, Callable[[OutboxEntry], Awaitable[None]]] = {
            NOTIFY: self._courier.post,
            NOTIFICATION: self._courier,
        }
        self._outbox = Outbox(
            store,
            ledger,
            self._sources,
            couriers,
            channels=lambda: self._loaded.notify.channels,
        )
        self._notices = Notices(store, self._plan(), self._home)
        self._notifies = False
        self.signals = SignalScheduler(store, owner=node)
        self._firing = SignalChore(store, self.signals)
        self._recovery = Recovery(ledger, place)
        admission = Admission(store, lambda: self.fleet.budget)
        self._journey = Journey(
            self._sources, ledger, admission, self._runner, self._outbox, lambda: self.fleet
        )  # fmt: skip
        self._scheduler = Scheduler(store, node=node, place=place, on_trigger=self._travel)
        self._travelling: set[asyncio.Task[object]] = set()
        self._hurried = False  # a second signal does not want to wait
        self._tendings: dict[str, Tending] = {}
        self._reloading = asyncio.Lock()
        self._in_force: str | None = None  # the digest of what is taken on, once all of it is
        self.receivers: list[Receiver] = []  # who is woken by webhooks; changes in place

    def _make_runner(self) -> LocalRunner:
        return LocalRunner(
            self._settings.state_dir,
            environ=environ,
            clock=self._ledger.clock,
            allowed_hosts=self._settings.hook_hosts,
            secret_names=lambda: variables_named_in(self._loaded.shown),
        )

    def _make_courier(self) -> Courier:
        return Courier(
            lambda: self._loaded.notify,
            environ,
            allowed_hosts=self._settings.hook_hosts,
            place=self._settings.config.resolve().parent,
            clock=self._ledger.clock,
        )

    @property
    def fleet(self) -> Fleet:
        return self._loaded.fleet

    @property
    def everybody(self) -> Fleet:
        """Also those who are woken by other servers."""
        return self._everybody

    def in_words(self, rota: str) -> str:
        """`rota` is how a person calls the command."""
        agents, file = self.fleet.agents, self._settings.config
        if not agents and file.exists():
            return f"none yet: {file} names no agent"
        if not agents:
            return f"none yet:  {rota} init  writes a rota.yaml to begin with"
        many = counted(len(agents), "agent")
        schedules = counted(sum(len(one.schedules) for one in agents), "schedule")
        return f"{many} with {schedules}, from {file}"

    # life

    async def __aenter__(self) -> "FleetAtWork":
        """What a dead predecessor left is tidied up before anything new begins."""
        await self._tidy()
        await self._take_on(self._loaded)
        await self._scheduler.open(self.fleet.agents)
        # Once more, now that others see that we live: whoever has let go of a signal meanwhile
        # could not know that our file has it.
        await self._declare(self._loaded)
        self._ledger.schedules.attach(self._scheduler)
        await self._recovery.tick()
        await self._outbox.resume()
        await self._attend()
        self._in_force = self._loaded.digest
        for chore in (
            self._scheduler,
            self._outbox,
            self._outbox.keeping,
            self._recovery,
            Cancelling(self._ledger.runs),
            Housekeeping(self._ledger, self._outbox, self.let_go),
        ):
            self._crew.add(chore)
        if self._settings.signals:
            self._crew.add(self._firing)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ledger.schedules.attach(None)
        await self._scheduler.stop(wait_for_jobs=False)
        await self._outbox.aclose()
        await self._sources.aclose(0.0 if self._hurried else None)
        for tending in self._tendings.values():
            await tending.aclose()
        self._runner.close()
        self._courier.close()

    async def _tidy(self) -> None:
        state_dir = self._settings.state_dir
        for orphan in await asyncio.to_thread(end_orphans, state_dir):
            log.warning(
                "ended what a dead server had left running", run=orphan.run_id, pid=orphan.pid
            )
        for removed in await clean_worktrees(state_dir, environ=environ):
            where, commits = str(removed.path), removed.ref
            log.warning("removed what a dead server had left", worktree=where, commits=commits)

    async def drain(self) -> None:
        """Let runs come to their end, until the deadline; what is left is given back."""
        running = self._scheduler.get_total_running_job_count()
        if running:
            log.info("waiting for runs", runs=running, seconds=self._settings.drain_seconds)
        seconds = self._settings.drain_seconds
        stopping = asyncio.ensure_future(self._scheduler.stop(timeout=seconds + ENDING_SECONDS))
        try:
            await asyncio.wait([stopping], timeout=seconds)
        except asyncio.CancelledError:
            self._hurried = True
            raise
        finally:  # also when a second signal does not want to wait
            if self._travelling:
                log.info("giving back what has not ended", runs=len(self._travelling))
            for task in self._travelling:
                task.cancel()
            with contextlib.suppress(SchedulerShutdownError):
                await stopping

    async def _travel(self, info: TriggerInfo) -> TriggerOutcome:
        task = asyncio.current_task()
        if task is not None:
            self._travelling.add(task)
            task.add_done_callback(self._travelling.discard)
        return await self._journey.travel(info)

    # configuration

    async def reload(self) -> Reloaded:
        """Raises what is wrong with the file; then nothing has changed. What a database that
        fails on the way has left undone is done by the next call."""
        async with self._reloading:
            self._demand_file()
            loaded = await asyncio.to_thread(read_fleet, self._settings)
            everybody = loaded.fleet
            if not self._settings.agents:
                loaded = _without_agents(loaded)
            changed, warnings = loaded.digest != self._in_force, list(loaded.warnings)
            gone, sources = _gone(self.fleet, loaded.fleet), set(self._tendings)
            if changed:
                warnings = await self._take_on(loaded)
                self._loaded, self._everybody = loaded, everybody
                await self._sources.clear_cache()
                await self._scheduler.set_agents(self.fleet.agents)
                await self._attend()
                self._in_force = loaded.digest
            warnings += self._only_at_the_start(loaded)
            gone = structs.replace(gone, sources=sorted(sources - set(self._tendings)))
            log.info("configuration read", changed=changed, agents=len(self.fleet.agents))
        return Reloaded(
            changed,
            [one.name for one in self.fleet.agents],
            sorted(self._tendings),
            gone,
            warnings,
        )

    def _only_at_the_start(self, loaded: "Loaded") -> list[str]:
        changed = [
            f"web.{name}"
            for name in ("enabled", "host", "port")
            if getattr(loaded.web, name) != getattr(self._web, name)
        ]
        if not changed:
            return []
        warning = f"{self._settings.config}: {', '.join(changed)}: changes when the server restarts"
        log.warning("configuration", says=warning)
        return [warning]

    def _demand_file(self) -> None:
        """Editors replace files, and there is a moment without one: that is no wish to have no
        agents any more."""
        if self._loaded.files and not self._settings.config.exists():
            raise InvalidInput(
                f"{self._settings.config} is gone; to have no agents, leave an empty file there"
            )

    async def _take_on(self, loaded: "Loaded") -> list[str]:
        """What can be wrong comes first. The sources that somebody works from are tended, agents
        get their slots. What is odd about the file is logged, and returned."""
        declared(loaded.signals, self._ledger.clock.now())
        agents = work_sources(loaded.fleet)
        made = make_tendings(loaded.sources, agents, self._context, self._ledger)
        self._in_force = None  # from here on neither the old one is, nor yet the new one
        warnings = [*loaded.warnings, *await self._declare(loaded)]
        for warning in warnings:
            log.warning("configuration", says=warning)
        for name, tending in list(self._tendings.items()):
            if name in made and made[name].is_like(tending):
                await made[name].aclose()
                made[name] = tending
            else:
                await self._dismiss(tending)
        for name, tending in made.items():
            if self._tendings.get(name) is not tending:
                self._crew.add(tending)
                self._crew.add(tending.vigil)
        self._tendings = made
        self.receivers[:] = receivers(made.values())
        await self._give_slots(loaded.fleet)
        return warnings

    async def _declare(self, loaded: "Loaded") -> list[str]:
        """Signals, as the file has them. No file is no wish to have none: that is an empty one."""
        if not loaded.files:
            return []
        signals = declared(loaded.signals, self._ledger.clock.now())
        return warnings_of(loaded.signals, await self._signals.sync(signals, self._home))

    async def _give_slots(self, fleet: Fleet) -> None:
        loads = await self._ledger.views.agents()
        known = {
            one.agent.name: (one.agent.max_concurrent, one.agent.max_in_review) for one in loads
        }
        for agent in fleet.agents:
            if known.get(agent.name) != (agent.max_concurrent, agent.max_in_review):
                await self._ledger.queue.set_agent(
                    agent.name,
                    max_concurrent=agent.max_concurrent,
                    max_in_review=agent.max_in_review,
                    actor=CONFIGURATION,
                )

    async def let_go(self) -> None:
        """What the file has no more, and others had, who may be gone for good. Not while it is read
        again: it may bring back what is let go here."""
        async with self._reloading:
            await self._signals.let_go(self._home)
            if not self._notifies:
                await self._forget_notices()

    # notifications

    def _plan(self) -> Plan:
        url = self._loaded.web.public_url or self._settings.url
        return Plan(self._loaded.notify, self._everybody, url)

    async def _attend(self) -> None:
        """Read the log for notifications, or stop, as the file wants it."""
        self._notices.plan = self._plan()
        if self._notices.plan.is_on == self._notifies:
            if not self._notifies:
                await self._forget_notices()
            return
        # What the database refuses is tried again: so it stands here only when it was done.
        if self._notices.plan.is_on:
            await self._notices.begin()
            self._crew.add(self._notices)
            self._notifies = True
        else:
            await self._crew.dismiss(self._notices)
            self._notifies = False
            await self._forget_notices()

    async def _forget_notices(self) -> None:
        """No file is no wish to hear of nothing, either."""
        if self._loaded.files:
            await self._notices.forget()

    async def _dismiss(self, tending: Tending) -> None:
        await self._crew.dismiss(tending)
        await self._crew.dismiss(tending.vigil)
        await tending.aclose()


def _gone(before: Fleet, after: Fleet) -> Gone:
    old, new = Roster.of(before.agents), Roster.of(after.agents)
    return Gone(
        sorted(old.agents.keys() - new.agents.keys()),
        sorted(
            f"{agent}/{name}"
            for agent, name in old.schedules.keys() - new.schedules.keys()
            if agent in new.agents
        ),
    )


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def next_step(fleet: Fleet, options: str = "", file: str = "") -> str:
    """What leads somewhere with these agents, without `rota`: an item that one of them takes, or a
    look at where their work comes from. `options` are for every command, `file` for those that read
    the configuration."""
    plans = [(agent, plan) for agent in fleet.agents for plan in agent.schedules]
    sources = [plan.work_source or agent.work_source for agent, plan in plans]
    wanted = [WorkWanted.of(one) for one in sources if one]
    if wanted and not any(one.kind == _QUEUE for one in wanted):
        return f"source list{options}{file}"
    if plans and not wanted:
        return f"schedule list{options}"
    return f'add{options} {_wish_of(wanted)} "Say hello"'


def _wish_of(wanted: Iterable[WorkWanted]) -> str:
    """Options for an item that one of these takes: rather of who takes anything."""
    anything = WorkWanted(_QUEUE)
    own = (one for one in wanted if one.kind == _QUEUE)
    one = min(own, key=lambda one: one != anything, default=anything)
    words = ["--type", (one.types or ("chore",))[0]]
    words += [word for label in one.labels for word in ("--label", label)]
    words += ["--project", one.project_id] if one.project_id else []
    return shlex.join(words)


def _without_agents(loaded: "Loaded") -> "Loaded":
    """Only what `sources` lists is tended then."""
    return replace(loaded, fleet=Fleet(loaded.fleet.name, budget=loaded.fleet.budget))
