"""Statements over many rows at once on SQLite: expands `VALUES :rows` for a number of rows.

Bound values cost half as much as reading them out of one JSON text. One statement for all rows
saves a call, and a hand-over of the interpreter's lock, for each row.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from rota.storage.primitives import Fields

# Rows are sent in these numbers only, padded with empty rows, so that there are few texts and they
# stay prepared. A statement ignores rows whose first column is NULL.
_SIZES = (1, 2, *range(4, 65, 4))
_MOST = _SIZES[-1]
_SIZE_OF = {count: next(size for size in _SIZES if size >= count) for count in range(1, _MOST + 1)}
_PARAMETER = re.compile(r":([a-z][a-z0-9_]*)")
_NAMED = re.compile(r"\bWITH r \(([^)]*)\)\s+AS \(VALUES :rows\)")

Rows = Sequence[Sequence[object]]


def in_sizes(rows: Rows) -> Iterator[tuple[int, Rows]]:
    """The rows in pieces, each with the size that it is padded to."""
    for begin in range(0, len(rows), _MOST):
        some = rows[begin : begin + _MOST] if len(rows) > _MOST else rows
        yield _SIZE_OF[len(some)], some


def named_in(statement: str) -> tuple[str, ...]:
    """The names that a statement gives to the values of a row; empty if it names none."""
    match = _NAMED.search(statement)
    return tuple(match[1].replace(",", " ").split()) if match else ()


@lru_cache(maxsize=128)
def picked(statement: str, fields: Fields) -> tuple[int, Callable[[Rows], Iterable[object]]]:
    """How many values of a row a statement uses, and a function that lists those of many rows.

    Values that the statement does not name are not bound, because binding is a large part of the
    cost of running it.
    """
    names = named_in(statement) or fields
    if names == fields:
        return len(fields), chain.from_iterable
    pick = itemgetter(*map(fields.index, names))
    if len(names) == 1:
        return 1, lambda rows: map(pick, rows)
    return len(names), lambda rows: chain.from_iterable(map(pick, rows))


@lru_cache(maxsize=512)
def with_values(statement: str, constants: tuple[str, ...], rows: int, columns: int) -> str:
    """The statement with numbered parameters: the constants in this order, then the rows, value by
    value."""
    numbers = {name: f"?{number}" for number, name in enumerate(constants, 1)}
    first = len(constants) + 1
    numbers["rows"] = ", ".join(
        f"({', '.join(f'?{first + row * columns + column}' for column in range(columns))})"
        for row in range(rows)
    )
    return _PARAMETER.sub(lambda match: numbers[match[1]], statement)
