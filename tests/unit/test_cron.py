"""Cron expressions: what is understood, what is refused and how, and every strike of the clock."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.config.cron import SHORTHANDS, next_cron_trigger, parse_cron, time_zone
from rota.model.errors import CronParseError, InvalidInput, SchedulerError

OBSERVED = json.loads((Path(__file__).parents[1] / "data" / "observed.json").read_text())
# The other tool refuses these rightly, and blames the month.
NEVER = [one["in"] for one in OBSERVED["cron_parse"] if "message_defect" in one]
PARSED = [one for one in OBSERVED["cron_parse"] if "message_defect" not in one]


@pytest.mark.parametrize("case", PARSED, ids=lambda case: repr(case["in"]))
def test_expressions_are_read_as_observed(case: dict[str, Any]) -> None:
    if case["valid"]:
        found = parse_cron(case["in"])
        expected = case["ok"]
        assert (found.expression, found.is_shorthand) == (
            expected["expression"].strip(),
            expected["isShorthand"],
        )
        return
    with pytest.raises(CronParseError) as caught:
        parse_cron(case["in"])
    assert str(caught.value) == case["message"]
    assert caught.value.expression == case["in"]
    assert caught.value.field == case.get("field")
    assert caught.value.example == case.get("example")
    assert isinstance(caught.value, SchedulerError)


@pytest.mark.parametrize("expression", [*NEVER, "0 0 31 2,4,6 *", "* * 30 2 */2"])
def test_what_can_never_strike_is_refused_and_the_day_is_named(expression: str) -> None:
    with pytest.raises(CronParseError, match="no such day") as caught:
        parse_cron(expression)
    assert caught.value.field == "day-of-month"


@pytest.mark.parametrize(
    "expression",
    [
        "9" * 5_000 + " * * * *", "*/" + "9" * 5_000 + " * * * *", "*/0 * * * *", "1-5-7 * * * *",
        "0 0 L-3 * *", "ſun * * * *", "0 0 * * L", "* * * * fri-sun", "0 0 1 1 1#6", "a\x00b",
        "0 0 * * MON#", "٣ * * * *", "* * * * *\u2003*", "@", "@every 5m", "* " * 400,
        "0 0 * JAN-FOO *", "1/ * * * *", "/5 * * * *", "#1 * * * *", "0 0 1#1 * *",
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_few_words(expression: str) -> None:
    with pytest.raises(CronParseError) as caught:
        parse_cron(expression)
    assert len(str(caught.value)) < 500


@given(st.text(alphabet="0123456789*/,-#LWJANSUMON @?", max_size=30))
@settings(max_examples=500, deadline=None)
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        parse_cron(text)
    except CronParseError:
        return
    later = next_cron_trigger(text, datetime(2026, 5, 1, tzinfo=UTC))
    assert later > datetime(2026, 5, 1, tzinfo=UTC)


def test_the_shorthands_are_those_of_the_documentation() -> None:
    assert SHORTHANDS == {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
    }


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def strikes(expression: str, after: str, tz: str, count: int) -> list[str]:
    found, now = [], moment(after)
    for _ in range(count):
        now = next_cron_trigger(expression, now, tz)
        found.append(f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z")
    return found


@pytest.mark.parametrize(
    "case", OBSERVED["cron_next"], ids=lambda case: f"{case['expression']} {case['tz']}"
)
def test_next_times_are_as_observed(case: dict[str, Any]) -> None:
    expected = case["ok"]
    assert strikes(case["expression"], case["from"], case["tz"], len(expected)) == expected


def local(expression: str, after: str, tz: str, count: int) -> list[str]:
    """Strikes as the wall clock shows them, with the offset."""
    zone = ZoneInfo(tz)
    times = strikes(expression, after, tz, count)
    return [f"{moment(one).astimezone(zone):%m-%d %H:%M %z}" for one in times]


# In the order: expression, zone, where to begin, what the wall clock shows.
CLOCK_CHANGES: dict[str, tuple[str, str, str, list[str]]] = {
    "a fixed time in the gap strikes right after it, once": (
        "30 2 * * *", "America/New_York", "2024-03-09T12:00Z",
        ["03-10 03:00 -0400", "03-11 02:30 -0400"],
    ),
    "several in the gap strike once together": (
        "0,15,30,45 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
        ["03-29 03:00 +0200", "03-30 02:00 +0200"],
    ),
    "one in the gap and one at its end are one": (
        "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z",
        ["03-29 03:00 +0200", "03-30 02:00 +0200", "03-30 03:00 +0200"],
    ),
    "a repeated fixed time strikes the first time only": (
        "30 1 * * *", "America/New_York", "2024-11-02T12:00Z",
        ["11-03 01:30 -0400", "11-04 01:30 -0500"],
    ),
    "also when asked between the two": (
        "30 1 * * *", "America/New_York", "2024-11-03T06:15Z", ["11-04 01:30 -0500"],
    ),
    "a wildcard follows real time through the gap": (
        "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15Z",
        ["03-29 01:30 +0100", "03-29 03:00 +0200", "03-29 03:30 +0200"],
    ),
    "a wildcard follows real time through the repeated hour": (
        "30 * * * *", "Europe/Berlin", "2026-10-24T23:45Z",
        ["10-25 02:30 +0200", "10-25 02:30 +0100", "10-25 03:30 +0100"],
    ),
    "a wildcard in an hour that does not come skips the day": (
        "* 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", ["03-30 02:00 +0200"],
    ),
    "a gap of half an hour": (
        "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z",
        ["10-04 02:30 +1100", "10-05 02:15 +1100"],
    ),
    "full hours around a gap of half an hour": (
        "0 */2 * * *", "Australia/Lord_Howe", "2026-10-03T13:00Z",
        ["10-04 00:00 +1030", "10-04 04:00 +1100", "10-04 06:00 +1100"],
    ),
    "half an hour that comes twice": (
        "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z",
        ["04-05 01:45 +1100", "04-06 01:45 +1030"],
    ),
    "every quarter of half an hour that comes twice": (
        "*/15 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:10Z",
        ["04-05 01:15 +1100", "04-05 01:30 +1100", "04-05 01:45 +1100", "04-05 01:30 +1030",
         "04-05 01:45 +1030", "04-06 01:00 +1030"],
    ),
    "full hours around half an hour that comes twice": (
        "0 */2 * * *", "Australia/Lord_Howe", "2026-04-04T13:30Z",
        ["04-05 02:00 +1030", "04-05 04:00 +1030"],
    ),
    "where winter is the exception: the gap": (
        "30 1 * * *", "Europe/Dublin", "2026-03-28T12:00Z",
        ["03-29 02:00 +0100", "03-30 01:30 +0100"],
    ),
    "where winter is the exception: twice": (
        "30 1 * * *", "Europe/Dublin", "2026-10-24T12:00Z",
        ["10-25 01:30 +0100", "10-26 01:30 +0000"],
    ),
    "a day that was skipped": (
        "0 9 * * *", "Pacific/Apia", "2011-12-29T12:00Z",
        ["12-29 09:00 -1000", "12-31 00:00 +1400", "12-31 09:00 +1400"],
    ),
    "a wildcard on a day that was skipped": (
        "0 * 30 * *", "Pacific/Apia", "2011-12-29T12:00Z", ["01-30 00:00 +1400"],
    ),
    "summer time that pauses for Ramadan": (
        "30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00Z",
        ["02-15 02:30 +0100", "02-16 02:30 +0000"],
    ),
    "and comes back after it": (
        "30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00Z",
        ["03-22 03:00 +0100", "03-23 02:30 +0100"],
    ),
    "midnight that does not come": (
        "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00Z",
        ["04-24 01:00 +0300", "04-25 00:00 +0300"],
    ),
    # Of a year that is over: newer time zone data has another rule for 2026.
    "midnight at a clock put back over it": (
        "30 0 * * *", "America/Havana", "2024-11-02T12:00Z",
        ["11-03 00:30 -0400", "11-04 00:30 -0500"],
    ),
    "every half hour around a clock put back over midnight": (
        "*/30 0 * * *", "America/Havana", "2024-11-03T03:50Z",
        ["11-03 00:00 -0400", "11-03 00:30 -0400", "11-03 00:00 -0500", "11-03 00:30 -0500",
         "11-04 00:00 -0500"],
    ),
    "an old zone that was put back a minute after midnight": (
        "0 23 * * *", "America/St_Johns", "2010-11-06T12:00Z",
        ["11-06 23:00 -0230", "11-07 23:00 -0330"],
    ),
    "the last day of February": (
        "0 12 L 2 *", "UTC", "2026-01-01T00:00Z", ["02-28 12:00 +0000", "02-28 12:00 +0000"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CLOCK_CHANGES)
def test_when_the_clock_is_changed(case: str) -> None:
    expression, tz, after, expected = CLOCK_CHANGES[case]
    assert local(expression, after, tz, len(expected)) == expected


ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Europe/Dublin",
    "Africa/Casablanca", "Pacific/Apia", "Asia/Kolkata", "America/Havana", "Africa/Cairo",
    "Asia/Gaza", "America/Santiago", "Pacific/Chatham", "Asia/Tehran", "Antarctica/Troll",
)  # fmt: skip


def every_minute(expression: str, begin: datetime, minutes: int, zone: ZoneInfo) -> list[datetime]:
    """The slow and certain way, for expressions that follow real time."""
    rule = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001
    found = []
    for n in range(1, minutes + 1):
        at = begin + timedelta(minutes=n)
        here = at.astimezone(zone)
        if here.minute in rule.minutes and here.hour in rule.hours and here.month in rule.months:
            found += [at] if rule.match_day(here.date()) else []
    return found


@given(
    st.sampled_from(["*", "*/7", "*/30", "*/45"]),
    st.sampled_from(["*", "*/2", "*/3", "1", "2", "0,23", "1-3"]),
    st.sampled_from(["*", "*", "1-15", "L"]),
    st.sampled_from(ZONES),
    st.integers(0, 365 * 18),
)
@settings(max_examples=60, deadline=None)
def test_wildcards_strike_in_every_minute_that_matches(
    minute: str, hour: str, day: str, tz: str, days: int
) -> None:
    begin = datetime(2011, 1, 1, tzinfo=UTC) + timedelta(days=days)
    expression = f"{minute} {hour} {day} * *"
    expected = every_minute(expression, begin, 2 * 1440, ZoneInfo(tz))
    now, found = begin, []
    while (now := next_cron_trigger(expression, now, tz)) <= begin + timedelta(days=2):
        found.append(now)
    assert found == expected


@given(st.integers(0, 59), st.integers(0, 23), st.sampled_from(ZONES), st.integers(0, 365 * 18))
@settings(max_examples=150, deadline=None)
def test_a_fixed_time_strikes_once_a_day_in_every_zone(
    minute: int, hour: int, tz: str, days: int
) -> None:
    begin = datetime(2012, 6, 1, tzinfo=UTC) + timedelta(days=days)
    zone, now = ZoneInfo(tz), begin
    found = [now := next_cron_trigger(f"{minute} {hour} * * *", now, tz) for _ in range(5)]
    assert found == sorted(set(found))
    for strike in found:
        here = strike.astimezone(zone)
        if (here.hour, here.minute) != (hour, minute):  # right after a gap
            before = (strike - timedelta(minutes=1)).astimezone(zone)
            assert before.utcoffset() != here.utcoffset()
    gaps = [b - a for a, b in pairwise(found)]
    assert all(timedelta(hours=8) <= gap <= timedelta(hours=50) for gap in gaps)


def test_asking_within_a_minute_or_a_second_gives_the_next_full_minute() -> None:
    after = datetime(2026, 5, 1, 12, 0, 59, 999_999, tzinfo=UTC)
    assert next_cron_trigger("* * * * *", after) == datetime(2026, 5, 1, 12, 1, tzinfo=UTC)
    assert next_cron_trigger("0 12 * * *", after) == datetime(2026, 5, 2, 12, tzinfo=UTC)


def test_leap_days_on_a_weekday_are_found_across_a_century_without_one() -> None:
    after = datetime(2088, 3, 1, tzinfo=UTC)
    found = next_cron_trigger("0 0 29 2 */7", after)
    assert (found.year, found.month, found.day, found.weekday()) == (2128, 2, 29, 6)


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../../etc/passwd", "America", "a\x00b", "x" * 999]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        next_cron_trigger("0 9 * * *", datetime(2026, 5, 1, tzinfo=UTC), name)


def test_a_misspelt_zone_is_told_the_right_one() -> None:
    with pytest.raises(InvalidInput, match='did you mean "Europe/Berlin"'):
        time_zone("Europe/Berln")
