"""The book of runs: every run is entered before its process starts, and ends in it once."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from rota.model.agents import Slot
from rota.model.claims import Claim
from rota.model.clock import IdFactory, from_text, later, to_text
from rota.model.errors import ClaimLost, CommitUnknown, NotFound, Refused, StorageUnavailable
from rota.model.events import EventType, NewEvent
from rota.model.fleet import AgentSpec
from rota.model.runs import AgentLimits, OutboxEntry, Run, RunEnd, RunFilter, RunStatus, Tally
from rota.model.schedules import TriggerKind
from rota.model.work import MAX_PAGE, WorkItem
from rota.queue.enrolment import project_of
from rota.runner import admission
from rota.scheduler.presence import unseen
from rota.storage.port import Store, Transaction

KEPT_DAYS = 30  # of the logs of runs
RETRY_SECONDS = 1.0


class RunBook:
    def __init__(self, store: Store, *, node: str, logs: Path) -> None:
        self._store = store
        self._clock = store.clock
        self._ids = IdFactory(self._clock)
        self._node = node
        self._logs = logs
        self._asked: dict[str, asyncio.Event] = {}

    @property
    def node(self) -> str:
        """The node of this server."""
        return self._node

    # beginning and end

    async def begin(
        self,
        agent: str,
        trigger: TriggerKind,
        *,
        schedule: str | None = None,
        trigger_id: str | None = None,
        item: WorkItem | None = None,
        title: str | None = None,
    ) -> Run:
        run = Run(
            self._ids.new(),
            agent,
            schedule,
            trigger,
            trigger_id,
            self._node,
            item.id if item else None,
            item.epoch if item else None,
            title or (item.description if item else None),
            item.attempts if item else None,
            self._now(),
        )
        await self._enter(run)
        self._asked[run.id] = asyncio.Event()
        return run

    async def _enter(self, run: Run) -> None:
        """After a lost answer to a commit, the run may be in the book, and nobody would end it. So
        the insert is checked and repeated as soon as the database is back."""
        insert = _insert
        while True:
            try:
                return await self._store.transact(partial(insert, run=run))
            except CommitUnknown:
                insert = _insert_once
            except StorageUnavailable:
                if insert is _insert:  # then nothing was written
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def begin_once(
        self, claim: Claim, item: WorkItem, *, schedule: str | None, node: str
    ) -> tuple[Run, bool]:
        """The run of a worker's claim, and whether it began just now: a claim has one run at a
        time.

        The claim must be live, and is extended by another lease.
        """
        run = Run(
            self._ids.new(), claim.agent, schedule, TriggerKind.WORKER, None, node, item.id,
            claim.epoch, item.description, item.attempts, self._now(),
        )  # fmt: skip
        wanted = RunFilter(work_item_id=item.id, statuses=(RunStatus.RUNNING,))

        def body(tx: Transaction) -> tuple[Run, bool]:
            # First, because it locks the item: of two callers that begin at once, the second waits
            # here, and then finds the run of the first.
            self._extend(tx, claim)
            for one in tx.list_runs(wanted, MAX_PAGE):
                if one.epoch == claim.epoch:
                    return one, False
            _insert(tx, run)
            return run, True

        return await self._store.transact(body)

    def _extend(self, tx: Transaction, claim: Claim) -> None:
        now = self._clock.now()
        expires_at = to_text(later(now, claim.lease_seconds, "lease_seconds"))
        item_id = claim.work_item_id
        if tx.extend_claim(item_id, claim.token, to_text(now), expires_at, None) is None:
            raise ClaimLost(f"the claim of {item_id} has ended meanwhile", id=item_id)

    async def end(
        self,
        run: Run,
        end: RunEnd,
        agent: AgentSpec | None = None,
        letters: Sequence[OutboxEntry] = (),
    ) -> Run | None:
        """Stores the end, its effect on the agent's limits, and the reports, in one transaction.

        None when the run had ended before: then nothing of this is kept.
        """
        now = self._clock.now()
        seconds = max(0.0, (now - from_text(run.started_at)).total_seconds())

        def body(tx: Transaction) -> Run | None:
            ended = tx.end_run(run.id, end, to_text(now), seconds)
            if ended is None:
                return None
            events = [_finished(tx, ended)]
            if agent is not None:
                before = tx.lock_limits(agent.name) or AgentLimits(agent.name)
                after = admission.after(before, agent, end, now)
                if after != before:
                    tx.put_limits(after, to_text(now))
                    events += _told(before, after, to_text(now))
            for letter in letters:
                tx.post(letter)
            tx.append(events)
            return ended

        ended = await self._store.transact(body)
        self._asked.pop(run.id, None)
        return ended

    async def session(self, run: Run) -> str | None:
        """The session to resume, if the run is asked to resume one."""
        return await self._store.read(
            lambda tx: tx.last_session(run.agent, run.schedule, run.work_item_id)
        )

    async def before(self, run: Run) -> RunStatus | None:
        """How the last run on the same item ended, of whichever agent."""
        wanted = RunFilter(work_item_id=run.work_item_id, before=run.id)
        return next((one.status for one in await self.find(wanted, 1)), None)

    def log(self, run_id: str) -> Path:
        return self._logs / f"{run_id}.jsonl"

    # cancelling

    def asked(self, run: Run) -> asyncio.Event:
        """Set when this run is to be cancelled."""
        return self._asked.setdefault(run.id, asyncio.Event())

    async def cancel(self, run_id: str) -> Run:
        """Request the cancellation. The node with the process ends it: at once here, soon
        elsewhere."""
        run = await self.get(run_id)
        if not await self._store.transact(lambda tx: tx.request_cancel(run_id)):
            raise Refused(f"run {run.id} has ended already: {run.status}", run_status=run.status)
        if run_id in self._asked:
            self._asked[run_id].set()
        return await self.get(run_id)

    async def look_for_cancels(self) -> int:
        """Picks up cancellations requested through another node; returns the number of runs
        here."""
        if self._asked:
            wanted = await self._store.read(lambda tx: tx.runs_to_cancel(self._node))
            for run_id in wanted:
                if run_id in self._asked:
                    self._asked[run_id].set()
        return len(self._asked)

    # reading

    async def get(self, run_id: str) -> Run:
        def body(tx: Transaction) -> Run | None:
            run = tx.get_run(run_id)
            return run and self._seen(tx, [run])[0]

        run = await self._store.read(body)
        if run is None:
            raise NotFound(f"there is no run {run_id[:100]!r}", id=run_id[:100])
        return run

    async def whereabouts(self, run: Run) -> str:
        """The host and the state directory of the server that ran it; if that server was forgotten,
        its node."""
        nodes = await self._store.read(lambda tx: tx.some_nodes([run.node]))
        return nodes[0].place.partition("#")[0] if nodes else run.node

    def _seen(self, tx: Transaction, runs: list[Run]) -> list[Run]:
        """Adds when their servers were last seen, if those are gone."""
        gone = unseen(tx, runs, self._now())
        return [replace(run, unseen_since=gone[run.id]) if run.id in gone else run for run in runs]

    async def find(self, wanted: RunFilter = RunFilter(), limit: int = 50) -> list[Run]:  # noqa: B008
        most = max(1, min(limit, MAX_PAGE))
        return await self._store.read(
            lambda tx: self._seen(tx, tx.list_runs(wanted, most)), long=True
        )

    async def open(self) -> list[Run]:
        """Runs that have not ended, newest first."""
        return await self._store.read(lambda tx: self._seen(tx, tx.open_runs(MAX_PAGE)))

    async def tallies(self, since: str) -> list[Tally]:
        return await self._store.read(lambda tx: tx.tallies(since), long=True)

    async def latest(self, agents: Sequence[str]) -> dict[str, Run]:
        """The latest run of each agent."""
        found = await self._store.read(lambda tx: tx.last_runs(agents), long=True)
        return {run.agent: run for run in found}

    async def latest_of(
        self, wanted: Sequence[tuple[str, str, str]]
    ) -> dict[tuple[str, str | None], Run]:
        """By agent and schedule. The third value is a time: runs that began before it are
        omitted."""
        found = await self._store.read(lambda tx: tx.last_scheduled_runs(wanted), long=True)
        return {(run.agent, run.schedule): run for run in found}

    async def slots(self, agents: Sequence[str]) -> list[Slot]:
        """The slots in use by these agents."""
        return await self._store.read(lambda tx: tx.slots_in_use(agents), long=True)

    def prune_logs(self, now: datetime) -> int:
        """Deletes logs that were not written to for long; the runs stay in the book."""
        before = now.timestamp() - KEPT_DAYS * 24 * 3600
        pruned = 0
        for path in self._logs.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                if path.stat().st_mtime < before:
                    path.unlink()
                    pruned += 1
        return pruned

    # runs of dead servers

    async def bury(self, place: str, begun_before: str) -> list[Run]:
        """End the runs whose process died with its server; returns those that were ended now. A
        worker's run counts only if it began before `begun_before`."""
        now = to_text(self._clock.now())
        lost = RunEnd(RunStatus.LOST, error="its server died; nobody knows how it ended")

        def body(tx: Transaction) -> list[Run]:
            dead = tx.dead_runs(begun_before, place, self._node)
            # Its time ends with its server: the time since then is not charged.
            seen = {node.id: node.seen_at for node in tx.some_nodes(run.node for run in dead)}
            lasted = {run.id: _seconds(run, min(now, seen.get(run.node, now))) for run in dead}
            ended = [
                one
                for run in dead
                if (one := tx.end_run(run.id, lost, now, lasted[run.id])) is not None
            ]
            tx.append([_finished(tx, run) for run in ended])
            return ended

        return await self._store.transact(body)

    async def lost_at_work(self) -> list[Run]:
        """Lost runs whose items may be given back: they still hold them, and no result of theirs
        waits for delivery."""

        def body(tx: Transaction) -> list[Run]:
            runs = tx.lost_at_work()
            items = [run.work_item_id for run in runs if run.work_item_id]
            pending = tx.pending_subjects(items) if items else ()
            return [run for run in runs if run.work_item_id not in pending]

        return await self._store.read(body)

    def _now(self) -> str:
        return to_text(self._clock.now())


def _insert(tx: Transaction, run: Run) -> None:
    tx.insert_run(run)
    tx.append([_event(tx, EventType.RUN_STARTED, run, {"trigger": str(run.trigger)})])


def _insert_once(tx: Transaction, run: Run) -> None:
    if tx.get_run(run.id) is None:
        _insert(tx, run)


def _seconds(run: Run, now: str) -> float:
    return max(0.0, (from_text(now) - from_text(run.started_at)).total_seconds())


def _finished(tx: Transaction, run: Run) -> NewEvent:
    data = {
        "status": str(run.status),
        "summary": run.summary,
        "error": run.error,
        "seconds": run.seconds,
        "cost_usd": run.cost_usd,
    }
    return _event(tx, EventType.RUN_FINISHED, run, data, run.status)


def _event(
    tx: Transaction,
    kind: EventType,
    run: Run,
    data: Mapping[str, object],
    reason: str | None = None,
) -> NewEvent:
    return NewEvent(
        kind,
        run.ended_at or run.started_at,
        actor=run.agent,
        work_item_id=run.work_item_id,
        project_id=project_of(tx, run.work_item_id),
        agent=run.agent,
        reason=reason,
        epoch=run.epoch,
        data={"run_id": run.id, "schedule": run.schedule}
        | {name: value for name, value in data.items() if value is not None},
    )


def _told(before: AgentLimits, after: AgentLimits, now: str) -> list[NewEvent]:
    events = []
    if after.breaker_until and after.breaker_until != before.breaker_until:
        data = {"failures": after.failures, "until": after.breaker_until}
        events.append(NewEvent(EventType.BREAKER_OPENED, now, agent=after.agent, data=data))
    if after.usage_until and after.usage_until != before.usage_until:
        data = {"until": after.usage_until}
        events.append(NewEvent(EventType.USAGE_LIMITED, now, agent=after.agent, data=data))
    return events
