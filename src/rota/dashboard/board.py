"""The board: what stands where."""

from collections.abc import Mapping

from rota.api.answers import Answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.dashboard.rendering import page, span
from rota.model.access import READ
from rota.model.clock import from_text
from rota.model.status import Status

CARDS_A_PAGE = 30

COLUMNS: Mapping[Status, str] = {
    Status.QUEUED: "Queued",
    Status.DISPATCHED: "Dispatched",
    Status.IN_PROGRESS: "In progress",
    Status.BLOCKED: "Blocked",
    Status.IN_REVIEW: "In review",
    Status.COMPLETED: "Done today",
    Status.FAILED: "Failed",
}
EMPTY: Mapping[Status, str] = {
    Status.QUEUED: 'Nothing waits. Add work with: rota add --type chore "Say hello"',
    Status.DISPATCHED: "Nothing is dispatched and not yet picked up.",
    Status.IN_PROGRESS: "Nobody is at work. An agent takes work with: rota claim --agent NAME",
    Status.BLOCKED: "Nothing needs your help.",
    Status.IN_REVIEW: "Nothing waits for a review.",
    Status.COMPLETED: "Nothing is completed yet.",
    Status.FAILED: "Nothing has failed.",
}


@endpoint("GET", "/", scope=READ, tag="dashboard", hidden=True)
async def board(call: Call) -> Answer:
    """The board: what stands where."""
    views = call.ledger.views
    counts, now = await views.counts(), call.ledger.clock.now()
    columns = []
    for status, title in COLUMNS.items():
        items = await views.column(status, CARDS_A_PAGE)
        cards = [
            {"item": one, "age": span((now - from_text(one.updated_at)).total_seconds())}
            for one in items
        ]
        columns.append(
            {
                "status": status,
                "title": title,
                "count": counts[status],
                "more": counts[status] - len(items),
                "empty": EMPTY[status],
                "cards": cards,
            }
        )
    return await page(call, "board.html", "board", columns=columns)


ENDPOINTS = (board,)
