"""Whether the item that a question is about exists."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.cli.session import Session


def demand_item(session: "Session", item: str | None) -> None:
    """Tells an item without any of something from an item that does not exist."""
    if item is not None:
        session.client.work_get(item)
