"""How much of a budget of the day is used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import to_text
from rota.model.fleet import Budget
from rota.model.runs import Spent, Tally
from rota.runner.budget import exceeded, next_day, spent_by


@dataclass(frozen=True, slots=True)
class Bar:
    what: str
    used: float
    limit: float
    words: str

    @property
    def full(self) -> bool:
        return self.used >= self.limit


@dataclass(frozen=True, slots=True)
class Spending:
    """What a budget of the day allows, and what is spent of it."""

    bars: tuple[Bar, ...] = ()
    used_up: bool = False
    again: str | None = None  # when the next day begins
    timezone: str = "UTC"


def spending(budget: Budget, tallies: Sequence[Tally], now: datetime) -> Spending:
    """`tallies` cover the runs since the budget's own midnight."""
    if not budget.per_day.any:
        return Spending()
    spent = spent_by(tallies)
    again = to_text(next_day(now, budget.timezone))
    used_up = exceeded(budget.per_day, spent) is not None
    return Spending(tuple(_bars(budget, spent)), used_up, again, budget.timezone)


def _bars(budget: Budget, spent: Spent) -> Iterable[Bar]:
    limits = budget.per_day
    if limits.usd is not None:
        words = f"{money(spent.cost_usd)} of {money(limits.usd)}"
        yield Bar("cost", spent.cost_usd, limits.usd, words)
    if limits.runs is not None:
        yield Bar("runs", spent.runs, limits.runs, f"{spent.runs:,} of {limits.runs:,} runs")
    if limits.tokens is not None:
        words = f"{spent.tokens:,} of {limits.tokens:,} tokens"
        yield Bar("tokens", spent.tokens, limits.tokens, words)
    if limits.wall_time is not None:
        most = limits.wall_time.total_seconds()
        yield Bar("time", spent.seconds, most, f"{_clock(spent.seconds)} of {_clock(most)} h")


def money(dollars: float) -> str:
    """To the cent; with more digits below one cent, so that it does not look like nothing."""
    return f"${dollars:,.4f}" if 0 < dollars < 0.01 else f"${dollars:,.2f}"


def _clock(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}"
