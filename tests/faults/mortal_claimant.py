"""A claimant that dies right before or right after its N-th request to the tracker.

As a program it kills itself with SIGKILL: an order is a line of JSON on its standard input, and one
that survives to the end prints another. Inside a test its death is an exception, after which it
reaches neither the tracker nor its ledger.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2

from rota.app import open_ledger
from rota.claims.timing import Pace
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.queue.ledger import Ledger
from rota.sources.assembly import open_desk
from rota.sources.desk import Held
from rota.sources.github import GitHubTracker
from rota.sources.port import ReleaseOptions, WorkResult
from rota.sources.registry import SourceContext
from rota.storage.port import Store

T = TypeVar("T")

AGENT = "lucius"
TOKEN = {"TOKEN": "token-bot"}
PR = "https://example.org/ada/engine/pull/9"
DEEDS: dict[str, WorkResult | None] = {
    "success": WorkResult("success", "mended"),
    "success with a pull request": WorkResult("success", "mended", artifacts=(PR,)),
    "failure": WorkResult("failure", "no nails", error="none left"),
    "partial": WorkResult("partial", "half of it"),
    "release": None,
}


class Killed(BaseException):
    """Nobody handles it, and cleanup on its way out has no effect."""


@dataclass(slots=True)
class Life:
    dies_at: int
    after: bool  # the request was carried out
    die: Callable[[], None]
    requests: int = 0
    over: bool = False

    def end(self) -> None:
        self.over = True
        self.die()

    def check(self) -> None:
        if self.over:
            raise Killed


class MortalTransport(httpx2.AsyncBaseTransport):
    def __init__(self, life: Life, inner: httpx2.AsyncBaseTransport) -> None:
        self._life = life
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        life = self._life
        life.check()
        life.requests += 1
        if life.requests == life.dies_at and not life.after:
            life.end()
        answer = await self._inner.handle_async_request(request)
        if life.requests == life.dies_at:
            await answer.aread()
            await answer.aclose()
            life.end()
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


class MortalStore:
    """Refuses all writes after the death."""

    def __init__(self, life: Life, store: Store) -> None:
        self._life = life
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, body: Callable[[Any], T]) -> "asyncio.Future[T]":
        if not self._life.over:
            return self._store.transact(body)
        refused: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        refused.set_exception(Killed())
        return refused

    async def read(self, body: Callable[[Any], T], **how: Any) -> T:
        self._life.check()
        return await self._store.read(body, **how)


async def work(
    order: Mapping[str, Any],
    life: Life,
    inner: httpx2.AsyncBaseTransport,
    ledger: Ledger,
    pace: Pace,
) -> None:
    """Claim the first issue, and end it as ordered."""
    settings = source_config(order["source"])
    assert isinstance(settings, Forge)
    tracker = GitHubTracker(
        settings.repo,
        token_env="TOKEN",
        api_url=order["source"]["api_url"],
        environ=TOKEN,
        pause=pace.sleep,
        transport=MortalTransport(life, inner),
    )
    context = SourceContext(ledger=ledger, environ=TOKEN)
    try:
        desk = await open_desk(settings, context, tracker=tracker, pace=pace)
        held = await desk.take(1, AGENT)
        assert isinstance(held, Held), held
        result = DEEDS[order["deed"]]
        if result is None:
            assert await desk.release(1, AGENT, options=ReleaseOptions("tired", add_comment=True))
        else:
            await desk.finish(1, AGENT, result)
    finally:
        await tracker.aclose()


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def live(order: Mapping[str, Any]) -> None:
    life = Life(order["dies_at"], order["after"], kill_myself)
    async with open_ledger(order["database"]) as ledger:
        await work(order, life, httpx2.AsyncHTTPTransport(), ledger, Pace())


def main() -> None:
    asyncio.run(live(json.loads(sys.stdin.readline())))
    sys.stdout.write('"lived"\n')


if __name__ == "__main__":
    main()
