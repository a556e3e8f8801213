"""Recognises that a runtime's quota is used up, and until when."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

LONGEST_WAIT = timedelta(days=35)  # a time further away was misread
LOOKED_AT = 8000  # characters from the end

_SAID = re.compile(
    r"""usage\ limit\ (?:has\ been\ )?reached | hit\ your\ (?:\w+\ )?limit
    | hit\ your\ usage\ limit | (?:\d+-hour|session|weekly|daily)\ limit\ reached
    | reached\ your\ (?:\w+\ )?limit | usage_limit_reached | rate_limit_error
    | RESOURCE_EXHAUSTED | exceeded\ your\ current\ quota | exhausted\ your\ (?:\w+\ )?quota
    | quota\ will\ reset | 429\ Too\ Many\ Requests""",
    re.VERBOSE | re.IGNORECASE,
)
_EPOCH = re.compile(r"limit reached\|(\d{10,13})\b|resets_?at\W{1,4}(\d{10,13})\b", re.IGNORECASE)
_SECONDS = re.compile(r"resets_in_seconds\W{1,4}(\d{1,8})\b")
_SPAN = re.compile(
    r"(?:try again|reset) (?:in|after):? ((?:\d{1,6}\s?[dhms][a-z]{0,6},? ?){1,4})", re.IGNORECASE
)
_PART = re.compile(r"(\d+)\s?(d|h|m|s)")
_CLOCK = re.compile(
    r"""(?:resets?|try\ again)\ (?:at\ |on\ )?
    (?:(?P<month>[A-Z][a-z]{2})[a-z]*\ (?P<day>\d{1,2})(?:st|nd|rd|th)?,?
       (?:\ (?P<year>\d{4}),?)?\ (?:at\ )?)?
    (?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s?(?P<half>[ap]m)?
    (?:\ \((?P<zone>[A-Za-z0-9_+/-]{1,64})\))?""",
    re.VERBOSE | re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """None: the runtime did not say when the quota is available again."""

    until: datetime | None = None


def refusal(text: str, now: datetime) -> Refusal | None:
    """What the last output of a failed run says about a quota, if anything."""
    text = text[-LOOKED_AT:].replace("’", "'")
    if not _SAID.search(text):
        return None
    return Refusal(next((at for at in _times(text, now) if is_sane(at, now)), None))


def is_sane(until: datetime, now: datetime) -> bool:
    return now < until <= now + LONGEST_WAIT


def _times(text: str, now: datetime) -> Iterator[datetime]:
    readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], datetime]], ...] = (
        (_EPOCH, _epoch),
        (_SECONDS, lambda match, now: now + timedelta(seconds=int(match[1]))),
        (_SPAN, _span),
        (_CLOCK, _clock),
    )
    for pattern, read in readers:
        for match in pattern.finditer(text):
            try:
                yield read(match, now)
            except (ValueError, OverflowError, KeyError, OSError):
                continue


def _epoch(match: re.Match[str], _now: datetime) -> datetime:
    number = int(match[1] or match[2])
    return datetime.fromtimestamp(number / 1000 if number > 10**11 else number, UTC)


def _span(match: re.Match[str], now: datetime) -> datetime:
    parts = _PART.findall(match[1].lower())
    return now + timedelta(**{_UNITS[unit]: int(count) for count, unit in parts})


def _clock(match: re.Match[str], now: datetime) -> datetime:
    """A time of day means the next one; without a zone, it is the machine's."""
    zone: tzinfo | None = ZoneInfo(match["zone"]) if match["zone"] else None
    here = now.astimezone(zone)
    at = here.replace(hour=_hour(match), minute=int(match["minute"] or 0), second=0, microsecond=0)
    if match["month"]:
        month = _MONTHS.index(match["month"].lower()) + 1
        year = int(match["year"] or here.year)
        at = at.replace(year=year, month=month, day=int(match["day"]))
        if not match["year"] and at < here:
            at = at.replace(year=year + 1)
    elif at <= here:
        at += timedelta(days=1)
    return at.astimezone(UTC)


def _hour(match: re.Match[str]) -> int:
    hour, half = int(match["hour"]), (match["half"] or "").lower()
    if not half and match["minute"]:
        return hour
    if not half or not 1 <= hour <= 12:
        raise ValueError("not an hour of a clock")
    return hour % 12 + (12 if half == "pm" else 0)
