"""Quiet hours are of the clock on the wall, also on the nights when somebody changes it."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.config.notify import QuietHours
from rota.notify.quiet import quiet_until

NIGHT = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"}


def hours(**changes: object) -> QuietHours:
    return QuietHours.model_validate({**NIGHT, **changes})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-05-01T21:59:59+02:00", None),
        ("2026-05-01T22:00:00+02:00", "2026-05-02T07:00:00+02:00"),
        ("2026-05-02T00:30:00+02:00", "2026-05-02T07:00:00+02:00"),
        ("2026-05-02T07:00:00+02:00", None),
        ("2026-03-28T23:00:00+01:00", "2026-03-29T07:00:00+02:00"),  # an hour is left out
        ("2026-10-24T23:00:00+02:00", "2026-10-25T07:00:00+01:00"),  # an hour comes twice
    ],
)
def test_quiet_ends_at_the_time_of_the_place(now: str, end: str | None) -> None:
    assert quiet_until(hours(), at(now)) == (at(end) if end else None)


def test_hours_within_a_day_do_not_reach_over_midnight() -> None:
    noon = hours(**{"from": "12:00", "to": "13:30", "timezone": "UTC"})
    assert quiet_until(noon, at("2026-05-01T13:29:00Z")) == at("2026-05-01T13:30:00Z")
    assert quiet_until(noon, at("2026-05-01T13:30:00Z")) is None
    assert quiet_until(noon, at("2026-05-01T00:00:00Z")) is None


def test_quiet_that_ends_in_the_hour_that_comes_twice_is_not_broken_by_it() -> None:
    """02:30 comes at 00:30 and at 01:30 UTC: once quiet, and over once."""
    short = hours(to="02:30")
    told = [quiet_until(short, at(f"2026-10-25T0{h}:{m}:00Z")) for h in (0, 1) for m in (15, 45)]
    assert told == [at("2026-10-25T01:30:00Z")] * 3 + [None]


def test_quiet_that_ends_in_the_hour_that_is_left_out_ends_behind_it() -> None:
    assert quiet_until(hours(to="02:30"), at("2026-03-29T00:30:00Z")) == at("2026-03-29T01:30:00Z")


def test_whatever_the_moment_the_end_lies_ahead_and_within_a_day() -> None:
    moment = at("2026-03-27T00:00:00Z")
    for _ in range(4 * 24 * 4):
        end = quiet_until(hours(), moment)
        assert end is None or timedelta() < end - moment <= timedelta(hours=10)
        moment += timedelta(minutes=15)


def test_without_hours_it_is_never_quiet() -> None:
    assert quiet_until(None, at("2026-05-01T23:00:00Z")) is None
