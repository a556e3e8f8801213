"""What may be asked of a database to export and import a whole ledger."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from rota.storage.primitives import Row
from rota.storage.shapes import Shape


class ExchangeVerbs(Protocol):
    """Part of `Transaction`."""

    def export_page(
        self, shape: Shape, after: Row | None, limit: int, project_id: str | None
    ) -> list[Row]:
        """The rows after the key `after`, in the order of their keys."""

    def begin_import(self) -> None:
        """Keep all other writers out until the end of the transaction."""

    def import_rows(self, shape: Shape, rows: Sequence[Row]) -> set[Row]:
        """Store rows as they are, unless they conflict with a stored row; returns the keys of the
        rows that were stored."""

    def stored_row(self, shape: Shape, key: Row) -> Row | None: ...

    def is_heard_at_all(self) -> bool:
        """Whether any signal listens to events."""

    def settle_event_numbers(self) -> None:
        """Make new events get higher numbers than the imported ones, which kept theirs."""

    def imported_items(self) -> Iterable[tuple[str, str, str]]:
        """Id, status and payload of the items whose payload says where they came from."""
