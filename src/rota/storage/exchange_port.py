"""What may be asked of a database to take a whole ledger out and to put it in again."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from rota.storage.primitives import Row
from rota.storage.shapes import Shape


class ExchangeVerbs(Protocol):
    """Part of `Transaction`."""

    def export_page(
        self, shape: Shape, after: Row | None, limit: int, project_id: str | None
    ) -> list[Row]:
        """The rows behind the key `after`, in the order of their keys."""

    def begin_import(self) -> None:
        """Keep all other writers out until the end of the transaction."""

    def import_rows(self, shape: Shape, rows: Sequence[Row]) -> set[Row]:
        """Store rows as they are; the keys of those for which there was room."""

    def stored_row(self, shape: Shape, key: Row) -> Row | None: ...

    def is_heard_at_all(self) -> bool:
        """Does any signal listen to events?"""

    def settle_event_numbers(self) -> None:
        """New events come behind those that were imported with their numbers."""

    def imported_items(self) -> Iterable[tuple[str, str, str]]:
        """Id, status and payload of the items whose payload says where they came from."""
