"""What may be spent: limits, days and backoff."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.fleet import Limits
from rota.model.runs import Spent
from rota.runner.budget import backoff, day_began, exceeded, next_day, tighter

SPENT = Spent(runs=3, seconds=90.0, tokens=1000, cost_usd=1.5)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(), None),
        (Limits(runs=4), None),
        (Limits(runs=3), "3 of 3 runs"),
        (Limits(runs=0), "3 of 0 runs"),
        (Limits(wall_time=timedelta(seconds=91)), None),
        (Limits(wall_time=timedelta(seconds=90)), "90 of 90 seconds"),
        (Limits(tokens=1001), None),
        (Limits(tokens=1000), "1000 of 1000 tokens"),
        (Limits(usd=1.51), None),
        (Limits(usd=1.5), "1.50 of 1.50 USD"),
        (Limits(runs=9, usd=1.0), "1.50 of 1.00 USD"),
    ],
)
def test_a_limit_that_is_reached_leaves_no_room_for_another_run(
    limits: Limits, words: str | None
) -> None:
    assert exceeded(limits, SPENT) == words


def test_a_limit_of_nothing_lets_nothing_run() -> None:
    assert exceeded(Limits(runs=0), Spent()) == "0 of 0 runs"
    assert exceeded(Limits(usd=0.0), Spent()) == "0.00 of 0.00 USD"


@pytest.mark.parametrize(
    ("now", "zone", "began", "ends"),
    [
        ("2026-05-01T12:00Z", "UTC", "2026-05-01T00:00Z", "2026-05-02T00:00Z"),
        ("2026-05-01T00:00Z", "UTC", "2026-05-01T00:00Z", "2026-05-02T00:00Z"),
        ("2026-05-01T22:30Z", "Europe/Berlin", "2026-05-01T22:00Z", "2026-05-02T22:00Z"),
        ("2026-05-01T03:00Z", "America/New_York", "2026-04-30T04:00Z", "2026-05-01T04:00Z"),
        # Days of 23 and of 25 hours.
        ("2026-03-29T12:00Z", "Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("2026-10-25T12:00Z", "Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        # A day that has midnight twice, seen from behind the second (since 2026, newer time zone
        # data has no such day there); and one that has none.
        ("2024-11-03T05:30Z", "America/Havana", "2024-11-03T04:00Z", "2024-11-04T05:00Z"),
        ("2026-03-28T12:00Z", "Asia/Beirut", "2026-03-27T22:00Z", "2026-03-28T22:00Z"),
    ],
)
def test_a_day_lasts_from_midnight_to_midnight_where_the_budget_lives(
    now: str, zone: str, began: str, ends: str
) -> None:
    moment = datetime.fromisoformat(now)
    # In UTC: a time that comes twice, or not at all, equals none of another zone.
    assert day_began(moment, zone).astimezone(UTC) == datetime.fromisoformat(began)
    assert next_day(moment, zone).astimezone(UTC) == datetime.fromisoformat(ends)


def test_backoff_doubles_and_stops_at_the_longest() -> None:
    first, longest = timedelta(minutes=1), timedelta(minutes=5)
    pauses = [backoff(first, longest, attempt) for attempt in (0, 1, 2, 3, 4, 5000)]
    minutes = [pause / timedelta(minutes=1) for pause in pauses]
    assert minutes == [1, 1, 2, 4, 5, 5]


def test_backoff_is_never_longer_than_the_longest_even_at_first() -> None:
    assert backoff(timedelta(hours=2), timedelta(hours=1), 1) == timedelta(hours=1)


def test_of_two_limits_the_tighter_holds() -> None:
    one = Limits(runs=3, tokens=100, usd=None, wall_time=timedelta(hours=1))
    other = Limits(runs=5, tokens=50, usd=1.0)
    both = Limits(runs=3, tokens=50, usd=1.0, wall_time=timedelta(hours=1))
    assert tighter(one, other) == tighter(other, one) == both
    assert tighter(Limits(), Limits()) == Limits()
    assert tighter(Limits(usd=0.0), Limits(usd=1.0)).usd == 0.0


def test_days_are_the_same_whatever_zone_the_clock_is_in() -> None:
    here = datetime(2026, 5, 1, 12, tzinfo=UTC)
    there = here.astimezone(tz=None)
    assert day_began(here, "Asia/Tokyo") == day_began(there, "Asia/Tokyo")
