"""Restores a backup over the ledger."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rota.app.ledgers import make_store, sqlite_path
from rota.config import Settings, StateDir
from rota.config.settings import is_postgres
from rota.model.errors import InvalidInput, Refused, StorageUnavailable

if TYPE_CHECKING:
    from rota.storage.sqlite_files import Restored


def restore(settings: Settings, source: Path) -> "Restored":
    """Holds the state directory as a server does, so that no server runs meanwhile."""
    from rota.storage.sqlite_files import restore as restore_file

    if _is_elsewhere(settings.database):
        raise Refused(
            "PostgreSQL restores with its own program, into an empty database: createdb NAME, then"
            f" pg_restore --no-owner --dbname NAME {source}; then name that one in DATABASE_URL"
        )
    path = sqlite_path(settings.database)
    try:
        if path.exists() and path.samefile(source):
            raise InvalidInput(f"{source} is the ledger itself; name a backup of it")
        home = StateDir(path.parent)
        home.create()
        with ExitStack() as held:
            # A server on the state directory may not use a database that is elsewhere, so only the
            # database's own directory is held, and only if it is a state directory.
            if home.path.resolve() == settings.state_dir.resolve() or home.lock_file.exists():
                _hold(home, held)
            # SQLite follows symbolic links, and keeps its logs beside the real file.
            real = path.resolve() if path.is_symlink() else path
            return restore_file(real, source, _kept(real))
    except OSError as error:
        raise StorageUnavailable(f"cannot restore {path}: {error.strerror}") from error


def _hold(state: StateDir, held: ExitStack) -> None:
    try:
        held.enter_context(state.occupied())
    except Refused as refused:
        pid = refused.details.get("pid") or "unknown"
        raise Refused(
            f"a Rota server (pid {pid}) runs on {state.path}; stop it, and restore then", pid=pid
        ) from None


def _is_elsewhere(database: str) -> bool:
    make_store(database)  # raises for an unknown kind of database
    return is_postgres(database)


def fault_in(database: str) -> str | None:
    """What is wrong with the structure of a SQLite file; None for PostgreSQL (not checked)."""
    from rota.storage.sqlite_files import fault_in as fault_in_file

    if _is_elsewhere(database):
        return None
    return fault_in_file(sqlite_path(database))


def _kept(path: Path) -> Path:
    """A free name that says what the file is."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name, number = f"{path.stem}-before-restore-{moment}", 1
    kept = path.with_name(f"{name}{path.suffix}")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{name}-{number}{path.suffix}")
    return kept
