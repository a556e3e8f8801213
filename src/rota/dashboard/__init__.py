"""The dashboard in a browser, served by `rota up` at `/`. Each page is a module."""

from rota.api.routing import Endpoint
from rota.dashboard import assets, board, items


def dashboard_endpoints() -> tuple[Endpoint, ...]:
    return (*assets.ENDPOINTS, *board.ENDPOINTS, *items.ENDPOINTS)
