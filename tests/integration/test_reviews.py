"""What waits for a review: its pull request is merged or closed, and the item follows; once, and
whoever else decides meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.model.claims import ClaimRequest
from rota.model.status import Outcome, Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue.moves import Order
from rota.sources.desk import Held
from rota.sources.gitea import GiteaTracker
from rota.sources.mirror import MOST_REOPENED
from rota.sources.port import WorkResult
from rota.sources.reviews import MOST_ERRORS, pull_number
from rota.sources.tending import POLL_GAP_SECONDS, Tending
from rota.testing.tracker import Control, FaultKind, TrackerStub
from tests.acceptance.fleet_site import Site, site
from tests.integration.tended import POLL, REPO, Tended, build, tended

KINDS = pytest.mark.parametrize("kind", ["github", "gitea"])


@pytest.fixture
async def scene(stub: TrackerStub, tmp_path: Path) -> AsyncIterator[Tended]:
    async with tended(stub, tmp_path) as made:
        yield made


@pytest.fixture
def control(scene: Tended) -> Control:
    return scene.control


@pytest.fixture
def tending(scene: Tended) -> Tending:
    return scene.tending()


def pull(scene: Tended, kind: str = "github") -> tuple[int, str]:
    """A new one: its number and its address."""
    number = scene.control.issue(REPO, "A change", user="bot", pull_request=True)
    return number, f"{scene.stub.url}/{REPO}/{'pull' if kind == 'github' else 'pulls'}/{number}"


async def handed_over(scene: Tended, address: str, agent: str = "ada") -> WorkItem:
    """An item of our own queue, whose agent has answered it so."""
    queue = scene.ledger.queue
    await queue.submit(NewItem("chore", "Oil the mill"))
    (got,) = (await queue.claim(ClaimRequest(agent))).items
    order = Order(
        Verb.HAND_OVER, got.item.id, agent, token=got.claim.token, artifact_url=address, notes="see"
    )
    return (await queue.apply(order)).item


async def later(scene: Tended, *tendings: Tending, seconds: float = POLL) -> None:
    scene.time.advance(seconds)
    await asyncio.gather(*(one.tick() for one in tendings))


async def stands(scene: Tended, item: WorkItem) -> WorkItem:
    return await scene.ledger.views.item(item.id)


async def told(scene: Tended, item: WorkItem) -> str:
    (reason,) = (await scene.ledger.views.explain(item.id)).reasons
    assert reason.code == "in_review"
    return reason.message


@KINDS
async def test_a_merge_completes_the_item_and_a_closing_reopens_it(
    scene: Tended, control: Control, kind: str
) -> None:
    tending = scene.tending(kind=kind)
    (good, good_address), (bad, bad_address) = pull(scene, kind), pull(scene, kind)
    merged = await handed_over(scene, good_address, "ada")
    closed = await handed_over(scene, f"{bad_address}/files?w=1#diff", "bob")
    await tending.tick()
    assert (await stands(scene, merged)) == merged
    assert f"{tending.source} last looked at {scene.time.clock.text()}" in await told(scene, merged)
    control.edit(REPO, good, merged=True)
    control.edit(REPO, bad, state="closed")
    await later(scene, tending)
    done, again = await stands(scene, merged), await stands(scene, closed)
    assert (done.status, done.reason, done.outcome) == ("completed", "merged", Outcome.SUCCESS)
    assert (again.status, again.reason, again.attempts) == (Status.QUEUED, "closed", 1)
    assert again.assigned_agent is None
    assert again.notes == f"{closed.artifact_url} was closed without being merged"
    event = (await scene.ledger.views.detail(merged.id)).events[-1]
    assert (event.actor, event.data["address"]) == (tending.source, good_address)


async def test_pull_requests_of_a_gitea_below_a_path_are_looked_after(
    scene: Tended, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GiteaTracker, "pages", "example.org/git")
    tending = scene.tending(kind="gitea")
    number, _ = pull(scene, "gitea")
    item = await handed_over(scene, f"https://Example.org/git/{REPO}/pulls/{number}")
    control.edit(REPO, number, merged=True)
    await tending.tick()
    assert (await stands(scene, item)).status is Status.COMPLETED


async def test_an_issue_whose_pull_request_is_merged_is_closed(
    scene: Tended, control: Control, tending: Tending
) -> None:
    item, number = await issue_in_review(scene)
    assert (item.status, scene.stages()) == (Status.IN_REVIEW, {"agent:pr-open"})
    await tending.tick()
    assert (await scene.item()).status is Status.IN_REVIEW
    control.edit(REPO, number, merged=True)
    await later(scene, tending)
    assert (await scene.item()).status is Status.COMPLETED
    assert (scene.state(), scene.stages()) == ("closed", {"agent:done"})
    await later(scene, tending, seconds=400)
    assert scene.stages() == {"agent:done"}


async def test_an_issue_that_a_person_has_sent_back_is_not_closed_by_the_merge(
    scene: Tended, control: Control, tending: Tending
) -> None:
    """While the tracker is asked: what was merged was not all that was wanted."""
    item, number = await issue_in_review(scene)
    control.edit(REPO, number, merged=True)
    tracker: Any = tending.tracker
    ask = tracker.pull_request

    async def meanwhile(number: int) -> Any:
        found = await ask(number)
        await scene.ledger.queue.apply(Order(Verb.REOPEN, item.id, "eve", notes="not yet"))
        return found

    tracker.pull_request = meanwhile
    await tending.tick()
    assert (await scene.item()).status is Status.QUEUED
    assert scene.state() == "open"
    assert "agent:done" not in scene.stages()


@pytest.mark.parametrize("claim_mode", ["comments", "strict", "labels"])
async def test_an_issue_whose_pull_request_is_closed_can_be_taken_again(
    scene: Tended, control: Control, claim_mode: str
) -> None:
    tending = scene.tending(claim_mode=claim_mode)
    item, number = await issue_in_review(scene, claim_mode=claim_mode)
    assert scene.state() == "open"
    control.edit(REPO, number, state="closed")
    await tending.tick()
    again = await scene.item()
    assert (again.id, again.status, again.hold_reason) == (item.id, Status.QUEUED, None)
    assert scene.stages() == {"ready"}
    taken = await scene.take(agent="bob", claim_mode=claim_mode)
    assert (await scene.item()).attempts == 2
    assert taken.item_id == item.id


@pytest.mark.parametrize("method", ["PATCH", "POST", "DELETE"])
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "closed"])
async def test_whoever_dies_half_way_has_a_successor(
    scene: Tended, control: Control, method: str, merged: bool
) -> None:
    """Cut off at its first write of each kind, and never seen again."""
    item, number = await issue_in_review(scene)
    control.edit(REPO, number, **({"merged": True} if merged else {"state": "closed"}))
    control.fault(FaultKind.ERROR_BEFORE, method=method, path="/issues/")
    await scene.tending().tick()
    control.clear_faults()
    await later(scene, scene.tending())
    end = await scene.item()
    assert (end.id, end.status) == (item.id, Status.COMPLETED if merged else Status.QUEUED)
    assert (scene.state(), scene.stages()) == (
        ("closed", {"agent:done"}) if merged else ("open", {"ready"})
    )
    events = (await scene.ledger.views.detail(item.id)).events
    assert sum(one.reason in ("merged", "closed") for one in events) == 1


async def test_many_closings_do_not_keep_the_server_from_its_claims(
    scene: Tended, control: Control, tending: Tending
) -> None:
    """Each reopening waits for the tracker: a few go at once, the rest with the next poll."""
    desk, count = await scene.desk(), MOST_REOPENED + 1
    for number in range(1, count + 1):
        assert control.issue(REPO, f"Issue {number}", labels=["ready"]) == number
    for number in range(1, count + 1):
        pulled, address = pull(scene)
        assert isinstance(await desk.take(number, f"a{number}"), Held)
        result = WorkResult("success", "mended", artifacts=(address,), review=True)
        await desk.finish(number, f"a{number}", result)
        control.edit(REPO, pulled, state="closed")
    for ready in (MOST_REOPENED, count):
        await later(scene, tending)
        stages = [scene.stages(number) for number in range(1, count + 1)]
        assert stages.count({"ready"}) == ready


async def issue_in_review(scene: Tended, **given: Any) -> tuple[WorkItem, int]:
    """Issue 1, answered with a pull request by an agent that has a review gate."""
    scene.control.issue(REPO, "Mend the mill", labels=["ready"])
    number, address = pull(scene)
    desk = await scene.desk(**given)
    assert isinstance(await desk.take(1, "lucius"), Held)
    result = WorkResult("success", "mended", artifacts=(address,), review=True)
    await desk.finish(1, "lucius", result)
    await desk.finish(1, "lucius", result)  # said twice, it stands there once
    return await scene.item(), number


async def test_of_two_servers_one_decides(scene: Tended, control: Control) -> None:
    servers = [scene.tending(), scene.tending()]
    items = []
    for n in range(6):
        number, address = pull(scene)
        items.append(await handed_over(scene, address))
        control.edit(REPO, number, **({"merged": True} if n % 2 else {"state": "closed"}))
    await later(scene, *servers)
    await later(scene, *servers)
    for n, item in enumerate(items):
        events = (await scene.ledger.views.detail(item.id)).events
        ends = [one.reason for one in events if one.reason in ("merged", "closed")]
        assert ends == ["merged" if n % 2 else "closed"]


async def test_a_person_who_decides_first_has_decided(
    scene: Tended, control: Control, tending: Tending
) -> None:
    """While the tracker is asked, somebody reopens the item and begins it anew, without a lease."""
    number, address = pull(scene)
    item = await handed_over(scene, address)
    control.edit(REPO, number, merged=True)
    tracker: Any = tending.tracker
    ask = tracker.pull_request

    async def meanwhile(number: int) -> Any:
        found = await ask(number)
        for verb, agent in ((Verb.REOPEN, None), (Verb.DISPATCH, "bob"), (Verb.START, None)):
            await scene.ledger.queue.apply(Order(verb, item.id, "eve", agent=agent))
        return found

    tracker.pull_request = meanwhile
    await tending.tick()
    now = await stands(scene, item)
    assert (now.status, now.assigned_agent) == (Status.IN_PROGRESS, "bob")


async def test_what_is_gone_or_nobodys_is_left_alone_and_says_so(
    scene: Tended, control: Control, tending: Tending
) -> None:
    number, address = pull(scene)
    gone = await handed_over(scene, address, "ada")
    foreign = await handed_over(scene, "https://example.org/o/r/pull/1", "bob")
    near = await handed_over(scene, f"{scene.stub.url}/{REPO}s/pull/{number}", "cy")
    late = await handed_over(scene, f"{scene.stub.url}/{REPO.upper()}/pull/77", "dan")
    assert "nobody watches this address" in await told(scene, late)
    control.delete(REPO, number, status=404)
    await tending.tick()
    assert "it is not there: deleted, or hidden from the token" in await told(scene, gone)
    assert "it is not there" in await told(scene, late)
    assert "nobody watches this address" in await told(scene, foreign)
    assert "nobody watches this address" in await told(scene, near)
    assert (await scene.source_state()).poll_error is None
    for item in (gone, foreign, near, late):
        assert await stands(scene, item) == item
    again, _ = pull(scene)
    moved = await handed_over(scene, f"{scene.stub.url}/{REPO}/pull/{again}", "eve")
    assert "has not looked at it yet" in await told(scene, moved)


async def test_a_tracker_that_fails_is_not_asked_about_the_rest_and_asked_again(
    scene: Tended, control: Control, tending: Tending
) -> None:
    await tending.tick()
    items = []
    for agent in ("ada", "bob", "cy", "dan", "eve"):
        number, address = pull(scene)
        items.append(await handed_over(scene, address, agent))
        control.edit(REPO, number, merged=True)
    fault = control.fault(FaultKind.ERROR_BEFORE, path="/pulls/")
    control.forget_requests()
    await later(scene, tending)
    asked = [one["path"] for one in control.requests() if "/pulls/" in one["path"]]
    assert len(set(asked)) == MOST_ERRORS
    assert (await scene.source_state()).poll_error is not None
    control.clear_faults(fault)
    await later(scene, tending)
    assert {(await stands(scene, one)).reason for one in items} == {"merged"}
    assert (await scene.source_state()).poll_error is None


async def test_a_webhook_makes_the_look_come_at_once_and_an_idle_look_costs_nothing(
    scene: Tended, control: Control
) -> None:
    tending = scene.tending(poll_seconds=86_400)
    number, address = pull(scene)
    item = await handed_over(scene, address)
    await tending.tick()
    left = (await scene.source_state()).rate_remaining
    tending.wake()
    await later(scene, tending, seconds=POLL_GAP_SECONDS)
    control.forget_requests()
    tending.wake()
    await later(scene, tending, seconds=POLL_GAP_SECONDS)
    asked = [one for one in control.requests() if "/pulls/" in one["path"]]
    assert [one["status"] for one in asked] == [304]
    assert left is not None
    control.edit(REPO, number, merged=True)
    tending.wake()
    await later(scene, tending, seconds=POLL_GAP_SECONDS)
    assert (await stands(scene, item)).reason == "merged"


# a whole fleet


def test_from_the_agent_to_the_merge_and_only_then_the_next(
    stub: TrackerStub, tmp_path: Path
) -> None:
    """`rota up` with an agent behind a review gate."""
    build(stub.control)
    numbers = [stub.control.issue(REPO, "A change", user="bot", pull_request=True) for _ in "12"]
    with site(tmp_path, BOT_TOKEN="token-bot", HOOK_SECRET="a secret") as place:
        place.configure(place.agent(review_gate=True, max_in_review=1), sources=[watched(stub)])
        server = place.up()
        first, second = (
            place.add("Mend the gate", f"say {stub.url}/{REPO}/pull/{number}") for number in numbers
        )
        waiting = place.await_status(first, "in_review")
        assert waiting["artifact_url"] == f"{stub.url}/{REPO}/pull/{numbers[0]}"
        place.eventually(lambda: "in_review_limit" in reasons(place, second), "nothing was held")
        place.eventually(
            lambda: place.schedule("smith")["last_skip_reason"] == "in_review_limit", "nor skipped"
        )
        assert server.ask("POST", "/work/claim", {"agent": "smith"}) == (200, [])
        assert "its work waits for reviews" in place.type("agent", "list")
        stub.control.edit(REPO, numbers[0], merged=True)
        event = {"event": "pull_request", "action": "closed", "number": numbers[0]}
        assert stub.control.webhook(f"{server.url}/hooks/github", "a secret", REPO, **event) == [
            202
        ]
        done = place.await_status(first, "completed")
        assert (done["reason"], done["outcome"]) == ("merged", "success")
        place.await_status(second, "in_review")


def watched(stub: TrackerStub) -> dict[str, Any]:
    return {
        "type": "github", "repo": REPO, "api_url": stub.url, "auth": {"token_env": "BOT_TOKEN"},
        "webhook_secret_env": "HOOK_SECRET", "poll_seconds": 1,
    }  # fmt: skip


def reasons(place: Site, item: str) -> list[str]:
    return [one["code"] for one in place.json("explain", item)["reasons"]]


@pytest.mark.parametrize(
    ("address", "number"),
    [
        ("https://github.com/o/r/pull/12", 12),
        ("http://GitHub.com/O/R/pulls/12/files#x", 12),
        ("https://github.com/o/r/pull/12?x", 12),
        ("https://github.com/o/r/pull/12x", None),
        ("https://github.com/o/r/pull/١٢", None),
        ("https://github.com/o/r/issues/12", None),
        ("https://github.com/o/rr/pull/12", None),
        ("https://github.com.evil.org/o/r/pull/12", None),
        ("https://evil.org/github.com/o/r/pull/12", None),
        ("ftp", None),
    ],
)
def test_only_pull_requests_of_the_repository_are_meant(address: str, number: int | None) -> None:
    assert pull_number(address, "github.com/o/r") == number
