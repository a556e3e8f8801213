"""What the end of a run means for its item: a result to report, or another attempt."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from rota.model.fleet import Retry
from rota.model.runs import Run, RunEnd, RunStatus
from rota.runner.budget import backoff
from rota.sources.port import ReleaseOptions, WorkOutcome, WorkResult
from rota.sources.reports import pull_request

SHUT_DOWN = "shut_down"
# How many runs in a row may end for a quota without being counted as an attempt. The detection
# reads text and may be wrong, and an item that is never counted would block its agent for ever.
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
    """None: the item is no longer ours to report on. `refusals`: how many runs on it in a row have
    ended for a quota, without this one."""
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


# After such an end the item was handed to a person. That it comes again is their wish.
_HANDED_OVER = frozenset({RunStatus.SUCCEEDED, RunStatus.PARTIAL, RunStatus.CANCELLED})


async def not_to_begin(
    retry: Retry, run: Run, before: Callable[[Run], Awaitable[RunStatus | None]]
) -> RunEnd | None:
    """The end of a run that must not start: the agent's attempts are used up, and the last of them
    ended without a result, with its server or its lease. `before`: how the last run on its item
    ended."""
    if run.attempt is None or run.attempt <= retry.max_attempts:
        return None
    if await before(run) in _HANDED_OVER:
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
    """Not a real attempt. Another agent with its own quota may take the item at once."""
    why = f"the agent's quota is used up: {end.error or end.summary}"
    return ReleaseOptions(why, counted=False)


def refusals_before(run: Run, earlier: Sequence[Run]) -> int:
    """How many earlier runs in a row, newest first, have ended for a quota. Such a run has the same
    attempt number as this one, because its attempt was taken back."""
    refused = takewhile(
        lambda one: one.status is RunStatus.FAILED and one.attempt == run.attempt, earlier
    )
    return sum(1 for _ in refused)


def _result(outcome: WorkOutcome, end: RunEnd) -> WorkResult:
    said = end.summary or end.error or f"({end.status}, nothing was said)"
    error = None if said == end.error else end.error  # the same text is not reported twice
    return WorkResult(outcome, said, artifacts=end.artifacts, error=error)


def _cancelled(end: RunEnd) -> WorkResult | ReleaseOptions:
    """A stopped server gives the item back; a run that a person cancels waits for a person."""
    if end.error == SHUT_DOWN:
        return ReleaseOptions(SHUT_DOWN, counted=False)
    return WorkResult("partial", "The run was cancelled.", error=end.error)
