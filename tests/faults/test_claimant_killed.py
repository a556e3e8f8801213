"""A claimant dies at every one of its requests to the tracker: nothing is stuck after one look."""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from rota.app import make_store, open_store
from rota.claims.strict import RefLog
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.queue.ledger import Ledger
from rota.sources.assembly import open_desk
from rota.sources.github import GitHubTracker
from rota.sources.registry import SourceContext
from rota.sources.tending import Rhythm, Tending
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.tracker import TrackerApp, TrackerStub, tracker_stub
from tests.faults.mortal_claimant import DEEDS, TOKEN, Killed, Life, MortalStore, work
from tests.faults.processes import Process
from tests.integration.tended import BOT, LEASE, REPO, STAGES, VirtualTime

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


async def look(
    wanted: dict[str, Any], ledger: Ledger, time: VirtualTime, transport: Any, *, swept: bool
) -> int:
    """One tick of another process of the fleet; how many requests it took."""
    settings = source_config(wanted["source"])
    assert isinstance(settings, Forge)
    tracker = GitHubTracker(
        REPO,
        token_env="TOKEN",
        api_url=wanted["source"]["api_url"],
        environ=TOKEN,
        pause=time.sleep,
        transport=transport,
    )
    context = SourceContext(ledger=ledger, environ=TOKEN)
    tending = Tending(
        tracker,
        settings,
        ledger,
        lambda: open_desk(settings, context, tracker=tracker, pace=time.pace),
        Rhythm(60.0),
        pace=time.pace,
    )
    try:
        if swept:
            await ledger.sweeper.tick()
        await tending.tick()
        if not swept:
            await ledger.sweeper.tick()
        (state,) = await ledger.outside.states()
        assert state.poll_error is None
    finally:
        await tending.aclose()
    return tracker.requests


async def end_of(
    wanted: dict[str, Any],
    ledger: Ledger,
    time: VirtualTime,
    store: Any,
    state: Any,
    transport: Any,
) -> End:
    settings = source_config(wanted["source"])
    assert isinstance(settings, Forge)
    tracker = GitHubTracker(
        REPO, token_env="TOKEN", api_url=wanted["source"]["api_url"], environ=TOKEN,
        transport=transport,
    )  # fmt: skip
    try:
        context = SourceContext(ledger=ledger, environ=TOKEN)
        desk = await open_desk(settings, context, tracker=tracker, pace=time.pace)
        standing = await desk.claims.standing(1)
    finally:
        await tracker.aclose()
    item = await ledger.outside.standing(tracker.source, "1")
    assert item is not None
    return End(
        state["repos"][REPO]["issues"]["1"],
        item,
        standing.holder is not None,
        standing.done is not None,
        len(await ledger.outside.open_claims(tracker.source)),
        [str(one) for one in faults(await store.read(read_ledger, long=True))],
    )


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


@asynccontextmanager
async def ledgers(path: Path, life: Life, time: VirtualTime) -> AsyncIterator[tuple[Ledger, Any]]:
    """That of the claimant, which dies with it; the store is that of everybody else."""
    async with open_store(str(path), time.clock) as own, open_store(str(path), time.clock) as other:
        yield Ledger.on(MortalStore(life, own), time.clock), other  # type: ignore[arg-type]


async def one_death(
    scene: Scene, database: Path, wanted: dict[str, Any], life: Life, *, swept: bool
) -> tuple[bool, str]:
    """Was the point reached; and how it stands afterwards."""
    await scene.build()
    time = VirtualTime()
    async with ledgers(database, life, time) as (own, store):
        try:
            await work(wanted, life, scene.transport, own, time.pace)
        except Killed:
            pass
        else:
            assert not life.over
        time.advance(LEASE)
        ledger = Ledger.on(store, time.clock)
        await look(wanted, ledger, time, scene.transport, swept=swept)
        state = scene.app.world.picture()
        found = await end_of(wanted, ledger, time, store, state, scene.transport)
        return life.over, found.told()


@pytest.mark.parametrize("mode", MODES)
async def test_after_a_death_at_any_request_the_issue_is_free_or_ended(
    new_database: Path, tmp_path: Path, figure: Callable[[str], None], mode: str
) -> None:
    scene, points, seen = Scene(), 0, {}
    for deed in DEEDS:
        wanted = order(deed, mode, ADDRESS)
        for n in count(1):
            for after in (False, True):
                database = tmp_path / f"{len(seen)}-{n}-{after}.db"
                shutil.copy(new_database, database)
                life = Life(n, after, die)
                import time; t=time.time(); print(deed, n, after, flush=True)
                reached, end = await one_death(scene, database, wanted, life, swept=bool(n % 2))
                print("    ", reached, end, time.time()-t, flush=True)
                assert end in ENDS[deed], (deed, n, after, end)
                seen.setdefault(deed, []).append(end)
                points += reached
            if not reached:
                break
        assert set(seen[deed]) == ENDS[deed], "each end was met"
    figure(f"{mode}: {points} points of {len(DEEDS)} flows, 0 violations")
