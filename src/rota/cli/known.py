"""Whether what a question is about is there at all."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.cli.session import Session


def demand_item(session: "Session", item: str | None) -> None:
    """That an item has none of something is an answer; that there is no such item is another."""
    if item is not None:
        session.client.work_get(item)
