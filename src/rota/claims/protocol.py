"""Claims an issue where everybody can see the claim, so that exactly one claimant wins.

The claim is a comment; its id decides. After posting, the claimant waits until every smaller id can
be read, and reads the whole log: from then on the fold gives every reader the same holder, for
ever. A claimant that lost changes nothing.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from rota.claims.comments import NOT_READY, Entry, Kind
from rota.claims.fold import Standing, grace_of, holds
from rota.claims.labels import LabelSet
from rota.claims.log import ClaimLog
from rota.claims.pickup import Asker, Objection, Obstacle, objection
from rota.claims.port import Issue
from rota.claims.projection import PARKED, project, repair
from rota.claims.timing import Pace, Times
from rota.model.clock import to_text
from rota.model.errors import AnswerUnknown, IssueNotFound, TrackerError

READS_FOR_OWN_CLAIM = 5


@dataclass(frozen=True, slots=True)
class Claimant:
    """One run that wants an issue. The nonce distinguishes its posts from those of a namesake."""

    fleet: str
    codename: str
    firing_id: str
    nonce: str


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to an issue. `claim_id` is the fencing token: every end of the claim names it."""

    number: int
    claim_id: int
    claimant: Claimant
    smaller: frozenset[int] | None = None  # ids below it that could be read when it was granted
    deadline: float = 0.0  # by `Pace.elapsed`: how long the work may go on without a first look
    unseen: float = 0.0  # how many seconds after its post our own claim could still not be read
    labels: tuple[str, ...] | None = None  # that the issue carried once the claim was shown


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a claim was not granted. Nothing remains of it that another claimant must respect."""

    objection: Objection | None = None  # None: the tracker failed
    message: str = ""

    @property
    def obstacle(self) -> Obstacle | None:
        return self.objection.obstacle if self.objection else None


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look. A clean look lets the work go on until `deadline`. Other looks have
    deadline 0, and the earlier deadline still applies: always take the later of the two."""

    lost: str | None = None
    deadline: float = 0.0
    too_late: tuple[int, ...] = ()  # ids below our claim that were invisible when it was granted


@dataclass(frozen=True, slots=True)
class _Seen:
    """A read of the log that shows our own claim."""

    began: float  # when the read began
    log: list[Entry]
    own: Entry
    unseen: float  # how many seconds after our post the last read began that did not show it


Judge = Callable[[Issue, Standing, Asker], Awaitable[Objection | None]]
Entered = Callable[[int], Awaitable[None]]


class CommentClaims:
    """`claim_mode: comments`."""

    def __init__(self, log: ClaimLog, labels: LabelSet, judge: Judge | None = None) -> None:
        self.log = log
        self._tracker = log.tracker
        self._labels = labels
        self._judge = judge or self._judge_plainly

    @property
    def times(self) -> Times:
        return self.log.times

    @property
    def _pace(self) -> Pace:
        return self.log.pace

    async def _judge_plainly(
        self, issue: Issue, standing: Standing, asker: Asker
    ) -> Objection | None:
        return objection(issue, self._labels, standing=standing, asker=asker)

    async def standing(self, number: int) -> Standing:
        return await self.log.standing(number)

    def _ts(self) -> str:
        return to_text(self._pace.now())[:19] + "Z"

    # claim

    async def claim(
        self,
        number: int,
        claimant: Claimant,
        *,
        entered: Entered | None = None,
        asker: Asker | None = None,
    ) -> Grant | Refusal:
        """`entered` is called with the claim's id before anything else happens, so that the caller
        can store it. It is called again if the tracker stored our post twice and the other copy
        counts."""
        first = await self._tracker.issue(number)
        asker = asker or Asker()
        refused = await self._judge(first, await self.log.standing(number), asker)
        if refused is not None:
            return Refusal(refused, refused.message)
        entry = await self._enter(first, claimant)
        if entry is None:
            return Refusal(message="the tracker did not say whether the claim stands; given up")
        if _nonce(entry) != claimant.nonce:
            return _lost(Standing(holder=entry))
        if entered is not None:
            await entered(entry.id)
        return await self._await_verdict(number, entry.id, claimant, entered, asker)

    async def _enter(self, issue: Issue, claimant: Claimant) -> Entry | None:
        return await self.log.append(
            issue.number,
            Kind.CLAIM,
            f"`{claimant.codename}` is working on this issue.",
            fleet=claimant.fleet,
            codename=claimant.codename,
            firing_id=claimant.firing_id,
            nonce=claimant.nonce,
            ts=self._ts(),
            grace=f"{self.times.grace:.6f}".rstrip("0").rstrip("."),
            ready=None if self._labels.has_stage(issue.labels) else NOT_READY,
        )

    async def _await_verdict(
        self,
        number: int,
        claim_id: int,
        claimant: Claimant,
        entered: Entered | None,
        asker: Asker,
    ) -> Grant | Refusal:
        posted = self._pace.elapsed()
        await self.log.settle()
        try:
            seen = await self._read_when_stopped(number, claimant, posted, asker)
            if seen is None:
                return await self._give_up(number, claim_id, claimant, "claim-not-seen")
            if entered is not None and seen.own.id != claim_id:
                await entered(seen.own.id)
            claim_id = seen.own.id
            return await self._verdict(number, claimant, seen, asker)
        except (TrackerError, IssueNotFound) as error:
            refused = await self._give_up(number, claim_id, claimant, "tracker-error")
            return replace(refused, message=error.message)

    async def _read_when_stopped(
        self, number: int, claimant: Claimant, posted: float, asker: Asker
    ) -> _Seen | None:
        """A revoked holder works until its next look shows the revocation: so wait for that."""
        seen = await self._read_with_own(number, claimant, posted)
        while seen is not None and (wait := self._until_stopped(seen, posted, asker)) > 0:
            await self._pace.sleep(min(wait, self.times.poll))
            seen = await self._read_with_own(number, claimant, posted)
        return seen

    def _until_stopped(self, seen: _Seen, posted: float, asker: Asker) -> float:
        """No holder works for longer than `grace` after its claim was revoked. The tracker's stamps
        tell how old the revocation was when we claimed, our own clock how much time has passed
        since."""
        revoked = self.log.fold(seen.log).revoked
        if revoked is None or not holds(seen.log, seen.own.id, self.times.grace):
            return 0.0
        if asker.login is not None and revoked.fields.get("by") == asker.login:
            return 0.0  # the same person revoked the claim and takes the issue now
        before = (seen.own.created_at - revoked.created_at).total_seconds()
        taken = (one for one in seen.log if one.kind is Kind.CLAIM and revoked.names(one))
        grace = max((grace_of(one, self.times.grace) for one in taken), default=self.times.grace)
        return grace - before - (self._pace.elapsed() - posted)

    async def _read_with_own(self, number: int, claimant: Claimant, posted: float) -> _Seen | None:
        """A log that lacks our own claim may lack other entries too, so it is read again."""
        unseen = 0.0
        for again in range(READS_FOR_OWN_CLAIM + 1):
            if again:
                await self._pace.sleep(self.times.settle / 2)
            began = self._pace.elapsed()
            log = await self.log.read(number)
            own = _own(log, claimant)
            if own is not None:
                return _Seen(began, log, own, unseen)
            unseen = began - posted
        return None

    async def _verdict(
        self, number: int, claimant: Claimant, seen: _Seen, asker: Asker
    ) -> Grant | Refusal:
        standing, claim_id = self.log.fold(seen.log), seen.own.id
        if not holds(seen.log, claim_id, self.times.grace):
            return _lost(standing)
        deadline = seen.began + self.times.trust_in_a_poll
        below = _below(seen.log, claim_id)
        grant = Grant(number, claim_id, claimant, below, deadline, seen.unseen)
        if standing.suspects:
            return await self._give_up(
                grant.number, grant.claim_id, grant.claimant, "suspected-at-once"
            )
        issue = await self._tracker.issue(grant.number)
        refused = await self._judge(issue, standing, replace(asker, claim_id=grant.claim_id))
        if refused is not None:
            await self._give_up(grant.number, grant.claim_id, grant.claimant, "operator-hold")
            return Refusal(refused, refused.message)
        change = repair(standing, issue, self._labels)
        await project(self._tracker, grant.number, change)
        return replace(grant, labels=change.of(issue.labels))

    async def _give_up(
        self, number: int, claim_id: int, claimant: Claimant, outcome: str
    ) -> Refusal:
        """Release our own claim again. If that fails too, the sweep does it."""
        with contextlib.suppress(TrackerError, IssueNotFound):
            await self.append_release(Grant(number, claim_id, claimant), outcome, "")
        return Refusal(message=f"claim {claim_id} was taken back: {outcome}")

    # while working

    async def look(self, grant: Grant) -> Look:
        """Is the claim still ours? Answers a suspicion on the way.

        Raises when the tracker cannot be read: that means neither yes nor no. The deadline of the
        last clean look still applies, and time goes on while this call waits.
        """
        seen, suspected = await self._look(grant)
        if not suspected:
            return seen
        await self.log.append(grant.number, Kind.ALIVE, claim=grant.claim_id)
        # The claim may have expired just before the answer. That is known once both can be read.
        await self.log.settle_talk()
        seen, suspected = await self._look(grant)
        return replace(seen, deadline=0.0) if suspected else seen

    async def _look(self, grant: Grant) -> tuple[Look, bool]:
        began = self._pace.elapsed()
        log = await self._read(grant)
        issue = await self._tracker.issue(grant.number)
        standing = self.log.fold(log)
        below = _below(log, grant.claim_id)
        too_late = () if grant.smaller is None else tuple(sorted(below - grant.smaller))
        lost = self._why_lost(grant, standing, issue)
        look = Look(lost, began + self._trust(standing), too_late)
        return look, lost is None and bool(standing.suspects)

    def _trust(self, standing: Standing) -> float:
        """A claim has the grace that it was made with, even if our setting has changed since."""
        said = self.times.grace
        if standing.holder is not None:
            said = min(said, grace_of(standing.holder, said))
        return self.times.trust_in_a_poll - (self.times.grace - said)

    def _why_lost(self, grant: Grant, standing: Standing, issue: Issue) -> str | None:
        if not _is_holder(standing, grant):
            return f"claim {grant.claim_id} has ended"
        if not issue.is_open:
            return f"#{grant.number} was closed"
        labels = self._labels.of(issue.labels, holder=grant.claimant.codename)
        held = labels.holds(issue.labels)
        return f"the label '{held[0]}' was put on" if held else None

    # the end

    async def finish(self, grant: Grant, pr: str | None, text: str = "") -> bool:
        """Say that the work is done; True when the log accepts it. Repeating it is harmless."""
        log = await self._read(grant)
        if not _said(log, Kind.DONE, grant):
            if not _is_holder(self.log.fold(log), grant):
                return False
            said = await self._append(
                grant, Kind.DONE, text, claim=grant.claim_id, pr=pr or "none", ts=self._ts()
            )
            if said.kind is not Kind.DONE:
                return False  # strict mode allows one end per claim, and another came first
        # An entry of an earlier call, too, may have come after an entry that is not yet visible.
        await self.log.settle()
        standing = self.log.fold(await self._read_with_end(grant))
        if standing.done_claim != grant.claim_id:
            return False
        await self._show(grant.number, standing)
        return True

    async def release(
        self, grant: Grant, outcome: str, text: str = "", *, park: bool = False
    ) -> bool:
        """Give the issue back; True when our claim ended by a release."""
        log = await self._read(grant)
        if _is_holder(self.log.fold(log), grant):
            # Our own entry counts even while the tracker does not show it yet.
            said = await self.append_release(grant, PARKED if park else outcome, text)
            # Read again: if this call was delayed before its release, another may hold the issue by
            # now.
            log = self.log.merged(await self.log.read(grant.number), said)
        standing = self.log.fold(log)
        if standing.holder is None and _ended_by(standing, grant):
            await self._show(grant.number, standing)
        return self._was_given(log, grant)

    def _was_given(self, log: list[Entry], grant: Grant) -> bool:
        """A release ended our claim, even if another claimant has taken the issue since."""
        return any(
            entry.kind is Kind.RELEASE
            and entry.fields.get("claim") == str(grant.claim_id)
            and _is_holder(self.log.fold(log[:place]), grant)
            for place, entry in enumerate(log)
        )

    async def _read(self, grant: Grant) -> list[Entry]:
        """A log that lacks our claim is a stale read, not a lost claim, unless it stays that
        way."""
        log = await self.log.read(grant.number)
        for _ in range(READS_FOR_OWN_CLAIM):
            if any(entry.id == grant.claim_id for entry in log):
                break
            await self._pace.sleep(self.times.settle / 2)
            log = await self.log.read(grant.number)
        return log

    async def _read_with_end(self, grant: Grant) -> list[Entry]:
        """As with a claim, a log that lacks our own entry is a stale read."""
        for _ in range(READS_FOR_OWN_CLAIM):
            log = await self.log.read(grant.number)
            if _said(log, Kind.DONE, grant):
                return log
            await self._pace.sleep(self.times.settle / 2)
        raise AnswerUnknown(f"#{grant.number}: the end is said but not seen; ask again later")

    async def append_release(self, grant: Grant, outcome: str, text: str) -> Entry:
        return await self._append(
            grant,
            Kind.RELEASE,
            text,
            claim=grant.claim_id,
            codename=grant.claimant.codename,
            firing_id=grant.claimant.firing_id,
            outcome=outcome,
            ts=self._ts(),
        )

    async def _append(
        self, grant: Grant, kind: Kind, text: str, **fields: str | int | None
    ) -> Entry:
        """The fold ignores a second copy, so the last resort is to post again."""
        for _ in range(2):
            entry = await self.log.append(grant.number, kind, text, **fields)
            if entry is not None:
                return entry
        raise AnswerUnknown(f"#{grant.number}: the tracker does not answer; try again later")

    async def _show(self, number: int, standing: Standing) -> None:
        issue = await self._tracker.issue(number)
        await project(self._tracker, number, repair(standing, issue, self._labels))


def _own(log: Sequence[Entry], claimant: Claimant) -> Entry | None:
    """A claim that was delivered twice has two entries: the lower one is ours, the other is
    void."""
    claims = (entry for entry in log if entry.kind is Kind.CLAIM)
    ours = (
        entry
        for entry in claims
        if entry.firing_id == claimant.firing_id and _nonce(entry) == claimant.nonce
    )
    return min(ours, key=lambda entry: entry.id, default=None)


def _nonce(entry: Entry) -> str:
    return entry.fields.get("nonce", "")


def _below(log: Sequence[Entry], claim_id: int) -> frozenset[int]:
    return frozenset(entry.id for entry in log if entry.id < claim_id)


def _is_holder(standing: Standing, grant: Grant) -> bool:
    return standing.holder is not None and standing.holder.id == grant.claim_id


def _said(log: Sequence[Entry], kind: Kind, grant: Grant) -> bool:
    return any(
        entry.kind is kind and entry.fields.get("claim") == str(grant.claim_id) for entry in log
    )


def _ended_by(standing: Standing, grant: Grant) -> bool:
    ended = standing.ended
    return ended is not None and ended.fields.get("claim") == str(grant.claim_id)


def _lost(standing: Standing) -> Refusal:
    holder = standing.holder
    who = f"'{holder.codename}' holds it (claim {holder.id})" if holder else "another was first"
    return Refusal(Objection(Obstacle.CLAIMED, who), who)
