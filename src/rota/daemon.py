"""Starts and stops the loops of one process; only this module handles signals and deadlines.

Order of a shutdown: the first signal sets `stopping`; long polls and streams
end, and nothing new is taken. Runs finish, until their deadline. The server
finishes the requests it has, the chores end, and the caller closes the store.
A second signal does not wait. SIGHUP reads the configuration again.
"""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
import uvicorn

from rota.api.asgi import dated
from rota.api.http_protocol import http_options
from rota.api.ws_protocol import ws_options
from rota.model.clock import Clock
from rota.model.errors import RotaError, StorageError
from rota.queue.sweeper import Sweeper, Swept
from rota.queue.writing import Writes

log = structlog.get_logger()

SWEEP_SECONDS = 1.0
FREE_SECONDS = 10.0
PRUNE_SECONDS = 3600.0
RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 300.0
MAX_FRAME_BYTES = 1024 * 1024  # of WebSocket frames, as of request bodies
REQUEST_SECONDS = 10  # for open requests to finish, however long runs may take
NAMED_IDS = 10  # in a line of the log: after an outage, hundreds of leases may have lapsed
CHORE_SECONDS = 3.0  # for a chore to finish its tick when the server ends


class Waitable(Protocol):
    async def wait(self) -> object: ...


class Chore(Protocol):
    """One small duty with its own interval. It may have an attribute `woken`, an event or anything
    that can be waited for like one, which cuts its pause short."""

    @property
    def name(self) -> str: ...

    async def tick(self) -> float:
        """Do it once; returns the seconds to wait before the next time."""


class Sweeping:
    """Brings back stale items and wakes due ones, at the moment they are due."""

    name = "sweeper"

    def __init__(self, sweeper: Sweeper, count: Callable[[Swept], None]) -> None:
        self._sweeper = sweeper
        self._count = count

    async def tick(self) -> float:
        swept = await self._sweeper.tick()
        self._count(swept)
        changed = [*swept.released, *swept.failed, *swept.blocked]
        if changed:
            log.info(
                "swept",
                released=len(swept.released),
                failed=len(swept.failed),
                blocked=len(swept.blocked),
                items=changed[:NAMED_IDS],
            )
        return await self._sweeper.pause(SWEEP_SECONDS)


class Pruning:
    name = "pruner"

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper

    async def tick(self) -> float:
        await self._sweeper.prune()
        return PRUNE_SECONDS


class Freeing:
    """Ends what a process of another machine has left open when it was stopped."""

    name = "abandoned transactions"

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper

    async def tick(self) -> float:
        for one in await self._sweeper.end_abandoned():
            log.warning(
                "ended a transaction that its process had left open",
                pid=one.pid,
                silent_seconds=round(one.silent),
            )
        return FREE_SECONDS


class Writing:
    """Logs that the database refuses changes, and why, and tries again until it accepts them. A
    refusal that is over by the next tick is not logged."""

    name = "writes"

    def __init__(self, writes: Writes) -> None:
        self._writes = writes
        self._told: str | None = None

    async def tick(self) -> float:
        if self._writes.refusal is not None:
            with suppress(StorageError):
                await self._writes.try_again()
        refusal = self._writes.refusal
        if refusal != self._told:
            self._tell(refusal)
        return SWEEP_SECONDS if refusal is None else RETRY_SECONDS

    def _tell(self, refusal: str | None) -> None:
        if refusal is not None:
            log.error(
                "changes are refused: nothing is stored and no agent starts until this is mended;"
                " reads go on as far as they can",
                because=refusal,
            )
        else:
            log.warning("changes are stored again")
        self._told = refusal


async def run_chore(chore: Chore, stopping: asyncio.Event) -> None:
    """Runs until `stopping`. If the database is unreachable, the chore waits and goes on. An
    unexpected error is logged and ends neither this chore, nor the others, nor the server."""
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


async def _rest(pause: float, stopping: asyncio.Event, woken: Waitable | None) -> None:
    """Wait until the time is up, the chore is woken, or the process stops."""
    events: list[Waitable] = [event for event in (stopping, woken) if event is not None]
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


class Face(uvicorn.Server):
    """uvicorn without its own signal handlers, with a callback when it is ready, and with answers
    that are dated by the ledger's clock: who shows ages counts them from there."""

    def __init__(
        self,
        app: Any,
        ready: Callable[[], None],
        clock: Clock,
        request_seconds: int = REQUEST_SECONDS,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                **http_options(),
                **ws_options(MAX_FRAME_BYTES),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=request_seconds,
            )
        )
        self._ready = ready
        self._clock = clock

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        is_over = await super().on_tick(counter)
        if counter % 10 == 0:
            self.server_state.default_headers = [dated(self._clock)]
        return is_over

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready()


def bind(host: str, port: int) -> socket.socket:
    """A bound socket, or an error that says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise cannot_listen(host, port, error) from error
    listener.set_inheritable(True)
    return listener


def cannot_listen(host: str, port: int, error: OSError) -> RotaError:
    match error.errno:
        case errno.EADDRINUSE:
            advice = "stop what has the port, or take another with --port or PORT"
        case errno.EACCES:
            advice = "take a port above 1023 with --port or PORT"
        case _:
            advice = "name an address of this machine with --host or ROTA_HOST"
    return RotaError(f"cannot listen on {host}:{port}: {error.strerror}; {advice}")


class Crew:
    """The chores of one process. Some come and go with its configuration."""

    def __init__(self, chores: Sequence[Chore], stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._waiting = list(chores)
        self._begun = False
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def begin(self) -> None:
        self._begun = True
        waiting, self._waiting = self._waiting, []
        for chore in waiting:
            self.add(chore)

    def add(self, chore: Chore) -> None:
        """Start a chore at once, or with the others if they have not started yet."""
        if not self._begun:
            self._waiting.append(chore)
            return
        task = asyncio.create_task(run_chore(chore, self._stopping), name=chore.name)
        self._tasks[id(chore)] = task

    async def dismiss(self, chore: Chore) -> None:
        """Cancel a chore at once; chores are written to survive that."""
        self._waiting = [one for one in self._waiting if one is not chore]
        task = self._tasks.pop(id(chore), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def end(self, seconds: float) -> None:
        """Give the chores some seconds, then cancel them: one may wait long for another server."""
        running = list(self._tasks.values())
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Duties:
    """What else a process does on a signal."""

    # Finish running work; the faces go on answering meanwhile. A second signal cancels it.
    drain: Callable[[], Awaitable[None]] | None = None
    reload: Callable[[], Awaitable[object]] | None = None  # on SIGHUP


async def run(
    face: Face,
    listener: socket.socket,
    crew: Crew,
    stopping: asyncio.Event,
    duties: Duties = Duties(),  # noqa: B008 - frozen
) -> None:
    """Serve until a signal comes; returns when everything has ended."""
    hurry = asyncio.Event()
    with _signals(face, stopping, hurry, duties):
        crew.begin()
        stop = asyncio.create_task(_stop_with(face, stopping, hurry, duties), name="stop")
        try:
            await face.serve(sockets=[listener])
            stopping.set()
            await stop
        finally:
            stop.cancel()
            await crew.end(0.0 if face.force_exit else CHORE_SECONDS)


async def _stop_with(
    face: Face, stopping: asyncio.Event, hurry: asyncio.Event, duties: Duties
) -> None:
    await stopping.wait()
    log.info("stopping")
    if duties.drain is not None:
        draining = asyncio.ensure_future(duties.drain())
        hurried = asyncio.ensure_future(hurry.wait())
        try:
            await asyncio.wait({draining, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()
            hurried.cancel()
        for answer in await asyncio.gather(draining, return_exceptions=True):
            if isinstance(answer, Exception):
                log.error("could not finish what was under way", error=str(answer))
    face.should_exit = True


@contextmanager
def _signals(
    face: Face, stopping: asyncio.Event, hurry: asyncio.Event, duties: Duties
) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    reloading: set[asyncio.Task[object]] = set()

    def stop() -> None:
        if stopping.is_set():
            face.force_exit = True
            hurry.set()
        stopping.set()

    at_a_terminal = _has_terminal()

    def reload() -> None:
        if at_a_terminal and not _has_terminal():  # SIGHUP because the terminal was closed
            stop()
        elif duties.reload is not None:
            task = asyncio.ensure_future(_reloaded(duties.reload))
            reloading.add(task)
            task.add_done_callback(reloading.discard)

    wanted = {signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: reload}
    for number, handler in wanted.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)


def _has_terminal() -> bool:
    try:
        os.tcgetpgrp(0)
    except OSError:
        return False
    return True


async def _reloaded(reload: Callable[[], Awaitable[object]]) -> object:
    try:
        return await reload()
    except StorageError as error:
        log.warning("configuration not wholly in force; reload it again", error=error.message)
    except RotaError as error:
        log.warning("configuration not reloaded; the old one stays", error=error.message)
    except Exception:
        log.exception("configuration not reloaded; the old one stays")
    return None
