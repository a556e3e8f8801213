"""One transaction on PostgreSQL: its ways to run a statement, and the verbs that differ there."""

from collections.abc import Sequence

from rota.model.events import NewEvent
from rota.model.signals import FiringRecord, Signal
from rota.storage.dialogue import Dialogue
from rota.storage.port import Topic
from rota.storage.primitives import Parameters, Row
from rota.storage.rows import encode, trimmed
from rota.storage.statements import load_statements, numbered
from rota.storage.transaction import SqlTransaction


class PostgresTransaction(SqlTransaction):
    DIALECT = "postgres"
    SUBMIT = ("insert_items",)
    TAKE = ("take_items",)  # one statement does it all
    FINISH = ()

    def __init__(self, dialogue: Dialogue) -> None:
        super().__init__()
        self._dialogue = dialogue
        self._sql = load_statements("postgres")

    def _rows(self, statement: str, /, **parameters: object) -> list[Row]:
        return self._text(self._sql[statement], parameters)

    def _text(self, statement: str, parameters: Parameters) -> list[Row]:
        return self._asked(statement, parameters)[0]

    def _changed(self, statement: str, /, **parameters: object) -> int:
        return self._asked(self._sql[statement], parameters)[1]

    def _asked(self, statement: str, parameters: Parameters) -> tuple[list[Row], int]:
        text, names = numbered(statement)
        return self._dialogue.ask(text, [parameters[name] for name in names])

    def _do(self, statement: str, /, **parameters: object) -> None:
        text, names = numbered(self._sql[statement])
        self._dialogue.tell(text, [parameters[name] for name in names])

    def _each(
        self, statement: str, rows: Sequence[Sequence[object]], /, **constants: object
    ) -> list[Row]:
        return self._rows(statement, **constants, rows=_encoded(rows))

    def _run_all(
        self, names: Sequence[str], rows: Sequence[Sequence[object]], **constants: object
    ) -> None:
        for name in names:
            self._do(name, **constants, rows=_encoded(rows))

    def _text_of(self, name: str) -> str:
        return self._sql[name]

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
        self._do("lock_links")
        return super().reaches(start, target)


def _encoded(rows: Sequence[Sequence[object]]) -> str:
    return encode([trimmed(row) for row in rows])
