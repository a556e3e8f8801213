"""Replaces files atomically: after a power cut, a file has its old content or its new one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONGEST_PREFIX = 200  # a name has 255 bytes at most


@contextmanager
def replacing(target: Path, *, mode: int = 0o600) -> Iterator[Path]:
    """An empty file beside the target, for the block to fill. When the block succeeds and the file
    is on disk, it replaces the target; otherwise it is deleted.

    Its name cannot be predicted: two concurrent writers do not share it, and nobody can have put a
    link there.
    """
    prefix = os.fsdecode(os.fsencode(target.name)[:_LONGEST_PREFIX])
    handle, name = tempfile.mkstemp(prefix=f"{prefix}.", suffix=".partial", dir=target.parent)
    partial = Path(name)
    try:
        yield partial
        os.fchmod(handle, mode)
        os.fsync(handle)
        partial.replace(target)
        settle(target.parent)
    finally:
        os.close(handle)
        # If this fails too, it must not hide the original error.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def settle(directory: Path) -> None:
    """Make renames in the directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
