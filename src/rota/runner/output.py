"""Splits a program's output into lines; memory use is bounded by one long line."""

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterator

from rota.runner.redaction import NOTHING, Redactor

CHUNK = 64 * 1024
LONGEST = 1024 * 1024  # bytes of a line that are kept
_CONTINUED = bytes(range(0x80, 0xC0))  # UTF-8 continuation bytes: no character begins with one
_MARK = re.compile(r" … (\d{1,18}) characters left out$")


def shortened(text: str, longest: int) -> tuple[str, int]:
    """The beginning of the text with a mark after it, and how many characters are missing. Those
    that an earlier mark names are included."""
    if len(text) <= longest:
        return text, 0
    found = _MARK.search(text[-100:])
    before = int(found[1]) if found else 0
    missing = len(text) - len(found[0] if found else "") - longest + before
    return marked(text[:longest], missing), missing


def marked(text: str, missing: int) -> str:
    return f"{text} … {missing} characters left out"


class Lines:
    """Bytes in, lines of text out. Bytes that are not UTF-8 become U+FFFD; the rest of a line that
    is too long is left out."""

    def __init__(self, redactor: Redactor = NOTHING) -> None:
        self._redactor = redactor
        self._rest = bytearray()
        self._skipped = 0  # characters

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
        self._skipped += len(part[room:].translate(None, _CONTINUED))

    def _taken(self) -> str:
        text = self._rest.decode(errors="replace").removesuffix("\r")
        if self._skipped:
            kept = self._redactor.beginning(text)
            text = marked(kept, self._skipped + len(text) - len(kept))
        self._rest.clear()
        self._skipped = 0
        return text


class LastLines:
    """The end of the output, bounded, and without secrets."""

    def __init__(self, size: int, redactor: Redactor = NOTHING) -> None:
        self._size = size
        self._redactor = redactor
        self._lines: deque[str] = deque()
        self._used = 0

    def add(self, line: str) -> None:
        if len(line) > self._size:
            line = self._redactor.text(line)[-self._size :]
        self._lines.append(line)
        self._used += len(self._lines[-1]) + 1
        while self._used > self._size and len(self._lines) > 1:
            self._used -= len(self._lines.popleft()) + 1

    @property
    def text(self) -> str:
        return self._redactor.text("\n".join(self._lines)).strip()


class LastWords:
    """The end of a program's output, in whatever pieces it comes."""

    def __init__(self, size: int, redactor: Redactor = NOTHING) -> None:
        self._lines = Lines(redactor)
        self._last = LastLines(size, redactor)

    def hear(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._last.add(line)

    def finish(self) -> str:
        for line in self._lines.finish():
            self._last.add(line)
        return self._last.text


async def read_to_end(handle: int, heard: Callable[[bytes], None]) -> None:
    """Until no process can write to this pipe any more. Owns the handle."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK)
    pipe = os.fdopen(handle, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while data := await reader.read(CHUNK):
            heard(data)
    finally:
        transport.close()
