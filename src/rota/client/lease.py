"""A lease as its holder sees it: how long it may still be trusted, and whether it is lost."""

import threading
import time
from collections.abc import Callable
from urllib.parse import quote


def clock() -> float:
    """Seconds that also pass while the machine sleeps: a lease does not wait for a lid."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """Shared by the one who works and the thread that sends heartbeats."""

    def __init__(self, held_id: str, token: str, seconds: float, kind: str = "work") -> None:
        self.held_id = held_id
        self.token = token
        self.seconds = seconds
        self.path = f"/{kind}/{quote(held_id, safe='')}/heartbeat"
        # An item's lease has its length in the ledger; a follow-up's is told each time.
        told = {"lease_seconds": seconds} if kind == "follow-ups" else {}
        self.words = {"token": token, **told}
        # While the holder's verdict is on its way, an ended claim is no loss but its effect.
        self.settling = False
        self._renewed_at = clock()
        self._lock = threading.Lock()
        self._lost = False
        self._when_lost: list[Callable[[], object]] = []

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def lapsed(self) -> bool:
        """Past its time by our own clock: somebody else may have what was held."""
        return clock() - self._renewed_at >= self.seconds

    def renewed(self, asked_at: float) -> None:
        """Counted from when we asked: the server's answer may have been long on its way."""
        self._renewed_at = max(self._renewed_at, asked_at)

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
