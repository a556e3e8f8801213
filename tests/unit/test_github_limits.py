"""Limits, waits and priorities: what was observed of herdctl, and where we know better."""

import json
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.errors import TrackerError, WorkSourceError
from rota.model.work import Priority
from rota.sources.github import (
    GitHubAPIError,
    GitHubAuthError,
    RateLimitInfo,
    RateLimitWarningOptions,
    RetryOptions,
    calculate_backoff_delay,
    extract_rate_limit_info,
    infer_priority,
    is_rate_limit_response,
)
from rota.sources.http.answers import Answer, next_link
from rota.sources.http.limits import LimitWatch, is_limited, wait_asked

OBSERVED = json.loads((Path(__file__).parents[1] / "data" / "observed.json").read_text())
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Chance(random.Random):
    """Always the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


def options(raw: dict[str, Any]) -> RetryOptions:
    return RetryOptions(
        raw["maxRetries"], raw["baseDelayMs"] / 1000, raw["maxDelayMs"] / 1000, raw["jitterFactor"]
    )


@pytest.mark.parametrize("seen", OBSERVED["priority"], ids=lambda seen: "+".join(seen["labels"]))
def test_a_priority_is_inferred_as_observed(seen: dict[str, Any]) -> None:
    assert infer_priority(seen["labels"]).name.lower() == seen["priority"]


@pytest.mark.parametrize(
    ("label", "priority"),
    [
        ("priority:high", Priority.HIGH),
        ("P1-bug", Priority.HIGH),
        ("priority/critical", Priority.CRITICAL),
        ("high_priority", Priority.HIGH),
        ("highlight", Priority.MEDIUM),
        ("workflow", Priority.MEDIUM),
        ("follow-up", Priority.MEDIUM),
        ("p10", Priority.MEDIUM),
        ("überhigh", Priority.MEDIUM),
        ("", Priority.MEDIUM),
    ],
)
def test_a_priority_is_a_whole_word(label: str, priority: Priority) -> None:
    assert infer_priority([label]) is priority


@pytest.mark.parametrize("seen", OBSERVED["backoff"], ids=json.dumps)
def test_a_wait_is_as_long_as_observed(seen: dict[str, Any]) -> None:
    reset = seen["rateLimitResetMs"]
    delay = calculate_backoff_delay(
        seen["attempt"],
        options(seen["options"]),
        None if reset is None else reset / 1000,
        rng=Chance(seen["random"]),
    )
    assert delay == pytest.approx(seen["delayMs"] / 1000, abs=0.001)


@given(
    st.integers(0, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 5),
    st.none() | st.floats(0, 1e9),
)
def test_no_wait_is_longer_than_the_longest_even_with_jitter(
    attempt: int, chance: float, jitter: float, reset: float | None
) -> None:
    delay = calculate_backoff_delay(
        attempt, RetryOptions(jitter_factor=jitter), reset, rng=Chance(chance)
    )
    assert 0 <= delay <= 30


@pytest.mark.parametrize("seen", OBSERVED["is_rate_limit"], ids=json.dumps)
def test_a_used_up_limit_is_known_as_observed(seen: dict[str, Any]) -> None:
    assert is_rate_limit_response(seen["status"], seen["headers"]) is seen["rateLimit"]


def test_an_ordinary_refusal_is_no_limit() -> None:
    assert not is_rate_limit_response(403, {})
    assert not is_rate_limit_response(403, {"x-ratelimit-remaining": "7"})
    assert is_rate_limit_response(403, {"x-ratelimit-remaining": "0"})


@pytest.mark.parametrize("seen", OBSERVED["rate_limit_info"], ids=json.dumps)
def test_limits_are_read_as_observed(seen: dict[str, Any]) -> None:
    expected = None if seen["info"] is None else RateLimitInfo(**seen["info"])
    assert extract_rate_limit_info(seen["headers"]) == expected


@pytest.mark.parametrize("reset", ["soon", "-1", "", "9" * 40, "999999999999999"])
def test_a_reset_that_is_no_time_is_none(reset: str) -> None:
    headers = {"x-ratelimit-limit": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
    assert extract_rate_limit_info(headers) is None


@pytest.mark.parametrize("seen", OBSERVED["github_error"], ids=json.dumps)
def test_an_error_knows_what_it_is_as_observed(seen: dict[str, Any]) -> None:
    given = seen["options"]
    error = GitHubAPIError(
        "no",
        status_code=given["statusCode"],
        is_rate_limit_error=given.get("isRateLimitError", False),
    )
    assert error.is_retryable() is seen["retryable"]
    assert error.is_not_found() is seen["notFound"]
    assert error.is_permission_denied() is seen["permissionDenied"]


def test_a_limit_is_no_lack_of_permission_and_silence_is_worth_another_try() -> None:
    assert GitHubAPIError("no", status_code=403).is_permission_denied()
    assert not GitHubAPIError(
        "no", status_code=403, is_rate_limit_error=True
    ).is_permission_denied()
    assert GitHubAPIError("no answer").is_retryable()
    assert GitHubAPIError("no", status_code=429).is_retryable()


def test_both_errors_are_those_of_a_work_source() -> None:
    assert issubclass(GitHubAPIError, TrackerError)
    assert issubclass(GitHubAuthError, WorkSourceError)
    error = GitHubAuthError("no", found_scopes=["gist"], required_scopes=["repo", "gist"])
    assert error.missing_scopes == ("repo",)
    assert error.details["missing_scopes"] == ["repo"]
    told = GitHubAPIError("no", status_code=403, rate_limit_reset=NOW)
    assert json.loads(json.dumps(dict(told.details)))["rate_limit_reset"].startswith("2026-05-01")


@pytest.mark.parametrize("seen", OBSERVED["link_next"][:3], ids=json.dumps)
def test_the_next_page_is_found_as_observed(seen: dict[str, Any]) -> None:
    found = next_link(seen["link"])
    page = None if found is None else parse_qs(urlsplit(found).query)["page"][0]
    assert page == seen["next"]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        # Observed to be taken for the last page: cursors, and commas inside the address.
        ('<https://x/issues?after=abc>; rel="next"', "https://x/issues?after=abc"),
        ('<https://x/issues?page=2&labels=a,b>; rel="next"', "https://x/issues?page=2&labels=a,b"),
        ("<https://x/2>; title=more; rel=next", "https://x/2"),
        ('<https://x/2>; rel="last next"', "https://x/2"),
        ('<https://x/2>; rel="NEXT"', "https://x/2"),
        ('<https://x/2>; rel="nextish"', None),
        ('<https://x/1>; rel="prev", <https://x/9>; rel="last"', None),
        ("", None),
        ("next", None),
    ],
)
def test_the_next_page_is_found_however_it_is_written(header: str, found: str | None) -> None:
    assert next_link(header) == found


# what an answer asks for


def answer(status: int, message: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, "https://x/", named, json.dumps({"message": message}).encode())


SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."


def used_up(reset: datetime) -> dict[str, str]:
    return {
        "x_ratelimit_limit": "5000",
        "x_ratelimit_remaining": "0",
        "x_ratelimit_reset": str(int(reset.timestamp())),
    }


@pytest.mark.parametrize(
    ("given", "limited", "wait"),
    [
        (answer(429), True, None),
        (answer(429, retry_after="7"), True, 7),
        (answer(403, **used_up(NOW + timedelta(minutes=2))), True, 120),
        (answer(403, **used_up(NOW - timedelta(minutes=2))), True, 0),
        (answer(403, retry_after="30"), True, 30),
        (answer(403, SECONDARY), True, 60),
        (answer(403, SECONDARY, retry_after="5"), True, 5),
        (
            answer(429, retry_after=format_datetime(NOW + timedelta(seconds=9), usegmt=True)),
            True,
            9,
        ),
        (answer(429, retry_after="whenever"), True, None),
        (answer(403, "Resource not accessible by integration"), False, None),
        (answer(503, retry_after="4"), False, 4),
        (answer(500), False, None),
    ],
)
def test_the_wait_that_is_asked_for_is_read(
    given: Answer, limited: bool, wait: float | None
) -> None:
    assert is_limited(given) is limited
    assert wait_asked(given, NOW) == wait


def test_a_warning_comes_once_for_each_time_the_rest_gets_small() -> None:
    heard: list[int] = []
    watch = LimitWatch(RateLimitWarningOptions(), lambda info: heard.append(info.remaining))
    for remaining in (101, 100, 99, 98, 5000, 12, 0):
        watch.see(RateLimitInfo(5000, remaining, 0))
    watch.see(None)
    assert heard == [99, 12]


def test_each_resource_is_warned_of() -> None:
    heard: list[str] = []
    watch = LimitWatch(RateLimitWarningOptions(10), lambda info: heard.append(info.resource))
    for resource in ("core", "graphql", "core"):
        watch.see(RateLimitInfo(50, 9, 0, resource))
    assert heard == ["core", "graphql"]


def test_a_callback_that_fails_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(info: RateLimitInfo) -> None:
        raise RuntimeError("deaf")

    LimitWatch(RateLimitWarningOptions(), fail).see(RateLimitInfo(5000, 1, 0))
    assert "callback" in caplog.text
