"""A schedule's rule in words, and exactly as written."""

from datetime import timedelta

from rota.config.cron import SHORTHANDS
from rota.model.intervals import written
from rota.scheduler.due import Rhythm

_UNITS = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_NUMBERS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


def in_words(rhythm: Rhythm | None) -> str:
    if rhythm is None:
        return "not configured yet"
    if rhythm.interval is not None:
        return every(rhythm.interval)
    if rhythm.cron is not None:
        return f"{_cron(rhythm.cron) or 'by a cron rule'}, {rhythm.timezone}"
    return f"whenever a {'webhook' if rhythm.type == 'webhook' else 'message'} arrives"


def exactly(rhythm: Rhythm | None) -> str:
    if rhythm is None:
        return "imported"
    if rhythm.interval is not None:
        return f"interval {written(rhythm.interval)}"
    if rhythm.cron is not None:
        return f"cron {rhythm.cron}, {rhythm.timezone}"
    return str(rhythm.type)


def every(interval: timedelta) -> str:
    text = written(interval)
    number, unit = int(text[:-1]), _UNITS[text[-1]]
    return f"every {unit}" if number == 1 else f"every {number} {unit}s"


def _cron(expression: str) -> str | None:
    """Common rules in words. None for others, which are shown as written."""
    fields = SHORTHANDS.get(expression.lower(), expression).upper().split()
    if len(fields) != 5 or fields[3] != "*":
        return None
    minute, hour, day, _, weekday = fields
    if day == weekday == "*" and (often := _often(minute, hour)):
        return often
    times = _times(minute, hour)
    days = _days(day, weekday)
    return f"{days} at {times}" if times and days else None


def _often(minute: str, hour: str) -> str | None:
    step = _step(minute)
    if step and hour == "*":
        return every(timedelta(minutes=step))
    hours = _step(hour)
    if not hours or not minute.isdecimal():
        return None
    when = "on the hour" if int(minute) == 0 else f"at minute {int(minute)}"
    return f"{every(timedelta(hours=hours))}, {when}"


def _step(field: str) -> int | None:
    """`*` is 1, `*/5` is 5."""
    star, slash, size = field.partition("/")
    if star != "*" or (slash and not size.isdecimal()):
        return None
    return int(size) if slash else 1


def _times(minute: str, hour: str) -> str | None:
    hours = hour.split(",")
    if not minute.isdecimal() or not all(one.isdecimal() for one in hours):
        return None
    return _listed([f"{int(one):02}:{int(minute):02}" for one in hours])


def _days(day: str, weekday: str) -> str | None:
    if weekday == "*":
        if day == "*":
            return "every day"
        return f"on day {int(day)} of every month" if day.isdecimal() else None
    if day != "*":
        return None
    first, dash, last = weekday.partition("-")
    if dash:
        ends = _weekday(first), _weekday(last)
        return f"{ends[0]} to {ends[1]}" if all(ends) else None
    named = [_weekday(one) for one in weekday.split(",")]
    return _listed([one for one in named if one]) if all(named) else None


def _weekday(text: str) -> str | None:
    number = _DAY_NUMBERS.get(text, int(text) if text.isdecimal() else len(_DAYS))
    return _DAYS[number] if number < len(_DAYS) else None


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
