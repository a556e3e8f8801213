"""Projects by the names that people give them; everything behind the command line has their ids."""

import re
from typing import TYPE_CHECKING, Any

import click

from rota.cli.parsing import NONE
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.client import SyncWorkQueueClient

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class ProjectName(click.ParamType[str]):
    """A name or an id. The command gets the id (see `Command.invoke`): where to ask for it is known
    only when all options are."""

    name = "name|id"

    def __init__(self, *, clears: bool = False) -> None:
        """`clears`: `none` is no name, but takes an item out of its project."""
        self._clears = clears

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def id_of(self, client: "SyncWorkQueueClient", text: str) -> str:
        if self._clears and text == NONE:
            return text
        found = named(client, text)
        if found is None:
            raise InvalidInput(
                f"project: there is no project {text[:100]!r}; see `rota project list`",
                field="project",
            )
        return found


def named(client: "SyncWorkQueueClient", text: str) -> str | None:
    """The id of the only project of that name; an id is returned as it is."""
    if _ID.fullmatch(text):
        return text
    found = [str(one["id"]) for one in client.list_projects() if one["name"] == text]
    if len(found) > 1:
        raise InvalidInput(
            f"project: {len(found)} are named {text[:100]!r}; give the id of one:"
            f" {', '.join(found[:5])}",
            field="project",
        )
    return found[0] if found else None
