"""The stub's two times: whole seconds for what it writes, monotonic time for what it hides."""

import time
from datetime import UTC, datetime


def text_of(moment: datetime) -> str:
    """`2026-05-01T19:42:33Z`. Not by strftime, because it is called two hundred times per page."""
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def moment_of(text: str) -> datetime:
    """Any ISO 8601 spelling; without an offset it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC)


class StubClock:
    """Runs with the machine's clock until it is moved, frozen or made coarse."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._frozen: float | None = None
        self._granularity = 1

    def seconds(self) -> int:
        """Unix time by the tracker's clock."""
        exact = time.time() + self._offset if self._frozen is None else self._frozen
        return int(exact // self._granularity * self._granularity)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds(), UTC)

    @staticmethod
    def steady() -> float:
        return time.monotonic()

    def advance(self, seconds: float) -> None:
        """The number may be negative."""
        if self._frozen is None:
            self._offset += seconds
        else:
            self._frozen += seconds

    def set_to(self, moment: datetime) -> None:
        self.advance(moment.timestamp() - self.seconds())

    def freeze(self, frozen: bool) -> None:
        """A frozen clock gives all entries the same second. When thawed, it goes on from there."""
        if frozen:
            self._frozen = float(self.seconds())
        elif self._frozen is not None:
            self._offset, self._frozen = self._frozen - time.time(), None

    def coarsen(self, granularity: int) -> None:
        """Show the time in steps of so many seconds."""
        self._granularity = max(1, granularity)
