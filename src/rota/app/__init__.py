"""Composition root: puts the other rooms together, and imports of each only what is needed."""

from rota.app.desks import (
    find_source,
    fleet_config,
    make_tendings,
    open_claimants,
    open_desk,
    open_operators,
    open_stale_claims,
    open_window,
    repositories,
    source_context,
)
from rota.app.faces import deserted, local_asgi, make_asgi
from rota.app.ledgers import (
    make_home,
    make_store,
    open_ledger,
    open_queue,
    open_store,
    sqlite_path,
)
from rota.app.serving import collect_rarely, up

__all__ = [
    "collect_rarely",
    "deserted",
    "find_source",
    "fleet_config",
    "local_asgi",
    "make_asgi",
    "make_home",
    "make_store",
    "make_tendings",
    "open_claimants",
    "open_desk",
    "open_ledger",
    "open_operators",
    "open_queue",
    "open_stale_claims",
    "open_store",
    "open_window",
    "repositories",
    "source_context",
    "sqlite_path",
    "up",
]
