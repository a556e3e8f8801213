"""Projects by name; the ledger knows them by their ids."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rota.model.errors import InvalidInput

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))


def the_one_named(text: str, projects: Iterable[Mapping[str, Any]]) -> str | None:
    """The id of the only project of that name."""
    found = [str(one["id"]) for one in projects if one["name"] == text]
    if len(found) > 1:
        raise InvalidInput(
            f"project: {len(found)} are named {text[:100]!r}; give the id of one:"
            f" {', '.join(found[:5])}",
            field="project",
        )
    return found[0] if found else None


def unknown(text: str) -> InvalidInput:
    return InvalidInput(
        f"project: there is no project {text[:100]!r}; see `rota project list`", field="project"
    )
