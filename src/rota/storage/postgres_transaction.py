"""One transaction on PostgreSQL: its ways to run a statement, and the verbs that differ there."""

from collections.abc import Sequence

import psycopg

from rota.model.events import NewEvent
from rota.model.signals import FiringRecord, Signal
from rota.storage.port import Topic
from rota.storage.primitives import Parameters, Row
from rota.storage.rows import encode
from rota.storage.statements import load_statements, to_psycopg
from rota.storage.transaction import SqlTransaction

Connection = psycopg.Connection[Row]


class PostgresTransaction(SqlTransaction):
    DIALECT = "postgres"
    SUBMIT = ("insert_items",)
    TAKE = ("take_items",)  # one statement does it all
    FINISH = ()

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._cursor = connection.cursor(binary=True)
        self._sql = statements()

    def _rows(self, statement: str, /, **parameters: object) -> list[Row]:
        return self._execute(self._sql[statement], parameters)

    def _each(
        self, statement: str, rows: Sequence[Sequence[object]], /, **constants: object
    ) -> list[Row]:
        return self._execute(self._sql[statement], {**constants, "rows": encode(rows)})

    def _text(self, statement: str, parameters: Parameters) -> list[Row]:
        return self._execute(_converted(statement), parameters)

    def _execute(self, statement: str, parameters: Parameters) -> list[Row]:
        self._cursor.execute(statement, parameters, prepare=True)
        # Not `description`: that describes every column anew, and costs as much as the rows.
        result = self._cursor.pgresult
        return self._cursor.fetchall() if result is not None and result.nfields else []

    def _text_of(self, name: str) -> str:
        return load_statements("postgres")[name]

    def _many(self, name: str, rows: Sequence[Parameters]) -> None:
        for row in rows:
            self._execute(self._sql[name], row)

    def _changed(self, statement: str, /, **parameters: object) -> int:
        self._rows(statement, **parameters)
        return self._cursor.rowcount

    def conclude_firing(
        self, signal: Signal, firing: FiringRecord, told: NewEvent, seq: int, *, last: bool
    ) -> bool:
        """In one statement: whoever waits for what follows waits for every round trip."""
        self.topics.add(Topic.EVENTS)
        return bool(
            self._rows(
                "conclude_firing",
                signal_id=signal.id,
                fires=signal.fires,
                last=int(last),
                seq=seq,
                id=firing.id,
                owner=firing.lease_owner,
                status=firing.status,
                error=firing.error,
                result=encode(firing.result),
                type=told.type,
                now=told.occurred_at,
                actor=told.actor,
                work_item_id=told.work_item_id,
                data=encode(told.data),
            )
        )

    def reaches(self, start: str, target: str) -> bool:
        self._rows("lock_links")
        return super().reaches(start, target)


_SQL: dict[str, str] = {}
_TEXTS: dict[str, str] = {}


def statements() -> dict[str, str]:
    if not _SQL:
        _SQL.update({k: to_psycopg(v) for k, v in load_statements("postgres").items()})
    return _SQL


def _converted(statement: str) -> str:
    """Statements put together from parts, in psycopg's spelling; each is converted once."""
    if statement not in _TEXTS:
        _TEXTS[statement] = to_psycopg(statement)
    return _TEXTS[statement]
