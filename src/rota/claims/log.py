"""An issue's claim log on its tracker: read whole, appended to, never edited.

A post whose answer was lost may or may not have been stored. Before a post is repeated, the log is
searched for it for as long as a write can stay invisible.
"""

from dataclasses import dataclass

from rota.claims.comments import Believed, Entry, Kind, entries, marker
from rota.claims.fold import Standing, fold
from rota.claims.port import Comment, Tracker
from rota.claims.timing import Pace, Times
from rota.model.errors import AnswerUnknown


@dataclass(slots=True)
class ClaimLog:
    tracker: Tracker
    believed: Believed
    times: Times
    pace: Pace

    async def read(self, number: int) -> list[Entry]:
        return entries(await self.tracker.comments(number), self.believed)

    async def standing(self, number: int) -> Standing:
        return self.fold(await self.read(number))

    def fold(self, log: list[Entry]) -> Standing:
        return fold(log, self.times.grace)

    async def append(
        self, number: int, kind: Kind, text: str = "", **fields: str | int | None
    ) -> Entry | None:
        """Post one entry; None when the tracker does not show whether it was stored."""
        first = marker(kind, **fields)
        try:
            posted = await self.tracker.comment(number, f"{first}\n{text}".rstrip())
        except AnswerUnknown:
            found = await self._find(number, first)
            return None if found is None else _entry(found)
        return _entry(posted)

    async def _find(self, number: int, first: str) -> Comment | None:
        """Look for our own post for twice as long as a write can stay invisible."""
        until = self.pace.elapsed() + 2 * self.times.settle
        while True:
            for comment in await self.tracker.comments(number):
                if self._is(comment, first):
                    return comment  # the lowest id: comments come in the order of their ids
            if self.pace.elapsed() >= until:
                return None
            await self.pace.sleep(self.times.settle / 2)

    def _is(self, comment: Comment, first: str) -> bool:
        return comment.body.lstrip().startswith(first) and comment.author.id in self.believed.fleets

    def merged(self, log: list[Entry], own: Entry) -> list[Entry]:
        """The log with our own entry added where the tracker does not show it yet."""
        if any(entry.id == own.id for entry in log):
            return log
        return sorted([*log, own], key=lambda entry: entry.id)

    async def settle(self) -> None:
        """Wait until every claim and end written before now can be read."""
        await self.settle_talk()

    async def settle_talk(self) -> None:
        """Wait until every comment written before now can be read."""
        jitter = self.pace.random.random() * self.times.settle_jitter
        await self.pace.sleep(self.times.settle + jitter)


def _entry(comment: Comment) -> Entry:
    everybody = frozenset({comment.author.id})
    return entries([comment], Believed(everybody, everybody))[0]
