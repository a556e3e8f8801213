"""Resources that a client may read and pin: an item, the board, and what an agent must know."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from rota.mcp import prime, telling
from rota.mcp.seat import Seat
from rota.model.errors import NotFound
from rota.model.status import TERMINAL, Status

Json = dict[str, Any]

BOARD, PRIME, ITEM = "rota://board", "rota://prime", "rota://item/"
_PER_COLUMN = 20


async def read(seat: Seat, uri: str, ledger: str) -> tuple[str, str]:
    """The media type and the text of a resource."""
    fixed: dict[str, Callable[[], Awaitable[tuple[str, str]]]] = {
        BOARD: lambda: _board(seat),
        PRIME: lambda: _prime(seat, ledger),
    }
    if uri in fixed:
        return await fixed[uri]()
    if uri.startswith(ITEM):
        return _json(telling.long(await seat.client.work_get(uri.removeprefix(ITEM))))
    raise NotFound(f"there is no resource {uri[:200]!r}; there are {BOARD}, {PRIME}, {ITEM}ID")


async def _board(seat: Seat) -> tuple[str, str]:
    """Columns of open items; ended ones are left out."""
    columns: Json = {}
    for status in Status:
        if status not in TERMINAL:
            found = await seat.client.work_list(str(status), limit=_PER_COLUMN)
            columns[str(status)] = [telling.short(one) for one in found]
    return _json(columns)


async def _prime(seat: Seat, ledger: str) -> tuple[str, str]:
    return "text/markdown", prime.text(await prime.look(seat, ledger))


def _json(content: Any) -> tuple[str, str]:
    return "application/json", json.dumps(content, ensure_ascii=False, indent=1)
