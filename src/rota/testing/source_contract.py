"""The contract of `rota.sources.port`, as tests over any adapter.

    class TestMySource(SourceContract):
        @pytest.fixture
        async def place(self) -> AsyncIterator[Place]: ...

A `Place` holds the items: it makes new ones, and opens itself as a source for as many agents as the
test wants. The fixture closes the sources that it has made.
"""

import asyncio
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Protocol

import pytest

from rota.model.errors import BadCursor, ClaimLost, InvalidInput, MalformedReference, RotaError
from rota.model.work import Priority
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    ReleaseOptions,
    WorkItem,
    WorkResult,
    WorkSource,
)

CLAIMERS = 12
MENDED = WorkResult("success", "mended", artifacts=("https://example.org/pull/1",))
GIVEN_UP = WorkResult("failure", "the hinge is gone", error="no hinge")
HALF_MENDED = WorkResult("partial", "one of two hinges", details="the other has to be bought")

TAKEN = ClaimFailureReason.ALREADY_CLAIMED
OVER = frozenset({ClaimFailureReason.INVALID_STATE, ClaimFailureReason.NOT_FOUND})


class Place(Protocol):
    async def add(
        self,
        title: str,
        *,
        description: str = "",
        priority: Priority = Priority.MEDIUM,
        labels: Sequence[str] = (),
    ) -> str:
        """Add an available item, younger than those before. Returns its id."""

    def source(self, agent: str) -> WorkSource:
        """A new adapter for this agent."""


async def fetched(source: WorkSource, **asked: object) -> list[WorkItem]:
    """The items of all pages."""
    options = replace(FetchOptions(), **asked)  # type: ignore[arg-type]  # its own field names
    items: list[WorkItem] = []
    while True:
        page = await source.fetch_available_work(options)
        items += page.items
        if page.next_cursor is None:
            return items
        options = replace(options, cursor=page.next_cursor)


async def ids(source: WorkSource, **asked: object) -> list[str]:
    return [item.id for item in await fetched(source, **asked)]


async def claimed(source: WorkSource, item_id: str) -> ClaimResult:
    result = await source.claim_work(item_id)
    assert result.success, result
    return result


class SourceContract:
    # Longer texts are not tried, for places that cannot hold them.
    longest_description: ClassVar[int] = 1_000_000

    @pytest.fixture
    def ada(self, place: Place) -> WorkSource:
        return place.source("ada")

    @pytest.fixture
    def bob(self, place: Place) -> WorkSource:
        return place.source("bob")

    # fetch

    async def test_an_empty_place_has_no_work(self, ada: WorkSource) -> None:
        found = await ada.fetch_available_work()
        assert found.items == ()
        assert found.next_cursor is None

    async def test_an_item_is_told_as_it_was_written(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add(
            "Mend the gate",
            description="It squeaks.\n\nAnd it *hangs*.",
            priority=Priority.HIGH,
            labels=["garden"],
        )
        (item,) = await fetched(ada)
        assert item.id == item_id == f"{ada.type}-{item.external_id}"
        assert item.source == ada.type
        assert (item.title, item.description) == (
            "Mend the gate",
            "It squeaks.\n\nAnd it *hangs*.",
        )
        assert item.priority is Priority.HIGH
        assert "garden" in item.labels
        assert item.created_at.utcoffset() == item.updated_at.utcoffset() == timedelta()

    async def test_fetch_gives_the_most_urgent_first_and_then_the_oldest(
        self, place: Place, ada: WorkSource
    ) -> None:
        low = await place.add("later", priority=Priority.LOW)
        first = await place.add("first of two")
        second = await place.add("second of two")
        urgent = await place.add("now", priority=Priority.CRITICAL)
        assert await ids(ada) == [urgent, first, second, low]

    async def test_age_is_a_number_and_not_a_text(self, place: Place, ada: WorkSource) -> None:
        added = [await place.add(f"item {number}") for number in range(11)]
        assert await ids(ada) == added

    async def test_an_item_must_carry_all_labels_that_are_asked_for(
        self, place: Place, ada: WorkSource
    ) -> None:
        both = await place.add("both", labels=["iron", "garden"])
        await place.add("one", labels=["iron"])
        await place.add("none")
        assert await ids(ada, labels=("iron", "garden")) == [both]
        assert await ids(ada, labels=("iron", "wood")) == []

    async def test_an_item_must_have_one_of_the_priorities_that_are_asked_for(
        self, place: Place, ada: WorkSource
    ) -> None:
        high = await place.add("high", priority=Priority.HIGH)
        low = await place.add("low", priority=Priority.LOW)
        await place.add("medium")
        assert await ids(ada, priority=(Priority.LOW, Priority.HIGH)) == [high, low]
        assert await ids(ada, priority=("low", "high")) == [high, low]

    async def test_filters_hold_on_every_page(self, place: Place, ada: WorkSource) -> None:
        wanted = []
        for number in range(4):
            wanted.append(await place.add(f"wanted {number}", labels=["iron"]))
            await place.add(f"other {number}")
        assert await ids(ada, labels=("iron",), limit=1) == wanted

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
    async def test_pages_show_each_item_once_and_in_order(
        self, place: Place, ada: WorkSource, limit: int
    ) -> None:
        steps = [Priority.LOW, Priority.HIGH, Priority.MEDIUM]
        for number in range(7):
            await place.add(f"item {number}", priority=steps[number % 3])
        page = await ada.fetch_available_work(FetchOptions(limit=limit))
        assert len(page.items) == min(limit, 7)
        assert await ids(ada, limit=limit) == await ids(ada)
        assert len(await ids(ada)) == 7

    async def test_an_item_that_is_taken_between_two_pages_hides_no_other(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        added = [await place.add(f"item {number}") for number in range(4)]
        page = await ada.fetch_available_work(FetchOptions(limit=2))
        await claimed(bob, added[0])
        assert await ids(ada, cursor=page.next_cursor) == added[2:]

    async def test_a_cursor_that_is_not_ours_is_refused(
        self, place: Place, ada: WorkSource
    ) -> None:
        await place.add("Mend the gate")
        for cursor in ("nonsense", "", "bnVsbA", "W10", "é", "[" * 100):
            with pytest.raises(BadCursor):
                await ada.fetch_available_work(FetchOptions(cursor=cursor))

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_page_has_at_least_one_item(self, ada: WorkSource, limit: int) -> None:
        with pytest.raises(InvalidInput):
            await ada.fetch_available_work(FetchOptions(limit=limit))

    async def test_looking_changes_nothing(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        before = await fetched(ada)
        await fetched(ada, include_claimed=True)
        await ada.get_work(item_id)
        assert await fetched(ada) == before
        await claimed(bob, item_id)

    async def test_claimed_items_are_shown_only_when_asked_for(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        other = await place.add("Paint the fence")
        await claimed(ada, item_id)
        for source in (ada, bob):
            assert await ids(source) == [other]
            assert await ids(source, include_claimed=True) == [item_id, other]

    # texts

    async def test_a_title_has_no_control_characters_and_one_line(
        self, place: Place, ada: WorkSource
    ) -> None:
        item_id = await place.add("\x1b[31mMend\x07 the\u2028gate\x9b")
        (item,) = await fetched(ada)
        assert "Mend" in item.title
        assert not {unicodedata.category(one) for one in item.title} & {"Cc", "Zl", "Zp"}
        await claimed(ada, item_id)
        await ada.complete_work(item_id, MENDED)

    async def test_letters_of_all_scripts_come_back(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add("Zoë – 日本 👩‍💻", description="שלום 'quotes\" \\n --- : # {")
        item = await ada.get_work(item_id)
        assert item is not None
        assert item.title == "Zoë – 日本 👩‍💻"
        assert item.description == "שלום 'quotes\" \\n --- : # {"

    async def test_a_long_description_comes_back_whole(self, place: Place, ada: WorkSource) -> None:
        description = ("word " * (self.longest_description // 5)).strip()
        item_id = await place.add("Read all of this", description=description)
        (item,) = await fetched(ada)
        assert item.description == description
        assert (await claimed(ada, item_id)).work_item is not None

    async def test_a_long_result_is_taken(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(
            item_id,
            WorkResult(
                "failure",
                "x" * 200_000,
                details="\x00\x1b[2J\ud800: {\n---\n" * 1_000,
                artifacts=tuple(f"https://example.org/{n}" for n in range(500)),
                error="y" * 200_000,
            ),
        )
        assert await ids(ada) == []

    # claim

    async def test_a_claim_gives_the_item(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add("Mend the gate")
        result = await claimed(ada, item_id)
        assert result.work_item is not None
        assert (result.work_item.id, result.work_item.title) == (item_id, "Mend the gate")
        assert result.reason is None

    async def test_of_many_claimers_one_gets_the_item(self, place: Place) -> None:
        sources = [place.source(f"agent-{number}") for number in range(CLAIMERS)]
        for number in range(3):
            item_id = await place.add(f"item {number}")
            results = await asyncio.gather(*(one.claim_work(item_id) for one in sources))
            assert [one.success for one in results].count(True) == 1
            assert {one.reason for one in results if not one.success} == {TAKEN}
            winner = next(
                source for source, one in zip(sources, results, strict=True) if one.success
            )
            await winner.complete_work(item_id, MENDED)

    async def test_claims_of_one_agent_at_the_same_time_give_the_item_once(
        self, place: Place, ada: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        results = await asyncio.gather(*(ada.claim_work(item_id) for _ in range(4)))
        assert [one.success for one in results].count(True) == 1
        await ada.complete_work(item_id, MENDED)

    async def test_a_claimed_item_is_not_given_again(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        for source in (ada, bob):
            again = await source.claim_work(item_id)
            assert not again.success
            assert again.reason is TAKEN
            assert again.message
        await ada.complete_work(item_id, MENDED)

    async def test_a_refused_claim_leaves_no_trace(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        before = await ada.get_work(item_id)
        await bob.claim_work(item_id)
        assert await ada.get_work(item_id) == before
        with pytest.raises(ClaimLost):
            await bob.complete_work(item_id, MENDED)
        await ada.complete_work(item_id, MENDED)

    async def test_what_is_no_item_of_this_place_cannot_be_claimed(
        self, place: Place, ada: WorkSource
    ) -> None:
        await place.add("Mend the gate")
        for item_id in _strange_ids(ada.type):
            with suppress(MalformedReference):
                result = await ada.claim_work(item_id)
                assert not result.success, item_id
                assert result.reason is ClaimFailureReason.NOT_FOUND, item_id
            with suppress(MalformedReference):
                assert await ada.get_work(item_id) is None, item_id
            with pytest.raises(RotaError):
                await ada.complete_work(item_id, MENDED)
        assert len(await ids(ada)) == 1

    # complete

    @pytest.mark.parametrize("result", [MENDED, GIVEN_UP, HALF_MENDED], ids=lambda one: one.outcome)
    async def test_what_has_ended_is_not_offered_again(
        self, place: Place, ada: WorkSource, bob: WorkSource, result: WorkResult
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, result)
        for source in (ada, bob):
            assert await ids(source) == []
            again = await source.claim_work(item_id)
            assert not again.success
            assert again.reason in OVER

    @pytest.mark.parametrize("result", [MENDED, GIVEN_UP, HALF_MENDED], ids=lambda one: one.outcome)
    async def test_an_end_may_be_told_twice(
        self, place: Place, ada: WorkSource, result: WorkResult
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, result)
        before = await ada.get_work(item_id)
        await ada.complete_work(item_id, result)
        assert await ada.get_work(item_id) == before

    @pytest.mark.parametrize("result", [MENDED, GIVEN_UP, HALF_MENDED], ids=lambda one: one.outcome)
    async def test_an_end_may_be_told_again_after_a_restart(
        self, place: Place, ada: WorkSource, result: WorkResult
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, result)
        before = await ada.get_work(item_id)
        await place.source("ada").complete_work(item_id, result)
        assert await ada.get_work(item_id) == before

    async def test_the_first_end_stands(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, MENDED)
        before = await ada.get_work(item_id)
        with pytest.raises(ClaimLost):
            await ada.complete_work(item_id, GIVEN_UP)
        assert await ada.get_work(item_id) == before

    async def test_an_end_without_a_claim_is_refused(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        with pytest.raises(ClaimLost):
            await ada.complete_work(item_id, MENDED)
        await claimed(ada, item_id)
        with pytest.raises(ClaimLost):
            await bob.complete_work(item_id, GIVEN_UP)
        await ada.complete_work(item_id, MENDED)

    async def test_what_another_has_ended_is_not_ours_to_tell_again(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, MENDED)
        with pytest.raises(ClaimLost):
            await bob.complete_work(item_id, MENDED)

    async def test_an_end_after_a_release_is_refused(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.release_work(item_id)
        with pytest.raises(ClaimLost):
            await ada.complete_work(item_id, MENDED)
        assert await ids(ada) == [item_id]

    async def test_a_late_end_does_not_touch_the_next_holder(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.release_work(item_id)
        await claimed(bob, item_id)
        with pytest.raises(ClaimLost):
            await ada.complete_work(item_id, MENDED)
        await ada.release_work(item_id)
        assert await ids(ada) == []
        await bob.complete_work(item_id, MENDED)

    async def test_an_end_by_an_earlier_claim_does_not_touch_the_same_agents_next(
        self, place: Place, ada: WorkSource
    ) -> None:
        """The report was delayed, or its answer lost, and meanwhile the item was claimed again."""
        item_id = await place.add("Mend the gate")
        before = await claimed(ada, item_id)
        await ada.release_work(item_id)
        now = await claimed(ada, item_id)
        assert before.claim != now.claim
        for source in (ada, place.source("ada")):
            with pytest.raises(ClaimLost):
                await source.complete_work(item_id, replace(MENDED, claim=before.claim))
            assert (await source.release_work(item_id, ReleaseOptions(claim=before.claim))).success
        assert await ids(ada) == []
        await ada.complete_work(item_id, replace(MENDED, claim=now.claim))
        assert (await ada.claim_work(item_id)).reason in OVER

    @pytest.mark.parametrize("result", [MENDED, GIVEN_UP, HALF_MENDED], ids=lambda one: one.outcome)
    async def test_after_a_restart_an_end_is_told_by_the_name_of_its_claim(
        self, place: Place, ada: WorkSource, result: WorkResult
    ) -> None:
        item_id = await place.add("Mend the gate")
        named = replace(result, claim=(await claimed(ada, item_id)).claim)
        await place.source("ada").complete_work(item_id, named)
        assert await ids(ada) == []
        assert (await ada.claim_work(item_id)).reason in OVER
        before = await ada.get_work(item_id)
        await place.source("ada").complete_work(item_id, named)
        assert await ada.get_work(item_id) == before

    async def test_a_claim_that_is_named_is_nobody_elses_to_end(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        name = (await claimed(ada, item_id)).claim
        for wrong in (name, "nonsense", "-1", "9" * 30):
            with pytest.raises(ClaimLost):
                await bob.complete_work(item_id, replace(MENDED, claim=wrong))
            await bob.release_work(item_id, ReleaseOptions(claim=wrong))
        assert (await bob.claim_work(item_id)).reason is TAKEN
        await ada.complete_work(item_id, replace(MENDED, claim=name))

    # release

    async def test_after_a_restart_an_item_is_given_back_by_the_name_of_its_claim(
        self, place: Place, ada: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        name = (await claimed(ada, item_id)).claim
        for _ in range(2):  # the second time it is already known
            again = place.source("ada")
            assert (await again.release_work(item_id, ReleaseOptions(claim=name))).success
            assert await ids(ada) == [item_id]

    async def test_a_released_item_is_available_again(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        for source in (ada, bob, ada):
            await claimed(source, item_id)
            released = await source.release_work(item_id, ReleaseOptions("shut_down", True))
            assert released.success
            assert await ids(bob) == [item_id]

    async def test_a_release_may_be_said_twice(self, place: Place, ada: WorkSource) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.release_work(item_id)
        await ada.release_work(item_id)
        assert await ids(ada) == [item_id]

    async def test_a_release_by_somebody_else_changes_nothing(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        await bob.release_work(item_id)
        await claimed(ada, item_id)
        await bob.release_work(item_id)
        assert (await bob.claim_work(item_id)).reason is TAKEN
        await ada.complete_work(item_id, MENDED)

    async def test_a_release_of_what_has_ended_changes_nothing(
        self, place: Place, ada: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, MENDED)
        await ada.release_work(item_id)
        assert await ids(ada) == []

    # get

    async def test_an_item_can_be_looked_up_wherever_it_stands(
        self, place: Place, ada: WorkSource, bob: WorkSource
    ) -> None:
        item_id = await place.add("Mend the gate", labels=["iron"])
        for step in (
            lambda: ada.claim_work(item_id),
            lambda: ada.complete_work(item_id, MENDED),
        ):
            await step()
            item = await bob.get_work(item_id)
            assert item is not None
            assert (item.id, item.title) == (item_id, "Mend the gate")
            assert "iron" in item.labels

    async def test_a_source_may_be_closed_twice(self, ada: WorkSource) -> None:
        await ada.aclose()
        await ada.aclose()


def _strange_ids(kind: str) -> list[str]:
    unknown = {"queue": "01900000-0000-7000-8000-000000000000", "markdown": "unknown"}
    return [
        f"{kind}-{unknown.get(kind, '999999')}",
        "",
        kind,
        f"{kind}-",
        f"{kind}-..",
        f"{kind}-../../../etc/passwd",
        f"{kind}-/etc/passwd",
        f"{kind}-1\x00",
        f"{kind}-1\n",
        f"{kind}-'; DROP TABLE work_items; --",
        f"{kind}-{'9' * 5_000}",
        f"{kind}-日本",
        f"{kind}-\ud800",
        "other-1",
    ]
