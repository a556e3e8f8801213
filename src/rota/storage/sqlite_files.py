"""The file of a SQLite ledger: begins it, checks whether it is sound, restores a backup over it.

The backup is written over the old ledger in one SQLite transaction. A new file under the old name
would be wrong: SQLite would replay a log that a crash has left over it, and a process that had
opened the old file a moment before would keep writing there.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from rota.files import settle
from rota.model.errors import InvalidInput, Refused, StorageUnavailable
from rota.storage.migrations import demand_current, migrations, state_of
from rota.storage.sqlite_errors import translated

LOGS = ("-wal", "-journal")  # may hold changes that are not in the database file
SIDES = (*LOGS, "-shm")  # what SQLite keeps beside a database
_BUSY_MILLISECONDS = 1_000
# The bytes that SQLite itself locks: every open connection locks some of them.
_LOCKS_AT, _LOCKS_WIDE = 0x4000_0000, 512


@dataclass(frozen=True, slots=True)
class Restored:
    kept: Path | None  # where the old ledger is now, or only its log; None if there was neither
    pending: list[str]  # migrations that the restored ledger still needs


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def prepare(path: Path) -> None:
    """A file to be opened: one that is there, or a new one.

    SQLite takes an empty file for a new database. But a new ledger appears with its header or not
    at all, even if the power fails, so one that is empty has been cut off.
    """
    demand_filled(path)
    if not path.exists():
        _begin(path.resolve() if path.is_symlink() else path)
    os.close(os.open(path, os.O_RDWR))


def demand_filled(path: Path) -> None:
    """To be asked before SQLite opens the file: it deletes a log that lies beside an empty one."""
    if path.is_file() and not path.stat().st_size:
        raise StorageUnavailable(
            f"{path} is empty, which a ledger never is: what was in it is gone; restore a backup"
            " (rota db restore FILE), or delete the file to begin a new ledger"
        )


def _begin(path: Path) -> None:
    """Readable by the owner only: the ledger holds what people wrote."""
    handle, name = tempfile.mkstemp(prefix=".ledger.", suffix=".partial", dir=path.parent)
    partial = Path(name)
    try:
        with translated(path), contextlib.closing(apsw.Connection(name)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # writes the header
        os.fsync(handle)
        with contextlib.suppress(FileExistsError):  # somebody else has begun it meanwhile
            _appear(partial, path)
        settle(path.parent)
    finally:
        os.close(handle)
        partial.unlink()


def _appear(partial: Path, path: Path) -> None:
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no hard links
        path.touch(0o600, exist_ok=False)  # after a crash here, it has to be deleted
        with path.open("wb") as file:
            file.write(partial.read_bytes())
            file.flush()
            os.fsync(file.fileno())


def fault_in(path: Path) -> str | None:
    """The first fault that SQLite finds in the file's structure, or None."""
    demand_filled(path)
    with translated(path), contextlib.closing(_opened(path)) as connection:
        return _fault(connection)


def restore(path: Path, source: Path, kept: Path) -> Restored:
    """Write `source` over the ledger at `path`; the old ledger is kept at `kept`.

    A crash at any moment leaves either the old ledger or the new one whole. An old ledger that
    SQLite cannot read is moved together with its logs, and so are logs whose ledger is gone.
    """
    kept = _free(kept)
    with translated(source), _backup_at(source) as new:
        pending = _pending_of_sound(new, source)
        try:
            with translated(path):
                return Restored(_replace(path, new, kept), pending)
        except OSError as error:
            raise StorageUnavailable(
                f"cannot write {error.filename or path}: {error.strerror}; the ledger is as it was"
            ) from error


# the backup


@contextlib.contextmanager
def _backup_at(path: Path) -> Iterator[apsw.Connection]:
    """Opened read-only. If there is no log beside the backup, SQLite creates none."""
    alone = not any(beside(path, ending).exists() for ending in SIDES)
    address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with contextlib.closing(apsw.Connection(address, flags)) as connection:
        yield connection


def _pending_of_sound(new: apsw.Connection, source: Path) -> list[str]:
    try:
        fault = _fault(new)
    except apsw.NotADBError:
        raise InvalidInput(
            f"{source} is not a SQLite database; restore a file that rota db backup wrote"
        ) from None
    if fault:
        raise InvalidInput(f"{source} is damaged ({fault}); restore an older backup")
    applied = _applied(new)
    if not applied.keys() & {migration.name for migration in migrations("sqlite")}:
        raise InvalidInput(
            f"{source} is a database, but no ledger of Rota; restore a file that rota db backup"
            " wrote"
        )
    state = state_of("sqlite", applied)
    if state.unknown or state.changed:
        demand_current(state, str(source))
    return state.pending


def _applied(connection: apsw.Connection) -> dict[str, str]:
    try:
        rows = connection.execute("SELECT name, sha256 FROM schema_migrations").fetchall()
    except apsw.SQLError:  # no such table, or the table of another program
        return {}
    return {str(name): str(sha256) for name, sha256 in rows}


def _fault(connection: apsw.Connection) -> str | None:
    try:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchall()[0][0])
    except apsw.CorruptError as error:
        return str(error)
    return None if found == "ok" else " ".join(found.split())


# the old ledger


def _free(kept: Path) -> Path:
    """A name without leftovers: SQLite would replay an old log that lies beside the kept file."""
    while any(beside(kept, ending).exists() for ending in ("", *SIDES)):
        kept = kept.with_name(f"{kept.stem}-more{kept.suffix}")
    return kept


def _replace(path: Path, new: apsw.Connection, kept: Path) -> Path | None:
    """The path where the old ledger is kept."""
    _make(path)
    was_empty = _size(path) == 0
    if was_empty and (log := _log_of(path)) is not None:
        _exchange(path, new, kept)
        return beside(kept, log)
    try:
        ledger = _alone(path)
    except (apsw.NotADBError, apsw.CorruptError):  # SQLite cannot write over it
        _exchange(path, new, kept)
        return kept
    with contextlib.closing(ledger):
        if not was_empty:
            _keep(ledger, kept)
        _copy(new, ledger)
        path.chmod(0o600)
    return None if was_empty else kept


def _make(path: Path) -> None:
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_MILLISECONDS)
    return connection


def _alone(path: Path) -> apsw.Connection:
    """A connection that excludes all others until it is closed."""
    connection = _opened(path)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA synchronous = EXTRA")
        # Moves the log into the file and deletes it, which fails while others use the database.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
        beside(path, "-shm").unlink(missing_ok=True)
    except (apsw.BusyError, apsw.LockedError):
        connection.close()
        raise _in_use(path) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _in_use(path: Path) -> Refused:
    return Refused(
        f"{path} is open in another process; end what uses it (a server, rota watch, an agent's"
        " tools), and restore then"
    )


def _keep(ledger: apsw.Connection, kept: Path) -> None:
    """Copied through SQLite: opening and closing the file in any other way would drop our lock."""
    with _copied(ledger, kept) as partial:
        partial.replace(kept)
        settle(kept.parent)


@contextlib.contextmanager
def _copied(source: apsw.Connection, target: Path) -> Iterator[Path]:
    """A complete copy on the disk, for the caller to rename to `target`."""
    partial = beside(target, ".partial")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        with translated(partial), contextlib.closing(_opened(partial)) as copy:
            _copy(source, copy)
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step()


# files that SQLite cannot read or would delete


def _log_of(path: Path) -> str | None:
    """SQLite deletes a log beside an empty file. But if the ledger itself was deleted, the last
    commits may exist only in its log."""
    return next((ending for ending in LOGS if _size(beside(path, ending))), None)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _exchange(path: Path, new: apsw.Connection, kept: Path) -> None:
    """The new file is complete before the old one is replaced, which keeps its name until then."""
    with _locked(path), _copied(new, path) as partial:
        if _size(path):  # SQLite would delete a kept log that lies beside an empty file
            _link(path, kept)
        try:
            _move_sides(path, kept)
            settle(path.parent)
            partial.replace(path)
            settle(path.parent)
        except OSError as error:
            raise StorageUnavailable(
                f"cannot write {path}: {error.strerror}; the old ledger is kept as {kept}, restore"
                " once more"
            ) from error


def _link(path: Path, kept: Path) -> None:
    try:
        kept.hardlink_to(path)
    except OSError:  # some file systems have no hard links
        path.rename(kept)


def _move_sides(path: Path, kept: Path) -> None:
    """SQLite would replay a log that stays over the next database, or delete it."""
    for ending in SIDES:
        with contextlib.suppress(FileNotFoundError):
            beside(path, ending).rename(beside(kept, ending))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Locked as SQLite would lock it, if SQLite could read it."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS_WIDE, _LOCKS_AT)
        except BlockingIOError:
            raise _in_use(path) from None
        yield
