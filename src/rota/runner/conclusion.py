"""Computes the end of a run."""

from datetime import datetime

from rota.model.clock import to_text
from rota.model.fleet import Limits
from rota.model.runs import RunEnd, RunStatus
from rota.runner.execution import Finished
from rota.runner.hearing import Hearing, beyond
from rota.runner.results import (
    LONGEST_ERROR,
    MOST_ARTIFACTS,
    Told,
    artifacts_in,
    ended_by,
    shortened,
)
from rota.runner.runtimes.port import Report
from rota.runner.runtimes.quota import Refusal, is_sane, refusal


def conclude(
    finished: Finished, hearing: Hearing, told: Told | None, limits: Limits, now: datetime
) -> RunEnd:
    told = told or Told()
    report = hearing.report
    status, error = _verdict(finished, hearing, told, limits)
    words = report.result or report.said or ("" if report.session_id else hearing.printed)
    words = hearing.redactor.text(words)  # before the text is cut below
    refused = _refused(finished, hearing, now) if status is RunStatus.FAILED else None
    until = refused.until if refused else None
    return RunEnd(
        status=status,
        summary=told.summary or shortened(words),
        artifacts=_united(told.artifacts, artifacts_in(f"{told.summary}\n{words}")),
        error=shortened(error, LONGEST_ERROR) if error else None,
        exit_code=finished.exit_code,
        session_id=report.session_id,
        usage=report.usage,
        usage_limit=refused is not None,
        usage_limit_until=to_text(until) if until else None,
    )


def _verdict(
    finished: Finished, hearing: Hearing, told: Told, limits: Limits
) -> tuple[RunStatus, str | None]:
    if finished.stopped is not None:
        return finished.stopped.status, finished.stopped.why
    if (why := beyond(limits, hearing.report.usage)) is not None:
        return RunStatus.FAILED, why
    if finished.exit_code != 0 or hearing.report.failed:
        return RunStatus.FAILED, told.error or _failure(finished, hearing)
    if told.outcome is RunStatus.FAILED:
        return RunStatus.FAILED, told.error or told.summary or "the agent says that it failed"
    if told.outcome is RunStatus.PARTIAL:
        return RunStatus.PARTIAL, told.error
    return RunStatus.SUCCEEDED, None


def _failure(finished: Finished, hearing: Hearing) -> str:
    why = hearing.redactor.text(hearing.report.error or hearing.complained)
    if finished.exit_code == 0:
        return why or "its runtime reported an error"
    ended = ended_by(finished.exit_code)
    return f"{ended}: {shortened(why, LONGEST_ERROR - 200)}" if why else ended


def _refused(finished: Finished, hearing: Hearing, now: datetime) -> Refusal | None:
    """Only when it failed by itself: a run that succeeded may talk about limits."""
    report: Report = hearing.report
    if finished.stopped is not None:
        return None
    found = refusal(_runtimes_own_words(hearing), now)
    if report.refused and report.resets_at and is_sane(report.resets_at, now):
        return Refusal(report.resets_at)
    return found or (Refusal() if report.refused else None)


def _runtimes_own_words(hearing: Hearing) -> str:
    """A stream separates the runtime's messages from the agent's work, which may well be about
    another program's limits. For other programs, all of their output is searched."""
    if hearing.streams:
        return hearing.report.error or hearing.complained
    return f"{hearing.printed}\n{hearing.complained}"


def _united(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))[:MOST_ARTIFACTS]
