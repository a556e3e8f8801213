"""Spans of time as people write them: `30s`, `5m`, `1h`, `7d`."""

import re
from datetime import timedelta

from rota.model.errors import IntervalParseError

UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}

# A byte order mark counts as a space, because some editors leave one behind.
_SPACE = r"[\s\ufeff]*"
_INTERVAL = re.compile(rf"(-?[0-9]+){_SPACE}([A-Za-z]+)")
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+.*", re.DOTALL)
_SHAPE = 'Expected format: "{number}{unit}" where unit is s/m/h/d (e.g., "5m", "1h")'
_POSITIVE = "Use a positive integer value and one of the units s, m, h, d"
_MOST_DIGITS = 12  # more digits would be longer than any calendar


def parse_interval(text: str) -> timedelta:
    bare = text.strip(" \t\n\r\f\v\u00a0\u2028\u2029\ufeff")
    found = _INTERVAL.fullmatch(bare)
    if found is None:
        raise _refused(_malformed(bare), text)
    number, unit = found[1], found[2]
    value = int(number[: _MOST_DIGITS + 1])
    if value < 0:
        why = f'Negative intervals are not allowed: "{bare}". {_POSITIVE}'
        raise _refused(why, text)
    if value == 0 and not number.strip("-0"):
        raise _refused(f'Zero interval is not allowed: "{bare}". {_POSITIVE}', text)
    if (size := UNITS.get(unit.lower())) is None:
        raise _refused(
            f'Invalid time unit "{unit}" in interval "{bare}". Valid units are: s (seconds),'
            " m (minutes), h (hours), d (days)",
            text,
        )
    return _product(number, size, text)


def _product(number: str, size: timedelta, text: str) -> timedelta:
    digits = number.lstrip("0")
    try:
        if len(digits) <= _MOST_DIGITS:
            return int(digits) * size
    except OverflowError:
        pass
    raise _refused(
        f'Interval "{text.strip()[:40]}" is too long. Use a shorter one, in s, m, h or d', text
    )


def _malformed(bare: str) -> str:
    if not bare:
        return f"Interval cannot be empty. {_SHAPE}"
    if bare.isascii() and bare.isdigit():
        return f'Missing time unit in interval "{bare}". {_SHAPE}'
    if _DECIMAL.fullmatch(bare):
        return (
            f'Decimal values are not supported in interval "{bare}". Use integers only'
            ' (e.g., "5m" instead of "5.5m") and one of the units s, m, h, d'
        )
    if bare.isascii() and bare.isalpha():
        return f'Missing numeric value in interval "{bare}". {_SHAPE}'
    return f'Invalid interval format "{bare}". {_SHAPE}'


def _refused(why: str, text: str) -> IntervalParseError:
    return IntervalParseError(why, interval=text)


def written(span: timedelta) -> str:
    """The shortest notation. Parsing it gives the same interval, in whole seconds."""
    seconds = max(int(span.total_seconds()), 1)
    for unit in "dhm":
        size = int(UNITS[unit].total_seconds())
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
