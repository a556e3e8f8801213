"""The zygote itself: imports, then forks. It has one thread, no loop and no database."""

import gc
import os
import selectors
import shutil
import signal
import socket
import warnings
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

import rota
from rota.testing.zygote import fresh
from rota.testing.zygote.wire import NUMBER, Order, receive

_ASKING_SECONDS = 10.0
_LEFT_OUT = ("rota.testing", "rota.cli.board", "rota.terminal")  # half a second, for one command
_ALSO = (  # imported by commands and libraries only when called
    "asyncio.subprocess", "concurrent.futures.process", "concurrent.futures.thread", "difflib",
    "encodings.idna", "getpass", "html", "http.client", "importlib.metadata", "rich.console",
    "rich.table", "runpy", "shlex", "sqlite3", "ssl", "stringprep", "traceback", "urllib.request",
    "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.auto", "uvloop", "websockets.sync.client", "zoneinfo",
)  # fmt: skip


def import_everything() -> None:
    """A module that cannot be imported is left to the children, and the one that needs it reports
    why. The same for an import that warns, which no child would show."""
    found = (one.name for one in walk_packages(rota.__path__, "rota.", onerror=lambda _: None))
    ours = [n for n in found if not n.startswith(_LEFT_OUT) and not n.endswith("__main__")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in (*ours, *_ALSO):
            with suppress(Exception):
                import_module(name)
    gc.collect()
    gc.freeze()  # otherwise a collection in a child would copy every page


def serve(listening: int, directory: str) -> Order | None:
    """Fork on request until standard input ends. Returns a child's order; None in the zygote."""
    import_everything()
    return Server(listening, directory).run()


class Server:
    def __init__(self, listening: int, directory: str) -> None:
        self._directory = directory
        self._listener = socket.socket(fileno=listening)
        self._woken, self._waker = socket.socketpair()
        # Not epoll, whose state would be shared with the children.
        self._selector = selectors.PollSelector()
        self._children: dict[int, socket.socket] = {}

    def run(self) -> Order | None:
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal without a handler wakes nothing
        for source in (0, self._listener, self._woken):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    self._end()
                    return None
                if key.fileobj is self._woken:
                    self._reap()
                elif key.fileobj is self._listener:
                    if (order := self._fork()) is not None:
                        return order
                elif isinstance(key.data, int):
                    self._abandoned(key.data)

    def _fork(self) -> Order | None:
        connection, _ = self._listener.accept()
        connection.settimeout(_ASKING_SECONDS)
        try:
            order, stdio = receive(connection)
        except (OSError, EOFError):
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._forget()
            connection.close()
            fresh.begin(order, stdio)
            return order
        for fd in stdio:
            os.close(fd)
        self._children[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        with suppress(OSError):
            connection.sendall(NUMBER.pack(pid))
        return None

    def _forget(self) -> None:
        """In a child: close what others wait to see closed."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._listener, self._woken, self._waker, *self._children.values()):
            one.close()
        self._selector.close()

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                connection = self._children.pop(pid)
                with suppress(OSError):  # the client may be gone
                    connection.sendall(NUMBER.pack(status))
                with suppress(KeyError):
                    self._selector.unregister(connection)
                connection.close()

    def _abandoned(self, pid: int) -> None:
        """The client is gone, so nobody is left to end this child."""
        if pid in self._children:
            self._selector.unregister(self._children[pid])
            os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)
