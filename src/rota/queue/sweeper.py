"""Brings back items that nobody works on any more, and wakes items that have become due.

There are two rules for stale items. An item whose lease has lapsed goes back to the queue
(or fails once its attempts are used up). An item that was started without a lease and not
updated for too long is blocked, with a note, for a person to look at.
"""

from dataclasses import dataclass
from datetime import timedelta

from rota.model.access import SWEEPER
from rota.model.clock import Hindsight, IdFactory, from_text, to_text
from rota.model.status import Outcome, Verb
from rota.model.work import WorkItem
from rota.queue import moves
from rota.queue.moves import Order
from rota.storage.port import Abandoned, Store, Topic, Transaction

STALE_AFTER = timedelta(minutes=30)
KEEP_KEYS = timedelta(days=30)
KEEP_DELIVERIES = timedelta(days=30)
SILENT_SECONDS = 30.0  # of a process in the middle of a transaction, which takes milliseconds
BATCH = 500
ATTEMPTS_EXHAUSTED = "attempts_exhausted"


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: ids of items released, failed and blocked; how many came due."""

    released: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    due: int = 0

    def __bool__(self) -> bool:
        return bool(self.released or self.failed or self.blocked or self.due)


def catch_up(tx: Transaction, now: str) -> bool:
    """A claim that found nothing does this, so that nothing is stuck while no server runs."""
    due = tx.promote_due(now)
    if due:
        tx.wake(Topic.READY)  # there may be more items than this claim takes
    lapsed = [_lapse(tx, item, now) for item in tx.lapsed_items(now, BATCH)]
    return bool(due or lapsed)


def _lapse(tx: Transaction, item: WorkItem, now: str) -> tuple[Verb, str]:
    spent = item.attempts >= item.max_attempts
    verb = Verb.FAIL if spent else Verb.RELEASE
    order = Order(
        verb,
        item.id,
        SWEEPER,
        token=item.claim_token,
        outcome=Outcome.FAILED if spent else None,
        reason=ATTEMPTS_EXHAUSTED if spent else "lease_expired",
        details={
            "agent": item.assigned_agent,
            "expired_at": item.lease_expires_at,
            "attempt": item.attempts,
        },
    )
    moves.apply(tx, order, "", now)
    return verb, item.id


def _block(tx: Transaction, item: WorkItem, quiet_for: timedelta, now: str) -> str:
    minutes = int(quiet_for.total_seconds() // 60)
    note = f"No update since {item.updated_at}: blocked after {minutes} minutes without one." + (
        f"\nLast note: {item.notes}" if item.notes else ""
    )
    order = Order(Verb.BLOCK, item.id, SWEEPER, notes=note, reason="stale", version=item.version)
    moves.apply(tx, order, "", now)
    return item.id


class Sweeper:
    """A chore: the daemon calls `tick`, and other code may call it too."""

    def __init__(self, store: Store, *, stale_after: timedelta = STALE_AFTER) -> None:
        self._store = store
        self._clock = store.clock
        self._ids = IdFactory(store.clock)
        self._hindsight = Hindsight(store.clock)
        self.stale_after = stale_after
        self._looked: set[str] = set()

    async def tick(self) -> Swept:
        def body(tx: Transaction) -> Swept:
            moment = self._clock.now()  # read here: this body may have waited for the database
            now, before = to_text(moment), to_text(moment - self.stale_after)
            due = tx.promote_due(now)
            if due:
                tx.wake(Topic.READY)
            lapsed = [_lapse(tx, item, now) for item in tx.lapsed_items(now, BATCH)]
            quiet = [
                _block(tx, item, self.stale_after, now) for item in tx.quiet_items(before, BATCH)
            ]
            return Swept(
                released=tuple(item_id for verb, item_id in lapsed if verb is Verb.RELEASE),
                failed=tuple(item_id for verb, item_id in lapsed if verb is Verb.FAIL),
                blocked=tuple(quiet),
                due=due,
            )

        return await self._store.transact(body)

    async def pause(self, longest: float) -> float:
        """Seconds until something may be due, at most `longest`."""

        def body(tx: Transaction) -> list[str | None]:
            return [tx.next_due(), tx.next_expiry()]

        moments = [from_text(text) for text in await self._store.read(body) if text]
        if not moments:
            return longest
        ahead = (min(moments) - self._clock.now()).total_seconds()
        return min(max(ahead, 0.01), longest)

    async def end_abandoned(self) -> list[Abandoned]:
        """End transactions that their processes have left open, when a second look finds them as
        the first did. The database undoes them; a process that goes on runs its own again."""
        found = await self._store.end_abandoned(SILENT_SECONDS, self._looked)
        self._looked = {one.mark for one in found}
        return [one for one in found if one.ended]

    async def prune(self) -> int:
        """Delete idempotency keys and deliveries that are too old to be repeated."""
        moment = self._hindsight.look()
        if moment is None:
            return 0
        keys, deliveries = to_text(moment - KEEP_KEYS), to_text(moment - KEEP_DELIVERIES)
        return await self._store.transact(
            lambda tx: tx.forget_keys(keys) + tx.forget_deliveries(deliveries)
        )
