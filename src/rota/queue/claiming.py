"""Claims items and finishes them in batches: the hot path."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from rota.model.claims import (
    MAX_LEASE_SECONDS,
    MAX_WAIT_SECONDS,
    ClaimRequest,
    ClaimResult,
    NothingClaimed,
)
from rota.model.clock import Clock, IdFactory, later, to_text
from rota.model.errors import InvalidInput, RotaError
from rota.model.status import Outcome, Status
from rota.model.work import MAX_BATCH, NewItem, WorkItem, check_name, check_text
from rota.queue import moves, sweeper
from rota.queue.intake import LONGEST, check_labels
from rota.queue.moves import Lease, Lost, Moved, Order
from rota.storage.port import Finish, Take, Transaction

# A wake-up can be lost (a broken LISTEN connection, a crash between commit and NOTIFY), so waiting
# claims look again anyway.
LOOK_AGAIN_SECONDS = 2.0
SLOT_CHECK_SECONDS = 0.25


@lru_cache(maxsize=1024)
def check(request: ClaimRequest) -> None:
    """Cached, because an agent repeats the same request again and again."""
    check_name(request.agent, "agent")
    if not 1 <= request.limit <= MAX_BATCH:
        raise InvalidInput(
            f"limit: {request.limit} is out of range; use 1 to {MAX_BATCH}", field="limit"
        )
    if not 0 <= request.wait_seconds <= MAX_WAIT_SECONDS:
        raise InvalidInput(
            f"wait_seconds: {request.wait_seconds} is out of range; use 0 to {MAX_WAIT_SECONDS}",
            field="wait_seconds",
        )
    check_lease(request.lease_seconds)
    if len(request.types) > 50:
        raise InvalidInput("types: at most 50 are allowed", field="types")
    for kind in request.types:
        check_text(kind, "type", LONGEST["type"])
    check_labels(request.labels)


def check_lease(seconds: float) -> None:
    if not 1 <= seconds <= MAX_LEASE_SECONDS:
        raise InvalidInput(
            f"lease_seconds: {seconds} is out of range; use 1 to {MAX_LEASE_SECONDS}",
            field="lease_seconds",
        )


def lease(ids: IdFactory, seconds: float, first: float | None = None) -> Lease:
    """`first` is how long it holds until its first heartbeat, if that is shorter."""
    check_lease(seconds)
    first = min(first or seconds, seconds)
    check_lease(first)
    return Lease(ids.token(), seconds, first)


def expiry(moment: datetime, seconds: float) -> str:
    """When a lease of this length ends, if it begins at `moment`."""
    check_lease(seconds)
    return to_text(later(moment, seconds, "lease_seconds"))


def look_again(result: ClaimResult) -> float:
    """Seconds until the next look. A freed slot is not announced to waiting claims, so a claim
    without a free slot looks more often."""
    if result.reason is NothingClaimed.NO_FREE_SLOT:
        return SLOT_CHECK_SECONDS
    return LOOK_AGAIN_SECONDS


def take(
    tx: Transaction, requests: Sequence[ClaimRequest], ids: IdFactory, moment: datetime
) -> list[ClaimResult]:
    """Claim for all requests. Those that got nothing are tried again if a sweep frees something."""
    takes, now = _takes(requests, ids, moment), to_text(moment)
    answers = tx.take(takes, now)
    # Also for an agent without a free slot: a lapsed claim of its own may fill the slot.
    empty = [
        n
        for n, one in enumerate(answers)
        if one.reason is not None and one.reason is not NothingClaimed.AGENT_PAUSED
    ]
    if empty and sweeper.catch_up(tx, now):
        for n, again in zip(empty, tx.take([takes[n] for n in empty], now), strict=True):
            answers[n] = again
    return answers


def _takes(requests: Sequence[ClaimRequest], ids: IdFactory, moment: datetime) -> list[Take]:
    """Made inside the transaction. If a lease began while its claim still waited for the database,
    it could lapse before anybody held it."""
    count = sum(request.limit for request in requests)
    tokens, dispatch_ids = ids.tokens(count), ids.several(count)
    ends = {seconds: expiry(moment, seconds) for seconds in {one.lease_seconds for one in requests}}
    takes, at = list[Take](), 0
    for one in requests:
        some = slice(at, at := at + one.limit)
        takes.append(
            Take(
                one.agent, tokens[some], dispatch_ids[some], one.lease_seconds,
                ends[one.lease_seconds], one.types, one.labels, one.project_id,
            )
        )  # fmt: skip
    return takes


def new_items(
    tx: Transaction, fresh: Sequence[tuple[str, NewItem]], actor: str | None, now: str
) -> list[WorkItem]:
    """The items just inserted. Built here and not read back, unless links changed them."""
    return [
        (tx.get_item(item_id) if item.blocked_by else None) or _queued(item_id, item, actor, now)
        for item_id, item in fresh
    ]


def _queued(item_id: str, item: NewItem, actor: str | None, now: str) -> WorkItem:
    later = item.available_at is not None and item.available_at > now
    return WorkItem(  # by position: naming every field takes twice as long
        item_id, item.project_id, item.type, item.description, item.body, item.payload,
        item.priority, Status.QUEUED, None, item.assigned_agent, item.assigned_agent is not None,
        None, item.created_by or actor, now, now, None, None, None, item.labels, None, 0,
        item.max_attempts, item.available_at, later, None, 0, 0, 0, None, None, None, None, 1,
        item.source, item.source_ref, None,
    )  # fmt: skip


@dataclass(slots=True)
class Finished:
    """One answer of a batch completion: the item or the error, and what its holder took next."""

    id: str
    item: WorkItem | None = None
    error: RotaError | None = None
    is_fresh: bool = False  # completed just now; False for a repeated call
    next: ClaimResult | None = None

    def moved(self) -> Moved:
        """Raises the error, if there is one."""
        if self.item is None:
            raise self.error or AssertionError("an answer has an item or an error")
        return Moved(self.item, repeated=not self.is_fresh, next=self.next)


def finish_and_take(
    tx: Transaction, orders: Sequence[Order], ids: IdFactory, clock: Clock
) -> list[Finished]:
    """Complete all orders, which frees their slots, and then claim the next items."""
    wanted = [order.next for order in orders if order.next is not None]
    if sum(one.limit for one in wanted) <= len(orders):  # else there may be too few slots
        tx.foresee(wanted)
    answers = finish(tx, orders, ids, to_text(clock.now()))
    going_on = [
        (answer, order.next)
        for answer, order in zip(answers, orders, strict=True)
        if order.next is not None and answer.is_fresh
    ]
    if going_on:
        # Read the clock again: the completion may have waited, and a lease begins with its claim.
        taken = take(tx, [request for _, request in going_on], ids, clock.now())
        for (answer, _), result in zip(going_on, taken, strict=True):
            answer.next = result
    return answers


def finish(tx: Transaction, orders: Sequence[Order], ids: IdFactory, now: str) -> list[Finished]:
    """Completes plain orders of holders in set-based statements, and the rest one by one, so that
    each gets its own answer."""
    held = [
        Finish(order.item_id, order.token, order.notes, order.actor)
        for order in orders
        if order.token and _is_plain(order)
    ]
    told = {order.item_id for order in orders}
    if len(told) < len(orders):  # several orders for one item go one by one
        count = Counter(order.item_id for order in orders)
        held = [one for one in held if count[one.item_id] == 1]
    done = {item.id: item for item in tx.finish(held, now)} if held else {}
    for item in done.values():
        if item.dependents:
            tx.append(moves.unblocked(tx, item, now))
    return [
        Finished(order.item_id, done[order.item_id], is_fresh=True)
        if order.item_id in done
        else _finish_one(tx, order, ids, now)
        for order in orders
    ]


def _is_plain(order: Order) -> bool:
    """Whether the set-based statement can express the order."""
    return order.outcome == Outcome.SUCCESS and not (
        order.force
        or order.version is not None
        or order.reason
        or order.artifact_url
        or order.available_at
        or order.details
    )


def _finish_one(tx: Transaction, order: Order, ids: IdFactory, now: str) -> Finished:
    try:
        moves.check_order(order)
        result = moves.apply(tx, order, ids.new(), now)
    except RotaError as error:  # raised before anything was changed
        return Finished(order.item_id, error=error)
    if isinstance(result, Lost):
        return Finished(order.item_id, error=result.error)
    return Finished(order.item_id, result.item, is_fresh=not result.repeated)
