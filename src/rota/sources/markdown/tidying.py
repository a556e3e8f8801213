"""Writes results into the files. The steps follow from recorded ends; any process may take them,
and each is done once."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rota.files import settle
from rota.model.errors import WorkSourceError
from rota.model.status import Status
from rota.sources.markdown import frontmatter
from rota.sources.markdown.claimlog import ClaimLog, End, scrap_age, scrap_name
from rota.sources.markdown.folder import CLAIMS, DONE, Folder
from rota.sources.markdown.frontmatter import BadFrontMatter
from rota.sources.markdown.sheet import SUFFIX, BadSheet, Sheet

PATIENCE = 5.0  # seconds to wait for another process that holds the lock
SCRAP_SECONDS = 3600.0
ROUNDS = 5  # how often a text is rebuilt because somebody has edited the file meanwhile
STATUS_OF = {"success": Status.COMPLETED, "failure": Status.FAILED, "partial": Status.BLOCKED}


class Tidying:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def mend_all(self) -> None:
        """Finish what other processes have left, so that no result waits for an agent that is
        gone."""
        try:
            names = [one.name for one in self._folder.claims.iterdir()]
        except FileNotFoundError:
            return
        for name in names:
            if (scrap_age(name, self._folder.clock.now()) or 0.0) > SCRAP_SECONDS:
                _remove(self._folder.claims / name)
            elif not name.startswith(".") and self._is_pending(name):
                self.mend(name)

    def _is_pending(self, stem: str) -> bool:
        with contextlib.suppress(BadSheet):
            return self._folder.standing(stem).is_pending
        return False

    def mend(self, stem: str) -> None:
        """Write an accepted result into the file. A result that cannot be written now stays with
        the claim, and the next process tries again."""
        with (
            contextlib.suppress(BadSheet, BadFrontMatter, OSError, WorkSourceError),
            self._alone() as alone,
            ClaimLog.opened(self._folder.claims, stem) as log,
        ):
            if log is not None and alone:
                self._settle(stem, log)

    def _settle(self, stem: str, log: ClaimLog) -> None:
        standing = log.standing()
        if not standing.is_pending or standing.end is None:
            return
        if standing.end.kind == "success":
            self._move(stem, standing.end)
            log.discard(scrap_name(self._folder.clock.now(), standing.end.by))
        else:
            self._write(stem, standing.end)
            log.tell(standing.number)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        lock = self._folder.make(CLAIMS) / ".lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(lock, flags, 0o666)
        try:
            yield _locked(handle, PATIENCE)
        finally:
            os.close(handle)

    def _move(self, stem: str, end: End) -> None:
        if any(result.get("claim") == end.by for result in self.results(stem)):
            return  # already moved; a file of this name here is a new one
        written = self._write(stem, end)
        if written is None:
            return
        done = self._folder.make(DONE)
        target = next(path for path in self._done_files(stem) if not os.path.lexists(path))
        written.rename(target)
        settle(done)
        settle(self._folder.path)

    def results(self, stem: str) -> Iterator[dict[str, Any]]:
        """The results of the files in `done/` that this item may have become."""
        for path in self._done_files(stem):
            if not os.path.lexists(path):
                return
            with contextlib.suppress(BadSheet):
                found = self._folder.sheet(path)
                yield found.result if found is not None else {}

    def _done_files(self, stem: str) -> Iterator[Path]:
        """An item of the same name may be completed again."""
        yield self._folder.done_file(stem)
        for number in range(2, 10_000):
            yield self._folder.done_file(f"{stem}-{number}")

    def _write(self, stem: str, end: End) -> Path | None:
        """None when somebody has removed the file."""
        path = self._folder.file(stem)
        for _ in range(ROUNDS):
            self._folder.forget(path)
            found = self._folder.sheet(path)
            if found is None:
                return None
            if found.result.get("claim") == end.by:
                return path
            result = {**end.result, "agent": end.agent, "at": end.at, "claim": end.by}
            changes = {"status": str(STATUS_OF[end.kind]), "result": result}
            if self._replace(path, found, frontmatter.changed(found.text, changes), end.by):
                return path
        raise BadSheet("it is being written to all the time")

    def _replace(self, path: Path, old: Sheet, text: str, token: str) -> bool:
        """False when somebody has edited or removed the file meanwhile: that change is kept.
        Checked last, because writing the new text to disk may take long."""
        scrap = self._folder.claims / f"{scrap_name(self._folder.clock.now(), token)}{SUFFIX}"
        try:
            with scrap.open("wb") as file:
                file.write(text.encode())
                file.flush()
                os.fchmod(file.fileno(), old.mode)
                os.fsync(file.fileno())
            if not self._folder.is_as_read(path):
                return False
            scrap.replace(path)
        finally:
            scrap.unlink(missing_ok=True)
        settle(path.parent)
        return True


def _remove(scrap: Path) -> None:
    if scrap.is_dir():
        shutil.rmtree(scrap, ignore_errors=True)
    else:
        scrap.unlink(missing_ok=True)


def _locked(handle: int, seconds: float) -> bool:
    """Waits for another process, but not for one that is frozen."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)  # flock itself has no timeout
        else:
            return True
