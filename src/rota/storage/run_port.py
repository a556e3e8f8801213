"""What may be asked of a database about runs, the limits of agents, and the outbox."""

from collections.abc import Collection, Sequence
from typing import Protocol

from rota.model.agents import Slot
from rota.model.runs import (
    FIRST_POST,
    AgentLimits,
    OutboxEntry,
    PostPlace,
    Run,
    RunEnd,
    RunFilter,
    Spent,
    Tally,
)


class RunVerbs(Protocol):
    """Part of `Transaction`."""

    # runs
    def insert_run(self, run: Run) -> None: ...
    def end_run(self, run_id: str, end: RunEnd, now: str, seconds: float) -> Run | None:
        """Record how a run ended; None when it had already ended, or does not exist."""

    def get_run(self, run_id: str) -> Run | None: ...
    def list_runs(self, wanted: RunFilter, limit: int) -> list[Run]:
        """Newest first."""

    def request_cancel(self, run_id: str) -> bool:
        """Ask for the end of a run; False when it has ended, or does not exist."""

    def runs_to_cancel(self, node: str) -> list[str]: ...
    def lost_at_work(self) -> list[Run]:
        """Lost runs whose item is still in progress at the run's epoch."""

    def dead_runs(self, before: str, place: str, node: str) -> list[Run]:
        """Open runs of earlier nodes at `place` (not of `node` itself). Also, once their claims
        have ended, open runs of ended nodes, and of workers if they started before `before`."""

    def last_session(
        self, agent: str, schedule: str | None, work_item_id: str | None
    ) -> str | None:
        """The session of the agent's latest run on this item, or without an item of its latest run
        of this schedule."""

    def spent(self, since: str, agent: str | None = None) -> Spent:
        """What the runs that started since then have spent, of one agent or of all."""

    def tallies(self, since: str) -> list[Tally]:
        """The runs that started since then, by agent and status."""

    def open_runs(self, limit: int) -> list[Run]:
        """Runs that have not ended, newest first."""

    def last_runs(self, agents: Sequence[str]) -> list[Run]:
        """The latest run of each of these agents, if it has had one; in no order."""

    def last_scheduled_runs(self, wanted: Sequence[tuple[str, str, str]]) -> list[Run]:
        """For each (agent, schedule, time): the schedule's latest run, unless it started before
        that time; in no order."""

    def slots_in_use(self, agents: Sequence[str]) -> list[Slot]:
        """By agent and slot number. An item is in its slot since it was last started or resumed."""

    # limits
    def get_limits(self, agent: str) -> AgentLimits | None: ...
    def lock_limits(self, agent: str) -> AgentLimits | None:
        """As `get_limits`, but other callers of `lock_limits` for this agent wait until this
        transaction ends. For a caller that goes on to `put_limits`."""

    def list_limits(self) -> list[AgentLimits]: ...
    def put_limits(self, limits: AgentLimits, now: str) -> None: ...

    # outbox
    def post(self, entry: OutboxEntry) -> None:
        """Add an entry; does nothing when the id exists already."""

    def take_post(
        self,
        now: str,
        until: str,
        limit: int,
        channels: Collection[str] | None = None,
        left_over: str = "",
        *,
        left_alone: Collection[str] = (),
    ) -> list[OutboxEntry]:
        """Take due entries and count an attempt; nobody else gets them before `until`. Those to
        other channels than `channels`, and those `left_alone`, only if they have been due since
        `left_over`."""

    def take_letter(self, entry_id: str, now: str, until: str) -> OutboxEntry | None:
        """Take one entry, if it is due: not delivered, not given up, and not taken."""

    def next_post(
        self, channels: Collection[str] | None = None, left_alone: Collection[str] = ()
    ) -> str | None:
        """When the earliest entry is due, without those to other channels than `channels` and those
        `left_alone`."""

    def delivered(self, entry_id: str, now: str) -> None: ...
    def postpone(self, entry_id: str, until: str, error: str) -> None: ...
    def leave_letter(self, entry_id: str, now: str, error: str) -> None:
        """Give back a taken entry: it is due at once, and its attempt does not count."""

    def bury(self, entry_id: str, now: str, error: str) -> None:
        """Give up an entry; it is kept for people to see."""

    def revive(self, entry_id: str, now: str) -> bool:
        """Let a buried entry be tried again; False when there is none."""

    def list_post(
        self, *, buried: bool, limit: int, kind: str = "", after: PostPlace = FIRST_POST
    ) -> list[OutboxEntry]:
        """Waiting entries by the time of their next try, or buried ones, oldest first. Of one kind
        or of all, after a place."""

    def pending_subjects(self, subjects: Sequence[str]) -> set[str]:
        """Those of the subjects that have an undelivered entry which is not buried."""

    def forget_post(self, before: str) -> int: ...
