"""The status machine: which verb leads from which status to which, and what it needs."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    IN_REVIEW = "in_review"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})

# The outcome that each terminal status carries; the table has the same rule as a CHECK.
OUTCOME_OF = {
    Status.COMPLETED: Outcome.SUCCESS,
    Status.FAILED: Outcome.FAILED,
    Status.CANCELLED: Outcome.CANCELLED,
}


class Verb(StrEnum):
    DISPATCH = "dispatch"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    BLOCK = "block"
    RESUME = "resume"
    HAND_OVER = "hand_over"
    RELEASE = "release"
    REOPEN = "reopen"
    RETRY = "retry"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Rule:
    """One verb: the statuses it leads from, the status it leads to, and the field it needs."""

    sources: tuple[Status, ...]
    target: Status
    needs: str | None = None


def _rule(*sources: Status, to: Status, needs: str | None = None) -> Rule:
    return Rule(sources, to, needs)


S = Status
RULES: dict[Verb, Rule] = {
    Verb.DISPATCH: _rule(S.QUEUED, to=S.DISPATCHED, needs="assigned_agent"),
    Verb.START: _rule(S.DISPATCHED, to=S.IN_PROGRESS),
    Verb.COMPLETE: _rule(S.IN_PROGRESS, S.IN_REVIEW, to=S.COMPLETED, needs="outcome"),
    Verb.FAIL: _rule(S.IN_PROGRESS, S.BLOCKED, to=S.FAILED, needs="outcome"),
    Verb.BLOCK: _rule(S.IN_PROGRESS, to=S.BLOCKED, needs="notes"),
    Verb.RESUME: _rule(S.BLOCKED, to=S.IN_PROGRESS),
    Verb.HAND_OVER: _rule(S.IN_PROGRESS, to=S.IN_REVIEW, needs="artifact_url"),
    Verb.RELEASE: _rule(S.DISPATCHED, S.IN_PROGRESS, S.BLOCKED, to=S.QUEUED),
    Verb.REOPEN: _rule(S.IN_REVIEW, to=S.QUEUED),
    Verb.RETRY: _rule(S.FAILED, to=S.QUEUED),
    Verb.CANCEL: _rule(S.QUEUED, S.DISPATCHED, to=S.CANCELLED),
}
del S

# A pair (from, to) names one verb, so that `PATCH {"status": …}` needs no guessing.
VERB_OF: dict[tuple[Status, Status], Verb] = {
    (source, rule.target): verb for verb, rule in RULES.items() for source in rule.sources
}


def verb_for(source: Status, target: Status) -> Verb | None:
    return VERB_OF.get((source, target))


def allowed_from(status: Status) -> dict[Verb, Status]:
    """The possible verbs, each with the status it leads to."""
    return {verb: rule.target for verb, rule in RULES.items() if status in rule.sources}
