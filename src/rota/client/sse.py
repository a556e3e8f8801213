"""Server-sent events, as far as our own server writes them: bytes in, events out."""

from collections.abc import Iterator
from dataclasses import dataclass, field

_LONGEST = 4 * 1024 * 1024  # an event is an item's fields at most; this much is no event


@dataclass(slots=True)
class Message:
    data: str
    id: str | None = None


@dataclass(slots=True)
class Parser:
    """Feed it what arrives, however it is cut; it gives back the messages that are complete."""

    _rest: bytes = b""
    _data: list[str] = field(default_factory=list)
    _id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[Message]:
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._rest) > _LONGEST:
            raise ValueError("a line of the event stream has no end")
        for line in lines:
            message = self._take(line.decode(errors="replace"))
            if message is not None:
                yield message

    def _take(self, line: str) -> Message | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def _complete(self) -> Message | None:
        data, self._data = self._data, []
        return Message("\n".join(data), self._id) if data else None
