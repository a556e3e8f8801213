"""Processes of runs whose server is gone.

Everything that a run starts inherits two variables: which run it is of, and which server's
directory that run belongs to. So its processes can be found when nobody remembers them.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.runner.supervisor import GRACE, processes, send, stat_of

RUN_ID = "ROTA_RUN_ID"
RUN_ROOT = "ROTA_RUN_ROOT"

KILLED_IN = 5.0  # seconds until a killed process should have gone
STEP = 0.02


@dataclass(frozen=True, slots=True)
class Orphan:
    pid: int
    started: str
    run_id: str


def end_orphans(
    root: Path, alive: Collection[str] = (), *, grace: float = GRACE
) -> tuple[Orphan, ...]:
    """End what runs of this directory have left behind, and say what that was.

    Called before the first run is started. Runs of other directories are not touched, nor
    those named in `alive`, nor the caller and what it was started by. Blocks: at most the
    grace and a few seconds, and when there is nothing to end, no time at all.
    """
    return _end(lambda env: _is_left(env, str(root.resolve()), alive), grace)


def end_run(run_id: str, root: str, grace: float = 0.0) -> tuple[Orphan, ...]:
    """End all that carries this run's marks."""
    return _end(lambda env: (env.get(RUN_ID), env.get(RUN_ROOT)) == (run_id, root), grace)


def _is_left(env: Mapping[str, str], root: str, alive: Collection[str]) -> bool:
    return env.get(RUN_ROOT) == root and env.get(RUN_ID, "") not in {*alive, ""}


def _end(wanted: Callable[[Mapping[str, str]], bool], grace: float) -> tuple[Orphan, ...]:
    found: dict[tuple[int, str], Orphan] = {}
    deadline = time.monotonic() + grace
    asked: set[tuple[int, str]] = set()
    while there := list(_marked(wanted)):
        now = time.monotonic()
        if now > deadline + KILLED_IN:
            break
        for one in there:
            key = (one.pid, one.started)
            found[key] = one
            if now >= deadline:
                send(*key, signal.SIGKILL)
            elif key not in asked:
                asked.add(key)
                send(*key, signal.SIGTERM)
        time.sleep(STEP)  # they are nobody's children here: there is nothing to wait on
    return tuple(found.values())


def _marked(wanted: Callable[[Mapping[str, str]], bool]) -> Iterator[Orphan]:
    if sys.platform != "linux":
        return  # without /proc there is no telling; supervisors end with their server anyway
    spared = set(_ancestors(os.getpid()))
    for pid in processes():
        found = stat_of(pid)
        if found is None or pid in spared:
            continue
        env = _environ(pid)
        if wanted(env):
            yield Orphan(pid, found[1], env[RUN_ID])


def _ancestors(pid: int) -> Iterator[int]:
    """The process itself, and what it was started by: an agent may start a server."""
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
