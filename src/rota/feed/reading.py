"""One follower's position in the log: first in the past, page by page, then on the shelf."""

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
    """The follower is so late that the shelf has moved on; what it missed is in the log."""


class Reading:
    def __init__(
        self, feed: "Feed", wanted: Wanted, after: int | None, fallen: Callable[[], None]
    ) -> None:
        self.position = after or 0  # the last event that was taken or skipped
        self.willing = False  # it has entries to take and waits only for the event loop
        self._feed = feed
        self._wanted = wanted
        self._fallen = fallen
        self._place: int | None = None  # on the shelf; None while in the past
        self._waiting: asyncio.Future[None] | None = None

    @property
    def behind(self) -> int:
        return 0 if self._place is None else self._feed.shelf.head - self._place

    async def next(self, seconds: float | None = None) -> list[Entry]:
        """The next entries, at most one turn's share; empty when time is up or none is wanted."""
        if self._place is None:
            return await self._past()
        if self._place == self._feed.shelf.head:
            await self._wait(seconds)
        return self._take()

    async def hand_out(self, sending: Awaitable[None]) -> None:
        """Await the sending of entries. The feed does not wait for this follower meanwhile: if
        sending takes long, the client does not read."""
        self.willing = False
        await sending
        self.willing = True

    def stands_before(self, place: int) -> bool:
        return self._place is not None and self._place < place

    def told(self, entry: Entry) -> None:
        """The feed has put this entry on the shelf."""
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
            if seconds is None:  # saves a timer for each of a thousand followers
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
        """Leave the shelf: missed events then come from the log, at the follower's own pace."""
        self._place = None

    async def join(self) -> None:
        """Start at the end of the log."""
        async with self._feed.lock:
            await self._feed.advance()
            self._place, self.position = self._feed.shelf.head, self._feed.position

    async def _past(self) -> list[Entry]:
        began = self.position
        async with self._feed.past:  # writing the texts too, because that occupies the event loop
            page = await self._page()
            found = self._written(page)
        if len(page) < PAST_PAGE:
            try:
                found += self._written(await self._hand_over())
            except StorageError:
                self.position = began  # the page was not returned, so read it again
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
            self.position = last  # no wanted event up to there
        return page

    async def _hand_over(self) -> list[Event]:
        """The rest of the past up to the feed's position, and a place on the shelf after it.

        Event numbers need not ascend, so they cannot be compared. There is no gap and no repeat
        because the feed stands still under its lock, at the end of the log.
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
    """The events up to `last`; the feed passes on later ones."""
    for index, event in enumerate(events):
        if event.seq == last:
            return events[: index + 1]
    return []
