"""Issues of a repository as a work source: what GitHub, Gitea and Forgejo have in common."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from rota.claims.pickup import Objection, Obstacle
from rota.claims.port import Issue
from rota.claims.protocol import Refusal
from rota.model.errors import InvalidInput, IssueNotFound, MalformedReference, TrackerError
from rota.sources.assembly import open_desk
from rota.sources.desk import Held, IssueDesk, TurnedAway
from rota.sources.github.tracker import GitHubTracker
from rota.sources.http.connection import Connection
from rota.sources.http.errors import ApiError
from rota.sources.items import work_item
from rota.sources.paging import page
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    FetchResult,
    ReleaseOptions,
    ReleaseResult,
    WorkItem,
    WorkResult,
    refused,
)
from rota.sources.registry import SourceContext
from rota.sources.rights import explained

if TYPE_CHECKING:
    from rota.config.sources import Forge

ALL = FetchOptions()
PLAIN = ReleaseOptions()

# Not every tracker's lists show open blockers. An issue that was refused for its blockers is not
# offered again for this long: otherwise the first few such issues would hide all others.
WAITS_SECONDS = 600.0
MOST_ERRORS = 3


class ForgeWorkSource:
    """One repository, as one agent sees it."""

    def __init__(
        self, kind: str, agent: str, open_desk: Callable[[], Awaitable[IssueDesk]]
    ) -> None:
        self.type = kind
        self._agent = agent
        self._open = open_desk
        self._opened: IssueDesk | None = None
        self._opening = asyncio.Lock()
        self._waiting: dict[int, float] = {}

    async def desk(self) -> IssueDesk:
        """Opened at first use, because that asks the tracker for our account."""
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def fetch_available_work(self, options: FetchOptions = ALL) -> FetchResult:
        desk = await self.desk()
        async with explained(desk.tracker):
            issues = await self._candidates(desk, options)
        wanted = {label.lower() for label in options.labels}  # the trackers ignore case
        items = [
            work_item(self.type, desk.tracker.repo, issue)
            for issue in issues
            if wanted.issubset(map(str.lower, issue.labels))
        ]
        return page(items, replace(options, labels=()))

    async def _candidates(self, desk: IssueDesk, options: FetchOptions) -> list[Issue]:
        found = await self._passed(desk)
        # Filter before any is tried: otherwise the first few would hide all others.
        kept = await desk.kept_back((issue.number for issue in found), self._agent)
        found = [issue for issue in found if issue.number not in kept]
        if options.include_claimed:
            found += await self._claimed_issues(desk)
        return list({issue.number: issue for issue in found}.values())

    async def _claimed_issues(self, desk: IssueDesk) -> list[Issue]:
        labels = desk.keeper.labels
        excluded = {label.lower() for label in labels.excluded}
        claimed = await desk.tracker.issues(labels=[labels.in_flight])
        return [one for one in claimed if excluded.isdisjoint(map(str.lower, one.labels))]

    async def _passed(self, desk: IssueDesk) -> list[Issue]:
        """One issue that cannot be judged now does not hide the others; several mean that the
        tracker is broken."""
        now = desk.pace.elapsed()
        found: list[Issue] = []
        errors: list[TrackerError] = []
        for issue in await desk.listed():
            if self._waiting.get(issue.number, now) > now:
                continue
            try:
                if await _judged(desk, issue) is None:
                    found.append(issue)
            except TrackerError as error:
                errors.append(error)
            if len(errors) == MOST_ERRORS:
                raise errors[0]
        if errors and not found:
            raise errors[0]
        return found

    async def held_back(self) -> list[str]:
        """Issues that have the ready label but are not available, each with its reason, for
        people."""
        desk = await self.desk()
        marked = await desk.listed()
        kept = await desk.kept_back((issue.number for issue in marked), self._agent)
        reasons = [
            (issue, await _judged(desk, issue) or kept.get(issue.number)) for issue in marked
        ]
        return [f"#{issue.number} {issue.title}: {why}" for issue, why in reasons if why]

    async def claim_work(self, work_item_id: str) -> ClaimResult:
        number = self._number(work_item_id)
        desk = await self.desk()
        try:
            async with explained(desk.tracker):
                answer = await desk.take(number, self._agent)
        except IssueNotFound as error:
            return refused(ClaimFailureReason.NOT_FOUND, error.message)
        except TrackerError as error:
            return refused(_reason_of(error), error.message)
        if isinstance(answer, Refusal):
            if answer.obstacle is Obstacle.WAITS:
                self._waiting[number] = desk.pace.elapsed() + WAITS_SECONDS
            return refused(_reason(answer), answer.message)
        return self._claimed(desk, answer)

    def _claimed(self, desk: IssueDesk, held: Held) -> ClaimResult:
        item = work_item(self.type, desk.tracker.repo, held.issue) if held.issue else None
        return ClaimResult(
            True,
            item,
            ledger_id=held.item_id,
            token=held.token,
            epoch=held.epoch,
            claim=held.grant.claimant.firing_id,
            number=held.grant.claim_id or None,  # label mode has none
        )

    async def complete_work(self, work_item_id: str, result: WorkResult) -> None:
        number = self._number(work_item_id)
        await (await self.desk()).finish(number, self._agent, result)

    async def release_work(
        self, work_item_id: str, options: ReleaseOptions = PLAIN
    ) -> ReleaseResult:
        number = self._number(work_item_id)
        desk = await self.desk()
        given = await desk.release(number, self._agent, options=options)
        return ReleaseResult(True, None if given else f"'{self._agent}' does not hold #{number}")

    async def get_work(self, work_item_id: str) -> WorkItem | None:
        number = self._number(work_item_id)
        desk = await self.desk()
        try:
            issue = await desk.tracker.issue(number)
        except IssueNotFound:
            return None
        return None if issue.is_pull_request else work_item(self.type, desk.tracker.repo, issue)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.tracker.aclose()

    def _number(self, work_item_id: str) -> int:
        found = re.fullmatch(rf"{re.escape(self.type)}-([1-9][0-9]{{0,17}})", work_item_id)
        if found is None:
            raise MalformedReference(
                f"{work_item_id[:80]!r} is no id of this source; write {self.type}-42 for issue 42"
            )
        return int(found[1])


async def _judged(desk: IssueDesk, issue: Issue) -> Objection | str | None:
    """Why the issue may not be taken. A list may show a deleted issue for a while; that must not
    hide the other issues."""
    try:
        return await desk.keeper.judge(issue)
    except IssueNotFound as error:
        return error.message


def _reason(refusal: Refusal) -> ClaimFailureReason:
    if isinstance(refusal, TurnedAway):
        return ClaimFailureReason.PERMISSION_DENIED
    if refusal.obstacle is None:
        return ClaimFailureReason.SOURCE_ERROR
    if refusal.obstacle is Obstacle.CLAIMED:
        return ClaimFailureReason.ALREADY_CLAIMED
    return ClaimFailureReason.INVALID_STATE


def _reason_of(error: TrackerError) -> ClaimFailureReason:
    denied = isinstance(error, ApiError) and error.is_permission_denied()
    return ClaimFailureReason.PERMISSION_DENIED if denied else ClaimFailureReason.SOURCE_ERROR


class GitHubWorkSource(ForgeWorkSource):
    """For programs that use GitHub alone: `GitHubWorkSource({"repo": "owner/name"})`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        context: SourceContext | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        """`connection` sets how GitHub is reached: `retry`, `timeout`, `warning`, `on_warning`."""
        known = context or SourceContext()
        settings = _settings({"type": "github", **config})
        super().__init__(
            "github", known.agent, lambda: open_desk(settings, known, connection=connection)
        )

    async def validate_token(self) -> tuple[str, ...]:
        """The token's scopes, as far as GitHub tells them. Raises `GitHubAuthError` when the token
        is missing, not accepted, or lacks rights."""
        tracker = (await self.desk()).tracker
        assert isinstance(tracker, GitHubTracker)  # noqa: S101 - the settings are of `github`
        return await tracker.validate_token()


def create(config: Mapping[str, Any], context: SourceContext) -> ForgeWorkSource:
    """The factory of `github`, `gitea` and `forgejo`."""
    settings = _settings(config)
    return ForgeWorkSource(str(config["type"]), context.agent, lambda: open_desk(settings, context))


def _settings(config: Mapping[str, Any]) -> "Forge":
    from rota.config.fleet import source_config  # noqa: PLC0415 - pydantic is slow to import
    from rota.config.sources import Forge  # noqa: PLC0415

    settings = source_config(config)
    if not isinstance(settings, Forge):
        raise InvalidInput(f"work_source.type: {config.get('type')!r} has no issues")
    return settings
