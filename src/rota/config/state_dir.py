"""The state directory: used by one server at a time, which it names."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rota.config.settings import LEDGER
from rota.files import replacing
from rota.model.errors import Refused, StorageUnavailable

_OWN_FILES = (
    "server.lock",
    "server.json",
    "place",
    "paused-repos.json",
    "paused-repos.lock",
    "setup.json",
    ".gitignore",
)
_EVERYTHING = "*\n"
_MACHINE = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class RunningServer:
    url: str
    pid: int


class StateDir:
    """Private to its owner (0700): it holds the ledger and the logs of agents."""

    def __init__(self, path: Path, machine: Path = _MACHINE) -> None:
        self.path = path
        self._machine = machine

    @property
    def lock_file(self) -> Path:
        return self.path / "server.lock"

    @property
    def server_file(self) -> Path:
        return self.path / "server.json"

    @property
    def _ignored(self) -> Path:
        return self.path / ".gitignore"

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Files that nobody else may write, beside the ledger."""
        return tuple(self.path / name for name in _OWN_FILES)

    def create(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True)
        except FileExistsError as error:
            if not self.path.is_dir():
                raise self._not_created(error) from error
        except OSError as error:
            raise self._not_created(error) from error
        else:
            self._hide_from_git()

    def _not_created(self, error: OSError) -> StorageUnavailable:
        return StorageUnavailable(
            f"cannot create the state directory {self.path}: {error.strerror}; name another"
            " with --state-dir or ROTA_STATE_DIR"
        )

    def _hide_from_git(self) -> None:
        """So that `git add -A` does not add the ledger. If a person deletes it, it stays
        deleted."""
        with contextlib.suppress(OSError):
            self._ignored.touch(mode=0o600, exist_ok=False)
            self._ignored.write_text(_EVERYTHING)

    @property
    def is_unused(self) -> bool:
        """It exists, and contains only what `create` puts there."""
        try:
            names = {one.name for one in self.path.iterdir()}
            return not names or (
                names == {self._ignored.name} and self._ignored.read_text() in ("", _EVERYTHING)
            )
        except OSError:
            return False

    @property
    def is_ours(self) -> bool:
        """It has nothing else in it, or a server or a ledger was there."""
        return self.is_unused or any(one.exists() for one in (self.lock_file, self.path / LEDGER))

    def remove_if_unused(self) -> None:
        if self.is_unused:
            self._ignored.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.path.rmdir()

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Hold the directory while a server runs. The lock ends with the process, so a crash leaves
        nothing to clean up."""
        self.create()
        with self._writing():
            handle = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock(handle)
            with self._writing():
                os.ftruncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
            try:
                yield
            finally:  # only the holder of the lock removes the announcement
                self.server_file.unlink(missing_ok=True)
        finally:
            os.close(handle)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StorageUnavailable(
                f"the state directory {self.path} cannot be written; run as its owner, chown it, or"
                " name another with --state-dir or ROTA_STATE_DIR"
            ) from error
        except OSError as error:
            raise StorageUnavailable(
                f"cannot write in the state directory {self.path}: {error.strerror}; name another"
                " with --state-dir or ROTA_STATE_DIR"
            ) from error

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise Refused(
                f"a Rota server (pid {pid or 'unknown'}) already runs on {self.path}; stop it, or"
                " give this one its own --state-dir",
                pid=pid,
            ) from None

    def place(self) -> str:
        """A name that no other state directory has."""
        return f"{socket.gethostname()}:{self.path.resolve()}#{self.home()}"

    def home(self) -> str:
        """The end of its place. It stays the same when a container gets another host name.

        Machines may share a name and a layout (clones, containers), and a clone also has the
        contents of the directory. Servers with the same place would take each other for dead, so
        the machine's id is part of it. That id is private, so it is only used in a hash.
        """
        mark = self.path / "place"
        if not mark.exists():
            with self._writing():
                _write(mark, secrets.token_hex(8))
        own = f"{mark.read_text().strip()}/{self._machine_id()}".encode()
        return hashlib.sha256(own).hexdigest()[:16]

    def _machine_id(self) -> str:
        """Empty where the system has none."""
        with contextlib.suppress(OSError, ValueError):
            return self._machine.read_text().strip()
        return ""

    @property
    def has_place(self) -> bool:
        return (self.path / "place").exists()

    def announce(self, url: str) -> None:
        with self._writing():
            _write(self.server_file, json.dumps({"url": url, "pid": os.getpid()}))

    def running(self) -> RunningServer | None:
        """The server that holds this directory, if any."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self.server_file.read_text())
            server = RunningServer(str(found["url"]), int(found["pid"]))
            return server if self.is_held else None
        return None

    @property
    def is_held(self) -> bool:
        """Whether a living server holds it, even one that is not announced yet. Another process may
        reuse a pid, but not the lock."""
        with contextlib.suppress(OSError):
            handle = os.open(self.lock_file, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(handle)
        return False


def _write(file: Path, text: str) -> None:
    """Atomic, because it may be read at any moment."""
    with replacing(file) as partial:
        partial.write_text(text)
