"""Reading when a quota is filled again from the words of those who ran out of it."""

from datetime import UTC, datetime

import pytest

from rota.runner.runtimes.quota import Refusal, refusal

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def at(month: int, day: int, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "until"),
    [
        ("Claude AI usage limit reached|1777662000", at(5, 1, 19)),
        ("Claude AI usage limit reached|1777662000000", at(5, 1, 19)),
        ("Claude usage limit reached. Your limit will reset at 3pm (Europe/Berlin).", at(5, 1, 13)),
        ("Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).", at(5, 1, 18)),
        ("You've hit your limit · resets 4:50am (Europe/Rome)", at(5, 2, 2, 50)),
        ("You’ve hit your session limit · resets 12:50am (America/Los_Angeles)", at(5, 2, 7, 50)),
        ("5-hour limit reached ∙ resets 3pm (UTC)", at(5, 1, 15)),
        ("weekly limit reached ∙ resets May 4, 9am (UTC)", at(5, 4, 9)),
        ("weekly limit reached ∙ resets May 4 at 9am (UTC)", at(5, 4, 9)),
        (
            "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or"
            " try again in 2 days 17 hours 14 minutes.",
            at(5, 4, 5, 14),
        ),
        ('429 {"error":{"type":"usage_limit_reached","resets_at":1777662000}}', at(5, 1, 19)),
        ('{"type":"usage_limit_reached","resets_in_seconds":90}', at(5, 1, 12, 1, 30)),
        ("exhausted your capacity. Your quota will reset after 2h15m30s.", at(5, 1, 14, 15, 30)),
        (
            "You've hit your usage limit. Try again at May 3rd, 2026 12:55 AM (UTC).",
            at(5, 3, 0, 55),
        ),
    ],
)
def test_a_reset_that_is_told_is_read(said: str, until: datetime) -> None:
    assert refusal(said, NOW) == Refusal(until)


@pytest.mark.parametrize(
    "said",
    [
        "You've hit your usage limit.",
        "usage limit reached|1",
        "usage limit reached|9999999999",
        "usage limit reached|1700000000",
        "limit reached? usage limit reached, resets 25pm (UTC)",
        "usage limit reached, resets 3pm (Not/AZone)",
        "usage limit reached, we try again 3 times",
        "usage limit reached, resets Feb 31, 9am (UTC)",
        '429 {"type":"error","error":{"type":"rate_limit_error"}}',
        "RESOURCE_EXHAUSTED",
    ],
)
def test_a_reset_that_makes_no_sense_is_none(said: str) -> None:
    assert refusal(said, NOW) == Refusal(None)


@pytest.mark.parametrize("said", ["", "it failed", "the limit of the list is 429", "reset at 3pm"])
def test_other_failures_are_no_refusals(said: str) -> None:
    assert refusal(said, NOW) is None


def test_only_the_last_words_count() -> None:
    assert refusal("usage limit reached" + " " * 10_000 + "then it went on", NOW) is None
