"""Brings back the items of a process that died."""

from contextlib import suppress
from datetime import timedelta

import structlog

from rota.model.access import RECOVERY
from rota.model.clock import to_text
from rota.model.errors import NotFound, Refused, VersionMismatch
from rota.model.runs import Run
from rota.model.status import Outcome, Status, Verb
from rota.model.work import WorkItem
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.queue.sweeper import ATTEMPTS_EXHAUSTED

log = structlog.get_logger()

LOOK_SECONDS = 5.0
# A worker on another machine may be between its claim and its run.
WORKER_SECONDS = 60.0
RUN_LOST = "run_lost"


class Recovery:
    """A chore: ends runs of dead nodes as lost, and returns the items of earlier nodes at our place
    without waiting for their leases.

    A node at another place may only be cut off from the database, with its agents still at work:
    its items are left to their leases. The scheduler's presence ends the nodes themselves. An item
    whose result is recorded and only waits to be delivered is left alone, because its work is done.
    """

    name = "recovery"

    def __init__(self, ledger: Ledger, place: str) -> None:
        self._ledger = ledger
        self._place = place

    async def tick(self) -> float:
        before = to_text(self._ledger.clock.now() - timedelta(seconds=WORKER_SECONDS))
        await self._ledger.runs.bury(self._place, before)
        # Not only the runs that were just buried: a server may have died between these two steps.
        for run in await self._ledger.runs.lost_at_work():
            await self._give_back(run)
        return LOOK_SECONDS

    async def _give_back(self, run: Run) -> None:
        log.warning("run lost", run=run.id, agent=run.agent, item=run.work_item_id)
        with suppress(NotFound, Refused, VersionMismatch):  # the item has moved in the meantime
            item = await self._ledger.views.item(run.work_item_id or "")
            if item.status is not Status.IN_PROGRESS or item.epoch != run.epoch:
                return
            await self._ledger.queue.apply(_order(run, item))


def _order(run: Run, item: WorkItem) -> Order:
    """As when a lease lapses: back to the queue, or failed when its attempts are used up."""
    spent = item.attempts >= item.max_attempts
    return Order(
        Verb.FAIL if spent else Verb.RELEASE,
        item.id,
        RECOVERY,
        outcome=Outcome.FAILED if spent else None,
        reason=ATTEMPTS_EXHAUSTED if spent else RUN_LOST,
        version=item.version,
        force=True,
        notes=f"run {run.id} of {run.agent} was lost with its server",
    )
