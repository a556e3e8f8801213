"""Standard input, output and error in whatever state the shell passes them: closed, full, or unable
to encode some characters."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Unwritten(Exception):
    """Standard output did not take what was written to it."""

    def __init__(self, error: OSError) -> None:
        closed = error.errno == errno.EBADF
        super().__init__("standard output is closed" if closed else error.strerror or str(error))


class _Stream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Watched(_Stream):
    """Tells its own errors from those of other files. A reader that went away is not an error."""

    @property
    def buffer(self) -> "Watched":
        return Watched(self._stream.buffer)

    def write(self, text: Any) -> Any:
        with _telling():
            return self._stream.write(text)

    def flush(self) -> None:
        with _telling():
            self._stream.flush()


class Forgiving(_Stream):
    """For remarks: that nobody can read them is no reason to stop."""

    def write(self, text: Any) -> Any:
        with suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


class Unminded(_Stream):
    """Goes on where standard output does not take what is written to it."""

    def write(self, text: Any) -> Any:
        with suppress(Unwritten):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(Unwritten):
            self._stream.flush()


@contextmanager
def unminded() -> Iterator[None]:
    """For a command that works on by itself, and only remarks upon it: a server, a worker."""
    out = sys.stdout
    sys.stdout = Unminded(out)
    try:
        yield
    finally:
        sys.stdout = out
        try:
            out.flush()
        except Unwritten:
            _discard(out)


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(error) from error


@contextmanager
def prepared() -> Iterator[None]:
    """Replaces the standard streams while a command runs."""
    _open_closed()
    _forgive_encodings()
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Watched(out), Forgiving(err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        for stream in (out, err):
            try:
                if not stream.closed:
                    stream.flush()
            except OSError:
                _discard(stream)


def _discard(stream: Any) -> None:
    """Python flushes once more at exit, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open_closed() -> None:
    """Opens closed streams as /dev/null. Otherwise the next file to be opened would get the number
    of a standard stream, and with it everything that is printed. An answer can still not be written
    there: whoever closed standard output must not take it for told."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            if nowhere != number and not _is_open(number):
                os.dup2(nowhere, number)
                os.close(nowhere)
                nowhere = number
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r", closefd=False))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _forgive_encodings() -> None:
    """A terminal that cannot show a character gets a replacement; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
