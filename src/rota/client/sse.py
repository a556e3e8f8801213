"""Parses server-sent events, as far as our own server writes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

_LONGEST = 4 * 1024 * 1024  # an event holds an item's fields at most; more than this is no event


@dataclass(slots=True)
class Parser:
    """Feed it chunks of any size; it returns the data of complete events.

    `last_id` is where to resume: the id of the last event returned. The server sends one before the
    first event, too.
    """

    last_id: str | None = None
    _rest: bytes = b""
    _data: list[str] = field(default_factory=list)
    _id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[str]:
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._rest) > _LONGEST:
            raise ValueError("a line of the event stream has no end")
        for line in lines:
            data = self._take(line.decode(errors="replace"))
            if data is not None:
                yield data

    def _take(self, line: str) -> str | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and value.isascii() and value.isdigit():
            self._id = value
        return None

    def _complete(self) -> str | None:
        data, self._data = self._data, []
        self.last_id = self._id
        return "\n".join(data) if data else None
