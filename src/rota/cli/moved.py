"""What is printed after an item was changed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.cli.session import Session


def moved(session: "Session", item: dict[str, Any], what: str | None = None) -> None:
    """One line: the item and its status."""
    agent = f" ({item['assigned_agent']})" if item["assigned_agent"] else ""
    session.output.line(item, f"{item['id']} {what or item['status']}{'' if what else agent}")
