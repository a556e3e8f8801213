"""An issue waits for what its own text says that it depends on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.claims.pickup import Asker
from rota.claims.protocol import Grant
from rota.claims.timing import Pace
from rota.queue import Ledger
from rota.sources import blockers
from rota.sources.forge import ForgeWorkSource
from rota.sources.mirror import Mirror
from rota.sources.operators import Operators
from rota.sources.port import ClaimFailureReason
from rota.testing.tracker import Control, FaultKind, TrackerStub
from tests.integration.forges import REPO, Forges, build, forges

LIBRARY = "ada/library"
KINDS = pytest.mark.parametrize("kind", ["github", "gitea"])


@pytest.fixture
async def scene(stub: TrackerStub, ledger: Ledger, tmp_path: Path) -> AsyncIterator[Forges]:
    """Issue 1 is what others wait for; it is not marked as ready itself."""
    build(stub.control)
    stub.control.issue(REPO, "First this")
    async with forges(stub, ledger, tmp_path) as made:
        yield made


@pytest.fixture
def control(scene: Forges) -> Control:
    return scene.control


def waiting(control: Control, line: str) -> int:
    return control.issue(REPO, "Then that", body=f"Do it.\n\n{line}\n", labels=["ready"])


async def offered(source: ForgeWorkSource) -> list[int]:
    found = await source.fetch_available_work()
    return [int(item.external_id) for item in found.items]


@KINDS
async def test_an_issue_waits_for_those_that_its_text_names(
    scene: Forges, control: Control, kind: str
) -> None:
    number = waiting(control, "Depends on: #1")
    free = control.issue(REPO, "Something else", labels=["ready"])
    source = scene.source(kind=kind)
    assert await offered(source) == [free]
    refused = await source.claim_work(f"{kind}-{number}")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert refused.message == f"it depends on {REPO}#1, which is open"
    assert control.look(REPO, number)["comments"] == []
    control.edit(REPO, 1, state="closed")
    other = scene.source("bob", kind)
    assert await offered(other) == [number, free]
    assert (await other.claim_work(f"{kind}-{number}")).success


@KINDS
async def test_what_it_names_may_be_in_another_repository_or_a_pull_request(
    scene: Forges, control: Control, kind: str
) -> None:
    control.repo(LIBRARY, private=True, collaborators=["bot"])
    first = control.issue(LIBRARY, "A function", pull_request=True)
    number = waiting(control, f"Requires: {LIBRARY}#{first} (the new function)")
    source = scene.source(kind=kind)
    assert await offered(source) == []
    refused = await source.claim_work(f"{kind}-{number}")
    assert refused.message == f"it depends on {LIBRARY}#{first}, which is open"
    control.edit(LIBRARY, first, state="closed")
    assert await offered(scene.source("bob", kind)) == [number]


@KINDS
@pytest.mark.parametrize("named", [f"{LIBRARY}#1", "nobody/nothing#1", "#99"])
async def test_what_cannot_be_seen_is_waited_for_and_a_person_is_told(
    scene: Forges, control: Control, ledger: Ledger, kind: str, named: str
) -> None:
    control.repo(LIBRARY, private=True)
    control.issue(LIBRARY, "Secret")
    number = waiting(control, f"Depends on: {named}")
    free = control.issue(REPO, "Something else", labels=["ready"])
    source = scene.source(kind=kind)
    assert await offered(source) == [free]
    desk = await source.desk()
    await Mirror(desk, ledger.outside).poll()
    shown = await ledger.outside.standing(desk.tracker.source, str(number))
    assert shown is not None
    assert shown.hold_reason is not None
    assert "which is not there or hidden from our token; put that line" in shown.hold_reason


@pytest.mark.parametrize("status", [403, 451])
async def test_a_repository_that_the_token_is_refused_for_stops_nothing_else(
    scene: Forges, control: Control, status: int
) -> None:
    """As organisations do that want a sign-in of their own, and courts that want it gone."""
    control.repo(LIBRARY)
    control.issue(LIBRARY, "Elsewhere")
    waiting(control, f"Depends on: {LIBRARY}#1")
    free = control.issue(REPO, "Something else", labels=["ready"])
    control.fault(FaultKind.ERROR_BEFORE, status=status, path=f"/repos/{LIBRARY}/")
    assert await offered(scene.source()) == [free]


@pytest.mark.parametrize(
    "line",
    [
        "It depends on #1.",
        "> Depends on: #1",
        "Depends on: #2",  # itself
        "Depends on: ADA/Engine#2",
        "Depends on: https://elsewhere.example/ada/engine/issues/1",
        "Depends on: none",
    ],
)
async def test_other_words_keep_nobody_waiting(scene: Forges, control: Control, line: str) -> None:
    number = waiting(control, line)
    control.forget_requests()
    source = scene.source()
    assert await offered(source) == [number]
    assert not [one for one in control.requests() if one["path"].endswith("/issues/1")]


async def test_a_claim_does_not_rest_on_what_was_so_a_minute_ago(
    scene: Forges, control: Control
) -> None:
    control.edit(REPO, 1, state="closed")
    number = waiting(control, "Depends on: #1")
    source = scene.source()
    assert await offered(source) == [number]
    control.edit(REPO, 1, state="open")
    assert await offered(source) == [number]  # is not asked again for every look
    refused = await source.claim_work(f"github-{number}")
    assert refused.message == f"it depends on {REPO}#1, which is open"
    assert await offered(source) == []


async def test_what_was_seen_is_remembered_for_a_minute_only(
    scene: Forges, control: Control
) -> None:
    passed = [0.0]
    desk = await scene.source().desk()
    looks = blockers.Blockers(desk.tracker, Pace(elapsed=lambda: passed[0]))
    number = waiting(control, "Depends on: #1")
    issue = await desk.tracker.issue(number)
    assert await looks.objection(issue, afresh=False) is not None
    control.edit(REPO, 1, state="closed")
    assert await looks.objection(issue, afresh=False) is not None
    passed[0] = blockers.REMEMBERED_SECONDS
    assert await looks.objection(issue, afresh=False) is None


async def test_who_names_thousands_costs_no_request_and_is_told_so(
    scene: Forges, control: Control
) -> None:
    number = waiting(control, f"Depends on: {', '.join(f'#{n}' for n in range(1000, 3000))}")
    source = scene.source()
    await source.desk()
    control.forget_requests()
    assert await offered(source) == []
    assert len(control.requests()) == 1  # the list itself
    refused = await source.claim_work(f"github-{number}")
    assert refused.message == "it depends on 2000 issues, of which at most 50 are looked at"


async def test_a_person_may_take_it_all_the_same(scene: Forges, control: Control) -> None:
    number = waiting(control, "Depends on: #1")
    operators = Operators(await scene.source().desk())
    assert (await operators.status(number)).reason == "waits_for_issues"
    assert (await operators.status(number, Asker(login="ada"))).claimable
    assert isinstance(await operators.claim(number), Grant)
