"""What a database brings for the verbs: ways to run a statement."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rota.storage.statements import load_statements

if TYPE_CHECKING:
    from rota.storage.port import Topic

Row = tuple[Any, ...]
Parameters = Mapping[str, object]
Fields = tuple[str, ...]  # what the values of a row are called, in their order


class Primitives(ABC):
    DIALECT: ClassVar[str]

    def __init__(self) -> None:
        self._sql = load_statements(self.DIALECT)
        self.topics: set[Topic] = set()  # whom the commit wakes

    def wake(self, topic: "Topic") -> None:
        self.topics.add(topic)

    def _rows(self, statement: str, /, **parameters: object) -> list[Row]:
        """Run the statement of this name."""
        return self._text(self._sql[statement], parameters)

    @abstractmethod
    def _text(self, statement: str, parameters: Parameters) -> list[Row]:
        """Run a statement that was put together here and not in a file."""

    @abstractmethod
    def _changed(self, statement: str, /, **parameters: object) -> int:
        """Run a named statement; how many rows it changed."""

    @abstractmethod
    def _each(
        self,
        statement: str,
        fields: Fields,
        rows: Sequence[Sequence[object]],
        /,
        **constants: object,
    ) -> list[Row]:
        """Run the statement of this name for all rows at once; `:rows` in its text are these."""

    def _beside(self, statement: str, /, **parameters: object) -> list[Row]:
        """As `_rows`, of what changes nothing that a claim may take."""
        return self._rows(statement, **parameters)

    def _do(self, statement: str, /, **parameters: object) -> None:
        """Run the statement of this name, of which nobody reads an answer."""
        self._rows(statement, **parameters)

    def _run_all(
        self,
        names: Sequence[str],
        fields: Fields,
        rows: Iterable[Sequence[object]],
        **constants: object,
    ) -> None:
        """Run the statements of these names, one after the other, for all rows."""
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
        """Of its first row the first; None where there is no row, or nothing in it."""
        row = self._one(statement, **parameters)
        return row[0] if row else None

    def _count(self, statement: str, /, **parameters: object) -> int:
        return int(self._value(statement, **parameters) or 0)
