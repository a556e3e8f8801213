"""Which claim gets which items: pure bookkeeping between the statements of a claim."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rota.model.agents import room_for_reviews
from rota.model.claims import Claim, ClaimedItem, ClaimResult, NothingClaimed
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.storage.port import Take

Filters = tuple[tuple[str, ...], tuple[str, ...], str | None]


@dataclass(slots=True)
class Seat:
    """What an agent may take: its free slots, lowest first, and whether an item names it."""

    free: list[int]
    is_named: bool
    full: NothingClaimed  # the answer when no slot is left
    idle: int = field(init=False)  # free slots for which no item was found

    def __post_init__(self) -> None:
        self.idle = len(self.free)


@dataclass(slots=True)
class Party:
    """One claim of a group: the slots it may fill, and what it got."""

    take: Take
    slots: list[int]
    seat: Seat
    got: list[ClaimedItem] = field(default_factory=list)

    def answer(self) -> ClaimResult:
        if self.got:
            return ClaimResult(self.got)
        # Several claims may share one free slot. If that slot stayed free, nothing was ready.
        return ClaimResult([], NothingClaimed.NOTHING_READY if self.seat.idle else self.seat.full)


def by_filters(takes: Sequence[Take]) -> dict[Filters, list[int]]:
    """Claims with the same filters are served by one search of the queue."""
    groups: dict[Filters, list[int]] = {}
    for number, take in enumerate(takes):
        groups.setdefault((take.types, take.labels, take.project_id), []).append(number)
    return groups


def seat(  # noqa: PLR0917 - a row of the statement `seats`
    max_concurrent: int,
    busy: str | None,
    paused: bool,
    is_named: bool,
    max_in_review: int | None = None,
    in_review: int = 0,
) -> Seat:
    if paused:
        return Seat([], is_named, NothingClaimed.AGENT_PAUSED)
    taken = {int(slot) for slot in busy.split(",")} if busy else ()
    free = [slot for slot in range(max_concurrent) if slot not in taken]
    # It may still work in higher slots, from when its `max_concurrent` was higher.
    del free[max(0, max_concurrent - len(taken)) :]
    room = room_for_reviews(max_in_review, in_review, len(taken))
    if room is None or room >= len(free):
        return Seat(free, is_named, NothingClaimed.NO_FREE_SLOT)
    return Seat(free[:room], is_named, NothingClaimed.IN_REVIEW_LIMIT)


def seated(take: Take, seat: Seat) -> Party:
    """Give a claim as many of its agent's free slots as it wants items."""
    count = len(take.tokens)
    slots, seat.free = seat.free[:count], seat.free[count:]
    return Party(take, slots, seat)


def in_order(items: Iterable[WorkItem]) -> deque[WorkItem]:
    return deque(sorted(items, key=_right))


def _right(item: WorkItem) -> tuple[str, int, str]:
    return item.status, item.priority, item.id


def hand_out(party: Party, named: deque[WorkItem], anyone: deque[WorkItem], now: str) -> None:
    """Fill the party's slots with the best of the agent's named items and the unnamed ones."""
    for number, slot in enumerate(party.slots):
        if named and (not anyone or _right(named[0]) < _right(anyone[0])):
            item = named.popleft()
        elif anyone:
            item = anyone.popleft()
        else:
            return
        party.got.append(_started(party.take, item, slot, number, now))
        party.seat.idle -= 1


def _started(take: Take, item: WorkItem, slot: int, number: int, now: str) -> ClaimedItem:
    """The item as the statement `take_items` will leave it; its row is locked until the commit."""
    item.came_from, item.status, item.reason = item.status, Status.IN_PROGRESS, "claimed"
    item.assigned_agent, item.slot, item.updated_at = take.agent, slot, now
    item.epoch += 1
    item.attempts += 1
    item.version += 1
    token = take.tokens[number]
    item.claim_token, item.lease_expires_at = token, take.expires_at
    item.heartbeat_at = item.progress = None
    claim = Claim(
        item.id, item.epoch, token, take.agent, slot, now, take.lease_seconds, take.expires_at
    )
    return ClaimedItem(item, claim)


TAKEN_FIELDS = (
    "id", "epoch", "token", "agent", "slot", "dispatch_id", "expires_at", "lease_seconds",
    "project_id",
)  # fmt: skip


def rows_of(parties: Iterable[Party]) -> list[list[object]]:
    """The entries of `:rows` for the statements of a claim (see sql/claims.sql)."""
    return [
        [
            item.id, claim.epoch, claim.token, claim.agent, claim.slot,
            dispatch_id if item.came_from is Status.QUEUED else None,
            claim.expires_at, claim.lease_seconds, item.project_id,
        ]
        for party in parties
        for (item, claim), dispatch_id in zip(party.got, party.take.dispatch_ids, strict=False)
    ]  # fmt: skip
