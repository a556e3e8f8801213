"""How a schedule's triggers ended, and when it triggers next: a day with now in its middle.

Positions are in percent of the width, so that the drawing fits a phone and its text keeps its size.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from rota.dashboard.rules import in_words
from rota.model.clock import from_text
from rota.model.runs import RunStatus
from rota.model.schedules import ScheduleState, SkipReason
from rota.scheduler.due import Rhythm
from rota.scheduler.service import Wakings

HALF = timedelta(hours=12)
HOUR = timedelta(hours=1)
# Length of the prefix of a written time that is the same for that long.
TEN_MINUTES, AN_HOUR = len("2026-05-01T19:4"), len("2026-05-01T19")
MOST = 24  # marks in each half; more would overlap
LABEL_EVERY = 3  # hours


class Kind(StrEnum):
    """What a mark looks like: each kind has a shape and a colour."""

    GOOD = "good"
    PARTLY = "partly"
    BAD = "bad"
    STOPPED = "stopped"
    NOTHING = "nothing"
    OPEN = "open"
    COMING = "coming"


LEGEND = {
    Kind.GOOD: "succeeded",
    Kind.PARTLY: "partly done",
    Kind.BAD: "failed, timed out or lost",
    Kind.STOPPED: "cancelled",
    Kind.NOTHING: "skipped: no work, or not allowed to run",
    Kind.OPEN: "running, or waiting for a free slot",
    Kind.COMING: "upcoming",
}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(SkipReason, Kind.NOTHING),
    SkipReason.SOURCE_ERROR: Kind.BAD,
    RunStatus.SUCCEEDED: Kind.GOOD,
    RunStatus.PARTIAL: Kind.PARTLY,
    RunStatus.FAILED: Kind.BAD,
    RunStatus.TIMED_OUT: Kind.BAD,
    RunStatus.LOST: Kind.BAD,
    RunStatus.CLAIM_LOST: Kind.BAD,
    RunStatus.CANCELLED: Kind.STOPPED,
    RunStatus.RUNNING: Kind.OPEN,
    "waiting": Kind.OPEN,
}


@dataclass(frozen=True, slots=True)
class Mark:
    kind: Kind
    x: float
    when: str
    what: str


@dataclass(frozen=True, slots=True)
class Band:
    """Future triggers that are too many for single marks."""

    x: float
    width: float
    when: str
    what: str


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str | None


@dataclass(frozen=True, slots=True)
class Strip:
    marks: tuple[Mark, ...]
    band: Band | None
    label: str  # all of it in one sentence


@dataclass(frozen=True, slots=True)
class _Day:
    now: datetime
    zone: ZoneInfo

    @property
    def begin(self) -> datetime:
        return self.now - HALF

    @property
    def end(self) -> datetime:
        return self.now + HALF

    def x(self, moment: datetime) -> float:
        part = (moment - self.begin) / (2 * HALF)
        return round(100 * min(max(part, 0.0), 1.0), 2)

    def text(self, moment: datetime, form: str = "%a %H:%M") -> str:
        return moment.astimezone(self.zone).strftime(form)


def begin_of(now: datetime) -> datetime:
    """When the part of the past that is shown begins."""
    return _minute(now) - HALF


def strip_of(state: ScheduleState, past: Sequence[Wakings], now: datetime, zone: ZoneInfo) -> Strip:
    # To the minute, so that a page fetched again within it looks the same.
    day = _Day(_minute(now), zone)
    rhythm = Rhythm.known(state.definition)
    marks, coming, band = _past(past, day), _coming(state, day), None
    if len(coming) > MOST:
        band, coming = _band(coming[0], rhythm, day), ()
    ahead = [_ahead(moment, n, rhythm, day) for n, moment in enumerate(coming)]
    return Strip((*marks, *ahead), band, _label(state, past, len(ahead), band))


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


# the past


def kind_of(outcome: str) -> Kind:
    return _KINDS.get(outcome, Kind.STOPPED)


def _past(past: Sequence[Wakings], day: _Day) -> list[Mark]:
    groups = _gathered(past, TEN_MINUTES)
    if len(groups) > MOST:
        groups = _gathered(past, AN_HOUR)
    marks = [_mark(kind, group, day) for (kind, _), group in groups.items()]
    return sorted(marks, key=lambda mark: mark.x)


def _gathered(past: Sequence[Wakings], span: int) -> dict[tuple[Kind, str], list[Wakings]]:
    """Triggers that look alike within a span become one mark."""
    groups = defaultdict[tuple[Kind, str], list[Wakings]](list)
    for one in past:
        groups[kind_of(one.outcome), one.first_at[:span]].append(one)
    return groups


def _mark(kind: Kind, group: Sequence[Wakings], day: _Day) -> Mark:
    first = from_text(min(one.first_at for one in group))
    last = from_text(max(one.last_at for one in group))
    when = day.text(first)
    if day.text(last) != when:
        when += f" to {day.text(last, '%H:%M')}"
    return Mark(kind, day.x(first + (last - first) / 2), when, _told(group))


def _told(group: Sequence[Wakings]) -> str:
    counts = Counter[str]()
    for one in group:
        counts[one.outcome.replace("_", " ")] += one.count
    only = sum(counts.values()) == 1
    return ", ".join(what if only else f"{count} × {what}" for what, count in counts.items())


# the future


def _coming(state: ScheduleState, day: _Day) -> tuple[datetime, ...]:
    if state.next_run_at is None or state.slot is None:
        return ()
    return _times(state.definition, state.next_run_at, state.slot, day.now)


@lru_cache(maxsize=2048)  # a page that is fetched again asks for the same
def _times(definition: str, next_at: str, slot_at: str, now: datetime) -> tuple[datetime, ...]:
    """At most one more than can be marked: a rule for every second is not walked through."""
    rhythm, first, slot = Rhythm.known(definition), from_text(next_at), from_text(slot_at)
    moments: list[datetime] = []
    while first <= now + HALF and len(moments) <= MOST:
        moments.append(first)
        if rhythm is None:
            break
        # Only the next time includes jitter; later ones are computed from the rule. They begin from
        # now if the next time has passed and nobody was there to wake the agent.
        slot = rhythm.after(max(first if rhythm.interval is not None else slot, now))
        first = max(slot, first)
    return tuple(moments)


def _ahead(moment: datetime, n: int, rhythm: Rhythm | None, day: _Day) -> Mark:
    # An interval counts from the end of the previous run, which is not known yet.
    about = "about " if n and rhythm is not None and rhythm.interval is not None else ""
    late = moment <= day.now
    return Mark(
        Kind.COMING, day.x(max(moment, day.now)), about + day.text(moment),
        "due now" if late else "upcoming",
    )  # fmt: skip


def _band(first: datetime, rhythm: Rhythm | None, day: _Day) -> Band:
    begin = day.x(max(first, day.now))
    return Band(begin, round(100 - begin, 2), f"from {day.text(first)} on", in_words(rhythm))


# axis


def ticks_of(now: datetime, zone: ZoneInfo) -> Iterator[Tick]:
    """At full hours of the viewer's clock, in real time: a day may have 23 of them, or 25."""
    day = _Day(_minute(now), zone)
    local = day.begin.astimezone(day.zone)
    moment = day.begin + timedelta(minutes=-local.minute % 60)
    while moment <= day.end:
        hour = moment.astimezone(day.zone).hour
        label = f"{hour:02}" if hour % LABEL_EVERY == 0 else None
        yield Tick(day.x(moment), day.text(moment, "%a") if hour == 0 else label)
        moment += HOUR


def _label(state: ScheduleState, past: Sequence[Wakings], ahead: int, band: Band | None) -> str:
    became = _told(past) if past else "nothing"
    coming = f"{band.what} {band.when}" if band else f"{ahead or 'none'} upcoming"
    return f"{state.agent}/{state.name}, last 12 hours: {became}; next 12 hours: {coming}"
