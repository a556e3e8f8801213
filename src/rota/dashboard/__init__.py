"""The dashboard in a browser, served by `rota up` at `/`. Each page is a module."""

from collections.abc import Callable

from rota.api.routing import Endpoint
from rota.dashboard import assets, board, items, overview, runs, schedules, signing
from rota.dashboard.agents import agent_endpoints
from rota.dashboard.rendering import following
from rota.dashboard.signals import signal_pages
from rota.model.fleet import Fleet
from rota.signals import Signals


def dashboard_endpoints(
    fleet: Callable[[], Fleet] | None = None, *, signals: Signals | None = None
) -> tuple[Endpoint, ...]:
    """`fleet` returns this server's configuration, where it has one."""
    pages = (
        *board.ENDPOINTS,
        *items.ENDPOINTS,
        *overview.ENDPOINTS,
        *runs.ENDPOINTS,
        *agent_endpoints(fleet),
        *schedules.ENDPOINTS,
        *(signal_pages(signals) if signals else ()),
    )
    return (*assets.ENDPOINTS, *signing.ENDPOINTS, *map(following, pages))
