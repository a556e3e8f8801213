"""The folder: which files are items, and which of them could be claimed.

Synchronous, like everything here that waits for a disk: the adapter calls it in a thread.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from rota.files import settle
from rota.model.clock import Clock
from rota.model.errors import WorkSourceError
from rota.model.status import Status
from rota.sources.markdown import sheet as sheets
from rota.sources.markdown.claimlog import NEVER_CLAIMED, ClaimLog, Standing
from rota.sources.markdown.sheet import SUFFIX, BadSheet, Sheet

CLAIMS, DONE = ".claims", "done"


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not offered, and why."""

    name: str
    message: str
    passes: bool = False  # by itself: the process that ended the item is about to write the file


@dataclass(frozen=True, slots=True)
class Offer:
    """An item that could be claimed now, or once its present claim has ended."""

    sheet: Sheet
    standing: Standing


@dataclass(slots=True)
class Listing:
    available: list[Offer] = field(default_factory=list)
    claimed: list[Offer] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Unwritten(BadSheet):
    """The item has ended, but its file does not show that yet."""


class Folder:
    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path.absolute()
        self.clock = clock
        self._known: dict[Path, tuple[tuple[int, ...], Sheet | BadSheet]] = {}

    @property
    def claims(self) -> Path:
        return self.path / CLAIMS

    def file(self, stem: str) -> Path:
        return self.path / f"{stem}{SUFFIX}"

    def done_file(self, stem: str) -> Path:
        return self.path / DONE / f"{stem}{SUFFIX}"

    def place(self, stem: str) -> Path:
        """The path of its file now."""
        here, done = self.file(stem), self.done_file(stem)
        return done if not os.path.lexists(here) and os.path.lexists(done) else here

    def demand_own(self) -> None:
        """A repository may contain symbolic links that lead out of the folder."""
        if not self.path.is_dir():
            raise self._unreadable("it is no folder")
        for name in (CLAIMS, DONE):
            if (self.path / name).is_symlink():
                raise WorkSourceError(
                    f"{self.path / name} is a symbolic link; remove it: claims and completed items"
                    " are kept in the folder itself"
                )

    def _unreadable(self, why: str) -> WorkSourceError:
        return WorkSourceError(
            f"the folder {self.path} cannot be read: {why}; create it, or correct work_source.path",
            path=str(self.path),
        )

    def make(self, name: str) -> Path:
        """Creates one of our own directories."""
        self.demand_own()
        path = self.path / name
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            settle(self.path)
        ignore = path / ".gitignore"
        if name == CLAIMS and not ignore.exists():
            ignore.write_text("*\n")
        return path

    # files

    def sheet(self, path: Path) -> Sheet | None:
        """The parsed file; None when there is none. Raises `BadSheet`."""
        try:
            found = path.lstat()
            mark = _mark(found)
            known = self._known.get(path)
            if known is None or known[0] != mark:
                known = self._known[path] = (mark, _looked(path, found))
        except FileNotFoundError:
            return None
        if isinstance(known[1], BadSheet):
            raise known[1]
        return known[1]

    def is_as_read(self, path: Path) -> bool:
        """Nobody has written or removed the file since it was read."""
        known = self._known.get(path)
        try:
            return known is not None and known[0] == _mark(path.lstat())
        except FileNotFoundError:
            return False

    def forget(self, path: Path) -> None:
        """Read it again: two changes within one tick of the file system's clock look like one."""
        self._known.pop(path, None)

    def listing(self) -> Listing:
        self.demand_own()
        listing = Listing()
        for name in self._names():
            try:
                self._sort_in(name.removesuffix(SUFFIX), listing)
            except BadSheet as error:
                shown = name.encode(errors="replace").decode()
                passes = isinstance(error, Unwritten)
                listing.problems.append(Problem(shown, str(error), passes))
        for path in list(self._known):
            if not os.path.lexists(path):
                self.forget(path)
        return listing

    def _names(self) -> list[str]:
        try:
            return sorted(one.name for one in self.path.iterdir() if sheets.is_item(one.name))
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None

    def _sort_in(self, stem: str, listing: Listing) -> None:
        found = self.sheet(self.file(stem))
        if found is None:
            return
        standing = self.standing(stem)
        if standing.is_pending:
            raise Unwritten(unwritten(stem))
        if self.unfit(found) is None:
            live = standing.is_live(self.clock.now())
            (listing.claimed if live else listing.available).append(Offer(found, standing))

    def standing(self, stem: str) -> Standing:
        with ClaimLog.opened(self.claims, stem) as log:
            return NEVER_CLAIMED if log is None else log.standing()

    # fitness

    def unfit(self, found: Sheet) -> str | None:
        """Why nobody may take it, claimed or not. Raises `BadSheet`."""
        if found.status is not Status.QUEUED:
            return f"its status is {found.status}"
        for stem in found.blocked_by:
            if not self._is_completed(stem):
                return f"it waits for {stem!r}"
        return None

    def _is_completed(self, stem: str) -> bool:
        if not sheets.is_name(stem):
            raise BadSheet(f"blocked_by: {stem[:80]!r} is no name of a file here")
        try:
            here = self.sheet(self.file(stem))
        except BadSheet:
            return False
        if here is not None:
            return here.status is Status.COMPLETED
        if not os.path.lexists(self.done_file(stem)):
            raise BadSheet(f"it waits for {stem!r}, which is neither here nor in {DONE}/")
        return True


def unwritten(stem: str) -> str:
    return (
        "it has ended, and its result could not be written into the file yet; the result is kept in"
        f" {CLAIMS}/{stem}"
    )


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _looked(path: Path, found: os.stat_result) -> Sheet | BadSheet:
    try:
        return sheets.understood(path.name.removesuffix(SUFFIX), sheets.read(path), found)
    except BadSheet as error:
        return error
