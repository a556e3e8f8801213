"""May this issue be picked up? One answer for fetching, claiming, people and the git hook."""

from dataclasses import dataclass
from enum import StrEnum

from rota.claims.comments import OPERATOR_FLEET, Entry
from rota.claims.fold import Standing
from rota.claims.labels import LabelSet
from rota.claims.port import Issue


class Obstacle(StrEnum):
    PULL_REQUEST = "pull_request"
    CLOSED = "closed"
    REPO_PAUSED = "repo_paused"
    HELD = "held"
    WAITS = "waits_for_issues"
    CLAIMED = "already_claimed"
    PR_OPEN = "pr_open"
    DONE = "done"
    FAILED = "failed"
    NOT_READY = "not_ready"
    DISPUTED = "disputed"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True)
class Objection:
    obstacle: Obstacle
    message: str
    fix: str | None = None

    def __str__(self) -> str:
        return self.message if self.fix is None else f"{self.message}; {self.fix}"


@dataclass(frozen=True, slots=True)
class Asker:
    """The party that wants the issue. A claim of its own is no obstacle to it, and an operator's
    own claim overrides hold labels."""

    claim_id: int | None = None
    login: str | None = None  # an operator
    needs_ready: bool = True  # False for a person, who may take an issue without the ready label

    def holds(self, claim: Entry) -> bool:
        return claim.id == self.claim_id or self._made(claim)

    def _made(self, claim: Entry) -> bool:
        """An agent may have the same name as a person; its claims are not that person's."""
        by_a_person = self.login is not None and claim.fleet == OPERATOR_FLEET
        return by_a_person and claim.codename == self.login


AN_AGENT = Asker()


def objection(
    issue: Issue,
    labels: LabelSet,
    *,
    standing: Standing | None = None,
    paused: bool = False,
    distrust: str | None = None,
    asker: Asker = AN_AGENT,
) -> Objection | None:
    """Why the issue may not be picked up, or None. `standing` is None while the claim log has not
    been read: a cheap check of many issues, which the claim itself repeats with the log."""
    labels = labels_for(issue, standing, labels)
    held = standing is not None and standing.holder is not None and asker.holds(standing.holder)
    return (
        _as_issue(issue)
        or _by_repository(paused)
        or (None if held and asker.login else _by_hold(issue, labels))
        or _by_blockers(issue)
        or _by_log(standing, labels, held)
        or (None if held else _by_stage(issue, labels, asker))
        or _by_trust(distrust)
    )


def labels_for(issue: Issue, standing: Standing | None, labels: LabelSet) -> LabelSet:
    """Agents of one repository may have labels of their own: those that count for this issue."""
    if standing is None:
        return labels.of(issue.labels)
    last = None if standing.granted is None else standing.granted.codename
    is_free = standing.holder is None and standing.done is None
    return labels.of(issue.labels, holder=None if is_free else last, last=last)


def stage(issue: Issue, labels: LabelSet) -> str | None:
    """The lifecycle label that counts; of several, the one latest in the issue's life."""
    carried = {label.lower() for label in issue.labels}
    return next((name for name in labels.lifecycle if name.lower() in carried), None)


def _as_issue(issue: Issue) -> Objection | None:
    if issue.is_pull_request:
        return Objection(
            Obstacle.PULL_REQUEST, f"#{issue.number} is a pull request; only issues are work"
        )
    if not issue.is_open:
        return Objection(Obstacle.CLOSED, f"#{issue.number} is closed", "reopen it first")
    return None


def _by_repository(paused: bool) -> Objection | None:
    if not paused:
        return None
    return Objection(
        Obstacle.REPO_PAUSED, "the repository is paused", "go on: rota issue resume OWNER/REPO"
    )


def _by_hold(issue: Issue, labels: LabelSet) -> Objection | None:
    holds = labels.holds(issue.labels)
    if not holds:
        return None
    return Objection(
        Obstacle.HELD, f"the label '{holds[0]}' keeps agents away", "take the label off"
    )


def _by_blockers(issue: Issue) -> Objection | None:
    if not issue.open_blockers:
        return None
    many = "1 open issue" if issue.open_blockers == 1 else f"{issue.open_blockers} open issues"
    return Objection(Obstacle.WAITS, f"it is blocked by {many}", "close them first")


def _by_log(standing: Standing | None, labels: LabelSet, held: bool) -> Objection | None:
    if standing is None:
        return None
    if standing.disputed is not None:
        return Objection(
            Obstacle.DISPUTED,
            f"claim {standing.disputed.id} was edited; its log cannot be believed",
            "delete that comment, then look again",
        )
    if standing.holder is not None and not held:
        return _by_holder(standing.holder, labels)
    if standing.done is not None:
        return Objection(
            Obstacle.PR_OPEN,
            f"it was finished: {standing.done.fields.get('pr', 'no pull request named')}",
            "have it worked again: rota issue reopen OWNER/REPO#N",
        )
    return None


def _by_holder(holder: Entry, labels: LabelSet) -> Objection:
    if not holder.id:  # labels alone do not say who it is, and nothing can be revoked
        return Objection(
            Obstacle.CLAIMED,
            f"it carries the label '{labels.in_flight}'",
            "take it off if nobody works",
        )
    return Objection(
        Obstacle.CLAIMED,
        f"'{holder.codename}' holds it (claim {holder.id})",
        "take it away: rota issue claim OWNER/REPO#N --force",
    )


def _by_stage(issue: Issue, labels: LabelSet, asker: Asker) -> Objection | None:
    name = stage(issue, labels)
    if name == labels.ready:
        return None
    if name is None:
        if not asker.needs_ready:
            return None
        return Objection(
            Obstacle.NOT_READY,
            f"it lacks the label '{labels.ready}'",
            "put the label on when it may be worked",
        )
    obstacle, advice = {
        labels.in_flight: (Obstacle.CLAIMED, "correct it if nobody has a claim: rota issue sweep"),
        labels.pr_open: (Obstacle.PR_OPEN, "take it off if no pull request answers the issue"),
        labels.done: (Obstacle.DONE, "take it off if there is more to do"),
        labels.failed: (Obstacle.FAILED, f"put the label '{labels.ready}' on to try again"),
    }[name]
    return Objection(obstacle, f"it carries the label '{name}'", advice)


def _by_trust(distrust: str | None) -> Objection | None:
    return None if distrust is None else Objection(Obstacle.UNTRUSTED, distrust)
