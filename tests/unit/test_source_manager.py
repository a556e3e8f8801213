"""Work for an agent: fetched, claimed, reported and given back through one manager."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.model.errors import ClaimLost, InvalidInput, UnknownWorkSourceError, WorkSourceError
from rota.model.status import Status
from rota.model.work import Priority
from rota.sources import manager
from rota.sources.manager import CANDIDATES, MOST_ERRORS, NextWorkItem, WorkSourceManager
from rota.sources.memory import MemoryPlace, MemoryWorkSource
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    FetchResult,
    ReleaseOptions,
    ReleaseResult,
    WorkResult,
)
from rota.sources.registry import SourceContext, WorkSourceRegistry

MENDED = WorkResult("success", "mended")


@dataclass
class Agent:
    name: str = "ada"
    work_source: Mapping[str, Any] | None = field(default_factory=lambda: {"type": "spied"})


class Spied(MemoryWorkSource):
    """A real source that tells what was asked of it, and lets a test step in before a claim."""

    def __init__(self, place: MemoryPlace, agent: str, config: Mapping[str, Any]) -> None:
        super().__init__(place, agent)
        self.config = dict(config)
        self.fetches: list[FetchOptions] = []
        self.claims: list[str] = []
        self.closed = 0
        self.before_claim: Callable[[str], Any] = lambda _: None
        self.claiming, self.fetching = asyncio.Event(), asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.may_fetch = asyncio.Event()
        self.may_fetch.set()
        self.breaks_on_close = False

    async def fetch_available_work(self, options: FetchOptions = FetchOptions()) -> FetchResult:  # noqa: B008
        self.fetches.append(options)
        self.fetching.set()
        await self.may_fetch.wait()
        return await super().fetch_available_work(options)

    async def claim_work(self, work_item_id: str) -> ClaimResult:
        self.claims.append(work_item_id)
        answer = self.before_claim(work_item_id) or await super().claim_work(work_item_id)
        self.claiming.set()
        await self.may_answer.wait()
        return answer

    async def aclose(self) -> None:
        self.closed += 1
        if self.breaks_on_close:
            raise OSError("the wire is cut")


class Fleet:
    """A manager on one place, and every adapter it has made."""

    def __init__(self) -> None:
        self.place = MemoryPlace()
        self.made: list[Spied] = []
        types = WorkSourceRegistry(lambda: ())
        types.register("spied", self._make)
        self.manager = WorkSourceManager(SourceContext(), registry=types)

    def _make(self, config: Mapping[str, Any], context: SourceContext) -> Spied:
        if config.get("wrong"):
            raise InvalidInput("work_source.wrong is wrong")
        self.made.append(Spied(self.place, context.agent, config))
        return self.made[-1]

    async def adapter(self, agent: Agent | None = None) -> Spied:
        found = await self.manager.get_adapter(agent or Agent())
        assert isinstance(found, Spied)
        return found

    def taken_by_another(self, item_id: str) -> None:
        self.place.entries[item_id].status = Status.IN_PROGRESS


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


# the next item


async def test_an_agent_without_a_source_gets_nothing(fleet: Fleet) -> None:
    agent = Agent(work_source=None)
    assert await fleet.manager.get_adapter(agent) is None
    assert await fleet.manager.get_next_work_item(agent) == NextWorkItem(None, False, None)


async def test_an_empty_source_gives_nothing(fleet: Fleet) -> None:
    assert await fleet.manager.get_next_work_item(Agent()) == NextWorkItem(None, False, None)


async def test_the_best_item_is_claimed(fleet: Fleet) -> None:
    fleet.place.add("later")
    urgent = fleet.place.add("now", priority=Priority.CRITICAL)
    item, claimed, result = await fleet.manager.get_next_work_item(Agent())
    assert item is not None
    assert (item.id, claimed) == (urgent.id, True)
    assert result is not None
    assert result.success
    assert fleet.place.entries[urgent.id].agent == "ada"


async def test_without_auto_claim_the_best_item_is_only_shown(fleet: Fleet) -> None:
    first = fleet.place.add("Mend the gate")
    found = await fleet.manager.get_next_work_item(Agent(), auto_claim=False)
    assert found == NextWorkItem(first, False, None)
    assert (await fleet.adapter()).claims == []


async def test_filters_reach_the_source(fleet: Fleet) -> None:
    fleet.place.add("wood", priority=Priority.CRITICAL)
    iron = fleet.place.add("iron", labels=["iron"])
    found = await fleet.manager.get_next_work_item(Agent(), options=FetchOptions(labels=("iron",)))
    assert found.item is not None
    assert found.item.id == iron.id


async def test_what_others_have_claimed_is_no_candidate(fleet: Fleet) -> None:
    fleet.taken_by_another(fleet.place.add("Mend the gate").id)
    found = await fleet.manager.get_next_work_item(
        Agent(), options=FetchOptions(include_claimed=True)
    )
    assert found == NextWorkItem(None, False, None)


async def test_a_lost_race_leads_to_the_next_candidate(fleet: Fleet) -> None:
    items = [fleet.place.add(f"item {number}") for number in range(3)]
    adapter = await fleet.adapter()
    taken = {items[0].id, items[1].id}
    adapter.before_claim = lambda one: fleet.taken_by_another(one) if one in taken else None
    found = await fleet.manager.get_next_work_item(Agent())
    assert found.claimed
    assert found.item is not None
    assert found.item.id == items[2].id
    assert adapter.claims == [item.id for item in items]


async def test_candidates_come_from_further_pages_too(fleet: Fleet) -> None:
    items = [fleet.place.add(f"item {number}") for number in range(3)]
    adapter = await fleet.adapter()
    adapter.before_claim = lambda one: fleet.taken_by_another(one) if one != items[2].id else None
    found = await fleet.manager.get_next_work_item(Agent(), options=FetchOptions(limit=1))
    assert found.claimed
    assert len(adapter.fetches) == 3


async def test_when_all_candidates_are_lost_the_last_refusal_is_told(fleet: Fleet) -> None:
    for number in range(CANDIDATES + 5):
        fleet.place.add(f"item {number}")
    adapter = await fleet.adapter()
    adapter.before_claim = fleet.taken_by_another
    item, claimed, result = await fleet.manager.get_next_work_item(Agent())
    assert item is not None
    assert (item.id, claimed) == (f"memory-{CANDIDATES}", False)
    assert result is not None
    assert result.reason is ClaimFailureReason.ALREADY_CLAIMED
    assert len(adapter.claims) == CANDIDATES


@pytest.mark.parametrize(
    ("reason", "tries"),
    [
        (ClaimFailureReason.SOURCE_ERROR, MOST_ERRORS),
        (ClaimFailureReason.PERMISSION_DENIED, 1),
        (ClaimFailureReason.ALREADY_CLAIMED, MOST_ERRORS + 2),
        (ClaimFailureReason.NOT_FOUND, MOST_ERRORS + 2),
        (ClaimFailureReason.INVALID_STATE, MOST_ERRORS + 2),
    ],
)
async def test_only_what_another_item_could_mend_is_tried_again(
    fleet: Fleet, reason: ClaimFailureReason, tries: int
) -> None:
    for number in range(MOST_ERRORS + 2):
        fleet.place.add(f"item {number}")
    adapter = await fleet.adapter()
    refused = ClaimResult(False, reason=reason, message="no")
    adapter.before_claim = lambda _: refused
    found = await fleet.manager.get_next_work_item(Agent())
    assert (found.claimed, found.claim_result) == (False, refused)
    assert len(adapter.claims) == tries


async def test_concurrent_calls_of_one_agent_get_different_items(fleet: Fleet) -> None:
    for number in range(4):
        fleet.place.add(f"item {number}")
    found = await asyncio.gather(*(fleet.manager.get_next_work_item(Agent()) for _ in range(5)))
    got = [one.item.id for one in found if one.item is not None and one.claimed]
    assert sorted(got) == [f"memory-{number}" for number in range(1, 5)]
    assert len(fleet.made) == 1


async def test_a_caller_that_is_cancelled_while_claiming_gives_the_item_back(fleet: Fleet) -> None:
    item = fleet.place.add("Mend the gate")
    adapter = await fleet.adapter()
    adapter.may_answer.clear()
    asking = asyncio.create_task(fleet.manager.get_next_work_item(Agent()))
    await adapter.claiming.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    adapter.may_answer.set()
    await fleet.manager.aclose()
    assert fleet.place.entries[item.id].status is Status.QUEUED
    assert adapter.closed == 1


async def test_what_is_given_back_is_the_claim_that_nobody_waited_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may have taken the item again meanwhile, by a claim that is not to end."""
    fleet.place.add("Mend the gate")
    adapter = await fleet.adapter()
    adapter.may_answer.clear()
    claim, released = "the-first-claim", list[ReleaseOptions]()
    adapter.before_claim = lambda _: ClaimResult(True, claim=claim)

    async def release_work(
        work_item_id: str,
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008
    ) -> ReleaseResult:
        released.append(options)
        return ReleaseResult(True)

    monkeypatch.setattr(adapter, "release_work", release_work)
    asking = asyncio.create_task(fleet.manager.get_next_work_item(Agent()))
    await adapter.claiming.wait()
    asking.cancel()
    await asyncio.wait([asking])
    adapter.may_answer.set()
    await fleet.manager.aclose()
    assert [one.claim for one in released] == [claim]


async def test_who_closes_does_not_wait_for_ever_for_a_source_that_does_not_answer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "GIVE_BACK_SECONDS", 0.01)
    fleet.place.add("Mend the gate")
    adapter = await fleet.adapter()
    adapter.may_answer.clear()
    asking = asyncio.create_task(fleet.manager.get_next_work_item(Agent()))
    await adapter.claiming.wait()
    asking.cancel()
    await asyncio.wait([asking])
    async with asyncio.timeout(20):
        await fleet.manager.aclose()
    assert adapter.closed == 1


async def test_a_failing_fetch_is_not_taken_for_an_empty_one(fleet: Fleet) -> None:
    with pytest.raises(UnknownWorkSourceError):
        await fleet.manager.get_next_work_item(Agent(work_source={"type": "unheard-of"}))


# report and release


async def test_an_outcome_reaches_the_source(fleet: Fleet) -> None:
    item = fleet.place.add("Mend the gate")
    await fleet.manager.get_next_work_item(Agent())
    await fleet.manager.report_outcome(item.id, MENDED, agent=Agent())
    assert fleet.place.entries[item.id].result == MENDED


async def test_a_release_carries_its_reason(fleet: Fleet) -> None:
    item = fleet.place.add("Mend the gate")
    await fleet.manager.get_next_work_item(Agent())
    released = await fleet.manager.release_work_item(
        item.id, agent=Agent(), reason="the run crashed", add_comment=True
    )
    assert released.success
    assert fleet.place.entries[item.id].status is Status.QUEUED
    assert fleet.place.entries[item.id].comments == ["the run crashed"]


async def test_an_agent_without_a_source_cannot_report(fleet: Fleet) -> None:
    agent = Agent(work_source=None)
    with pytest.raises(WorkSourceError, match="'ada' has no work source"):
        await fleet.manager.report_outcome("memory-1", MENDED, agent=agent)
    assert not (await fleet.manager.release_work_item("memory-1", agent=agent)).success


async def test_a_lost_claim_is_told_to_the_caller(fleet: Fleet) -> None:
    item = fleet.place.add("Mend the gate")
    with pytest.raises(ClaimLost):
        await fleet.manager.report_outcome(item.id, MENDED, agent=Agent())


# adapters


async def test_an_adapter_is_kept_for_each_agent(fleet: Fleet) -> None:
    first = await fleet.adapter(Agent("ada"))
    assert await fleet.adapter(Agent("ada")) is first
    assert await fleet.adapter(Agent("bob")) is not first
    assert [one.agent for one in fleet.made] == ["ada", "bob"]


async def test_a_changed_configuration_gives_a_new_adapter_and_closes_the_old(
    fleet: Fleet,
) -> None:
    config = {"type": "spied", "labels": ["iron"]}
    agent = Agent(work_source=config)
    old = await fleet.adapter(agent)
    config["labels"].append("wood")  # type: ignore[attr-defined] - also when changed in place
    new = await fleet.adapter(agent)
    assert new is not old
    assert new.config["labels"] == ["iron", "wood"]
    assert (old.closed, new.closed) == (1, 0)


async def test_an_agent_that_loses_its_source_has_its_adapter_closed(fleet: Fleet) -> None:
    old = await fleet.adapter(Agent())
    assert await fleet.manager.get_adapter(Agent(work_source=None)) is None
    assert old.closed == 1


async def test_a_wrong_configuration_closes_the_old_adapter_and_is_told(fleet: Fleet) -> None:
    old = await fleet.adapter(Agent())
    with pytest.raises(InvalidInput):
        await fleet.adapter(Agent(work_source={"type": "spied", "wrong": True}))
    assert old.closed == 1


@pytest.mark.parametrize("how", ["report", "release"])
async def test_a_claim_is_ended_with_the_adapter_that_made_it(fleet: Fleet, how: str) -> None:
    item = fleet.place.add("Mend the gate")
    before = Agent(work_source={"type": "spied"})
    after = Agent(work_source={"type": "spied", "labels": ["iron"]})
    await fleet.manager.get_next_work_item(before)
    old = await fleet.adapter(before)
    await fleet.adapter(after)
    await fleet.manager.clear_cache()
    assert old.closed == 0
    if how == "report":
        await fleet.manager.report_outcome(item.id, MENDED, agent=after)
        assert fleet.place.entries[item.id].result == MENDED
    else:
        assert (await fleet.manager.release_work_item(item.id, agent=after)).success
        assert fleet.place.entries[item.id].status is Status.QUEUED
    assert old.closed == 1


async def test_a_retired_adapter_is_not_closed_under_a_call(fleet: Fleet) -> None:
    fleet.place.add("Mend the gate")
    old = await fleet.adapter(Agent())
    old.may_fetch.clear()
    asking = asyncio.create_task(fleet.manager.get_next_work_item(Agent()))
    await old.fetching.wait()
    await fleet.adapter(Agent(work_source={"type": "spied", "labels": ["iron"]}))
    assert old.closed == 0
    old.may_fetch.set()
    assert (await asking).claimed
    assert old.closed == 0
    await fleet.manager.report_outcome("memory-1", MENDED, agent=Agent())
    assert old.closed == 1


async def test_a_lost_claim_sets_its_retired_adapter_free(fleet: Fleet) -> None:
    item = fleet.place.add("Mend the gate")
    await fleet.manager.get_next_work_item(Agent())
    old = await fleet.adapter()
    await fleet.manager.clear_cache()
    fleet.place.entries[item.id].token = "of another"
    with pytest.raises(ClaimLost):
        await fleet.manager.report_outcome(item.id, MENDED, agent=Agent())
    assert old.closed == 1


async def test_who_lets_go_of_a_claim_sets_its_adapter_free(fleet: Fleet) -> None:
    """And that of no other claim; the adapter that is in use stays open."""
    items = [fleet.place.add(title) for title in ("Mend the gate", "Oil it", "Paint it")]
    found = [await fleet.manager.get_next_work_item(Agent()) for _ in items[:2]]
    old = await fleet.adapter()
    await fleet.manager.clear_cache()
    third = await fleet.manager.get_next_work_item(Agent())
    new = await fleet.adapter()
    for one in found:
        assert one.claim_result is not None
        claim = one.claim_result.claim
        await fleet.manager.let_go(items[2].id, agent=Agent(), claim=claim)
        assert old.closed == 0
        await fleet.manager.let_go(one.item.id if one.item else "", agent=Agent(), claim=claim)
    assert old.closed == 1
    assert third.claim_result is not None
    await fleet.manager.let_go(items[2].id, agent=Agent(), claim=third.claim_result.claim)
    await fleet.manager.let_go("memory-9", agent=Agent("bob"))
    assert new.closed == 0
    await fleet.manager.clear_cache()
    assert new.closed == 1
    assert {entry.status for entry in fleet.place.entries.values()} == {Status.IN_PROGRESS}


async def test_clearing_the_cache_closes_idle_adapters(fleet: Fleet) -> None:
    old = await fleet.adapter()
    await fleet.manager.clear_cache()
    assert old.closed == 1
    assert await fleet.adapter() is not old


async def test_closing_closes_all_adapters_also_when_one_breaks(fleet: Fleet) -> None:
    fleet.place.add("Mend the gate")
    async with fleet.manager as manager:
        await manager.get_next_work_item(Agent("ada"))
        await manager.get_adapter(Agent("bob"))
        await manager.get_adapter(Agent("eve"))
        await manager.clear_cache()
        await manager.get_adapter(Agent("bob"))
        await manager.get_adapter(Agent("eve"))
        fleet.made[3].breaks_on_close = True
        with pytest.raises(OSError, match="the wire is cut"):
            await manager.aclose()
    assert [one.closed for one in fleet.made] == [1, 1, 1, 1, 1]


async def test_an_adapter_of_five_verbs_needs_no_more_to_be_used_and_closed() -> None:
    place = MemoryPlace()
    key = place.add("Mend the gate").id

    class Five:
        """As much of an adapter as a work source has to have."""

        type = "five"

        def __init__(self, config: Mapping[str, Any]) -> None:
            within = MemoryWorkSource(place, "ada")
            self.fetch_available_work = within.fetch_available_work
            self.claim_work = within.claim_work
            self.complete_work = within.complete_work
            self.release_work = within.release_work
            self.get_work = within.get_work

    registry = WorkSourceRegistry(lambda: ())
    registry.register("five", Five)
    async with WorkSourceManager(registry=registry) as sources:
        found = await sources.get_next_work_item(Agent(work_source={"type": "five"}))
        assert found.item is not None
        assert (found.item.id, found.claimed) == (key, True)
        await sources.report_outcome(key, MENDED, agent=Agent(work_source={"type": "five"}))
