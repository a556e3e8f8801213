"""Every promise of `rota.sources.port`, over issues of a real HTTP tracker."""

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from rota.app import open_ledger
from rota.model.work import Priority
from rota.queue import Ledger
from rota.sources.forge import ForgeWorkSource
from rota.testing.tracker import TrackerStub, tracker_stub
from tests.integration.forges import REPO, Forges, build, forges

pytest.register_assert_rewrite("rota.testing.source_contract")

from rota.testing.source_contract import SourceContract  # noqa: E402 - after the line above

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


@pytest.fixture(scope="module")
def stub() -> Iterator[TrackerStub]:
    with tracker_stub() as running:
        yield running


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


class TestGitHubStrictly(SourceContract):
    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "github", "strict")


class TestGitHubByLabels(SourceContract):
    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "github", "labels")


class TestGiteaByComments(SourceContract):
    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "gitea", "comments")


class TestGiteaByLabels(SourceContract):
    @pytest.fixture
    def place(self, opened: Forges) -> InForge:
        return InForge(opened, "gitea", "labels")


class TestWithoutLedger(SourceContract):
    @pytest.fixture
    async def place(self, stub: TrackerStub, tmp_path: Path) -> AsyncIterator[InForge]:
        build(stub.control)
        async with forges(stub, None, tmp_path) as made:
            yield InForge(made, "github", "comments")
