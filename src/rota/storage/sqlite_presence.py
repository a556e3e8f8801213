"""Detects that the files of an open SQLite database were deleted or replaced."""

from pathlib import Path

from rota.model.errors import StorageUnavailable

_Identity = tuple[int, int] | None


def log_of(path: Path) -> Path:
    """SQLite follows symbolic links, and keeps its log beside the real file."""
    real = path.resolve() if path.is_symlink() else path
    return real.with_name(real.name + "-wal")


class Presence:
    """The files of one open database, known by their inodes.

    A process that has a deleted or replaced file open can go on writing to it.
    All those commits are lost when the process ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = (path, log_of(path))
        self._seen = [_identity(file) for file in self._files]

    def demand(self) -> None:
        """Raise if the next process would not find what was just committed."""
        for number, file in enumerate(self._files):
            now = _identity(file)
            if self._seen[number] is None:  # SQLite creates the log when it first needs it
                self._seen[number] = now
            elif now != self._seen[number]:
                raise StorageUnavailable(
                    f"{file} was deleted or replaced while it is in use, and nothing that is"
                    " written now would last; put the file back, or stop all who use the"
                    f" database and start again with what is at {self._path}"
                )


def _identity(file: Path) -> _Identity:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
