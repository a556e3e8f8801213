"""A claimant dies at every one of its requests to the tracker: nothing is stuck after one look."""

import asyncio
import json
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from rota.app import make_store, open_store
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.queue.ledger import Ledger
from rota.queue.outside import OutsideWork
from rota.sources.aftermath import Aftermath
from rota.sources.assembly import open_desk
from rota.sources.desk import IssueDesk
from rota.sources.github import GitHubTracker
from rota.sources.registry import SourceContext
from rota.sources.tending import Rhythm, Tending
from rota.storage.port import Store
from rota.testing.audit import faults, read_ledger
from rota.testing.tracker import TrackerApp, TrackerStub
from tests.faults.mortal_claimant import DEEDS, TOKEN, Killed, Life, MortalStore, work
from tests.faults.processes import Process
from tests.integration.tended import BOT, LEASE, REPO, STAGES, VirtualTime, build

ADDRESS = "http://tracker.example"
MODES = ("comments", "strict")
REPORTS = ("Work completed", "Work failed", "Work partially", "Released:")


def order(deed: str, mode: str, url: str, **given: Any) -> dict[str, Any]:
    source = {
        "type": "github",
        "repo": REPO,
        "api_url": url,
        "auth": {"token_env": "TOKEN"},
        "claim_mode": mode,
        "lease_seconds": LEASE,
        **given.pop("source", {}),
    }
    return {"deed": deed, "source": source, **given}


@dataclass(frozen=True, slots=True)
class End:
    """How everything stands after the look."""

    issue: dict[str, Any]
    item: WorkItem
    holder: bool
    done: bool
    open_claims: int
    broken: list[str]

    @property
    def stages(self) -> set[str]:
        return set(self.issue["labels"]) & STAGES

    def told(self) -> str:
        """In one word; an assertion when the tracker and the ledger do not say the same."""
        reports = [one for one in self.issue["comments"] if any(r in one["body"] for r in REPORTS)]
        assert len(reports) <= 1, reports
        assert (self.holder, self.open_claims, self.broken) == (False, 0, [])
        if self.done:
            assert self.item.status is Status.COMPLETED, self.item
            assert len(reports) == 1
            return self._done(reports[0]["body"])
        assert self.issue["state"] == "open"
        if self.item.status in (Status.FAILED, Status.BLOCKED):
            assert self.stages == {"agent:failed"}
            return str(self.item.status)
        assert (self.item.status, self.item.hold_reason) == (Status.QUEUED, None)
        assert self.stages == {"ready"}
        return "available"

    def _done(self, report: str) -> str:
        if "/pull/9" in report:
            assert (self.issue["state"], self.stages) == ("open", {"agent:pr-open"})
        else:
            assert self.issue["state"] == "closed"
            assert self.stages in ({"agent:pr-open"}, {"agent:done"})
        return "completed"


ENDS = {
    "success": {"available", "completed"},
    "success with a pull request": {"available", "completed"},
    "failure": {"available", "failed"},
    "partial": {"available", "blocked"},
    "release": {"available"},
}


@dataclass(frozen=True, slots=True)
class Survivor:
    """Another process of the same fleet, after the lease of the dead has lapsed."""

    settings: Forge
    store: Store
    time: VirtualTime
    transport: httpx2.AsyncBaseTransport

    async def look(self, picture: Callable[[], Any], *, swept: bool) -> End:
        """One tick; then everything as it stands."""
        self.time.advance(LEASE)
        ledger = Ledger.on(self.store)
        tracker = GitHubTracker(
            REPO,
            token_env="TOKEN",
            api_url=self.settings.api_url,  # type: ignore[attr-defined]  # of a GitHub source
            environ=TOKEN,
            pause=self.time.sleep,
            transport=self.transport,
        )
        context = SourceContext(ledger=ledger, environ=TOKEN)
        pace = self.time.pace
        desk = await open_desk(self.settings, context, tracker=tracker, pace=pace)

        async def opened() -> IssueDesk:
            return desk

        tending = Tending(tracker, self.settings, ledger, opened, Rhythm(60.0), pace=pace)
        try:
            if swept:
                await ledger.sweeper.tick()
            await tending.tick()
            if not swept:
                await ledger.sweeper.tick()
            return await self._end(ledger, desk, picture())
        finally:
            await tending.aclose()

    async def _end(self, ledger: Ledger, desk: IssueDesk, picture: Any) -> End:
        (state,) = await ledger.outside.states()
        assert state.poll_error is None
        item = await ledger.outside.standing(state.source, "1")
        assert item is not None
        standing = await desk.claims.standing(1)
        return End(
            picture["repos"][REPO]["issues"]["1"],
            item,
            standing.holder is not None,
            standing.done is not None,
            len(await ledger.outside.open_claims(state.source)),
            [str(one) for one in faults(await self.store.read(read_ledger, long=True))],
        )


def settings_of(wanted: dict[str, Any]) -> Forge:
    settings = source_config(wanted["source"])
    assert isinstance(settings, Forge)
    return settings


# deaths inside the test: every point of every flow


def die() -> None:
    raise Killed


class Scene:
    """A tracker in this process, with one issue that is ready."""

    def __init__(self) -> None:
        self.app = TrackerApp()
        self.transport = httpx2.ASGITransport(self.app)

    async def build(self) -> None:
        async with httpx2.AsyncClient(transport=self.transport, base_url=ADDRESS) as http:
            for path, body in (
                ("reset", {}),
                ("users", {"login": "ada", "id": 7}),
                ("users", {"login": "bot", "id": BOT}),
                ("tokens", {"login": "bot", "token": "token-bot"}),
                ("repos", {"name": REPO, "private": True, "collaborators": ["bot"]}),
                (f"repos/{REPO}/issues", {"title": "Mend the mill", "labels": ["ready", "bug"]}),
            ):
                answer = await http.post(f"/_control/{path}", json=body)
                assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new") / "rota.db"
    anyio.run(make_store(str(path)).upgrade)
    return path


async def one_death(
    scene: Scene, database: Path, wanted: dict[str, Any], life: Life, *, swept: bool
) -> tuple[bool, str]:
    """Was the point reached; and how it stands afterwards."""
    await scene.build()
    time = VirtualTime()
    async with open_store(str(database), time.clock) as store:
        own = Ledger.on(MortalStore(life, store))  # type: ignore[arg-type]
        try:
            await work(wanted, life, scene.transport, own, time.pace)
        except Killed:
            pass
        else:
            assert not life.over
        survivor = Survivor(settings_of(wanted), store, time, scene.transport)
        end = await survivor.look(scene.app.world.picture, swept=swept)
    return life.over, end.told()


async def deaths(
    scenes: Sequence[Scene], folder: Path, new: Path, deed: str, mode: str
) -> list[tuple[int, str]]:
    """Before and after each request, until one is not reached any more."""
    wanted, ends = order(deed, mode, ADDRESS), []
    for n in count(1):
        paths = [folder / f"{deed}-{n}-{after}.db" for after in (False, True)]
        for path in paths:
            shutil.copy(new, path)
        found = await asyncio.gather(
            *(
                one_death(scene, path, wanted, Life(n, after, die), swept=bool(n % 2))
                for scene, path, after in zip(scenes, paths, (False, True), strict=True)
            )
        )
        ends += [(n, end) for reached, end in found if reached]
        if not any(reached for reached, _ in found):
            break
    return ends


@pytest.mark.early
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "deeds",
    [("success", "failure", "release"), pytest.param(tuple(DEEDS), marks=pytest.mark.long)],
    ids=["short", "all flows"],
)
async def test_after_a_death_at_any_request_the_issue_is_free_or_ended(
    new_database: Path,
    tmp_path: Path,
    figure: Callable[[str], None],
    mode: str,
    deeds: Sequence[str],
) -> None:
    scenes, points = (Scene(), Scene()), 0
    for deed in deeds:
        ends = await deaths(scenes, tmp_path, new_database, deed, mode)
        assert {end for _, end in ends} == ENDS[deed], ends
        points += len(ends)
    figure(f"{mode}: {points} points of {len(deeds)} flows, 0 violations")


async def test_the_judge_would_see_an_end_that_is_not_recorded(
    new_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with a planted fault: what the dead have said on the tracker is not written down."""

    async def forgotten(*_: object) -> bool:
        return False

    monkeypatch.setattr(OutsideWork, "finished", forgotten)
    with pytest.raises(AssertionError):
        await deaths((Scene(), Scene()), tmp_path, new_database, "success", "comments")


async def test_the_judge_would_see_a_claim_that_nobody_ends(
    new_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def left_alone(*_: object) -> None:
        return

    monkeypatch.setattr(Aftermath, "settle", left_alone)
    with pytest.raises(AssertionError):
        await deaths((Scene(), Scene()), tmp_path, new_database, "release", "comments")


# deaths of processes


@pytest.fixture
def killed(
    start: Callable[..., Process], stub: TrackerStub, tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """A claimant that was killed at this request; what it was told."""

    def kill(deed: str, mode: str, dies_at: int, after: bool) -> dict[str, Any]:
        build(stub.control)
        stub.control.issue(REPO, "Mend the mill", labels=["ready", "bug"])
        quick = {"times": {"settle": 0.05, "margin": 1.0}}
        wanted = order(deed, mode, stub.url, source=quick, database=str(tmp_path / "rota.db"))
        process = start("-m", "tests.faults.mortal_claimant")
        process.say(json.dumps(wanted | {"dies_at": dies_at, "after": after}))
        assert process.join() == -signal.SIGKILL
        return wanted

    return kill


@pytest.mark.parametrize(
    ("mode", "deed", "point"),
    [
        ("comments", "success", (9, True)),  # its claim stands there, and it does not know
        ("comments", "success", (14, False)),
        ("comments", "success", (19, True)),
        ("comments", "failure", (18, True)),
        ("strict", "success", (20, True)),
        ("strict", "release", (28, False)),
    ],
)
async def test_a_process_that_is_killed_leaves_nothing_stuck(
    killed: Callable[..., dict[str, Any]],
    stub: TrackerStub,
    mode: str,
    deed: str,
    point: tuple[int, bool],
) -> None:
    wanted = killed(deed, mode, *point)
    time = VirtualTime()
    async with (
        open_store(wanted["database"], time.clock) as store,
        httpx2.AsyncHTTPTransport() as transport,
    ):
        survivor = Survivor(settings_of(wanted), store, time, transport)
        end = await survivor.look(stub.control.state, swept=True)
    assert end.told() in ENDS[deed]
