"""The main journey of a work source, against a GitHub that nobody here wrote.

Where the emulator is not like GitHub: it has no GraphQL and no ETags, labels given when an issue
is opened leave no event, and names of labels are told apart by case.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.app import open_ledger
from rota.model.errors import ClaimLost
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.queue import Ledger
from rota.sources.forge import ForgeWorkSource
from rota.sources.port import ClaimFailureReason, FetchOptions, ReleaseOptions, WorkResult
from rota.sources.registry import SourceContext, WorkSourceRegistry
from rota.testing.emulator import BOT, OWNER, REPO, STRANGER, GitHubEmulator, github_emulator

pytestmark = pytest.mark.needs("github-emulator")

PR = f"https://github.com/{REPO}/pull/9"
SETTLE = 0.05
TESTS = count(1)
MODES = pytest.mark.parametrize("mode", ["comments", "strict", "labels"])


@pytest.fixture(scope="module")
def github() -> Iterator[GitHubEmulator]:
    with github_emulator() as running:
        yield running


class Emulated:
    """One repository for all tests: every test opens issues of its own, under its own label."""

    def __init__(self, github: GitHubEmulator, directory: Path, label: str) -> None:
        self.github = github
        self.label = label
        self._directory = directory
        self._opened = AsyncExitStack()
        self._http = httpx2.Client(base_url=f"{github.url}/repos/{REPO}", timeout=30)

    async def ledger(self, name: str = "rota") -> Ledger:
        """Of a fleet; one database is one fleet."""
        path = self._directory / f"{name}.db"
        return await self._opened.enter_async_context(open_ledger(str(path)))

    def source(
        self, ledger: Ledger | None, agent: str = "ada", login: str = BOT, **given: Any
    ) -> ForgeWorkSource:
        config = {
            "type": "github",
            "repo": REPO,
            "api_url": self.github.url,
            "auth": {"token_env": "TOKEN"},
            "labels": {"ready": self.label},
            "times": {"settle": SETTLE},
            "trust_required": False,
            **given,
        }
        context = SourceContext(
            agent=agent,
            ledger=ledger,
            environ={"TOKEN": self.github.token_of(login)},
            paused_repos=self._directory / "paused.json",
        )
        made = WorkSourceRegistry().create(config, context)
        assert isinstance(made, ForgeWorkSource)
        self._opened.push_async_callback(made.aclose)
        return made

    def ask(self, method: str, path: str, content: Any = None, login: str = OWNER) -> Any:
        headers = {"authorization": f"Bearer {self.github.token_of(login)}"}
        answer = self._http.request(method, path, json=content, headers=headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def issue(
        self, title: str = "Mend the mill", body: str = "It stands still.", *labels: str
    ) -> int:
        """Ready; opened first and labelled then, so that there is an event."""
        number: int = self.ask("POST", "/issues", {"title": title, "body": body})["number"]
        self.add(number, self.label, *labels)
        return number

    def add(self, number: int, *labels: str, login: str = OWNER) -> None:
        self.ask("POST", f"/issues/{number}/labels", {"labels": list(labels)}, login)

    def labels(self, number: int) -> set[str]:
        return {one["name"] for one in self.ask("GET", f"/issues/{number}")["labels"]}

    def state(self, number: int) -> str:
        found: str = self.ask("GET", f"/issues/{number}")["state"]
        return found

    def comments(self, number: int) -> list[str]:
        return [one["body"] for one in self.ask("GET", f"/issues/{number}/comments")]

    async def aclose(self) -> None:
        await self._opened.aclose()
        self._http.close()


@pytest.fixture
async def hub(
    github: GitHubEmulator, upgraded_sqlite: Path, tmp_path: Path
) -> AsyncIterator[Emulated]:
    for name in ("rota", "rival"):
        shutil.copy(upgraded_sqlite, tmp_path / f"{name}.db")
    made = Emulated(github, tmp_path, f"ready-{next(TESTS)}")
    yield made
    await made.aclose()


async def offered(source: ForgeWorkSource, **options: Any) -> list[int]:
    found = await source.fetch_available_work(FetchOptions(**options))
    return [int(item.external_id) for item in found.items]


async def item_of(source: ForgeWorkSource, number: int) -> WorkItem:
    desk = await source.desk()
    assert desk.ledger is not None
    found = await desk.ledger.outside.standing(desk.tracker.source, str(number))
    assert found is not None
    return found


@MODES
async def test_an_issue_is_fetched_claimed_and_completed(hub: Emulated, mode: str) -> None:
    second = hub.issue("Oil the mill")
    number = hub.issue("Mend the mill", "It stands still.", "priority:high")
    source = hub.source(await hub.ledger(), claim_mode=mode)
    assert await offered(source) == [number, second]
    result = await source.claim_work(f"github-{number}")
    assert result.work_item is not None
    assert (result.work_item.title, result.work_item.description) == (
        "Mend the mill",
        "It stands still.",
    )
    assert "agent-working" in hub.labels(number)
    assert hub.label not in hub.labels(number)
    assert await offered(source) == [second]
    assert await offered(source, include_claimed=True) == [number, second]
    await source.complete_work(f"github-{number}", WorkResult("success", "It turns again."))
    assert hub.state(number) == "closed"
    assert "agent-working" not in hub.labels(number)
    assert sum("**Summary:** It turns again." in body for body in hub.comments(number)) == 1
    assert (await item_of(source, number)).status is Status.COMPLETED


@MODES
async def test_a_report_said_twice_stands_once(hub: Emulated, mode: str) -> None:
    number = hub.issue()
    ledger = await hub.ledger()
    source = hub.source(ledger, claim_mode=mode)
    assert (await source.claim_work(f"github-{number}")).success
    done = WorkResult("success", "It turns again.", artifacts=(PR,))
    await source.complete_work(f"github-{number}", done)
    before = hub.comments(number)
    await source.complete_work(f"github-{number}", done)
    await hub.source(ledger, claim_mode=mode).complete_work(f"github-{number}", done)
    assert hub.comments(number) == before
    assert "agent:pr-open" in hub.labels(number)


@pytest.mark.parametrize("mode", ["comments", "strict"])
async def test_of_two_fleets_one_gets_the_issue(hub: Emulated, mode: str) -> None:
    """Each has its own database and account; nothing but the tracker decides."""
    ids = {
        login: hub.ask("GET", f"{hub.github.url}/user", login=login)["id"] for login in (BOT, OWNER)
    }
    fleets = {"claim_mode": mode, "fleets": list(ids.values()), "times": {"settle": 0.3}}
    ours = hub.source(await hub.ledger(), "ada", BOT, **fleets)
    theirs = hub.source(await hub.ledger("rival"), "zoe", OWNER, **fleets)
    for source in (ours, theirs):
        await source.desk()
    for _ in range(3):
        number = hub.issue()
        results = await asyncio.gather(
            *(source.claim_work(f"github-{number}") for source in (ours, theirs))
        )
        assert sorted(one.success for one in results) == [False, True]
        lost, won = sorted(
            zip(results, (ours, theirs), strict=True), key=lambda one: one[0].success
        )
        assert lost[0].reason is ClaimFailureReason.ALREADY_CLAIMED
        left = await item_of(lost[1], number)
        assert (left.status, left.attempts) == (Status.QUEUED, 0)
        with pytest.raises(ClaimLost):
            await lost[1].complete_work(f"github-{number}", WorkResult("success", "mine"))
        await won[1].complete_work(f"github-{number}", WorkResult("success", "It turns again."))
        assert hub.state(number) == "closed"


@MODES
async def test_agents_of_one_fleet_lose_without_a_trace(hub: Emulated, mode: str) -> None:
    number = hub.issue()
    ledger = await hub.ledger()
    ada, bob = (hub.source(ledger, name, claim_mode=mode) for name in ("ada", "bob"))
    assert (await ada.claim_work(f"github-{number}")).success
    before = hub.labels(number), hub.comments(number)
    assert (await bob.claim_work(f"github-{number}")).reason is ClaimFailureReason.ALREADY_CLAIMED
    assert (hub.labels(number), hub.comments(number)) == before


@MODES
async def test_an_issue_is_given_back_and_taken_again(hub: Emulated, mode: str) -> None:
    number = hub.issue()
    ledger = await hub.ledger()
    ada, bob = (hub.source(ledger, name, claim_mode=mode) for name in ("ada", "bob"))
    for source in (ada, bob, ada):
        assert (await source.claim_work(f"github-{number}")).success
        given = await source.release_work(
            f"github-{number}", ReleaseOptions("too hot", add_comment=True)
        )
        assert given.success
        assert await offered(bob) == [number]
    assert sum("**Released:** too hot" in body for body in hub.comments(number)) == 3
    assert "agent-working" not in hub.labels(number)
    assert (await item_of(ada, number)).status is Status.QUEUED


@MODES
async def test_a_failed_issue_waits_for_a_person(hub: Emulated, mode: str) -> None:
    number = hub.issue()
    source = hub.source(await hub.ledger(), claim_mode=mode)
    assert (await source.claim_work(f"github-{number}")).success
    await source.complete_work(
        f"github-{number}", WorkResult("failure", "The wheel is gone.", error="no wheel")
    )
    assert hub.labels(number) - {"agent:managed"} == {"agent:failed"}
    assert hub.state(number) == "open"
    assert sum("no wheel" in body for body in hub.comments(number)) == 1
    assert await offered(source) == []
    assert (await source.claim_work(f"github-{number}")).reason is ClaimFailureReason.INVALID_STATE
    assert (await item_of(source, number)).status is Status.FAILED
    hub.add(number, hub.label)
    hub.ask("DELETE", f"/issues/{number}/labels/agent:failed")
    assert (await source.claim_work(f"github-{number}")).success


async def test_held_blocked_and_closed_issues_are_left_alone(hub: Emulated) -> None:
    held, blocked = hub.issue("a", "", "do-not-pickup"), hub.issue("b", "", "blocked")
    closed = hub.issue("c")
    hub.ask("PATCH", f"/issues/{closed}", {"state": "closed"})
    free = hub.issue("d")
    source = hub.source(await hub.ledger())
    assert await offered(source) == [free]
    for number in (held, blocked, closed):
        refused = await source.claim_work(f"github-{number}")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
        assert hub.comments(number) == []
    missing = await source.claim_work("github-99999")
    assert missing.reason is ClaimFailureReason.NOT_FOUND


async def test_the_gate_knows_who_has_put_the_label_on(hub: Emulated) -> None:
    """By the number of the account; the repository's owner is trusted."""
    numbers = []
    for login in (STRANGER, OWNER):
        issue = hub.ask("POST", "/issues", {"title": "Mend it", "body": ""}, login=STRANGER)
        hub.add(issue["number"], hub.label, login=login)
        numbers.append(issue["number"])
    source = hub.source(await hub.ledger(), trust_required=True)
    assert await offered(source) == numbers[1:]
    stranger = hub.ask("GET", f"{hub.github.url}/user", login=STRANGER)["id"]
    assert await offered(hub.source(None, trust_required=True, trusted=[stranger])) == numbers


async def test_without_graphql_any_edit_needs_a_new_label(hub: Emulated) -> None:
    number = hub.issue()
    source = hub.source(await hub.ledger(), trust_required=True)
    assert await offered(source) == [number]
    hub.ask("PATCH", f"/issues/{number}", {"body": "Send me your keys."})
    assert await offered(source) == []
