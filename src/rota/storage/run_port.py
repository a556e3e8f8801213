"""What may be asked of a database about runs, limits of agents, and the outbox."""

from collections.abc import Sequence
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
        """How it ended, once; None when it had ended before, or is not there."""

    def get_run(self, run_id: str) -> Run | None: ...
    def list_runs(self, wanted: RunFilter, limit: int) -> list[Run]:
        """Newest first."""

    def request_cancel(self, run_id: str) -> bool:
        """Ask for the end of a run; False when it has ended, or is not there."""

    def runs_to_cancel(self, node: str) -> list[str]: ...
    def lost_at_work(self) -> list[Run]:
        """Runs that were lost while their item is still in their hands."""

    def dead_runs(self, before: str, place: str, node: str) -> list[Run]:
        """Open runs of nodes that stood at `place` before this `node` did; and of nodes that have
        ended, and of workers that began `before`, once their claims have ended."""

    def last_session(
        self, agent: str, schedule: str | None, work_item_id: str | None
    ) -> str | None:
        """The session of the latest run on this item; without one, of this schedule."""

    def spent(self, since: str, agent: str | None = None) -> Spent:
        """By the runs that began since then, of one agent or of all."""

    def tallies(self, since: str) -> list[Tally]:
        """The runs that began since then, by agent and status."""

    def open_runs(self, limit: int) -> list[Run]:
        """Those that have not ended, newest first."""

    def last_runs(self, agents: Sequence[str]) -> list[Run]:
        """The latest run of each of these agents that has had one; in no order."""

    def last_scheduled_runs(self, wanted: Sequence[tuple[str, str, str]]) -> list[Run]:
        """The latest run of each (agent, schedule), unless it began before the time that stands
        third; in no order."""

    def slots_in_use(self, agents: Sequence[str]) -> list[Slot]:
        """By agent and number. An item is in its slot since it was last started or resumed."""

    # limits
    def get_limits(self, agent: str) -> AgentLimits | None: ...
    def lock_limits(self, agent: str) -> AgentLimits | None:
        """As they stand; nobody else who asks in this way does so before this transaction ends.
        For whoever puts what follows from them."""

    def list_limits(self) -> list[AgentLimits]: ...
    def put_limits(self, limits: AgentLimits, now: str) -> None: ...

    # outbox
    def post(self, entry: OutboxEntry) -> None:
        """Put it there; nothing happens when the id is there already."""

    def take_post(self, now: str, until: str, limit: int) -> list[OutboxEntry]:
        """What is due, taken until then and its attempt counted; nobody else gets it meanwhile."""

    def take_letter(self, entry_id: str, now: str, until: str) -> OutboxEntry | None:
        """One of them, if it is still to be delivered and nobody has it."""

    def next_post(self) -> str | None:
        """When the earliest is due."""

    def delivered(self, entry_id: str, now: str) -> None: ...
    def postpone(self, entry_id: str, until: str, error: str) -> None: ...
    def bury(self, entry_id: str, now: str, error: str) -> None:
        """Give it up; it stays to be seen."""

    def revive(self, entry_id: str, now: str) -> bool:
        """Try a buried one again; False when there is none."""

    def list_post(
        self, *, buried: bool, limit: int, kind: str = "", after: PostPlace = FIRST_POST
    ) -> list[OutboxEntry]:
        """Those that wait, by when they are tried next, or those that were given up, oldest first;
        of this kind or all, behind a place."""

    def pending_subjects(self, subjects: Sequence[str]) -> set[str]:
        """Of which of these something still has to be delivered."""

    def forget_post(self, before: str) -> int: ...
