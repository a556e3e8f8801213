"""The state directory: one server at a time, and where to find it."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rota.model.errors import Refused, StorageUnavailable


@dataclass(frozen=True, slots=True)
class RunningServer:
    url: str
    pid: int


class StateDir:
    """Private to its owner (0700): it holds the ledger and, later, logs of agents."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lock_file(self) -> Path:
        return self.path / "server.lock"

    @property
    def server_file(self) -> Path:
        return self.path / "server.json"

    def create(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageUnavailable(
                f"cannot create the state directory {self.path}: {error.strerror}; name another"
                " with --state-dir or ROTA_STATE_DIR"
            ) from error

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Hold the directory while a server runs. The lock dies with the process, so a crash
        leaves nothing to clean up."""
        self.create()
        handle = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock(handle)
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
            try:
                yield
            finally:  # whoever was turned away leaves the other's announcement alone
                self.server_file.unlink(missing_ok=True)
        finally:
            os.close(handle)

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

    def announce(self, url: str) -> None:
        """Written whole or not at all: the CLI may read it at any moment."""
        partial = self.server_file.with_suffix(".partial")
        partial.write_text(json.dumps({"url": url, "pid": os.getpid()}))
        partial.chmod(0o600)
        partial.replace(self.server_file)

    def running(self) -> RunningServer | None:
        """The server that holds this directory, if one does."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self.server_file.read_text())
            server = RunningServer(str(found["url"]), int(found["pid"]))
            return server if self._is_held() else None
        return None

    def _is_held(self) -> bool:
        """A pid may be reused by a stranger; the lock is only held by a living server."""
        with contextlib.suppress(OSError):
            handle = os.open(self.lock_file, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(handle)
        return False
