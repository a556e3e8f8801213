"""Reads and writes whole files: a file has its old content or its new one, never half."""

import os
from contextlib import suppress
from pathlib import Path

from rota.files import replacing
from rota.model.errors import Refused, StorageUnavailable


def read(path: Path) -> str | None:
    """None: there is no file. Line endings are left as they are."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text (nothing was changed)") from None
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror} (nothing was changed)") from None


def write(path: Path, text: str, *, mode: int | None = None) -> None:
    """Follows a link to its target; keeps the file's mode."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, mode=mode or _mode(target)) as partial:
            partial.write_bytes(text.encode())
    except OSError as error:
        raise StorageUnavailable(f"cannot write {path}: {error.strerror}") from error


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        umask = os.umask(0o077)  # it can be read only by setting it
        os.umask(umask)
        return 0o666 & ~umask


def delete(path: Path) -> None:
    """Like `write`: a link stays, and its target is deleted."""
    try:
        path.resolve().unlink(missing_ok=True)
    except OSError as error:
        raise StorageUnavailable(f"cannot delete {path}: {error.strerror}") from error


def missing_parents(path: Path) -> list[Path]:
    """Directories that must be created for it, the outermost first."""
    return [one for one in reversed(path.parents) if not one.exists()]


def remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()
