"""What files declare begins once, and ends when the last file lets go of it; on both databases."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.model.errors import Refused
from rota.model.signals import NewSignal, SignalStatus
from rota.model.status import Status
from rota.model.work import NewItem
from rota.queue import Ledger
from rota.signals import Signals, SignalScheduler
from rota.storage.port import Store
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to

COMPLETED = {"kind": "work_item.status.transition", "to": ["completed"]}
FAILED = {"kind": "work_item.status.transition", "to": ["failed"]}
SUBMIT = {"kind": "submit", "title": "Release it"}


@dataclass
class Scene:
    store: Store
    clock: ManualClock
    ledger: Ledger
    signals: Signals
    processor: SignalScheduler
    agents: list[str] = field(default_factory=lambda: [f"agent-{n}" for n in range(20)])

    def one(
        self,
        name: str,
        when: Mapping[str, Any] = COMPLETED,
        then: Mapping[str, Any] = SUBMIT,
        **facts: Any,
    ) -> NewSignal:
        return self.signals.read(when, then, name=name, configured=True, **facts)

    async def complete(self) -> int:
        """One more item; how many signals fired."""
        await bring_to(self.ledger.queue, Status.COMPLETED, self.agents.pop())
        return await self.processor.tick()

    async def standing(self) -> list[tuple[str | None, SignalStatus]]:
        """The oldest first."""
        return [(one.name, one.status) for one in await self.signals.find()]


@pytest.fixture
def scene(store: Store, clock: ManualClock, ledger: Ledger) -> Scene:
    processor = SignalScheduler(store, owner="one")
    return Scene(store, clock, ledger, Signals(store), processor)


# once, whatever restarts


async def test_one_that_has_fired_as_often_as_it_may_does_not_begin_again(scene: Scene) -> None:
    file = [scene.one("release", max_fires=1)]
    await scene.signals.sync(file)
    assert (await scene.complete(), await scene.complete()) == (1, 0)
    await scene.signals.sync(file)
    assert await scene.complete() == 0
    assert await scene.standing() == [("release", SignalStatus.FIRED)]


async def test_what_is_true_already_fires_once_and_not_at_every_start(scene: Scene) -> None:
    project = await scene.ledger.queue.create_project("rel")
    await scene.ledger.queue.submit(NewItem("chore", "x", project_id=project.id))
    when = {"kind": "work_items.all_in", "in": ["queued"], "project_id": project.id}
    file = [scene.one("announce", when, max_fires=1)]
    fired = []
    for _ in range(3):
        await scene.signals.sync(file)
        fired.append(await scene.processor.tick())
    assert fired == [1, 0, 0]


async def test_one_that_was_changed_begins_anew_also_after_it_has_fired(scene: Scene) -> None:
    await scene.signals.sync([scene.one("release", max_fires=1)])
    await scene.complete()
    await scene.signals.sync([scene.one("release", max_fires=2)])
    assert [await scene.complete() for _ in range(3)] == [1, 1, 0]
    await scene.signals.sync([scene.one("release", max_fires=1)])  # the last one counts, no older
    assert await scene.complete() == 1
    assert await scene.standing() == [("release", SignalStatus.FIRED)] * 3


async def test_the_one_that_is_active_counts_also_if_its_makers_clock_is_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.signals.sync([scene.one("release")])
    behind = ManualClock()
    behind.advance(-3600)
    monkeypatch.setattr(scene.store, "clock", behind)
    other, file = Signals(scene.store), [scene.one("release", FAILED)]
    for _ in range(2):
        await other.sync(file)
    (active,) = await scene.signals.find(SignalStatus.ACTIVE)
    assert active.condition.to == ("failed",)
    assert len(await scene.signals.find()) == 2


async def test_what_a_person_has_cancelled_stays_so_until_its_declaration_changes(
    scene: Scene,
) -> None:
    file = [scene.one("release", max_fires=None)]
    await scene.signals.sync(file)
    (made,) = await scene.signals.find()
    await scene.signals.cancel(made.id, actor="ada")
    await scene.signals.sync(file)
    assert await scene.standing() == [("release", SignalStatus.CANCELLED)]
    await scene.signals.sync([scene.one("release", FAILED, max_fires=None)])
    assert (await scene.standing())[1:] == [("release", SignalStatus.ACTIVE)]


async def test_what_comes_back_to_the_file_begins_anew_unless_it_has_fired_all_it_may(
    scene: Scene,
) -> None:
    often, once = scene.one("often", max_fires=None), scene.one("once", max_fires=1)
    cancelled = scene.one("cancelled", FAILED, max_fires=None)
    await scene.signals.sync([often, once, cancelled])
    await scene.complete()
    (by_hand,) = [one.id for one in await scene.signals.find() if one.name == "cancelled"]
    await scene.signals.cancel(by_hand, actor="ada")
    await scene.signals.sync([])
    assert await scene.signals.find(SignalStatus.ACTIVE) == []
    await scene.signals.sync([often, once, cancelled])
    active = {one.name: one.fires for one in await scene.signals.find(SignalStatus.ACTIVE)}
    assert active == {"often": 0, "cancelled": 0}


@pytest.mark.parametrize(
    ("when", "then"),
    [
        (COMPLETED, {"kind": "submit", "title": "x", "payload": {}}),
        (COMPLETED, {"kind": "submit", "title": "x", "payload": {"a": [1, {"b": None}]}}),
        (COMPLETED, {"kind": "submit", "title": "x", "labels": ["red"], "priority": 1}),
        ({"kind": "source.event", "fields": {"a.b": [1.5, True], "c": {}}}, SUBMIT),
        ({"kind": "time", "after": "2h", "in": ["in_review"], "type": ["bug"]}, SUBMIT),
        ({"kind": "run.finished", "outcome": ["failed"]}, SUBMIT),
    ],
)
async def test_what_was_stored_is_not_taken_for_a_change(
    scene: Scene, when: Mapping[str, Any], then: Mapping[str, Any]
) -> None:
    file = [scene.one("same", when, then)]
    for _ in range(2):
        await scene.signals.sync(file)
    assert await scene.standing() == [("same", SignalStatus.ACTIVE)]


async def test_whoever_dies_on_the_way_has_changed_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first, second, … write of the transaction."""
    await scene.signals.sync([scene.one("goes"), scene.one("changes")])
    before = await scene.standing()
    transact, deaths = scene.store.transact, 0

    def dying(body: Any) -> Any:
        def half(tx: Any) -> Any:
            left = deaths

            class Mortal:
                def __getattr__(self, name: str) -> Any:
                    nonlocal left
                    if name.startswith(("insert", "end", "append", "declare", "forget")):
                        left -= 1
                        if left < 0:
                            raise ConnectionError("killed")
                    return getattr(tx, name)

            return body(Mortal())

        return transact(half)

    monkeypatch.setattr(scene.store, "transact", dying)
    while True:
        with suppress(ConnectionError):
            await scene.signals.sync([scene.one("changes", FAILED), scene.one("comes")])
            break
        assert await scene.standing() == before
        deaths += 1
    assert deaths > 6
    assert sorted((one.name or "") for one in await scene.signals.find(SignalStatus.ACTIVE)) == [
        "changes",
        "comes",
    ]


async def test_what_a_person_has_made_is_no_files_whatever_its_name(scene: Scene) -> None:
    mine = await scene.signals.create(scene.signals.read(FAILED, SUBMIT, name="release"))
    with pytest.raises(Refused, match="is called 'release' and still active"):
        await scene.signals.sync([scene.one("release")])
    assert (await scene.signals.get(mine.id)).signal.status is SignalStatus.ACTIVE
    assert (await scene.signals.sync([])).left == ()
    await scene.signals.cancel(mine.id)
    await scene.signals.sync([scene.one("release")])
    assert await scene.standing() == [
        ("release", SignalStatus.CANCELLED),
        ("release", SignalStatus.ACTIVE),
    ]
