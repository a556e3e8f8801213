"""Every promise of `rota.sources.port`, over issues of a real HTTP tracker."""

import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rota.app import open_ledger
from rota.model.errors import ClaimLost
from rota.model.work import Priority
from rota.queue import Ledger
from rota.sources.forge import ForgeWorkSource
from rota.sources.port import ReleaseOptions, WorkResult, WorkSource
from rota.testing.tracker import TrackerStub
from tests.integration.forges import REPO, Forges, build, forges

pytest.register_assert_rewrite("rota.testing.source_contract")

from rota.testing.source_contract import (  # noqa: E402 - after the line above
    GIVEN_UP,
    HALF_MENDED,
    MENDED,
    TAKEN,
    Place,
    SourceContract,
    claimed,
)

_PRIORITY_LABELS = {
    Priority.CRITICAL: ["p0"],
    Priority.HIGH: ["priority:high"],
    Priority.MEDIUM: [],
    Priority.LOW: ["low"],
}


class InForge:
    def __init__(self, opened: Forges, kind: str, claim_mode: str) -> None:
        self._forges = opened
        self._kind = kind
        self._claim_mode = claim_mode

    async def add(
        self,
        title: str,
        *,
        description: str = "",
        priority: Priority = Priority.MEDIUM,
        labels: Sequence[str] = (),
    ) -> str:
        number = self._forges.control.issue(
            REPO,
            title,
            body=description,
            labels=["ready", *_PRIORITY_LABELS[priority], *labels],
        )
        return f"{self._kind}-{number}"

    def source(self, agent: str) -> ForgeWorkSource:
        return self._forges.source(agent, self._kind, claim_mode=self._claim_mode)


@pytest.fixture
async def ledger(new_sqlite: Path, tmp_path: Path) -> AsyncIterator[Ledger]:
    shutil.copy(new_sqlite, tmp_path / "rota.db")
    async with open_ledger(f"sqlite:///{tmp_path}/rota.db") as opened:
        yield opened


@pytest.fixture
async def opened(stub: TrackerStub, ledger: Ledger, tmp_path: Path) -> AsyncIterator[Forges]:
    build(stub.control)
    async with forges(stub, ledger, tmp_path) as made:
        yield made


class TestGitHubByComments(SourceContract):
    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "github", "comments")


class TestGiteaByComments(SourceContract):
    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "gitea", "comments")


class TestGitHubStrictly(SourceContract):
    longest_description = 100_000  # read as the others read it

    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "github", "strict")


class TestGitHubByLabels(SourceContract):
    longest_description = 100_000  # read as the others read it

    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "github", "labels")


class TestGiteaByLabels(SourceContract):
    longest_description = 100_000  # read as the others read it

    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "gitea", "labels")


class TestWithoutLedger(SourceContract):
    """What an adapter knows then ends with its process."""

    @pytest.fixture
    async def place(self, stub: TrackerStub, tmp_path: Path) -> AsyncIterator[InForge]:
        build(stub.control)
        async with forges(stub, None, tmp_path) as made:
            yield InForge(made, "github", "comments")

    @pytest.mark.parametrize("result", [MENDED, GIVEN_UP, HALF_MENDED], ids=lambda one: one.outcome)
    async def test_an_end_may_be_told_again_after_a_restart(
        self, place: Place, ada: WorkSource, result: WorkResult
    ) -> None:
        """It may be told, and is refused, for nobody remembers: but nothing is overwritten."""
        item_id = await place.add("Mend the gate")
        await claimed(ada, item_id)
        await ada.complete_work(item_id, result)
        before = await ada.get_work(item_id)
        with pytest.raises(ClaimLost):
            await place.source("ada").complete_work(item_id, result)
        assert await ada.get_work(item_id) == before

    @pytest.mark.parametrize("result", [MENDED, GIVEN_UP, HALF_MENDED], ids=lambda one: one.outcome)
    async def test_after_a_restart_an_end_is_told_by_the_name_of_its_claim(
        self, place: Place, ada: WorkSource, result: WorkResult
    ) -> None:
        """It is refused, for nobody remembers: the tracker's claim waits for the sweep."""
        item_id = await place.add("Mend the gate")
        named = replace(result, claim=(await claimed(ada, item_id)).claim)
        with pytest.raises(ClaimLost):
            await place.source("ada").complete_work(item_id, named)
        assert (await place.source("bob").claim_work(item_id)).reason is TAKEN

    async def test_after_a_restart_an_item_is_given_back_by_the_name_of_its_claim(
        self, place: Place, ada: WorkSource
    ) -> None:
        """It is not, for nobody remembers."""
        item_id = await place.add("Mend the gate")
        name = (await claimed(ada, item_id)).claim
        await place.source("ada").release_work(item_id, ReleaseOptions(claim=name))
        assert (await place.source("bob").claim_work(item_id)).reason is TAKEN
