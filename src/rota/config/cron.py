"""Cron expressions: their syntax, and their next time.

The grammar is Debian cron's, read by `cronsim`. Times are computed here, because they must be right
in time zones that change by half an hour or skip a day:

- A fixed time (neither minute nor hour begins with `*`) triggers once a day. If the
  clock is put forward over it, it triggers right after the gap; if the clock is put back
  over it, it triggers the first time.
- Anything else follows real time: `*/30 * * * *` triggers every thirty minutes, also in
  the hour that comes twice.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NoReturn
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field

from rota.model.errors import CronParseError, InvalidInput

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Leap days that fall on a given weekday are up to forty years apart.
HORIZON = timedelta(days=366 * 60)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression that can trigger. `expression` has five fields, also for a shorthand."""

    expression: str
    is_shorthand: bool


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    example: str
    words: tuple[str, ...] = ()


_EVERY_MINUTE = '"* * * * *" (every minute)'
_DAILY = '"0 9 * * *" (daily at 9:00 AM)'
_FIELDS = (
    _Field("minute", 0, 59, '"30 * * * *" (every hour at :30)'),
    _Field("hour", 0, 23, _DAILY),
    _Field("day-of-month", 1, 31, '"0 0 15 * *" (15th of each month at midnight)'),
    _Field(
        "month",
        1,
        12,
        '"0 0 1 6 *" (June 1st at midnight)',
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    ),
    _Field(
        "day-of-week",
        0,
        7,
        '"0 9 * * 1-5" (weekdays at 9:00 AM)',
        ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
    ),
)
_ALLOWED = re.compile(r"[0-9,*/#A-Z-]+\Z")
_LETTERS = re.compile(r"[A-Z]+")


@lru_cache(maxsize=1024)
def parse_cron(expression: str) -> Cron:
    """Raises `CronParseError` for an expression that cannot be read, or can never trigger."""
    text = expression.strip()
    if not text:
        raise CronParseError(
            "Cron expression cannot be empty. Expected a 5-field cron expression"
            ' (e.g., "0 9 * * *") or a shorthand like "@daily"',
            expression=expression,
        )
    if text.startswith("@"):
        return Cron(_shorthand(text), is_shorthand=True)
    _check(text)
    return Cron(text, is_shorthand=False)


def next_cron_trigger(expression: str, after: datetime, tz: str = "UTC") -> datetime:
    """The first moment after `after` at which the expression triggers, in UTC."""
    calendar = _calendar(parse_cron(expression).expression)
    zone = time_zone(tz)
    try:
        return _next(calendar, after.astimezone(UTC), zone)
    except OverflowError:  # beyond the year 9999
        _never(expression)


def time_zone(name: str) -> ZoneInfo:
    """Raises `InvalidInput`, with the nearest name that exists."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = difflib.get_close_matches(name, available_timezones(), n=1, cutoff=0.6)
        hint = f'; did you mean "{near[0]}"?' if near else ', for example "Europe/Berlin"'
        raise InvalidInput(
            f'Unknown time zone "{name[:64]}": write a name of the IANA database{hint}',
            field="timezone",
        ) from None


def _shorthand(text: str) -> str:
    try:
        return SHORTHANDS[text.lower()]
    except KeyError:
        raise CronParseError(
            f'Unknown cron shorthand "{_short(text)}".'
            f" Valid shorthands are: {', '.join(SHORTHANDS)}",
            expression=text,
        ) from None


# --- reading -------------------------------------------------------------------------------


def _check(text: str) -> None:
    parts = text.split()
    if len(parts) != len(_FIELDS):
        example = _EVERY_MINUTE if len(parts) < len(_FIELDS) else _DAILY
        _refuse(text, f"expected 5 fields, got {len(parts)}", example, "fields")
    for part, field in zip(parts, _FIELDS, strict=True):
        _check_field(text, part, field)
    if not _ever(text):
        _never(text)


def _check_field(text: str, part: str, field: _Field) -> None:
    """Says what is wrong, where `cronsim` only names the field."""
    spelled = part.upper()
    if not part.isascii() or not _ALLOWED.match(spelled) or not _known_letters(spelled, field):
        _refuse(text, f"Invalid characters, got value: {part}", _DAILY)
    for term in spelled.split(","):
        if not term:
            _refuse(text, "Invalid list value format", _DAILY)
        if term.endswith("-"):
            _refuse(text, f"Invalid range: {term}", _DAILY)
        if not _readable(term, field):
            _refuse(text, f"{field.name} must be {field.low}-{field.high}", field.example, field)


def _known_letters(spelled: str, field: _Field) -> bool:
    last = {"day-of-month": {"L", "LW"}, "day-of-week": {"L"}}.get(field.name, set())
    return set(_LETTERS.findall(spelled)) <= last.union(field.words)


def _readable(term: str, field: _Field) -> bool:
    try:
        Field(_FIELDS.index(field) + 1).parse(term)  # cronsim's first field is seconds
    except (CronSimError, ValueError):  # ValueError: a number of thousands of digits
        return False
    return True


def _refuse(text: str, why: str, example: str, field: _Field | str | None = None) -> NoReturn:
    raise CronParseError(
        f'Invalid cron expression "{_short(text)}" - {_short(why)}'
        f"\n  Example valid expression: {example}",
        expression=text,
        field=field.name if isinstance(field, _Field) else field,
        example=example.split('"')[1],
    )


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"


def _never(text: str) -> NoReturn:
    _refuse(text, "there is no such day, so it would never run", _FIELDS[2].example, _FIELDS[2])


# --- computing -----------------------------------------------------------------------------

_ANY = datetime(2000, 1, 1)  # noqa: DTZ001 (a place to start from, without a zone on purpose)


@dataclass(frozen=True, slots=True)
class _Calendar:
    """An expression as days and as minutes of a day."""

    rule: CronSim
    hours: frozenset[int]
    minutes: frozenset[int]
    fixed: bool

    def days(self, first: date) -> Iterator[date]:
        """The matching days, beginning with `first`."""
        end = first + HORIZON
        while first < end:
            if first.month not in self.rule.months:
                first = (first.replace(day=1) + timedelta(days=32)).replace(day=1)
            else:
                if self.rule.match_day(first):
                    yield first
                first += timedelta(days=1)


@lru_cache(maxsize=1024)
def _calendar(expression: str) -> _Calendar:
    rule = CronSim(expression, _ANY)
    minute, hour = expression.split()[:2]
    fixed = not minute.startswith("*") and not hour.startswith("*")
    hours, minutes = frozenset(rule.hours), frozenset(rule.minutes)
    return _Calendar(rule, hours, minutes, fixed)


def _ever(expression: str) -> bool:
    """`cronsim` refuses some days that never come (30 February); a search finds the others."""
    try:
        return next(_calendar(expression).days(_ANY.date()), None) is not None
    except CronSimError:
        return False


def _next(calendar: _Calendar, after: datetime, zone: ZoneInfo) -> datetime:
    return (_next_fixed if calendar.fixed else _next_real)(calendar, after, zone)


def _next_fixed(calendar: _Calendar, after: datetime, zone: ZoneInfo) -> datetime:
    # Begin a day earlier, because a zone can skip a day, or put its clock back over midnight.
    for day in calendar.days(after.astimezone(zone).date() - timedelta(days=1)):
        for moment in _fixed_times(calendar, day, zone):
            if moment > after:
                return moment
    raise OverflowError


def _fixed_times(calendar: _Calendar, day: date, zone: ZoneInfo) -> Iterator[datetime]:
    for hour in sorted(calendar.hours):
        for minute in sorted(calendar.minutes):
            yield _moment(datetime.combine(day, time(hour, minute), tzinfo=zone))


def _moment(local: datetime) -> datetime:
    """The moment when a wall clock first shows this time or a later one."""
    moment = local.astimezone(UTC)
    if _shows(moment, local):
        return moment
    # Inside a gap. With the offset that holds after the gap, the time is before the gap.
    begin = local.replace(fold=1).astimezone(UTC)
    offset = begin.astimezone(local.tzinfo).utcoffset()
    while begin.astimezone(local.tzinfo).utcoffset() == offset:
        begin += MINUTE
    return begin


def _next_real(calendar: _Calendar, after: datetime, zone: ZoneInfo) -> datetime:
    moment = after.replace(second=0, microsecond=0) + MINUTE
    while True:
        local = moment.astimezone(zone)
        day = next(calendar.days(local.date()))
        if day != local.date():
            midnight = _moment(datetime.combine(day, time(), tzinfo=zone))
            moment = max(midnight, moment + MINUTE)
        elif local.hour not in calendar.hours:
            moment = _next_hour(moment, local)
        elif local.minute not in calendar.minutes:
            moment += MINUTE
        else:
            return moment


def _next_hour(moment: datetime, local: datetime) -> datetime:
    """The next full hour, unless the clock changes before it."""
    strike = moment + (60 - local.minute) * MINUTE
    same = strike.astimezone(local.tzinfo).utcoffset() == local.utcoffset()
    return strike if same else moment + MINUTE


def _shows(moment: datetime, local: datetime) -> bool:
    return moment.astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None)
