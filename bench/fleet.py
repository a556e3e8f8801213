"""Measures one cell of one subject: fresh place, fill, child processes, one common start."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from bench.cell import CLAIMING, Cell, Figure, Gate, NotOffered, Place, Subject, Tally

Places = Callable[[], AbstractContextManager[Place]]

# Spawned, not forked: no subject inherits another's threads, connections or SQLite library.
_CONTEXT = multiprocessing.get_context("spawn")
_PATIENCE = 120.0  # seconds beyond the cell's own limit before a child counts as stuck


def measure(subject: Subject, cell: Cell, places: Places, rounds: int = 1) -> Figure:
    """The median round by rate; a failure becomes a figure with a note, not a lost run."""
    try:
        subject.check(cell)
        figures = [_once(subject, cell, places) for _ in range(rounds)]
    except NotOffered as reason:
        return _blank(subject, cell, f"not offered: {reason}")
    except ChildFailed as failure:
        return _blank(subject, cell, f"failed: {failure}")
    middle = statistics.median_low(figure.rate or 0.0 for figure in figures)
    return next(figure for figure in figures if figure.rate == middle)


def _blank(subject: Subject, cell: Cell, note: str) -> Figure:
    return Figure(
        subject.name, str(cell.operation), cell.concurrency, cell.processes, note=note
    )


def _once(subject: Subject, cell: Cell, places: Places) -> Figure:
    with places() as place:
        _in_child(_set_up, subject, place, cell)
        os.sync()  # the fill's dirty pages must not be flushed on the cell's time
        return _figure(subject, cell, _run_children(subject, place, cell))


def _set_up(subject: Subject, place: Place, cell: Cell) -> None:
    subject.prepare(place)
    if cell.operation in CLAIMING:
        subject.fill(place, cell.items)


def _figure(subject: Subject, cell: Cell, tallies: list[Tally]) -> Figure:
    done = sum(tally.done for tally in tallies)
    seconds = max(tally.ended for tally in tallies) - min(tally.started for tally in tallies)
    cpu = sum(tally.cpu_seconds for tally in tallies)
    if not done:
        raise ChildFailed("no item was moved")
    return Figure(
        subject=subject.name,
        operation=str(cell.operation),
        concurrency=cell.concurrency,
        processes=cell.processes,
        items=done,
        seconds=round(seconds, 4),
        rate=round(done / seconds, 1),
        cpu_us=round(cpu / done * 1e6, 1),
    )


class ChildFailed(Exception):
    """A child process raised; the text is its last line."""


def _run_children(subject: Subject, place: Place, cell: Cell) -> list[Tally]:
    barrier = _CONTEXT.Barrier(cell.processes)
    children = [_start(_child, subject, place, cell, barrier) for _ in range(cell.processes)]
    return [_collect(process, pipe, cell.seconds) for process, pipe in children]


def _in_child(work: Callable[..., object], *arguments: object) -> None:
    process, pipe = _start(_errand, work, arguments)
    _collect(process, pipe, seconds=600.0)


def _start(target: Callable[..., None], *arguments: object) -> tuple:
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _collect(process, pipe: Connection, seconds: float) -> Tally:
    try:
        if not pipe.poll(seconds + _PATIENCE):
            raise ChildFailed(f"no answer after {seconds + _PATIENCE:.0f} s")
        answer = pipe.recv()
    except EOFError:
        raise ChildFailed(f"process ended with code {process.exitcode}") from None
    finally:
        process.join(timeout=5)
        process.kill()
    if isinstance(answer, str):
        raise ChildFailed(answer)
    return answer


def _child(
    subject: Subject, place: Place, cell: Cell, barrier: Barrier, pipe: Connection
) -> None:
    gate = Gate(lambda: barrier.wait(timeout=_PATIENCE))
    _answer(pipe, lambda: subject.run(place, cell, gate))


def _errand(work: Callable[..., object], arguments: tuple, pipe: Connection) -> None:
    _answer(pipe, lambda: work(*arguments))


def _answer(pipe: Connection, work: Callable[[], object]) -> None:
    try:
        pipe.send(work())
    except BaseException as error:
        pipe.send(_last_line(error))


def _last_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if os.environ.get("BENCH_TRACE"):
        traceback.print_exception(error)
    return traceback.format_exception_only(error)[-1].strip()
