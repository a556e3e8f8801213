"""Fleets race for issues over a tracker that is late, forgetful and rude."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rota.app import make_store, open_ledger
from rota.claims.comments import Believed, entries
from rota.claims.fold import fold
from rota.claims.port import Account, Comment
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.model.status import Status, Verb
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.queue.views import Query
from rota.sources.assembly import open_desk
from rota.sources.registry import SourceContext
from rota.sources.tending import Rhythm, Tending
from rota.testing.tracker import FaultKind, TrackerStub, tracker_stub
from tests.faults.fleet_agent import tracker_of
from tests.faults.processes import Process

REPO = "ada/engine"
FLEETS = ("north", "south", "west")
IDS = {"north": 101, "south": 102, "west": 103}
LATE = 0.15  # seconds that an entry may stay hidden
SETTLE = 0.25
ROUND_SECONDS = 1200.0
BELIEVED = Believed(frozenset(IDS.values()), frozenset({7}))
OWN_LABELS = ("bug", "keep me")


def scene(stub: TrackerStub, seed: int, issues: int) -> None:
    control = stub.control
    control.reset(seed)
    control.user("ada", id=7)
    for login, number in IDS.items():
        control.user(login, id=number)
        control.token(login)
        control.limit(login, limit=10**6, remaining=10**6)
    control.repo(REPO, private=True, collaborators=FLEETS)
    for n in range(issues):
        control.issue(REPO, f"Issue {n}", labels=["ready", *OWN_LABELS])
    control.fault(FaultKind.STALE, seconds=LATE, probability=0.3)
    control.fault(FaultKind.PAGE_SIZE, size=3, path="/comments")
    control.fault(FaultKind.DUPLICATE, method="POST", path="/comments", probability=0.02)
    control.fault(FaultKind.BACKDATED, method="POST", path="/comments", seconds=1, probability=0.1)
    control.fault(FaultKind.ERROR_BEFORE, probability=0.02)
    control.fault(FaultKind.ERROR_AFTER, method="POST|DELETE|PATCH", probability=0.03)
    control.fault(FaultKind.CUT_AFTER, method="POST", probability=0.01)
    control.fault(FaultKind.CUT_BEFORE, probability=0.01)


def source(stub: TrackerStub, fleet: str) -> dict[str, Any]:
    return {
        "type": "github",
        "repo": REPO,
        "api_url": stub.url,
        "auth": {"token_env": "TOKEN"},
        "fleets": [number for login, number in IDS.items() if login != fleet],
        "trusted": [7],
        "lease_seconds": 30,
        "times": {"settle": SETTLE, "grace": 60.0, "quiet": 3600.0},
    }


async def race(
    stub: TrackerStub, crew: dict[str, list[Process]], folder: Path, seed: int, issues: int
) -> dict[str, int]:
    scene(stub, seed, issues)
    databases = {}
    for fleet in FLEETS:
        databases[fleet] = str(folder / f"{fleet}-{seed}.db")
        await make_store(databases[fleet]).upgrade()
    for fleet, processes in crew.items():
        for n, process in enumerate(processes):
            order = {
                "seed": seed, "agent": f"{fleet}-{n}", "database": databases[fleet],
                "token": f"token-{fleet}", "source": source(stub, fleet),
            }  # fmt: skip
            process.say(json.dumps(order))
    told = {
        fleet: [one.hear(ROUND_SECONDS) for one in processes] for fleet, processes in crew.items()
    }
    stub.control.clear_faults()
    return await judged(stub, told, databases, issues)


async def judged(
    stub: TrackerStub, told: dict[str, list[Any]], databases: dict[str, str], issues: int
) -> dict[str, int]:
    owned = [
        {**one, "fleet": fleet}
        for fleet, answers in told.items()
        for answer in answers
        for one in answer["owned"]
    ]
    assert_never_two_owners(owned)
    assert_losers_changed_nothing(stub, issues)
    for fleet in FLEETS:
        await sweep(stub, fleet, databases[fleet])
    accepted = assert_nothing_lost(stub, issues)
    assert_ended_by_their_holders(stub, owned)
    wins = Counter(one["number"] for one in owned if one["deed"] == "success")
    assert max(wins.values()) == 1, "one issue was completed twice"
    return {
        "issues": issues,
        "owned": len(owned),
        "completed": accepted,
        "lost races": sum(answer["lost"] for all_ in told.values() for answer in all_),
        "abandoned": sum(one["deed"] == "die" for one in owned),
        "without an answer": sum(one["deed"].startswith("unknown") for one in owned),
        "requests": stub.control.counts()["total"],
        "faults": sum(stub.control.counts()["by_fault"].values()),
    }


def assert_never_two_owners(owned: list[dict[str, Any]]) -> None:
    by_issue: dict[int, list[dict[str, Any]]] = {}
    for one in owned:
        by_issue.setdefault(one["number"], []).append(one)
    for number, turns in by_issue.items():
        turns.sort(key=lambda one: one["began"])
        for first, second in itertools.pairwise(turns):
            assert first["ended"] <= second["began"], f"#{number}: {first} and {second}"
        # Whoever died holds it still: nobody may follow before a sweep.
        assert all(one["deed"] != "die" for one in turns[:-1]), turns


def assert_ended_by_their_holders(stub: TrackerStub, owned: list[dict[str, Any]]) -> None:
    """Nobody sweeps meanwhile, so whoever has an issue can say how it ended."""
    for one in owned:
        if one["deed"] == "refused":
            said = [
                comment["body"] for comment in stub.control.look(REPO, one["number"])["comments"]
            ]
            raise AssertionError("\n".join([str(one), *said]))


def assert_losers_changed_nothing(stub: TrackerStub, issues: int) -> None:
    """Only a fleet that was granted an issue has touched its labels."""
    state = stub.control.state()["repos"][REPO]["issues"]
    granted = {
        (holder, number)
        for number in range(1, issues + 1)
        for holder in holders(state[str(number)]["comments"])
    }
    for request in stub.control.requests():
        found = re.search(r"/issues/(\d+)/labels", request["path"])
        if found and request["method"] != "GET":
            assert (request["user"], int(found[1])) in granted, request


def holders(comments: list[dict[str, Any]]) -> set[str]:
    """Who has ever held the issue, by the fold of each beginning of its log."""
    log = entries(map(comment_of, comments), BELIEVED)
    states = (fold(log[:length], 60.0) for length in range(1, len(log) + 1))
    return {one.holder.author.login for one in states if one.holder is not None}


async def sweep(stub: TrackerStub, fleet: str, database: str) -> None:
    settings = source_config(source(stub, fleet))
    assert isinstance(settings, Forge)
    async with open_ledger(database) as ledger:
        await expire_leases(ledger)
        context = SourceContext(ledger=ledger, environ={"TOKEN": f"token-{fleet}"})
        tracker = tracker_of(settings, context)
        tending = Tending(
            tracker, settings, ledger,
            lambda: open_desk(settings, context, tracker=tracker), Rhythm(60.0),
        )  # fmt: skip
        try:
            await tending.tick()
        finally:
            await tending.aclose()


async def expire_leases(ledger: Ledger) -> None:
    """The runs that died: their leases are taken away, as the ledger's own sweep would."""
    for item in (await ledger.views.items(Query(statuses=(Status.IN_PROGRESS,), limit=1000))).items:
        order = Order(Verb.RELEASE, item.id, "test", reason="lease_lapsed", force=True)
        await ledger.queue.apply(order)


def assert_nothing_lost(stub: TrackerStub, issues: int) -> int:
    """By the log, and by the labels: done, failed, or free to be taken."""
    state = stub.control.state()["repos"][REPO]
    done = 0
    for number in range(1, issues + 1):
        issue = state["issues"][str(number)]
        labels = set(issue["labels"])
        assert set(OWN_LABELS) <= labels, f"#{number} lost a label of somebody else: {labels}"
        standing = fold(entries(map(comment_of, issue["comments"]), BELIEVED), 60.0)
        stages = labels & {"ready", "agent-working", "agent:failed", "agent:pr-open", "agent:done"}
        assert standing.holder is None, f"#{number} is held by {standing.holder}"
        if standing.done is not None:
            done += 1
            assert issue["state"] == "closed", number
        else:
            assert stages in ({"ready"}, {"agent:failed"}), (number, labels)
    return done


def comment_of(raw: dict[str, Any]) -> Comment:
    at = datetime.fromisoformat(raw["created_at"])
    author = Account(IDS.get(raw["user"], 0), raw["user"])
    return Comment(raw["id"], author, raw["body"], at, at)


@pytest.mark.early
@pytest.mark.parametrize(
    "size",
    [(2, 4, 40), pytest.param((20, 10, 200), marks=pytest.mark.long)],
    ids=["short", "3 fleets of 10, 200 issues, 20 seeds"],
)
async def test_fleets_racing_over_a_faulty_tracker_never_share_or_lose_an_issue(
    start: Callable[..., Process],
    tmp_path: Path,
    figure: Callable[[str], None],
    size: tuple[int, int, int],
) -> None:
    seeds, agents, issues = size
    crew = {
        fleet: [start("-m", "tests.faults.fleet_agent") for _ in range(agents)] for fleet in FLEETS
    }
    for process in itertools.chain(*crew.values()):
        process.hear()
    total: Counter[str] = Counter()
    with tracker_stub() as stub:
        for seed in range(seeds):
            total.update(await race(stub, crew, tmp_path, seed, issues))
    told = ", ".join(f"{count} {what}" for what, count in total.items())
    figure(f"{seeds} seeds, {len(FLEETS)} fleets of {agents}: {told}; 0 with two owners, 0 lost")
