"""Claims that their source did not grant, and ends that it knew before the ledger did."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import ClaimedItem
from rota.model.errors import ClaimedByAnother, ClaimLost, InvalidInput
from rota.model.sources import Firing, Mirrored
from rota.model.status import Status, Verb
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger, WorkQueue
from rota.queue.outside import OutsideWork
from rota.queue.views import Views
from rota.storage.port import Store
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import order

OpenStore = Callable[[], Awaitable[Store]]
REPO, OTHER = "github:owner/repo", "github:owner/other"
LEASE = 60.0


@pytest.fixture
def outside(ledger: Ledger) -> OutsideWork:
    return ledger.outside


def issue(ref: str = "42", **values: Any) -> NewItem:
    given = {"source": REPO, "source_ref": ref, "max_attempts": 3, **values}
    return NewItem("issue", f"Issue {ref}", **given)


def firing(number: int = 1, agent: str = "lucius") -> Firing:
    return Firing(f"20260501-120000-{number:04x}", agent, "home", f"nonce-{number}")


async def take(
    outside: OutsideWork, number: int = 1, agent: str = "lucius", **values: Any
) -> ClaimedItem:
    return await outside.take(issue(**values), agent, LEASE, firing(number, agent))


async def item(outside: OutsideWork, ref: str = "42") -> WorkItem:
    found = await outside.standing(REPO, ref)
    assert found is not None
    return found


async def assert_sound(store: Store) -> None:
    assert faults(await store.read(read_ledger, long=True)) == []


async def told(views: Views, found: WorkItem) -> list[tuple[str, str | None]]:
    events = (await views.detail(found.id)).events
    return [(str(event.type).removeprefix("work."), event.reason) for event in events]


# not granted


async def test_what_was_not_granted_can_be_taken_as_if_nothing_had_been(
    outside: OutsideWork, store: Store, views: Views
) -> None:
    for number in range(1, 10):  # more often than it may be attempted
        await take(outside, number)
        await outside.give_back(firing(number).firing_id, "already_claimed")
    got = await take(outside, 10)
    assert (got.item.attempts, got.item.epoch) == (1, 10)
    assert (await told(views, got.item))[3] == ("released", "already_claimed")
    await assert_sound(store)


async def test_the_token_of_what_was_not_granted_is_worth_nothing(
    outside: OutsideWork, queue: WorkQueue
) -> None:
    got = await take(outside)
    await outside.give_back(firing().firing_id, "tracker_error")
    with pytest.raises(ClaimLost):
        await queue.heartbeat(got.item.id, got.claim.token)


@pytest.mark.parametrize("swept", [False, True], ids=["lapsed", "lapsed and swept"])
async def test_it_was_no_attempt_also_when_its_lease_has_lapsed_meanwhile(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock, swept: bool
) -> None:
    await take(outside)
    clock.advance(LEASE)
    if swept:
        await ledger.sweeper.tick()
    await outside.give_back(firing().firing_id, "tracker_error")
    back = await item(outside)
    assert (back.status, back.attempts, back.claim_token) == (Status.QUEUED, 0, None)
    for _ in range(2):
        await outside.give_back(firing().firing_id, "again")
    assert (await item(outside)) == back
    await assert_sound(store)


async def test_what_is_given_back_twice_takes_no_other_attempt_back(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    await take(outside, 1)
    clock.advance(LEASE)
    await ledger.sweeper.tick()  # that was one
    await take(outside, 2)
    for _ in range(2):
        await outside.give_back(firing(2).firing_id, "already_claimed")
        assert (await item(outside)).attempts == 1


async def test_what_somebody_has_taken_since_is_not_given_back(
    outside: OutsideWork, store: Store, clock: ManualClock
) -> None:
    await take(outside, 1)
    clock.advance(LEASE)
    second = await take(outside, 2, "selina")
    await outside.give_back(firing(1).firing_id, "tracker_error")
    still_theirs = await item(outside)
    assert replace(still_theirs, attempts=2) == second.item
    assert still_theirs.attempts == 1, "the first was none"
    (still,) = await outside.open_claims(REPO)
    assert (still.codename, still.live) == ("selina", True)
    await assert_sound(store)


async def test_of_attempts_that_a_retry_has_forgotten_none_is_taken_back(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    got = await take(outside, 1, max_attempts=1)
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    await ledger.queue.apply(order(Verb.RETRY, got.item.id))
    await take(outside, 2, max_attempts=1)
    await outside.give_back(firing(1).firing_id, "tracker_error")
    assert (await item(outside)).attempts == 1


@pytest.mark.parametrize("earlier", [False, True], ids=["the last", "one before"])
async def test_what_failed_for_want_of_an_attempt_that_was_none_goes_back_to_the_queue(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock, earlier: bool
) -> None:
    for number in (1, 2):
        await take(outside, number, max_attempts=2)
        clock.advance(LEASE)
        await ledger.sweeper.tick()
    failed = await item(outside)
    assert (failed.status, failed.reason) == (Status.FAILED, "attempts_exhausted")
    not_granted = firing(1 if earlier else 2).firing_id
    for _ in range(2):
        await outside.give_back(not_granted, "already_claimed")
        back = await item(outside)
        assert (back.id, back.status, back.attempts) == (failed.id, Status.QUEUED, 1)
        assert (back.outcome, back.completed_at, back.assigned_agent) == (None, None, None)
    assert (await told(ledger.views, back))[-1] == ("retried", "already_claimed")
    last = await take(outside, 3, max_attempts=2)
    assert (last.item.id, last.item.attempts) == (failed.id, 2)
    await assert_sound(store)


async def test_what_failed_is_not_brought_back_beside_another_that_stands_for_it(
    ledger: Ledger, outside: OutsideWork, store: Store, clock: ManualClock
) -> None:
    got = await take(outside, max_attempts=1)
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    twin = await ledger.queue.submit(issue())
    await outside.give_back(firing().firing_id, "already_claimed")
    assert (await ledger.views.item(got.item.id)).status is Status.FAILED
    assert (await item(outside)).id == twin.id
    await assert_sound(store)


async def test_what_was_finished_since_is_not_given_back(
    outside: OutsideWork, queue: WorkQueue
) -> None:
    got = await take(outside)
    done = await queue.complete(got.item.id, token=got.claim.token)
    await outside.give_back(firing().firing_id, "tracker_error")
    after = await item(outside)
    assert (after.status, after.attempts) == (done.status, 1)


async def test_who_gives_back_what_nobody_took_changes_nothing(
    outside: OutsideWork, store: Store
) -> None:
    await take(outside)
    before = await store.read(read_ledger, long=True)
    await outside.give_back("ghost", "tracker_error")
    assert await store.read(read_ledger, long=True) == before
    for why in ("", "x" * 10_000, "a\0b"):
        with pytest.raises(InvalidInput):
            await outside.give_back(firing().firing_id, why)
    assert await store.read(read_ledger, long=True) == before


async def test_of_many_who_give_back_one_claim_one_does(
    store: Store, another_store: OpenStore
) -> None:
    sides = [OutsideWork(store), OutsideWork(await another_store())]
    await take(sides[0])
    name = firing().firing_id
    await asyncio.gather(*(sides[n % 2].give_back(name, f"reason-{n}") for n in range(6)))
    assert (await item(sides[0])).attempts == 0
    await assert_sound(store)


# ends that the source knew first


async def lapsed(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.sweeper.tick()


async def held(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.sweeper.tick()
    await ledger.outside.mirror([Mirrored(issue(), "it carries the label")])


async def named_for_another(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.sweeper.tick()
    change = order(Verb.RELEASE, got.item.id)
    await ledger.queue.change(change, None, {"assigned_agent": "selina"})


async def agent_paused(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.sweeper.tick()
    await ledger.queue.set_agent("lucius", paused=True)


async def waits_for_another(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.sweeper.tick()
    other = await ledger.queue.submit(NewItem("chore", "first this"))
    change = order(Verb.RELEASE, got.item.id)
    await ledger.queue.change(change, None, {}, blocked_by=(other.id,))


async def released_by_force(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.queue.apply(order(Verb.RELEASE, got.item.id, force=True))


async def failed(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.queue.apply(order(Verb.FAIL, got.item.id, force=True))


async def blocked(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.queue.apply(order(Verb.BLOCK, got.item.id, force=True))


async def in_review(ledger: Ledger, got: ClaimedItem) -> None:
    await ledger.queue.apply(order(Verb.HAND_OVER, got.item.id, force=True))


async def untouched(ledger: Ledger, got: ClaimedItem) -> None:
    return


MEANWHILE = (
    lapsed, held, named_for_another, agent_paused, waits_for_another, released_by_force, failed,
    blocked, in_review, untouched,
)  # fmt: skip


@pytest.mark.parametrize("happened", MEANWHILE)
async def test_a_success_is_recorded_whatever_has_become_of_the_item(
    ledger: Ledger,
    outside: OutsideWork,
    store: Store,
    clock: ManualClock,
    happened: Callable[[Ledger, ClaimedItem], Awaitable[None]],
) -> None:
    got = await take(outside)
    clock.advance(LEASE)
    await happened(ledger, got)
    assert await outside.finished(firing().firing_id, "late") is True
    done = await item(outside)
    assert (done.id, done.status, done.outcome) == (got.item.id, Status.COMPLETED, "success")
    assert (done.reason, done.claim_token) == ("late", None)
    assert await outside.finished(firing().firing_id, "late") is False
    assert await item(outside) == done
    await assert_sound(store)


@pytest.mark.parametrize("outcome", ["failure", "partial"])
@pytest.mark.parametrize("happened", [lapsed, held, released_by_force, untouched])
async def test_a_failure_is_recorded_so_that_nobody_takes_it_again(
    ledger: Ledger,
    outside: OutsideWork,
    clock: ManualClock,
    happened: Callable[[Ledger, ClaimedItem], Awaitable[None]],
    outcome: Any,
) -> None:
    status = {"failure": Status.FAILED, "partial": Status.BLOCKED}[outcome]
    got = await take(outside)
    clock.advance(LEASE)
    await happened(ledger, got)
    assert await outside.finished(firing().firing_id, "late", outcome) is True
    ended = await item(outside)
    assert (ended.status, ended.reason) == (status, "late")
    assert await outside.finished(firing().firing_id, "late", outcome) is False
    assert await item(outside) == ended


@pytest.mark.parametrize("outcome", ["failure", "partial"])
@pytest.mark.parametrize("happened", [failed, in_review])
async def test_a_failure_takes_nothing_back(
    ledger: Ledger,
    outside: OutsideWork,
    happened: Callable[[Ledger, ClaimedItem], Awaitable[None]],
    outcome: Any,
) -> None:
    got = await take(outside)
    await happened(ledger, got)
    before = await item(outside)
    assert await outside.finished(firing().firing_id, "late", outcome) is False
    assert await item(outside) == before


async def test_what_was_cancelled_stays_so(
    outside: OutsideWork, queue: WorkQueue, clock: ManualClock
) -> None:
    got = await take(outside)
    await queue.apply(order(Verb.RELEASE, got.item.id, force=True))
    await queue.apply(order(Verb.CANCEL, got.item.id))
    assert await outside.finished(firing().firing_id, "late") is False
    assert (await item(outside)).status is Status.CANCELLED


async def test_the_log_tells_a_late_end_by_the_usual_moves(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    got = await take(outside)
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    await outside.finished(firing().firing_id, "late")
    assert (await told(ledger.views, got.item))[-4:] == [
        ("released", "lease_expired"),
        ("dispatched", "late"),
        ("started", "late"),
        ("completed", "late"),
    ]
    detail = await ledger.views.detail(got.item.id)
    assert [(row.agent, row.outcome) for row in detail.dispatch_log] == [
        ("lucius", "released"), ("lucius", "success"),
    ]  # fmt: skip


async def test_a_late_end_sets_free_what_waits_for_it(
    ledger: Ledger, outside: OutsideWork, clock: ManualClock
) -> None:
    got = await take(outside)
    waiting = await ledger.queue.submit(NewItem("chore", "then this", blocked_by=(got.item.id,)))
    clock.advance(LEASE)
    await ledger.sweeper.tick()
    await outside.finished(firing().firing_id, "late")
    assert (await ledger.views.item(waiting.id)).open_blockers == 0


@pytest.mark.parametrize("word", ["finished", "given back"])
async def test_a_late_word_does_not_end_the_claim_of_who_takes_it_at_that_moment(
    store: Store, another_store: OpenStore, clock: ManualClock, word: str
) -> None:
    """Twenty times, for on PostgreSQL it is a matter of luck who is first."""
    sides = [OutsideWork(store), OutsideWork(await another_store())]
    names = [firing(n).firing_id for n in range(20)]
    for n in range(20):
        await sides[0].take(issue(str(n)), f"first-{n}", LEASE, firing(n))
    clock.advance(LEASE)

    async def say(name: str) -> None:
        if word == "finished":
            await sides[0].finished(name, "late")
        else:
            await sides[0].give_back(name, "late")

    async def take_again(n: int) -> ClaimedItem:
        name = f"second-{n}"
        while True:
            with contextlib.suppress(ClaimedByAnother):  # somebody sweeps it at this moment
                return await sides[1].take(issue(str(n)), name, LEASE, firing(100 + n, name))

    said = [asyncio.ensure_future(say(name)) for name in names]
    taken = await asyncio.gather(*map(take_again, range(20)))
    await asyncio.gather(*said)
    live = {one.codename for one in await sides[0].open_claims(REPO) if one.live}
    assert len(live) == len(taken) == 20
    await assert_sound(store)


# what waits, and who we are


async def test_what_waits_is_what_is_queued_of_that_source(
    ledger: Ledger, outside: OutsideWork
) -> None:
    await outside.mirror(
        [Mirrored(issue("1")), Mirrored(issue("2"), "held"), Mirrored(issue("3", source=OTHER))]
    )
    got = await outside.take(issue("4"), "lucius", LEASE, firing())
    await ledger.queue.submit(NewItem("chore", "ours"))
    assert sorted(await outside.waiting(REPO)) == ["1", "2"]
    await outside.give_back(firing().firing_id, "already_claimed")
    assert sorted(await outside.waiting(REPO)) == ["1", "2", "4"]
    assert await outside.waiting("github:nobody/here") == []
    await ledger.queue.apply(order(Verb.CANCEL, got.item.id))
    assert sorted(await outside.waiting(REPO)) == ["1", "2"]


async def test_what_came_after_the_listing_has_not_left(outside: OutsideWork) -> None:
    await outside.mirror([Mirrored(issue(ref)) for ref in ("1", "2")])
    listed = await outside.waiting(REPO)
    await outside.mirror([Mirrored(issue("3"))])
    gone = await outside.gone(REPO, ["1"], among=listed)
    assert gone == [(await item(outside, "2")).id]
    assert (await item(outside, "3")).status is Status.QUEUED
    assert await outside.gone(REPO, ["1"]) == [(await item(outside, "3")).id]


async def test_a_fleet_keeps_its_name_for_ever(
    outside: OutsideWork, another_store: OpenStore
) -> None:
    name = await outside.fleet()
    assert name == await outside.fleet()
    assert name == await OutsideWork(await another_store()).fleet()
    assert not set(name) & set(' \t\n>"'), "it stands in a claim's marker"
