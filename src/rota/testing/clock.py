"""A clock that stands still until it is told to move."""

from datetime import UTC, datetime, timedelta

from rota.model.clock import to_text


class ManualClock:
    """Time set by the test. Nothing waits on it: what is due happens when next asked for."""

    def __init__(self, start: datetime = datetime(2026, 5, 1, 12, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def text(self, seconds: float = 0) -> str:
        """The time so many seconds from now, as the ledger writes it."""
        return to_text(self._now + timedelta(seconds=seconds))

    def advance(self, seconds: float) -> None:
        """The number may be negative, because clocks also step back."""
        self._now += timedelta(seconds=seconds)
