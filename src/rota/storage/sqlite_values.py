"""Statements over many rows at once on SQLite: `VALUES :rows`, spelt out for so many rows.

Bound values cost half of what picking them out of one JSON text does, and one statement for all
rows spares a call, and a hand-over of the interpreter's lock, for each of them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain

# Rows go in such numbers only, filled up with empty ones: so a few texts serve all, and stay
# prepared. A statement leaves out what has no value in the first column.
_SIZES = (1, 2, 4, *range(8, 65, 8))
_MOST = _SIZES[-1]
_PARAMETER = re.compile(r":([a-z][a-z0-9_]*)")

Rows = Sequence[Sequence[object]]


def in_sizes(rows: Rows) -> Iterator[tuple[int, Iterator[object]]]:
    """How many rows go together, and their values one after the other."""
    for begin in range(0, len(rows), _MOST):
        some = rows[begin : begin + _MOST]
        size = next(size for size in _SIZES if size >= len(some))
        empty = (None,) * ((size - len(some)) * len(some[0]))
        yield size, chain(*some, empty)


@lru_cache(maxsize=512)
def with_values(statement: str, constants: tuple[str, ...], rows: int, columns: int) -> str:
    """Its parameters by number: the constants in this order, then the rows, value by value."""
    numbers = {name: f"?{number}" for number, name in enumerate(constants, 1)}
    first = len(constants) + 1
    numbers["rows"] = ", ".join(
        f"({', '.join(f'?{first + row * columns + column}' for column in range(columns))})"
        for row in range(rows)
    )
    return _PARAMETER.sub(lambda match: numbers[match[1]], statement)
