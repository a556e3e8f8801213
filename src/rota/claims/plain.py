"""`claim_mode: labels`: a plain swap of labels, for a repository with a single fleet.

Nothing decides between two fleets that swap labels at the same moment. Within one database the
ledger decides, before this code is reached.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from rota.claims.comments import Entry, Kind
from rota.claims.fold import Standing
from rota.claims.labels import LabelSet
from rota.claims.pickup import Asker, Objection, objection
from rota.claims.port import Account, Issue, Tracker
from rota.claims.projection import FAILED_OUTCOMES, Repair, project
from rota.claims.protocol import Claimant, Grant, Judge, Look, Refusal
from rota.claims.timing import Pace, Times
from rota.model.errors import AnswerUnknown

_SOMEBODY = Account(0, "somebody")
Stage = Literal["ready", "pr_open", "failed"]


@dataclass(frozen=True, slots=True)
class LabelClaims:
    tracker: Tracker
    labels: LabelSet
    times: Times
    pace: Pace
    judge: Judge | None = None

    async def standing(self, number: int) -> Standing:
        return self._standing(await self.tracker.issue(number))

    def _standing(self, issue: Issue) -> Standing:
        """As the labels tell it; they do not say who holds the issue."""
        said = {label.lower() for label in issue.labels}
        if any(one.in_flight.lower() in said for one in self.labels.sets):
            return Standing(holder=Entry(0, Kind.CLAIM, {}, _SOMEBODY, issue.updated_at))
        return Standing()

    async def claim(
        self,
        number: int,
        claimant: Claimant,
        *,
        entered: Callable[[int], Awaitable[None]] | None = None,
        asker: Asker | None = None,
    ) -> Grant | Refusal:
        issue = await self.tracker.issue(number)
        refused = await self._objection(issue, asker or Asker())
        if refused is not None:
            return Refusal(refused, refused.message)
        began, labels = self.pace.elapsed(), self._labels_of(claimant, issue)
        change = Repair((labels.in_flight,), (labels.ready,))
        await project(self.tracker, number, change)
        deadline = began + self.times.trust_in_a_poll
        return Grant(number, 0, claimant, deadline=deadline, labels=change.of(issue.labels))

    async def _objection(self, issue: Issue, asker: Asker) -> Objection | None:
        standing = self._standing(issue)
        if self.judge is not None:
            return await self.judge(issue, standing, asker)
        return objection(issue, self.labels, standing=standing, asker=asker)

    async def look(self, grant: Grant) -> Look:
        began = self.pace.elapsed()
        issue = await self.tracker.issue(grant.number)
        return Look(self._why_lost(grant, issue), began + self.times.trust_in_a_poll)

    def _labels_of(self, claimant: Claimant, issue: Issue) -> LabelSet:
        return self.labels.of(issue.labels, holder=claimant.codename)

    def _why_lost(self, grant: Grant, issue: Issue) -> str | None:
        labels = self._labels_of(grant.claimant, issue)
        held = labels.holds(issue.labels)
        if held:
            return f"the label '{held[0]}' was put on"
        if not issue.is_open:
            return f"#{issue.number} was closed"
        if self._standing(issue).holder is None:
            return f"the label '{labels.in_flight}' was taken off"
        return None

    async def finish(self, grant: Grant, pr: str | None, text: str = "") -> bool:
        return await self._end(grant, "done", text, "pr_open" if pr else None)

    async def release(
        self, grant: Grant, outcome: str, text: str = "", *, park: bool = False
    ) -> bool:
        stage: Stage = "failed" if outcome in FAILED_OUTCOMES else "ready"
        return await self._end(grant, outcome, text, None if park else stage)

    async def _end(self, grant: Grant, outcome: str, text: str, stage: Stage | None) -> bool:
        note = f"<!-- rota-report firing_id={grant.claimant.firing_id} outcome={outcome} -->"
        told = await self._is_told(grant.number, note)
        issue = await self.tracker.issue(grant.number)
        if not told and self._standing(issue).holder is None:
            return False
        if text and not told:
            await self._tell(grant.number, note, text)
        labels = self._labels_of(grant.claimant, issue)
        if stage is not None:
            await self.tracker.add_labels(grant.number, [getattr(labels, stage)])
        await self.tracker.remove_label(grant.number, labels.in_flight)
        return True

    async def _is_told(self, number: int, note: str) -> bool:
        own = (await self.tracker.account()).id
        said = (one for one in await self.tracker.comments(number) if one.author.id == own)
        return any(comment.body.startswith(note) for comment in said)

    async def _tell(self, number: int, note: str, text: str) -> None:
        for _ in range(2):
            try:
                await self.tracker.comment(number, f"{note}\n{text}")
            except AnswerUnknown:
                await self.pace.sleep(self.times.settle)
                if await self._is_told(number, note):
                    return
            else:
                return
        raise AnswerUnknown(f"#{number}: the tracker does not answer; try again later")
