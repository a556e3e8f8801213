"""Hands requests to threads, and prefers the thread that worked last.

If ten connections took turns, each would be used only now and then, and every statement would meet
a server process that must plan it again: four times the cost of a warm one.
"""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Seat(Generic[T]):
    """Where one thread waits for its next request."""

    def __init__(self) -> None:
        self.handed: T | None = None
        # Held until `put` releases it. A semaphore is written in Python, and measurably slower.
        self.called = threading.Lock()
        self.called.acquire()


class Lanes(Generic[T]):
    """First come, first served; `None` ends a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[T | None] = deque()
        self._resting: list[Seat[T]] = []

    def put(self, request: T | None) -> None:
        with self._lock:
            if not self._resting:
                self._waiting.append(request)
                return
            seat = self._resting.pop()
        seat.handed = request
        seat.called.release()

    def get(self, seat: Seat[T]) -> T | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._resting.append(seat)
        seat.called.acquire()
        return seat.handed
