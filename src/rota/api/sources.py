"""The places that work comes from, and how they stand."""

from rota.api import schemas, wire
from rota.api.answers import Answer, json_answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.model.access import READ

TAG = "sources"


@endpoint("GET", "/sources", scope=READ, tag=TAG, gives=list[schemas.Source])
async def list_sources(call: Call) -> Answer:
    """List the sources that were tended: when each was read, what is wrong, what it has cost.

    `polled_at` is when the source was last read whole, with all claims of ours on it; `requests`
    are those of the servers that tend it, not those of agents.
    """
    return json_answer([wire.source_of(one) for one in await call.ledger.outside.states()])


ENDPOINTS = (list_sources,)
