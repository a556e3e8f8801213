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
from rota.model.work import Related


class SignalVerbs(Protocol):
    """Part of `Transaction`."""

    # signals
    def insert_signal(self, signal: Signal, keys: Sequence[str]) -> None:
        """`keys` are what it listens to; they are deleted when the signal ends."""

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
        """Oldest first; with `newest`, newest first, and `after` continues with older signals."""

    def named_signals(self) -> list[Signal]:
        """Active signals from the configuration."""

    def declared_signal(self, name: str) -> Signal | None:
        """The signal of that name from the configuration: the active one, or else the last one."""

    def signal_named(self, name: str) -> str | None:
        """The id of the active signal of that name."""

    def end_signal(self, signal_id: str, status: SignalStatus, now: str) -> bool:
        """False when the signal is not active."""

    def expire_signals(self, now: str) -> list[str]:
        """End the signals that have expired, at most 500; returns their ids."""

    def next_signal_end(self) -> str | None:
        """When the next active signal expires."""

    def has_young(self) -> bool:
        """Whether there are signals that moves may have overlooked, because both were made at the
        same time."""

    def bound_young(self) -> None:
        """Only moves that have begun by now can have overlooked the signals that there are."""

    def catch_up(self) -> int:
        """Make the firings of such moves, as far as they are committed; returns their number. Only
        for signals that have their bound."""

    def is_heard(self, key: str) -> bool:
        """Whether any active signal listens to this key."""

    # firings
    def insert_firing(self, firing: FiringRecord) -> bool:
        """False when this cause already has a firing."""

    def take_firings(
        self, owner: str, now: str, until: str, limit: int, since: str = ""
    ) -> list[FiringRecord]:
        """Lease due firings and count an attempt, including firings whose lease has lapsed. With
        `since`, only firings made since then that nobody has tried."""

    def get_firing(self, firing_id: str) -> FiringRecord | None: ...
    def firing_facts(self, firing: FiringRecord) -> FiringFacts | None:
        """The firing's signal, event and item as they are now; None when its signal is gone."""

    def conclude_firing(
        self, signal: Signal, firing: FiringRecord, told: NewEvent, seq: int, *, last: bool
    ) -> bool:
        """Count the signal's firing, end the signal if this is the `last` time, end the firing as
        `firing` says, and write the event `told`. False when the signal is no longer active, was
        counted by another transaction, or the lease is not ours: the caller must then roll back."""

    def end_firing(self, firing: FiringRecord, owner: str, now: str) -> bool:
        """Store its status, error and result; False when the lease is another's."""

    def postpone_firing(
        self, firing_id: str, owner: str, until: str, error: str | None, *, counted: bool
    ) -> bool:
        """Put a firing back into the queue. If not `counted`, this was no attempt: the firing only
        waits for its time."""

    def skip_firings(self, ids: Collection[str], why: str, now: str) -> None:
        """Skip those of them that are open, even if leased."""

    def retry_firing(self, firing_id: str, now: str) -> bool:
        """Queue a failed firing as if it were new; False when it has not failed."""

    def firings_of(self, signal_id: str, limit: int) -> list[FiringRecord]:
        """Newest first."""

    def list_firings(
        self, status: FiringStatus, limit: int, after: tuple[str, str] | None = None
    ) -> list[FiringRecord]:
        """Oldest first; `after` is the creation time and id of the last firing already seen."""

    def next_firing(self) -> str | None:
        """When the earliest firing is due."""

    # facts for conditions
    def has_moved_since(self, item_id: str, seq: int) -> bool: ...
    def count_moves(self, item_id: str, condition: Condition, seq: int) -> int:
        """How often the item has moved as the condition says, up to an event."""

    def gather(self, signal_id: str, condition: Condition) -> Gathering:
        """How many of the condition's items there are and how many are in its statuses (a missing
        item is in no status), and which firings of the signal are open. Both are read at one
        moment, so a later move is in neither."""

    # items that signals made
    def put_lineage(
        self, item_id: str, parent_id: str | None, signal_id: str, follows_id: str | None
    ) -> None:
        """`parent_id` is the item whose move made it, `follows_id` the one that it is about."""

    def followed(self, item_id: str) -> list[Related]:
        """The item that this one follows, if a signal made it for one."""

    def followers(self, item_id: str, limit: int) -> list[Related]:
        """The items that signals made for this one, oldest first."""

    def ancestry(self, item_id: str) -> list[str]:
        """The signals that made the item, its parent, and so on; nearest first."""

    # follow-ups
    def insert_follow_up(self, follow_up: FollowUp) -> bool:
        """False when this firing has already made one."""

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

    def lease_follow_up(self, agent: str, token: str, now: str, until: str) -> FollowUp | None:
        """Lease the oldest follow-up that is open (or whose lease has lapsed) and not for another
        agent."""

    def extend_follow_up(self, follow_up_id: str, token: str, until: str) -> FollowUp | None:
        """None when this token is not that of the current lease."""

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
        """With the token of the lease, or without a token while nobody holds it, because it is open
        or its lease has lapsed; otherwise None."""

    def release_follow_up(self, follow_up_id: str, token: str) -> bool: ...
