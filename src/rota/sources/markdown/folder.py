"""The folder itself: what is in it, who takes what, and how an end is written down.

Synchronous: everything here waits for a disk, so the adapter calls it in a thread.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.model.clock import Clock, to_text
from rota.model.errors import WorkSourceError
from rota.model.status import Status
from rota.sources.markdown import frontmatter, sheet as sheets
from rota.sources.markdown.claimlog import (
    NEVER_CLAIMED,
    Claim,
    ClaimLog,
    End,
    Standing,
    scrap_age,
    scrap_name,
)
from rota.sources.markdown.frontmatter import BadFrontMatter
from rota.sources.markdown.sheet import SUFFIX, BadSheet, Sheet
from rota.sources.port import ClaimFailureReason

CLAIMS, DONE = ".claims", "done"
ROUNDS = 5  # how often a claim looks again after something has changed under its hands
PATIENCE = 5.0  # seconds that tidying up waits for another who does
SCRAP_SECONDS = 3600.0
STATUS_OF = {"success": Status.COMPLETED, "failure": Status.FAILED, "partial": Status.BLOCKED}


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not offered, and why."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Held:
    """Our claim of an item."""

    number: int
    token: str


@dataclass(frozen=True, slots=True)
class Denial:
    reason: ClaimFailureReason
    message: str


@dataclass(frozen=True, slots=True)
class Listing:
    available: list[Sheet]
    claimed: list[Sheet]
    problems: list[Problem]


class Folder:
    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path.absolute()
        self._clock = clock
        self._read: dict[Path, tuple[tuple[int, ...], Sheet | BadSheet]] = {}

    # reading

    def file_of(self, stem: str) -> Path:
        """Where its item is, or would be."""
        here = self.path / f"{stem}{SUFFIX}"
        done = self.path / DONE / f"{stem}{SUFFIX}"
        return done if not os.path.lexists(here) and os.path.lexists(done) else here

    def sheet(self, path: Path) -> Sheet | None:
        """What a file says; None when there is none. Raises `BadSheet`."""
        try:
            found = path.lstat()
        except FileNotFoundError:
            return None
        mark = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode)
        known = self._read.get(path)
        if known is None or known[0] != mark:
            known = self._read[path] = (mark, _looked(path, found))
        if isinstance(known[1], BadSheet):
            raise known[1]
        return known[1]

    def listing(self) -> Listing:
        listing = Listing([], [], [])
        for name in self._names():
            stem = name.removesuffix(SUFFIX)
            try:
                self._sort_in(stem, listing)
            except BadSheet as error:
                listing.problems.append(Problem(name, str(error)))
        self._read = {path: kept for path, kept in self._read.items() if os.path.lexists(path)}
        return listing

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.path) if sheets.is_item(name))
        except OSError as error:
            raise WorkSourceError(
                f"the folder {self.path} cannot be read: {error.strerror}; create it, or correct"
                " work_source.path",
                path=str(self.path),
            ) from None

    def _sort_in(self, stem: str, listing: Listing) -> None:
        found = self.sheet(self.path / f"{stem}{SUFFIX}")
        if found is None:
            return
        standing = self.standing(stem)
        if standing.is_pending:
            raise BadSheet(
                f"it has ended ({standing.end.kind if standing.end else ''}), and the result could"
                f" not be written into the file yet; it is in {CLAIMS}/{stem}"
            )
        if self._unfit(found) is None:
            live = standing.is_live(self._clock.now())
            (listing.claimed if live else listing.available).append(found)

    def standing(self, stem: str) -> Standing:
        with ClaimLog.opened(self.path / CLAIMS, stem) as log:
            return NEVER_CLAIMED if log is None else log.standing()

    def _unfit(self, found: Sheet) -> str | None:
        """Why nobody may take it, claimed or not."""
        if found.status is not Status.QUEUED:
            return f"its status is {found.status}"
        for stem in found.blocked_by:
            if not self._is_completed(stem, found):
                return f"it waits for {stem!r}"
        return None

    def _is_completed(self, stem: str, waiting: Sheet) -> bool:
        if not sheets.is_name(stem):
            raise BadSheet(f"blocked_by: {stem[:80]!r} is no name of a file here")
        try:
            here = self.sheet(self.path / f"{stem}{SUFFIX}")
        except BadSheet:
            return False
        if here is not None:
            return here.status is Status.COMPLETED
        if os.path.lexists(self.path / DONE / f"{stem}{SUFFIX}"):
            return True
        raise BadSheet(f"{waiting.stem} waits for {stem!r}, which is neither here nor in {DONE}/")

    # claiming

    def claim(self, stem: str, claim: Claim) -> Held | Denial:
        self.mend_all()
        for _ in range(ROUNDS):
            try:
                answer = self._try_to_claim(stem, claim)
            except BadSheet as error:
                return Denial(ClaimFailureReason.INVALID_STATE, str(error))
            except FileNotFoundError:
                continue  # it was completed between two steps of ours, and its claims are gone
            if answer is not None:
                return answer
        return Denial(ClaimFailureReason.ALREADY_CLAIMED, "others are quicker")

    def _try_to_claim(self, stem: str, claim: Claim) -> Held | Denial | None:
        """None: something has changed since we looked."""
        denial = self._denial(stem)
        if denial is not None:
            return denial
        with ClaimLog.opened(self._claims(), stem, create=True) as log:
            if log is None:
                return None
            standing, now = log.standing(), self._clock.now()
            if standing.is_live(now):
                who = standing.claim.agent if standing.claim else ""
                return Denial(ClaimFailureReason.ALREADY_CLAIMED, f"{who!r} holds it")
            if standing.is_open:
                log.enter_end(standing.number, self._end("lapsed", claim), now)
                return None
            number = standing.number + 1
            if standing.is_pending or not log.enter_claim(number, claim, now):
                return Denial(ClaimFailureReason.ALREADY_CLAIMED, "another was quicker")
            # All of it may have happened to the file while we were on our way here.
            if log.is_current() and self._denial(stem) is None:
                return Held(number, claim.token)
            log.enter_end(number, self._end("withdrawn", claim), now)
            return None

    def _denial(self, stem: str) -> Denial | None:
        found = self.sheet(self.path / f"{stem}{SUFFIX}")
        if found is None and not os.path.lexists(self.path / DONE / f"{stem}{SUFFIX}"):
            return Denial(ClaimFailureReason.NOT_FOUND, f"there is no {stem}{SUFFIX}")
        unfit = "it is completed" if found is None else self._unfit(found)
        return None if unfit is None else Denial(ClaimFailureReason.INVALID_STATE, unfit)

    def _end(self, kind: str, claim: Claim, reason: str | None = None) -> End:
        return End(kind, claim.token, claim.agent, to_text(self._clock.now()), reason)

    def _claims(self) -> Path:
        """The directory of claims; made at the first of them."""
        claims = self._own_directory(CLAIMS)
        ignore = claims / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        return claims

    def _own_directory(self, name: str) -> Path:
        path = self.path / name
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        if path.is_symlink() or not path.is_dir():
            raise WorkSourceError(
                f"{path} must be a directory of its own; what stands there leads elsewhere"
            )
        return path

    def beat(self, stem: str, held: Held) -> bool:
        """A sign of life; False when the claim has ended."""
        with ClaimLog.opened(self.path / CLAIMS, stem) as log:
            if log is None or not log.holds(held.number, held.token) or log.end_of(held.number):
                return False
            log.touch(held.number, self._clock.now())
            return True

    # ending

    def end(self, stem: str, held: Held, end: End) -> bool:
        """Say how our claim ended; False when somebody else has said so. Said twice is fine."""
        with ClaimLog.opened(self.path / CLAIMS, stem) as log:
            if log is None or not log.holds(held.number, held.token):
                return False
            if log.enter_end(held.number, end, self._clock.now()):
                return True
            stands = log.end_of(held.number)
            return stands is not None and (stands.by, stands.result) == (end.by, end.result)

    def has_ended_so(self, stem: str, end: End) -> bool:
        """Whether this very result of this agent stands there: then it is being told twice."""
        with ClaimLog.opened(self.path / CLAIMS, stem) as log:
            stands = log.standing().end if log is not None else None
        if stands is not None:
            return (stands.agent, stands.result) == (end.agent, end.result)
        shown = {**end.result, "agent": end.agent}
        return log is None and any(
            {key: result.get(key) for key in shown} == shown for result in self._results(stem)
        )

    def _results(self, stem: str) -> Iterator[dict[str, Any]]:
        """Of the files in `done/` that this item may have become."""
        for path in self._done_names(stem):
            if not os.path.lexists(path):
                return
            with contextlib.suppress(BadSheet):
                found = self.sheet(path)
                yield found.result if found is not None else {}

    def _done_names(self, stem: str) -> Iterator[Path]:
        yield self.path / DONE / f"{stem}{SUFFIX}"
        for number in range(2, 10_000):
            yield self.path / DONE / f"{stem}-{number}{SUFFIX}"

    # tidying up: steps that follow from what was decided, and may be taken by anybody

    def mend_all(self) -> None:
        claims = self.path / CLAIMS
        try:
            names = os.listdir(claims)
        except FileNotFoundError:
            return
        now = self._clock.now()
        for name in names:
            if (scrap_age(name, now) or 0.0) > SCRAP_SECONDS:
                shutil.rmtree(claims / name, ignore_errors=True)
            elif not name.startswith("."):
                with contextlib.suppress(BadSheet):
                    if self.standing(name).is_pending:
                        self.mend(name)

    def mend(self, stem: str) -> None:
        """Write a result that was accepted into the file. What cannot be written now stays with
        the claim, and is tried again by whoever comes next."""
        with (
            contextlib.suppress(BadSheet, BadFrontMatter, OSError, WorkSourceError),
            self._alone() as alone,
            ClaimLog.opened(self.path / CLAIMS, stem) as log,
        ):
            standing = log.standing() if log is not None and alone else NEVER_CLAIMED
            if log is None or not standing.is_pending or standing.end is None:
                return
            if standing.end.kind == "success":
                self._move(stem, standing.end)
                log.discard(scrap_name(self._clock.now(), standing.end.by))
            else:
                self._write(stem, standing.end)
                log.tell(standing.number)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        handle = os.open(self._claims() / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            yield _locked(handle, PATIENCE)
        finally:
            os.close(handle)

    def _move(self, stem: str, end: End) -> None:
        if any(result.get("claim") == end.by for result in self._results(stem)):
            return  # the file that is here now is a new one
        path = self._write(stem, end)
        if path is not None:
            done = self._own_directory(DONE)
            target = next(one for one in self._done_names(stem) if not os.path.lexists(one))
            path.rename(target)
            _sync(done)
            _sync(self.path)

    def _write(self, stem: str, end: End) -> Path | None:
        """None when somebody has removed the file."""
        path = self.path / f"{stem}{SUFFIX}"
        found = self.sheet(path)
        if found is None:
            return None
        if found.result.get("claim") != end.by:
            result = {**end.result, "agent": end.agent, "at": end.at, "claim": end.by}
            changes = {"status": str(STATUS_OF[end.kind]), "result": result}
            self._replace(path, frontmatter.changed(found.text, changes), found.mode, end.by)
        return path

    def _replace(self, path: Path, text: str, mode: int, token: str) -> None:
        scrap = self._claims() / f"{scrap_name(self._clock.now(), token)}{SUFFIX}"
        try:
            with scrap.open("wb") as file:
                file.write(text.encode())
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            scrap.replace(path)
        finally:
            scrap.unlink(missing_ok=True)
        _sync(path.parent)


def _looked(path: Path, found: os.stat_result) -> Sheet | BadSheet:
    try:
        return sheets.understood(path.name.removesuffix(SUFFIX), sheets.read(path), found)
    except BadSheet as error:
        return error


def _locked(handle: int, seconds: float) -> bool:
    """Waits for another who is at it, but not for one who has been frozen."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return True


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
