"""What a person can do with an issue: take it, give it back, keep agents away, approve its text."""

import asyncio
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from rota.claims.comments import OPERATOR_FLEET, Kind, firing_id
from rota.claims.fold import Standing
from rota.claims.pickup import AN_AGENT, Asker, Objection, Obstacle, labels_for, objection
from rota.claims.port import Account, Issue
from rota.claims.projection import project, repair
from rota.claims.protocol import Claimant, CommentClaims, Grant, Refusal
from rota.model.errors import (
    InvalidInput,
    MalformedReference,
    Refused,
    WorkSourceError,
)
from rota.sources.desk import IssueDesk
from rota.sources.reviews import reopen_issue


@dataclass(frozen=True, slots=True)
class IssueStatus:
    """The state of an issue, for people and for scripts; the names are those of `label-state`."""

    repo: str
    number: int
    title: str
    url: str
    state: str  # "OPEN" or "CLOSED"
    labels: list[str]
    in_flight: bool
    pr_open: bool
    do_not_pickup: bool
    needs_human_scope: bool
    repo_paused: bool
    claimable: bool
    reason: str | None
    message: str | None
    latest_claim: dict[str, Any] | None
    holder: dict[str, Any] | None
    suspected: bool
    pr: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Operators:
    """Everything here is done as the person who owns the token."""

    def __init__(self, desk: IssueDesk) -> None:
        self._desk = desk
        self._tracker = desk.tracker
        self._labels = desk.keeper.labels

    async def me(self) -> Account:
        return await self._tracker.account()

    async def _asker(self) -> Asker:
        return Asker(login=(await self.me()).login, needs_ready=False)

    # look

    async def status(self, number: int, asker: Asker = AN_AGENT) -> IssueStatus:
        issue = await self._tracker.issue(number)
        standing = await self._desk.claims.standing(number)
        refused = await self._desk.keeper.judge(issue, standing, asker)
        return self._status(issue, standing, refused)

    def _status(self, issue: Issue, standing: Standing, refused: Objection | None) -> IssueStatus:
        carried = {label.lower() for label in issue.labels}
        labels = labels_for(issue, standing, self._labels)
        # Labels alone say that somebody holds it, and nothing else.
        holder = standing.holder if standing.holder is not None and standing.holder.id else None
        last = holder or standing.done or standing.ended
        return IssueStatus(
            repo=self._tracker.repo,
            number=issue.number,
            title=issue.title,
            url=issue.url,
            state="OPEN" if issue.is_open else "CLOSED",
            labels=list(issue.labels),
            in_flight=standing.holder is not None or labels.in_flight.lower() in carried,
            pr_open=standing.done is not None or labels.pr_open.lower() in carried,
            do_not_pickup=labels.hold.lower() in carried,
            needs_human_scope="needs:human-scope" in carried,
            repo_paused=self._desk.keeper.pauses.is_paused(self._tracker.repo),
            claimable=refused is None,
            reason=None if refused is None else str(refused.obstacle),
            message=None if refused is None else str(refused),
            latest_claim=None if last is None else {"kind": str(last.kind), **last.fields},
            holder=None if holder is None else {"claim": holder.id, **holder.fields},
            suspected=bool(standing.suspects),
            pr=standing.done.fields.get("pr") if standing.done else None,
        )

    async def conflict(self, number: int, asker: Asker) -> Objection | None:
        """Only objections that another claimant works on it, or has answered it with a pull
        request. A hold beside that does not hide it."""
        issue = await self._tracker.issue(number)
        standing = await self._desk.claims.standing(number)
        if standing.done_claim is not None and standing.done_claim == asker.claim_id:
            return None  # the pull request is the asker's own, and reviewers may ask for changes
        holds = labels_for(issue, standing, self._labels).holds(issue.labels)
        found = objection(
            _without(issue, holds),
            self._labels,
            standing=standing,
            asker=replace(asker, needs_ready=False),
        )
        taken = found is not None and found.obstacle in (Obstacle.CLAIMED, Obstacle.PR_OPEN)
        return found if taken else None

    # take and give back

    async def claim(self, number: int, *, force: bool = False) -> Grant | Refusal:
        """Work on it yourself: agents stay away until you give it back, however long it takes."""
        me, asker = await self.me(), await self._asker()
        claims = self._comments("an operator's claim")
        standing = await claims.standing(number)
        holder = standing.holder
        if holder is not None and not asker.holds(holder):
            issue = await self._tracker.issue(number)
            if force:  # as it stands without the holder: force that gets nothing takes nothing
                issue = _without(issue, self._labels.all_lifecycle)
                standing = replace(standing, holder=None)
            refused = await self._judge(issue, standing, asker)
            if refused is not None or not force:
                return Refusal(refused, refused.message if refused else "")
            await claims.log.append(number, Kind.REVOKE, claim=holder.id, by=me.login)
            await claims.log.settle()
            await self._mend(number)  # otherwise the old label would be an obstacle
        if holder is not None and asker.holds(holder):
            await self.hold(number)  # an earlier call may have failed before this step
            return Grant(number, holder.id, _claimant_of(me, holder.firing_id))
        answer = await self._enter(number, claims, me, asker)
        if isinstance(answer, Grant):
            await self.hold(number)
        return answer

    async def _enter(
        self, number: int, claims: CommentClaims, me: Account, asker: Asker
    ) -> Grant | Refusal:
        """A caller that is cancelled before the answer gives the claim back. Nobody else would ever
        end it, because claims of people do not expire."""
        made = firing_id(self._desk.pace.now(), secrets.randbits(16))
        claimant, entries = _claimant_of(me, made), []

        async def entered(entry: int) -> None:
            entries.append(entry)

        as_person = CommentClaims(claims.log, self._labels, self._judge)
        try:
            return await as_person.claim(number, claimant, entered=entered, asker=asker)
        except asyncio.CancelledError:
            if entries:
                with suppress(WorkSourceError):
                    await as_person.release(Grant(number, entries[-1], claimant), "given-up")
            raise

    async def _judge(self, issue: Issue, standing: Standing, asker: Asker) -> Objection | None:
        """Obstacles for agents that do not stop people: a hold, perhaps their own; a pause, which
        may be there so that they can work in peace; an issue on which agents have failed."""
        labels = labels_for(issue, standing, self._labels)
        harmless = [*labels.holds(issue.labels), labels.failed]
        return objection(_without(issue, harmless), self._labels, standing=standing, asker=asker)

    async def release(self, number: int, *, force: bool = False) -> bool:
        """Give it back; with `force`, also if another claimant holds it."""
        await self._issue(number)
        me, asker = await self.me(), await self._asker()
        if not isinstance(self._desk.claims, CommentClaims):
            if force and (await self._desk.claims.standing(number)).holder is not None:
                self._comments("taking an issue away")  # raises
            await self.unhold(number)
            return False  # a person has no claim by labels
        claims = self._desk.claims
        holder = (await claims.standing(number)).holder
        if holder is not None and not asker.holds(holder):
            if not force:
                raise Refused(
                    f"'{holder.codename}' holds #{number} (claim {holder.id}), not you; --force"
                    " takes it away"
                )
            await claims.log.append(number, Kind.REVOKE, claim=holder.id, by=me.login)
            await claims.log.settle()
            await self._mend(number)
        elif holder is not None:
            await claims.release(
                Grant(number, holder.id, _claimant_of(me, holder.firing_id)), "released"
            )
        await self.unhold(number)
        return holder is not None

    async def reopen(self, number: int) -> bool:
        """Let a finished issue be worked again: its pull request was not the answer."""
        await self._issue(number)
        claims = self._comments("reopening")
        if (await claims.standing(number)).done_claim is None:
            return False
        return await reopen_issue(self._desk, number)

    async def _mend(self, number: int) -> None:
        issue = await self._tracker.issue(number)
        standing = await self._desk.claims.standing(number)
        await project(self._tracker, number, repair(standing, issue, self._labels))

    def _comments(self, what: str) -> CommentClaims:
        if not isinstance(self._desk.claims, CommentClaims):
            raise InvalidInput(
                f"{what} needs claim_mode comments or strict; with labels alone, hold the issue"
                " instead: rota issue hold"
            )
        return self._desk.claims

    # keep away, let in

    async def hold(self, number: int) -> None:
        await self._issue(number)  # raises if there is no such issue to hold
        await self._tracker.add_labels(number, [self._labels.hold])

    async def unhold(self, number: int) -> None:
        await self._issue(number)
        await self._tracker.remove_label(number, self._labels.hold)

    async def approve(self, number: int) -> Issue:
        """You have read it: agents may work from the text as it is now."""
        issue = await self._issue(number)
        await self._desk.keeper.gate.approve(issue, await self.me(), self._desk.pace.now())
        return issue

    async def _issue(self, number: int) -> Issue:
        issue = await self._tracker.issue(number)
        if issue.is_pull_request:
            raise MalformedReference(
                f"{self._tracker.repo}#{number} is a pull request; only issues are work",
                reference=f"{self._tracker.repo}#{number}",
            )
        return issue


def _without(issue: Issue, labels: Iterable[str]) -> Issue:
    """The issue without these labels and without blockers."""
    gone = {label.lower() for label in labels}
    kept = tuple(label for label in issue.labels if label.lower() not in gone)
    return replace(issue, labels=kept, open_blockers=0)


def _claimant_of(me: Account, firing: str) -> Claimant:
    return Claimant(OPERATOR_FLEET, me.login, firing, secrets.token_hex(8))
