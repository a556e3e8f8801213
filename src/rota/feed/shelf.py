"""The latest events, kept once for all followers."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from rota.model.events import Event


@dataclass(frozen=True, slots=True)
class Entry:
    """An event and its text, which is written once and sent to all followers."""

    event: Event
    text: str


@dataclass(slots=True)
class Shelf:
    """Entries have places, counted from the very first entry; the oldest are dropped first.

    A follower remembers its place, and nothing is kept for it: a thousand followers that do not
    read cost no more than one.
    """

    most: int
    most_characters: int
    head: int = 0  # the place after the last entry
    _entries: deque[Entry] = field(default_factory=deque)
    _characters: int = 0

    @property
    def base(self) -> int:
        """The place of the oldest entry."""
        return self.head - len(self._entries)

    def add(self, entry: Entry) -> None:
        for _ in range(self.base_with(entry) - self.base):
            self._characters -= len(self._entries.popleft().text)
        self._entries.append(entry)
        self._characters += len(entry.text)
        self.head += 1

    def base_with(self, entry: Entry) -> int:
        """The place of the oldest entry once this one is added."""
        place, number = self.base, len(self._entries) + 1
        characters = self._characters + len(entry.text)
        for old in self._entries:
            if number <= self.most and characters <= self.most_characters:
                break
            place, number, characters = place + 1, number - 1, characters - len(old.text)
        return place

    def between(self, place: int, end: int) -> Iterator[Entry]:
        return islice(self._entries, place - self.base, end - self.base)

    def clear(self) -> None:
        """Places keep counting, so a follower with an old place is overrun."""
        self._entries.clear()
        self._characters = 0
