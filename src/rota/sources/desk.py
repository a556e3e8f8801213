"""One repository's desk: an issue is taken here, in the ledger first and then on its tracker.

All agents of one database ask the ledger before they go to the tracker, so
that only one of them goes; the tracker decides between fleets. An end is said
the other way round: what the tracker has not accepted is not recorded as done.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from rota.claims.comments import firing_id
from rota.claims.fold import Standing
from rota.claims.pickup import Asker, Objection, Obstacle
from rota.claims.port import Issue, Tracker
from rota.claims.protocol import Claimant, Grant, Look, Refusal
from rota.claims.timing import Pace, Times
from rota.model.claims import ClaimedItem
from rota.model.errors import ClaimLost, Refused
from rota.model.sources import Firing, SourceClaim
from rota.model.status import Verb
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.sources.gatekeeper import Gatekeeper
from rota.sources.items import new_item
from rota.sources.port import WorkResult
from rota.sources.reports import pull_request, released, report


class Claims(Protocol):
    """How a claim is made on the tracker: by comments, strictly, or by labels alone."""

    @property
    def times(self) -> Times: ...

    async def standing(self, number: int) -> Standing: ...

    async def claim(
        self,
        number: int,
        claimant: Claimant,
        *,
        entered: Callable[[int], Awaitable[None]] | None = None,
        asker: Asker | None = None,
    ) -> Grant | Refusal: ...

    async def look(self, grant: Grant) -> Look: ...

    async def finish(self, grant: Grant, pr: str | None, text: str = "") -> bool: ...

    async def release(
        self, grant: Grant, outcome: str, text: str = "", *, park: bool = False
    ) -> bool: ...


@dataclass(frozen=True, slots=True)
class Held:
    """What we hold: the grant on the tracker, and the claim in the ledger when there is one."""

    grant: Grant
    item_id: str | None = None
    token: str | None = None
    issue: Issue | None = None  # as it was judged, just after it was claimed


class IssueDesk:
    def __init__(
        self,
        tracker: Tracker,
        claims: Claims,
        keeper: Gatekeeper,
        fleet: str,
        *,
        ledger: Ledger | None = None,
        pace: Pace | None = None,
        lease_seconds: float = 900,
        parks: bool = False,
        always_closes: bool = False,
    ) -> None:
        self.tracker = tracker
        self.claims = claims
        self.keeper = keeper
        self.fleet = fleet
        self.ledger = ledger
        self.pace = pace or Pace()
        self.lease_seconds = lease_seconds
        self._parks = parks
        self._always_closes = always_closes
        self._held: dict[tuple[int, str], Held] = {}

    # take

    async def take(
        self,
        number: int,
        codename: str,
        *,
        firing: str | None = None,
        lease_seconds: float | None = None,
    ) -> Held | Refusal:
        """Raises `IssueNotFound` and `TrackerError`; then nothing of it is left in the ledger."""
        issue = await self.tracker.issue(number)
        refused = await self.keeper.judge(issue, await self.claims.standing(number))
        if refused is not None:
            return Refusal(refused, refused.message)
        claimant = self._claimant(codename, firing)
        try:
            claimed = await self._take_in_ledger(issue, claimant, lease_seconds)
        except Refused as error:
            return Refusal(Objection(Obstacle.CLAIMED, error.message), error.message)
        return await self._take_on_tracker(issue, claimant, claimed)

    def _claimant(self, codename: str, firing: str | None) -> Claimant:
        made = firing or firing_id(self.pace.now(), secrets.randbits(16))
        return Claimant(self.fleet, codename, made, secrets.token_hex(8))

    async def _take_in_ledger(
        self, issue: Issue, claimant: Claimant, lease_seconds: float | None
    ) -> ClaimedItem | None:
        if self.ledger is None:
            return None
        firing = Firing(claimant.firing_id, claimant.codename, claimant.fleet, claimant.nonce)
        return await self.ledger.outside.take(
            new_item(self.tracker.source, issue),
            claimant.codename,
            lease_seconds or self.lease_seconds,
            firing,
            cleared=True,
        )

    async def _take_on_tracker(
        self, issue: Issue, claimant: Claimant, claimed: ClaimedItem | None
    ) -> Held | Refusal:
        async def entered(entry: int) -> None:
            if self.ledger is not None:
                await self.ledger.outside.entered(claimant.firing_id, entry)

        try:
            answer = await self.claims.claim(issue.number, claimant, entered=entered)
        except BaseException as error:
            await asyncio.shield(self._undo(claimed, claimant, type(error).__name__))
            raise
        if isinstance(answer, Refusal):
            await self._undo(claimed, claimant, answer.obstacle or "tracker_error")
            return answer
        held = Held(answer, *_ids(claimed), self.keeper.as_judged(issue))
        self._held[issue.number, claimant.codename] = held
        return held

    async def _undo(self, claimed: ClaimedItem | None, claimant: Claimant, why: str) -> None:
        """Nobody has worked: the ledger is as if it had not been asked, but for the events."""
        if self.ledger is not None and claimed is not None:
            await self.ledger.outside.give_back(claimant.firing_id, why)

    # what we hold

    async def held(self, number: int, codename: str) -> Held:
        """By this agent, also after a restart; raises `ClaimLost`."""
        if self.ledger is None:
            kept = self._held.get((number, codename))
            if kept is None:
                raise ClaimLost(f"'{codename}' does not hold #{number}")
            return kept
        claim = await self.ledger.outside.claim_of(self.tracker.source, str(number))
        if claim is None or claim.codename != codename or not claim.live:
            raise ClaimLost(f"'{codename}' does not hold #{number} any more")
        kept = self._held.get((number, codename))
        same = kept is not None and kept.token == claim.token
        return kept if kept is not None and same else held_by(claim)

    # the end

    async def finish(self, number: int, codename: str, result: WorkResult) -> None:
        """Report how it ended. Raises `ClaimLost` when somebody else has the issue now."""
        held = await self.held(number, codename)
        await self._beat(held, codename)
        if result.outcome == "success":
            accepted = await self._finish_on_tracker(held, result)
        else:
            accepted = await self.claims.release(held.grant, result.outcome, report(result))
        if not accepted:
            await self._lost(held, codename)
        await self._record(held, codename, result)

    async def _beat(self, held: Held, codename: str) -> None:
        """The lease lasts while the tracker is asked."""
        if self.ledger is not None and held.item_id and held.token:
            await self.ledger.queue.heartbeat(held.item_id, held.token, actor=codename)

    async def _finish_on_tracker(self, held: Held, result: WorkResult) -> bool:
        pr = pull_request(result.artifacts)
        if not await self.claims.finish(held.grant, pr, report(result)):
            return False
        if pr is None or self._always_closes:
            await self.tracker.close(held.grant.number)
        return True

    async def _lost(self, held: Held, codename: str) -> None:
        if self.ledger is not None and held.item_id:
            order = Order(
                Verb.RELEASE, held.item_id, codename, token=held.token, reason="claim_lost"
            )
            await self.ledger.queue.apply(order)
        self._held.pop((held.grant.number, codename), None)
        raise ClaimLost(
            f"claim {held.grant.claim_id} on #{held.grant.number} has ended; its result was not"
            " accepted"
        )

    async def _record(self, held: Held, codename: str, result: WorkResult) -> None:
        self._held.pop((held.grant.number, codename), None)
        if self.ledger is None or held.item_id is None:
            return
        await self.ledger.queue.apply(_order(held, codename, result))
        await self.ledger.outside.ended(held.grant.claimant.firing_id, result.outcome)

    async def release(
        self,
        number: int,
        codename: str,
        *,
        outcome: str = "released",
        reason: str | None = None,
        comment: bool = False,
    ) -> bool:
        """Give it back; False when it was not ours any more."""
        try:
            held = await self.held(number, codename)
        except ClaimLost:
            return False
        text = released(reason) if comment else ""
        given = await self.claims.release(held.grant, outcome, text, park=self._parks)
        await self._let_go(held, codename, reason)
        return given

    async def _let_go(self, held: Held, codename: str, reason: str | None) -> None:
        self._held.pop((held.grant.number, codename), None)
        if self.ledger is None or held.item_id is None:
            return
        order = Order(
            Verb.RELEASE,
            held.item_id,
            codename,
            token=held.token,
            reason="released",
            notes=reason,
        )
        await self.ledger.queue.apply(order)
        await self.ledger.outside.ended(held.grant.claimant.firing_id, "released")


def held_by(claim: SourceClaim) -> Held:
    """A claim of ours as the ledger remembers it."""
    claimant = Claimant(claim.fleet, claim.codename, claim.firing_id, claim.nonce)
    grant = Grant(int(claim.source_ref), claim.entry_id or 0, claimant)
    return Held(grant, claim.work_item_id, claim.token)


def _ids(claimed: ClaimedItem | None) -> tuple[str | None, str | None]:
    return (None, None) if claimed is None else (claimed.item.id, claimed.claim.token)


def _order(held: Held, codename: str, result: WorkResult) -> Order:
    """Success completes, failure fails, a partial result waits for a person."""
    verb, outcome = {
        "success": (Verb.COMPLETE, "success"),
        "failure": (Verb.FAIL, "failed"),
        "partial": (Verb.BLOCK, None),
    }[result.outcome]
    notes = "\n\n".join(part for part in (result.summary, result.error) if part)
    return Order(
        verb,
        held.item_id or "",
        codename,
        token=held.token,
        outcome=outcome,
        notes=notes or result.outcome,
        artifact_url=pull_request(result.artifacts),
    )
