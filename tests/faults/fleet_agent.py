"""One agent of a fleet in its own process: takes issues, works, reports, and dies on request.

Each round begins with a line of JSON on its standard input, and ends with another on its output.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.app import open_ledger
from rota.claims.timing import Pace
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.model.errors import ClaimLost, RotaError
from rota.sources.assembly import open_desk
from rota.sources.forge import ForgeWorkSource
from rota.sources.github import RetryOptions
from rota.sources.github.tracker import GitHubTracker
from rota.sources.http.wire import Timeouts
from rota.sources.manager import WorkSourceManager
from rota.sources.port import WorkResult, WorkSource
from rota.sources.registry import SourceContext, WorkSourceRegistry

QUICK = RetryOptions(base_delay=0.02, max_delay=3.0)
EMPTY_LOOKS = 3
MOST_ERRORS = 100


@dataclass(frozen=True)
class Agent:
    name: str
    work_source: Mapping[str, Any]


def tracker_of(settings: Forge, context: SourceContext) -> GitHubTracker:
    return GitHubTracker(
        settings.repo,
        token_env=settings.auth.token_env,
        api_url=settings.api_url,  # type: ignore[attr-defined]  # of a GitHub source
        environ=context.environ,
        retry=QUICK,
        timeout=Timeouts(connect=5, read=5),
    )


def factory(config: Mapping[str, Any], context: SourceContext) -> WorkSource:
    """Like the real factory, but with short timeouts."""
    settings = source_config(config)
    assert isinstance(settings, Forge)
    tracker = tracker_of(settings, context)
    return ForgeWorkSource(
        "github", context.agent, lambda: open_desk(settings, context, tracker=tracker, pace=Pace())
    )


async def work(order: Mapping[str, Any]) -> dict[str, Any]:
    rng = random.Random(f"{order['seed']}-{order['agent']}")
    registry = WorkSourceRegistry()
    registry.register("github", factory)
    agent = Agent(order["agent"], order["source"])
    async with open_ledger(order["database"]) as ledger:
        context = SourceContext(
            ledger=ledger,
            environ={"TOKEN": order["token"]},
            paused_repos=Path(order["database"]).with_suffix(".paused"),
        )
        async with WorkSourceManager(context, registry=registry) as manager:
            return await _work(manager, agent, rng)


async def _work(manager: WorkSourceManager, agent: Agent, rng: random.Random) -> dict[str, Any]:
    owned: list[dict[str, Any]] = []
    lost = errors = empty = 0
    while empty < EMPTY_LOOKS:
        try:
            item, claimed, _ = await manager.get_next_work_item(agent)
        except RotaError:
            errors += 1
            if errors > MOST_ERRORS:
                raise
            continue
        if item is None:
            empty += 1
            await asyncio.sleep(0.05 * rng.random())  # so that thirty do not ask in step
            continue
        if not claimed:
            lost += 1
            continue
        empty = 0
        owned.append(await _own(manager, agent, item.id, rng))
        if owned[-1]["deed"] == "die":
            break
    return {"owned": owned, "lost": lost, "errors": errors}


async def _own(
    manager: WorkSourceManager, agent: Agent, item_id: str, rng: random.Random
) -> dict[str, Any]:
    began = time.monotonic()
    await asyncio.sleep(0.02 * rng.random())  # the work
    ended = time.monotonic()
    deed = rng.choices(["success", "failure", "release", "die"], [75, 10, 10, 5])[0]
    try:
        if deed == "release":
            await manager.release_work_item(item_id, agent=agent, reason="tired")
        elif deed != "die":
            await manager.report_outcome(item_id, WorkResult(deed, "done"), agent=agent)  # type: ignore[arg-type]
    except ClaimLost:
        deed = "refused"
    except RotaError as error:
        deed = f"unknown: {error.code}"
    number = int(item_id.removeprefix("github-"))
    return {"number": number, "agent": agent.name, "began": began, "ended": ended, "deed": deed}


def main() -> None:
    _say({"pid": os.getpid()})
    for line in sys.stdin:
        _say(asyncio.run(work(json.loads(line))))


def _say(word: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
