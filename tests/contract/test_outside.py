"""Work that comes from outside: taken through its source alone, mirrored, claimed there."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import ClaimedItem, ClaimRequest
from rota.model.errors import (
    ClaimedByAnother,
    ClaimLost,
    InvalidInput,
    NoFreeSlot,
    NotFound,
    Refused,
    TransitionRefused,
)
from rota.model.sources import Firing, Mirrored, Mirroring, SourceClaim
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue
from rota.queue.outside import OutsideWork
from rota.queue.reasons import Way
from rota.queue.sweeper import Swept
from rota.queue.views import Query, Views
from rota.storage.port import Store, Topic
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import order

OpenStore = Callable[[], Awaitable[Store]]
REPO = "github:owner/repo"
LEASE = 60.0


@pytest.fixture
def outside(ledger: Ledger) -> OutsideWork:
    return ledger.outside


def issue(ref: str = "42", **values: Any) -> NewItem:
    return NewItem(
        **{
            "type": "issue",
            "description": f"Issue {ref}",
            "body": "It does not work.",
            "labels": ("bug",),
            "payload": {"url": f"https://example.org/{ref}"},
            "source": REPO,
            "source_ref": ref,
            **values,
        }
    )


def firing(number: int = 1) -> Firing:
    return Firing(f"20260501-120000-{number:04x}", "lucius", "home", f"nonce-{number}")


async def take(
    outside: OutsideWork, ref: str = "42", agent: str = "ada", number: int = 1, **values: Any
) -> ClaimedItem:
    return await outside.take(issue(ref), agent, LEASE, firing(number), **values)


async def mirrored(
    outside: OutsideWork, ref: str = "42", hold: str | None = None, **values: Any
) -> WorkItem:
    await outside.mirror([Mirrored(issue(ref, **values), hold)])
    found = await outside.standing(REPO, ref)
    assert found is not None
    return found


async def claim_of(outside: OutsideWork, number: int = 1) -> SourceClaim:
    found = await outside.find_claim(firing(number).firing_id)
    assert found is not None
    return found


async def events_of(views: Views, item: WorkItem) -> list[str]:
    return [str(event.type) for event in (await views.detail(item.id)).events]


async def everything(store: Store) -> tuple[Any, ...]:
    """All that a refusal must leave as it was."""
    records = await store.read(read_ledger, long=True)
    assert faults(records) == []
    claims = await store.read(lambda tx: tx.open_source_claims(REPO, ""))
    return records, claims, await store.read(lambda tx: tx.last_event())


# taking


async def test_a_new_item_is_submitted_dispatched_and_started_at_once(
    outside: OutsideWork, views: Views, store: Store, clock: ManualClock
) -> None:
    got = await take(outside)
    detail = await views.detail(got.item.id)
    assert detail.item == got.item
    assert (got.item.status, got.item.assigned_agent, got.item.epoch) == ("in_progress", "ada", 1)
    assert (got.item.source, got.item.source_ref, got.item.attempts) == (REPO, "42", 1)
    assert got.item.claim_token == got.claim.token
    assert got.item.lease_expires_at == got.claim.expires_at == clock.text(LEASE)
    told = [(event.type, event.actor, event.reason) for event in detail.events]
    assert told == [
        ("work.submitted", REPO, None),
        ("work.dispatched", "ada", "claimed"),
        ("work.started", "ada", "claimed"),
    ]
    assert [(row.agent, row.outcome) for row in detail.dispatch_log] == [("ada", None)]
    assert await claim_of(outside) == SourceClaim(
        firing().firing_id, REPO, "42", got.item.id, 1, "lucius", "home", "nonce-1", None,
        clock.text(), None, None, Status.IN_PROGRESS, got.claim.token,
    )  # fmt: skip
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_the_claim_is_one_like_any_other(
    outside: OutsideWork, queue: WorkQueue, clock: ManualClock
) -> None:
    got = await take(outside)
    clock.advance(50)
    beat = await queue.heartbeat(got.item.id, got.claim.token)
    assert beat.expires_at == clock.text(LEASE)
    done = await queue.complete(got.item.id, token=got.claim.token)
    assert done.status is Status.COMPLETED
    claim = await claim_of(outside)
    assert (claim.live, claim.status, claim.ended_at) == (False, "completed", None)


async def test_a_waiting_item_is_brought_up_to_date_when_it_is_taken(
    outside: OutsideWork, views: Views, store: Store
) -> None:
    waiting = await mirrored(outside)
    changed = issue(
        description="Better title", body=None, labels=("p1",), priority=1, payload={"n": [1]}
    )
    got = await outside.take(changed, "ada", LEASE, firing())
    assert got.item.id == waiting.id
    shown = (got.item.description, got.item.body, got.item.labels, got.item.priority)
    assert shown == ("Better title", None, ("p1",), 1)
    assert got.item.payload == {"n": [1]}
    events = (await views.detail(waiting.id)).events
    assert [event.type for event in events] == [
        "work.submitted", "work.edited", "work.dispatched", "work.started",
    ]  # fmt: skip
    assert events[1].data["fields"] == ["body", "description", "labels", "payload", "priority"]
    assert [item.id for item in (await views.items(Query(label="p1"))).items] == [waiting.id]
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_what_has_not_changed_is_not_edited(outside: OutsideWork, views: Views) -> None:
    waiting = await mirrored(outside)
    await take(outside)
    assert await events_of(views, waiting) == [
        "work.submitted", "work.dispatched", "work.started",
    ]  # fmt: skip


async def test_a_reopened_issue_gives_a_new_item_and_the_old_one_stays(
    outside: OutsideWork, queue: WorkQueue, views: Views
) -> None:
    first = await take(outside)
    done = await queue.complete(first.item.id, token=first.claim.token)
    again = await take(outside, number=2)
    assert again.item.id != first.item.id
    assert (again.item.epoch, again.item.attempts) == (1, 1)
    assert await views.item(first.item.id) == done
    standing = await outside.standing(REPO, "42")
    assert standing == again.item


async def test_somebody_else_s_item_is_refused_and_nothing_changes(
    outside: OutsideWork, store: Store
) -> None:
    await take(outside)
    before = await everything(store)
    for agent in ("bob", "ada"):
        with pytest.raises(ClaimedByAnother, match="worked on by 'ada'") as refused:
            await take(outside, agent=agent, number=2)
        assert refused.value.details["agent"] == "ada"
    assert await everything(store) == before


async def held_by_an_operator(ledger: Ledger, item: WorkItem) -> None:
    await ledger.queue.hold(item.id, "wait for Monday")


async def waits_for_another(ledger: Ledger, item: WorkItem) -> None:
    blocker = await ledger.queue.submit(NewItem("chore", "first this"))
    await ledger.queue.change(order(Verb.RELEASE, item.id), None, {}, blocked_by=(blocker.id,))


async def named_for_bob(ledger: Ledger, item: WorkItem) -> None:
    await ledger.queue.change(order(Verb.RELEASE, item.id), None, {"assigned_agent": "bob"})


async def not_due(ledger: Ledger, item: WorkItem) -> None:
    later = ManualClock().text(3600)
    await ledger.queue.change(order(Verb.RELEASE, item.id), None, {"available_at": later})


async def agent_paused(ledger: Ledger, item: WorkItem) -> None:
    await ledger.queue.set_agent("ada", paused=True)


async def agent_busy(ledger: Ledger, item: WorkItem) -> None:
    await ledger.queue.submit(NewItem("chore", "something else"))
    assert (await ledger.queue.claim(ClaimRequest("ada"))).items


async def blocked(ledger: Ledger, item: WorkItem) -> None:
    got = await take(ledger.outside, agent="bob", number=9)
    await ledger.queue.apply(order(Verb.BLOCK, item.id, token=got.claim.token))


async def in_review(ledger: Ledger, item: WorkItem) -> None:
    got = await take(ledger.outside, agent="bob", number=9)
    await ledger.queue.apply(order(Verb.HAND_OVER, item.id, token=got.claim.token))


OBSTACLES: dict[Callable[[Ledger, WorkItem], Awaitable[None]], tuple[type[Refused], str]] = {
    held_by_an_operator: (Refused, r"held \(wait for Monday\) by an operator; `rota unhold"),
    waits_for_another: (Refused, "waits for .*; complete that first"),
    named_for_bob: (Refused, "is for 'bob' only"),
    not_due: (Refused, "not available before 2026-05-01T13"),
    agent_paused: (Refused, "agent 'ada' is paused; `rota agent resume ada`"),
    agent_busy: (NoFreeSlot, "agent 'ada' already works on 1 of 1"),
    blocked: (TransitionRefused, "is blocked; .*release → queued"),
    in_review: (TransitionRefused, "is in_review; .*reopen → queued"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda obstacle: obstacle.__name__)
async def test_what_stands_in_the_way_is_named_and_nothing_changes(
    ledger: Ledger, store: Store, obstacle: Callable[[Ledger, WorkItem], Awaitable[None]]
) -> None:
    item = await mirrored(ledger.outside)
    await obstacle(ledger, item)
    before = await everything(store)
    kind, words = OBSTACLES[obstacle]
    with pytest.raises(kind, match=words) as refused:
        await ledger.outside.take(
            issue(description="changed meanwhile"), "ada", LEASE, firing(), cleared=True
        )
    assert type(refused.value) is kind
    kept = await ledger.outside.kept_back(REPO, ["42", "43"], "ada")
    of_the_item = obstacle not in (agent_paused, agent_busy)
    assert set(kept) == ({"42"} if of_the_item else set())
    assert await everything(store) == before


async def test_what_can_be_taken_is_not_kept_back(
    outside: OutsideWork, ledger: Ledger, clock: ManualClock
) -> None:
    assert await outside.kept_back(REPO, [], "ada") == {}
    await mirrored(outside, "1")
    await mirrored(outside, "2", hold="nobody trusted has agreed")
    await named_for_bob(ledger, await mirrored(outside, "3"))
    got = await take(outside, "4", "eve", number=4)
    part = await take(outside, "5", "joe", number=5)
    half = order(Verb.BLOCK, part.item.id, token=part.claim.token, notes="?", reason="partial")
    await ledger.queue.apply(half)
    asked = ["1", "2", "3", "4", "5", "6"]
    assert set(await outside.kept_back(REPO, asked, "ada")) == {"3", "4"}
    assert await outside.kept_back(REPO, asked, "bob") == {
        "4": f"{REPO} 4 ({got.item.id}) is being worked on by 'eve'"
    }
    clock.advance(LEASE)
    assert await outside.kept_back(REPO, asked, "bob") == {}


async def test_who_is_named_for_it_may_take_it(outside: OutsideWork, ledger: Ledger) -> None:
    await named_for_bob(ledger, await mirrored(outside))
    assert (await take(outside, agent="bob")).item.assigned_agent == "bob"


async def test_a_completed_blocker_no_longer_stands_in_the_way(
    outside: OutsideWork, ledger: Ledger
) -> None:
    await waits_for_another(ledger, await mirrored(outside))
    (blocker,) = (await ledger.queue.claim(ClaimRequest("bob"))).items
    await ledger.queue.complete(blocker.item.id, token=blocker.claim.token)
    assert (await take(outside)).item.status is Status.IN_PROGRESS


async def test_the_source_s_own_hold_goes_when_the_source_says_so(
    outside: OutsideWork, views: Views, store: Store
) -> None:
    item = await mirrored(outside, hold="nobody trusted has agreed")
    before = await everything(store)
    with pytest.raises(Refused, match=r"held \(nobody trusted has agreed\) by its source"):
        await take(outside)
    assert await everything(store) == before
    got = await take(outside, cleared=True)
    assert got.item.hold_reason is None
    assert await events_of(views, item) == [
        "work.submitted", "work.held", "work.unheld", "work.dispatched", "work.started",
    ]  # fmt: skip


async def test_a_lapsed_claim_does_not_stand_in_the_way(
    outside: OutsideWork, views: Views, clock: ManualClock
) -> None:
    """Neither of the item, nor in the agent's slot; also where no sweeper runs."""
    first = await take(outside)
    clock.advance(LEASE)
    second = await take(outside, number=2)
    assert (second.item.id, second.item.epoch, second.item.attempts) == (first.item.id, 2, 2)
    assert [(claim.firing_id, claim.live) for claim in await outside.open_claims(REPO)] == [
        (firing(1).firing_id, False),
        (firing(2).firing_id, True),
    ]
    assert "work.released" in await events_of(views, second.item)


async def test_a_firing_id_that_was_used_is_refused(outside: OutsideWork, store: Store) -> None:
    await take(outside)
    before = await everything(store)
    with pytest.raises(Refused, match="firing id 20260501-120000-0001 was used before"):
        await take(outside, ref="43", agent="bob")
    assert await everything(store) == before
    assert await outside.standing(REPO, "43") is None


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no source": ({"source": None, "source_ref": None}, "source"),
    "an agent of its own": ({"assigned_agent": "ada"}, "assigned_agent"),
    "blockers of its own": ({"blocked_by": ("x",)}, "blocked_by"),
    "a time of its own": ({"available_at": "2030-01-01T00:00:00Z"}, "available_at"),
    "no text": ({"description": " "}, "description"),
    "no such project": ({"project_id": "ghost"}, "project_id"),
}


@pytest.mark.parametrize(("values", "field"), BAD.values(), ids=BAD.keys())
async def test_an_item_from_outside_cannot_have(
    outside: OutsideWork, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await outside.take(issue(**values), "ada", LEASE, firing())
    assert refused.value.details["field"] == field


async def test_a_lease_and_a_signature_are_checked_first(outside: OutsideWork) -> None:
    for seconds in (0.0, 1e9):
        with pytest.raises(InvalidInput, match="lease_seconds"):
            await outside.take(issue(), "ada", seconds, firing())
    with pytest.raises(InvalidInput, match="agent"):
        await outside.take(issue(), "A B", LEASE, firing())
    with pytest.raises(InvalidInput, match="nonce"):
        await outside.take(issue(), "ada", LEASE, replace(firing(), nonce=""))


@pytest.mark.parametrize("waits", [False, True], ids=["new", "waiting"])
async def test_of_many_who_take_one_issue_one_gets_it(
    store: Store, another_store: OpenStore, waits: bool
) -> None:
    sides = [OutsideWork(store), OutsideWork(await another_store())]
    for ref in ("1", "2", "3"):
        if waits:
            await mirrored(sides[0], ref)
        answers = await asyncio.gather(
            *(take(sides[n % 2], ref, f"agent-{ref}-{n}", int(ref) * 100 + n) for n in range(12)),
            return_exceptions=True,
        )
        won = [answer for answer in answers if isinstance(answer, ClaimedItem)]
        assert len(won) == 1
        assert [type(one) for one in answers if one is not won[0]] == [ClaimedByAnother] * 11
        assert [one.source_ref for one in await sides[0].open_claims(REPO)].count(ref) == 1
    assert faults(await store.read(read_ledger, long=True)) == []


# nobody else takes it


async def test_a_plain_claim_never_takes_it(
    ledger: Ledger, outside: OutsideWork, queue: WorkQueue, clock: ManualClock
) -> None:
    item = await mirrored(outside, priority=1)
    assert (await queue.claim(ClaimRequest("ada"))).items == []
    await named_for_bob(ledger, item)
    assert (await queue.claim(ClaimRequest("bob"))).items == []
    await take(outside, agent="bob")
    clock.advance(LEASE)
    for agent in ("ada", "bob"):
        assert (await queue.claim(ClaimRequest(agent, types=("issue",)))).items == []
        assert (await queue.claim(ClaimRequest(agent, labels=("bug",)))).items == []
    standing = await outside.standing(REPO, "42")
    assert standing is not None
    assert (standing.status, standing.attempts) == (Status.QUEUED, 1)


async def test_nobody_is_woken_for_it(
    outside: OutsideWork, queue: WorkQueue, store: Store, clock: ManualClock
) -> None:
    seen = store.counter(Topic.READY)
    await mirrored(outside, hold="wait")
    await mirrored(outside, description="changed")
    got = await take(outside)
    await queue.apply(order(Verb.RELEASE, got.item.id, token=got.claim.token))
    assert store.counter(Topic.READY) == seen
    await queue.submit(NewItem("chore", "x"))
    assert store.counter(Topic.READY) > seen


@pytest.mark.parametrize("way", ["verb", "patch"])
async def test_it_is_not_dispatched_by_name(
    outside: OutsideWork, queue: WorkQueue, store: Store, way: str
) -> None:
    item = await mirrored(outside)
    before = await everything(store)
    wanted = order(Verb.DISPATCH, item.id)
    words = "is 42 of github:owner/repo: take it through its source"
    asked = queue.apply(wanted) if way == "verb" else queue.change(wanted, Status.DISPATCHED, {})
    with pytest.raises(Refused, match=words) as refused:
        await asked
    assert refused.value.details["source"] == REPO
    assert await everything(store) == before
    with pytest.raises(Refused, match=words):
        await queue.apply(order(Verb.START, item.id))


async def test_what_is_blocked_is_given_back_and_not_resumed_by_name(
    outside: OutsideWork, queue: WorkQueue, ledger: Ledger
) -> None:
    item = await mirrored(outside)
    await blocked(ledger, item)
    with pytest.raises(Refused, match=f"through its source.*rota release {item.id}"):
        await queue.apply(order(Verb.RESUME, item.id))
    await queue.apply(order(Verb.RELEASE, item.id))
    assert (await take(outside)).item.id == item.id


async def test_what_has_ended_says_so_first(outside: OutsideWork, queue: WorkQueue) -> None:
    got = await take(outside)
    with pytest.raises(TransitionRefused, match="is in_progress"):
        await queue.apply(order(Verb.DISPATCH, got.item.id))
    await queue.complete(got.item.id, token=got.claim.token)
    with pytest.raises(TransitionRefused, match="is completed"):
        await queue.apply(order(Verb.DISPATCH, got.item.id))


async def test_a_failed_item_comes_back_only_where_no_other_stands_for_it(
    outside: OutsideWork, queue: WorkQueue, store: Store
) -> None:
    got = await take(outside)
    await queue.apply(order(Verb.FAIL, got.item.id, token=got.claim.token))
    other = await mirrored(outside)
    assert other.id != got.item.id
    before = await everything(store)
    with pytest.raises(Refused, match=rf"{other.id} \(queued\) has stood for {REPO} 42") as refused:
        await queue.apply(order(Verb.RETRY, got.item.id))
    assert type(refused.value) is Refused
    assert await everything(store) == before
    await queue.apply(order(Verb.CANCEL, other.id))
    back = await queue.apply(order(Verb.RETRY, got.item.id))
    assert back.item.status is Status.QUEUED
    assert (await outside.standing(REPO, "42") or other).id == got.item.id


async def test_of_a_retry_and_a_new_item_at_once_one_is_live(
    store: Store, another_store: OpenStore
) -> None:
    here, there = Ledger.on(store), Ledger.on(await another_store())
    for number in range(1, 9):
        got = await take(here.outside, str(number), f"agent-{number}", number)
        await here.queue.apply(order(Verb.FAIL, got.item.id, token=got.claim.token))
        answers = await asyncio.gather(
            here.queue.apply(order(Verb.RETRY, got.item.id)),
            there.outside.mirror([Mirrored(issue(str(number)))]),
            return_exceptions=True,
        )
        assert all(type(one) is Refused for one in answers if isinstance(one, Exception)), answers
        live = await store.read(lambda tx: tx.live_references(REPO))
        assert [one.source_ref for one in live].count(str(number)) == 1
    assert faults(await store.read(read_ledger, long=True)) == []


# the sweeper


async def test_a_lapsed_claim_goes_back_and_stays_open_at_its_source(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    got = await take(outside)
    clock.advance(LEASE)
    assert not (await claim_of(outside)).live  # at once, and not only once it is swept
    assert await ledger.sweeper.tick() == Swept(released=(got.item.id,))
    claim = await claim_of(outside)
    assert (claim.live, claim.token, claim.status, claim.ended_at) == (False, None, "queued", None)
    with pytest.raises(ClaimLost):
        await ledger.queue.heartbeat(got.item.id, got.claim.token)


async def test_attempts_are_counted_and_end_it(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock
) -> None:
    wanted = issue(max_attempts=2)
    for number in (1, 2):
        await outside.take(wanted, "ada", LEASE, firing(number))
        clock.advance(LEASE)
    spent = await outside.standing(REPO, "42")
    assert spent is not None
    # Where no sweeper has run yet, and where one has.
    for sweep in (False, True):
        if sweep:
            assert await ledger.sweeper.tick() == Swept(failed=(spent.id,))
        with pytest.raises(Refused, match=f"used up its 2 attempts; `rota retry {spent.id}`"):
            await outside.take(wanted, "ada", LEASE, firing(3))
    assert set(await outside.kept_back(REPO, ["42"], "ada")) == {"42"}
    assert await outside.mirror([Mirrored(wanted)]) == Mirroring()
    assert (await outside.standing(REPO, "42") or spent).status is Status.FAILED
    await ledger.queue.apply(order(Verb.RETRY, spent.id))
    got = await outside.take(wanted, "ada", LEASE, firing(3))
    assert (got.item.id, got.item.attempts) == (spent.id, 1)
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_what_an_agent_called_failed_may_be_offered_again(
    outside: OutsideWork, queue: WorkQueue
) -> None:
    got = await take(outside)
    await queue.apply(order(Verb.FAIL, got.item.id, token=got.claim.token))
    assert (await take(outside, number=2)).item.id != got.item.id


# claims at the source


async def test_of_a_claim_that_the_tracker_kept_twice_the_lower_number_counts(
    outside: OutsideWork,
) -> None:
    await take(outside)
    await outside.entered(firing().firing_id, 4_000_000_008)
    await outside.entered(firing().firing_id, 4_000_000_000)
    await outside.entered(firing().firing_id, 4_000_000_000)
    with pytest.raises(Refused, match="stands at its source as 4000000000, not as 4000000008"):
        await outside.entered(firing().firing_id, 4_000_000_008)
    assert (await claim_of(outside)).entry_id == 4_000_000_000
    with pytest.raises(NotFound, match="ghost"):
        await outside.entered("ghost", 7)


async def test_a_claim_ends_at_its_source_once(outside: OutsideWork, clock: ManualClock) -> None:
    await take(outside)
    assert await outside.ended(firing().firing_id, "done") is True
    clock.advance(1)
    assert await outside.ended(firing().firing_id, "released") is False
    claim = await claim_of(outside)
    assert (claim.ended_at, claim.outcome) == (clock.text(-1), "done")
    assert await outside.open_claims(REPO) == []
    assert await outside.claim_of(REPO, "42") is None
    with pytest.raises(NotFound, match="ghost"):
        await outside.ended("ghost", "done")


async def test_the_latest_open_claim_of_a_reference_is_found(
    outside: OutsideWork, clock: ManualClock
) -> None:
    await take(outside)
    clock.advance(LEASE)
    second = await take(outside, number=2)
    found = await outside.claim_of(REPO, "42")
    assert found is not None
    assert (found.firing_id, found.token) == (firing(2).firing_id, second.claim.token)
    assert await outside.claim_of(REPO, "43") is None
    assert await outside.find_claim("ghost") is None


async def test_a_claim_that_its_source_did_not_grant_was_no_attempt(
    outside: OutsideWork, store: Store
) -> None:
    got = await take(outside)
    await outside.give_back(firing().firing_id, "already_claimed")
    back = await outside.standing(REPO, "42")
    assert back is not None
    assert (back.id, back.status, back.attempts) == (got.item.id, Status.QUEUED, 0)
    claim = await claim_of(outside)
    assert (claim.live, claim.outcome) == (False, "already_claimed")
    await outside.give_back(firing().firing_id, "again")
    assert (await claim_of(outside)).outcome == "already_claimed"
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_it_was_none_though_others_have_seen_its_end_first(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock
) -> None:
    await take(outside)
    clock.advance(LEASE)
    assert (await claim_of(outside)).lapsed
    await ledger.sweeper.tick()
    assert (await claim_of(outside)).over
    await outside.ended(firing().firing_id, "stale-swept")
    await outside.give_back(firing().firing_id, "already_claimed")
    back = await outside.standing(REPO, "42")
    assert back is not None
    assert (back.status, back.attempts) == (Status.QUEUED, 0)
    assert (await claim_of(outside)).outcome == "stale-swept"
    await take(outside, number=2)
    await outside.give_back(firing().firing_id, "again")
    assert (await outside.standing(REPO, "42") or back).attempts == 1, "another has taken it since"
    assert faults(await store.read(read_ledger, long=True)) == []


@pytest.mark.parametrize("swept", [False, True])
async def test_an_end_that_its_source_accepted_is_recorded_after_a_crash(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock, swept: bool
) -> None:
    got = await take(outside)
    clock.advance(LEASE)
    if swept:
        await ledger.sweeper.tick()
    assert await outside.finished(firing().firing_id, "late") is True
    done = await ledger.views.item(got.item.id)
    assert (done.status, done.outcome, done.reason) == ("completed", "success", "late")
    assert await outside.finished(firing().firing_id, "late") is False
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_an_accepted_end_is_recorded_though_the_agent_is_at_work_again(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock
) -> None:
    got = await take(outside)
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    await ledger.queue.submit(NewItem("chore", "something else"))
    assert (await ledger.queue.claim(ClaimRequest(firing().codename))).items
    assert await outside.finished(firing().firing_id, "late") is True
    assert (await ledger.views.item(got.item.id)).status is Status.COMPLETED
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_an_accepted_end_is_recorded_though_its_attempts_were_used_up(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock
) -> None:
    await outside.take(issue(max_attempts=1), "ada", LEASE, firing())
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    assert await outside.finished(firing().firing_id, "late") is True
    done = await outside.standing(REPO, "42")
    assert done is not None
    assert done.status is Status.COMPLETED
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_an_end_is_not_recorded_where_another_item_stands_by_now(
    outside: OutsideWork, queue: WorkQueue, store: Store
) -> None:
    got = await take(outside)
    await queue.apply(order(Verb.FAIL, got.item.id, token=got.claim.token))
    assert (await take(outside, number=2)).item.epoch == got.item.epoch
    before = await everything(store)
    assert await outside.finished(firing().firing_id, "late") is False
    assert await outside.finished("ghost", "late") is False
    assert await everything(store) == before


async def test_an_end_is_not_recorded_on_another_s_claim(
    outside: OutsideWork, clock: ManualClock
) -> None:
    await take(outside)
    clock.advance(LEASE)
    second = await take(outside, agent="bob", number=2)
    assert await outside.finished(firing(1).firing_id, "late") is False
    assert await outside.standing(REPO, "42") == second.item


async def test_one_database_is_one_fleet(store: Store, another_store: OpenStore) -> None:
    sides = [OutsideWork(store), OutsideWork(await another_store())]
    names = await asyncio.gather(*(sides[n % 2].fleet() for n in range(6)))
    assert len(set(names)) == 1
    assert names[0]


# the mirror


async def test_the_board_shows_what_waits_there_and_why(outside: OutsideWork, views: Views) -> None:
    report = await outside.mirror([Mirrored(issue("1")), Mirrored(issue("2"), "no agreement")])
    assert report == Mirroring(added=2, held=1)
    items = (await views.items(Query(statuses=("queued",)))).items
    shown = {item.source_ref: (item.description, item.hold_reason) for item in items}
    assert shown == {"1": ("Issue 1", None), "2": ("Issue 2", "no agreement")}


async def test_what_has_not_changed_there_is_not_touched_here(
    outside: OutsideWork, store: Store
) -> None:
    shown = [Mirrored(issue("1", priority=2)), Mirrored(issue("2"), "wait"), Mirrored(issue("3"))]
    await outside.mirror(shown)
    before = await everything(store)
    assert not await outside.mirror(shown)
    assert await everything(store) == before


async def test_a_change_there_is_one_event_here(outside: OutsideWork, views: Views) -> None:
    old = await mirrored(outside)
    report = await outside.mirror(
        [Mirrored(issue(description="New", labels=("a", "b"), priority=5))]
    )
    assert report == Mirroring(edited=1)
    new = await views.item(old.id)
    assert (new.description, new.labels, new.priority) == ("New", ("a", "b"), 5)
    assert (new.status, new.version) == (Status.QUEUED, old.version + 1)
    assert await events_of(views, old) == ["work.submitted", "work.edited"]


async def test_the_source_puts_its_hold_on_changes_it_and_takes_it_off(
    outside: OutsideWork, views: Views
) -> None:
    item = await mirrored(outside)
    assert await outside.mirror([Mirrored(issue(), "one")]) == Mirroring(held=1)
    assert await outside.mirror([Mirrored(issue(), "two")]) == Mirroring(held=1)
    assert (await views.item(item.id)).hold_reason == "two"
    assert await outside.mirror([Mirrored(issue())]) == Mirroring(unheld=1)
    assert (await views.item(item.id)).hold_reason is None
    told = [(e.type, e.actor, e.reason) for e in (await views.detail(item.id)).events[1:]]
    assert told == [
        ("work.held", REPO, "one"), ("work.held", REPO, "two"), ("work.unheld", REPO, None),
    ]  # fmt: skip


async def test_an_operator_s_hold_is_not_the_source_s_to_change(
    outside: OutsideWork, queue: WorkQueue, views: Views
) -> None:
    item = await mirrored(outside)
    await queue.hold(item.id, "wait for Monday")
    for reason in (None, "the source's", "wait for Monday"):
        assert not await outside.mirror([Mirrored(issue(), reason)])
        assert (await views.item(item.id)).hold_reason == "wait for Monday"
    await queue.unhold(item.id)
    assert await outside.mirror([Mirrored(issue(), "the source's")]) == Mirroring(held=1)


async def test_the_source_s_hold_is_not_the_operator_s_to_lift(
    outside: OutsideWork, queue: WorkQueue, views: Views, store: Store
) -> None:
    item = await mirrored(outside, hold="not ready")
    before = await everything(store)
    with pytest.raises(Refused, match="held by its source github:owner/repo: not ready; lift it"):
        await queue.unhold(item.id)
    assert await everything(store) == before
    # But an operator may make it a hold of their own, in the same words too.
    await queue.hold(item.id, "not ready")
    assert not await outside.mirror([Mirrored(issue())])
    assert (await queue.unhold(item.id)).hold_reason is None


async def test_what_is_worked_on_is_brought_up_to_date_and_goes_on(
    outside: OutsideWork, queue: WorkQueue
) -> None:
    got = await take(outside)
    assert await outside.mirror([Mirrored(issue(description="New"))]) == Mirroring(edited=1)
    done = await queue.complete(got.item.id, token=got.claim.token)
    assert (done.description, done.status) == ("New", Status.COMPLETED)


async def test_what_cannot_be_stored_is_named_and_the_rest_is(outside: OutsideWork) -> None:
    report = await outside.mirror(
        [
            Mirrored(issue("1", labels=tuple(f"label-{n}" for n in range(51)))),
            Mirrored(issue("2")),
            Mirrored(issue("3"), "x" * 501),
            Mirrored(issue("2", description="said twice, and this is the last word")),
        ]
    )
    assert report.added == 1
    assert [ref for ref, _ in report.refused] == ["1", "3"]
    assert "labels: at most 50" in report.refused[0][1]
    assert "hold_reason" in report.refused[1][1]
    standing = await outside.standing(REPO, "2")
    assert standing is not None
    assert standing.description == "said twice, and this is the last word"


async def test_thousands_are_mirrored_in_batches(outside: OutsideWork, store: Store) -> None:
    shown = [Mirrored(issue(str(n)), "wait" if n % 2 else None) for n in range(1_100)]
    assert await outside.mirror(shown) == Mirroring(added=1_100, held=550)
    assert not await outside.mirror(shown)
    assert (await store.read(lambda tx: tx.count_by_status()))[Status.QUEUED] == 1_100


async def test_two_sources_do_not_mix(outside: OutsideWork) -> None:
    other = "github:owner/other"
    await outside.mirror([Mirrored(issue("1")), Mirrored(issue("1", source=other))])
    assert len(await outside.gone(other, [])) == 1
    kept = await outside.standing(REPO, "1")
    assert kept is not None
    assert kept.status is Status.QUEUED


async def test_two_who_mirror_at_once_make_one_item_each(
    store: Store, another_store: OpenStore
) -> None:
    sides = [OutsideWork(store), OutsideWork(await another_store())]
    shown = [Mirrored(issue(str(n)), "wait") for n in range(40)]
    reports = await asyncio.gather(*(sides[n % 2].mirror(shown) for n in range(4)))
    assert sum(report.added for report in reports) == 40
    assert len(await sides[0].waiting(REPO)) == 40
    assert faults(await store.read(read_ledger, long=True)) == []


# what has left


async def test_what_left_the_source_is_cancelled(
    outside: OutsideWork, views: Views, store: Store
) -> None:
    stays, goes = await mirrored(outside, "1"), await mirrored(outside, "2", hold="wait")
    assert await outside.gone(REPO, ["1", "7"]) == [goes.id]
    gone = await views.item(goes.id)
    assert (gone.status, gone.reason, gone.outcome) == ("cancelled", "left_source", "cancelled")
    assert (await views.detail(goes.id)).events[-1].actor == REPO
    assert await views.item(stays.id) == stays
    before = await everything(store)
    assert await outside.gone(REPO, ["1"]) == []
    assert await everything(store) == before


async def test_what_comes_back_is_a_new_item(outside: OutsideWork) -> None:
    old = await mirrored(outside)
    await outside.gone(REPO, [])
    assert (await mirrored(outside)).id != old.id


async def test_what_is_not_queued_stays_though_its_source_has_it_no_longer(
    ledger: Ledger, outside: OutsideWork, queue: WorkQueue
) -> None:
    got = await take(outside)
    assert await outside.gone(REPO, []) == []
    await queue.apply(order(Verb.BLOCK, got.item.id, token=got.claim.token))
    await outside.ended(firing().firing_id, "partial")
    assert await outside.gone(REPO, []) == []
    assert (await ledger.views.item(got.item.id)).status is Status.BLOCKED


async def test_what_the_source_shows_as_claimed_waits_for_its_sweep(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    """Else it would come back as a new item, and its attempts would count from nothing."""
    got = await take(outside)
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    assert await outside.gone(REPO, []) == []
    await outside.ended(firing().firing_id, "stale-swept")
    assert await outside.gone(REPO, []) == [got.item.id]


# approvals, deliveries, states


async def test_the_latest_approval_counts(outside: OutsideWork, clock: ManualClock) -> None:
    assert await outside.approval(REPO, "42") is None
    await outside.approve(REPO, "42", "h1", 7, "2026-05-01T10:00:00+02:00")
    kept = await outside.approval(REPO, "42")
    assert kept is not None
    assert (kept.text_hash, kept.approved_by) == ("h1", 7)
    assert (kept.approved_at, kept.seen_at) == ("2026-05-01T08:00:00.000000Z", clock.text())
    await outside.approve(REPO, "42", "h2", 8, clock.text())
    latest = await outside.approval(REPO, "42")
    assert latest is not None
    assert latest.text_hash == "h2"
    with pytest.raises(InvalidInput, match="approved_at"):
        await outside.approve(REPO, "42", "h3", 7, "yesterday")


async def test_a_delivery_is_new_once_in_thirty_days(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    assert await outside.remember_delivery("d1") is True
    assert await outside.remember_delivery("d1") is False
    clock.advance(29 * 86400)
    assert await ledger.sweeper.prune() == 0
    assert await outside.remember_delivery("d1") is False
    clock.advance(2 * 86400)
    assert await ledger.sweeper.prune() == 0, "the time of the look before is what counts"
    assert await ledger.sweeper.prune() == 1
    assert await outside.remember_delivery("d1") is True
    with pytest.raises(InvalidInput, match="delivery"):
        await outside.remember_delivery("")


async def test_states_are_noted_part_by_part(outside: OutsideWork, clock: ManualClock) -> None:
    assert await outside.states() == []
    await outside.note_state(REPO, poll_error="no answer " * 1_000, requests=2)
    await outside.note_state(REPO, polled_at=clock.text(), settle_seconds=20, requests=3)
    (state,) = await outside.states()
    assert (state.polled_at, state.settle_seconds, state.requests) == (clock.text(), 20.0, 5)
    assert state.poll_error is not None
    assert len(state.poll_error) == 2_000
    await outside.note_state(REPO, poll_error=None)
    assert (await outside.states())[0].poll_error is None


async def test_requests_of_many_processes_are_all_counted(
    store: Store, another_store: OpenStore
) -> None:
    sides = [OutsideWork(store), OutsideWork(await another_store())]
    await asyncio.gather(*(sides[n % 2].note_state(REPO, requests=1) for n in range(20)))
    assert [state.requests for state in await sides[0].states()] == [20]


# why nobody works on it


async def test_an_item_of_a_source_explains_how_it_is_taken(
    outside: OutsideWork, views: Views
) -> None:
    item = await mirrored(outside)
    explained = await views.explain(item.id)
    assert explained.claimable is False
    assert [reason.code for reason in explained.reasons] == ["through_source"]
    assert explained.summary == "it is taken through its source github:owner/repo"


async def test_a_source_s_hold_explains_itself(outside: OutsideWork, views: Views) -> None:
    item = await mirrored(outside, hold="nobody has agreed to it; put the label ready on it")
    held, through = (await views.explain(item.id)).reasons
    assert (held.code, through.code) == ("held_by_source", "through_source")
    assert held.message == "its source github:owner/repo holds it: nobody has agreed to it"
    assert held.fix == "put the label ready on it"
    await mirrored(outside, hold="for a reason")
    assert (await views.explain(item.id)).reasons[0].fix == "lift it at github:owner/repo"


async def test_an_operator_s_hold_is_told_as_one(
    outside: OutsideWork, queue: WorkQueue, views: Views
) -> None:
    item = await mirrored(outside)
    await queue.hold(item.id, "wait; please")
    held = (await views.explain(item.id)).reasons[0]
    assert (held.code, held.fix) == ("held", f"rota unhold {item.id}")


async def test_a_source_that_cannot_be_read_is_a_reason(outside: OutsideWork, views: Views) -> None:
    item = await mirrored(outside)
    await outside.note_state(REPO, poll_error="the token has expired")
    codes = {reason.code: reason.message for reason in (await views.explain(item.id)).reasons}
    assert codes["source_error"] == "its source could not be read: the token has expired"


async def test_what_is_blocked_is_not_told_to_be_resumed(
    ledger: Ledger, outside: OutsideWork, views: Views
) -> None:
    item = await mirrored(outside)
    await blocked(ledger, item)
    ways = (await views.explain(item.id)).reasons[0].ways
    assert ways == (Way("give it to somebody else", f"rota release {item.id}"),)
