"""The desk of one repository: it takes an issue in the ledger first, then on the tracker.

All agents of one database ask the ledger before the tracker, so that only one of them claims there;
the tracker decides between fleets. An end goes the other way round: work that the tracker has not
accepted as done is not recorded as done.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from rota.claims.comments import firing_id
from rota.claims.fold import Standing
from rota.claims.pickup import Asker, Objection, Obstacle
from rota.claims.port import Issue, Tracker
from rota.claims.projection import Repair, project
from rota.claims.protocol import Claimant, CommentClaims, Grant, Look, Refusal
from rota.claims.timing import Pace, Times
from rota.model.claims import ClaimedItem
from rota.model.clock import to_text
from rota.model.errors import (
    ClaimedByAnother,
    ClaimLost,
    IssueNotFound,
    Refused,
    RotaError,
    VersionMismatch,
    WorkSourceError,
)
from rota.model.sources import Firing, SourceClaim
from rota.model.status import OUTCOME_OF, RULES, Status, Verb
from rota.queue.collecting import IN_PART
from rota.queue.intake import LONGEST
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.queue.sweeper import ATTEMPTS_EXHAUSTED
from rota.sources.gatekeeper import Gatekeeper
from rota.sources.heartbeat import kept_alive
from rota.sources.items import new_item
from rota.sources.local_mapping import address_of, clean, notes_of, verb_of
from rota.sources.port import ReleaseOptions, WorkOutcome, WorkResult
from rota.sources.reports import pull_request, released, report
from rota.sources.rights import explained

log = structlog.get_logger()

LATE = "finished_before_a_crash"


class Claims(Protocol):
    """How a claim is made on the tracker: by comments, in strict mode, or by labels alone."""

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
    """The grant on the tracker, and the claim in the ledger if there is one."""

    grant: Grant
    item_id: str | None = None
    token: str | None = None
    epoch: int | None = None
    issue: Issue | None = None  # as it was judged, with the labels of the claim


class TurnedAway(Refusal):
    """The issue itself is fine, but this agent may not take any issue now."""

    __slots__ = ()


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
        first_lease_seconds: float | None = None,
        parks: bool = False,
        always_closes: bool = False,
    ) -> None:
        self.tracker = tracker
        self.claims = claims
        self._configured = claims.times
        self.keeper = keeper
        self.fleet = fleet
        self.ledger = ledger
        self.pace = pace or Pace()
        self.lease_seconds = lease_seconds
        self._first_lease_seconds = first_lease_seconds
        self._parks = parks
        self._always_closes = always_closes
        self._held: dict[tuple[int, str], Held] = {}
        # How runs ended, where there is no ledger.
        self._told: dict[tuple[int, str], tuple[str | None, WorkOutcome]] = {}

    async def learn_times(self) -> None:
        """A tracker that was seen to be slower than configured, by whichever process, is treated
        as slow until a person resets it."""
        if self.ledger is None or not isinstance(self.claims, CommentClaims):
            return
        known = {state.source: state.settle_seconds for state in await self.ledger.outside.states()}
        settle = max(self._configured.settle, known.get(self.tracker.source) or 0.0)
        self.claims.log.times = replace(self._configured, settle=settle)

    async def slow_down(self, why: str) -> None:
        """The tracker was seen to be slower than configured."""
        if not isinstance(self.claims, CommentClaims):
            return
        source, times = self.tracker.source, _slower(self.claims.times)
        self.claims.log.times = times
        warning = f"{why}; claims wait {times.settle:g} s from now on"
        log.error("tracker is slower than configured", source=source, warning=warning)
        if self.ledger is not None:
            await self.ledger.outside.note_state(
                source, warning=warning, settle_seconds=times.settle
            )

    # take

    async def listed(self) -> list[Issue]:
        """The issues with a ready label, whether they may be taken or not."""
        found: dict[int, Issue] = {}
        for label in self.keeper.labels.all_ready:
            listed = await self.tracker.issues(labels=[label])
            found |= {issue.number: issue for issue in listed}
        self.keeper.forget_all_but(found)
        return list(found.values())

    async def kept_back(self, numbers: Iterable[int], codename: str) -> dict[int, str]:
        """Which of these the ledger would not give to this agent now, and why."""
        if self.ledger is None:
            return {}
        refs = [str(number) for number in numbers]
        reasons = await self.ledger.outside.kept_back(self.tracker.source, refs, codename)
        return {int(ref): why for ref, why in reasons.items()}

    async def take(
        self,
        number: int,
        codename: str,
        *,
        firing: str | None = None,
        lease_seconds: float | None = None,
    ) -> Held | Refusal:
        """Raises `IssueNotFound` and `TrackerError`; the ledger then keeps no claim."""
        if (taken := await self._taken_by_us(number)) is not None:
            return taken
        await self.learn_times()
        issue = await self.tracker.issue(number)
        refused = await self.keeper.judge(issue, await self.claims.standing(number))
        if refused is not None:
            return Refusal(refused, refused.message)
        claimant = self._claimant(codename, firing)
        try:
            claimed = await self._take_in_ledger(issue, claimant, lease_seconds)
        except Refused as error:
            return _by_ledger(error)
        return await self._take_on_tracker(issue, claimant, claimed)

    async def _taken_by_us(self, number: int) -> Refusal | None:
        """An issue that another agent of this database holds costs no request to the tracker."""
        claim = await self._open_claim(number)
        if claim is None or not claim.live:
            return None
        return _claimed(f"'{claim.codename}' is working on #{number}")

    async def _open_claim(self, number: int) -> SourceClaim | None:
        if self.ledger is None:
            return None
        return await self.ledger.outside.claim_of(self.tracker.source, str(number))

    def _claimant(self, codename: str, firing: str | None) -> Claimant:
        made = firing or firing_id(self.pace.now(), secrets.randbits(16))
        return Claimant(self.fleet, codename, made, secrets.token_hex(8))

    async def _take_in_ledger(
        self, issue: Issue, claimant: Claimant, lease_seconds: float | None
    ) -> ClaimedItem | None:
        if self.ledger is None:
            return None
        await self._take_up_again(self.ledger, issue.number, claimant.codename)
        firing = Firing(claimant.firing_id, claimant.codename, claimant.fleet, claimant.nonce)
        return await self.ledger.outside.take(
            new_item(self.tracker.source, issue),
            claimant.codename,
            lease_seconds or self.lease_seconds,
            firing,
            cleared=True,
            # A caller that names its own lease sends no heartbeats.
            first_lease_seconds=None if lease_seconds else self._first_lease_seconds,
        )

    async def _take_up_again(self, ledger: Ledger, number: int, codename: str) -> None:
        """A partial result waits for a person. A person who sets the ready label has decided."""
        item = await ledger.outside.standing(self.tracker.source, str(number))
        if item is not None and item.status is Status.BLOCKED and item.reason == IN_PART:
            order = Order(
                Verb.RELEASE, item.id, codename, reason="ready_again", version=item.version
            )
            with suppress(VersionMismatch, Refused):  # another writer has moved it meanwhile
                await ledger.queue.apply(order)

    async def _take_on_tracker(
        self, issue: Issue, claimant: Claimant, claimed: ClaimedItem | None
    ) -> Held | Refusal:
        entries = [0]

        async def entered(entry: int) -> None:
            entries.append(entry)
            if self.ledger is not None:
                await self.ledger.outside.entered(claimant.firing_id, entry)

        try:
            async with kept_alive(self.ledger, claimed) as waiting:
                answer = await self.claims.claim(issue.number, claimant, entered=entered)
            if isinstance(answer, Grant):
                if waiting is not None:
                    await waiting.granted()
                await self._check_settle(answer)
        except BaseException as error:
            abandoned = Grant(issue.number, entries[-1], claimant)
            why = error.code if isinstance(error, RotaError) else type(error).__name__
            await asyncio.shield(self._abandon(abandoned, claimed, why))
            raise
        if isinstance(answer, Refusal):
            if answer.objection is None:
                await self._abandon(
                    Grant(issue.number, entries[-1], claimant), claimed, "tracker_error"
                )
            else:
                await self._undo(claimed, claimant, answer.objection.obstacle)
            return answer
        return self._keep(issue, answer, claimed)

    async def _check_settle(self, grant: Grant) -> None:
        """What is true of our own claim may be true of one before it, which we have not seen."""
        if grant.unseen >= self.claims.times.settle:
            await self.slow_down(
                f"#{grant.number}: claim {grant.claim_id} could not be read"
                f" {grant.unseen:.1f} s after it was posted"
            )

    def _keep(self, issue: Issue, grant: Grant, claimed: ClaimedItem | None) -> Held:
        judged = self.keeper.as_judged(issue)
        if grant.labels is not None:
            judged = replace(judged, labels=grant.labels)
        held = Held(grant, *_ids(claimed), judged)
        of = issue.number, grant.claimant.codename
        self._held[of] = held
        self._told.pop(of, None)
        return held

    async def _undo(self, claimed: ClaimedItem | None, claimant: Claimant, why: str) -> None:
        """Nobody has worked on the item: only the events still show that it was claimed."""
        if self.ledger is not None and claimed is not None:
            await self.ledger.outside.give_back(claimant.firing_id, why)

    async def _abandon(self, grant: Grant, claimed: ClaimedItem | None, why: str) -> None:
        """The tracker failed in the middle of a claim: remove the claim there as far as possible.
        The sweep does the rest."""
        await self._undo(claimed, grant.claimant, why)
        with suppress(WorkSourceError):
            shown = grant if grant.claim_id else await self._shown(grant)
            if shown is not None:
                await self.claims.release(shown, "tracker-error")

    async def _shown(self, grant: Grant) -> Grant | None:
        """A claim whose post was not answered is found by its nonce. In label mode there is no
        nonce, and any in-flight label counts."""
        holder = (await self.claims.standing(grant.number)).holder
        if holder is None or (holder.id and holder.fields.get("nonce") != grant.claimant.nonce):
            return None
        return replace(grant, claim_id=holder.id)

    # what we hold

    async def held(self, number: int, codename: str, firing: str | None = None) -> Held:
        """The claim that this agent holds, also after a restart. If `firing` is named, it must be
        that claim. Raises `ClaimLost`."""
        kept = self._held.get((number, codename))
        if self.ledger is None:
            if kept is None or firing not in (None, kept.grant.claimant.firing_id):
                raise ClaimLost(f"'{codename}' does not hold #{number}")
            return kept
        claim = await self._open_claim(number)
        if claim is None or claim.codename != codename or not claim.live:
            raise ClaimLost(f"'{codename}' does not hold #{number} any more")
        if firing not in (None, claim.firing_id):
            raise ClaimLost(f"'{codename}' holds #{number} by another claim now")
        return kept if kept is not None and kept.token == claim.token else held_by(claim)

    # the end

    async def finish(self, number: int, codename: str, result: WorkResult) -> None:
        """Report the end of the work; repeating it is harmless. Raises `ClaimLost` when the claim
        ended some other way: another claimant may hold the issue now."""
        try:
            held = await self.held(number, codename, result.claim)
        except ClaimLost:
            if await self._was_told(number, codename, result):
                return
            if await self._finished_late(codename, result):
                return
            await self._keep_late(number, codename, result)
            raise
        await self._beat(held, codename)
        await self.learn_times()
        if not await self._end_on_tracker(held, result):
            await self._lost(held, codename, result)
        await self._record(held, codename, result)

    async def _was_told(self, number: int, codename: str, result: WorkResult) -> bool:
        """Told by an earlier call, whose answer may have been lost with its process."""
        if self.ledger is None:
            return self._told.get((number, codename)) == (result.claim, result.outcome)
        if result.claim is not None:
            made = await self.ledger.outside.find_claim(result.claim)
            return made is not None and made.outcome == result.outcome
        if await self._open_claim(number) is not None:
            return False  # whatever the ledger says, the tracker was not told
        item = await self.ledger.outside.standing(self.tracker.source, str(number))
        verb = verb_of(result)
        return (
            item is not None
            and item.assigned_agent == codename
            and item.status is RULES[verb].target
            and item.reason != ATTEMPTS_EXHAUSTED
        )

    async def _finished_late(self, codename: str, result: WorkResult) -> bool:
        """The ledger's claim ended while its report waited. Nobody takes the item while the tracker
        shows the claim as ours, so what the tracker accepts is recorded."""
        if (
            self.ledger is None
            or result.claim is None
            or not isinstance(self.claims, CommentClaims)
        ):
            return False
        outside = self.ledger.outside
        made = await outside.find_claim(result.claim)
        if made is None or made.codename != codename or made.ended_at or not made.over:
            return False
        if not await self._end_on_tracker(held_by(made), result):
            return False
        await outside.finished(
            made.firing_id,
            LATE,
            result.outcome,
            notes=notes_of(result),
            artifact_url=pull_request(result.artifacts) or address_of(result),
            review=result.review,
        )
        await outside.ended(made.firing_id, result.outcome)
        return True

    async def _beat(self, held: Held, codename: str) -> None:
        """Renews the lease, so that it lasts while the tracker is asked."""
        if self.ledger is not None and held.item_id and held.token:
            await self.ledger.queue.heartbeat(held.item_id, held.token, actor=codename)

    async def _end_on_tracker(self, held: Held, result: WorkResult) -> bool:
        """False also when the issue is gone."""
        try:
            async with explained(self.tracker):
                if result.outcome == "success":
                    return await self._finish_on_tracker(held, result)
                return await self.claims.release(held.grant, result.outcome, report(result))
        except IssueNotFound:
            return False

    async def _finish_on_tracker(self, held: Held, result: WorkResult) -> bool:
        pr = pull_request(result.artifacts)
        if not await self.claims.finish(held.grant, pr, report(result)):
            return False
        if pr is None or (self._always_closes and not result.review):
            with suppress(IssueNotFound):  # deleted since; what was accepted stays accepted
                await self._close(held.grant)
        return True

    async def _close(self, grant: Grant) -> None:
        """The work needs no review: close the issue, and do not ask for one."""
        await self.tracker.close(grant.number)
        if not self._always_closes:
            labels = self.keeper.labels.of((), holder=grant.claimant.codename)
            await project(self.tracker, grant.number, Repair((labels.done,), (labels.pr_open,)))

    async def _lost(self, held: Held, codename: str, result: WorkResult) -> None:
        if self.ledger is not None and held.item_id:
            order = Order(
                Verb.RELEASE, held.item_id, codename, token=held.token, reason="claim_lost"
            )
            with suppress(Refused):  # another writer has ended it just now
                await self.ledger.queue.apply(order)
            await _keep_as_late(self.ledger, _order(held, codename, result))
            await self.ledger.outside.ended(held.grant.claimant.firing_id, "lost")
        self._held.pop((held.grant.number, codename), None)
        raise ClaimLost(
            f"claim {held.grant.claim_id} on #{held.grant.number} has ended; its result was not"
            " accepted"
        )

    async def _keep_late(self, number: int, codename: str, result: WorkResult) -> None:
        """The claim has ended, here or on the tracker: its result is kept as a late result."""
        kept = self._held.get((number, codename))
        firing = result.claim or (kept.grant.claimant.firing_id if kept is not None else None)
        if self.ledger is None or firing is None:
            return
        made = await self.ledger.outside.find_claim(firing)
        if made is None or made.codename != codename or not made.over:
            return  # merely lapsed: the ledger would accept the result, though the tracker has not
        claim = await self.ledger.views.claim_at(made.work_item_id, made.epoch)
        if claim is not None:
            held = replace(held_by(made), token=claim.token)
            await _keep_as_late(self.ledger, _order(held, codename, result))

    async def _record(self, held: Held, codename: str, result: WorkResult) -> None:
        self._held.pop((held.grant.number, codename), None)
        if self.ledger is None or held.item_id is None:
            self._told[held.grant.number, codename] = result.claim, result.outcome
            return
        await self.ledger.queue.apply(_order(held, codename, result))
        await self.ledger.outside.ended(held.grant.claimant.firing_id, result.outcome)

    async def release(
        self,
        number: int,
        codename: str,
        *,
        outcome: str = "released",
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    ) -> bool:
        """Give the issue back; False when the claim was no longer ours."""
        try:
            held = await self.held(number, codename, options.claim)
        except ClaimLost:
            return False
        text = released(options.reason) if options.add_comment else ""
        given = await self._release_on_tracker(held, outcome, text)
        await self._let_go(held, codename, options)
        return given

    async def _release_on_tracker(self, held: Held, outcome: str, text: str) -> bool:
        try:
            async with explained(self.tracker):
                return await self.claims.release(held.grant, outcome, text, park=self._parks)
        except IssueNotFound:
            return False

    async def _let_go(self, held: Held, codename: str, options: ReleaseOptions) -> None:
        self._held.pop((held.grant.number, codename), None)
        if self.ledger is None or held.item_id is None:
            return
        order = Order(
            Verb.RELEASE,
            held.item_id,
            codename,
            token=held.token,
            reason="released",
            notes=clean(options.reason or "", LONGEST["notes"]) or None,
            available_at=to_text(options.not_before) if options.not_before else None,
            counted=options.counted,
        )
        await self.ledger.queue.apply(order)
        await self.ledger.outside.ended(held.grant.claimant.firing_id, "released")


def _slower(times: Times) -> Times:
    """Doubles `settle`, but keeps it short enough that a clean look is worth something."""
    longest = max(times.settle, (times.grace - times.margin) / 2)
    return replace(times, settle=min(times.slower().settle, longest))


def held_by(claim: SourceClaim) -> Held:
    """A claim of ours as the ledger recorded it."""
    claimant = Claimant(claim.fleet, claim.codename, claim.firing_id, claim.nonce)
    grant = Grant(int(claim.source_ref), claim.entry_id or 0, claimant)
    return Held(grant, claim.work_item_id, claim.token, claim.epoch)


def _ids(claimed: ClaimedItem | None) -> tuple[str | None, str | None, int | None]:
    if claimed is None:
        return None, None, None
    return claimed.item.id, claimed.claim.token, claimed.claim.epoch


def _order(held: Held, codename: str, result: WorkResult) -> Order:
    """Success completes the item or hands it over to review; failure fails it; a partial result
    waits for a person."""
    verb = verb_of(result)
    return Order(
        verb,
        held.item_id or "",
        codename,
        token=held.token,
        reason=IN_PART if verb is Verb.BLOCK else None,
        outcome=OUTCOME_OF.get(RULES[verb].target),
        notes=notes_of(result),
        artifact_url=pull_request(result.artifacts) or address_of(result),
    )


async def _keep_as_late(ledger: Ledger, order: Order) -> None:
    """With the token of an ended claim, the ledger keeps the result and refuses the order."""
    with suppress(Refused):
        await ledger.queue.apply(order)


def _claimed(why: str) -> Refusal:
    return Refusal(Objection(Obstacle.CLAIMED, why), why)


def _by_ledger(error: Refused) -> Refusal:
    """Another claimant has it, the agent may take nothing, or the item itself is kept back."""
    if isinstance(error, ClaimedByAnother):
        return _claimed(error.message)
    held = Objection(Obstacle.HELD, error.message)
    of_the_agent = "agent" in error.details  # it is paused, or all its slots are taken
    return (TurnedAway if of_the_agent else Refusal)(held, error.message)
