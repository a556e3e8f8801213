"""Items by the beginning of their ids, as far as it is unambiguous."""

import re
from typing import TYPE_CHECKING

import click

from rota.cli.parsing import LookedUp
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.client import SyncWorkQueueClient

_WHOLE = 36
_BEGINNING = re.compile(r"[0-9a-f-]{4,35}")
_SHOWN = 5


class ItemId(LookedUp):
    """An id, or its beginning."""

    name = "id"

    def id_of(self, client: "SyncWorkQueueClient", text: str) -> str:
        """Text that no id begins with is returned as it is; the command then finds no item."""
        beginning = text.lower()
        if len(text) >= _WHOLE or not _BEGINNING.fullmatch(beginning):
            return text
        found = [str(one["id"]) for one in client.work_list(id_prefix=beginning, limit=_SHOWN + 1)]
        if len(found) > 1:
            many = f"more than {_SHOWN}" if len(found) > _SHOWN else str(len(found))
            raise InvalidInput(
                f"item: {many} ids begin with {text!r}; write more of the one you mean:"
                f" {', '.join(found[:_SHOWN])}",
                field="item",
            )
        return found[0] if found else text


item = click.argument("item", type=ItemId())


def demand_item(session: "Session", item: str | None) -> None:
    """Tells an item without any of something from an item that does not exist."""
    if item is not None:
        session.client.work_get(item)
