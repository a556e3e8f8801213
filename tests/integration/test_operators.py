"""What a person does with an issue, and what agents see of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.claims.comments import OPERATOR_FLEET
from rota.claims.pauses import PausedRepos
from rota.claims.pickup import Asker, Obstacle
from rota.claims.port import Issue
from rota.claims.protocol import CommentClaims, Grant, Refusal
from rota.model.errors import InvalidInput, IssueNotFound, MalformedReference, Refused
from rota.sources.desk import Held
from rota.sources.operators import Operators
from rota.sources.port import WorkResult
from rota.testing.tracker import Control, TrackerStub
from tests.integration.tended import ADA, BOT, LOGINS, REPO, Tended, build, tended

HOLD = "do-not-pickup"
PR = "https://example.org/ada/engine/pull/9"


@pytest.fixture
async def scene(stub: TrackerStub, tmp_path: Path) -> AsyncIterator[Tended]:
    """One issue, which is ready."""
    async with tended(stub, tmp_path) as made:
        made.control.issue(REPO, "Mend the mill", labels=["ready", "bug"])
        yield made


@pytest.fixture
def control(scene: Tended) -> Control:
    return scene.control


@pytest.fixture(params=["comments", "strict"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def person(scene: Tended, login: str = "ada", **given: Any) -> Operators:
    """With a token of their own, on the ledger of the fleet."""
    return Operators(await scene.desk(login, fleets=[BOT, LOGINS["north"]], **given))


# taking it


async def test_who_claims_an_issue_keeps_agents_away(scene: Tended, mode: str) -> None:
    ada = await person(scene, claim_mode=mode)
    grant = await ada.claim(1)
    assert isinstance(grant, Grant)
    assert scene.labels() == {"bug", "agent-working", "agent:managed", HOLD}
    desk = await scene.desk(claim_mode=mode)
    refused = await desk.take(1, "lucius")
    assert isinstance(refused, Refusal)
    holder = (await desk.claims.standing(1)).holder
    assert holder is not None
    assert (holder.fleet, holder.codename) == (OPERATOR_FLEET, "ada")


async def test_a_person_s_claim_never_goes_stale(scene: Tended, control: Control) -> None:
    await (await person(scene)).claim(1)
    tending = scene.tending()
    for _ in range(3):
        scene.time.advance(24 * 3600)
        control.clock(advance=24 * 3600)
        await tending.tick()
    assert scene.standing().holder is not None
    assert not scene.standing().suspects


async def test_a_person_who_does_not_wait_for_the_answer_leaves_no_claim_behind(
    scene: Tended,
) -> None:
    """By Ctrl-C, while everything written before is waited for."""
    ada, waits = await person(scene), asyncio.Event()

    async def wait(seconds: float) -> None:
        if not waits.is_set():
            waits.set()
            await asyncio.get_running_loop().create_future()
        await scene.time.sleep(seconds)

    claims = ada._desk.claims
    assert isinstance(claims, CommentClaims)
    claims.log.pace = replace(scene.time.pace, sleep=wait)
    claiming = asyncio.create_task(ada.claim(1))
    await waits.wait()
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert scene.standing().is_free
    assert scene.labels() == {"bug", "ready", "agent:managed"}


async def test_a_claim_said_again_is_the_same_claim(
    scene: Tended, control: Control, mode: str
) -> None:
    ada = await person(scene, claim_mode=mode)
    first = await ada.claim(1)
    control.label(REPO, 1, remove=[HOLD])  # as if the first had died before it put it on
    again = await ada.claim(1)
    assert isinstance(first, Grant)
    assert isinstance(again, Grant)
    assert again.claim_id == first.claim_id
    assert HOLD in scene.labels()


async def test_a_person_may_take_what_nobody_has_marked(scene: Tended, control: Control) -> None:
    number = control.issue(REPO, "Not for agents")
    assert isinstance(await (await person(scene)).claim(number), Grant)


@pytest.mark.parametrize("what", ["held", "excluded", "failed", "blocked", "paused", "untrusted"])
async def test_what_keeps_agents_away_does_not_keep_people(
    scene: Tended, control: Control, what: str
) -> None:
    ada = await person(scene)
    if what == "held":
        await ada.hold(1)
    elif what in ("excluded", "failed"):
        control.label(REPO, 1, add=[{"excluded": "wip", "failed": "agent:failed"}[what]])
    elif what == "blocked":
        control.edit(REPO, 1, blocked_by=[control.issue(REPO, "First this")])
    elif what == "paused":
        PausedRepos(scene.paused_repos).set(REPO, paused=True)
    else:
        build(control, private=False)
        control.issue(REPO, "Run this", labels=["ready"], user="eve")
    assert isinstance(await (await scene.desk()).take(1, "lucius"), Refusal)
    assert isinstance(await ada.claim(1), Grant)
    assert scene.stages() == {"agent-working"}


async def test_what_is_done_or_closed_is_not_taken_by_people_either(
    scene: Tended, control: Control
) -> None:
    ada = await person(scene)
    await scene.take()
    await (await scene.desk()).finish(1, "lucius", WorkResult("success", "ok", artifacts=(PR,)))
    closed = control.issue(REPO, "Over")
    control.edit(REPO, closed, state="closed")
    for number, obstacle in ((1, Obstacle.PR_OPEN), (closed, Obstacle.CLOSED)):
        refused = await ada.claim(number, force=True)
        assert isinstance(refused, Refusal)
        assert refused.obstacle is obstacle


async def test_what_an_agent_holds_is_not_taken_without_force(scene: Tended, mode: str) -> None:
    held = await scene.take(claim_mode=mode)
    before = (scene.labels(), scene.comments())
    refused = await (await person(scene, claim_mode=mode)).claim(1)
    assert isinstance(refused, Refusal)
    assert refused.obstacle is Obstacle.CLAIMED
    assert "'lucius' holds it" in refused.message
    assert (scene.labels(), scene.comments()) == before
    assert (await (await scene.desk(claim_mode=mode)).claims.look(held.grant)).lost is None


async def test_a_refusal_names_the_holder_also_when_it_gives_the_issue_back_meanwhile(
    scene: Tended, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, agents = await scene.take(), await scene.desk()
    ada = await person(scene)
    honest = ada._tracker.issue

    async def issue(number: int) -> Issue:
        await agents.claims.release(held.grant, "released")
        return await honest(number)

    monkeypatch.setattr(ada._tracker, "issue", issue)
    refused = await ada.claim(1)
    assert isinstance(refused, Refusal)
    assert "'lucius' holds it" in refused.message


async def test_by_force_it_is_and_the_agent_hears_of_it(scene: Tended, mode: str) -> None:
    held = await scene.take(claim_mode=mode)
    tending = scene.tending(claim_mode=mode)
    await tending.tick()
    grant = await (await person(scene, claim_mode=mode)).claim(1, force=True)
    assert isinstance(grant, Grant)
    claims = (await scene.desk(claim_mode=mode)).claims
    look = await claims.look(held.grant)
    assert look.lost == f"claim {held.grant.claim_id} has ended"
    assert await scene.may_go_on(held)
    scene.time.advance(100)
    await tending.tick()
    assert not await scene.may_go_on(held)
    holder = (await claims.standing(1)).holder
    assert holder is not None
    assert holder.codename == "ada"
    assert scene.labels() == {"bug", "agent-working", "agent:managed", HOLD}


async def test_force_that_would_not_get_the_issue_takes_it_from_nobody(
    scene: Tended, control: Control
) -> None:
    held = await scene.take()
    ada = await person(scene)
    control.edit(REPO, 1, state="closed")
    before = scene.comments()
    refused = await ada.claim(1, force=True)
    assert isinstance(refused, Refusal)
    assert (refused.obstacle, scene.comments()) == (Obstacle.CLOSED, before)
    control.edit(REPO, 1, state="open")
    control.clock(advance=2)
    control.edit_comment(REPO, held.grant.claim_id, before[0])
    refused = await ada.claim(1, force=True)
    assert isinstance(refused, Refusal)
    assert (refused.obstacle, scene.comments()) == (Obstacle.DISPUTED, before)


async def test_a_late_word_of_the_agent_changes_nothing(scene: Tended, mode: str) -> None:
    held = await scene.take(claim_mode=mode)
    desk = await scene.desk(claim_mode=mode)
    grant = await (await person(scene, claim_mode=mode)).claim(1, force=True)
    assert isinstance(grant, Grant)
    assert not await desk.claims.finish(held.grant, None, "done!")
    assert not await desk.claims.release(held.grant, "released")
    holder = (await desk.claims.standing(1)).holder
    assert holder is not None
    assert (holder.id, holder.codename) == (grant.claim_id, "ada")
    assert "agent-working" in scene.labels()


async def test_a_stranger_s_force_is_not_believed(scene: Tended, control: Control) -> None:
    held = await scene.take()
    control.repo("eve/notes")
    control.comment(
        REPO, 1, f"<!-- agent-revoke:v=2 claim={held.grant.claim_id} by=ada -->", user="eve"
    )
    look = await (await scene.desk()).claims.look(held.grant)
    assert look.lost is None


async def test_by_labels_alone_a_person_is_told_to_hold(scene: Tended) -> None:
    ada = await person(scene, claim_mode="labels")
    with pytest.raises(InvalidInput, match="rota issue hold"):
        await ada.claim(1)
    with pytest.raises(InvalidInput, match="rota issue hold"):
        await ada.reopen(1)
    await ada.hold(1)
    assert await ada.release(1) is False, "it only lifts the hold"
    assert scene.labels() == {"ready", "bug"}


async def test_by_labels_alone_nothing_is_taken_away_from_an_agent(
    scene: Tended, control: Control
) -> None:
    control.label(REPO, 1, add=["agent-working", "do-not-pickup"], remove=["ready"])
    ada = await person(scene, claim_mode="labels")
    with pytest.raises(InvalidInput, match="rota issue hold"):
        await ada.release(1, force=True)
    assert await ada.release(1) is False
    assert scene.labels() == {"agent-working", "bug"}


async def test_by_labels_alone_nobody_is_named_and_no_force_is_advised(
    scene: Tended, control: Control
) -> None:
    control.label(REPO, 1, add=["agent-working"], remove=["ready"])
    status = await (await person(scene, claim_mode="labels")).status(1)
    assert (status.in_flight, status.reason) == (True, "already_claimed")
    assert (status.holder, status.latest_claim) == (None, None)
    assert status.message == "it carries the label 'agent-working'; take it off if nobody works"


# giving it back


async def test_what_a_person_gives_back_is_ready_again(scene: Tended, mode: str) -> None:
    ada = await person(scene, claim_mode=mode)
    await ada.claim(1)
    assert await ada.release(1) is True
    assert scene.labels() == {"ready", "bug", "agent:managed"}
    assert await ada.release(1) is False, "nobody holds it"
    assert isinstance(await (await scene.desk(claim_mode=mode)).take(1, "lucius"), Held)


async def test_what_was_not_offered_to_agents_is_not_when_it_is_given_back(
    scene: Tended, control: Control, mode: str
) -> None:
    control.label(REPO, 1, remove=["ready"])
    ada = await person(scene, claim_mode=mode, trusted=[BOT])
    bot = await person(scene, "bot", claim_mode=mode)
    await ada.claim(1)
    assert await ada.release(1) is True
    assert scene.labels() == {"bug", "agent:managed"}
    await ada.claim(1)
    assert isinstance(await bot.claim(1, force=True), Grant)
    assert await ada.release(1, force=True) is True
    assert scene.labels() == {"bug", "agent:managed"}, "by force neither"
    await scene.tending(claim_mode=mode).tick()
    assert scene.labels() == {"bug", "agent:managed"}, "nor by a sweep"
    control.label(REPO, 1, add=["ready"])
    assert isinstance(await (await scene.desk(claim_mode=mode)).take(1, "lucius"), Held)


async def test_what_agents_have_failed_on_is_theirs_again_when_a_person_gives_it_back(
    scene: Tended, control: Control
) -> None:
    control.label(REPO, 1, add=["agent:failed"], remove=["ready"])
    ada = await person(scene)
    await ada.claim(1)
    assert await ada.release(1) is True
    assert scene.stages() == {"ready"}


async def test_what_somebody_else_holds_is_not_released_without_force(
    scene: Tended, mode: str
) -> None:
    held = await scene.take(claim_mode=mode)
    ada = await person(scene, claim_mode=mode)
    before = (scene.labels(), scene.comments())
    with pytest.raises(Refused, match=r"'lucius' holds #1 \(claim \d+\), not you; --force"):
        await ada.release(1)
    assert (scene.labels(), scene.comments()) == before
    assert await ada.release(1, force=True) is True
    claims = (await scene.desk(claim_mode=mode)).claims
    assert (await claims.look(held.grant)).lost is not None
    assert scene.labels() == {"ready", "bug", "agent:managed"}


# keeping agents away, and letting them in


async def test_a_hold_keeps_agents_away_until_it_is_lifted(scene: Tended) -> None:
    ada, desk = await person(scene), await scene.desk()
    await ada.hold(1)
    await ada.hold(1)
    refused = await desk.take(1, "lucius")
    assert isinstance(refused, Refusal)
    assert refused.obstacle is Obstacle.HELD
    await ada.unhold(1)
    await ada.unhold(1)
    assert scene.labels() == {"ready", "bug"}
    assert isinstance(await desk.take(1, "lucius"), Held)


@pytest.mark.parametrize("verb", ["claim", "release", "hold", "unhold", "reopen", "approve"])
async def test_what_is_not_there_cannot_be_dealt_with(scene: Tended, verb: str) -> None:
    with pytest.raises(IssueNotFound, match="is not there"):
        await getattr(await person(scene), verb)(404)


@pytest.mark.parametrize("verb", ["release", "hold", "unhold", "reopen", "approve"])
async def test_a_pull_request_is_no_issue(scene: Tended, control: Control, verb: str) -> None:
    number = control.issue(REPO, "A change", pull_request=True)
    with pytest.raises(MalformedReference, match="is a pull request"):
        await getattr(await person(scene), verb)(number)
    refused = await (await person(scene)).claim(number)
    assert isinstance(refused, Refusal)
    assert refused.obstacle is Obstacle.PULL_REQUEST
    assert scene.labels(number) == set()


async def test_what_is_done_is_worked_again_when_somebody_reopens_it(
    scene: Tended, mode: str
) -> None:
    await scene.take(claim_mode=mode)
    desk = await scene.desk(claim_mode=mode)
    ada = await person(scene, claim_mode=mode)
    assert await ada.reopen(1) is False, "it is not done"
    await desk.finish(1, "lucius", WorkResult("success", "mended", artifacts=(PR,)))
    assert scene.stages() == {"agent:pr-open"}
    refused = await desk.take(1, "lucius")
    assert isinstance(refused, Refusal)
    assert refused.obstacle is Obstacle.PR_OPEN
    assert await ada.reopen(1) is True
    assert scene.stages() == {"ready"}
    assert isinstance(await desk.take(1, "lucius"), Held)
    await desk.finish(1, "lucius", WorkResult("success", "really", artifacts=(PR,)))
    assert scene.stages() == {"agent:pr-open"}


async def test_a_closed_issue_is_ready_once_it_is_open_again(
    scene: Tended, control: Control
) -> None:
    await scene.take()
    await (await scene.desk()).finish(1, "lucius", WorkResult("success", "mended"))
    assert scene.state() == "closed"
    assert await (await person(scene)).reopen(1) is True
    control.edit(REPO, 1, state="open")
    tending = scene.tending()
    await tending.tick()
    assert scene.stages() == {"ready"}
    scene.time.advance(60)
    await tending.tick()
    item = await scene.item()
    assert (item.status, item.hold_reason) == ("queued", None)


async def test_an_approval_lets_agents_in_at_once(scene: Tended, control: Control) -> None:
    build(control, private=False)
    number = control.issue(REPO, "Run this", labels=["ready"], user="eve")
    tending, desk = scene.tending(), await scene.desk()
    await tending.tick()
    assert "is not trusted" in ((await scene.item(number)).hold_reason or "")
    refused = await desk.take(number, "lucius")
    assert isinstance(refused, Refusal)
    assert refused.obstacle is Obstacle.UNTRUSTED
    approved = await (await person(scene)).approve(number)
    assert approved.title == "Run this"
    kept = await scene.ledger.outside.approval(scene.source, str(number))
    assert kept is not None
    assert kept.approved_by == ADA
    scene.time.advance(60)
    await tending.tick()
    assert (await scene.item(number)).hold_reason is None
    assert isinstance(await desk.take(number, "lucius"), Held)


async def test_an_edit_after_an_approval_needs_a_new_one(scene: Tended, control: Control) -> None:
    build(control, private=False)
    number = control.issue(REPO, "Run this", labels=["ready"], user="eve")
    ada, desk = await person(scene), await scene.desk()
    await ada.approve(number)
    control.edit(REPO, number, body="and that", by="eve")
    refused = await desk.take(number, "lucius")
    assert isinstance(refused, Refusal)
    assert refused.obstacle is Obstacle.UNTRUSTED
    await ada.approve(number)
    assert isinstance(await desk.take(number, "lucius"), Held)


# looking


KEYS = {
    "repo", "number", "title", "url", "state", "labels", "in_flight", "pr_open", "do_not_pickup",
    "needs_human_scope", "repo_paused", "claimable", "reason", "message", "latest_claim", "holder",
    "suspected", "pr",
}  # fmt: skip


async def test_a_status_has_the_names_of_label_state(scene: Tended) -> None:
    told = (await (await person(scene)).status(1)).as_dict()
    assert set(told) == KEYS
    assert (told["repo"], told["number"], told["title"]) == (REPO, 1, "Mend the mill")
    assert (told["state"], told["labels"], told["claimable"]) == ("OPEN", ["ready", "bug"], True)
    assert (told["reason"], told["message"], told["holder"]) == (None, None, None)


async def test_a_status_says_who_has_it_and_what_is_in_the_way(
    scene: Tended, control: Control
) -> None:
    held = await scene.take()
    ada = await person(scene)
    told = (await ada.status(1)).as_dict()
    assert (told["in_flight"], told["claimable"], told["reason"]) == (
        True,
        False,
        "already_claimed",
    )
    assert told["holder"]["claim"] == held.grant.claim_id
    assert told["holder"]["codename"] == "lucius"
    assert told["latest_claim"]["kind"] == "claim"
    control.label(REPO, 1, add=[HOLD, "needs:human-scope"])
    PausedRepos(scene.paused_repos).set(REPO, paused=True)
    told = (await ada.status(1)).as_dict()
    assert (told["do_not_pickup"], told["needs_human_scope"], told["repo_paused"]) == (True,) * 3
    assert told["reason"] == "repo_paused"


async def test_a_status_names_the_pull_request(scene: Tended) -> None:
    await scene.take()
    await (await scene.desk()).finish(1, "lucius", WorkResult("success", "mended", artifacts=(PR,)))
    told = (await (await person(scene)).status(1)).as_dict()
    assert (told["pr_open"], told["pr"], told["reason"]) == (True, PR, "pr_open")
    assert told["latest_claim"]["kind"] == "done"


async def test_an_operator_sees_an_issue_as_theirs(scene: Tended) -> None:
    ada = await person(scene)
    await ada.claim(1)
    assert (await ada.status(1)).reason == "held"
    mine = await ada.status(1, await ada._asker())
    assert (mine.claimable, mine.reason) == (True, None)


async def test_who_has_answered_an_issue_may_go_on_with_its_own_pull_request(
    scene: Tended, mode: str
) -> None:
    held = await scene.take(claim_mode=mode)
    desk = await scene.desk(claim_mode=mode)
    await desk.finish(1, "lucius", WorkResult("success", "mended", artifacts=(PR,)))
    ada, claim = await person(scene, claim_mode=mode), held.grant.claim_id
    assert await ada.conflict(1, Asker(claim)) is None
    for other in (Asker(claim + 1), Asker(login="ada")):
        found = await ada.conflict(1, other)
        assert found is not None
        assert found.obstacle is Obstacle.PR_OPEN
