"""Projects by name. Everything behind the command line uses their ids."""

from typing import TYPE_CHECKING

from rota.cli.parsing import NONE, LookedUp
from rota.client.project_ids import is_id, the_one_named, unknown

if TYPE_CHECKING:
    from rota.client import SyncWorkQueueClient


class ProjectName(LookedUp):
    """A name or an id."""

    name = "name|id"

    def __init__(self, *, clears: bool = False) -> None:
        """`clears`: `none` is not a name, but takes an item out of its project."""
        self._clears = clears

    def id_of(self, client: "SyncWorkQueueClient", text: str) -> str:
        if self._clears and text == NONE:
            return text
        found = named(client, text)
        if found is None:
            raise unknown(text)
        return found


def named(client: "SyncWorkQueueClient", text: str) -> str | None:
    """The id of the only project of that name; an id is returned as it is."""
    return text if is_id(text) else the_one_named(text, client.list_projects())
