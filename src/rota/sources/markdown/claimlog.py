"""The claims of one item: numbered entries that appear whole, once, and are never changed."""

import contextlib
import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rota.files import settle
from rota.sources.markdown.sheet import BadSheet

R = TypeVar("R", "Claim", "End")
RECORD = "record.json"
LARGEST = 1024 * 1024  # bytes of a record
# Follow no link to another place, and do not wait for a pipe.
_UNFOLLOWED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Claim:
    agent: str
    firing_id: str
    token: str
    host: str
    pid: int
    at: str
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """`kind` is an outcome, or released, lapsed (taken over) or withdrawn (by its own claimant)."""

    kind: str
    by: str  # the token of the claim that ended it: its own, or a successor's
    agent: str
    at: str
    reason: str | None = None
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_result(self) -> bool:
        return bool(self.result)


@dataclass(frozen=True, slots=True)
class Standing:
    """The last claim of an item, if it ever had one."""

    number: int = 0
    claim: Claim | None = None
    seen_at: float = 0.0  # the holder's last heartbeat
    end: End | None = None
    told: bool = False  # the file shows its result

    def is_live(self, now: datetime) -> bool:
        # Both directions: a heartbeat far in the future is a wrong clock, not a longer lease.
        return self.is_open and abs(now.timestamp() - self.seen_at) < self._lease

    @property
    def is_open(self) -> bool:
        return self.claim is not None and self.end is None

    @property
    def is_pending(self) -> bool:
        """It ended with a result that the file does not show yet."""
        return self.end is not None and self.end.is_result and not self.told

    @property
    def _lease(self) -> float:
        return self.claim.lease_seconds if self.claim else 0.0


NEVER_CLAIMED = Standing()


class ClaimLog:
    """Held by an open descriptor: by path, the directory may be gone or replaced in the
    meantime."""

    def __init__(self, claims: Path, stem: str, handle: int) -> None:
        self._claims = claims
        self._path = claims / stem
        self._handle = handle

    @classmethod
    @contextmanager
    def opened(
        cls, claims: Path, stem: str, *, create: bool = False
    ) -> "Iterator[ClaimLog | None]":
        path = claims / stem
        if create:
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                settle(claims)  # an entry is durable only if its directory is
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise BadSheet(f"its claims in {path} cannot be read: {error.strerror}") from None
        try:
            yield cls(claims, stem, handle)
        finally:
            os.close(handle)

    def standing(self) -> Standing:
        """Raises `BadSheet` when a record was damaged."""
        names = set(os.listdir(self._handle))  # noqa: PTH208 - it has no path to be sure of
        numbers = [int(name.removesuffix(".claim")) for name in names if _is_claim(name)]
        if not numbers:
            return NEVER_CLAIMED
        number = max(numbers)
        try:
            claim, seen_at = self._read(f"{number}.claim", Claim)
        except FileNotFoundError:
            if self.is_current():
                raise self._damaged(f"{number}.claim") from None
            return NEVER_CLAIMED  # just removed, because the item is completed
        return Standing(number, claim, seen_at, self.end_of(number), f"{number}.told" in names)

    def end_of(self, number: int) -> End | None:
        try:
            return self._read(f"{number}.end", End)[0]
        except FileNotFoundError:
            return None

    def claim(self, number: int) -> Claim | None:
        """The claim of this number, ended or not."""
        try:
            return self._read(f"{number}.claim", Claim)[0]
        except FileNotFoundError:
            return None

    def holds(self, number: int, token: str) -> bool:
        """Whether claim `number` has this token, ended or not."""
        claim = self.claim(number)
        return claim is not None and claim.token == token

    def enter_claim(self, number: int, claim: Claim, now: datetime) -> bool:
        """False when a claim of this number exists."""
        return self._appear(f"{number}.claim", claim, now)

    def enter_end(self, number: int, end: End, now: datetime) -> bool:
        """False when the claim has ended already."""
        return self._appear(f"{number}.end", end, now)

    def tell(self, number: int) -> None:
        """Record that the file shows the result."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{number}.told", dir_fd=self._handle)

    def touch(self, number: int, now: datetime) -> None:
        """Renews the lease. By descriptor, so that it reaches only this claim's record."""
        handle = os.open(
            f"{number}.claim/{RECORD}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._handle
        )
        try:
            _set_time(handle, now)
        finally:
            os.close(handle)

    def is_current(self) -> bool:
        """Whether this is still the directory of the item's claims."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.lstat())
        except FileNotFoundError:
            return False

    def discard(self, scrap: str) -> None:
        """The item is completed: move its claims out of sight in one step, then delete them."""
        target = self._claims / scrap
        self._path.rename(target)
        shutil.rmtree(target, ignore_errors=True)

    def _read(self, name: str, kind: type[R]) -> tuple[R, float]:
        try:
            handle = os.open(f"{name}/{RECORD}", _UNFOLLOWED, dir_fd=self._handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise self._damaged(name) from None
            raise
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                raise self._damaged(name)
            with os.fdopen(handle, "rb", closefd=False) as file:
                return _record(file.read(LARGEST), kind), found.st_mtime
        except (ValueError, TypeError, RecursionError, msgspec.ValidationError):
            raise self._damaged(name) from None
        finally:
            os.close(handle)

    def _damaged(self, name: str) -> BadSheet:
        return BadSheet(
            f"{self._path / name} has been damaged; see that nobody works on the item, then remove"
            f" {self._path}"
        )

    def _appear(self, name: str, record: "Claim | End", now: datetime) -> bool:
        token = record.token if isinstance(record, Claim) else record.by
        scrap = self._claims / scrap_name(now, token)
        try:
            scrap.mkdir()
            _write(scrap / RECORD, json.dumps(asdict(record)).encode(), now)
            return self._renamed(scrap, name)
        finally:
            shutil.rmtree(scrap, ignore_errors=True)

    def _renamed(self, scrap: Path, name: str) -> bool:
        try:
            # Fails if the target exists, because no entry is ever empty.
            os.rename(scrap, name, dst_dir_fd=self._handle)
        except OSError as error:
            if isinstance(error, FileExistsError) or error.errno == errno.ENOTEMPTY:
                return False
            raise
        os.fsync(self._handle)
        return True


def _record(text: bytes, kind: type[R]) -> R:
    told = json.loads(text)
    msgspec.convert(
        told, kind
    )  # anybody may have written it: the folder can be part of a repository
    return kind(**told)


def _is_claim(name: str) -> bool:
    number, _, kind = name.partition(".")
    return kind == "claim" and number.isdecimal() and number.isascii()


def scrap_name(now: datetime, token: str) -> str:
    """Contains its time by our own clock, so that leftovers of a crash can be deleted by age."""
    return f".scrap-{int(now.timestamp())}-{token}"


def scrap_age(name: str, now: datetime) -> float | None:
    _, mark, rest = name.partition(".scrap-")
    seconds = rest.partition("-")[0]
    return now.timestamp() - int(seconds) if mark and seconds.isdecimal() else None


def _write(path: Path, data: bytes, now: datetime) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        _set_time(file.fileno(), now)
        os.fsync(file.fileno())


def _set_time(handle: int, now: datetime) -> None:
    moment = int(now.timestamp() * 1_000_000_000)
    os.utime(handle, ns=(moment, moment))
