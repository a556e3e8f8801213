"""Counters that a commit moves and that others wait on."""

import asyncio
from collections.abc import Iterable

from rota.storage.port import Topic


class Wakeups:
    """Lives on the event loop; writers reach it by `call_soon_threadsafe`."""

    def __init__(self) -> None:
        self._counters = dict.fromkeys(Topic, 0)
        self._waiting: dict[Topic, set[asyncio.Future[None]]] = {topic: set() for topic in Topic}

    def counter(self, topic: Topic) -> int:
        return self._counters[topic]

    def bump(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            self._counters[topic] += 1
            waiting, self._waiting[topic] = self._waiting[topic], set()
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def wait(self, topic: Topic, seen: int, seconds: float) -> int:
        if self._counters[topic] <= seen and seconds > 0:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[topic].add(future)
            try:
                await asyncio.wait((future,), timeout=seconds)
            finally:
                self._waiting[topic].discard(future)
        return self._counters[topic]
