"""One transaction on SQLite: how it runs a statement."""

from collections.abc import Sequence

import apsw

from rota.storage.primitives import Fields, Parameters, Row
from rota.storage.sqlite_values import in_sizes, picked, with_values
from rota.storage.transaction import SqlTransaction


class SqliteTransaction(SqlTransaction):
    DIALECT = "sqlite"
    SUBMIT = ("insert_items", "insert_events")
    TAKE = ("take_items", "take_claims", "take_log", "take_events")
    FINISH = ("finish_log", "finish_events")

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__()
        self._connection = connection

    def _each(
        self,
        statement: str,
        fields: Fields,
        rows: Sequence[Sequence[object]],
        /,
        **constants: object,
    ) -> list[Row]:
        text, found = self._sql[statement], list[Row]()
        count, line_up = picked(text, fields)
        for size, some in in_sizes(rows):
            spelt = with_values(text, tuple(constants), size, count)
            empty = (None,) * ((size - len(some)) * count)
            values = (*constants.values(), *line_up(some), *empty)
            found += self._connection.execute(spelt, values).fetchall()
        return found

    def _text(self, statement: str, parameters: Parameters) -> list[Row]:
        return self._connection.execute(statement, parameters).fetchall()

    def _changed(self, statement: str, /, **parameters: object) -> int:
        self._rows(statement, **parameters)
        return self._connection.changes()

    def hurry(self, seconds: float) -> None:
        """It has all that it needs from its beginning."""
