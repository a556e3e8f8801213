"""A lease as its holder sees it: how long it may still be trusted, and whether it is lost."""

import threading
import time
from collections.abc import Callable
from urllib.parse import quote

_BEATS_PER_LEASE = 3


def clock() -> float:
    """Seconds that also pass while the machine sleeps: a lease does not wait for a lid."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """Shared by the one who works and the thread that sends heartbeats."""

    def __init__(
        self,
        held_id: str,
        token: str,
        seconds: float,
        kind: str = "work",
        asked_at: float | None = None,
    ) -> None:
        """Counted from when it was asked for: the answer may have been long on its way."""
        self.held_id = held_id
        self.token = token
        self.seconds = seconds
        self.path = f"/{kind}/{quote(held_id, safe='')}/heartbeat"
        # An item's lease has its length in the ledger; a follow-up's is told each time.
        self.told = {"lease_seconds": seconds} if kind == "follow-ups" else {}
        self.words = {"token": token, **self.told}
        # While the holder's verdict is on its way, an ended claim is no loss but its effect.
        self.settling = False
        self.renewed_at = clock() if asked_at is None else asked_at
        self._lock = threading.Lock()
        self._lost = False
        self._when_lost: list[Callable[[], object]] = []

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def lapsed(self) -> bool:
        """Past its time by our own clock: somebody else may have what was held."""
        return self.left <= 0

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.renewed_at + self.seconds - clock()

    @property
    def beats_at(self) -> float:
        """When it is to be renewed: three times before it would end, so two may go missing."""
        return self.renewed_at + self.interval

    @property
    def interval(self) -> float:
        return self.seconds / _BEATS_PER_LEASE

    def renewed(self, asked_at: float) -> None:
        self.renewed_at = max(self.renewed_at, asked_at)

    def lose(self) -> None:
        with self._lock:
            if self.settling:
                return
            callbacks = self._when_lost
            self._lost, self._when_lost = True, []
        for callback in callbacks:
            callback()

    def when_lost(self, callback: Callable[[], object]) -> None:
        """Called once, from any thread; at once when it is lost already."""
        with self._lock:
            if not self._lost:
                self._when_lost.append(callback)
                return
        callback()
