"""How a table fits a terminal: ids become short, and then the least important columns go."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rota.cli.text import one_line

if TYPE_CHECKING:
    from rota.cli.output import Column, Json

_GAP = 2
# Prose in a column narrower than the first is hardly readable. Spare columns are left out to give
# each column of prose the second, and all of them together the third.
_PROSE, _EASY_PROSE, _EASY_LINE = 16, 24, 40
# The first is enough to tell long names apart; beyond the second, prose comes first.
_NAME, _EASY_NAME = 12, 24
# A terminal with so many columns has room for whole ids, whatever else must go.
_ROOMY = 100
# Where the groups of an id end. The first two are the millisecond in which it was made.
_BEGINNINGS = (13, 18, 23)

_STYLES = {
    "in_progress": "cyan",
    "dispatched": "blue",
    "blocked": "yellow",
    "in_review": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


@dataclass(frozen=True, eq=False)
class _Strip:
    """A column with the text of its cells."""

    column: "Column"
    words: Sequence[str]

    @cached_property
    def full(self) -> int:
        return max(map(cell_len, (self.column.title, *self.words)))

    def width(self, prose: int = _PROSE, name: int = _NAME) -> int:
        if self.column.whole:
            return self.full
        return min(self.full, prose if self.column.folds else name)

    def shortened(self) -> "_Strip":
        """With as much of each id as tells it from the others here."""
        if not self.column.beginning:
            return self
        ids = set(self.words)
        enough = (size for size in _BEGINNINGS if len({one[:size] for one in ids}) == len(ids))
        size = next(enough, None)
        return replace(self, words=[one[:size] for one in self.words])


def print_table(rows: Sequence["Json"], columns: Sequence["Column"]) -> list[str]:
    """Returns the titles of the columns for which there was no room."""
    if not rows:
        return []
    console = Console(highlight=False, emoji=False)
    every = [_Strip(one, [_shown(one, row) for row in rows]) for one in columns]
    filled = [one for one in every if any(one.words)]
    kept = _kept(filled, console.width)
    if len(kept) < len(filled) and console.width < _ROOMY:
        kept = _kept([one.shortened() for one in filled], console.width)
    if _total(one.width() for one in kept) > console.width:
        _print_blocks(console, filled)
        return []
    console.print(_table(kept, _widths(kept, console.width)))
    there = {one.column for one in kept}
    return [one.column.title for one in filled if one.column not in there]


def _shown(column: "Column", row: "Json") -> str:
    value = (column.shown or column.value)(row)
    return one_line("" if value is None else value)


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + _GAP * (len(each) - 1)


def _kept(strips: list[_Strip], width: int) -> list[_Strip]:
    """Leave out spare columns, one by one, until the others have room. Where the last of them was
    wide, narrow ones that were left out before it fit again."""
    many = sum(one.column.folds for one in strips)
    easy = max(_EASY_PROSE, _EASY_LINE // max(many, 1))

    def fits(kept: Iterable[_Strip]) -> bool:
        return _total(one.width(prose=easy) for one in kept) <= width

    spare = sorted((one for one in strips if one.column.spare), key=lambda one: one.column.spare)
    out: set[_Strip] = set()
    for one in spare:
        if fits(other for other in strips if other not in out):
            break
        out.add(one)
    for one in reversed(spare):
        if fits(other for other in strips if other is one or other not in out):
            out.discard(one)
    return [one for one in strips if one not in out]


def _widths(strips: list[_Strip], width: int) -> list[int]:
    widths = [one.width() for one in strips]
    for prose, name in ((_PROSE, _EASY_NAME), (width, _EASY_NAME), (width, width)):
        wanted = [one.width(prose, name) for one in strips]
        while _total(widths) < width and widths != wanted:
            _widen(widths, wanted, width)
    return widths


def _widen(widths: list[int], wanted: list[int], width: int) -> None:
    """By one each, so that two columns of prose share the room that is left."""
    for number, want in enumerate(wanted):
        if widths[number] < want and _total(widths) < width:
            widths[number] += 1


def _table(strips: list[_Strip], widths: list[int]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for one, width in zip(strips, widths, strict=True):
        folds = one.column.folds
        table.add_column(
            one.column.title,
            width=width,
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
        )
    for row in zip(*(one.words for one in strips), strict=True):
        # As Text, so that square brackets in a title are not markup.
        table.add_row(*(Text(word, style=_STYLES.get(word, "")) for word in row))
    return table


def _print_blocks(console: Console, strips: list[_Strip]) -> None:
    """Where a long name or a narrow terminal leaves no room for columns: one line per value."""
    wide = max(cell_len(one.column.title) for one in strips)
    for number, row in enumerate(zip(*(one.words for one in strips), strict=True)):
        if number:
            console.print()
        for one, word in zip(strips, row, strict=True):
            if word:
                line = Text.assemble(
                    (one.column.title.ljust(wide), "bold"), "  ", (word, _STYLES.get(word, ""))
                )
                console.print(line, soft_wrap=True)
