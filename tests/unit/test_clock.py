"""Times as text, ids in order, and a clock that steps back."""

import re
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.clock import (
    DistantClock,
    IdFactory,
    elapsed,
    first_id,
    from_text,
    in_zone,
    later,
    parse_time,
    to_text,
)
from rota.model.errors import InvalidInput
from rota.testing.clock import ManualClock

moments = st.datetimes(timezones=st.just(UTC))


@given(moments, moments)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (to_text(one) < to_text(other)) == (one < other)
    assert len(to_text(one)) == 27
    assert from_text(to_text(one)) == one


def test_a_time_is_written_in_utc() -> None:
    there = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert to_text(there) == "2026-05-01T12:00:00.000000Z"


EDGES = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]


@given(st.one_of(moments, st.sampled_from(EDGES)))
@pytest.mark.parametrize("hours", [-12, 0, 14, None])
def test_any_time_can_be_told_in_any_zone(hours: int | None, moment: datetime) -> None:
    zone = None if hours is None else timezone(timedelta(hours=hours))
    assert in_zone(moment, zone) == moment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01T19:42:33Z", "2026-05-01T19:42:33.000000Z"),
        ("2026-05-01T19:42:33.5+02:00", "2026-05-01T17:42:33.500000Z"),
        ("2026-05-01", "2026-05-01T00:00:00.000000Z"),
        ("0001-01-01", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_a_time_is_read_as_people_write_it(text: str, expected: str) -> None:
    assert to_text(parse_time(text, "since")) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-02-30", "0001-01-01T00:00+23:00", "9999-12-31T23:59-23:00", "\x00"]
)
def test_what_is_no_time_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_time(text, "since")
    assert refused.value.details["field"] == "since"


def test_a_time_beyond_all_times_is_refused() -> None:
    with pytest.raises(InvalidInput):
        later(datetime(2026, 5, 1, tzinfo=UTC), 1e15, "lease_seconds")


UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_ids_are_uuids_that_ascend_whatever_the_clock_does() -> None:
    clock = ManualClock()
    factory = IdFactory(clock)
    ids = []
    for step in (0, 0.0001, 1, -3600, 0, 7200, -1):
        clock.advance(step)
        ids += [factory.new() for _ in range(2_000)]
        ids += factory.several(3_000)
    assert all(UUID7.fullmatch(one) for one in ids)
    assert ids == sorted(set(ids))


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_an_id_is_never_before_the_first_of_its_time(moment: datetime) -> None:
    clock = ManualClock(moment)
    made = IdFactory(clock).new()
    assert made >= first_id(to_text(moment))
    assert made < first_id(to_text(moment + timedelta(milliseconds=1)))


@given(moments)
def test_the_first_id_of_any_time_can_be_compared(moment: datetime) -> None:
    if moment.year < 1970:
        assert first_id(to_text(moment)) < IdFactory(ManualClock()).new()


def test_tokens_do_not_repeat_and_need_no_quoting() -> None:
    factory = IdFactory(ManualClock())
    tokens = {factory.token() for _ in range(1_000)} | set(factory.tokens(1_000))
    assert len(tokens) == 2_000
    assert all(re.fullmatch(r"[\w-]{22}", token) for token in tokens)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_a_deadline_comes_nearer_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder that was asleep must not believe that it still has its claim."""
    seconds = dict.fromkeys((time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC), 100.0)
    with monkeypatch.context() as patched:
        patched.setattr(time, "clock_gettime", seconds.__getitem__)
        before = elapsed()
        seconds[time.CLOCK_BOOTTIME] += 3600  # the lid was closed
        assert elapsed() - before == 3600


class Steady:
    """What `elapsed` tells."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def heard(clock: DistantClock, steady: Steady, there: datetime, took: float = 0.0) -> None:
    """The other clock shows `there` half-way between a question and its answer."""
    asked_at = steady.seconds
    steady.seconds += took
    clock.hear(there, asked_at, steady.seconds)


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_distant_clock_goes_on_from_what_it_was_told() -> None:
    clock = DistantClock(steady := Steady())
    heard(clock, steady, NOON)
    steady.seconds += 90
    assert clock.now() == NOON + timedelta(seconds=90)


def test_before_the_first_answer_it_is_the_time_here() -> None:
    before = datetime.now(UTC)
    assert before <= DistantClock().now() <= datetime.now(UTC)


def test_half_of_the_way_of_an_answer_has_passed_when_it_arrives() -> None:
    clock = DistantClock(steady := Steady())
    heard(clock, steady, NOON, took=4.0)
    assert clock.now() == NOON + timedelta(seconds=2)


def test_a_slow_answer_does_not_change_what_a_quick_one_has_told() -> None:
    clock = DistantClock(steady := Steady())
    heard(clock, steady, NOON)
    heard(clock, steady, NOON, took=3.0)  # the way back was long
    assert clock.now() == NOON + timedelta(seconds=3)
    heard(clock, steady, NOON + timedelta(seconds=9), took=6.0)  # the way there was long
    assert clock.now() == NOON + timedelta(seconds=9)


@pytest.mark.parametrize("by", [timedelta(days=1), -timedelta(hours=2), timedelta(seconds=0.1)])
def test_a_distant_clock_that_is_set_is_followed(by: timedelta) -> None:
    clock = DistantClock(steady := Steady())
    heard(clock, steady, NOON)
    steady.seconds += 10
    heard(clock, steady, NOON + timedelta(seconds=10) + by)
    assert clock.now() == NOON + timedelta(seconds=10) + by


def test_it_knows_how_long_ago_it_was_told() -> None:
    clock = DistantClock(steady := Steady())
    heard(clock, steady, NOON)
    steady.seconds += 5
    heard(clock, steady, NOON + timedelta(seconds=5))
    steady.seconds += 7
    assert clock.age == 7
