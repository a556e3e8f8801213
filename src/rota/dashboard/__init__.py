"""The dashboard in a browser, served by `rota up` at `/`. Each page is a module."""

from rota.api.routing import Endpoint
from rota.dashboard import assets, board, items, runs, signing
from rota.dashboard.rendering import following


def dashboard_endpoints() -> tuple[Endpoint, ...]:
    pages = (
        *board.ENDPOINTS,
        *items.ENDPOINTS,
        *runs.ENDPOINTS,
    )
    return (*assets.ENDPOINTS, *signing.ENDPOINTS, *map(following, pages))
