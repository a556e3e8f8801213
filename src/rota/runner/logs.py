"""The log of a run: one JSON object per line, readable while it grows.

Every line has `ts` and `text`; `stream` names the speaker (`stdout`, `stderr`, or `rota`), `type`
the kind of line if the runtime told it. A log has a limit: its beginning and its end are kept, and
a line between them says how much was dropped.
"""

import asyncio
import errno
import json
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from rota.model.clock import Clock, to_text
from rota.model.errors import InvalidInput, NotFound, StorageUnavailable
from rota.runner.output import shortened
from rota.runner.redaction import Redactor

END_KEPT = 64 * 1024  # bytes of the log's end that are kept beyond its limit
LONGEST_TEXT = 64 * 1024  # characters of one line's text
LONGEST_CALL = 500  # characters of a tool call's arguments
LONGEST_LINE = 1024 * 1024  # bytes of one line that a worker sends
PIECE = 256 * 1024
PATIENCE = 0.25  # seconds between two reads of a growing file

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def for_people(text: str) -> str:
    """Without characters that move a terminal's cursor or change its colours."""
    return _CONTROL.sub("", text)


class RunLog:
    """Written by the run alone. A full disk costs the log, not the run."""

    def __init__(self, path: Path, limit: int, redactor: Redactor, clock: Clock) -> None:
        self.path = path
        self.redactor = redactor
        self._clock = clock
        self._limit = limit
        self._written = 0
        self._dropped = 0
        self._end: deque[tuple[bytes, int]] = deque()  # lines, and their sizes in the output
        self._end_size = 0
        self._torn = b""  # the rest of a line whose beginning is written
        self._file: BinaryIO | None = None

    def open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.fdopen(os.open(self.path, flags, 0o600), "ab", buffering=0)

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write_end()
        if self._file is not None:
            self._file.close()

    @property
    def is_full(self) -> bool:
        return self._dropped > 0

    def say(self, text: str, **more: Any) -> None:
        """A message of Rota about the run. Never dropped."""
        self._put(self._encoded({"stream": "rota", **more, "text": text}))

    def write(self, events: Iterable[Mapping[str, Any]]) -> None:
        lines = [(self._encoded(event), _size(event)) for event in events]
        room = self._limit - self._written
        if sum(len(line) for line, _ in lines) <= room and not self._dropped:
            self._put(b"".join(line for line, _ in lines))
            return
        for line, size in lines:
            self._write_or_drop(line, size)

    def drop(self, size: int) -> None:
        """Counts `size` bytes of output as dropped without reading them; a negative size takes that
        back."""
        if not self._dropped:
            self._say_full()
        self._dropped += size

    def _write_or_drop(self, line: bytes, size: int) -> None:
        if not self._dropped and self._written + len(line) <= self._limit:
            self._put(line)
            return
        self.drop(size)
        self._end.append((line, size))
        self._end_size += len(line)
        while self._end_size > END_KEPT:
            self._end_size -= len(self._end.popleft()[0])

    def _say_full(self) -> None:
        self.say(
            f"the log has reached its limit of {self._limit} bytes; more output is dropped, but"
            " for its end",
            type="full",
        )

    def _write_end(self) -> None:
        if not self._dropped:
            return
        dropped = self._dropped - sum(size for _, size in self._end)
        self.say(f"{dropped} bytes of output were dropped here", type="dropped", bytes=dropped)
        self._put(b"".join(line for line, _ in self._end))

    def _encoded(self, event: Mapping[str, Any]) -> bytes:
        clean: dict[str, Any] = self.redactor.value(event)
        longest = LONGEST_CALL if clean.get("type") == "tool" else LONGEST_TEXT
        text, left_out = shortened(str(clean.get("text", "")), longest)
        if left_out:
            clean |= {"text": text, "left_out": left_out}
        line = {"ts": to_text(self._clock.now()), **clean}
        return json.dumps(line, ensure_ascii=True, default=str).encode() + b"\n"

    def _put(self, data: bytes) -> None:
        """A full disk may take half a line. The rest of that line is written before anything else,
        because readers have seen its beginning."""
        if self._file is None:
            return
        lines = self._torn + data
        done = _written(self._file, lines)
        begun = lines.find(b"\n", done - 1) + 1 if done else len(self._torn)
        self._torn = lines[done:begun]
        self._written += done
        self._dropped += len(lines) - begun


def _written(file: BinaryIO, data: bytes) -> int:
    """How many bytes were written: as many as there was space for."""
    try:
        return file.write(data)
    except OSError:
        return 0


def _size(event: Mapping[str, Any]) -> int:
    return len(str(event.get("text", "")).encode(errors="replace")) + 1


# reading, while the log is written


async def tail(
    path: Path,
    *,
    follow: bool = False,
    from_offset: int = 0,
    ended: Callable[[], Awaitable[bool]] | None = None,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[tuple[int, bytes]]:
    """Whole lines from this offset on, each with the offset after it.

    With `follow` it goes on until `ended` says that the run has ended, and everything written
    before is read. A log that does not exist yet counts as empty.
    """
    offset, rest = from_offset, b""
    while True:
        over = not follow or (ended is not None and await ended())
        while piece := await asyncio.to_thread(_read, path, offset + len(rest)):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                offset += len(line) + 1
                yield offset, line
        if over:
            return
        await pause(PATIENCE)


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(PIECE)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise NotFound(f"the log {path.name} cannot be read: {error.strerror}") from error


def append(path: Path, offset: int, data: bytes, *, limit: int) -> int:
    """Appends lines of a log that a worker writes elsewhere; returns the new size.

    A piece may come twice: bytes below the current size are skipped. Beyond the limit nothing is
    written: the worker's own log is capped, so only a faulty worker sends more.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            return _append(handle, offset, data, limit)
        finally:
            os.close(handle)
    except OSError as error:
        raise StorageUnavailable(f"the log cannot be written: {error.strerror}") from error


def _append(handle: int, offset: int, data: bytes, limit: int) -> int:
    size = _whole_lines(handle)
    if offset > size:
        raise InvalidInput(
            f"offset: the log has {size} bytes; send what comes after them", size=size
        )
    fresh = data[size - offset :]
    _demand_lines(fresh)
    kept = fresh[: max(0, limit - size)]
    kept = kept[: kept.rfind(b"\n") + 1]
    if os.pwrite(handle, kept, size) < len(kept):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return size + len(kept)


def _whole_lines(handle: int) -> int:
    """The size without an incomplete last line, left by a full disk or a crash: it is sent
    again."""
    size = os.fstat(handle).st_size
    if size == 0 or os.pread(handle, 1, size - 1) == b"\n":
        return size
    beginning = max(0, size - LONGEST_LINE - 1)
    return beginning + os.pread(handle, size - beginning, beginning).rfind(b"\n") + 1


def _demand_lines(data: bytes) -> None:
    """Whole lines, each a JSON object: readers of the log rely on that."""
    if data and not data.endswith(b"\n"):
        raise InvalidInput("a log is sent in whole lines; the last one has no end")
    for line in data.split(b"\n")[:-1]:
        if len(line) > LONGEST_LINE or not _is_object(line):
            raise InvalidInput(f"a line of a log is a JSON object, not {line[:60]!r}")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
