"""The HTTP face as an ASGI app: for a server, and for a caller in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from rota.app.ledgers import open_store
from rota.config import Settings, StateDir
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    import asyncio

    from rota.api import Api
    from rota.api.asgi import AsgiApp
    from rota.app.fleet import FleetAtWork
    from rota.model.fleet import Fleet
    from rota.queue.ledger import Ledger
    from rota.signals import Signals


def make_asgi(
    ledger: "Ledger",
    signals: "Signals",
    settings: Settings,
    stopping: "asyncio.Event | None" = None,
    fleet: "FleetAtWork | None" = None,
) -> "Api":
    """The faces of a server as one ASGI app."""
    from rota.api import ApiSettings, create_app
    from rota.api.app import Mount
    from rota.api.fleet_config import config_endpoints
    from rota.api.hooks import hook_endpoints
    from rota.api.signals import signal_endpoints
    from rota.dashboard import dashboard_endpoints
    from rota.dashboard.errors import error_page
    from rota.mcp.http import PATH, McpFace
    from rota.model.access import READ
    from rota.model.fleet import Fleet

    knows = (lambda: fleet.fleet) if fleet else None  # it changes when the file is read again
    api = create_app(
        ledger,
        ApiSettings(
            host=settings.host,
            insecure=settings.insecure,
            allowed_hosts=settings.allowed_hosts,
        ),
        stopping=stopping,
        endpoints=[
            *(dashboard_endpoints(knows, signals=signals) if settings.dashboard else ()),
            *hook_endpoints(fleet.receivers if fleet else ()),
            *config_endpoints(fleet.reload if fleet else None),
            *signal_endpoints(signals),
        ],
        mounts=[Mount(PATH, McpFace(lambda: api, f"the server at {settings.url}"), READ)],
        error_page=error_page if settings.dashboard else None,
        known=(lambda: fleet.everybody) if fleet else Fleet,
    )
    return api


@asynccontextmanager
async def local_asgi(settings: Settings) -> AsyncIterator["AsgiApp"]:
    """The API on a database, for a caller in this process: no server, no port, no tokens."""
    from rota.api import ApiSettings, create_app
    from rota.api.asgi import with_dates
    from rota.api.signals import signal_endpoints
    from rota.queue.ledger import Ledger
    from rota.signals import Signals

    async with open_store(settings.database) as store:
        known = partial(_fleet_of_the_file, settings)
        ledger = Ledger.on(
            store, logs=settings.run_logs, deserted=partial(deserted, settings), fleet=known
        )
        endpoints = signal_endpoints(Signals(store))
        app = create_app(ledger, ApiSettings(trusted=True), endpoints=endpoints, known=known)
        yield with_dates(app, store.clock)


def _fleet_of_the_file(settings: Settings) -> "Fleet":
    """What cannot be read is not known; `rota doctor` says what is wrong with it."""
    from rota.config.loading import load_fleet
    from rota.model.fleet import Fleet

    with suppress(InvalidInput, OSError):
        return load_fleet(settings.config).fleet
    return Fleet()


def deserted(settings: Settings) -> str | None:
    """The place of our servers, while none is there: what one of them left need not be silent for
    long to be told so. No name where none has ever been. Asked each time: a face may be older than
    its server."""
    home = StateDir(settings.state_dir)
    with suppress(OSError):
        if not home.is_held:
            return home.place() if home.has_place else ""
    return None
