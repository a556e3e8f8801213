"""What was in the hands of a server that died comes back, also when whoever brings it back dies."""

from dataclasses import replace
from pathlib import Path

import pytest

from rota.model.access import RECOVERY
from rota.model.claims import ClaimedItem, ClaimRequest
from rota.model.events import EventType
from rota.model.runs import Run, RunStatus
from rota.model.schedules import TriggerKind
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.queue.recovery import RUN_LOST, Recovery
from rota.queue.views import Views
from rota.runner.records import RunBook
from rota.scheduler.presence import Presence
from rota.storage.port import Store
from rota.testing.clock import ManualClock
from rota.testing.store_contract.runs import letter, posted

HERE = "here"


class Scene:
    """A server that took an item, began a run and died; and those that start in its place."""

    def __init__(self, store: Store, ledger: Ledger, clock: ManualClock, logs: Path) -> None:
        self.store, self.ledger, self.clock, self.logs = store, ledger, clock, logs

    async def died(self, max_attempts: int = 3) -> tuple[ClaimedItem, Run]:
        await Presence(self.store, "dead", HERE).enter(self.clock.now())
        wish = NewItem("chore", "Mend the gate", max_attempts=max_attempts)
        await self.ledger.queue.submit(wish)
        request = ClaimRequest("ada", lease_seconds=900)
        (claimed,) = (await self.ledger.queue.claim(request)).items
        run = await self.book("dead").begin("ada", TriggerKind.SCHEDULE, item=claimed.item)
        self.clock.advance(5)
        return claimed, run

    def book(self, node: str) -> RunBook:
        return RunBook(self.store, node=node, logs=self.logs)

    async def heir(self, node: str = "heir") -> Recovery:
        await Presence(self.store, node, HERE).enter(self.clock.now())
        return Recovery(replace(self.ledger, runs=self.book(node)), HERE)


@pytest.fixture
def scene(store: Store, ledger: Ledger, clock: ManualClock, tmp_path: Path) -> Scene:
    return Scene(store, ledger, clock, tmp_path)


async def test_the_item_of_a_lost_run_is_queued_again_at_once(scene: Scene) -> None:
    claimed, run = await scene.died()
    await (await scene.heir()).tick()
    item = await scene.ledger.views.item(claimed.item.id)
    assert (item.status, item.reason, item.lease_expires_at) == (Status.QUEUED, RUN_LOST, None)
    assert (await scene.ledger.runs.get(run.id)).status is RunStatus.LOST
    events = await scene.store.read(lambda tx: tx.events_of(item.id, 100))
    assert (events[-1].type, events[-1].actor) == (EventType.RELEASED, RECOVERY)


async def test_an_item_whose_attempts_are_used_up_fails(scene: Scene) -> None:
    claimed, _ = await scene.died(max_attempts=1)
    await (await scene.heir()).tick()
    item = await scene.ledger.views.item(claimed.item.id)
    assert (item.status, item.reason) == (Status.FAILED, "attempts_exhausted")


async def test_who_dies_between_the_run_and_its_item_leaves_the_item_to_the_next(
    scene: Scene,
) -> None:
    claimed, _ = await scene.died()
    await Presence(scene.store, "heir", HERE).enter(scene.clock.now())
    await scene.book("heir").bury(HERE, scene.clock.text(-60))
    await (await scene.heir("heir-2")).tick()
    assert (await scene.ledger.views.item(claimed.item.id)).status is Status.QUEUED


async def test_an_item_whose_result_waits_to_be_delivered_is_left_alone(scene: Scene) -> None:
    claimed, _ = await scene.died()
    await posted(scene.store, letter("1", subject=claimed.item.id))
    await (await scene.heir()).tick()
    assert (await scene.ledger.views.item(claimed.item.id)).status is Status.IN_PROGRESS


async def test_an_item_that_others_have_taken_since_is_theirs(scene: Scene) -> None:
    claimed, _ = await scene.died()
    await scene.ledger.queue.apply(Order(Verb.RELEASE, claimed.item.id, "boss", force=True))
    (again,) = (await scene.ledger.queue.claim(ClaimRequest("bob"))).items
    await (await scene.heir()).tick()
    item = await scene.ledger.views.item(claimed.item.id)
    assert (item.status, item.claim_token) == (Status.IN_PROGRESS, again.claim.token)


async def test_an_item_that_others_take_while_it_is_looked_at_is_theirs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, _ = await scene.died()
    heir = await scene.heir()
    lost_at_work = RunBook.lost_at_work

    async def then_taken(book: RunBook) -> list[Run]:
        found = await lost_at_work(book)
        await scene.ledger.queue.apply(Order(Verb.RELEASE, claimed.item.id, "boss", force=True))
        await scene.ledger.queue.claim(ClaimRequest("bob"))
        return found

    monkeypatch.setattr(RunBook, "lost_at_work", then_taken)
    await heir.tick()
    item = await scene.ledger.views.item(claimed.item.id)
    assert (item.status, item.assigned_agent) == (Status.IN_PROGRESS, "bob")


async def test_an_item_that_others_take_before_it_is_given_back_is_theirs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, _ = await scene.died()
    heir = await scene.heir()
    look = Views.item

    async def then_taken(views: Views, item_id: str) -> WorkItem:
        found = await look(views, item_id)
        await scene.ledger.queue.apply(Order(Verb.RELEASE, item_id, "boss", force=True))
        await scene.ledger.queue.claim(ClaimRequest("bob"))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Views, "item", then_taken)
        await heir.tick()
    item = await scene.ledger.views.item(claimed.item.id)
    assert (item.status, item.assigned_agent) == (Status.IN_PROGRESS, "bob")
