"""Checks on the tracker, while agents work, that their claims are still theirs."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rota.claims.comments import Kind
from rota.claims.fold import Standing, fold
from rota.claims.protocol import CommentClaims, Grant, Look
from rota.model.clock import from_text
from rota.model.errors import IssueNotFound, TrackerError
from rota.model.sources import SourceClaim
from rota.queue.ledger import Ledger
from rota.sources.aftermath import STALE_SWEPT, Aftermath, is_said_by
from rota.sources.desk import IssueDesk, held_by
from rota.sources.heartbeat import WAITS
from rota.sources.vigil import Vigil, revoke, verdict_seconds

# After so many errors in one round, the tracker is not asked about the others.
MOST_ERRORS = 3


@dataclass(slots=True)
class Round:
    changed: bool = False  # a claim ended
    clean: bool = True  # every claim with a run at work was seen to be ours
    errors: list[TrackerError] = field(default_factory=list)


class Supervision:
    def __init__(self, desk: IssueDesk, ledger: Ledger, vigil: Vigil) -> None:
        self._desk = desk
        self._claims = desk.claims
        self._ledger = ledger
        self._vigil = vigil
        self._aftermath = Aftermath(desk, ledger)
        self._below: dict[str, frozenset[int]] = {}  # ids below a claim that could be read
        self._doubted: set[str] = set()

    async def round(self) -> Round:
        """Look at each. One that cannot be read does not stop the others."""
        claims = await self._open_claims()
        self._forget(claims)
        found = Round()
        for claim in claims:
            try:
                await self._attend(claim, claims, found)
            except TrackerError as error:
                found.errors.append(error)
                found.clean = False
            if len(found.errors) >= MOST_ERRORS:
                break
        return found

    async def _open_claims(self) -> Sequence[SourceClaim]:
        """Lapsed claims are swept first. Otherwise a late heartbeat could renew one of them,
        although it has ended on the tracker, and nothing would look at it again."""
        source = self._desk.tracker.source
        claims = await self._ledger.outside.open_claims(source)
        if any(claim.lapsed for claim in claims):
            await self._ledger.sweeper.tick()
            claims = await self._ledger.outside.open_claims(source)
        return claims

    def _forget(self, claims: Sequence[SourceClaim]) -> None:
        known = {claim.firing_id for claim in claims}
        self._below = {name: ids for name, ids in self._below.items() if name in known}
        self._doubted &= known

    async def _attend(
        self, claim: SourceClaim, claims: Sequence[SourceClaim], found: Round
    ) -> None:
        if claim.over:
            if await self._ledger.post.awaited([claim.work_item_id]):
                return  # its run has ended, and the outbox is about to report the result
            await self._aftermath.settle(claim, claims)
            found.changed = True
        elif claim.lapsed:  # lapsed just now: swept or renewed by the next look
            found.clean = False
        elif not await self._awaits_verdict(claim):
            await self._look(claim, found)

    async def _awaits_verdict(self, claim: SourceClaim) -> bool:
        """A young claim that is not the holder may not have its verdict yet. Its claimant is about
        to learn it, and acts on it."""
        if claim.entry_id is None and isinstance(self._claims, CommentClaims):
            return True
        age = (self._desk.pace.now() - from_text(claim.created_at)).total_seconds()
        if age >= verdict_seconds(self._claims.times):
            return False
        try:
            holder = (await self._claims.standing(int(claim.source_ref))).holder
        except IssueNotFound:
            return False
        return holder is None or holder.id != (claim.entry_id or 0)

    async def _look(self, claim: SourceClaim, found: Round) -> None:
        try:
            look = await self._claims.look(await self._grant(claim))
        except IssueNotFound:
            look = Look(lost=f"#{claim.source_ref} is not there any more")
        late = look.too_late or (await self._beaten_late(claim) if look.lost else ())
        if late:
            await self._slow_down(claim, late)
        if look.lost is None:
            self._doubted.discard(claim.firing_id)
            self._vigil.extend(claim.firing_id, look.deadline)
            found.clean &= look.deadline > 0
        elif not await self._is_its_own_end(claim):
            await self._lose(claim, look.lost)
            found.changed = True

    async def _grant(self, claim: SourceClaim) -> Grant:
        """With the ids below it that the first look could read: ids that appear later came too
        late."""
        grant = held_by(claim).grant
        if not isinstance(self._claims, CommentClaims):
            return grant
        if claim.firing_id not in self._below:
            read = await self._claims.log.read(grant.number)
            ids = frozenset(entry.id for entry in read if entry.id < grant.claim_id)
            self._below[claim.firing_id] = ids
        return replace(grant, smaller=self._below[claim.firing_id])

    async def _is_its_own_end(self, claim: SourceClaim) -> bool:
        """The run itself has reported its end on the tracker, and is about to record it. If it dies
        before that, its lease lapses."""
        try:
            standing = await self._claims.standing(int(claim.source_ref))
        except IssueNotFound:
            return False
        if not isinstance(self._claims, CommentClaims):
            return standing.holder is None and self._is_first_doubt(claim)
        if standing.done_claim is not None and standing.done_claim == claim.entry_id:
            return True
        return _gave_up(standing, claim)

    def _is_first_doubt(self, claim: SourceClaim) -> bool:
        """Labels do not say who removed them: it may be the run, which is recording its end now."""
        if claim.firing_id in self._doubted:
            return False
        self._doubted.add(claim.firing_id)
        return True

    async def _lose(self, claim: SourceClaim, why: str) -> None:
        """The ledger first, because the agent has to stop."""
        await revoke(self._ledger, claim, why)
        with contextlib.suppress(IssueNotFound):  # then there is nothing to release
            await self._claims.release(held_by(claim).grant, "operator-hold")
        await self._ledger.outside.ended(claim.firing_id, "lost")

    # a tracker that is slower than configured

    async def _beaten_late(self, claim: SourceClaim) -> tuple[int, ...]:
        """The run is at work, so its claim was granted; but entries below it now show that it
        lost."""
        if not isinstance(self._claims, CommentClaims) or claim.entry_id is None:
            return ()
        try:
            log = await self._claims.log.read(int(claim.source_ref))
        except IssueNotFound:
            return ()
        before = [entry for entry in log if entry.id <= claim.entry_id]
        first = fold(before, self._claims.times.grace).holder
        if first is None or first.id == claim.entry_id or not await self._was_at_work(claim):
            return ()
        return (first.id,)

    async def _was_at_work(self, claim: SourceClaim) -> bool:
        """By the ledger. A claimant that still waits for its verdict also sends heartbeats, but
        with a progress that says so."""
        item = await self._ledger.outside.standing(claim.source, claim.source_ref)
        if item is None or item.epoch != claim.epoch:
            return False
        return item.heartbeat_at is not None and item.progress != WAITS

    async def _slow_down(self, claim: SourceClaim, late: Sequence[int]) -> None:
        self._below[claim.firing_id] = self._below.get(claim.firing_id, frozenset()) | {*late}
        await self._desk.slow_down(
            f"#{claim.source_ref}: entries {', '.join(map(str, late))} became visible after claim"
            f" {claim.entry_id} behind them was granted"
        )
        self._vigil.times = self._claims.times


def _gave_up(standing: Standing, claim: SourceClaim) -> bool:
    ended = standing.ended
    return (
        ended is not None
        and ended.kind is Kind.RELEASE
        and is_said_by(ended, claim)
        and ended.outcome != STALE_SWEPT
    )
