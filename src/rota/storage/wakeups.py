"""Counters that a commit increments and that coroutines wait on."""

import asyncio
from collections.abc import Iterable

from rota.storage.port import Store, Topic


class Wakeups:
    """Belongs to the event loop; writer threads reach it by `call_soon_threadsafe`."""

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


class Commits:
    """Waits for commits on one topic, from any process, as on an event."""

    def __init__(self, store: Store, seconds: float, topic: Topic = Topic.EVENTS) -> None:
        """`seconds`: the longest wait, after which the caller looks even without a commit."""
        self._store = store
        self._seconds = seconds
        self._topic = topic
        self._seen = 0

    def look(self) -> bool:
        """Whether anything was committed since the last look. The next look counts from here."""
        before, self._seen = self._seen, self._store.counter(self._topic)
        return self._seen != before

    async def wait(self) -> None:
        await self._store.wait(self._topic, self._seen, self._seconds)
