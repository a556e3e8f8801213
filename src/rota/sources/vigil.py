"""Watches the ledger's side of our claims on a tracker: claims past their deadline, and dead ones.

It asks the ledger alone. A tracker that does not answer may delay other chores, but not the end of
work that has gone on unseen for too long.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from rota.claims.timing import Pace, Times
from rota.model.access import SUPERVISOR
from rota.model.clock import from_text
from rota.model.errors import Refused
from rota.model.sources import SourceClaim
from rota.model.status import Verb
from rota.queue.ledger import Ledger
from rota.queue.moves import Order

log = structlog.get_logger()

LOOK_SECONDS = 5.0
CLAIM_LOST = "claim_lost"


def verdict_seconds(times: Times) -> float:
    """How long a claimant may wait for its verdict; the claim of a loser is gone from the ledger by
    then."""
    return min(8 * times.settle, times.trust_in_a_poll / 2)


async def revoke(ledger: Ledger, claim: SourceClaim, why: str) -> None:
    """End the ledger's claim: the agent's next heartbeat tells it to stop."""
    log.warning("claim lost", source=claim.source, issue=claim.source_ref, why=why)
    order = Order(
        Verb.RELEASE,
        claim.work_item_id,
        SUPERVISOR,
        token=claim.token,
        reason=CLAIM_LOST,
        notes=why,
    )
    with contextlib.suppress(Refused):  # it has ended by itself
        await ledger.queue.apply(order)


@dataclass(slots=True)
class Vigil:
    """Ends work whose claim had no clean look in time. A chore of its own, beside the looks."""

    source: str
    ledger: Ledger
    times: Times
    pace: Pace
    by_labels: bool  # in label mode the tracker gives claims no id
    died: Callable[[], None]
    _until: dict[str, float] = field(default_factory=dict)
    _told: dict[str, tuple[datetime, float]] = field(default_factory=dict)
    _dead: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"deadlines of {self.source}"

    def extend(self, firing_id: str, deadline: float) -> None:
        """By `Pace.elapsed`. An unclean look does not shorten an earlier deadline."""
        self._until[firing_id] = max(deadline, self._until.get(firing_id, deadline))

    async def tick(self) -> float:
        claims = await self.ledger.outside.open_claims(self.source)
        at_work = await self._at_work(claims)
        await self._update(at_work)
        for claim in at_work:
            if self.pace.elapsed() >= self._until[claim.firing_id]:
                await revoke(self.ledger, claim, "the tracker could not be read in time")
        self._tell_of_the_dead({claim.firing_id for claim in claims if not claim.live})
        return self._pause()

    async def _at_work(self, claims: Sequence[SourceClaim]) -> list[SourceClaim]:
        """Without claims whose run has ended: the report may wait for a tracker that is down, and
        its delivery finds out what became of the claim."""
        entered = [claim for claim in claims if claim.live and self._was_entered(claim)]
        ended = await self.ledger.post.awaited([claim.work_item_id for claim in entered])
        return [claim for claim in entered if claim.work_item_id not in ended]

    def _was_entered(self, claim: SourceClaim) -> bool:
        """Nobody works on an issue before its claim is entered."""
        return self.by_labels or claim.entry_id is not None

    async def _update(self, claims: Sequence[SourceClaim]) -> None:
        read = await self._last_read() if claims else None
        self._told = {claim.firing_id: self._told_of(claim, read) for claim in claims}
        self._until = {
            name: max(deadline, self._until.get(name, 0.0))
            for name, (_, deadline) in self._told.items()
        }

    async def _last_read(self) -> datetime | None:
        """When all claims were last seen to be ours, by whichever process looked."""
        states = {state.source: state for state in await self.ledger.outside.states()}
        polled_at = states[self.source].polled_at if self.source in states else None
        return None if polled_at is None else from_text(polled_at)

    def _told_of(self, claim: SourceClaim, read: datetime | None) -> tuple[datetime, float]:
        """The time when the ledger last knew the claim to be ours, and the deadline that follows,
        also for claims that this process has not looked at. Computed once, so that a clock that is
        set back later extends no deadline."""
        seen = from_text(claim.created_at)
        if read is not None and (read - seen).total_seconds() > verdict_seconds(self.times):
            seen = read
        known = self._told.get(claim.firing_id)
        if known is not None and known[0] == seen:
            return known
        ago = max(0.0, (self.pace.now() - seen).total_seconds())
        return seen, self.pace.elapsed() + self.times.trust_in_a_poll - ago

    def _tell_of_the_dead(self, dead: set[str]) -> None:
        """Once for each: their claims on the tracker are ended at once, if it can be reached."""
        if dead - self._dead:
            self.died()
        self._dead = dead

    def _pause(self) -> float:
        ahead = min(self._until.values(), default=float("inf")) - self.pace.elapsed()
        return min(LOOK_SECONDS, max(ahead, 0.05))
