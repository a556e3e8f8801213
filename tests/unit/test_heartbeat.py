"""A claimant that waits for its tracker keeps its lease: how often it says so, and when no more."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rota.model.claims import Claim, ClaimedItem
from rota.model.errors import ClaimLost, NotFound, StorageUnavailable
from rota.model.work import WorkItem
from rota.queue.ledger import Ledger
from rota.sources.heartbeat import SHORTEST_PAUSE_SECONDS, Waiting, kept_alive
from rota.testing.clock import ManualClock

AWAY = StorageUnavailable("the database is away")


class Scene:
    """A ledger that answers as it is told, and a claimant that waits until all of it was said."""

    def __init__(self, *answers: Exception | float) -> None:
        self.clock = ManualClock()
        self.queue = self
        self.pauses: list[float] = []
        self.answers = list(answers)
        self._all_said = asyncio.Event()
        claim = Claim("i", 1, "t", "ada", 0, self.clock.text(), 900.0, self.clock.text(120))
        self._claimed = ClaimedItem(cast(WorkItem, SimpleNamespace(id="i")), claim)

    async def heartbeat(self, item_id: str, token: str, **_: Any) -> Claim:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return self._claimed.claim._replace(lease_seconds=answer)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self.answers:
            self._all_said.set()
            await asyncio.Event().wait()

    async def wait(self) -> Waiting:
        others = asyncio.all_tasks()
        async with (
            asyncio.timeout(30),
            kept_alive(cast(Ledger, self), self._claimed, self._sleep) as waiting,
        ):
            (beating,) = asyncio.all_tasks() - others
            said = asyncio.ensure_future(self._all_said.wait())
            await asyncio.wait([said, beating], return_when=asyncio.FIRST_COMPLETED)
            said.cancel()
            if beating.done():
                await beating
        assert waiting is not None
        return waiting


async def test_a_beat_that_fails_is_tried_again_and_soon() -> None:
    scene = Scene(AWAY, AWAY, 90.0)
    await scene.wait()
    assert scene.pauses == [40, 5, 5, 30]


@pytest.mark.parametrize("lost", [ClaimLost("it has lapsed"), NotFound("it was deleted")])
async def test_a_claim_that_is_lost_has_no_more_beats(lost: Exception) -> None:
    scene = Scene(lost, 90.0)
    await scene.wait()
    assert scene.pauses == [40]


@pytest.mark.parametrize("jump", [120, 7200])
async def test_a_clock_that_has_jumped_makes_nobody_ask_without_a_pause(jump: float) -> None:
    scene = Scene(AWAY, AWAY, AWAY)
    scene.clock.advance(jump)
    await scene.wait()
    assert scene.pauses == [SHORTEST_PAUSE_SECONDS] * 4


@pytest.mark.parametrize("answer", [90.0, AWAY, ClaimLost("it was revoked")])
async def test_that_the_wait_is_over_is_said_where_it_was_said_and_fails_nobody(
    answer: Exception | float,
) -> None:
    for waited, left in ((90.0,), []), ((), [answer]):
        scene = Scene(*waited)
        waiting = await scene.wait()
        scene.answers = [answer]
        await waiting.granted()
        assert scene.answers == left
