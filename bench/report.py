"""A suite's outcome, as a table on the terminal and as a JSON file to compare later runs with."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.cell import Figure

OURS = "rota"

_Key = tuple[str, int, int, int]


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Outcome:
    """`configuration` tells how each subject was set up; `figures` are the results."""

    figures: list[dict[str, Any]]
    tables: list[Table]
    configuration: dict[str, str] = field(default_factory=dict)
    server: dict[str, str] = field(default_factory=dict)


def document(suite: str, outcome: Outcome, machine: dict[str, Any]) -> dict[str, Any]:
    return {
        "suite": suite,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "server": outcome.server,
        "configuration": outcome.configuration,
        "figures": outcome.figures,
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content['suite']}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def show(outcome: Outcome) -> None:
    from rich.console import Console

    # In a pipe rich falls back to 80 columns and breaks every row.
    console = Console(width=None if sys.stdout.isatty() else 140)
    for table in outcome.tables:
        console.print(_drawn(table))
    for name, text in outcome.configuration.items():
        console.print(f"[bold]{name}[/]: {text}", highlight=False)


def _drawn(table: Table) -> Any:
    from rich.table import Table as RichTable

    drawn = RichTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        drawn.add_row(*row)
    return drawn


def comparison(title: str, figures: Sequence[Figure]) -> Table:
    """A row per cell, a column per subject: its rate, and how many times faster ours was."""
    subjects = list(dict.fromkeys(figure.subject for figure in figures))
    rows = []
    for cell, found in _by_cell(figures).items():
        ours = found[OURS].rate if OURS in found else None
        texts = [_rate(found.get(subject), ours) for subject in subjects]
        rows.append([_called(*cell), *texts])
    return Table(title, ["items/s (rota ÷ peer)", *subjects], rows)


def with_ratios(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures for the file; each peer's has ours divided by it."""
    cells = _by_cell(figures)
    return [
        figure.as_json() | {"rota_ratio": _ratio(cells[_key(figure)].get(OURS), figure)}
        for figure in figures
    ]


def _ratio(ours: Figure | None, other: Figure) -> float | None:
    if ours is None or other.subject == OURS or not ours.rate or not other.rate:
        return None
    return round(ours.rate / other.rate, 2)


def _key(figure: Figure) -> _Key:
    return figure.operation, figure.concurrency, figure.batch, figure.processes


def _called(operation: str, concurrency: int, batch: int, processes: int) -> str:
    many = f" of {batch}" if batch > 1 else ""
    return f"{operation} ×{concurrency}{many}, {processes} proc"


def _by_cell(figures: Sequence[Figure]) -> dict[_Key, dict[str, Figure]]:
    cells: dict[_Key, dict[str, Figure]] = {}
    for figure in figures:
        cells.setdefault(_key(figure), {})[figure.subject] = figure
    return cells


def _rate(figure: Figure | None, ours: float | None) -> str:
    if figure is None:
        return ""
    if not figure.rate:
        return "–" if figure.note.startswith("not offered") else "failed"
    if ours is None or figure.subject == OURS:
        return f"{figure.rate:,.0f}"
    return f"{figure.rate:,.0f} ({ours / figure.rate:.1f}×)"
