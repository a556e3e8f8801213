"""Measures one cell of one subject: fresh place, fill, child processes, one common start."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from bench.cell import Cell, Figure, Gate, NotOffered, Operation, Place, Subject, Tally
from bench.machine import fdatasync_latency

Places = Callable[[], AbstractContextManager[Place]]

# Spawned, not forked: no subject inherits another's threads, connections or SQLite library.
_CONTEXT = multiprocessing.get_context("spawn")
_PATIENCE = 120.0  # seconds beyond the cell's own limit before a child counts as stuck
_PROBE_SAMPLES = 30
_ERRAND_SECONDS = 1800.0  # a million items take a while


def measure(subject: Subject, cell: Cell, places: Places) -> Figure:
    """One round of one cell. A failure becomes a figure with a note, and does not end the run."""
    try:
        subject.check(cell)
        return _once(subject, cell, places)
    except NotOffered as reason:
        return _blank(subject, cell, f"not offered: {reason}")
    except ChildFailed as failure:
        return _blank(subject, cell, f"failed: {failure}")


def middle(figures: Sequence[Figure]) -> Figure:
    """The round whose rate is the median, with the rates of all that could be measured."""
    measured = sorted((f for f in figures if f.rate), key=lambda figure: figure.rate or 0.0)
    if not measured:
        return figures[0]
    rates = tuple(figure.rate or 0.0 for figure in measured)
    failures = len(figures) - len(measured)
    note = f"{failures} of {len(figures)} rounds failed" if failures else ""
    return replace(measured[(len(measured) - 1) // 2], rates=rates, note=note)


def _blank(subject: Subject, cell: Cell, note: str) -> Figure:
    return Figure(
        subject.name, str(cell.operation), cell.concurrency, cell.batch, cell.processes, note=note
    )


def _once(subject: Subject, cell: Cell, places: Places) -> Figure:
    with places() as place:
        in_child(_set_up, subject, place, cell)
        os.sync()  # dirty pages of the fill must not be flushed during the cell
        probe = fdatasync_latency(_disk(place), samples=_PROBE_SAMPLES)
        figure = _figure(subject, cell, _run_children(subject, place, cell))
        return replace(figure, fdatasync_us=probe["p50"])


def _disk(place: Place) -> Path:
    return Path(tempfile.gettempdir()) if place.url else place.directory


def _set_up(subject: Subject, place: Place, cell: Cell) -> None:
    subject.prepare(place)
    if cell.operation is Operation.WORK:
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
        batch=cell.batch,
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
    children = [Child(_work_cell, subject, place, cell, barrier) for _ in range(cell.processes)]
    try:
        return [child.answer(cell.seconds + _PATIENCE) for child in children]
    finally:
        for child in children:
            child.end()


def in_child(work: Callable[..., Any], *arguments: object) -> Any:
    """Call `work` in its own process, which leaves nothing behind in ours."""
    child = Child(work, *arguments)
    try:
        return child.answer(_ERRAND_SECONDS)
    finally:
        child.end()


class Child:
    """A spawned process that calls one function and sends back what it returned."""

    def __init__(self, work: Callable[..., Any], *arguments: object) -> None:
        self._pipe, theirs = _CONTEXT.Pipe(duplex=False)
        target = (work, arguments, theirs)
        self._process = _CONTEXT.Process(target=_answer, args=target, daemon=True)
        self._process.start()
        theirs.close()

    def answer(self, seconds: float) -> Any:
        try:
            if not self._pipe.poll(seconds):
                raise ChildFailed(f"no answer after {seconds:.0f} s")
            failure, value = self._pipe.recv()
        except EOFError:
            raise ChildFailed("the process ended without an answer") from None
        if failure:
            raise ChildFailed(failure)
        return value

    def end(self) -> None:
        self._process.join(timeout=1)
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _work_cell(subject: Subject, place: Place, cell: Cell, barrier: Barrier) -> Tally:
    return subject.run(place, cell, Gate(lambda: barrier.wait(timeout=_PATIENCE)))


def _answer(work: Callable[..., Any], arguments: tuple[object, ...], pipe: Connection) -> None:
    answer: tuple[str | None, Any]
    try:
        answer = (None, work(*arguments))
    except BaseException as error:  # noqa: BLE001 - it is told to the parent
        answer = (_last_line(error), None)
    with suppress(BrokenPipeError):  # the parent gave up on this cell
        pipe.send(answer)


def _last_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if os.environ.get("BENCH_TRACE"):
        traceback.print_exception(error)
    return traceback.format_exception_only(error)[-1].strip()
