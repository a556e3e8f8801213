"""The ancestor of an agent's processes. Started as a script, by its path: it imports nothing else
of Rota.

A *nursery* runs beside the server and forks a *supervisor* for each run, because the fork of a
small process costs a millisecond and a fresh Python thirty. The supervisor starts the agent's
program in a session of its own and makes itself the subreaper of all its descendants: a process
that is orphaned, by a double fork or a `setsid`, becomes the supervisor's child. So when the
supervisor has no child left, no process of the run is left, and it ends. It also ends, with all of
them, when the server dies, because their connection breaks then.

Where the machine allows it, the agent's processes are also in a control group of their own
(`cgroups.py`): the kernel then kills them all at once, and those whose supervisor was killed can
still be found.
"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
AGENT_UMASK = 0o077
GRACE = 5.0  # seconds between TERM and KILL, by default
HOPELESS = 10.0  # seconds that killed processes may remain: they hang in the kernel
EMPTY_IN = 1.0  # seconds until killed processes should have left their control group
STEP = 0.005
LINUX = sys.platform == "linux"


def nursery(door: socket.socket) -> None:
    """One supervisor for each message, which carries stdin, stdout, stderr and a connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are not waited for
    gc.freeze()  # otherwise a collection in a child copies all memory of its parent
    while True:
        handles = socket.recv_fds(door, 1, 4)[1]
        if not handles:
            return
        try:
            child = os.fork()
        except OSError:
            child = -1  # the connection is closed below, which tells the server
        if child == 0:
            door.close()
            _supervise(handles)
        for handle in handles:
            os.close(handle)


def _supervise(handles: list[int]) -> None:
    try:
        Supervisor(socket.socket(fileno=handles[3]), handles[:3]).run()
    finally:
        os._exit(0)


class Supervisor:
    def __init__(self, control: socket.socket, stdio: list[int]) -> None:
        self._control: socket.socket | None = control
        self._stdio = stdio
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        self._wake_too = wake
        self._group: str | None = None
        self._leader = 0
        self._leader_is_there = True
        self._ending = False
        self._kill_at = 0.0
        self._grace = GRACE

    def run(self) -> None:
        _reap_for_descendants()
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.set_wakeup_fd(self._wake_too.fileno(), warn_on_full_buffer=False)
        spec = self._read_spec()
        if spec is not None and self._start(spec):
            self._watch()

    def _read_spec(self) -> dict[str, Any] | None:
        assert self._control is not None  # noqa: S101
        with self._control.makefile("rb") as lines:
            line = lines.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def _start(self, spec: dict[str, Any]) -> bool:
        door = make_group(spec["cgroup"]) if spec["cgroup"] else None
        self._group = spec["cgroup"] if door is not None else None
        try:
            process = subprocess.Popen(
                spec["argv"],
                cwd=spec["cwd"],
                env=spec["env"],
                stdin=self._stdio[0],
                stdout=self._stdio[1],
                stderr=self._stdio[2],
                start_new_session=True,
                umask=AGENT_UMASK,
                preexec_fn=None if door is None else lambda: _enter(door),  # noqa: PLW1509 (no threads)
            )
        except (OSError, ValueError) as error:
            self._leave_no_group()
            self._tell({"error": _described(error)})
            return False
        finally:
            for handle in self._stdio:  # otherwise the output would not end with the agent
                os.close(handle)
            if door is not None:
                os.close(door)
        self._leader = process.pid
        self._grace = spec["grace"]
        process.returncode = 0  # it is reaped below, with all the others
        self._tell({"pid": process.pid})
        return True

    # until no process is left

    def _watch(self) -> None:
        while not self._all_reaped():
            now = time.monotonic()
            if self._ending and now >= self._kill_at:
                if now >= self._kill_at + HOPELESS:
                    self._tell({"left": [pid for pid, _ in descendants(os.getpid())]})
                    return
                self._signal(signal.SIGKILL)
                if self._group is not None:
                    kill_group(self._group)
            self._wait(max(self._kill_at - now, 0.02) if self._ending else None)
        self._leave_no_group()
        self._tell({"left": []})

    def _leave_no_group(self) -> None:
        if self._group is not None:
            kill_group(self._group)
            remove_groups(self._group)

    def _all_reaped(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if LINUX or not self._group_is_there():
                    return True
                break
            if pid == 0:
                break
            if pid == self._leader:
                self._leader_is_there = False
                self._tell({"exit": os.waitstatus_to_exitcode(status)})
        if not self._leader_is_there:
            self._end()
        return False

    def _group_is_there(self) -> bool:
        """Where there is no subreaper, the process group tells whether orphans remain."""
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _wait(self, seconds: float | None) -> None:
        doors = [self._wake] if self._control is None else [self._wake, self._control]
        if not LINUX and not self._leader_is_there:
            seconds = 0.05  # no signal tells of the end of an orphan that is not our child
        ready = select.select(doors, [], [], seconds)[0]
        if self._wake in ready:
            self._wake.recv(4096)
        if self._control is not None and self._control in ready:
            self._obey(self._control)

    def _obey(self, control: socket.socket) -> None:
        """The server says that it shall end; or is gone, which comes to the same."""
        if not control.recv(4096):
            self._control = None
        self._end()

    def _end(self) -> None:
        """Ask all processes to end, and kill those that remain after the grace."""
        if not self._ending:
            self._ending = True
            self._kill_at = time.monotonic() + self._grace
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if LINUX:
            for pid, started in descendants(os.getpid()):
                send(pid, started, number)
            return
        try:
            os.killpg(self._leader, number)
        except (ProcessLookupError, PermissionError):
            return

    def _tell(self, message: dict[str, Any]) -> None:
        if self._control is None:
            return
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # The connection is gone, and this is the only notice of it.
            self._control = None
            if self._leader:
                self._end()


def _nothing(*_: object) -> None:
    """A signal with a handler interrupts `select`; an ignored one does not."""


_LIBC = ctypes.CDLL(None)  # loaded once, before any fork


def _reap_for_descendants() -> None:
    if LINUX:
        _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _described(error: OSError | ValueError) -> dict[str, Any]:
    if isinstance(error, OSError):
        return {"errno": error.errno, "text": error.strerror or str(error), "of": error.filename}
    return {"errno": None, "text": str(error), "of": None}


# control groups, by their directories


def make_group(path: str) -> int | None:
    """A handle: what is written to it moves the writer into the group. None if the machine does not
    allow it after all; the tree of processes has to do then."""
    try:
        Path(path).mkdir()
        return os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        remove_groups(path)
        return None


def _enter(door: int) -> None:
    """Between fork and exec."""
    try:
        os.write(door, b"0")
    except OSError:
        return


def members(path: str | Path) -> list[int]:
    """The processes in a group, and in the groups that they have made inside it."""
    found: list[int] = []
    for directory, _, _ in os.walk(path):
        try:
            found.extend(map(int, Path(directory, "cgroup.procs").read_text().split()))
        except OSError:
            continue  # it was removed meanwhile, or has none
    return found


def kill_group(path: str | Path) -> None:
    """All at once, so that no fork escapes."""
    try:
        Path(path, "cgroup.kill").write_text("1")
    except OSError:
        return  # it is not there, or the kernel is older than 5.14: processes are killed singly


def remove_groups(*paths: str | Path) -> None:
    """One with a process in it stays. A process that was killed takes a moment to leave it, and
    newer kernels let it be reaped before that."""
    until, there = time.monotonic() + EMPTY_IN, list(paths)
    while (there := [one for one in there if not _removed(one)]) and time.monotonic() < until:
        time.sleep(STEP)


def _removed(path: str | Path) -> bool:
    for directory, _, _ in os.walk(path, topdown=False):
        try:
            Path(directory).rmdir()
        except OSError:
            continue
    return not Path(path).exists()


# /proc


def stat_of(pid: int) -> tuple[int, str] | None:
    """The parent and the start time. A pid is used again; pid and start time together are not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()
    return (int(fields[1]), fields[19].decode()) if len(fields) > 19 else None


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 (quicker)


def descendants(root: int) -> list[tuple[int, str]]:
    """All descendants of this process, as (pid, started)."""
    below: dict[int, list[tuple[int, str]]] = {}
    for pid in processes():
        if (found := stat_of(pid)) is not None:
            below.setdefault(found[0], []).append((pid, found[1]))
    tree: list[tuple[int, str]] = list(below.get(root, ()))
    for pid, _ in tree:  # grows during the loop
        tree.extend(below.get(pid, ()))
    return tree


def send(pid: int, started: str, number: int) -> bool:
    """A signal to exactly this process; another process that got its pid meanwhile is left
    alone."""
    return on_process(pid, started, lambda handle: signal.pidfd_send_signal(handle, number))


def on_process(pid: int, started: str, act: Callable[[int], object]) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The handle is of the process that had the pid when it was opened. So the start time is
        # checked after that.
        found = stat_of(pid)
        if found is None or found[1] != started:
            return False
        act(handle)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


if __name__ == "__main__":
    nursery(socket.socket(fileno=int(sys.argv[1])))
