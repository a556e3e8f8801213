"""Labels that show the claim log: computes the label an issue should carry, and applies it."""

from collections.abc import Iterable
from dataclasses import dataclass

from rota.claims.comments import Entry, Kind
from rota.claims.fold import Standing
from rota.claims.labels import LabelSet
from rota.claims.pickup import labels_for, stage
from rota.claims.port import Issue, Tracker

# Outcomes of a release that mark the issue as failed. After any other it may be taken again.
FAILED_OUTCOMES = frozenset({"failure", "partial", "attempts-exhausted"})
PARKED = "parked"  # given back, but not to be picked up before a person says so


def wanted(standing: Standing, issue: Issue, labels: LabelSet) -> str | None:
    """The lifecycle label that the log asks for; None: the issue should carry none of them."""
    if standing.done is not None:
        return labels.pr_open if issue.is_open else labels.done
    if not issue.is_open:
        # Whoever merges a pull request may set the label; the log need not know of the merge.
        return labels.done if stage(issue, labels) == labels.done else None
    if standing.holder is not None:
        return labels.in_flight
    if standing.ended is None:
        return _untouched(issue, labels)
    return _given_back(standing, standing.ended, issue, labels)


def _untouched(issue: Issue, labels: LabelSet) -> str | None:
    """Never claimed: the labels are as people set them, except that nobody is working on it."""
    said = stage(issue, labels)
    return labels.ready if said == labels.in_flight else said


def _given_back(standing: Standing, ended: Entry, issue: Issue, labels: LabelSet) -> str | None:
    carried = {label.lower() for label in issue.labels}
    is_ready = labels.ready.lower() in carried
    if ended.kind is Kind.RELEASE:
        if "pr" in ended.fields and (labels.pr_open.lower() in carried or not is_ready):
            return labels.pr_open  # this is how `label-state` ends its work
        if not is_ready and ended.outcome in FAILED_OUTCOMES:
            return labels.failed
    if is_ready:
        return labels.ready  # a person who puts the ready label on a failed issue has decided
    # One claim that says so is not enough: a person may have read labels that just changed.
    return labels.ready if standing.offered and ended.outcome != PARKED else None


@dataclass(frozen=True, slots=True)
class Repair:
    add: tuple[str, ...]
    remove: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)

    def of(self, labels: Iterable[str]) -> tuple[str, ...]:
        """These labels, repaired."""
        gone = {label.lower() for label in self.remove}
        kept = tuple(label for label in labels if label.lower() not in gone)
        return kept + self.add


def repair(standing: Standing, issue: Issue, labels: LabelSet) -> Repair:
    """The labels to add, then those to remove, so that the labels show what the log says."""
    sets, labels = labels, labels_for(issue, standing, labels)
    carried = {label.lower(): label for label in issue.labels}
    keep = wanted(standing, issue, labels)
    # The sticky label finds an issue that a crash left without any other label. An issue that was
    # never claimed does not need it.
    worked = standing.holder or standing.ended or standing.done
    add = [
        label
        for label in (keep, labels.managed if worked else None)
        if label is not None and label.lower() not in carried
    ]
    # What is for one agent may be for another, too.
    kept = {name.lower() for name in (sets.all_ready if keep == labels.ready else (keep or "",))}
    remove = [
        carried[name.lower()]
        for name in sets.all_lifecycle
        if name.lower() in carried and name.lower() not in kept
    ]
    return Repair(tuple(add), tuple(remove))


async def project(tracker: Tracker, number: int, change: Repair) -> None:
    """Add before remove: a crash in between leaves one label too many, never none. Labels are never
    replaced as a whole set, because other labels belong to other people."""
    if change.add:
        await tracker.add_labels(number, change.add)
    for label in change.remove:
        await tracker.remove_label(number, label)
