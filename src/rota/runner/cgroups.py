"""Control groups: the kernel's own list of the processes that belong to a run.

A process may leave its session, its parent and its environment, and even kill its supervisor; its
children still are in its control group. So where the server may make groups (as root, or in a
service with `Delegate=yes`), every program of a run gets its own. The supervisor makes it and
removes it (see `supervisor.py`); this module says where, and finds the groups that were left.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "rota-"
_PROCESSES = Path("/proc/self/ns/pid")  # the same file for all who see the same processes
_MARK = 12  # characters of the digest that tells the directories of servers apart


def home(
    mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> Path | None:
    """The directory of this process's own group, if it may make groups there."""
    if (found := _own(mounts, own)) is None:
        return None
    here = found[1]
    # To move a process, one must also be allowed to write to the group that it comes from.
    writable = os.access(here, os.W_OK) and os.access(here / "cgroup.procs", os.W_OK)
    return here if writable else None


def fresh(home: Path, root: str, run_id: str) -> Path:
    """A name for a new group. A run may have several at once: its hooks are programs, too."""
    return home / f"{_beginning(root)}{run_id}-{secrets.token_hex(4)}"


def left(root: str, run_id: str | None = None) -> dict[Path, str]:
    """The groups of the server that has this directory, with the ids of their runs, wherever they
    are: the server may have been started in another session since. Without the groups that this
    process itself is in, because an agent may start a server."""
    found = _own(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup"))
    if found is None:
        return {}
    top, here = found
    groups = {group: _run_of(group, root) for group in _named(top, _beginning(root))}
    return {
        group: whose
        for group, whose in groups.items()
        if run_id in {None, whose} and group not in (here, *here.parents)
    }


def _beginning(root: str) -> str:
    """In containers of one image the directory has the same path, and they may see one tree of
    groups. But each has processes of its own, so its server has nothing to end in another."""
    owner = f"{_PROCESSES.stat().st_ino}:{root}"
    return f"{_PREFIX}{hashlib.sha256(owner.encode()).hexdigest()[:_MARK]}-"


def _run_of(group: Path, root: str) -> str:
    return group.name.removeprefix(_beginning(root)).rpartition("-")[0]


def _named(top: Path, beginning: str) -> Iterator[Path]:
    for directory, below, _ in os.walk(top):
        for name in [one for one in below if one.startswith(beginning)]:
            below.remove(name)  # what is inside goes with it
            yield Path(directory, name)


def _own(mounts: Path, own: Path) -> tuple[Path, Path] | None:
    """Where the groups of version 2 are mounted, and the group of this process there."""
    try:
        places = own.read_text().splitlines()
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    place = next((line.removeprefix("0::") for line in places if line.startswith("0::")), None)
    for line in lines:
        what, _, kind = line.partition(" - ")
        if place is not None and kind.startswith("cgroup2 "):
            inside, at = (_unescaped(field) for field in what.split()[3:5])
            if Path(place).is_relative_to(inside):  # a container may see a part of the tree
                return Path(at), Path(at) / Path(place).relative_to(inside)
    return None


def _unescaped(field: str) -> str:
    """mountinfo writes blanks as octal numbers."""
    return field.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
