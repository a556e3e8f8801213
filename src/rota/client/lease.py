"""A lease as its holder sees it: how long it may still be trusted, and whether it is lost."""

import threading
from collections.abc import Callable
from urllib.parse import quote

from rota.model.clock import elapsed

_BEATS_PER_LEASE = 3


class Lease:
    """Shared by the body and the threads that send heartbeats."""

    def __init__(
        self,
        held_id: str,
        token: str,
        seconds: float,
        kind: str = "work",
        asked_at: float | None = None,
    ) -> None:
        """Counted from when it was asked for, because the answer may have taken long."""
        self.held_id = held_id
        self.token = token
        self.seconds = seconds
        self.path = f"/{kind}/{quote(held_id, safe='')}/heartbeat"
        # The ledger knows the length of an item's lease; a follow-up's is sent each time.
        self.told = {"lease_seconds": seconds} if kind == "follow-ups" else {}
        self.words = {"token": token, **self.told}
        # While the holder's verdict is under way, the claim's end is its effect, not a loss.
        self.settling = False
        self.renewed_at = elapsed() if asked_at is None else asked_at
        self._lock = threading.Lock()
        self._lost = False
        self._when_lost: list[Callable[[], object]] = []

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def lapsed(self) -> bool:
        """Over by our own clock: somebody else may hold it by now."""
        return self.left <= 0

    @property
    def left(self) -> float:
        """Seconds until it lapses."""
        return self.renewed_at + self.seconds - elapsed()

    @property
    def beats_at(self) -> float:
        """When it is to be renewed: three times in each lease, so two heartbeats may fail."""
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
        """Called once, from any thread; at once if the lease is lost already."""
        with self._lock:
            if not self._lost:
                self._when_lost.append(callback)
                return
        callback()
