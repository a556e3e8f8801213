"""A worker on another machine: claims over HTTP, runs an agent, reports how it went.

What keeps its agent from running (failures in a row, a used-up quota, the day's budget) is in the
ledger. So all workers of one agent rest together, and `rota agent resume` wakes them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from rota.client import ClaimedItem
from rota.client._async import runtime
from rota.client._async.held import ANSWER_LATE
from rota.client.errors import PASSING, ServerFailed
from rota.client.retries import Retries
from rota.client.worker_run import Equipment, WorkerRun
from rota.model.agents import room_for_reviews
from rota.model.clock import elapsed
from rota.model.errors import NotFound, RotaError
from rota.model.runs import Run, RunEnd, Spent, in_a_row
from rota.model.wanted import WorkWanted
from rota.runner.budget import exceeded

log = logging.getLogger("rota.client")

DEFAULT_LEASE_SECONDS = 300.0
ASK_AGAIN_SECONDS = 5.0
_SHORTEST_POLL = 0.5
_ANYTHING = WorkWanted("queue")
_AGAIN = Retries(base_seconds=0.5, cap_seconds=15.0)

Json = dict[str, Any]
Heard = Callable[[str, Json], None]


class Worker:
    """`heard` is called with what happens: waiting, paused, started, ended."""

    def __init__(
        self,
        equipment: Equipment,
        *,
        slots: int = 1,
        wanted: WorkWanted = _ANYTHING,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        once: bool = False,
        heard: Heard = lambda _what, _facts: None,
    ) -> None:
        self._with = equipment
        self._client = equipment.client
        self._slots = 1 if once else slots
        self._wanted = wanted
        self._lease_seconds = lease_seconds
        self._once = once
        self._heard = heard
        self._stop = asyncio.Event()
        self._news = asyncio.Event()  # wakes lanes that wait for work, to look again
        self._paused: str | None = None
        self.runs = 0

    async def work(self, stop: asyncio.Event, at_once: asyncio.Event, grace: float) -> None:
        """Until `stop`: then nothing more is taken, and runs have `grace` seconds to end. What
        still runs then, or once `at_once` is set, is ended and given back."""
        working = asyncio.ensure_future(runtime.side_by_side(self._lane, self._slots, self._stop))
        try:
            await _first(working, stop)
            self._stop.set()
            self._news.set()
            if not working.done():
                self._heard("stopping", {"seconds": grace})
                await _first(working, at_once, grace)
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working

    # one item after another

    async def _lane(self) -> None:
        while not self._stop.is_set():
            self._news.clear()
            if await self._is_kept():
                if self._once:
                    return
                continue
            item = await self._claimed()
            if item is not None:
                await self._run(item)
            if self._once:
                return

    async def _run(self, item: ClaimedItem) -> None:
        try:
            if not await item.is_ours():
                await item.give_back(ANSWER_LATE, counted=False)
                return
            self._client.heartbeats.hold(item.lease)
            lived = await WorkerRun(item, self._with).live(self._began)
        except RotaError:  # it could not begin, so nobody has worked on it
            await item.give_back("worker_failed", counted=False)
            raise
        except BaseException:
            await item.give_back("shut_down", counted=False)
            raise
        finally:
            self._client.heartbeats.let_go(item.lease)
        if lived is not None:
            self._ended(*lived)

    def _began(self, run: Run) -> None:
        self.runs += 1
        facts = {"run_id": run.id, "work_item_id": run.work_item_id, "title": run.item_title}
        self._heard("started", {**facts, "attempt": run.attempt})

    def _ended(self, run: Run, end: RunEnd) -> None:
        self._heard(
            "ended",
            {
                "run_id": run.id,
                "work_item_id": run.work_item_id,
                "status": str(end.status),
                "summary": end.summary,
                "error": end.error,
            },
        )

    # taking

    async def _claimed(self) -> ClaimedItem | None:
        attempt = 0
        while not self._stop.is_set():
            began = elapsed()
            try:
                found = await runtime.unless(self._news, self._claim(), self._unwanted)
            except (*PASSING, ServerFailed) as error:
                if self._once:
                    raise
                attempt += 1
                log.warning("no claim, the server is asked again: %s", error.message)
                await runtime.pause(self._stop, _AGAIN.pause(attempt, error))
                continue
            if found:
                return ClaimedItem(self._client, found[0], self._lease_seconds, began)
            if not self._once and elapsed() - began < _SHORTEST_POLL:
                await runtime.pause(self._stop, _SHORTEST_POLL)
            return None
        return None

    async def _unwanted(self, claimed: list[Json]) -> None:
        """Give back what was claimed while this worker stopped asking."""
        for data in claimed:
            item = ClaimedItem(self._client, data, self._lease_seconds)
            await item.give_back("shut_down", counted=False)

    async def _claim(self) -> list[Json]:
        return await self._client.claim(
            self._with.agent.name,
            types=self._wanted.types or None,
            labels=self._wanted.labels or None,
            project_id=self._wanted.project_id,
            lease_seconds=self._lease_seconds,
            wait_seconds=0.0 if self._once else runtime.POLL_SECONDS,
        )

    # what keeps the agent from running

    async def _is_kept(self) -> bool:
        """Whether something keeps the agent from running. If so, waits a while."""
        why, before = await self._kept_by(), self._paused
        self._paused = why
        if why is not None and why != before:
            self._heard("paused", {"why": why})
            self._news.set()
        if why is None:
            return False
        await runtime.pause(self._stop, ASK_AGAIN_SECONDS)
        return True

    async def _kept_by(self) -> str | None:
        try:
            standing = await self._client.get_agent(
                self._with.agent.name, timezone=self._with.agent.budget.timezone
            )
        except (NotFound, *PASSING, ServerFailed):  # unknown here, or no answer: the claim tells
            return None
        if standing["usage_until"]:
            return f"its runtime's quota is used up until {standing['usage_until']}"
        if standing["breaker_until"]:
            failed = in_a_row(standing["failures"])
            return f"{failed}; the next try is at {standing['breaker_until']}"
        most, in_review = standing.get("max_in_review"), standing.get("in_review", 0)
        if room_for_reviews(most, in_review, standing["in_progress"]) == 0:
            return (
                f"{in_review} of its items are in review, and {most} may be in review or under way"
            )
        spent = exceeded(self._with.agent.budget.per_day, _spent(standing["spent_today"]))
        return f"its budget of the day is used: {spent}" if spent else None


def _spent(today: Json) -> Spent:
    return Spent(today["runs"], today["seconds"], today["tokens"], today["cost_usd"])


async def _first(
    working: "asyncio.Future[None]", event: asyncio.Event, seconds: float | None = None
) -> None:
    waiting = asyncio.ensure_future(event.wait())
    both: set[asyncio.Future[Any]] = {working, waiting}
    try:
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
