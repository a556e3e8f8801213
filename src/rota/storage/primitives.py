"""What a database must provide to the verbs: ways to run a statement."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rota.storage.statements import load_statements

if TYPE_CHECKING:
    from rota.storage.port import Topic

Row = tuple[Any, ...]
Parameters = Mapping[str, object]
Fields = tuple[str, ...]  # the names of the values of a row, in order


class Primitives(ABC):
    DIALECT: ClassVar[str]

    def __init__(self) -> None:
        self._sql = load_statements(self.DIALECT)
        self.topics: set[Topic] = set()  # which the commit wakes

    def wake(self, topic: "Topic") -> None:
        self.topics.add(topic)

    def _rows(self, statement: str, /, **parameters: object) -> list[Row]:
        """Run the statement of this name."""
        return self._text(self._sql[statement], parameters)

    @abstractmethod
    def _text(self, statement: str, parameters: Parameters) -> list[Row]:
        """Run a statement given as text."""

    @abstractmethod
    def _changed(self, statement: str, /, **parameters: object) -> int:
        """Run a named statement; returns the number of changed rows."""

    @abstractmethod
    def _each(
        self,
        statement: str,
        fields: Fields,
        rows: Sequence[Sequence[object]],
        /,
        **constants: object,
    ) -> list[Row]:
        """Run the statement of this name for all rows at once: they replace `:rows` in its text."""

    def _beside(self, statement: str, /, **parameters: object) -> list[Row]:
        """As `_rows`, for a statement that changes nothing a claim could take."""
        return self._rows(statement, **parameters)

    def _do(self, statement: str, /, **parameters: object) -> None:
        """Run the statement of this name and ignore its answer."""
        self._rows(statement, **parameters)

    def _run_all(
        self,
        names: Sequence[str],
        fields: Fields,
        rows: Iterable[Sequence[object]],
        **constants: object,
    ) -> None:
        """Run the statements of these names, in order, for all rows."""
        given = list(rows)
        for name in names:
            self._each(name, fields, given, **constants)

    def _many(self, name: str, rows: Sequence[Parameters]) -> None:
        """Run a named statement once for each row."""
        for row in rows:
            self._do(name, **row)

    def _one(self, statement: str, /, **parameters: object) -> Row | None:
        rows = self._rows(statement, **parameters)
        return rows[0] if rows else None

    def _value(self, statement: str, /, **parameters: object) -> Any | None:
        """The first value of the first row; None when there is no row, or the value is NULL."""
        row = self._one(statement, **parameters)
        return row[0] if row else None

    def _count(self, statement: str, /, **parameters: object) -> int:
        return int(self._value(statement, **parameters) or 0)
