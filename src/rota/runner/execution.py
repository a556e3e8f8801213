"""One program, from its start until none of its processes is left."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from rota.model.runs import RunStatus
from rota.runner.output import read_to_end
from rota.runner.process import Handles, Nursery, Program, Supervised

DRAINED_IN = 2.0  # seconds to wait for output after the last process has ended

T = TypeVar("T")
Ear = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why we ended the program."""

    status: RunStatus
    why: str


class Stop:
    """Asks a program to end. The first reason counts."""

    def __init__(self) -> None:
        self.reason: Stopped | None = None
        self._asked = asyncio.Event()

    def because(self, status: RunStatus, why: str) -> None:
        if self.reason is None:
            self.reason = Stopped(status, why)
            self._asked.set()

    async def asked(self) -> None:
        await self._asked.wait()


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int | None
    stopped: Stopped | None = None
    left: tuple[int, ...] = ()  # processes that could not be killed


@dataclass(frozen=True, slots=True)
class Order:
    """A program to run, and the readers of its output."""

    program: Program
    stdin: bytes
    out: Ear
    err: Ear
    seconds: float  # its time limit
    overdue: Stopped | None = None  # why it is ended when it takes longer


async def run_program(nursery: Nursery, order: Order, stop: Stop) -> Finished:
    """Raises InvalidInput when it cannot be started. A caller that is cancelled waits until all its
    processes are gone."""
    life = asyncio.create_task(_life(nursery, order, stop))
    try:
        return await asyncio.shield(life)
    except asyncio.CancelledError:
        stop.because(RunStatus.CANCELLED, "it was cancelled")
        await _over(life)
        raise


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Runs to its end, even if the caller is cancelled; the cancellation is raised afterwards."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _over(task)
        raise


async def _over(task: "asyncio.Task[Any]") -> None:
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):  # further cancellations are ignored
            await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # otherwise asyncio logs that the exception was never retrieved


async def _life(nursery: Nursery, order: Order, stop: Stop) -> Finished:
    out, err, handles = _opened(order.stdin)
    try:
        process = await nursery.start(order.program, handles)
    except BaseException:
        os.close(out)
        os.close(err)
        raise
    readers = [
        asyncio.create_task(_read(handle, ear, stop))
        for handle, ear in ((out, order.out), (err, order.err))
    ]
    try:
        await _ended(process, order, stop)
        await asyncio.wait(readers, timeout=DRAINED_IN)
    finally:
        process.close()
        await _closed(readers)
    return Finished(process.exit_code, stop.reason, process.left)


async def _read(handle: int, ear: Ear, stop: Stop) -> None:
    try:
        await read_to_end(handle, ear)
    except Exception as error:  # anything: with nobody to read, the program would block for ever
        stop.because(RunStatus.FAILED, f"its output could not be read: {error}")
        raise


async def _ended(process: Supervised, order: Order, stop: Stop) -> None:
    exited = asyncio.create_task(process.exited())
    asked = asyncio.create_task(stop.asked())
    try:
        done, _ = await asyncio.wait(
            {exited, asked}, timeout=order.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if exited not in done:
            late = order.overdue or Stopped(
                RunStatus.TIMED_OUT, f"no end after {order.seconds:g} s"
            )
            stop.because(late.status, late.why)
            process.end()
        await exited
    finally:
        asked.cancel()
        exited.cancel()
    await process.gone()


async def _closed(readers: "list[asyncio.Task[None]]") -> None:
    for reader in readers:
        reader.cancel()
    for reader in readers:
        with contextlib.suppress(asyncio.CancelledError):
            await reader


def _opened(stdin: bytes) -> tuple[int, int, Handles]:
    """Our ends of the output pipes, and the program's handles."""
    made: list[int] = []
    try:
        made += os.pipe()
        made += os.pipe()
        made.append(_readable(stdin))
    except OSError:
        for handle in made:
            os.close(handle)
        raise
    out, out_end, err, err_end, readable = made
    return out, err, Handles(readable, out_end, err_end)


def _readable(content: bytes) -> int:
    """An unnamed file: however long the content is, no writer has to wait for the reader."""
    if not content:
        return os.open(os.devnull, os.O_RDONLY)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())
