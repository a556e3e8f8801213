"""One item, and everything about it."""

from rota.api.answers import Answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.dashboard.rendering import page
from rota.model.access import READ
from rota.model.status import allowed_from


@endpoint("GET", "/items/{id}", scope=READ, tag="dashboard", hidden=True)
async def item(call: Call) -> Answer:
    """One item with its history."""
    detail = await call.ledger.views.detail(call.id)
    explanation = await call.ledger.views.explain(call.id)
    return await page(
        call, "item.html", "board", item=detail.item, detail=detail, explanation=explanation,
        allowed=allowed_from(detail.item.status),
    )  # fmt: skip


ENDPOINTS = (item,)
