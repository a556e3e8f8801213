"""What a run's end means for its item: a result to report, or another try."""

from dataclasses import replace
from datetime import datetime

from rota.model.fleet import Retry
from rota.model.runs import RunEnd, RunStatus
from rota.runner.budget import backoff
from rota.sources.port import ReleaseOptions, WorkOutcome, WorkResult
from rota.sources.reports import pull_request

SHUT_DOWN = "shut_down"


def verdict(
    end: RunEnd,
    retry: Retry,
    now: datetime,
    attempt: int | None,
    most: int | None,
    *,
    review_gate: bool = False,
) -> WorkResult | ReleaseOptions | None:
    """None: the item is not ours to speak of any more."""
    if end.status in (RunStatus.FAILED, RunStatus.TIMED_OUT):
        return _failed(end, retry, now, attempt, most)
    if end.status is RunStatus.CANCELLED:
        return _cancelled(end)
    outcome = _OUTCOMES.get(end.status)
    if outcome is None:
        return None
    awaits = review_gate and outcome == "success" and pull_request(end.artifacts) is not None
    return replace(_result(outcome, end), review=awaits)


_OUTCOMES: dict[RunStatus, WorkOutcome] = {
    RunStatus.SUCCEEDED: "success",
    RunStatus.PARTIAL: "partial",
}


def _failed(
    end: RunEnd, retry: Retry, now: datetime, attempt: int | None, most: int | None
) -> WorkResult | ReleaseOptions:
    """Without a ledger nobody counts attempts, and a person has to look."""
    if end.usage_limit:
        why = f"the agent's quota is used up: {end.error or end.summary}"
        return ReleaseOptions(why, counted=False)
    if attempt is None or attempt >= min(most or attempt, retry.max_attempts):
        return _result("failure", end)
    again = now + backoff(retry.backoff, retry.max_backoff, attempt)
    why = f"attempt {attempt} failed: {end.error or end.summary or end.status}"
    return ReleaseOptions(why, add_comment=True, not_before=again)


def _result(outcome: WorkOutcome, end: RunEnd) -> WorkResult:
    said = end.summary or end.error or f"({end.status}, nothing was said)"
    error = None if said == end.error else end.error  # what is told once is not told again
    return WorkResult(outcome, said, artifacts=end.artifacts, error=error)


def _cancelled(end: RunEnd) -> WorkResult | ReleaseOptions:
    """A server that stops is no reason to look; a person who stops a run wants to."""
    if end.error == SHUT_DOWN:
        return ReleaseOptions(SHUT_DOWN, counted=False)
    return WorkResult("partial", "The run was cancelled.", error=end.error)
