"""The sweep: ends claims of dead runs, and makes the labels match the log again.

Any number of sweepers may run at the same time, and each may die at any point. A claim of our own
fleet is ended when its run has no lease any more. A claim of another fleet is ended only after a
long silence and a suspicion that nobody answered.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from rota.claims.comments import OPERATOR_FLEET, Entry, Kind
from rota.claims.fold import Standing, grace_of
from rota.claims.labels import LabelSet
from rota.claims.port import Issue
from rota.claims.projection import project, repair
from rota.claims.protocol import Claimant, CommentClaims, Grant
from rota.model.errors import IssueNotFound, TrackerError

# Which of these firings hold a live lease in our ledger?
LiveFirings = Callable[[Collection[str]], Awaitable[set[str]]]


class Deed(StrEnum):
    RELEASED = "released"  # a claim of our own dead run
    SUSPECTED = "suspected"
    EXPIRED = "expired"
    RELABELLED = "relabelled"


@dataclass(frozen=True, slots=True)
class Finding:
    """What the sweep did about an issue, or with `dry_run` would do."""

    number: int
    title: str
    deed: Deed
    codename: str = ""
    firing_id: str = ""
    age_hours: float = 0.0


@dataclass(slots=True)
class Report:
    findings: list[Finding] = field(default_factory=list)
    asked_after: list[Finding] = field(default_factory=list)  # suspected earlier, no answer yet
    looked_at: int = 0
    disputed: list[int] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sweep:
    claims: CommentClaims
    labels: LabelSet
    fleet: str
    live: LiveFirings
    swept_by: str

    async def run(
        self, also: Iterable[int] = (), *, quiet: float | None = None, dry_run: bool = False
    ) -> Report:
        """Check every issue that carries one of our labels, and those in `also`.

        An issue that cannot be read does not stop the sweep of the others.
        """
        report = Report()
        for number in sorted({*await self._numbers(), *also}):
            try:
                await self._sweep_one(number, report, quiet or self.claims.times.quiet, dry_run)
            except IssueNotFound:
                continue
            except TrackerError as error:
                report.errors[number] = error.message
        return report

    async def _numbers(self) -> set[int]:
        tracker = self.claims.log.tracker
        found: set[int] = set()
        for label in (self.labels.managed, *self.labels.all_lifecycle):
            found.update(issue.number for issue in await tracker.issues(labels=[label]))
        return found

    async def _sweep_one(self, number: int, report: Report, quiet: float, dry_run: bool) -> None:
        report.looked_at += 1
        # Labels before log: the label of a winner is never read without its claim.
        issue = await self.claims.log.tracker.issue(number)
        standing = await self.claims.log.standing(number)
        if standing.disputed is not None:
            report.disputed.append(number)
            return
        deed = await self._deed(standing, quiet)
        if deed is not None and standing.holder is not None:
            report.findings.append(self._finding(issue, standing, standing.holder, deed))
            if not dry_run:
                await self._do(deed, number, standing, standing.holder)
                if deed is not Deed.SUSPECTED:
                    issue, standing = await self._after(number)
        elif standing.suspects and standing.holder is not None and self._is_quiet(standing, quiet):
            found = self._finding(issue, standing, standing.holder, Deed.SUSPECTED)
            report.asked_after.append(found)
        await self._mend_labels(issue, standing, report, dry_run)

    async def _after(self, number: int) -> tuple[Issue, Standing]:
        """Our entry may have come after an answer or an end that we had not seen. Labels follow
        what the log then says, not what we intended."""
        await self.claims.log.settle()
        issue = await self.claims.log.tracker.issue(number)
        return issue, await self.claims.log.standing(number)

    async def _deed(self, standing: Standing, quiet: float) -> Deed | None:
        holder = standing.holder
        if holder is None or holder.fleet == OPERATOR_FLEET:
            return None
        if holder.fleet == self.fleet:
            # Ask the ledger after reading the log. A claim is posted only once its lease exists, so
            # in this order a live claim cannot look dead.
            alive = await self.live([holder.firing_id])
            return None if holder.firing_id in alive else Deed.RELEASED
        if standing.suspects:
            waited = self._age(standing.suspects[0])
            grace = grace_of(holder, self.claims.times.grace)
            return Deed.EXPIRED if waited >= grace else None
        return Deed.SUSPECTED if self._is_quiet(standing, quiet) else None

    def _is_quiet(self, standing: Standing, quiet: float) -> bool:
        """Whether nothing was heard for so long of a holder that is not ours."""
        holder = standing.holder
        if holder is None or holder.fleet in (self.fleet, OPERATOR_FLEET):
            return False
        return self._age(standing.heard or holder) >= quiet

    def _age(self, entry: Entry) -> float:
        return (self.claims.log.pace.now() - entry.created_at).total_seconds()

    async def _do(self, deed: Deed, number: int, standing: Standing, holder: Entry) -> None:
        log, by = self.claims.log, self.swept_by
        if deed is Deed.RELEASED:
            await self.claims.append_release(_grant(number, holder), "stale-swept", "")
        elif deed is Deed.SUSPECTED:
            await log.append(number, Kind.SUSPECT, claim=holder.id, by=by)
        else:
            suspect = standing.suspects[0].id
            await log.append(number, Kind.EXPIRE, claim=holder.id, suspect=suspect, by=by)

    def _finding(self, issue: Issue, standing: Standing, holder: Entry, deed: Deed) -> Finding:
        return Finding(
            issue.number,
            issue.title,
            deed,
            holder.codename,
            holder.firing_id,
            self._age(standing.heard or holder) / 3600,
        )

    async def _mend_labels(
        self, issue: Issue, standing: Standing, report: Report, dry_run: bool
    ) -> None:
        change = repair(standing, issue, self.labels)
        if not change:
            return
        report.findings.append(Finding(issue.number, issue.title, Deed.RELABELLED))
        if not dry_run:
            await project(self.claims.log.tracker, issue.number, change)


def _grant(number: int, holder: Entry) -> Grant:
    nonce = holder.fields.get("nonce", "")
    return Grant(
        number, holder.id, Claimant(holder.fleet, holder.codename, holder.firing_id, nonce)
    )
