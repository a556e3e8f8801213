"""Paused repositories: an operator's "no pick-ups here", in a file of the state directory.

A pause must not fail open. Only a missing file means that nothing is paused. A file that cannot be
read or parsed raises `PauseUnreadable`, and nothing is picked up.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rota.config import Settings, StateDir
from rota.files import replacing
from rota.model.errors import MalformedReference, PauseUnreadable, Refused, StorageUnavailable

Names = list[str]  # an alias: PausedRepos has a method called `list`

FILE_NAME = "paused-repos.json"
PAUSED_REPOS_FILE: Path  # by __getattr__: in the state directory that the environment names now

_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)?\.?[A-Za-z0-9_][A-Za-z0-9_.-]*")


def __getattr__(name: str) -> Any:
    if name == "PAUSED_REPOS_FILE":
        return paused_repos_file()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def paused_repos_file() -> Path:
    return Settings.from_environment().state_dir / FILE_NAME


def is_repo_paused(repo: str) -> bool:
    return PausedRepos(paused_repos_file()).is_paused(repo)


def list_paused_repos() -> Names:
    return PausedRepos(paused_repos_file()).list()


def set_repo_paused(repo: str, paused: bool) -> Names:
    return PausedRepos(paused_repos_file()).set(repo, paused)


class PausedRepos:
    """`repo` names every repository of that name, whoever owns it; `owner/repo` names one.

    Names are compared without regard to case. A pause of `repo` replaces pauses of `owner/repo`,
    which it covers.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_paused(self, repo: str) -> bool:
        """Without an owner: whether any repository of that name is paused."""
        return bool(_naming(_valid(repo), self.list()))

    def list(self) -> Names:
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            if self.path.is_symlink():  # a broken link, e.g. to a disk that is not mounted
                raise self._unreadable("it is a link that leads nowhere") from None
            return []
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise self._unreadable("it is not UTF-8 text") from error
        return self._parse(text)

    def set(self, repo: str, paused: bool) -> Names:
        """Pause or resume; returns the paused repositories. Safe against other processes."""
        name = _valid(repo)
        try:
            with self._locked():
                names = _with(name, self.list()) if paused else _without(name, self.list())
                self._write(sorted(names, key=str.lower))
                return self.list()
        except OSError as error:
            raise StorageUnavailable(
                f"cannot write {self.path}: {error.strerror or error}; look what is paused before"
                " you rely on it"
            ) from error

    def _parse(self, text: str) -> Names:
        try:
            names = json.loads(text, object_pairs_hook=_each_once)["paused"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unreadable('it is not JSON like {"paused": ["owner/repo"]}') from error
        if not isinstance(names, list):
            raise self._unreadable('"paused" is not a list')
        for name in names:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise self._unreadable(f"{str(name)[:100]!r} is no repository")
        return sorted(names, key=str.lower)

    def _unreadable(self, why: str) -> PauseUnreadable:
        return PauseUnreadable(
            f"cannot tell which repositories are paused, so nothing is picked up: {self.path}:"
            f" {why}; mend the file, or delete it to resume all",
            path=str(self.path),
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks a separate file, because each write replaces the list's own file."""
        StateDir(self.path.parent).create()
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, names: Names) -> None:
        """Whole or not at all, and on disk when this returns."""
        with replacing(self.path) as partial:
            partial.write_text(json.dumps({"paused": names}, indent=2) + "\n", encoding="utf-8")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two lists in one file, the last would silently lift the pauses of the first."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def _valid(repo: str) -> str:
    name = repo.strip()
    if not _NAME.fullmatch(name):
        raise MalformedReference(
            f"{repo[:100]!r} is no repository; write OWNER/REPO or REPO", reference=repo[:100]
        )
    return name


def _with(name: str, names: Names) -> Names:
    standing = _naming(name, names)
    if standing and _owner(name):
        return names
    return [name, *(entry for entry in names if entry not in standing)]


def _without(name: str, names: Names) -> Names:
    """Resumes the repository. Refused if the name could also mean a repository of another owner."""
    standing = _naming(name, names)
    everybodys = _naming(_repo(name), names)
    owners = {_owner(entry) for entry in (name, *everybodys)} - {""}
    if len(owners) > 1 and not all(map(_owner, (name, *standing))):
        raise Refused(
            f"{name} may be any of these that are paused: {', '.join(everybodys)}; name one of"
            " them with its owner",
            paused=everybodys,
        )
    return [entry for entry in names if entry not in standing]


def _naming(name: str, names: Names) -> Names:
    """The entries that pause this repository."""
    return [
        entry
        for entry in names
        if _repo(entry) == _repo(name) and _owner(entry) in ("", _owner(name) or _owner(entry))
    ]


def _owner(name: str) -> str:
    return name.lower().rpartition("/")[0]


def _repo(name: str) -> str:
    return name.lower().rpartition("/")[2]
