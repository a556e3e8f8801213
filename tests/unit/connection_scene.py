"""A connection without a network: its transport, and a clock that the test moves."""

import heapq
import itertools
from collections.abc import Callable, Coroutine
from typing import Any


class Timer:
    def __init__(self, run: Callable[[], None]) -> None:
        self.run: Callable[[], None] = run

    def cancel(self) -> None:
        self.run = lambda: None


class Loop:
    """Time and timers; tasks never begin."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, run: Callable[[], None]) -> Timer:
        timer = Timer(run)
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), timer))
        return timer

    def create_task(self, work: Coroutine[Any, Any, None]) -> Any:
        work.close()
        return _Task()

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            timer.run()
        self.now = end


class _Task:
    def add_done_callback(self, run: object) -> None:
        """The task is never done."""


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.ended = ""
        self.unsent = 0
        self.keeps = False  # written data is not sent

    def write(self, data: bytes) -> None:
        self.written += data
        self.unsent += len(data) if self.keeps else 0

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def write_eof(self) -> None:
        self.ended = self.ended or "refused"

    def abort(self) -> None:
        self.ended = self.ended or "cut"

    def is_closing(self) -> bool:
        return bool(self.ended)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None:
        """The test sends nothing then."""

    resume_reading = pause_reading
