"""Two agents work one repository by labels of their own; a server and people look after both."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.claims.protocol import Grant
from rota.model.status import Status, Verb
from rota.queue.moves import Order
from rota.sources.assembly import AgentSources
from rota.sources.desk import Held, IssueDesk
from rota.sources.operators import Operators
from rota.sources.port import WorkResult
from rota.sources.stale_claims import StaleClaims
from rota.sources.tending import SWEEP_SECONDS, Tending
from rota.testing.tracker import Control, TrackerStub
from tests.integration.tended import LEASE, REPO, Tended, tended

POEMS = {"labels": {"ready": "poem", "in_progress": "writing"}, "exclude_labels": ["prose"]}
LIFECYCLE = {"ready", "agent-working", "poem", "writing", "agent:pr-open", "agent:failed"}


@pytest.fixture
async def scene(stub: TrackerStub, tmp_path: Path) -> AsyncIterator[Tended]:
    async with tended(stub, tmp_path) as made:
        made.control.issue(REPO, "Write an ode", labels=["poem"])
        yield made


@pytest.fixture
def control(scene: Tended) -> Control:
    return scene.control


def agents(scene: Tended, **facts: Any) -> AgentSources:
    return (("coder", scene.settings(**facts)), ("poet", scene.settings(**POEMS, **facts)))


def served(scene: Tended, **facts: Any) -> Tending:
    """By the source of the first agent, as it stands in the file."""
    return scene.tending(agents(scene, **facts), **facts)


async def by_hand(scene: Tended) -> IssueDesk:
    return await scene.desk(agents=agents(scene))


async def taken(scene: Tended, **facts: Any) -> Held:
    return await scene.take(agent="poet", **POEMS, **facts)


def stands(scene: Tended) -> set[str]:
    return scene.labels() & LIFECYCLE


async def later(scene: Tended, tending: Tending, seconds: float) -> None:
    scene.time.advance(seconds)
    await tending.tick()


async def test_what_is_ready_for_either_stands_on_the_board_without_a_hold(
    scene: Tended, control: Control
) -> None:
    control.issue(REPO, "Mend the mill", labels=["ready"])
    await served(scene).tick()
    for number in (1, 2):
        item = await scene.item(number)
        assert (item.status, item.hold_reason) == (Status.QUEUED, None)


@pytest.mark.parametrize("mode", ["comments", "strict", "labels"])
async def test_the_issue_of_a_dead_run_goes_back_to_its_agent(scene: Tended, mode: str) -> None:
    tending = served(scene, claim_mode=mode)
    await tending.tick()
    await taken(scene, claim_mode=mode)
    assert stands(scene) == {"writing"}
    await later(scene, tending, LEASE + 1)
    assert stands(scene) == {"poem"}
    await later(scene, tending, SWEEP_SECONDS)
    assert stands(scene) == {"poem"}
    item = await scene.item()
    assert (item.status, item.hold_reason) == (Status.QUEUED, None)


async def test_a_sweep_by_hand_does_the_same(scene: Tended) -> None:
    await taken(scene)
    scene.time.advance(LEASE + 1)
    await StaleClaims(await by_hand(scene)).sweep()
    assert stands(scene) == {"poem"}


@pytest.mark.parametrize("mode", ["comments", "labels"])
async def test_an_agent_stops_for_its_own_excluded_labels_alone(
    scene: Tended, control: Control, mode: str
) -> None:
    tending = served(scene, claim_mode=mode)
    held = await taken(scene, claim_mode=mode)
    control.label(REPO, 1, add=["blocked"])
    await tending.tick()
    assert await scene.may_go_on(held), "'blocked' keeps the other agent away"
    control.label(REPO, 1, add=["prose"])
    await later(scene, tending, 60)
    assert not await scene.may_go_on(held)
    assert stands(scene) == {"poem"}


async def test_what_failed_is_tried_again_by_the_agent_that_failed(scene: Tended) -> None:
    tending = served(scene)
    await tending.tick()
    held = await taken(scene)
    desk = await scene.desk(**POEMS)
    await desk.finish(1, "poet", WorkResult("failure", "No rhyme."))
    assert stands(scene) == {"agent:failed"}
    await scene.ledger.queue.apply(Order(Verb.RETRY, held.item_id or "", "ada"))
    await later(scene, tending, 60)
    assert stands(scene) == {"poem"}


async def test_who_hands_an_issue_over_to_another_agent_is_obeyed(
    scene: Tended, control: Control
) -> None:
    tending = served(scene)
    await taken(scene)
    await later(scene, tending, LEASE + 1)
    control.label(REPO, 1, add=["ready"], remove=["poem"])
    await later(scene, tending, SWEEP_SECONDS)
    assert stands(scene) == {"ready"}


async def test_a_person_takes_an_issue_and_gives_it_back_as_it_was(scene: Tended) -> None:
    operators = Operators(await by_hand(scene))
    status = await operators.status(1)
    assert status.claimable
    assert isinstance(await operators.claim(1), Grant)
    assert stands(scene) == {"writing"}
    assert (await operators.status(1)).in_flight
    assert await operators.release(1)
    assert stands(scene) == {"poem"}
