"""Budgets: pure rules over what was spent already."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

from rota.model.clock import to_text
from rota.model.fleet import Budget, Limits
from rota.model.runs import Spent, Tally


def exceeded(limits: Limits, spent: Spent) -> str | None:
    """The limit that has been reached, in words; None while there is room for another run."""
    seconds = limits.wall_time.total_seconds() if limits.wall_time is not None else None
    for limit, used, words in (
        (limits.runs, spent.runs, f"{spent.runs} of {limits.runs} runs"),
        (seconds, spent.seconds, f"{spent.seconds:.0f} of {seconds or 0:.0f} seconds"),
        (limits.tokens, spent.tokens, f"{spent.tokens} of {limits.tokens} tokens"),
        (limits.usd, spent.cost_usd, f"{spent.cost_usd:.2f} of {limits.usd or 0:.2f} USD"),
    ):
        if limit is not None and used >= limit:
            return words
    return None


def spent_by(tallies: Iterable[Tally]) -> Spent:
    found = list(tallies)
    return Spent(
        sum(one.runs for one in found),
        sum(one.seconds for one in found),
        sum(one.tokens for one in found),
        sum(one.cost_usd or 0.0 for one in found),
    )


def used_up(
    budget: Budget, now: datetime, spent: Callable[[str, str | None], Spent], agent: str | None
) -> str | None:
    """That the budget of the day is used up, and until when; None while it is not. `agent` is the
    owner of the budget, None for that of the fleet. `spent` is given a start time and that
    agent."""
    if not budget.per_day.any:
        return None
    words = exceeded(budget.per_day, spent(to_text(day_began(now, budget.timezone)), agent))
    if words is None:
        return None
    whose = "the fleet's" if agent is None else f"{agent}'s"
    until = to_text(next_day(now, budget.timezone))
    return f"{whose} budget of the day is used: {words}; until {until}"


def day_began(now: datetime, zone: str) -> datetime:
    """The last midnight in that zone."""
    local = now.astimezone(ZoneInfo(zone))
    return local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def next_day(now: datetime, zone: str) -> datetime:
    """The next midnight there: by the clock on the wall, however long the day is."""
    return day_began(now, zone) + timedelta(days=1)


def backoff(first: timedelta, longest: timedelta, attempt: int) -> timedelta:
    """Doubles at each attempt, up to `longest`."""
    seconds = first.total_seconds() * 2.0 ** min(max(attempt - 1, 0), 40)
    return min(timedelta(seconds=min(seconds, longest.total_seconds())), longest)


def tighter(one: Limits, other: Limits) -> Limits:
    """Limits that satisfy both."""
    return Limits(
        _least(one.runs, other.runs),
        _least(one.wall_time, other.wall_time),
        _least(one.tokens, other.tokens),
        _least(one.usd, other.usd),
    )


_L = TypeVar("_L", int, float, timedelta)


def _least(one: _L | None, other: _L | None) -> _L | None:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given) if given else None
