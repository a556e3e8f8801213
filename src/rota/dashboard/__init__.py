"""The board in a browser, served by `rota up` at `/`."""

from rota.api.answers import Answer, Reply
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.dashboard import pages
from rota.model.access import READ
from rota.model.errors import NotFound

HTML = b"text/html; charset=utf-8"


@endpoint("GET", "/", scope=READ, tag="dashboard", hidden=True)
async def board(call: Call) -> Reply:
    """The board: what stands where."""
    return Answer(200, await pages.board(call.ledger), HTML)


@endpoint("GET", "/items/{id}", scope=READ, tag="dashboard", hidden=True)
async def item(call: Call) -> Reply:
    """One item with its history."""
    return Answer(200, await pages.item(call.ledger, call.id), HTML)


@endpoint("GET", "/static/{name}", scope=None, tag="dashboard", hidden=True)
async def static(call: Call) -> Reply:
    """Style, script and icon."""
    found = pages.static(call.id)
    if found is None:
        raise NotFound(f"there is no file {call.id!r}")
    content, media_type = found
    return Answer(200, content, media_type.encode())


ENDPOINTS = (board, item, static)
