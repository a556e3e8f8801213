"""Makes a forked child like a process that has just started, and ends it like one."""

import atexit
import gc
import importlib
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import NoReturn

from rota.testing.zygote.wire import Order

_FLUSH_FAILED = 120  # Python's exit code for it


def begin(order: Order, stdio: list[int]) -> None:
    os.setsid()  # a signal to its group must not reach the zygote
    for number, fd in enumerate(stdio):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()  # in place: libraries keep a reference to the object
    os.environb.update(order.environ)
    os.chdir(order.cwd)
    time.tzset()
    tempfile.tempdir = None
    sys.argv = order.words
    sys.path[0] = os.fsdecode(order.cwd)
    sys.dont_write_bytecode = bool(_told("DONTWRITEBYTECODE"))
    importlib.invalidate_caches()
    _warn_as(_told("WARNINGS"))
    _open_streams()


def _told(name: str) -> str:
    """What the interpreter itself would read when it starts."""
    return os.environ.get(f"PYTHON{name}", "")


def _warn_as(options: str) -> None:
    sys.warnoptions[:] = [one for one in options.split(",") if one]
    for action in sys.warnoptions:
        warnings.simplefilter(action)


def _open_streams() -> None:
    """As the interpreter does it; in the C locale no character is refused."""
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "C")
    errors = "surrogateescape" if locale.startswith(("C", "POSIX")) else str(sys.stdout.errors)
    at_once = bool(_told("UNBUFFERED"))
    reader = BufferedReader(_file(0, "<stdin>", "r"))
    sys.stdin = TextIOWrapper(reader, "utf-8", errors, write_through=at_once)
    sys.stdout = _writer(1, "<stdout>", errors, lines=os.isatty(1), at_once=at_once)
    sys.stderr = _writer(2, "<stderr>", "backslashreplace", lines=True, at_once=at_once)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _writer(fd: int, name: str, errors: str, *, lines: bool, at_once: bool) -> TextIOWrapper:
    raw = _file(fd, name, "w")
    if at_once:
        return TextIOWrapper(raw, "utf-8", errors, write_through=True)
    return TextIOWrapper(BufferedWriter(raw), "utf-8", errors, line_buffering=lines)


def _file(fd: int, name: str, mode: str) -> FileIO:
    raw = FileIO(fd, mode, closefd=False)
    raw.name = name
    return raw


def run_as_a_program(order: Order) -> NoReturn:
    """Call the entry point as its script does, and exit without unloading the modules, which costs
    more than most commands."""
    module, _, name = order.entry.partition(":")
    try:
        status = _status_of(getattr(importlib.import_module(module), name)())
    except SystemExit as stop:
        status = _status_of(stop.code)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        status = -signal.SIGINT
    except BaseException:  # noqa: BLE001 - the last one who could tell
        sys.excepthook(*sys.exc_info())
        status = 1
    _end(status)


def _status_of(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)  # noqa: T201 - what Python does with it
    return 1


def _end(status: int) -> NoReturn:
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # reveals what was left open, where warnings are errors
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            status = _FLUSH_FAILED
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
