"""Cells × subjects, in an order that lets a slow moment of the machine affect all alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from bench.cell import Cell, Figure, Operation, Subject
from bench.fleet import Places, measure, middle
from bench.suites import Options

_PROCESSES = (1, 2)


# Callers or lanes, and how many items each moves at a time.
Shape = tuple[int, int]


def cells(
    operations: Sequence[tuple[Operation, Sequence[Shape]]], options: Options
) -> Iterator[Cell]:
    for operation, shapes in operations:
        for lanes, batch in shapes:
            for processes in _PROCESSES:
                yield Cell(operation, lanes, batch, processes, options.items, options.seconds)


def measured(
    subjects: Sequence[Subject], wanted: Iterator[Cell], places: Places, options: Options
) -> list[Figure]:
    chosen = [s for s in subjects if not options.only or s.name in options.only]
    figures = []
    for cell in wanted:
        rounds = [
            [measure(subject, cell, places) for subject in chosen] for _ in range(options.rounds)
        ]
        for subject_rounds in zip(*rounds, strict=True):
            figures.append(middle(subject_rounds))
            _tell(figures[-1], cell)
    return figures


def _tell(figure: Figure, cell: Cell) -> None:
    rate = f"{figure.rate:,.0f}/s of {figure.items} items" if figure.rate else ""
    text = f"{rate} {figure.note}".strip()
    print(f"  {cell.label:32} {figure.subject:14} {text}", file=sys.stderr, flush=True)
