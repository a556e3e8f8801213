"""When an interval schedule is due next: counted from the end of its last run."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rota.model.intervals import parse_interval

MOST_JITTER = 10.0  # percent


def calculate_next_trigger(
    last_completed_at: datetime | None,
    interval: str | timedelta,
    jitter_percent: float = 0,
    *,
    now: datetime | None = None,
    rng: random.Random | Callable[[], float] | None = None,
) -> datetime:
    """Now, if it has never run or the time has already passed. `rng` makes the jitter repeatable:
    a generator of random numbers, or its method `random`."""
    span = parse_interval(interval) if isinstance(interval, str) else interval
    now = now or datetime.now(UTC)
    if last_completed_at is None:
        return now
    drawn = rng.random if isinstance(rng, random.Random) else rng
    return max(now, later(later(last_completed_at, span), jitter(span, jitter_percent, drawn)))


def later(moment: datetime, span: timedelta) -> datetime:
    """An interval may reach beyond Python's calendar; the result is then the calendar's end."""
    return moment + min(span, datetime.max.replace(tzinfo=moment.tzinfo) - moment)


def is_schedule_due(next_trigger: datetime, now: datetime | None = None) -> bool:
    return next_trigger <= (now or datetime.now(UTC))


def jitter(span: timedelta, percent: float, rng: Callable[[], float] | None = None) -> timedelta:
    """A random part of the span, up to `percent`, which is limited to 0 to 10."""
    percent = min(max(percent, 0.0), MOST_JITTER)
    return span * ((rng or random.random)() * percent / 100) if percent else timedelta(0)
