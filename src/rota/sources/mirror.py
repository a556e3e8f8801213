"""Mirrors a repository's ready issues into the ledger, with the reason why one is not taken."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from rota.claims.labels import LabelSet
from rota.claims.pickup import labels_for, stage
from rota.claims.port import Issue
from rota.claims.projection import Repair, project
from rota.model.errors import IssueNotFound, TrackerError
from rota.model.sources import Mirrored
from rota.model.status import Status
from rota.queue.intake import LONGEST
from rota.queue.outside import OutsideWork
from rota.sources.desk import IssueDesk
from rota.sources.items import new_item
from rota.sources.reviews import reopen_issue

log = structlog.get_logger()

MOST_ERRORS = 3
# Each reopening waits until the tracker shows it, and claims are not supervised meanwhile.
MOST_REOPENED = 3


@dataclass(slots=True)
class Picture:
    """What the tracker showed. An issue that could not be judged stays as it was in the ledger."""

    shown: dict[str, Mirrored] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    errors: list[TrackerError] = field(default_factory=list)
    reopened: int = 0

    def failed(self, ref: str, error: TrackerError) -> None:
        """One error does not stop the poll; several do."""
        self.unknown.add(ref)
        self.errors.append(error)
        if len(self.errors) >= MOST_ERRORS:
            raise error


class Mirror:
    def __init__(self, desk: IssueDesk, outside: OutsideWork) -> None:
        self._desk = desk
        self._tracker = desk.tracker
        self._labels = desk.keeper.labels
        self._outside = outside

    async def poll(self) -> None:
        """Raises the first error of a single issue, after everything else is done."""
        waiting = await self._outside.waiting(self._tracker.source)
        picture = Picture()
        for issue in await self._desk.listed():
            await self._add(picture, issue)
        for ref in waiting:
            if ref not in picture.shown and ref not in picture.unknown:
                await self._look_after(picture, ref)
        await self._store(picture.shown)
        seen = {*picture.shown, *picture.unknown}
        await self._outside.gone(self._tracker.source, seen, among=waiting)
        if picture.errors:
            raise picture.errors[0]

    async def _store(self, shown: Mapping[str, Mirrored]) -> None:
        done = await self._outside.mirror(list(shown.values()))
        for ref, why in done.refused:
            log.warning("issue cannot be shown", source=self._tracker.source, issue=ref, why=why)

    async def _add(self, picture: Picture, issue: Issue) -> None:
        ref = str(issue.number)
        try:
            refused = await self._desk.keeper.judge(issue)
        except IssueNotFound:
            return  # deleted just now
        except TrackerError as error:
            picture.failed(ref, error)
            return
        reason = None if refused is None else str(refused)[: LONGEST["hold_reason"]]
        picture.shown[ref] = Mirrored(new_item(self._tracker.source, issue), reason)

    async def _look_after(self, picture: Picture, ref: str) -> None:
        """An item that is queued here, but whose issue is not ready on the tracker any more."""
        try:
            issue = await self._tracker.issue(int(ref))
            if issue.is_open and await self._bring_back(picture, issue):
                issue = await self._tracker.issue(issue.number)
        except IssueNotFound:
            return
        except TrackerError as error:
            picture.failed(ref, error)
            return
        if issue.is_open:
            await self._add(picture, issue)

    async def _bring_back(self, picture: Picture, issue: Issue) -> bool:
        """An item that is queued again, by a person or because its pull request was closed, still
        has the label of its end on the tracker: failed, or pull request open."""
        labels = await self._labels_of(issue)
        said = stage(issue, labels)
        if said not in (labels.failed, labels.pr_open):
            return False
        item = await self._outside.standing(self._tracker.source, str(issue.number))
        if item is None or item.status is not Status.QUEUED:
            return False
        if said == labels.pr_open:
            return item.came_from is Status.IN_REVIEW and await self._reopen(picture, issue)
        ended = item.came_from in (Status.FAILED, Status.BLOCKED)
        return ended and await self._retry(issue, labels)

    async def _reopen(self, picture: Picture, issue: Issue) -> bool:
        """The others follow at later polls; until then they are shown as the tracker has them."""
        if picture.reopened >= MOST_REOPENED:
            return False
        picture.reopened += 1
        await reopen_issue(self._desk, issue.number)
        return True

    async def _labels_of(self, issue: Issue) -> LabelSet:
        if not self._labels.of_agents:
            return self._labels
        return labels_for(issue, await self._desk.claims.standing(issue.number), self._labels)

    async def _retry(self, issue: Issue, labels: LabelSet) -> bool:
        change = Repair((labels.ready,), (labels.failed,))
        await project(self._tracker, issue.number, change)
        return True
