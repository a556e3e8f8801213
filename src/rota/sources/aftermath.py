"""Settles a claim on the tracker whose run is gone.

If the run reported its end on the tracker, that end is recorded in the ledger. If the ledger has an
end that the tracker lacks, it is reported there. If there is neither, the issue is given back. A
crash in the middle is harmless: the work is done again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import structlog

from rota.claims.comments import Entry, Kind
from rota.claims.fold import Standing
from rota.claims.projection import project, repair
from rota.claims.protocol import CommentClaims, Grant
from rota.model.errors import IssueNotFound
from rota.model.sources import SourceClaim
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.queue.ledger import Ledger
from rota.queue.mirroring import is_spent
from rota.queue.outside import WorkEnd
from rota.sources.desk import LATE, IssueDesk, held_by
from rota.sources.port import WorkResult
from rota.sources.reports import pull_request, report

log = structlog.get_logger()

STALE_SWEPT = "stale-swept"
NEVER_ENTERED = "never-entered"


class Aftermath:
    def __init__(self, desk: IssueDesk, ledger: Ledger) -> None:
        self._desk = desk
        self._claims = desk.claims
        self._outside = ledger.outside

    async def settle(self, claim: SourceClaim, claims: Sequence[SourceClaim]) -> None:
        """`claims` are all open claims at this source."""
        try:
            outcome = await self._outcome(claim, claims)
        except IssueNotFound:
            outcome = "issue-gone"
        if outcome == NEVER_ENTERED:  # nobody has worked, so it was no attempt
            await self._outside.give_back(claim.firing_id, outcome)
        else:
            await self._outside.ended(claim.firing_id, outcome)

    async def _outcome(self, claim: SourceClaim, claims: Sequence[SourceClaim]) -> str:
        if self._is_taken_again(claim, claims):
            return "superseded"
        entry = await self._entry(claim)
        if entry is None:
            return NEVER_ENTERED
        grant = replace(held_by(claim).grant, claim_id=entry)
        standing = await self._claims.standing(grant.number)
        said = _said(standing, replace(claim, entry_id=entry))
        if said is not None:
            return await self._record(claim, standing, said)
        return await self._report(claim, grant)

    def _is_taken_again(self, claim: SourceClaim, claims: Sequence[SourceClaim]) -> bool:
        """Labels do not name a claim: those that the issue carries now belong to the later
        claim."""
        if isinstance(self._claims, CommentClaims):
            return False
        return any(not one.over and one.source_ref == claim.source_ref for one in claims)

    async def _entry(self, claim: SourceClaim) -> int | None:
        """The id of its entry on the tracker. A run that died before it could store the id is found
        by its firing and nonce."""
        if claim.entry_id is not None or not isinstance(self._claims, CommentClaims):
            return claim.entry_id or 0
        read = await self._claims.log.read(int(claim.source_ref))
        own = [entry.id for entry in read if _is_entry_of(entry, claim)]
        if not own:
            return None
        await self._outside.entered(claim.firing_id, min(own))
        return min(own)

    # the run reported its end on the tracker: record it in the ledger

    async def _record(self, claim: SourceClaim, standing: Standing, said: WorkEnd) -> str:
        number = int(claim.source_ref)
        done = standing.done if said == "success" else None
        if done is not None and done.fields.get("pr", "none") == "none":
            await self._desk.tracker.close(number)
        await self._show(number, standing)
        await self._outside.finished(claim.firing_id, LATE, said)
        return said

    async def _show(self, number: int, standing: Standing) -> None:
        issue = await self._desk.tracker.issue(number)
        change = repair(standing, issue, self._desk.keeper.labels)
        await project(self._desk.tracker, number, change)

    # the ledger has the end, or nobody has: report it to the tracker, or give the issue back

    async def _report(self, claim: SourceClaim, grant: Grant) -> str:
        item = await self._outside.standing(claim.source, claim.source_ref)
        if item is None or (item.id, item.epoch) != (claim.work_item_id, claim.epoch):
            return await self._give_back(grant, STALE_SWEPT)
        match item.status:
            case Status.COMPLETED | Status.IN_REVIEW:
                return await self._finish(grant, item)
            case Status.FAILED if is_spent(item):
                return await self._give_back(grant, "attempts-exhausted")
            case Status.FAILED:
                return await self._give_back(grant, "failure", _told(item, "failure"))
            case Status.BLOCKED:
                return await self._give_back(grant, "partial", _told(item, "partial"))
            case _:
                return await self._give_back(grant, STALE_SWEPT)

    async def _finish(self, grant: Grant, item: WorkItem) -> str:
        pr = pull_request([item.artifact_url or ""])
        if not await self._claims.finish(grant, pr, _told(item, "success")):
            log.warning(
                "the tracker does not accept what the ledger has as finished",
                source=item.source,
                issue=item.source_ref,
                item=item.id,
            )
            return "refused"
        plain = not isinstance(self._claims, CommentClaims)
        if item.status is Status.COMPLETED and (pr is None or plain):
            await self._desk.tracker.close(grant.number)
        if not plain:
            await self._show(grant.number, await self._claims.standing(grant.number))
        return "success"

    async def _give_back(self, grant: Grant, outcome: str, text: str = "") -> str:
        await self._claims.release(grant, outcome, text)
        return outcome


def is_said_by(entry: Entry, claim: SourceClaim) -> bool:
    """The entry names this claim, and was written by the claim's own run."""
    about = entry.fields.get("claim") == str(claim.entry_id)
    return about and entry.firing_id == claim.firing_id


def _is_entry_of(entry: Entry, claim: SourceClaim) -> bool:
    nonce = entry.fields.get("nonce")
    return entry.kind is Kind.CLAIM and (entry.firing_id, nonce) == (claim.firing_id, claim.nonce)


def _said(standing: Standing, claim: SourceClaim) -> WorkEnd | None:
    """How the work of the claim ended, if the tracker has accepted that."""
    if standing.done_claim is not None and standing.done_claim == claim.entry_id:
        return "success"
    ended = standing.ended
    if ended is None or ended.kind is not Kind.RELEASE or not is_said_by(ended, claim):
        return None
    return cast(WorkEnd, ended.outcome) if ended.outcome in ("failure", "partial") else None


def _told(item: WorkItem, outcome: WorkEnd) -> str:
    artifacts = (item.artifact_url,) if item.artifact_url else ()
    return report(WorkResult(outcome, item.notes or "no summary given", artifacts=artifacts))
