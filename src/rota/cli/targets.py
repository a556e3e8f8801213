"""Files that a command is asked to write: never one that the ledger uses."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.model.errors import StorageUnavailable

if TYPE_CHECKING:
    from rota.config import Settings

_ENDINGS = ("", "-wal", "-shm", "-journal")


def demand_target(settings: "Settings", target: Path, overwrite: bool) -> None:
    """Demand a file that does not exist yet, or may be replaced."""
    try:
        _demand(settings, target, overwrite)
    except OSError as error:
        raise StorageUnavailable(f"cannot write {target}: {error.strerror}") from error


def _demand(settings: "Settings", target: Path, overwrite: bool) -> None:
    for own in _own_files(settings):
        if _is_same(target, own):
            raise click.UsageError(
                f"{target} is one of the files that Rota itself works with; name another"
            )
    try:
        kind = target.stat().st_mode
    except FileNotFoundError:
        if not target.absolute().parent.is_dir():
            raise StorageUnavailable(f"cannot write {target}: there is no such directory") from None
        return
    if stat.S_ISDIR(kind):
        raise click.UsageError(f"{target} is a directory; name a file in it")
    if not stat.S_ISREG(kind):
        raise click.UsageError(f"{target} is not a regular file; name another")
    if not overwrite:
        raise click.UsageError(f"{target} exists already; --overwrite replaces it")


def _own_files(settings: "Settings") -> Iterator[Path]:
    from rota.app import sqlite_path
    from rota.config import StateDir

    yield from StateDir(settings.state_dir).own_files
    if "://" in settings.database and not settings.database.startswith("sqlite://"):
        return
    # SQLite follows links, and keeps its logs beside the file it finds.
    named = sqlite_path(settings.database)
    for path in (named, Path(os.path.realpath(named))):
        yield from StateDir(path.parent).own_files
        yield from (path.with_name(path.name + ending) for ending in _ENDINGS)


def _is_same(target: Path, own: Path) -> bool:
    if os.path.realpath(target) == os.path.realpath(own):
        return True
    return target.exists() and own.exists() and target.samefile(own)
