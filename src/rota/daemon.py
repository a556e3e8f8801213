"""Starts and stops the loops of one process; signals and deadlines live here only.

Order of a shutdown: the first signal sets `stopping`, on which long polls and
streams end; the server finishes the requests it has, until the deadline; the
chores end; the store closes behind us. A second signal does not wait.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import structlog
import uvicorn

from rota.model.errors import RotaError, StorageError
from rota.queue.sweeper import Sweeper, Swept

log = structlog.get_logger()

SWEEP_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 300.0
CHORE_SECONDS = 3.0  # that a chore has to end what it is doing, when the server ends


class Chore(Protocol):
    """One small duty with its own interval; an event `woken`, if it has one, cuts a pause short."""

    @property
    def name(self) -> str: ...

    async def tick(self) -> float:
        """Do it once; how long to wait before the next time."""


class Sweeping:
    """Brings back what is stale and wakes what is due: at the moment it is due, not later."""

    name = "sweeper"

    def __init__(self, sweeper: Sweeper, count: Callable[[Swept], None]) -> None:
        self._sweeper = sweeper
        self._count = count

    async def tick(self) -> float:
        swept = await self._sweeper.tick()
        self._count(swept)
        if swept.released or swept.failed or swept.blocked:
            log.info("swept", released=swept.released, failed=swept.failed, blocked=swept.blocked)
        return await self._sweeper.pause(SWEEP_SECONDS)


class Pruning:
    name = "pruner"

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper

    async def tick(self) -> float:
        await self._sweeper.prune()
        return PRUNE_SECONDS


async def run_chore(chore: Chore, stopping: asyncio.Event) -> None:
    """For ever. A database that is away costs time, not the chore; and an error of ours in one
    chore ends neither the others nor the server, but stands in the log each time."""
    failures = 0
    while not stopping.is_set():
        try:
            pause = await chore.tick()
            failures = 0
        except StorageError as error:
            log.warning("chore waits for the database", chore=chore.name, error=error.message)
            pause = RETRY_SECONDS
        except Exception:
            log.exception("chore failed", chore=chore.name)
            pause = min(RETRY_SECONDS * 2.0 ** min(failures, 10), LONGEST_RETRY_SECONDS)
            failures += 1
        await _rest(pause, stopping, getattr(chore, "woken", None))


async def _rest(pause: float, stopping: asyncio.Event, woken: asyncio.Event | None) -> None:
    """Until the time is up, somebody wakes the chore, or everything ends."""
    events = [event for event in (stopping, woken) if event is not None]
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


class Face(uvicorn.Server):
    """uvicorn without its own signal handlers, and with a word when it is ready."""

    def __init__(self, app: Any, drain_seconds: float, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=int(drain_seconds),
            )
        )
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says who may have the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise RotaError(
            f"cannot listen on {host}:{port}: {error.strerror}; stop what has the port, or take"
            " another with --port or PORT"
        ) from error
    listener.set_inheritable(True)
    return listener


async def run(
    face: Face, listener: socket.socket, chores: Sequence[Chore], stopping: asyncio.Event
) -> None:
    """Serve until a signal comes; returns when everything has ended."""
    with _signals(face, stopping):
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(run_chore(chore, stopping), name=chore.name) for chore in chores
            ]
            group.create_task(_stop_with(face, stopping), name="stop")
            await face.serve(sockets=[listener])
            stopping.set()
            await _end(running, 0.0 if face.force_exit else CHORE_SECONDS)


async def _end(running: Collection[asyncio.Task[None]], seconds: float) -> None:
    """A chore may wait long for somebody else's server. Each of them can be cut short anywhere:
    they are made to be killed."""
    if running:
        _, late = await asyncio.wait(running, timeout=seconds)
        for task in late:
            task.cancel()


async def _stop_with(face: Face, stopping: asyncio.Event) -> None:
    await stopping.wait()
    face.should_exit = True


@contextmanager
def _signals(face: Face, stopping: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            face.force_exit = True
        stopping.set()

    wanted = (signal.SIGINT, signal.SIGTERM)
    for number in wanted:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)
