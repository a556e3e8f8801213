"""The one reader of the event log in a process.

Commits wake it, and it also looks again by itself: soon while events are held back, else
every second. It puts new events on a shelf, where each follower has a place. A follower
asks the database only to catch up with the past. Without followers nothing is read.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from rota.feed.reading import Reading
from rota.feed.shelf import Entry, Shelf
from rota.feed.wanted import EVERYTHING, Wanted
from rota.model.errors import StorageError
from rota.model.events import Event

log = logging.getLogger(__name__)

LIVE_PAGE = 100  # short enough to be read on the event loop
KEPT = 4_096
KEPT_CHARACTERS = 8 * 1024 * 1024
# On PostgreSQL an event is shown once no older transaction is open, and nothing announces the end
# of the last one. While events are held back, the reader looks again soon, then less often.
FIRST_PAUSE_SECONDS = 0.004
LOOK_AGAIN_SECONDS = 1.0
PATIENCE_SECONDS = 1.0
MOST_IN_THE_PAST = 4  # followers that catch up at once: many of them must not hold up the others
TURN = 512  # sends in one turn of the event loop, before it does anything else


class EventLog(Protocol):
    """What the feed needs of the ledger; `rota.queue.views.Views` provides it."""

    async def events(
        self, after: int, limit: int, work_item_id: str | None = None, types: Sequence[str] = ()
    ) -> list[Event]: ...
    async def events_on(self, after: int, limit: int) -> tuple[list[Event], bool]: ...
    async def last_event(self) -> int: ...
    async def highest_event(self) -> int: ...
    def events_seen(self) -> int: ...
    async def wait_for_events(self, seen: int, seconds: float) -> int: ...


class Feed:
    def __init__(
        self,
        events: EventLog,
        write: Callable[[Event], str],
        *,
        kept: int = KEPT,
        kept_characters: int = KEPT_CHARACTERS,
    ) -> None:
        """`write` makes the text of an event."""
        self.log = events
        self.shelf = Shelf(kept, kept_characters)
        self.lock = asyncio.Lock()  # needed to advance the feed
        self.past = asyncio.Semaphore(MOST_IN_THE_PAST)
        self._write = write
        self._position: int | None = None  # the last event on the shelf; None while nothing is read
        self._readings: set[Reading] = set()
        self._reader: asyncio.Task[None] | None = None

    @property
    def position(self) -> int:
        return self._position or 0

    @property
    def followers(self) -> int:
        return len(self._readings)

    @property
    def share(self) -> int:
        """How many entries one follower takes before it is the others' turn."""
        return max(1, TURN // max(1, len(self._readings)))

    def entry(self, event: Event) -> Entry:
        return Entry(event, self._write(event))

    @asynccontextmanager
    async def follow(
        self,
        wanted: Wanted = EVERYTHING,
        after: int | None = None,
        fallen: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Reading]:
        """All events after `after`; without it, all from now on. The same if `after` is higher than
        any event: the caller has then seen another log.

        `fallen` is called when the follower is so late that the shelf has moved on.
        """
        if after is not None and after > await self.log.highest_event():
            after = None
        reading = Reading(self, wanted, after, fallen)
        self._readings.add(reading)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_on(), name="feed")
        try:
            if after is None:
                await reading.join()
            yield reading
        finally:
            self._readings.discard(reading)
            await self._rest()

    async def _rest(self) -> None:
        if self._readings or self._reader is None:
            return
        reader, self._reader = self._reader, None
        self._position = None
        self.shelf.clear()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    # the reader

    async def _read_on(self) -> None:
        soon, waits = FIRST_PAUSE_SECONDS, False
        while True:
            seen = self.log.events_seen()
            try:
                async with self.lock:
                    held_back, waits = await self.advance(), False
            except StorageError as error:
                if not waits:
                    log.warning("the feed waits for the database: %s", error.message)
                held_back, waits = False, True
            pause = soon if held_back else LOOK_AGAIN_SECONDS
            woken = await self.log.wait_for_events(seen, pause) > seen
            soon = FIRST_PAUSE_SECONDS if woken else min(soon * 2, LOOK_AGAIN_SECONDS)

    async def advance(self) -> bool:
        """Bring the shelf up to the end of the log; call with the lock held. Returns whether more
        events may be held back."""
        if self._position is None:
            self._position = await self.log.last_event()
            return True
        while True:
            page, held_back = await self.log.events_on(self._position, LIVE_PAGE)
            await self._put(page)
            if len(page) < LIVE_PAGE:
                return held_back

    async def _put(self, page: list[Event]) -> None:
        patient_until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        for event in page:
            entry = self.entry(event)
            await self._make_room(entry, patient_until)
            self.shelf.add(entry)
            self._position = event.seq
            for reading in tuple(self._readings):
                reading.told(entry)

    async def _make_room(self, entry: Entry, patient_until: float) -> None:
        """Wait for followers that are late because this process is busy, but not for those whose
        clients do not read."""
        base = self.shelf.base_with(entry)
        if base == self.shelf.base:
            return
        loop = asyncio.get_running_loop()
        while loop.time() < patient_until and any(  # noqa: ASYNC110 - the turn is what they need
            one.willing and one.stands_before(base) for one in self._readings
        ):
            await asyncio.sleep(0)
