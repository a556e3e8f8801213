"""The server itself: health, metrics, the sweep."""

import asyncio

from rota import __version__
from rota.api import schemas, wire
from rota.api.answers import Answer, json_answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.model.access import DISPATCH, READ
from rota.model.errors import StorageUnavailable

TAG = "care"
HEALTH_SECONDS = 5.0
PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"


def database_kind(address: str) -> str:
    scheme = address.partition("://")[0]
    return "postgresql" if scheme.startswith("postgres") else scheme


@endpoint("GET", "/health", scope=None, tag=TAG, gives=schemas.Health)
async def health(call: Call) -> Answer:
    """Check whether the database answers and stores changes.

    Open to everyone. The answer is 503 while the database does not answer. It is also 503 after a
    change that could not be stored (the disk is full, the file is gone), until one is stored again.
    Reads may work meanwhile. The reason is in the server's log.
    """
    # The reasons are left out, because they may name the database and this is open to everyone.
    try:
        async with asyncio.timeout(HEALTH_SECONDS):
            await call.ledger.views.alive()
    except (TimeoutError, StorageUnavailable):
        raise StorageUnavailable("the database does not answer") from None
    kind = database_kind(call.ledger.database)
    if call.ledger.writes.refusal is not None:
        raise StorageUnavailable(
            "the database answers and stores nothing; the server's log says why", database=kind
        )
    return json_answer(schemas.Health("ok", __version__, kind))


@endpoint("GET", "/metrics", scope=READ, tag=TAG, gives=str, media_type=PROMETHEUS)
async def metrics(call: Call) -> Answer:
    """Show figures for Prometheus."""
    counts = {str(status): count for status, count in (await call.ledger.views.counts()).items()}
    kind = database_kind(call.ledger.database)
    sources, vitals = await call.ledger.outside.states(), await call.ledger.figures.vitals()
    text = await asyncio.to_thread(call.metrics.render, counts, __version__, kind, sources, vitals)
    return Answer(200, text, PROMETHEUS.encode())


@endpoint("POST", "/sweep", scope=DISPATCH, tag=TAG, gives=schemas.Sweep)
async def sweep(call: Call) -> Answer:
    """Bring back items that nobody works on any more.

    A running server does this by itself. Items whose lease has lapsed go back to the queue, or fail
    if their attempts are used up. Items that were started without a lease and have been quiet for
    30 minutes are blocked.
    """
    swept = await call.ledger.sweeper.tick()
    call.metrics.swept(swept)
    return json_answer(wire.sweep_of(swept))


ENDPOINTS = (health, metrics, sweep)
