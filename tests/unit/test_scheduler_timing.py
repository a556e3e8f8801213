"""When a schedule comes next, which slots it has missed, and what its policy makes of them."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.clock import to_text
from rota.model.errors import IntervalParseError
from rota.model.schedules import CatchUp, Schedule, ScheduleType
from rota.scheduler import calculate_next_trigger, is_schedule_due
from rota.scheduler.due import IMPORTED, Plan, Rhythm, latest_slot, plan, waking

OBSERVED = json.loads((Path(__file__).parents[1] / "data" / "observed.json").read_text())
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


def cron(text: str, tz: str = "UTC") -> Rhythm:
    return Rhythm(ScheduleType.CRON, cron=text, timezone=tz)


def every(span: timedelta) -> Rhythm:
    return Rhythm(ScheduleType.INTERVAL, interval=span)


# as observed


@pytest.mark.parametrize(
    "case", OBSERVED["next_trigger"], ids=lambda case: f"{case['interval']} {case['jitter']}"
)
def test_the_next_trigger_is_as_observed(case: dict[str, Any]) -> None:
    def ask() -> datetime:
        return calculate_next_trigger(
            None if case["last"] is None else datetime.fromisoformat(case["last"]),
            case["interval"],
            case["jitter"] or 0,
            now=datetime.fromisoformat(case["now"]),
            rng=None if case["random"] is None else lambda: float(case["random"]),
        )

    if "error" in case:
        with pytest.raises(IntervalParseError) as caught:
            ask()
        assert str(caught.value).startswith(case["message"])
        return
    found = ask()
    assert f"{found:%Y-%m-%dT%H:%M:%S}.{found.microsecond // 1000:03d}Z" == case["ok"]


def test_the_same_seed_gives_the_same_jitter() -> None:
    def ask(rng: random.Random) -> datetime:
        return calculate_next_trigger(NOW, "1h", 10, now=NOW, rng=rng)

    assert ask(random.Random(7)) == ask(random.Random(7)) != ask(random.Random(8))
    drawn = random.Random(7).random
    assert ask(random.Random(7)) == calculate_next_trigger(NOW, "1h", 10, now=NOW, rng=drawn)


@pytest.mark.parametrize("case", OBSERVED["is_due"], ids=lambda case: case["next"])
def test_being_due_is_as_observed(case: dict[str, Any]) -> None:
    next_trigger, now = (datetime.fromisoformat(case[name]) for name in ("next", "now"))
    assert is_schedule_due(next_trigger, now) is case["due"]


@given(st.floats(0, 1), st.floats(-5, 30), st.integers(1, 10**6))
def test_jitter_adds_at_most_a_tenth_and_takes_nothing(
    chance: float, percent: float, seconds: int
) -> None:
    span = timedelta(seconds=seconds)
    found = calculate_next_trigger(NOW, span, percent, now=NOW, rng=lambda: chance)
    assert NOW + span <= found <= NOW + span * 1.1 + SECOND


def test_without_a_clock_or_chance_of_the_callers_own_those_of_the_machine_are_used() -> None:
    before = datetime.now(UTC)
    assert before <= calculate_next_trigger(None, "5m") <= datetime.now(UTC)
    found = calculate_next_trigger(before, "1h", 10)
    assert before + HOUR <= found <= before + 1.1 * HOUR
    assert is_schedule_due(before)


# definitions


@pytest.mark.parametrize(
    ("rhythm", "text", "words"),
    [
        (every(5 * MINUTE), "interval 300000000", "every 5m"),
        (every(timedelta(microseconds=7)), "interval 7", "every 1s"),
        (cron("0 9 * * 1-5", "Europe/Berlin"), "cron Europe/Berlin 0 9 * * 1-5",
         "0 9 * * 1-5 (Europe/Berlin)"),
        (cron("@daily"), "cron UTC @daily", "@daily"),
        (Rhythm(ScheduleType.CHAT), "chat", "by chat"),
    ],
)  # fmt: skip
def test_a_definition_says_all_that_times_come_from(rhythm: Rhythm, text: str, words: str) -> None:
    assert rhythm.text == text
    assert Rhythm.read(text) == rhythm
    assert Rhythm.known(text) == rhythm
    assert rhythm.in_words == words


def test_of_what_was_imported_the_rhythm_is_not_known() -> None:
    assert Rhythm.known(IMPORTED) is None


def test_prompts_and_jitter_are_no_part_of_a_definition() -> None:
    plain = Schedule("ada", "x", ScheduleType.CRON, cron="@daily")
    rich = Schedule(
        "ada", "x", ScheduleType.CRON, cron="@daily", prompt="Go", jitter_percent=5, timeout=HOUR
    )
    assert Rhythm.of(plain) == Rhythm.of(rich)


def test_an_interval_longer_than_the_calendar_ends_with_it() -> None:
    endless = every(timedelta(days=900_000_000))
    assert to_text(endless.after(NOW)).startswith("9999-12-31")
    assert waking(endless, endless.after(NOW), NOW, 10, lambda: 1.0) == endless.after(NOW)


@pytest.mark.parametrize("jitter", [0, 10])
def test_the_next_trigger_of_such_an_interval_is_the_end_of_the_calendar(jitter: int) -> None:
    ended = datetime(2026, 5, 1, tzinfo=UTC)
    found = calculate_next_trigger(ended, "999999999d", jitter, now=ended, rng=lambda: 1.0)
    assert found == datetime.max.replace(tzinfo=UTC)


# what has been missed


@pytest.mark.parametrize(
    ("policy", "slot", "following"),
    [
        (CatchUp.ONE, NOW - 30 * MINUTE, NOW),
        (CatchUp.NONE, None, NOW),
        (CatchUp.ALL, NOW - 2 * HOUR, NOW - 90 * MINUTE),
    ],
)
def test_four_slots_passed_unseen(
    policy: CatchUp, slot: datetime | None, following: datetime
) -> None:
    begin = NOW - 2 * HOUR
    found = plan(cron("*/30 * * * *"), begin, begin, NOW - 10 * MINUTE, policy)
    assert found == Plan(slot, following, missed=policy is not CatchUp.ALL)


@pytest.mark.parametrize("policy", CatchUp)
@pytest.mark.parametrize("rhythm", [cron("*/30 * * * *"), every(30 * MINUTE)])
def test_a_slot_that_is_a_little_late_is_not_missed(rhythm: Rhythm, policy: CatchUp) -> None:
    found = plan(rhythm, NOW, NOW, NOW + 59 * SECOND, policy)
    assert (found.slot, found.missed) == (NOW, False)


def test_lateness_counts_from_the_time_that_jitter_set() -> None:
    due = NOW + 10 * MINUTE
    found = plan(cron("0 * * * *"), NOW, due, due + SECOND, CatchUp.NONE)
    assert found == Plan(NOW, NOW + HOUR)


@pytest.mark.parametrize(
    ("policy", "slot"), [(CatchUp.ONE, NOW), (CatchUp.ALL, NOW), (CatchUp.NONE, None)]
)
def test_an_interval_has_one_slot_to_miss(policy: CatchUp, slot: datetime | None) -> None:
    found = plan(every(5 * MINUTE), NOW, NOW, NOW + HOUR, policy)
    assert found == Plan(slot, NOW + HOUR + 5 * MINUTE, missed=slot is None)


def test_a_newer_slot_that_has_just_come_is_run_though_older_ones_are_not_wanted() -> None:
    begin = NOW - 2 * HOUR
    found = plan(cron("*/30 * * * *"), begin, begin, NOW + SECOND, CatchUp.NONE)
    assert found == Plan(NOW, NOW + 30 * MINUTE, missed=True)


@pytest.mark.parametrize("text", ["* * * * *", "@daily", "@monthly", "@yearly", "0 0 29 2 *"])
def test_the_latest_of_years_of_slots_is_found_without_walking_through_them(text: str) -> None:
    asked = 0

    class Counted(Rhythm):
        def after(self, moment: datetime) -> datetime:
            nonlocal asked
            asked += 1
            return super().after(moment)

    rhythm = Counted(ScheduleType.CRON, cron=text)
    begin = rhythm.after(NOW - timedelta(days=3650))
    latest, following = latest_slot(rhythm, begin, NOW)
    assert latest <= NOW < following == Rhythm.after(rhythm, latest)
    assert asked < 200


@given(st.integers(0, 5000), st.sampled_from(["*/5 * * * *", "0 */3 * * *", "0 9 * * 1-5"]))
@settings(max_examples=100, deadline=None)
def test_the_latest_slot_is_the_last_one_up_to_now(minutes: int, text: str) -> None:
    rhythm = cron(text, "Europe/Berlin")
    begin = rhythm.after(NOW - timedelta(minutes=minutes))
    if begin > NOW:
        return
    slot = begin
    while rhythm.after(slot) <= NOW:
        slot = rhythm.after(slot)
    assert latest_slot(rhythm, begin, NOW) == (slot, rhythm.after(slot))


# clocks that jump


def test_an_interval_that_begins_again_is_due_now_and_not_long_ago() -> None:
    assert every(HOUR).first(NOW - 5 * HOUR, NOW) == NOW
    assert every(HOUR).first(NOW - MINUTE, NOW) == NOW + HOUR - MINUTE


def test_an_interval_that_begins_again_does_not_wait_for_a_clock_that_was_ahead() -> None:
    assert every(HOUR).first(NOW + 5 * HOUR, NOW) == NOW + HOUR


def test_a_clock_put_back_brings_the_slots_of_its_new_time() -> None:
    rhythm = cron("0 * * * *")
    assert rhythm.rewound(NOW + 5 * HOUR, NOW) == NOW + HOUR
    assert rhythm.rewound(NOW + HOUR, NOW) == NOW + HOUR
    assert rhythm.rewound(NOW - HOUR, NOW) == NOW - HOUR, "what is due stays due"
    assert every(HOUR).rewound(NOW + 5 * HOUR, NOW) == NOW + HOUR
    assert every(HOUR).rewound(NOW + MINUTE, NOW) == NOW + MINUTE


# jitter


@given(st.floats(0, 1), st.sampled_from(["0,1 9 * * *", "* * * * *", "0 0 1 * *"]))
@settings(max_examples=50, deadline=None)
def test_jitter_never_reaches_the_slot_behind(chance: float, text: str) -> None:
    rhythm = cron(text)
    slot = rhythm.after(NOW)
    at = waking(rhythm, slot, NOW, 10, lambda: chance)
    assert slot <= at < rhythm.after(slot)


def test_what_is_due_already_is_not_delayed_further() -> None:
    assert waking(cron("0 * * * *"), NOW - HOUR, NOW, 10, lambda: 1.0) == NOW
