"""Time and ids: both are injected, so that a test can replay a run."""

import base64
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

from rota.model.errors import InvalidInput


class Clock(Protocol):
    """The current time, in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def elapsed() -> float:
    """Seconds on a clock that nobody sets. They also pass while the machine sleeps: a laptop that
    was closed for long has lost its leases. (On macOS `time.monotonic` stands still meanwhile.)"""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class DistantClock:
    """The clock of another machine, by its answers: the last one, and what has elapsed since.

    All who ask the same machine have the same time, whatever their own clocks say. Until the first
    answer, it is the time here.
    """

    def __init__(self, elapsed: Callable[[], float] = elapsed) -> None:
        self._elapsed = elapsed
        self._zero: datetime | None = None  # the time there when `elapsed` was 0
        self._heard_at = 0.0

    def now(self) -> datetime:
        if self._zero is None:
            return datetime.now(UTC)
        return self._zero + timedelta(seconds=self._elapsed())

    def hear(self, told: datetime, asked_at: float, heard_at: float) -> None:
        """The time there was `told` at some moment between asking and hearing. So now it is at
        least that, and at most as much later as the answer took. While our idea of it lies in
        between, it stays: corrections that may be wrong would let the time jump."""
        self._heard_at = heard_at
        latest = told + timedelta(seconds=heard_at - asked_at)
        if self._zero is not None:
            believed = self._zero + timedelta(seconds=heard_at)
            if told <= believed <= latest:
                return
        self._zero = told + (latest - told) / 2 - timedelta(seconds=heard_at)

    @property
    def age(self) -> float:
        """Seconds since the last answer."""
        return self._elapsed() - self._heard_at


class Hindsight:
    """The time of the previous look, or now if the clock has gone back since. Deleting by this time
    is safe from a clock that is wrong for one look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before: datetime | None = None

    def look(self) -> datetime | None:
        """None the first time."""
        before, self._before = self._before, self._clock.now()
        return None if before is None else min(before, self._before)


def to_text(moment: datetime) -> str:
    """The one spelling of a time in the database and on the wire.

    Fixed width, so that text order is time order on both databases.
    """
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text)


def in_zone(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """The moment in that zone, or in the zone of this machine. Within hours of the first and last
    moment of Python's calendar the conversion can fail; the moment is then returned unchanged."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return moment


def parse_time(text: str, field: str) -> datetime:
    """Read a time from user input; a time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{field}: {text[:64]!r} is not a time; write ISO 8601, for example"
            " 2026-05-01T19:42:33Z",
            field=field,
        ) from None


def later(moment: datetime, seconds: float, field: str) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        raise InvalidInput(f"{field}: {seconds} seconds is too long", field=field) from None


class Randomness:
    """Random bytes from the operating system, fetched a page at a time.

    Each call of `os.urandom` releases the interpreter lock, which on a busy server
    costs more than everything else about an id.
    """

    PAGE = 4096

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._page = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        with self._lock:
            if self._at + size > len(self._page):
                self._page, self._at = os.urandom(max(size, self.PAGE)), 0
            self._at += size
            return self._page[self._at - size : self._at]


class IdFactory:
    """Makes ids (UUIDv7 as text) and claim tokens.

    Ids sort by the time they were made. The 12 bits after the version count
    within a millisecond, which keeps the ids of one process strictly ascending,
    even if the clock steps back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._random = Randomness()
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> str:
        return self.several(1)[0]

    def several(self, count: int) -> list[str]:
        """`count` ascending ids; cheaper than one by one."""
        tick = _milliseconds(self._clock.now()) << 12
        with self._lock:
            first = max(tick, self._last + 1)
            self._last = first + count - 1
        rest = self._random.take(8 * count).hex()
        return [_uuid(first + n, rest[16 * n : 16 * n + 16]) for n in range(count)]

    def token(self) -> str:
        return self.tokens(1)[0]

    def tokens(self, count: int) -> list[str]:
        """Each has 22 characters of six random bits, so it cannot be guessed."""
        text = base64.urlsafe_b64encode(self._random.take(18 * count)).decode()
        return [text[24 * n : 24 * n + 22] for n in range(count)]


def _uuid(tick: int, rest: str) -> str:
    text = f"{tick:015x}"
    return f"{text[:8]}-{text[8:12]}-7{text[12:]}-{_VARIANT[rest[0]]}{rest[1:4]}-{rest[4:]}"


# RFC 9562: the two bits 10 and two random ones.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _milliseconds(moment: datetime) -> int:
    """Since 1970, in integer arithmetic: a float would round some moments up."""
    return (moment - _EPOCH) // _MILLISECOND


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def first_id(moment: str) -> str:
    """The lowest id of an item that was made at this time or later."""
    text = f"{_milliseconds(from_text(moment)):012x}"
    return f"{text[:8]}-{text[8:12]}-7000-8000-000000000000"
