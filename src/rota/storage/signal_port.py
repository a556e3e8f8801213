"""What may be asked of a database about signals, their firings, and follow-ups."""

from collections.abc import Collection, Sequence
from typing import Protocol

from rota.model.events import NewEvent
from rota.model.signals import (
    Condition,
    FiringFacts,
    FiringRecord,
    FiringStatus,
    FollowUp,
    FollowUpStatus,
    Gathering,
    Signal,
    SignalStatus,
)


class SignalVerbs(Protocol):
    """Part of `Transaction`."""

    # signals
    def insert_signal(self, signal: Signal, keys: Sequence[str]) -> None:
        """`keys` are what it listens to; they go when it is not active any more."""

    def get_signal(self, signal_id: str) -> Signal | None: ...
    def list_signals(
        self,
        status: SignalStatus | None,
        work_item_id: str | None,
        after: str | None,
        limit: int,
        *,
        newest: bool = False,
    ) -> list[Signal]:
        """By age; the newest first if that is asked for, and then `after` goes on to older ones."""

    def named_signals(self) -> list[Signal]:
        """Active ones that came from the configuration."""

    def declared_signal(self, name: str) -> Signal | None:
        """The one of that name that came from the configuration: the active one, or else the last
        there was."""

    def signal_named(self, name: str) -> str | None:
        """The id of the active one of that name."""

    def end_signal(self, signal_id: str, status: SignalStatus, now: str) -> bool:
        """False when it is not active."""

    def expire_signals(self, now: str) -> list[str]:
        """End those whose time is over."""

    def next_signal_end(self) -> str | None:
        """When the time of the first of them is over."""

    def is_heard(self, key: str) -> bool:
        """Does any active signal listen to this?"""

    # firings
    def insert_firing(self, firing: FiringRecord) -> bool:
        """False when this cause was written down before."""

    def take_firings(
        self, owner: str, now: str, until: str, limit: int, since: str = ""
    ) -> list[FiringRecord]:
        """What is due, leased until then and its attempt counted: also what somebody leased who
        did not come back. With `since` only what nobody has tried, and came after that."""

    def get_firing(self, firing_id: str) -> FiringRecord | None: ...
    def firing_facts(self, firing: FiringRecord) -> FiringFacts | None:
        """What it is about, as it stands now; None when its signal is gone."""

    def conclude_firing(
        self, signal: Signal, firing: FiringRecord, told: NewEvent, seq: int, *, last: bool
    ) -> bool:
        """Count the signal, end it if this is the `last` time, mark the firing of which `firing`
        says how it ended, and write what is told of it. False when the signal is not active any
        more or was counted by another, or the lease is not ours: then nothing may be kept."""

    def end_firing(self, firing: FiringRecord, owner: str, now: str) -> bool:
        """Its status, error and result; False when the lease is another's."""

    def postpone_firing(
        self, firing_id: str, owner: str, until: str, error: str | None, *, counted: bool
    ) -> bool:
        """Back to the queue. Not `counted`: it only waits for its time."""

    def skip_firings(self, ids: Collection[str], why: str, now: str) -> None:
        """Those of them that are open, whoever has them."""

    def retry_firing(self, firing_id: str, now: str) -> bool:
        """A failed one, as if it were new; False when it has not failed."""

    def firings_of(self, signal_id: str, limit: int) -> list[FiringRecord]:
        """The newest first."""

    def list_firings(
        self, status: FiringStatus, limit: int, after: tuple[str, str] | None = None
    ) -> list[FiringRecord]:
        """The oldest first; `after` is when the last one that was seen was made, and its id."""

    def next_firing(self) -> str | None:
        """When the earliest is due."""

    # what conditions ask
    def has_moved_since(self, item_id: str, seq: int) -> bool: ...
    def count_moves(self, item_id: str, to: Sequence[str], seq: int) -> int:
        """How often the item came into one of these statuses, up to an event."""

    def gather(self, signal_id: str, condition: Condition) -> Gathering:
        """How its items stand, of which one that is not there is in no status; and which firings
        of the signal are open. Both of one moment: what moves later is in neither."""

    # loops
    def put_lineage(self, item_id: str, parent_id: str | None, signal_id: str) -> None: ...
    def ancestry(self, item_id: str) -> list[str]:
        """The signals that made it, its parent, and so on; nearest first."""

    # follow-ups
    def insert_follow_up(self, follow_up: FollowUp) -> bool:
        """False when this firing made one before."""

    def get_follow_up(self, follow_up_id: str) -> FollowUp | None: ...
    def list_follow_ups(
        self,
        status: FollowUpStatus | None,
        work_item_id: str | None,
        agent: str | None,
        after: str | None,
        limit: int,
    ) -> list[FollowUp]:
        """By age."""

    def lease_follow_up(
        self, agent: str, token: str, now: str, until: str, follow_up_id: str | None = None
    ) -> FollowUp | None:
        """The oldest that is open (or leased and lapsed) and not another agent's, or the one that
        is named."""

    def extend_follow_up(self, follow_up_id: str, token: str, until: str) -> FollowUp | None:
        """None when this token's lease is not the one that it has."""

    def end_follow_up(
        self,
        follow_up_id: str,
        token: str | None,
        status: FollowUpStatus,
        *,
        now: str,
        outcome: str | None = None,
        notes: str | None = None,
    ) -> FollowUp | None:
        """With the lease's token, or without one while nobody has it; None when the guard held."""

    def release_follow_up(self, follow_up_id: str, token: str) -> bool: ...
