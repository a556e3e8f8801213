"""Follows the pull requests of items in review: merged, closed, or still open.

A merge completes the item; a close without merge puts it back into the queue. The tracker is always
asked, whoever says that something happened there. The item moves only if its version is unchanged,
so that one of two servers decides, and a person's earlier decision wins.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from rota.claims.comments import Kind
from rota.claims.port import PullRequest
from rota.claims.projection import Repair, project, repair
from rota.claims.protocol import CommentClaims
from rota.model.errors import IssueNotFound, Refused, TrackerError, VersionMismatch
from rota.model.sources import InReview, ReviewLook
from rota.model.status import Outcome, Status, Verb
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.sources.desk import IssueDesk

log = structlog.get_logger()

MERGED, CLOSED = "merged", "closed"
# The least recently checked come first, so the others follow in the next rounds.
MOST_AT_ONCE = 100
# After so many errors in one round, the tracker is not asked about the others.
MOST_ERRORS = 3
_NUMBER = re.compile(r"/pulls?/([0-9]{1,18})(?:[/?#].*)?", re.ASCII | re.IGNORECASE)


@dataclass(slots=True)
class ReviewRound:
    decided: list[str] = field(default_factory=list)  # ids of items that were moved
    looks: list[ReviewLook] = field(default_factory=list)
    errors: list[TrackerError] = field(default_factory=list)


class Reviews:
    def __init__(self, desk: IssueDesk, ledger: Ledger) -> None:
        self._desk = desk
        self._tracker = desk.tracker
        self._ledger = ledger

    async def round(self) -> ReviewRound:
        """Check each. One that cannot be read does not stop the others."""
        place = f"{self._tracker.pages}/{self._tracker.repo}".lower()
        found = ReviewRound()
        for one in await self._ledger.outside.in_review(f"{place}/pull", MOST_AT_ONCE):
            try:
                await self._attend(one, place, found)
            except TrackerError as error:
                found.errors.append(error)
            if len(found.errors) >= MOST_ERRORS:
                break
        if found.looks:
            await self._ledger.outside.looked(self._tracker.source, found.looks)
        return found

    async def _attend(self, one: InReview, place: str, found: ReviewRound) -> None:
        number = pull_number(one.address, place)
        if number is None:
            return
        try:
            pull = await self._tracker.pull_request(number)
        except IssueNotFound:
            found.looks.append(self._look(one, "gone"))
            return
        if pull.is_open:
            found.looks.append(self._look(one, "open"))
        elif await self._decide(one, pull):
            found.decided.append(one.item_id)

    def _look(self, one: InReview, what: str) -> ReviewLook:
        return ReviewLook(one.item_id, self._tracker.source, one.address, what)

    async def _decide(self, one: InReview, pull: PullRequest) -> bool:
        if pull.is_merged and one.source == self._tracker.source:
            await self._close(one)
        order = self._accepted(one) if pull.is_merged else self._refused(one)
        try:
            await self._ledger.queue.apply(order)
        except (VersionMismatch, Refused) as error:  # another writer was quicker
            log.info("review was decided elsewhere", item=one.item_id, why=error.message)
            return False
        log.info("review ended", item=one.item_id, how=order.reason, address=one.address)
        return True

    def _accepted(self, one: InReview) -> Order:
        return Order(
            Verb.COMPLETE,
            one.item_id,
            self._tracker.source,
            outcome=Outcome.SUCCESS,
            reason=MERGED,
            version=one.version,
            details={"address": one.address},
        )

    def _refused(self, one: InReview) -> Order:
        return Order(
            Verb.REOPEN,
            one.item_id,
            self._tracker.source,
            reason=CLOSED,
            notes=f"{one.address} was closed without being merged",
            version=one.version,
            details={"address": one.address},
        )

    async def _close(self, one: InReview) -> None:
        """Close its issue first, because completed items are not checked again. Does nothing if the
        item is not in review any more: someone has decided otherwise meanwhile."""
        item = await self._ledger.views.item(one.item_id)
        if item.status is not Status.IN_REVIEW:
            return
        labels = self._desk.keeper.labels.of((), holder=item.assigned_agent)
        number = int(one.source_ref or 0)
        with suppress(IssueNotFound):
            await self._tracker.close(number)
            await project(self._tracker, number, Repair((labels.done,), (labels.pr_open,)))


def pull_number(address: str, place: str) -> int | None:
    """The number of a pull request of this repository, whatever page of it was named."""
    _, _, rest = address.partition("://")
    found = _NUMBER.fullmatch(rest[len(place) :]) if rest.lower().startswith(place) else None
    return int(found[1]) if found else None


async def reopen_issue(desk: IssueDesk, number: int) -> bool:
    """Let a finished issue be worked again: its pull request was not the answer. False when it was
    not finished."""
    labels, claims = desk.keeper.labels, desk.claims
    if not isinstance(claims, CommentClaims):
        if labels.of_agents:
            labels = labels.of((await desk.tracker.issue(number)).labels)
        await project(desk.tracker, number, Repair((labels.ready,), (labels.pr_open,)))
        return True
    done = (await claims.standing(number)).done_claim
    if done is not None:
        me = await desk.tracker.account()
        await claims.log.append(number, Kind.REVOKE, claim=done, by=me.login)
        await claims.log.settle()
    issue = await desk.tracker.issue(number)
    await project(desk.tracker, number, repair(await claims.standing(number), issue, labels))
    return done is not None
