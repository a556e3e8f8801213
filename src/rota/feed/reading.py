"""One follower's place in the log: first in the past, page by page, then on the shelf."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from rota.feed.shelf import Entry
from rota.feed.wanted import Wanted
from rota.model.errors import StorageError
from rota.model.events import Event

if TYPE_CHECKING:
    from rota.feed.source import Feed

PAST_PAGE = 500


class Overrun(Exception):
    """So far behind that the shelf has moved on; the past is in the log."""


class Reading:
    def __init__(
        self, feed: "Feed", wanted: Wanted, after: int | None, fallen: Callable[[], None]
    ) -> None:
        self.position = after or 0  # the last event that was taken, or passed over
        self.willing = False  # it has work to do, and waits for nobody but the event loop
        self._feed = feed
        self._wanted = wanted
        self._fallen = fallen
        self._place: int | None = None  # on the shelf; None while in the past
        self._waiting: asyncio.Future[None] | None = None

    @property
    def behind(self) -> int:
        return 0 if self._place is None else self._feed.shelf.head - self._place

    async def next(self, seconds: float | None = None) -> list[Entry]:
        """What comes next, in turns; nothing when time is up, or nothing of it is wanted."""
        if self._place is None:
            return await self._past()
        if self._place == self._feed.shelf.head:
            await self._wait(seconds)
        return self._take()

    async def hand_out(self, sending: Awaitable[None]) -> None:
        """Await the sending of something that was taken. Meanwhile the feed waits for others only:
        if this takes its time, it is the client that does not read."""
        self.willing = False
        await sending
        self.willing = True

    def stands_before(self, place: int) -> bool:
        return self._place is not None and self._place < place

    def told(self, entry: Entry) -> None:
        """The feed has put this on the shelf."""
        if self._place is None:
            return
        if self._place < self._feed.shelf.base:
            self._fallen()
        if self._waiting is None or self._waiting.done():
            return
        if self._wanted.holds(entry.event):
            self.willing = True
            self._waiting.set_result(None)
        else:
            self._place, self.position = self._feed.shelf.head, self._feed.position

    async def _wait(self, seconds: float | None) -> None:
        self._waiting = waiting = asyncio.get_running_loop().create_future()
        try:
            if seconds is None:  # of a thousand that are woken by one event, each saves a timer
                await waiting
            else:
                await asyncio.wait((waiting,), timeout=seconds)
        finally:
            self._waiting = None

    def _take(self) -> list[Entry]:
        shelf, share, place = self._feed.shelf, self._feed.share, self._place
        if place is None or place < shelf.base:
            raise Overrun
        found: list[Entry] = []
        for entry in shelf.between(place, shelf.head):
            place += 1
            self.position = entry.event.seq
            if self._wanted.holds(entry.event):
                found.append(entry)
                if len(found) == share:
                    break
        self._place = place
        self.willing = bool(found)
        return found

    # the past

    def go_back(self) -> None:
        """Leave the shelf; what was missed comes from the log, at the follower's own pace."""
        self._place = None

    async def join(self) -> None:
        """From now on: the end of the log is the beginning."""
        async with self._feed.lock:
            await self._feed.advance()
            self._place, self.position = self._feed.shelf.head, self._feed.position

    async def _past(self) -> list[Entry]:
        began = self.position
        async with self._feed.past:  # the writing too: it keeps the event loop
            page = await self._page()
            found = self._written(page)
        if len(page) < PAST_PAGE:
            try:
                found += self._written(await self._hand_over())
            except StorageError:
                self.position = began  # the page is not handed out, so it is asked for again
                raise
        return found

    def _written(self, events: list[Event]) -> list[Entry]:
        return [self._feed.entry(one) for one in events if self._wanted.holds(one)]

    async def _page(self) -> list[Event]:
        log, wanted = self._feed.log, self._wanted
        last = await log.last_event() if wanted.selects else 0
        page = await log.events(self.position, PAST_PAGE, wanted.work_item_id, wanted.types)
        if page:
            self.position = page[-1].seq
        elif last:
            self.position = last  # nothing that is wanted up to there
        return page

    async def _hand_over(self) -> list[Event]:
        """The rest of the past up to where the feed stands, and a place behind that.

        Numbers need not ascend, so they cannot be compared: that the feed stands still under
        its lock, and at the end of the log, is what makes gap and repeat impossible.
        """
        feed = self._feed
        async with feed.lock:
            await feed.advance()
            rest = await feed.log.events(self.position, PAST_PAGE)
            if len(rest) == PAST_PAGE and feed.position not in (one.seq for one in rest):
                return []
            rest = _up_to(rest, feed.position)
            self._place, self.position = feed.shelf.head, feed.position
            return rest


def _up_to(events: list[Event], last: int) -> list[Event]:
    """What lies behind `last` the feed will tell."""
    for index, event in enumerate(events):
        if event.seq == last:
            return events[: index + 1]
    return []
