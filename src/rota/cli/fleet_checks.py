"""The doctor's checks in the ledger: runs that nobody carries on."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from rota.cli.findings import WARN, Finding
from rota.config import Settings

if TYPE_CHECKING:
    from rota.model.runs import Run
    from rota.queue.ledger import Ledger
    from rota.queue.reasons import Reason

_MOST_NAMED = 3


def left_runs(settings: Settings) -> Iterator[Finding]:
    runs, reasons = asyncio.run(_left(settings))
    by_sight = defaultdict[str, list[str]](list)
    for run in runs:
        by_sight[run.unseen_since or ""].append(f"{run.id} of '{run.agent}'")
    for seen, named in sorted(by_sight.items()):
        many = "1 run is" if len(named) == 1 else f"{len(named)} runs are"
        more = ", …" if len(named) > _MOST_NAMED else ""
        which = ", ".join(named[:_MOST_NAMED]) + more
        yield Finding(
            "runs", WARN, f"{many} left by a server that has not been seen since {seen}: {which}",
            "start rota up there: it ends them as lost, and gives their items back; see rota run"
            " list --status running",
        )  # fmt: skip
    for one in reasons:
        yield Finding("runs", WARN, one.message, one.fix)


async def _left(settings: Settings) -> "tuple[list[Run], list[Reason]]":
    """Runs whose server has been silent for a while, and reasons why the items of other runs wait.
    `explain` sees at once that a server on this machine has died."""
    from rota.app import deserted, open_ledger

    async with open_ledger(settings.database, deserted=partial(deserted, settings)) as ledger:
        runs = await ledger.runs.open()
        silent = [run for run in runs if run.unseen_since]
        going = [run for run in runs if not run.unseen_since]
        return silent, [reason for run in going for reason in await _gone(ledger, run)]


async def _gone(ledger: "Ledger", run: "Run") -> "list[Reason]":
    if run.work_item_id is None:
        return []
    told = await ledger.views.explain(run.work_item_id)
    return [one for one in told.reasons if one.code == "server_gone"]
