"""What a program prints, as lines; in as much memory as one long line takes."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator

CHUNK = 64 * 1024
LONGEST = 1024 * 1024  # bytes of a line that are looked at


class Lines:
    """Bytes in, lines of text out. What is not UTF-8 becomes U+FFFD; of a line that is too
    long the rest is left out."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._skipped = 0

    def feed(self, data: bytes) -> Iterator[str]:
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._add(part)
            yield self._taken()
        self._add(rest)

    def finish(self) -> Iterator[str]:
        if self._rest or self._skipped:
            yield self._taken()

    def _add(self, part: bytes) -> None:
        room = LONGEST - len(self._rest)
        self._rest += part[:room]
        self._skipped += max(0, len(part) - room)

    def _taken(self) -> str:
        text = self._rest.decode(errors="replace").removesuffix("\r")
        if self._skipped:
            text += f" … {self._skipped} bytes of this line were left out"
        self._rest.clear()
        self._skipped = 0
        return text


class LastLines:
    """The end of what was said, bounded."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: deque[str] = deque()
        self._used = 0

    def add(self, line: str) -> None:
        self._lines.append(line[-self._size :])
        self._used += len(self._lines[-1]) + 1
        while self._used > self._size and len(self._lines) > 1:
            self._used -= len(self._lines.popleft()) + 1

    @property
    def text(self) -> str:
        return "\n".join(self._lines).strip()


async def read_to_end(handle: int, heard: Callable[[bytes], None]) -> None:
    """Until nobody can write to this pipe any more. Owns the handle."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK)
    pipe = os.fdopen(handle, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while data := await reader.read(CHUNK):
            heard(data)
    finally:
        transport.close()
