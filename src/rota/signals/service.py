"""Signals for the faces: make, read, cancel, retry; and follow-ups: take, complete."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rota.model.claims import DEFAULT_LEASE_SECONDS
from rota.model.clock import IdFactory, to_text
from rota.model.errors import ClaimLost, NotFound, Refused, StorageError
from rota.model.events import Event, EventType, NewEvent
from rota.model.signals import (
    FiringRecord,
    FiringStatus,
    FollowUp,
    FollowUpStatus,
    NewSignal,
    Signal,
    SignalStatus,
)
from rota.model.work import MAX_PAGE, check_name
from rota.queue.claiming import check_lease
from rota.queue.declarations import may_go
from rota.queue.enrolment import project_of
from rota.queue.intake import check_optional
from rota.signals.conditions import Case, Holds, judge, keys
from rota.signals.making import cancel, demand_what_it_names, insert, signal_of
from rota.signals.reading import read_signal
from rota.signals.syncing import Synced, let_go, sync
from rota.storage.declaration_port import DeclarationKind
from rota.storage.port import Store, Topic, Transaction

MOST_TESTED = 1_000


@dataclass(frozen=True, slots=True)
class SignalDetail:
    signal: Signal
    firings: list[FiringRecord]


class Signals:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = store.clock
        self._ids = IdFactory(self._clock)

    # making

    def read(
        self,
        trigger: Mapping[str, Any],
        action: Mapping[str, Any] | None = None,
        **facts: Any,
    ) -> NewSignal:
        """Parse and check a signal; `facts` are the other fields of `NewSignal`."""
        return read_signal(trigger, action, self._clock.now(), **facts)

    async def create(self, new: NewSignal, *, actor: str | None = None) -> Signal:
        now = self._now()
        signal = self._signal(new, actor, now)
        made = await self._store.transact(lambda tx: insert(tx, signal, now))
        await self._bound()
        return made

    def _signal(self, new: NewSignal, actor: str | None, now: str) -> Signal:
        return signal_of(new, self._ids.new(), actor, now)

    async def sync(self, wanted: Sequence[NewSignal], home: str = "") -> Synced:
        """Bring the ledger's signals in step with a server's file; `home` is the server's home."""
        now = self._now()
        synced = await self._store.transact(lambda tx: sync(tx, wanted, home, now, self._ids))
        await self._bound()
        return synced

    async def _bound(self) -> None:
        """A processor would do it, too, but perhaps much later, and with more to look through."""
        with suppress(StorageError):
            await self._store.transact(lambda tx: tx.bound_young())

    async def let_go(self, home: str = "") -> None:
        """Remove signals that a file has let go, if no server has them any more: a server that had
        them may be gone by now."""
        if not await self._store.read(lambda tx: may_go(tx, DeclarationKind.SIGNAL, home)):
            return
        now = self._now()
        await self._store.transact(lambda tx: let_go(tx, home, now))

    # reading

    async def get(self, signal_id: str) -> SignalDetail:
        def body(tx: Transaction) -> SignalDetail:
            return SignalDetail(_found(tx, signal_id), tx.firings_of(signal_id, 50))

        return await self._store.read(body)

    async def find(
        self,
        status: SignalStatus | None = None,
        work_item_id: str | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
        newest: bool = False,
    ) -> list[Signal]:
        most = max(1, min(limit, MAX_PAGE))
        return await self._store.read(
            lambda tx: tx.list_signals(status, work_item_id, after, most, newest=newest), long=True
        )

    async def failed(self, limit: int = 50) -> list[FiringRecord]:
        return await self.firings(FiringStatus.FAILED, limit)

    async def firings(
        self, status: FiringStatus, limit: int = 50, *, after: tuple[str, str] | None = None
    ) -> list[FiringRecord]:
        """Oldest first; `after` is the creation time and id of the last firing already seen."""
        most = max(1, min(limit, MAX_PAGE))
        return await self._store.read(lambda tx: tx.list_firings(status, most, after), long=True)

    async def test(self, new: NewSignal) -> list[Event]:
        """The latest events that would have fired it; nothing is stored."""
        signal = self._signal(new, None, self._now())

        def body(tx: Transaction) -> list[Event]:
            demand_what_it_names(tx, signal)
            after = max(0, tx.last_event() - MOST_TESTED)
            return [
                event for event in tx.events_after(after, MOST_TESTED) if _fires(tx, signal, event)
            ]

        return await self._store.read(body, long=True)

    # changing

    async def cancel(self, signal_id: str, *, actor: str | None = None) -> Signal:
        now = self._now()

        def body(tx: Transaction) -> Signal:
            signal = _found(tx, signal_id)
            if not cancel(tx, signal, actor, now):
                raise Refused(
                    f"signal {signal_id} is {signal.status} already", status=signal.status
                )
            return _found(tx, signal_id)

        return await self._store.transact(body)

    async def retry(self, firing_id: str) -> FiringRecord:
        """Queue a failed firing again."""
        now = self._now()

        def body(tx: Transaction) -> FiringRecord:
            firing = tx.get_firing(firing_id)
            if firing is None:
                raise NotFound(f"there is no firing {firing_id[:100]!r}", id=firing_id[:100])
            if not tx.retry_firing(firing_id, now):
                raise Refused(
                    f"firing {firing_id} is {firing.status}; only failed ones are retried"
                )
            tx.wake(Topic.EVENTS)
            return tx.get_firing(firing_id) or firing

        return await self._store.transact(body)

    # follow-ups

    async def follow_ups(
        self,
        status: FollowUpStatus | None = None,
        work_item_id: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        *,
        after: str | None = None,
    ) -> list[FollowUp]:
        most = max(1, min(limit, MAX_PAGE))
        return await self._store.read(
            lambda tx: tx.list_follow_ups(status, work_item_id, agent, after, most), long=True
        )

    async def follow_up(self, follow_up_id: str) -> FollowUp:
        return await self._store.read(
            lambda tx: tx.get_follow_up(follow_up_id) or _no_follow_up(follow_up_id)
        )

    async def take_follow_up(
        self,
        agent: str,
        *,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
    ) -> FollowUp | None:
        """Lease the oldest follow-up that this agent may have."""
        check_name(agent, "agent")
        check_lease(lease_seconds)
        token = self._ids.token()

        def body(tx: Transaction) -> FollowUp | None:
            # The clock is read inside the body: the lease begins when the transaction runs.
            now, until = self._now(), self._until(lease_seconds)
            return tx.lease_follow_up(agent, token, now, until)

        return await self._store.transact(body)

    async def extend_follow_up(
        self, follow_up_id: str, token: str, *, lease_seconds: float = DEFAULT_LEASE_SECONDS
    ) -> FollowUp:
        """A heartbeat. It also renews a lapsed lease, unless another agent has the follow-up."""
        check_lease(lease_seconds)

        def body(tx: Transaction) -> FollowUp:
            extended = tx.extend_follow_up(follow_up_id, token, self._until(lease_seconds))
            if extended is None:
                raise _lost(tx, follow_up_id)
            return extended

        return await self._store.transact(body)

    async def complete_follow_up(
        self,
        follow_up_id: str,
        *,
        token: str | None = None,
        outcome: str = "success",
        notes: str | None = None,
        cancelled: bool = False,
        actor: str | None = None,
    ) -> FollowUp:
        check_optional(notes, "notes")
        now = self._now()
        status = FollowUpStatus.CANCELLED if cancelled else FollowUpStatus.COMPLETED

        def body(tx: Transaction) -> FollowUp:
            ended = tx.end_follow_up(
                follow_up_id, token, status, now=now, outcome=outcome, notes=notes
            )
            if ended is None:
                raise _refusal(tx, follow_up_id)
            told = _follow_up_event(ended, actor, now)
            tx.append([replace(told, project_id=project_of(tx, ended.work_item_id))])
            tx.wake(Topic.EVENTS)
            return ended

        return await self._store.transact(body)

    async def release_follow_up(self, follow_up_id: str, token: str) -> FollowUp:
        def body(tx: Transaction) -> FollowUp:
            if not tx.release_follow_up(follow_up_id, token):
                raise _refusal(tx, follow_up_id)
            return tx.get_follow_up(follow_up_id) or _no_follow_up(follow_up_id)

        return await self._store.transact(body)

    def _now(self) -> str:
        return to_text(self._clock.now())

    def _until(self, lease_seconds: float) -> str:
        return to_text(self._clock.now() + timedelta(seconds=lease_seconds))


def _fires(tx: Transaction, signal: Signal, event: Event) -> bool:
    heard = {
        f"item:{event.work_item_id}:{event.to_status}",
        f"project:{event.project_id}:{event.to_status}",
        f"agent:{event.agent}:{event.to_status}",
        f"any:{event.to_status}",
        f"{event.type}:{event.agent}",
        f"{event.type}:",
    }
    if not heard & set(keys(signal.condition, signal.work_item_id)):
        return False
    firing = FiringRecord(
        "", signal.id, "", event.seq, event.work_item_id, FiringStatus.QUEUED, 0, "", ""
    )
    about = signal.work_item_id or event.work_item_id
    item = tx.get_item(about) if about else None
    case = Case(signal, firing, event, item, signal.created_at)
    return isinstance(judge(tx, case), Holds)


def _found(tx: Transaction, signal_id: str) -> Signal:
    signal = tx.get_signal(signal_id)
    if signal is None:
        raise NotFound(f"there is no signal {signal_id[:100]!r}", id=signal_id[:100])
    return signal


def _no_follow_up(follow_up_id: str) -> FollowUp:
    raise NotFound(f"there is no follow-up {follow_up_id[:100]!r}", id=follow_up_id[:100])


def _refusal(tx: Transaction, follow_up_id: str) -> Exception:
    found = tx.get_follow_up(follow_up_id) or _no_follow_up(follow_up_id)
    if found.status is FollowUpStatus.LEASED:
        return ClaimLost(
            f"follow-up {found.id} is with {found.holder!r} until {found.lease_expires_at}; give"
            " the token of its lease",
            status=found.status,
        )
    return Refused(f"follow-up {found.id} is {found.status}", status=found.status)


def _lost(tx: Transaction, follow_up_id: str) -> ClaimLost:
    """The caller no longer has the follow-up, whatever its status is now."""
    found = tx.get_follow_up(follow_up_id) or _no_follow_up(follow_up_id)
    return ClaimLost(
        f"follow-up {found.id} is not yours any more, it is {found.status}; stop working on it",
        status=found.status,
    )


def _follow_up_event(done: FollowUp, actor: str | None, now: str) -> NewEvent:
    data = {"follow_up_id": done.id, "status": str(done.status), "outcome": done.outcome}
    return NewEvent(
        EventType.FOLLOW_UP_COMPLETED,
        now,
        actor=actor or done.holder,
        work_item_id=done.work_item_id,
        agent=done.holder,
        data=data,
    )
