"""What a run's end means for its item."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.fleet import Retry
from rota.model.runs import Run, RunEnd, RunStatus
from rota.model.schedules import TriggerKind
from rota.sources.port import ReleaseOptions, WorkResult
from rota.sources.verdicts import SHUT_DOWN, refusals_before, verdict

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RETRY = Retry(max_attempts=3, backoff=timedelta(minutes=1), max_backoff=timedelta(minutes=90))


def said(
    end: RunEnd, attempt: int | None = 1, most: int | None = 10
) -> WorkResult | ReleaseOptions | None:
    return verdict(end, RETRY, NOW, attempt, most)


def test_success_completes_the_item() -> None:
    end = RunEnd(RunStatus.SUCCEEDED, "merged", ("https://e.org/1",))
    assert said(end) == WorkResult("success", "merged", artifacts=("https://e.org/1",))


def test_behind_a_gate_a_pull_request_waits_for_its_review() -> None:
    def reviewed(status: RunStatus, *artifacts: str) -> bool:
        end = RunEnd(status, "see", artifacts)
        found = verdict(end, RETRY, NOW, 9, 9, review_gate=True)
        return isinstance(found, WorkResult) and found.review

    pull = "https://e.org/o/r/pull/1"
    assert reviewed(RunStatus.SUCCEEDED, "https://e.org/o/r/commit/1234567", pull)
    assert reviewed(RunStatus.SUCCEEDED, f"{pull}/files")
    assert not reviewed(RunStatus.SUCCEEDED, "https://e.org/o/r/commit/1234567")
    assert not reviewed(RunStatus.PARTIAL, pull)
    assert not reviewed(RunStatus.FAILED, pull)


def test_half_a_result_is_left_to_a_person() -> None:
    assert said(RunEnd(RunStatus.PARTIAL, "which one?")) == WorkResult("partial", "which one?")


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.TIMED_OUT])
def test_a_failure_is_tried_again_later(status: RunStatus) -> None:
    end = RunEnd(status, "it does not build", error="exit code 2")
    again = NOW + timedelta(minutes=2)
    assert said(end, 2) == ReleaseOptions(
        "attempt 2 failed: exit code 2", add_comment=True, not_before=again
    )


@pytest.mark.parametrize(
    ("attempt", "most", "given_up"),
    [(2, 10, False), (3, 10, True), (4, 10, True), (2, 2, True), (1, 2, False), (1, 1, True)],
)
def test_a_failure_is_given_up_when_the_items_or_the_agents_attempts_are_spent(
    attempt: int, most: int, given_up: bool
) -> None:
    end = RunEnd(RunStatus.FAILED, "it does not build", error="exit code 2")
    failure = WorkResult("failure", "it does not build", error="exit code 2")
    verdict_ = said(end, attempt, most)
    assert (verdict_ == failure) is given_up
    assert isinstance(verdict_, ReleaseOptions) is not given_up


@pytest.mark.parametrize("summary", ["", "exit code 2"])
def test_an_error_that_is_all_there_is_to_say_is_said_once(summary: str) -> None:
    end = RunEnd(RunStatus.FAILED, summary, error="exit code 2")
    assert said(end, 3) == WorkResult("failure", "exit code 2")


def test_without_a_ledger_nobody_counts_and_a_failure_is_final() -> None:
    assert said(RunEnd(RunStatus.FAILED, "no"), None, None) == WorkResult("failure", "no")


@pytest.mark.parametrize("attempt", [1, 3, 99])
def test_a_used_up_quota_is_no_failure_of_the_item(attempt: int) -> None:
    end = RunEnd(RunStatus.FAILED, error="limit reached", usage_limit=True)
    back = ReleaseOptions("the agent's quota is used up: limit reached", counted=False)
    assert said(end, attempt) == back


@pytest.mark.parametrize(("refusals", "counted"), [(0, False), (1, False), (2, True), (9, True)])
def test_the_third_refusal_in_a_row_is_counted(refusals: int, counted: bool) -> None:
    end = RunEnd(RunStatus.FAILED, error="limit reached", usage_limit=True)
    found = verdict(end, RETRY, NOW, 1, 10, refusals=refusals)
    assert isinstance(found, ReleaseOptions)
    assert found.counted is counted
    last = verdict(end, RETRY, NOW, 3, 10, refusals=refusals)
    assert isinstance(last, WorkResult) is counted


def test_refusals_are_the_failures_whose_attempt_was_taken_back() -> None:
    def run(attempt: int, status: RunStatus = RunStatus.FAILED) -> Run:
        return Run(
            "r", "smith", None, TriggerKind.SCHEDULE, None, "here", "w", 1, None, attempt, "now",
            status=status,
        )  # fmt: skip

    now, lost = run(2, RunStatus.RUNNING), run(2, RunStatus.LOST)
    assert refusals_before(now, []) == 0
    assert refusals_before(now, [run(2), run(2), run(1)]) == 2
    assert refusals_before(now, [run(1), run(2)]) == 0
    assert refusals_before(now, [run(2), lost, run(2)]) == 1


def test_a_server_that_stops_gives_back_and_a_person_who_cancels_wants_to_look() -> None:
    stopped = said(RunEnd(RunStatus.CANCELLED, error=SHUT_DOWN))
    assert stopped == ReleaseOptions("shut_down", counted=False)
    cancelled = said(RunEnd(RunStatus.CANCELLED, error="somebody asked for its end"))
    assert isinstance(cancelled, WorkResult)
    assert cancelled.outcome == "partial"


@pytest.mark.parametrize("status", [RunStatus.CLAIM_LOST, RunStatus.LOST])
def test_of_an_item_that_is_not_ours_nothing_is_said(status: RunStatus) -> None:
    assert said(RunEnd(status, "I was nearly done")) is None


def test_a_run_that_says_nothing_still_has_a_result() -> None:
    result = said(RunEnd(RunStatus.SUCCEEDED))
    assert isinstance(result, WorkResult)
    assert result.summary == "(succeeded, nothing was said)"
