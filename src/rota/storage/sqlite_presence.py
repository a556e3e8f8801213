"""Whether a database is still where others look for it."""

from pathlib import Path

from rota.model.errors import StorageUnavailable

_Identity = tuple[int, int] | None


def log_of(path: Path) -> Path:
    """SQLite follows links, and keeps its log beside the file that it finds."""
    real = path.resolve() if path.is_symlink() else path
    return real.with_name(real.name + "-wal")


class Presence:
    """The files of one open database, known by their inodes.

    A file that was deleted or replaced goes on for who has it open, and takes
    every commit with it when that process ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = (path, log_of(path))
        self._seen = [_identity(file) for file in self._files]

    def demand(self) -> None:
        """Raise, if what was just committed would not be found by the next process."""
        for number, file in enumerate(self._files):
            now = _identity(file)
            if self._seen[number] is None:  # the log is made when it is first needed
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
