"""Intervals as people write them."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.errors import IntervalParseError, SchedulerError
from rota.model.intervals import UNITS, parse_interval, written

OBSERVED = json.loads((Path(__file__).parents[1] / "data" / "observed.json").read_text())


@pytest.mark.parametrize("case", OBSERVED["parse_interval"], ids=lambda case: repr(case["in"]))
def test_intervals_are_read_as_observed(case: dict[str, Any]) -> None:
    if "ok" in case:
        assert parse_interval(case["in"]) == timedelta(milliseconds=case["ok"])
        return
    with pytest.raises(IntervalParseError) as refused:
        parse_interval(case["in"])
    assert refused.value.message.startswith(case["message"])
    assert refused.value.interval == refused.value.details["interval"] == case["in"]
    assert isinstance(refused.value, SchedulerError)


@pytest.mark.parametrize("text", ["-5m", "0m", "5x", "5", "m", "1.5h", "x5m", "9999999999999d"])
def test_what_is_wrong_with_an_interval_is_said_with_the_interval_and_the_units(text: str) -> None:
    with pytest.raises(IntervalParseError) as refused:
        parse_interval(text)
    said = refused.value.message
    assert f'"{text}"' in said
    units = "s, m, h, d", "s, m, h or d", "s/m/h/d", "s (seconds), m (minutes), h (hours), d (days)"
    assert any(one in said for one in units), said


@pytest.mark.parametrize("text", ["٥m", "5\u0665m", "５m"])
def test_digits_of_other_scripts_are_no_digits(text: str) -> None:
    with pytest.raises(IntervalParseError, match="Invalid interval format"):
        parse_interval(text)


@pytest.mark.parametrize("text", ["9999999999999d", "9" * 5000 + "s", "999999999999d"])
def test_an_interval_beyond_all_calendars_is_refused(text: str) -> None:
    with pytest.raises(IntervalParseError, match="too long"):
        parse_interval(text)


def test_zeros_in_front_do_not_make_it_long() -> None:
    assert parse_interval("0" * 5000 + "5m") == timedelta(minutes=5)
    with pytest.raises(IntervalParseError, match="Zero"):
        parse_interval("0" * 5000 + "m")


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)))
def test_what_is_written_reads_the_same_again(number: int, unit: str) -> None:
    span = number * UNITS[unit]
    assert parse_interval(written(span)) == span
