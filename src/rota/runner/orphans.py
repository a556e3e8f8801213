"""Processes of runs whose server is gone.

Every process of a run inherits two variables: the run's id, and the directory of the server that
the run belongs to. Where there are control groups, it is also in a group whose name says the same.
So its processes can be found even after the server has died.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.runner import cgroups
from rota.runner.supervisor import (
    GRACE,
    kill_group,
    members,
    processes,
    remove_groups,
    send,
    stat_of,
)

RUN_ID = "ROTA_RUN_ID"
RUN_ROOT = "ROTA_RUN_ROOT"

KILLED_IN = 5.0  # seconds until a killed process should be gone
STEP = 0.02


@dataclass(frozen=True, slots=True)
class Orphan:
    pid: int
    started: str
    run_id: str


def end_orphans(root: Path, *, grace: float = GRACE) -> tuple[Orphan, ...]:
    """End the processes that runs of this directory have left, and return them.

    Called before the first run is started. Processes of other directories, and the caller with
    its ancestors, are left alone. Blocks: at most the grace and a few seconds, and not at all when
    there is nothing to end.
    """
    mark = str(root.resolve())
    mine = cgroups.left(mark)
    return _end(lambda env: bool(env.get(RUN_ID)) and env.get(RUN_ROOT) == mark, mine, grace)


def end_run(run_id: str, root: str, grace: float = 0.0) -> tuple[Orphan, ...]:
    """End all processes that carry the marks of this run."""
    its = cgroups.left(root, run_id)
    return _end(lambda env: (env.get(RUN_ID), env.get(RUN_ROOT)) == (run_id, root), its, grace)


def _end(
    wanted: Callable[[Mapping[str, str]], bool], groups: Mapping[Path, str], grace: float
) -> tuple[Orphan, ...]:
    found: dict[tuple[int, str], Orphan] = {}
    deadline = time.monotonic() + grace
    asked: set[tuple[int, str]] = set()
    while there := [*_marked(wanted), *_grouped(groups)]:
        now = time.monotonic()
        if now > deadline + KILLED_IN:
            break
        if now >= deadline:
            for group in groups:
                kill_group(group)
        for one in there:
            key = (one.pid, one.started)
            found[key] = one
            if now >= deadline:
                send(*key, signal.SIGKILL)
            elif key not in asked:
                asked.add(key)
                send(*key, signal.SIGTERM)
        time.sleep(STEP)  # they are not our children, so there is nothing to wait on
    remove_groups(*groups)
    return tuple(found.values())


def _marked(wanted: Callable[[Mapping[str, str]], bool]) -> Iterator[Orphan]:
    if sys.platform != "linux":
        return  # without /proc they cannot be found; supervisors end with their server anyway
    spared = set(_ancestors(os.getpid()))
    for pid in processes():
        found = stat_of(pid)
        if found is None or pid in spared:
            continue
        env = _environ(pid)
        if wanted(env):
            yield Orphan(pid, found[1], env[RUN_ID])


def _grouped(groups: Mapping[Path, str]) -> Iterator[Orphan]:
    for group, run_id in groups.items():
        for pid in members(group):
            if (found := stat_of(pid)) is not None:
                yield Orphan(pid, found[1], run_id)


def _ancestors(pid: int) -> Iterator[int]:
    """The process itself and its ancestors: an agent may start a server."""
    while pid > 1:
        yield pid
        found = stat_of(pid)
        pid = found[0] if found else 0


def _environ(pid: int) -> dict[str, str]:
    """Empty for zombies and for processes of other users."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.partition("=") for part in raw.decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs if name in {RUN_ID, RUN_ROOT}}
