"""The verbs of export and import; most statements are built from the shapes of the records."""

import json
import secrets
from collections.abc import Iterator, Sequence

from rota.storage.primitives import Primitives, Row
from rota.storage.rows import encode
from rota.storage.shapes import Field, FieldType, Shape

_PAGE = 500
# Type names that both databases understand in a CAST.
_TYPES = {
    FieldType.WHOLE: "bigint",
    FieldType.FLAG: "bigint",
    FieldType.REAL: "double precision",
}
_ONES_OF_THEIR_OWN = {"events": "import_events", "claims": "import_claims"}


class ExchangeStatements(Primitives):
    def export_page(
        self, shape: Shape, after: Row | None, limit: int, project_id: str | None
    ) -> list[Row]:
        counted = dict(shape.counted) if project_id is not None else {}
        columns = ", ".join(counted.get(one.name, one.name) for one in shape.fields)
        conditions = [shape.kept]
        parameters: dict[str, object] = {"limit": limit}
        if project_id is not None:
            conditions.append(shape.within or "1 = 0")  # such records belong to no project
            parameters["project"] = project_id
        if after is not None:
            conditions.append(f"({', '.join(shape.key)}) > ({_marks(shape)})")
            parameters |= _named(after)
        return self._text(
            f"SELECT {columns} FROM {shape.table} WHERE {' AND '.join(conditions)}"
            f" ORDER BY {', '.join(shape.key)} LIMIT :limit",
            parameters,
        )

    def begin_import(self) -> None:
        self._do("begin_import")

    def import_rows(self, shape: Shape, rows: Sequence[Row]) -> set[Row]:
        given = encode([[*row, *_unknown_token(shape, row)] for row in rows])
        if shape.table in _ONES_OF_THEIR_OWN:
            stored = set(self._rows(_ONES_OF_THEIR_OWN[shape.table], rows=given))
        else:
            stored = set(self._text(self._insert(shape), {"rows": given}))
        if shape.table == "work_items":
            self._index_labels(shape, rows, stored)
        return stored

    def _insert(self, shape: Shape) -> str:
        columns = [one.name for one in shape.fields]
        values = [_read(number, one) for number, one in enumerate(shape.fields)]
        if shape.hidden is not None:
            columns.append(shape.hidden)
            values.append(f"value ->> {len(values)}")
        return (
            f"INSERT INTO {shape.table} ({', '.join(columns)}) SELECT {', '.join(values)}"
            f" FROM ({self._sql['given_rows']}) AS given WHERE true"
            f" ON CONFLICT DO NOTHING RETURNING {', '.join(shape.key)}"
        )

    def _index_labels(self, shape: Shape, rows: Sequence[Row], stored: set[Row]) -> None:
        place = [one.name for one in shape.fields].index("labels")
        labels = [
            {"id": row[0], "label": label}
            for row in rows
            if (row[0],) in stored
            for label in json.loads(row[place])
        ]
        self._many("insert_labels", labels)

    def stored_row(self, shape: Shape, key: Row) -> Row | None:
        columns = ", ".join(one.name for one in shape.fields)
        found = self._text(
            f"SELECT {columns} FROM {shape.table}"
            f" WHERE ({', '.join(shape.key)}) = ({_marks(shape)})",
            _named(key),
        )
        return found[0] if found else None

    def is_heard_at_all(self) -> bool:
        return bool(self._rows("is_heard_at_all"))

    def settle_event_numbers(self) -> None:
        self._do("settle_event_numbers")

    def imported_items(self) -> Iterator[tuple[str, str, str]]:
        after = ""
        while rows := self._rows("imported_items", after=after, limit=_PAGE):
            yield from ((row[0], row[1], row[2]) for row in rows)
            after = rows[-1][0]


def _read(number: int, field: Field) -> str:
    kind = _TYPES.get(field.type)
    return f"value ->> {number}" if kind is None else f"CAST(value ->> {number} AS {kind})"


def _marks(shape: Shape) -> str:
    return ", ".join(f":key_{number}" for number in range(len(shape.key)))


def _named(key: Row) -> dict[str, object]:
    return {f"key_{number}": value for number, value in enumerate(key)}


def _unknown_token(shape: Shape, row: Row) -> list[str | None]:
    """A token that nobody has: no holder can extend the imported claim, so it lapses in time."""
    if shape.hidden is None:
        return []
    if shape.hidden_with is None:
        return [secrets.token_urlsafe(16)]
    place = [one.name for one in shape.fields].index(shape.hidden_with)
    return [None if row[place] is None else secrets.token_urlsafe(16)]
