"""Which slot of a schedule comes next, and what becomes of slots that have passed. Pure.

A *slot* is the moment that a trigger is for. Jitter makes the waking later than its
slot, never earlier. A slot that is caught up keeps its original time, so no slot is run
twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.config.cron import next_cron_trigger
from rota.model.clock import from_text, to_text
from rota.model.intervals import written
from rota.model.schedules import CatchUp, Schedule, ScheduleState, ScheduleType
from rota.scheduler.interval import jitter, later

Rng = Callable[[], float]
# The definition of a schedule that was imported and is not in any file read so far.
IMPORTED = "imported"
# A slot that is looked at within this time does not count as late: the machine may be busy.
GRACE = timedelta(seconds=60)
# How far back to look for the latest of many missed slots, in growing steps.
_WINDOWS = tuple(timedelta(minutes=m) for m in (60, 24 * 60, 40 * 1440, 400 * 1440, 4000 * 1440))


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What the times of a schedule are computed from; its text is the schedule's `definition`."""

    type: ScheduleType
    interval: timedelta | None = None
    cron: str | None = None
    timezone: str = "UTC"

    @classmethod
    def of(cls, schedule: Schedule) -> "Rhythm":
        if schedule.type is ScheduleType.INTERVAL:
            return cls(schedule.type, interval=schedule.interval or timedelta(0))
        if schedule.type is ScheduleType.CRON:
            return cls(schedule.type, cron=schedule.cron or "", timezone=schedule.timezone)
        return cls(schedule.type)

    @classmethod
    def read(cls, definition: str) -> "Rhythm":
        kind, _, rest = definition.partition(" ")
        type_ = ScheduleType(kind)
        if type_ is ScheduleType.INTERVAL:
            return cls(type_, interval=timedelta(microseconds=int(rest)))
        if type_ is ScheduleType.CRON:
            zone, _, cron = rest.partition(" ")
            return cls(type_, cron=cron, timezone=zone)
        return cls(type_)

    @classmethod
    def known(cls, definition: str) -> "Rhythm | None":
        return None if definition == IMPORTED else cls.read(definition)

    @property
    def in_words(self) -> str:
        if self.interval is not None:
            return f"every {written(self.interval)}"
        if self.cron is not None:
            return self.cron if self.timezone == "UTC" else f"{self.cron} ({self.timezone})"
        return f"by {self.type}"

    @property
    def text(self) -> str:
        if self.interval is not None:
            return f"{self.type} {self.interval // timedelta(microseconds=1)}"
        if self.cron is not None:
            return f"{self.type} {self.timezone} {self.cron}"
        return str(self.type)

    def after(self, moment: datetime) -> datetime:
        """The first slot after a moment; for an interval, one interval later."""
        if self.interval is not None:
            return later(moment, self.interval)
        return next_cron_trigger(self.cron or "", moment, self.timezone)

    def first(self, last_completed_at: datetime | None, now: datetime) -> datetime | None:
        """The first slot of a schedule that is new, changed or enabled again."""
        if self.interval is not None:
            ended = last_completed_at
            # Not later than a whole interval from now: a clock that was ahead may have set the end.
            return now if ended is None else min(max(now, self.after(ended)), self.after(now))
        return self.after(now) if self.cron is not None else None

    def rewound(self, slot: datetime, now: datetime) -> datetime:
        """An earlier slot, if the clock was put back since this one was computed.

        Slots that were run before the clock was put back can come again here. The
        ledger knows them, and does not run them twice.
        """
        if slot <= now:
            return slot
        return min(slot, self.after(now))


def first_slot(state: ScheduleState, now: datetime) -> str | None:
    """The first slot of a schedule that is enabled again; None if the clock does not wake it."""
    rhythm = Rhythm.known(state.definition)
    ended = from_text(state.last_completed_at) if state.last_completed_at else None
    slot = rhythm.first(ended, now) if rhythm else None
    return to_text(slot) if slot else None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a schedule whose time has come."""

    slot: datetime | None  # to be run; None: `catch_up` wants none
    following: datetime
    missed: bool = False  # some slots are not run


def plan(
    rhythm: Rhythm, slot: datetime, due_at: datetime, now: datetime, catch_up: CatchUp
) -> Plan:
    if rhythm.interval is not None:
        return _interval_plan(rhythm, slot, due_at, now, catch_up)
    if catch_up is CatchUp.ALL:
        return Plan(slot, rhythm.after(slot))
    latest, following = latest_slot(rhythm, slot, now)
    late = now - (due_at if latest == slot else latest) > GRACE
    if catch_up is CatchUp.NONE and late:
        return Plan(None, following, missed=True)
    return Plan(latest, following, missed=latest != slot)


def _interval_plan(
    rhythm: Rhythm, slot: datetime, due_at: datetime, now: datetime, catch_up: CatchUp
) -> Plan:
    """At most one slot can have been missed. The following slot is for the case that the end of the
    run is never recorded; otherwise the end sets it."""
    if catch_up is CatchUp.NONE and now - due_at > GRACE:
        return Plan(None, rhythm.after(now), missed=True)
    return Plan(slot, rhythm.after(now))


def latest_slot(rhythm: Rhythm, slot: datetime, now: datetime) -> tuple[datetime, datetime]:
    """The last slot up to now, and the next one, without stepping through a year of minutes."""
    for window in _WINDOWS:
        if now - window <= slot:
            break
        near = rhythm.after(now - window)
        if near <= now:
            slot = near
            break
    while (following := rhythm.after(slot)) <= now:
        slot = following
    return slot, following


def waking(
    rhythm: Rhythm, slot: datetime, now: datetime, percent: float, rng: Rng | None = None
) -> datetime:
    """When to wake for a slot: jitter delays it; for cron, by at most half the way to the next."""
    if not percent or slot <= now:
        return max(slot, now)
    if rhythm.interval is not None:
        return later(slot, jitter(rhythm.interval, percent, rng))
    room = (rhythm.after(slot) - slot) / 2
    return slot + min(jitter(slot - now, percent, rng), room)
