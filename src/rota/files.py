"""Files that have their old content or their new one, never half, whatever happens to the power."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONGEST_PREFIX = 200  # a name has 255 bytes at most


@contextmanager
def replacing(target: Path, *, mode: int = 0o600) -> Iterator[Path]:
    """An empty file beside the target, to be filled. It takes the target's place when the block
    ends well and all of it is on disk; otherwise it is gone.

    Its name cannot be foreseen: two who write at once do not share it, and nobody has put a link
    there that leads elsewhere.
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
        # Where it could not be written it need not be removed, and that must not hide why.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def settle(directory: Path) -> None:
    """What was renamed in it stays so."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
