"""Events of the feed that a connection receives by subscription."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rota.api.frames import (
    LAST_SEQ,
    Auth,
    Ping,
    Pong,
    Resync,
    ResyncHint,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from rota.feed import Feed, Overrun, Reading, Wanted
from rota.model.errors import InvalidInput, StorageError
from rota.model.events import EventType

DATABASE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """What the schema needs of a request about the connection itself."""

    name: str
    payloads: tuple[type, ...]
    gives: type


OWN_REQUESTS = (
    OwnRequest("auth", (Auth,), Welcome),
    OwnRequest("ping", (Ping,), Pong),
    OwnRequest("subscribe", (Subscribe,), Subscribed),
    OwnRequest("unsubscribe", (Unsubscribe,), Unsubscribed),
)


@dataclass(slots=True)
class Subscription:
    id: str
    asked: Subscribe
    say: Callable[[str], Awaitable[None]]
    too_slow: Callable[["Subscription"], None]
    after: int = 0  # the last event that was sent or skipped

    @property
    def hint(self) -> Resync:
        return Resync(
            ResyncHint(
                self.id,
                self.after,
                "this reader was too slow; connect again and subscribe behind `after`",
            )
        )

    async def run(self, feed: Feed, begun: Callable[[Subscribed], Awaitable[None]]) -> None:
        """Runs until cancelled or too slow. `begun` answers the request, before the first event."""
        asked, late = self.asked, lambda: self.too_slow(self)
        async with feed.follow(_wanted(asked), _after(asked), late) as reading:
            self.after = reading.position
            await begun(Subscribed(self.id, self.after))
            try:
                while True:
                    await self._pass_on(reading)
            except Overrun:
                self.too_slow(self)

    async def _pass_on(self, reading: Reading) -> None:
        tail = f',"subscription":"{self.id}"}}'
        try:
            entries = await reading.next()
        except StorageError:  # while reading past events, which are asked for again
            await asyncio.sleep(DATABASE_SECONDS)
            return
        for entry in entries:
            await reading.hand_out(self.say(entry.text[:-1] + tail))
            self.after = entry.event.seq
        self.after = reading.position
        if reading.behind:
            await asyncio.sleep(0)  # lets other tasks run, such as requests of clients


def _after(asked: Subscribe) -> int | None:
    return None if asked.after is None else min(int(asked.after), LAST_SEQ)


def _wanted(asked: Subscribe) -> Wanted:
    known = sorted(EventType)
    types = asked.types or ()
    for kind in types:
        if kind not in known:
            raise InvalidInput(
                f"types: {kind[:80]!r} is no event type; there are {', '.join(known)}",
                field="types",
            )
    return Wanted(types, asked.work_item_id, asked.project_id, asked.agent)
