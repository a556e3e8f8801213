"""The places that work comes from, and their state."""

from rota.api import schemas, wire
from rota.api.answers import Answer
from rota.api.bodies import PageQuery
from rota.api.call import Call
from rota.api.pages import cut_answer
from rota.api.routing import endpoint
from rota.model.access import READ

TAG = "sources"


@endpoint("GET", "/sources", scope=READ, tag=TAG, gives=list[schemas.Source], sets=("Link",))
async def list_sources(call: Call, query: PageQuery) -> Answer:
    """List the sources that servers tend, with their last poll, errors and requests.

    `polled_at` is when the source was last read whole, with all claims of this ledger on it.
    `requests` counts the requests of the servers that tend it, not those of agents.
    """
    found = await call.ledger.outside.states()
    return cut_answer(call, query, found, place=lambda one: one.source, written=wire.source_of)


ENDPOINTS = (list_sources,)
