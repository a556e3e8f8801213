"""What the doctor looks at in the ledger: runs that nobody carries on."""

import asyncio
from collections import Counter
from collections.abc import Iterator

from rota.cli.findings import WARN, Finding


def left_runs(database: str) -> Iterator[Finding]:
    for seen, count in sorted(asyncio.run(_left(database)).items()):
        many = "1 run is" if count == 1 else f"{count} runs are"
        yield Finding(
            "runs", WARN, f"{many} left by a server that has not been seen since {seen}",
            "start rota up there: it ends them as lost, and gives their items back; see rota run"
            " list --status running",
        )  # fmt: skip


async def _left(database: str) -> Counter[str]:
    """How many, by when their server was last seen."""
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        return Counter(run.unseen_since for run in await ledger.runs.open() if run.unseen_since)
