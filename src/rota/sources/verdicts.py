"""What a run's end means for its item: a result to report, or another try."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from rota.model.fleet import Retry
from rota.model.runs import Run, RunEnd, RunStatus
from rota.runner.budget import backoff
from rota.sources.port import ReleaseOptions, WorkOutcome, WorkResult
from rota.sources.reports import pull_request

SHUT_DOWN = "shut_down"
# So many runs in a row may end for a quota before one is counted. Words are misread, and an item
# that is never counted would keep its agent from all others.
MOST_REFUSALS = 3


def verdict(
    end: RunEnd,
    retry: Retry,
    now: datetime,
    attempt: int | None,
    most: int | None,
    *,
    review_gate: bool = False,
    refusals: int = 0,
) -> WorkResult | ReleaseOptions | None:
    """None: the item is not ours to speak of any more. `refusals`: so many runs on it in a row have
    ended for a quota, this one not counted."""
    if end.status in (RunStatus.FAILED, RunStatus.TIMED_OUT):
        if end.usage_limit and refusals + 1 < MOST_REFUSALS:
            return _refused(end)
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


def not_to_begin(retry: Retry, attempt: int | None) -> RunEnd | None:
    """The end of a run that must not begin: those before it were all that its agent may have, and
    the last of them ended without a word, with its server or its lease."""
    if attempt is None or attempt <= retry.max_attempts:
        return None
    why = f"not begun: retry.max_attempts of its agent is {retry.max_attempts}"
    return RunEnd(RunStatus.FAILED, error=f"{why}, and so many have ended without a result")


def _failed(
    end: RunEnd, retry: Retry, now: datetime, attempt: int | None, most: int | None
) -> WorkResult | ReleaseOptions:
    """Without a ledger nobody counts attempts, and a person has to look."""
    if attempt is None or attempt >= min(most or attempt, retry.max_attempts):
        return _result("failure", end)
    again = now + backoff(retry.backoff, retry.max_backoff, attempt)
    why = f"attempt {attempt} failed: {end.error or end.summary or end.status}"
    return ReleaseOptions(why, add_comment=True, not_before=again)


def _refused(end: RunEnd) -> ReleaseOptions:
    """Nobody has tried in earnest. Another agent with a quota of its own may take it at once."""
    why = f"the agent's quota is used up: {end.error or end.summary}"
    return ReleaseOptions(why, counted=False)


def refusals_before(run: Run, earlier: Sequence[Run]) -> int:
    """How many of its earlier runs, the newest first, have ended for a quota in a row. A failure
    whose attempt was taken back is one: the next run has the same number again."""
    refused = takewhile(
        lambda one: one.status is RunStatus.FAILED and one.attempt == run.attempt, earlier
    )
    return sum(1 for _ in refused)


def _result(outcome: WorkOutcome, end: RunEnd) -> WorkResult:
    said = end.summary or end.error or f"({end.status}, nothing was said)"
    error = None if said == end.error else end.error  # what is told once is not told again
    return WorkResult(outcome, said, artifacts=end.artifacts, error=error)


def _cancelled(end: RunEnd) -> WorkResult | ReleaseOptions:
    """A server that stops is no reason to look; a person who stops a run wants to."""
    if end.error == SHUT_DOWN:
        return ReleaseOptions(SHUT_DOWN, counted=False)
    return WorkResult("partial", "The run was cancelled.", error=end.error)
