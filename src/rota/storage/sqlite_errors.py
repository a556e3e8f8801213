"""Turns SQLite's errors into Rota's. Each message says what to do."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw

from rota.model.errors import (
    InvalidInput,
    NoFreeSlot,
    Refused,
    RotaError,
    StorageError,
    StorageUnavailable,
)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (apsw.Error, UnicodeEncodeError, OverflowError) as error:
        raise translate(error, path) from error


_ADVICE: dict[type[apsw.Error], str] = {
    apsw.BusyError: "another process has held its lock for too long; try again",
    apsw.LockedError: "it is locked; try again",
    apsw.FullError: "the disk is full; free some space and try again, no restart is needed",
    apsw.ReadOnlyError: "it is read-only; check the permissions of the file and its directory",
    apsw.CantOpenError: "it cannot be opened; check the path and its permissions",
    apsw.PermissionsError: "access is denied; check the permissions",
    apsw.IOError: "reading or writing failed; check the disk",
    apsw.CorruptError: "it is damaged; restore a backup (rota db restore FILE)",
    apsw.NotADBError: "it is not a SQLite database; name another file with --db or DATABASE_URL",
}


def translate(error: BaseException, path: Path) -> BaseException:
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return InvalidInput(f"a value that no database can hold: {error}")
    if isinstance(error, RotaError) or not isinstance(error, apsw.Error):
        return error
    if isinstance(error, apsw.ConstraintError):
        return _constraint(str(error))
    if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        error = apsw.FullError()  # there was no space for the index of the log
    for kind, advice in _ADVICE.items():
        if isinstance(error, kind):
            return StorageUnavailable(f"{path}: {advice}")
    return StorageError(f"{path}: {error}")


def _constraint(text: str) -> RotaError:
    """The services check first, so a constraint that still fails is a race or a bug."""
    if "work_items.assigned_agent, work_items.slot" in text:
        return NoFreeSlot("the agent already works on an item in this slot")
    if "work_items.source, work_items.source_ref" in text:
        return Refused("a live item with this source reference exists already")
    return StorageError(f"the database refused the change: {text}")
