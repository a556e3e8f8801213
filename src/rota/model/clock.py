"""Time and identity: both injected, so that a test can replay a run."""

import os
import threading
from datetime import UTC, datetime, timedelta
from typing import Protocol

from rota.model.errors import InvalidInput


class Clock(Protocol):
    """Says what time it is, in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """The one spelling of a time in the database and on the wire.

    Fixed width, so that text order is time order on both databases.
    """
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text[:26] + "Z"


def from_text(text: str) -> datetime:
    return datetime.fromisoformat(text)


def parse_time(text: str, field: str) -> datetime:
    """Read a time that somebody typed; a time without a zone is UTC."""
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


class IdFactory:
    """UUIDv7 as text: ids sort by the time they were made, also within one millisecond.

    The 12 bits after the version count within a millisecond, which keeps the
    ids of one process strictly ascending even if the clock steps back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> str:
        tick = int(self._clock.now().timestamp() * 1000) << 12
        with self._lock:
            self._last = tick = max(tick, self._last + 1)
        random = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
        value = (tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0x2 << 62 | random
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
