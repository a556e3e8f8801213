"""Figures over a window of time: how much was done, how long it took, what it cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.model.clock import to_text
from rota.model.errors import InvalidInput
from rota.model.runs import Spent
from rota.model.status import Status

HOURS = 24
_DAYS = {"7d": 7, "30d": 30}


class Window(StrEnum):
    """The period that is counted: the last 24 hours, or the last days of the viewer's calendar. The
    current hour or day is included."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def step(self) -> str:
        return "hour" if self is Window.DAY else "day"


def read_window(text: str) -> Window:
    try:
        return Window(text)
    except ValueError:
        raise InvalidInput(
            f"window: {text[:40]!r} is not known; there are {', '.join(Window)}",
            field="window",
            allowed=[str(one) for one in Window],
        ) from None


def read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"zone: {name[:64]!r} is not known; write Europe/Berlin, for example", field="zone"
        ) from None


@dataclass(frozen=True, slots=True)
class Bucket:
    begins: str
    ends: str  # not part of it


def buckets(window: Window, now: datetime, zone: ZoneInfo) -> tuple[Bucket, ...]:
    """Oldest first. A day goes from midnight to midnight in the zone: 23, 24 or 25 hours."""
    here = now.astimezone(zone)
    if window is Window.DAY:
        hour = here.replace(minute=0, second=0, microsecond=0).astimezone(UTC)
        edges = [hour + timedelta(hours=n) for n in range(1 - HOURS, 2)]
    else:
        days = range(1 - _DAYS[window], 2)
        edges = [_midnight(here.date() + timedelta(days=n), zone) for n in days]
    return tuple(Bucket(to_text(begins), to_text(ends)) for begins, ends in pairwise(edges))


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the 90th percentile, in seconds."""

    measured: int = 0
    p50: float | None = None
    p90: float | None = None


def spread(measured: Iterable[tuple[float, float]]) -> Spread:
    """Of values, each with the number of items it stands for. The result is always a measured
    value, never an interpolation."""
    ordered = sorted(measured)
    if not ordered:
        return Spread()
    return Spread(len(ordered), _reached(ordered, 0.5), _reached(ordered, 0.9))


def _reached(ordered: list[tuple[float, float]], share: float) -> float:
    left = share * sum(weight for _, weight in ordered) - 1e-9
    for value, weight in ordered:
        left -= weight
        if left <= 0:
            return value
    return ordered[-1][0]


@dataclass(frozen=True, slots=True)
class Period:
    """What happened in one bucket. Items count by their current status: an item that failed and was
    retried has not ended."""

    begins: str
    ends: str
    created: int
    completed: int
    failed: int
    cancelled: int
    open: int  # at its end; in the current bucket: now
    lead_time: Spread  # of completed items, from creation to completion
    spent: Spent  # by the runs that started in it


@dataclass(frozen=True, slots=True)
class Statistics:
    window: Window
    zone: str
    now: str
    periods: tuple[Period, ...]
    standing: Mapping[Status, int]  # how many are open now, by status
    lead_time: Spread
    time_in_status: Mapping[Status, Spread]  # of the items that ended last
    failures: tuple[tuple[str, int], ...]  # reasons, most frequent first
    runs: Mapping[str, int]  # by status
    spent: Spent = field(default_factory=Spent)
    # Set if these figures are cached: after this many seconds they are computed again.
    again_in: float | None = None

    @property
    def open(self) -> int:
        return sum(self.standing.values())

    @property
    def created(self) -> int:
        return sum(period.created for period in self.periods)

    @property
    def completed(self) -> int:
        return sum(period.completed for period in self.periods)

    @property
    def failed(self) -> int:
        return sum(period.failed for period in self.periods)

    @property
    def cancelled(self) -> int:
        return sum(period.cancelled for period in self.periods)
