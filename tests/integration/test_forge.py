"""GitHub and Gitea issues as a work source, with the real ledger, over a real HTTP tracker."""

import asyncio
import contextlib
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from rota.claims.pauses import PausedRepos
from rota.claims.timing import Pace
from rota.model.errors import ClaimLost, PauseUnreadable, TrackerError
from rota.model.status import Status, Verb
from rota.model.work import Priority
from rota.queue import Ledger
from rota.queue.moves import Order
from rota.queue.views import Detail, Query
from rota.sources.forge import ForgeWorkSource
from rota.sources.github import (
    GitHubAPIError,
    GitHubAuthError,
    GitHubWorkSource,
    RateLimitWarningOptions,
    RetryOptions,
    Timeouts,
)
from rota.sources.manager import CANDIDATES, WorkSourceManager
from rota.sources.mirror import Mirror
from rota.sources.operators import Operators
from rota.sources.port import (
    ClaimFailureReason,
    FetchOptions,
    ReleaseOptions,
    WorkOutcome,
    WorkResult,
)
from rota.sources.registry import WorkSourceRegistry
from rota.testing.clock import ManualClock
from rota.testing.tracker import Control, FaultKind, TrackerStub
from tests.integration.forges import (
    REPO,
    RIVAL,
    RIVALS_CLAIM,
    SETTLE,
    Forges,
    build,
    forges,
)

PR = f"https://github.com/{REPO}/pull/9"
DONE = WorkResult("success", "It turns again.", artifacts=(PR,))
MENDED = WorkResult("success", "It turns again.")
FAILED = WorkResult("failure", "The wheel is gone.", error="no wheel")
PARTIAL = WorkResult("partial", "One of two wheels turns.")

KINDS = pytest.mark.parametrize("kind", ["github", "gitea"])
MODES = pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("github", "comments"),
        ("github", "strict"),
        ("github", "labels"),
        ("gitea", "comments"),
        ("gitea", "labels"),
    ],
)


@pytest.fixture
async def scene(stub: TrackerStub, ledger: Ledger, tmp_path: Path) -> AsyncIterator[Forges]:
    """Ada's private repository with one issue that is ready."""
    build(stub.control)
    stub.control.issue(REPO, "Mend the mill", body="It stands still.", labels=["ready", "bug"])
    async with forges(stub, ledger, tmp_path) as made:
        yield made


@pytest.fixture
def control(scene: Forges) -> Control:
    return scene.control


async def offered(source: ForgeWorkSource, **options: Any) -> list[int]:
    found = await source.fetch_available_work(FetchOptions(**options))
    return [int(item.external_id) for item in found.items]


async def taken(source: ForgeWorkSource, number: int = 1) -> None:
    result = await source.claim_work(f"{source.type}-{number}")
    assert result.success, result


async def standing(source: ForgeWorkSource, number: int = 1) -> Detail:
    """The ledger's item of an issue, with all that is known of it."""
    desk = await source.desk()
    assert desk.ledger is not None
    item = await desk.ledger.outside.standing(desk.tracker.source, str(number))
    assert item is not None
    return await desk.ledger.views.detail(item.id)


async def nothing_in_ledger(source: ForgeWorkSource, number: int = 1) -> bool:
    desk = await source.desk()
    assert desk.ledger is not None
    return await desk.ledger.outside.standing(desk.tracker.source, str(number)) is None


# what is offered


@KINDS
async def test_pull_requests_are_never_work(scene: Forges, control: Control, kind: str) -> None:
    number = control.issue(REPO, "A change", labels=["ready"], pull_request=True)
    source = scene.source(kind=kind)
    assert await offered(source) == [1]
    assert await source.get_work(f"{kind}-{number}") is None
    before = control.look(REPO, number)
    refused = await source.claim_work(f"{kind}-{number}")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert refused.message == f"#{number} is a pull request; only issues are work"
    assert control.look(REPO, number) == before


@KINDS
async def test_issues_that_may_not_be_taken_do_not_hide_those_behind_them(
    scene: Forges, control: Control, kind: str
) -> None:
    for n in range(6):
        control.issue(REPO, f"Not yet {n}", labels=["ready", "blocked"])
        control.issue(REPO, f"A change {n}", labels=["ready"], pull_request=True)
    last = control.issue(REPO, "At last", labels=["ready"])
    control.fault(FaultKind.PAGE_SIZE, size=2, path="/issues$")
    source = scene.source(kind=kind)
    assert await offered(source) == [1, last]
    assert await offered(source, limit=1) == [1]


@KINDS
async def test_what_the_ledger_keeps_back_does_not_hide_what_stands_behind_it(
    scene: Forges, control: Control, kind: str
) -> None:
    """More of them than an agent tries at one time."""
    source = scene.source(kind=kind)
    desk = await source.desk()
    numbers = [1, *(control.issue(REPO, f"Later {n}", labels=["ready"]) for n in range(CANDIDATES))]
    ledger = scene.ledger_of()
    await Mirror(desk, ledger.outside).poll()
    for item in (await ledger.views.items(Query(limit=100))).items:
        await ledger.queue.hold(item.id, "not before Monday")
    assert await offered(source) == []
    assert len(await source.held_back()) == len(numbers)
    assert "not before Monday" in (await source.held_back())[0]
    last = control.issue(REPO, "At last", labels=["ready"])
    assert await offered(source) == [last]
    agent = Agent("ada", scene.config(kind))
    async with WorkSourceManager(scene.context("ada"), registry=WorkSourceRegistry()) as manager:
        item, claimed, _ = await manager.get_next_work_item(agent)
    assert item is not None
    assert (claimed, item.external_id) == (True, str(last))


@KINDS
async def test_the_most_urgent_comes_first_and_of_those_the_oldest(
    scene: Forges, control: Control, kind: str
) -> None:
    low = control.issue(REPO, "Some day", labels=["ready", "P3"])
    high = control.issue(REPO, "Soon", labels=["ready", "priority: high"])
    now = control.issue(REPO, "Now", labels=["ready", "URGENT"])
    lit = control.issue(REPO, "No priority", labels=["ready", "highlight"])
    source = scene.source(kind=kind)
    assert await offered(source) == [now, high, 1, lit, low]
    assert await offered(source, priority=(Priority.LOW, Priority.HIGH)) == [high, low]


@KINDS
async def test_some_labels_keep_agents_away(scene: Forges, control: Control, kind: str) -> None:
    source = scene.source(kind=kind)
    for label in ("blocked", "WIP", "needs:human-scope", "do-not-pickup"):
        control.label(REPO, 1, add=[label])
        assert await offered(source) == []
        refused = await source.claim_work(f"{kind}-1")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
        assert refused.message == f"the label '{label}' keeps agents away"
        control.label(REPO, 1, remove=[label])
        assert await offered(source) == [1]


async def test_a_hold_cannot_be_configured_away(scene: Forges, control: Control) -> None:
    source = scene.source(exclude_labels=["later"])
    control.label(REPO, 1, add=["blocked", "wip"])
    assert await offered(source) == [1]
    for label in ("later", "do-not-pickup", "needs:human-scope"):
        control.label(REPO, 1, add=[label])
        assert await offered(source) == []
        control.label(REPO, 1, remove=[label])


async def test_an_issue_waits_for_those_that_github_says_it_is_blocked_by(
    scene: Forges, control: Control
) -> None:
    first = control.issue(REPO, "First this")
    control.edit(REPO, 1, blocked_by=[first])
    source = scene.source()
    assert await offered(source) == []
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert refused.message == "it is blocked by 1 open issue"
    assert scene.comments() == []
    control.edit(REPO, first, state="closed")
    assert await offered(scene.source("bob")) == [1]


async def test_on_gitea_an_issue_that_waits_is_found_out_once_and_hides_nothing(
    scene: Forges, control: Control
) -> None:
    """Its lists do not tell; asking for each issue would cost a request each time."""
    first = control.issue(REPO, "First this")
    control.edit(REPO, 1, blocked_by=[first])
    free = control.issue(REPO, "Free", labels=["ready"])
    source = scene.source(kind="gitea")
    assert await offered(source) == [1, free]
    assert (await source.claim_work("gitea-1")).message == "it is blocked by 1 open issue"
    assert scene.comments() == []
    assert await offered(source) == [free]
    control.edit(REPO, first, state="closed")
    await taken(source)  # who asks for it by name need not wait


@KINDS
async def test_claimed_issues_are_shown_to_who_asks_for_them(
    scene: Forges, control: Control, kind: str
) -> None:
    other = control.issue(REPO, "Oil the mill", labels=["ready"])
    source = scene.source(kind=kind)
    await taken(source)
    assert await offered(source) == [other]
    assert await offered(source, include_claimed=True) == [1, other]
    control.label(REPO, 1, add=["do-not-pickup"])
    assert await offered(source, include_claimed=True) == [1, other], "a person's claims, too"
    control.label(REPO, 1, add=["WIP"])
    assert await offered(source, include_claimed=True) == [other], "but nothing that is excluded"


@KINDS
async def test_nothing_is_taken_from_a_paused_repository(
    scene: Forges, control: Control, kind: str
) -> None:
    pauses = PausedRepos(scene.paused_repos)
    pauses.set("engine", True)
    source = scene.source(kind=kind)
    assert await offered(source) == []
    refused = await source.claim_work(f"{kind}-1")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert refused.message == "the repository is paused"
    assert await nothing_in_ledger(source)
    pauses.set("engine", False)
    assert await offered(source) == [1]


async def test_a_pause_that_cannot_be_read_stops_everything(scene: Forges) -> None:
    scene.paused_repos.write_text("{")
    source = scene.source()
    with pytest.raises(PauseUnreadable, match="mend the file"):
        await source.fetch_available_work()
    with pytest.raises(PauseUnreadable):
        await source.claim_work("github-1")
    assert scene.comments() == []
    assert await nothing_in_ledger(source)


async def test_an_item_tells_what_github_knows(scene: Forges, control: Control) -> None:
    number = control.issue(
        REPO, "Oil it", body="Daily.", labels=["ready", "p1"], assignee="eve", milestone="1.0"
    )
    item = await scene.source().get_work(f"github-{number}")
    assert item is not None
    assert (item.title, item.description, item.priority) == ("Oil it", "Daily.", Priority.HIGH)
    assert item.url.endswith(f"/{REPO}/issues/{number}")
    assert item.metadata == {
        "repo": REPO,
        "author": "ada",
        "assignee": "eve",
        "milestone": "1.0",
    }


# what it costs


@dataclass(frozen=True)
class Cost:
    """Requests; those that were answered "not modified" cost nothing of GitHub's rate limit."""

    total: int
    free: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.total + other.total, self.free + other.free)


def cost(control: Control) -> Cost:
    counts = control.counts()
    control.forget_requests()
    return Cost(counts["total"], counts["not_modified"])


def remaining(control: Control, login: str = "bot") -> int:
    left: int = control.ask("POST", "limits", login=login)["remaining"]
    return left


@pytest.mark.parametrize("private", [True, False], ids=["private", "public"])
@pytest.mark.parametrize("ready", [0, 12])
async def test_an_idle_poll_is_one_conditional_request_that_costs_nothing(
    scene: Forges, control: Control, private: bool, ready: int
) -> None:
    build(control, private=private)
    for n in range(ready):
        control.issue(REPO, f"Issue {n}", labels=["ready"], user="eve" if n % 2 else "ada")
    source = scene.source()
    await source.fetch_available_work()
    control.forget_requests()
    before = remaining(control)
    for _ in range(3):
        await source.fetch_available_work()
        (request,) = control.requests()
        assert (request["method"], request["path"]) == ("GET", f"/repos/{REPO}/issues")
        assert request["conditional"]
        assert request["status"] == 304
        control.forget_requests()
    assert remaining(control) == before


# Of each item, when the adapter has warmed up: it knows who it is and the labels are made.
# A report without a pull request also closes the issue and changes its label.
COSTS: dict[tuple[str, str], tuple[Cost, Cost, Cost]] = {
    ("github", "comments"): (Cost(1), Cost(9, 2), Cost(8, 2)),
    ("github", "strict"): (Cost(1), Cost(17, 8), Cost(13, 4)),
    ("github", "labels"): (Cost(1), Cost(5, 2), Cost(6, 0)),
    ("gitea", "comments"): (Cost(1), Cost(13), Cost(8)),
    ("gitea", "labels"): (Cost(1), Cost(9), Cost(8)),
}


@MODES
async def test_requests_per_item_are_counted(
    scene: Forges, control: Control, figure: Callable[[str], None], kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    await source.fetch_available_work()
    await taken(source)
    await source.complete_work(f"{kind}-1", replace(DONE, artifacts=(f"{PR}9",)))
    number = control.issue(REPO, "The next one", labels=["ready"])
    control.forget_requests()
    before = remaining(control)
    await source.fetch_available_work()
    fetch = cost(control)
    await taken(source, number)
    claim = cost(control)
    await source.complete_work(f"{kind}-{number}", DONE)
    complete = cost(control)
    total = fetch + claim + complete
    figure(
        f"{kind}, {mode}: fetch {fetch.total} + claim {claim.total} + complete {complete.total} ="
        f" {total.total} requests, {total.free} of them not modified"
    )
    assert (fetch, claim, complete) == COSTS[kind, mode]
    if kind == "github":
        assert before - remaining(control) == total.total - total.free


async def test_who_ends_an_issue_himself_makes_three_more_requests(
    scene: Forges, control: Control
) -> None:
    """Without a pull request nobody else closes it."""
    source = scene.source()
    await taken(source)
    await source.complete_work("github-1", MENDED)
    number = control.issue(REPO, "The next one", labels=["ready"])
    await taken(source, number)
    control.forget_requests()
    await source.complete_work(f"github-{number}", MENDED)
    methods = Counter(one["method"] for one in control.requests())
    assert methods == {"GET": 5, "POST": 3, "DELETE": 2, "PATCH": 1}


async def test_another_agent_of_the_database_does_not_go_to_the_tracker(
    scene: Forges, control: Control
) -> None:
    ada, bob = scene.source("ada"), scene.source("bob")
    await bob.fetch_available_work()
    await taken(ada)
    control.forget_requests()
    refused = await bob.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.ALREADY_CLAIMED
    assert refused.message == "'ada' is working on #1"
    assert control.requests() == []


@MODES
async def test_of_agents_of_one_database_only_one_writes_to_the_tracker(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    sources = [scene.source(f"agent-{n}", kind, claim_mode=mode) for n in range(6)]
    for source in sources:
        await source.desk()
    alone = scene.source("alone", kind, claim_mode=mode)
    number = control.issue(REPO, "For comparison", labels=["ready"])
    await taken(alone, number)
    await alone.complete_work(f"{kind}-{number}", DONE)
    number = control.issue(REPO, "For comparison", labels=["ready"])
    control.forget_requests()
    await taken(alone, number)
    one = control.counts()["writes"]
    control.forget_requests()
    results = await asyncio.gather(*(source.claim_work(f"{kind}-1") for source in sources))
    assert [result.success for result in results].count(True) == 1
    made = [one for one in control.requests() if one["method"] != "GET"]
    labels = [one for one in made if one["path"].endswith(f"{REPO}/labels")]  # made once each
    assert len(made) - len(labels) == one


# what the tracker asks for


async def test_retry_after_is_obeyed(scene: Forges, control: Control) -> None:
    slept: list[float] = []

    async def pause(seconds: float) -> None:
        slept.append(seconds)

    source = scene.impatient(connection={"pause": pause, "retry": Forges.usual})
    for kind in (FaultKind.TOO_MANY, FaultKind.SECONDARY_LIMIT):
        control.fault(kind, method="POST", path="/issues/1/comments", times=1, retry_after=7)
    await taken(source)
    assert slept == [8.0, 8.0]  # one more than asked for: their clock is not ours
    assert len(scene.comments()) == 1


async def test_a_limit_that_is_far_from_its_reset_is_reported_and_not_slept(
    scene: Forges, control: Control
) -> None:
    source = scene.impatient()
    await source.desk()
    control.limit("bot", remaining=0, reset_in=1800)
    began = time.monotonic()
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR
    assert "the rate limit of the token in TOKEN is used up until" in (refused.message or "")
    with pytest.raises(GitHubAPIError, match="is used up until") as error:
        await source.fetch_available_work()
    assert error.value.is_rate_limit_error
    assert time.monotonic() - began < 60
    assert control.counts()["by_status"].get("403") == 1  # the second was not even asked
    assert scene.labels() == {"ready", "bug"}
    assert await nothing_in_ledger(source)


async def test_a_limit_in_the_middle_of_a_claim_leaves_nothing_half_claimed(
    scene: Forges, control: Control
) -> None:
    source = scene.impatient()
    await source.desk()
    control.fault(FaultKind.RATE_LIMIT, method="POST", path="/issues/1/labels", seconds=1800)
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR
    detail = await standing(source)
    assert (detail.item.status, detail.item.attempts) == (Status.QUEUED, 0)
    # Nothing can be said to the tracker for half an hour: the sweep will release it.
    assert await offered(scene.impatient("bob")) == [1]


async def test_few_requests_left_are_worth_a_warning(scene: Forges, control: Control) -> None:
    control.limit("bot", limit=5000, remaining=100)
    source = scene.source()
    with structlog.testing.capture_logs() as said:
        await source.fetch_available_work()
        await source.fetch_available_work()
    (warning,) = said
    assert warning["log_level"] == "warning"
    assert warning["event"] == "few requests to the tracker are left"
    assert (warning["repo"], warning["limit"], warning["remaining"]) == (REPO, 5000, 99)
    assert warning["resets_at"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_tracker_that_hangs_is_given_up(
    scene: Forges, control: Control, method: str
) -> None:
    source = scene.impatient(connection={"timeout": Timeouts(connect=30, read=1.5, total=3)})
    await source.desk()
    control.fault(FaultKind.HANG_BEFORE, method=method, path="/issues/1", seconds=300)
    began = time.monotonic()
    refused = await source.claim_work("github-1")
    assert time.monotonic() - began < 60
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR
    control.clear_faults()
    assert scene.comments() == []
    assert scene.labels() == {"ready", "bug"}
    if not await nothing_in_ledger(source):
        detail = await standing(source)
        assert (detail.item.status, detail.item.attempts) == (Status.QUEUED, 0)
    await taken(source)


# how it ends


def reports(scene: Forges, number: int = 1) -> list[str]:
    return [body for body in scene.comments(number) if "**Outcome:**" in body]


@dataclass(frozen=True)
class Mishap:
    """What happens to the first such request while the end is reported."""

    kind: FaultKind
    method: str
    path: str
    result: WorkResult = MENDED

    def __str__(self) -> str:
        return f"{self.kind} {self.method} {self.path} {self.result.outcome}"


@MODES
@pytest.mark.parametrize(
    "mishap",
    [
        Mishap(FaultKind.ERROR_AFTER, "POST", "/comments"),
        Mishap(FaultKind.CUT_AFTER, "POST", "/comments"),
        Mishap(FaultKind.CUT_BEFORE, "POST", "/comments"),
        Mishap(FaultKind.ERROR_AFTER, "POST", "/labels"),
        Mishap(FaultKind.ERROR_AFTER, "DELETE", "/labels"),
        Mishap(FaultKind.CUT_AFTER, "PATCH", "/issues/1"),
    ],
    ids=str,
)
async def test_a_report_stands_once_whatever_becomes_of_the_answer(
    scene: Forges, kind: str, mode: str, mishap: Mishap
) -> None:
    source = scene.impatient(kind=kind, claim_mode=mode)
    await taken(source)
    scene.control.fault(mishap.kind, method=mishap.method, path=mishap.path, times=1)
    await source.complete_work(f"{kind}-1", MENDED)
    assert len(reports(scene)) == 1
    assert scene.state() == "closed"
    assert (await standing(source)).item.status is Status.COMPLETED


@MODES
@pytest.mark.parametrize(
    "mishap",
    [
        Mishap(FaultKind.ERROR_BEFORE, "PATCH", "/issues/1$"),
        Mishap(FaultKind.ERROR_BEFORE, "DELETE", "/labels"),
        Mishap(FaultKind.ERROR_BEFORE, "POST", "/labels", DONE),
        Mishap(FaultKind.ERROR_BEFORE, "DELETE", "/labels", FAILED),
    ],
    ids=str,
)
async def test_a_report_that_was_cut_short_is_finished_by_the_next_process(
    scene: Forges, kind: str, mode: str, mishap: Mishap
) -> None:
    source = scene.impatient(kind=kind, claim_mode=mode)
    await taken(source)
    scene.control.fault(mishap.kind, method=mishap.method, path=mishap.path)
    with contextlib.suppress(TrackerError):  # here the process dies of it
        await source.complete_work(f"{kind}-1", mishap.result)
        assert not scene.control.counts()["by_fault"]  # by labels alone, not every step is needed
    scene.control.clear_faults()
    again = scene.impatient(kind=kind, claim_mode=mode)
    for _ in range(2):
        await again.complete_work(f"{kind}-1", mishap.result)
    assert len(reports(scene)) == 1
    assert scene.labels().isdisjoint({"agent-working", "ready"})
    ended = Status.FAILED if mishap.result is FAILED else Status.COMPLETED
    assert (await standing(source)).item.status is ended


def text_of(body: str) -> str:
    """A comment without its marker."""
    marker, _, text = body.partition("\n")
    assert marker.startswith("<!-- ")
    assert marker.endswith(" -->")
    return text


@MODES
async def test_a_report_tells_everything(scene: Forges, kind: str, mode: str) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    await taken(source)
    await source.complete_work(
        f"{kind}-1",
        WorkResult(
            "failure",
            "The wheel is gone.",
            details="I looked in the **yard**.",
            artifacts=("abc123", "logs/mill.txt"),
            error="```\nno wheel\n```",
        ),
    )
    (report,) = reports(scene)
    assert text_of(report) == (
        "## ❌ Work failed\n\n"
        "**Outcome:** failure\n\n"
        "**Summary:** The wheel is gone.\n\n"
        "### Details\n\nI looked in the **yard**.\n\n"
        "### Artifacts\n\n- abc123\n- logs/mill.txt\n\n"
        "### Error\n\n````\n```\nno wheel\n```\n````"
    )


@pytest.mark.parametrize(
    ("outcome", "heading"),
    [
        ("success", "✅ Work completed"),
        ("failure", "❌ Work failed"),
        ("partial", "⚠️ Work partially completed"),
    ],
)
async def test_what_was_not_said_is_left_out(
    scene: Forges, outcome: WorkOutcome, heading: str
) -> None:
    source = scene.source()
    await taken(source)
    await source.complete_work("github-1", WorkResult(outcome, "Short."))
    (report,) = reports(scene)
    assert text_of(report) == f"## {heading}\n\n**Outcome:** {outcome}\n\n**Summary:** Short."


@pytest.mark.parametrize(
    "artifact",
    [
        "https://example.org/ada--><!--x/engine/pull/9",
        "https://example.org/ada/engine/pull/9 -->",
        f"https://example.org/{'a' * 3_000}/engine/pull/9",
        "https://example.org/ada/\x00/pull/9",
        "pull/9",
    ],
    ids=["bracket", "space", "long", "null", "path"],
)
async def test_what_is_no_address_of_a_pull_request_is_an_artifact_like_any_other(
    scene: Forges, artifact: str
) -> None:
    """The address stands in the marker, where nothing may end it early."""
    source = scene.source()
    await taken(source)
    await source.complete_work("github-1", replace(MENDED, artifacts=(artifact,)))
    (report,) = reports(scene)
    assert " pr=none " in report.partition("\n")[0]
    assert scene.state() == "closed"
    assert (await standing(source)).item.status is Status.COMPLETED


@pytest.mark.parametrize("page", ["/", "/files", "/commits/abc1234", "#issuecomment-1", "?w=1"])
@pytest.mark.parametrize("review", [False, True])
async def test_any_page_of_a_pull_request_is_its_address(
    scene: Forges, page: str, review: bool
) -> None:
    source = scene.source()
    await taken(source)
    told = replace(MENDED, artifacts=(f"{PR}{page}",), review=review)
    await source.complete_work("github-1", told)
    (report,) = reports(scene)
    assert f" pr={PR} " in report.partition("\n")[0]
    assert scene.state() == "open"
    item = (await standing(source)).item
    assert item.artifact_url == PR
    assert item.status is (Status.IN_REVIEW if review else Status.COMPLETED)


@dataclass(frozen=True)
class End:
    labels: set[str]
    state: str
    status: Status


LABELLED = "agent:managed"
ENDS = {
    "pr": End({"agent:pr-open", LABELLED}, "open", Status.COMPLETED),
    "closed": End({"agent:done", LABELLED}, "closed", Status.COMPLETED),
    "failure": End({"agent:failed", LABELLED}, "open", Status.FAILED),
    "partial": End({"agent:failed", LABELLED}, "open", Status.BLOCKED),
    "released": End({"ready", LABELLED}, "open", Status.QUEUED),
}
# Where labels are all there is, every success closes the issue, and nothing is left behind.
ENDS_BY_LABELS = {
    "pr": End({"agent:pr-open"}, "closed", Status.COMPLETED),
    "closed": End(set(), "closed", Status.COMPLETED),
    "failure": End({"agent:failed"}, "open", Status.FAILED),
    "partial": End({"agent:failed"}, "open", Status.BLOCKED),
    "released": End({"ready"}, "open", Status.QUEUED),
}


@MODES
@pytest.mark.parametrize("end", ENDS)
async def test_labels_and_ledger_say_how_it_ended(
    scene: Forges, kind: str, mode: str, end: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    await taken(source)
    results = {"pr": DONE, "closed": MENDED, "failure": FAILED, "partial": PARTIAL}
    if end in results:
        await source.complete_work(f"{kind}-1", results[end])
    else:
        assert (await source.release_work(f"{kind}-1")).success
    detail = await standing(source)
    expected = (ENDS_BY_LABELS if mode == "labels" else ENDS)[end]
    found = End(scene.labels() - {"bug"}, scene.state(), detail.item.status)
    assert found == expected
    assert detail.claim is None
    desk = await source.desk()
    assert await scene.ledger_of().outside.open_claims(desk.tracker.source) == []


@MODES
async def test_without_cleanup_an_issue_that_is_given_back_waits_for_a_person(
    scene: Forges, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode, cleanup_on_failure=False)
    await taken(source)
    given = await source.release_work(f"{kind}-1", ReleaseOptions("shut down", add_comment=True))
    assert given.success
    assert scene.labels().isdisjoint({"ready", "agent-working", "agent:failed"})
    assert await offered(source) == []
    assert text_of(scene.comments()[-1]) == "**Released:** shut down"
    scene.control.label(REPO, 1, add=["ready"])
    await taken(scene.source("bob", kind, claim_mode=mode, cleanup_on_failure=False))


@MODES
async def test_a_release_says_why_only_when_it_is_asked_to(
    scene: Forges, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    await taken(source)
    await source.release_work(f"{kind}-1", ReleaseOptions("too hot"))
    assert not any("too hot" in body for body in scene.comments())
    await taken(source)
    await source.release_work(f"{kind}-1", ReleaseOptions("too\x00 hot", add_comment=True))
    assert [text_of(body) for body in scene.comments() if "hot" in body] == [
        "**Released:** too hot"
    ]
    assert (await standing(source)).item.notes == "too hot"


@MODES
async def test_a_person_who_makes_a_failed_issue_ready_has_decided(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    await taken(source)
    await source.complete_work(f"{kind}-1", FAILED)
    assert await offered(source) == []
    assert (await source.claim_work(f"{kind}-1")).reason is ClaimFailureReason.INVALID_STATE
    first = (await standing(source)).item
    control.label(REPO, 1, add=["ready"], remove=["agent:failed"])
    assert await offered(source) == [1]
    await taken(source)
    second = (await standing(source)).item
    assert second.id != first.id  # what has failed stays failed; this is another try
    assert second.status is Status.IN_PROGRESS


@MODES
async def test_a_person_who_makes_a_partial_result_ready_has_it_taken_up_again(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    await taken(source)
    await source.complete_work(f"{kind}-1", PARTIAL)
    first = (await standing(source)).item
    assert (first.status, first.reason) == (Status.BLOCKED, "partial")
    control.label(REPO, 1, add=["ready"], remove=["agent:failed"])
    await taken(scene.source("bob", kind, claim_mode=mode))
    second = (await standing(source)).item
    assert (second.id, second.status) == (first.id, Status.IN_PROGRESS)
    assert second.assigned_agent == "bob"


# what the ledger knows


async def test_a_claimed_issue_stands_in_the_ledger(scene: Forges, clock: ManualClock) -> None:
    source = scene.source(lease_seconds=120)
    result = await source.claim_work("github-1")
    detail = await standing(source)
    desk = await source.desk()
    item, claim = detail.item, detail.claim
    assert claim is not None
    assert (item.source, item.source_ref) == (desk.tracker.source, "1")
    assert (item.type, item.description, item.body) == (
        "issue",
        "Mend the mill",
        "It stands still.",
    )
    assert item.payload["url"].endswith(f"/{REPO}/issues/1")
    assert item.labels == ("ready", "bug")
    assert (item.status, item.assigned_agent, item.attempts) == (Status.IN_PROGRESS, "ada", 1)
    assert (result.ledger_id, result.token) == (item.id, claim.token)
    assert claim.expires_at == clock.text(120)
    assert [(one.agent, one.outcome) for one in detail.dispatch_log] == [("ada", None)]
    assert [one.type for one in detail.events] == [
        "work.submitted",
        "work.dispatched",
        "work.started",
    ]
    kept = await scene.ledger_of().outside.claim_of(desk.tracker.source, "1")
    assert kept is not None
    (comment,) = scene.control.look(REPO, 1)["comments"]
    assert kept.entry_id == comment["id"]
    assert f"firing_id={kept.firing_id} nonce={kept.nonce}" in comment["body"]
    assert f"fleet={await scene.ledger_of().outside.fleet()} " in comment["body"]


async def test_the_dispatch_log_and_the_events_tell_the_end(scene: Forges) -> None:
    source = scene.source()
    await taken(source)
    await source.complete_work("github-1", DONE)
    detail = await standing(source)
    assert [(one.agent, one.outcome) for one in detail.dispatch_log] == [("ada", "success")]
    ended = detail.events[-1]
    assert (ended.type, ended.data["artifact_url"]) == ("work.completed", PR)
    assert detail.item.notes is not None
    assert detail.item.notes.startswith("It turns again.")


async def test_a_lost_race_costs_no_attempt(scene: Forges, control: Control) -> None:
    """Another fleet's claim was written first, and can be read only after ours."""
    first = control.comment(REPO, 1, RIVALS_CLAIM, user="rival")
    # Until the claim is posted, the log is read twice.
    control.fault(
        FaultKind.STALE, path="/comments", entries=["comments"], seconds=10**9, share=1, times=2
    )
    source = scene.source(fleets=[RIVAL])
    lost = await source.claim_work("github-1")
    assert lost.reason is ClaimFailureReason.ALREADY_CLAIMED
    assert lost.message == f"'zoe' holds it (claim {first})"
    assert scene.labels() == {"ready", "bug"}  # those are the winner's to change
    assert len(scene.comments()) == 2  # our claim is void for ever, and needs no release
    detail = await standing(source)
    assert (detail.item.status, detail.item.attempts, detail.claim) == (Status.QUEUED, 0, None)
    assert detail.events[-1].reason == "already_claimed"


async def test_a_claim_that_others_can_see_is_refused_before_the_ledger_is_asked(
    scene: Forges, control: Control
) -> None:
    control.comment(REPO, 1, RIVALS_CLAIM, user="rival")
    source = scene.source(fleets=[RIVAL])
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.ALREADY_CLAIMED
    assert await nothing_in_ledger(source)
    assert len(scene.comments()) == 1


@MODES
async def test_a_restarted_agent_ends_what_it_had_begun(
    scene: Forges, kind: str, mode: str
) -> None:
    await taken(scene.source(kind=kind, claim_mode=mode))
    again = scene.source(kind=kind, claim_mode=mode)
    await again.complete_work(f"{kind}-1", DONE)
    assert (await standing(again)).item.status is Status.COMPLETED


@MODES
async def test_a_run_whose_lease_has_lapsed_reports_nothing(
    scene: Forges, clock: ManualClock, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode, lease_seconds=60)
    claimed = await source.claim_work(f"{kind}-1")
    before = scene.control.look(REPO, 1)
    clock.advance(61)
    for said in (DONE, replace(DONE, claim=claimed.claim)):
        with pytest.raises(ClaimLost):
            await source.complete_work(f"{kind}-1", said)
    released = await source.release_work(f"{kind}-1")
    assert (released.success, released.message) == (True, "'ada' does not hold #1")
    assert scene.control.look(REPO, 1) == before
    detail = await standing(source)
    assert (detail.item.status, detail.late_results) == (Status.IN_PROGRESS, [])


@MODES
async def test_nobody_reports_or_gives_back_what_another_holds(
    scene: Forges, kind: str, mode: str
) -> None:
    await taken(scene.source(kind=kind, claim_mode=mode))
    before = scene.control.look(REPO, 1)
    other = scene.source("bob", kind, claim_mode=mode)
    with pytest.raises(ClaimLost):
        await other.complete_work(f"{kind}-1", DONE)
    assert (await other.release_work(f"{kind}-1")).message == "'bob' does not hold #1"
    assert scene.control.look(REPO, 1) == before
    detail = await standing(other)
    assert (detail.item.status, detail.item.assigned_agent) == (Status.IN_PROGRESS, "ada")


@MODES
async def test_nobody_reports_by_the_claim_of_another(
    scene: Forges, clock: ManualClock, kind: str, mode: str
) -> None:
    """Not even while the tracker still shows it, and its own report could be told late."""
    claimed = await scene.source(kind=kind, claim_mode=mode, lease_seconds=60).claim_work(
        f"{kind}-1"
    )
    clock.advance(61)
    await scene.ledger_of().sweeper.tick()
    before = scene.control.look(REPO, 1)
    other = scene.source("bob", kind, claim_mode=mode)
    with pytest.raises(ClaimLost):
        await other.complete_work(f"{kind}-1", replace(DONE, claim=claimed.claim))
    assert scene.control.look(REPO, 1) == before
    detail = await standing(other)
    assert (detail.item.status, detail.late_results) == (Status.QUEUED, [])


@MODES
async def test_what_only_the_ledger_was_told_is_not_taken_for_told(
    scene: Forges, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    claimed = await source.claim_work(f"{kind}-1")
    before = scene.control.look(REPO, 1)
    order = Order(
        Verb.COMPLETE, claimed.ledger_id or "", "ada", token=claimed.token, outcome="success"
    )
    await scene.ledger_of().queue.apply(order)
    with pytest.raises(ClaimLost):
        await source.complete_work(f"{kind}-1", DONE)
    assert scene.control.look(REPO, 1) == before


async def test_a_claim_that_was_revoked_accepts_no_result(scene: Forges, control: Control) -> None:
    source = scene.source()
    await taken(source)
    (claim,) = control.look(REPO, 1)["comments"]
    control.comment(REPO, 1, f"<!-- agent-revoke:v=2 claim={claim['id']} by=ada -->", user="ada")
    with pytest.raises(ClaimLost, match="its result was not accepted"):
        await source.complete_work("github-1", DONE)
    assert reports(scene) == []
    detail = await standing(source)
    assert (detail.item.status, detail.item.reason) == (Status.QUEUED, "claim_lost")
    assert await scene.ledger_of().outside.open_claims(str(detail.item.source)) == []
    assert kept(detail) == [("complete", PR, DONE.summary)]


def kept(detail: Detail) -> list[tuple[str, str | None, str]]:
    """What the ledger has of results that were not believed."""
    late = [one.data for one in detail.late_results if "notes" in one.data]
    return [(one["verb"], one.get("artifact_url"), one["notes"].split("\n")[0]) for one in late]


@KINDS
async def test_the_result_of_an_issue_that_was_deleted_is_kept(
    scene: Forges, control: Control, kind: str
) -> None:
    source = scene.source(kind=kind)
    await taken(source)
    control.delete(REPO, 1)
    with pytest.raises(ClaimLost, match="its result was not accepted"):
        await source.complete_work(f"{kind}-1", FAILED)
    assert kept(await standing(source)) == [("fail", None, FAILED.summary)]


async def test_what_was_accepted_stays_accepted_when_the_issue_is_deleted_before_it_is_closed(
    scene: Forges, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scene.source()
    await taken(source)
    desk = await source.desk()
    finish = desk.claims.finish

    async def then_deleted(*args: Any, **named: Any) -> bool:
        accepted = await finish(*args, **named)
        control.delete(REPO, 1)
        return accepted

    monkeypatch.setattr(desk.claims, "finish", then_deleted)
    await source.complete_work("github-1", MENDED)
    assert (await standing(source)).item.status is Status.COMPLETED


async def test_a_claim_that_is_lost_here_and_there_at_once_loses_no_result(
    scene: Forges, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scene.source()
    await taken(source)
    desk, item = await source.desk(), (await standing(source)).item

    async def taken_away(*args: Any, **named: Any) -> bool:
        await scene.ledger_of().queue.apply(Order(Verb.RELEASE, item.id, "eve", force=True))
        return False

    monkeypatch.setattr(desk.claims, "finish", taken_away)
    with pytest.raises(ClaimLost, match="its result was not accepted"):
        await source.complete_work("github-1", DONE)
    assert ("complete", PR, DONE.summary) in kept(await standing(source))
    assert await scene.ledger_of().outside.open_claims(str(item.source)) == []


@pytest.mark.parametrize("restarted", [False, True], ids=["the_same", "restarted"])
async def test_a_result_whose_claim_the_ledger_has_ended_is_kept(
    scene: Forges, control: Control, restarted: bool
) -> None:
    source = scene.source()
    claimed = await source.claim_work("github-1")
    item = (await standing(source)).item
    await scene.ledger_of().queue.apply(Order(Verb.RELEASE, item.id, "eve", force=True))
    control.delete(REPO, 1)
    said = replace(DONE, claim=claimed.claim) if restarted else DONE
    for other in ("bob", "ada"):  # of whom only one may say anything about it
        asked = scene.source(other) if restarted or other == "bob" else source
        for _ in range(2):
            with pytest.raises(ClaimLost):
                await asked.complete_work("github-1", said)
    detail = await standing(source)
    assert (detail.item.status, kept(detail)) == (
        Status.QUEUED,
        [("complete", PR, DONE.summary)],
    )
    assert {one.actor for one in detail.late_results} == {"ada"}


# a tracker that does not find what is there


@KINDS
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/issues/1/comments"),
        ("POST", "/issues/1/comments"),
        ("GET", "/issues/1$"),
        ("POST", "/issues/1/labels"),
        ("PATCH", "/issues/1$"),
    ],
)
async def test_one_not_found_costs_no_result(
    scene: Forges, control: Control, kind: str, method: str, path: str
) -> None:
    source = scene.source(kind=kind)
    await taken(source)
    control.fault(FaultKind.ERROR_BEFORE, status=404, method=method, path=path, times=1)
    with pytest.raises(TrackerError, match="404"):
        await source.complete_work(f"{kind}-1", MENDED)
    assert (await standing(source)).item.status is Status.IN_PROGRESS
    await source.complete_work(f"{kind}-1", MENDED)
    detail = await standing(source)
    assert (detail.item.status, detail.late_results) == (Status.COMPLETED, [])
    assert (len(reports(scene)), scene.state()) == (1, "closed")
    assert "agent:done" in scene.labels()


@KINDS
async def test_one_not_found_gives_nothing_back(scene: Forges, control: Control, kind: str) -> None:
    source = scene.source(kind=kind)
    await taken(source)
    control.fault(FaultKind.ERROR_BEFORE, status=404, path="/issues/1/comments", times=1)
    with pytest.raises(TrackerError, match="404"):
        await source.release_work(f"{kind}-1")
    assert (await standing(source)).item.status is Status.IN_PROGRESS
    await source.release_work(f"{kind}-1")
    assert (await standing(source)).item.status is Status.QUEUED
    assert "ready" in scene.labels()


@KINDS
async def test_a_token_that_does_not_see_the_repository_costs_no_result(
    scene: Forges, control: Control, kind: str
) -> None:
    source = scene.source(kind=kind)
    await taken(source)
    control.fault(FaultKind.ERROR_BEFORE, status=404, path=f"/repos/{REPO}")
    with pytest.raises(TrackerError, match=f"TOKEN does not see {REPO} now"):
        await source.complete_work(f"{kind}-1", DONE)
    control.clear_faults()
    await source.complete_work(f"{kind}-1", DONE)
    assert (await standing(source)).item.status is Status.COMPLETED


async def test_a_reopened_issue_is_a_new_item(scene: Forges, control: Control) -> None:
    source = scene.source()
    await taken(source)
    await source.complete_work("github-1", MENDED)
    first = (await standing(source)).item
    control.edit(REPO, 1, state="open")
    control.label(REPO, 1, add=["ready"], remove=["agent:done"])
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert refused.message == "it was finished: none"
    assert await Operators(await source.desk()).reopen(1)
    await taken(source)
    second = (await standing(source)).item
    assert (second.id != first.id, second.status) == (True, Status.IN_PROGRESS)
    assert (await scene.ledger_of().views.item(first.id)).status is Status.COMPLETED


@MODES
async def test_a_claim_tells_its_number_as_the_tracker_has_it(
    scene: Forges, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    result = await source.claim_work(f"{kind}-1")
    holder = (await (await source.desk()).claims.standing(1)).holder
    assert holder is not None
    # By labels nobody has a number, and a zero would be taken for one.
    assert result.number == (None if mode == "labels" else holder.id)


@KINDS
@pytest.mark.parametrize("mode", ["comments", "labels"])
async def test_a_claimed_item_has_the_labels_that_the_claim_gave_it(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    item = (await source.claim_work(f"{kind}-1")).work_item
    assert item is not None
    assert sorted(item.labels) == sorted(control.look(REPO, 1)["labels"])
    assert "agent-working" in item.labels


@KINDS
async def test_labels_that_are_asked_for_are_found_in_any_case(
    scene: Forges, control: Control, kind: str
) -> None:
    number = control.issue(REPO, "Oil it", labels=["ready", "Backend"])
    control.issue(REPO, "Paint it", labels=["ready", "Frontend"])
    source = scene.source(kind=kind)
    found = await source.fetch_available_work(FetchOptions(labels=("READY", "backend")))
    assert [one.external_id for one in found.items] == [str(number)]


@KINDS
async def test_by_labels_a_reopened_issue_needs_no_more_than_its_label(
    scene: Forges, control: Control, kind: str
) -> None:
    source = scene.source(kind=kind, claim_mode="labels")
    await taken(source)
    await source.complete_work(f"{kind}-1", MENDED)
    first = (await standing(source)).item
    control.edit(REPO, 1, state="open")
    control.label(REPO, 1, add=["ready"])
    await taken(source)
    assert (await standing(source)).item.id != first.id


async def test_an_agent_with_full_hands_is_told_so_and_tries_no_other_issue(
    scene: Forges, control: Control
) -> None:
    other = control.issue(REPO, "Oil it", labels=["ready"])
    source = scene.source()
    await taken(source)
    refused = await source.claim_work(f"github-{other}")
    assert refused.reason is ClaimFailureReason.PERMISSION_DENIED
    assert "already works on 1 of 1 items" in (refused.message or "")
    assert scene.comments(other) == []


async def test_a_paused_agent_takes_nothing(scene: Forges) -> None:
    await scene.ledger_of().queue.set_agent("ada", paused=True)
    source = scene.source()
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.PERMISSION_DENIED
    assert "rota agent resume ada" in (refused.message or "")
    assert scene.comments() == []


async def test_an_operators_hold_in_the_ledger_counts_too(scene: Forges) -> None:
    source = scene.source()
    await taken(source)
    await source.release_work("github-1")
    item = (await standing(source)).item
    await scene.ledger_of().queue.hold(item.id, "ask me first")
    before = scene.comments()
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert f"rota unhold {item.id}" in (refused.message or "")
    assert scene.comments() == before


async def test_what_an_operator_has_blocked_is_not_taken_up_again(scene: Forges) -> None:
    source = scene.source(times={"settle": SETTLE, "grace": 0.1, "margin": 0.01})
    await taken(source)
    detail = await standing(source)
    assert detail.claim is not None
    await scene.ledger_of().queue.apply(
        Order(Verb.BLOCK, detail.item.id, "ada", token=detail.claim.token, notes="wait")
    )
    scene.control.label(REPO, 1, add=["ready"], remove=["agent-working"])
    (claim,) = scene.control.look(REPO, 1)["comments"]
    scene.control.comment(
        REPO, 1, f"<!-- agent-revoke:v=2 claim={claim['id']} by=ada -->", user="ada"
    )
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.INVALID_STATE
    assert (await standing(source)).item.status is Status.BLOCKED


# with the manager


@dataclass(frozen=True)
class Agent:
    name: str
    work_source: dict[str, Any]


@MODES
async def test_the_manager_takes_the_best_issue_and_reports_it(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    urgent = control.issue(REPO, "It burns", labels=["ready", "critical"])
    agent = Agent("ada", scene.config(kind, claim_mode=mode))
    async with WorkSourceManager(scene.context("ada"), registry=WorkSourceRegistry()) as manager:
        first, claimed, _ = await manager.get_next_work_item(agent)
        assert first is not None
        assert (claimed, first.external_id) == (True, str(urgent))
        await manager.report_outcome(first.id, DONE, agent=agent)
        second, claimed, _ = await manager.get_next_work_item(agent)
        assert second is not None
        assert (claimed, second.external_id) == (True, "1")
        await manager.release_work_item(second.id, agent=agent, reason="tired")
    assert "ready" in scene.labels()


@KINDS
async def test_an_issue_that_cannot_be_read_does_not_keep_agents_from_the_others(
    scene: Forges, control: Control, kind: str
) -> None:
    other = control.issue(REPO, "Mend the gate", labels=["ready"])
    control.fault(FaultKind.ERROR_BEFORE, status=502, path="/issues/1/comments")
    source = scene.impatient(kind=kind)
    registry = WorkSourceRegistry()
    registry.register("broken", lambda _config, _context: source)
    async with WorkSourceManager(registry=registry) as manager:
        found = await manager.get_next_work_item(Agent("ada", {"type": "broken"}))
    assert found.claimed
    assert found.item is not None
    assert found.item.external_id == str(other)
    assert (scene.labels(1), scene.comments(1)) == ({"ready", "bug"}, [])


async def test_a_program_may_have_github_alone(scene: Forges) -> None:
    config = {name: value for name, value in scene.config().items() if name != "type"}
    source = GitHubWorkSource(config, scene.context("ada"))
    try:
        await taken(source)
        await source.complete_work("github-1", DONE)
    finally:
        await source.aclose()
    assert scene.labels() == {"bug", "agent:managed", "agent:pr-open"}


async def test_a_program_with_github_alone_says_how_it_is_asked(
    scene: Forges, control: Control
) -> None:
    heard: list[int] = []
    config = {name: value for name, value in scene.config().items() if name != "type"}
    source = GitHubWorkSource(
        config,
        scene.context("ada"),
        retry=RetryOptions(max_retries=1, base_delay=0.01),
        warning=RateLimitWarningOptions(1_000_000),
        on_warning=lambda info: heard.append(info.remaining),
    )
    control.fault(FaultKind.ERROR_BEFORE, status=502, path="^/user$", times=1)
    try:
        assert await offered(source) == [1]
        control.fault(FaultKind.ERROR_BEFORE, status=502, path="/issues", times=2)
        with pytest.raises(GitHubAPIError):
            await source.fetch_available_work()
    finally:
        await source.aclose()
    assert len(heard) == 1


async def test_a_program_with_github_alone_asks_whether_its_token_will_do(
    scene: Forges, control: Control
) -> None:
    control.token("bot", token="poor", scopes=["read:org"])
    config = {name: value for name, value in scene.config().items() if name != "type"}
    good = GitHubWorkSource(config, scene.context("ada"))
    poor = GitHubWorkSource(config, scene.context("ada", {"TOKEN": "poor"}))
    none = GitHubWorkSource(config, scene.context("ada", {}))
    try:
        assert "repo" in await good.validate_token()
        with pytest.raises(GitHubAuthError) as lacking:
            await poor.validate_token()
        with pytest.raises(GitHubAuthError, match="TOKEN"):
            await none.validate_token()
    finally:
        for one in (good, poor, none):
            await one.aclose()
    told = lacking.value
    assert (told.found_scopes, told.missing_scopes) == (("read:org",), ("repo",))


async def test_a_source_that_could_not_be_opened_leaves_no_connection(
    scene: Forges, control: Control
) -> None:
    source = scene.source()
    control.fault(FaultKind.SECONDARY_LIMIT, path="^/user$", retry_after=3600)
    with pytest.raises(GitHubAPIError):
        await source.fetch_available_work()
    gc.collect()
    clients = (one for one in gc.get_objects() if isinstance(one, httpx2.AsyncClient))
    assert all(client.is_closed for client in clients)
    control.clear_faults()
    assert await offered(source) == [1]  # tried anew


async def test_a_cancelled_claim_is_taken_back(scene: Forges) -> None:
    settling = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if not settling.is_set():
            settling.set()
            await asyncio.Event().wait()  # until it is cancelled

    source = scene.impatient(pace=Pace(sleep=sleep))
    claiming = asyncio.ensure_future(source.claim_work("github-1"))
    await settling.wait()
    await _cancel(claiming)
    assert scene.comments()[-1].startswith("<!-- agent-release:")
    await _is_free(scene, source)


async def test_a_claim_that_is_cancelled_before_its_answer_came_is_found_and_taken_back(
    scene: Forges, control: Control
) -> None:
    source = scene.source()
    await source.desk()
    control.fault(FaultKind.HANG_AFTER, method="POST", path="/comments", times=1)
    claiming = asyncio.ensure_future(source.claim_work("github-1"))
    while not scene.comments():  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(SETTLE)
    await _cancel(claiming)
    assert scene.comments()[-1].startswith("<!-- agent-release:")
    await _is_free(scene, source)


async def test_a_claim_that_is_cancelled_twice_is_taken_back(
    scene: Forges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a server that is told to stop, and told again."""
    settling, leaving, may_leave, left = (asyncio.Event() for _ in range(4))

    async def sleep(seconds: float) -> None:
        if not settling.is_set():
            settling.set()
            await asyncio.Event().wait()  # until it is cancelled

    source = scene.impatient(pace=Pace(sleep=sleep))
    claims, outside = (await source.desk()).claims, scene.ledger_of().outside
    give_back, release = outside.give_back, claims.release

    async def slow(firing_id: str, why: str) -> None:
        leaving.set()
        await may_leave.wait()
        await give_back(firing_id, why)

    async def released(*args: Any, **named: Any) -> bool:
        given = await release(*args, **named)
        left.set()
        return given

    monkeypatch.setattr(outside, "give_back", slow)
    monkeypatch.setattr(claims, "release", released)
    claiming = asyncio.ensure_future(source.claim_work("github-1"))
    await settling.wait()
    claiming.cancel()
    await leaving.wait()
    await _cancel(claiming)
    may_leave.set()
    async with asyncio.timeout(30):
        await left.wait()
    assert scene.comments()[-1].startswith("<!-- agent-release:")
    await _is_free(scene, source)


async def _cancel(claiming: "asyncio.Future[Any]") -> None:
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming


async def _is_free(scene: Forges, source: ForgeWorkSource) -> None:
    assert scene.labels() - {"agent:managed"} == {"ready", "bug"}
    detail = await standing(source)
    assert (detail.item.status, detail.item.attempts) == (Status.QUEUED, 0)


async def test_a_token_that_is_missing_is_looked_for_again_each_time(scene: Forges) -> None:
    environ = {"TOKEN": ""}
    source = scene.source(environ=environ)
    with pytest.raises(GitHubAuthError, match="TOKEN"):
        await source.fetch_available_work()
    environ["TOKEN"] = "token-bot"
    assert await offered(source) == [1]
