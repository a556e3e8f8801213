"""Every verb from every status, on both databases: what it changes, writes, needs and refuses."""

from dataclasses import replace
from typing import Any

import pytest

from rota.model.errors import (
    ClaimedByAnother,
    ClaimLost,
    InvalidInput,
    MissingRequirement,
    NoFreeSlot,
    NotFound,
    Refused,
    TransitionRefused,
    VersionMismatch,
)
from rota.model.status import Status, Verb
from rota.model.work import WorkItem
from rota.queue import Ledger, WorkQueue
from rota.queue.views import Views
from rota.storage.port import Store
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.standing import NEEDS, bring_to, order

S = Status
# (from, verb) to the status it leads to; what is not here is refused.
TABLE = {
    (S.QUEUED, Verb.DISPATCH): S.DISPATCHED,
    (S.QUEUED, Verb.CANCEL): S.CANCELLED,
    (S.DISPATCHED, Verb.START): S.IN_PROGRESS,
    (S.DISPATCHED, Verb.RELEASE): S.QUEUED,
    (S.DISPATCHED, Verb.CANCEL): S.CANCELLED,
    (S.IN_PROGRESS, Verb.COMPLETE): S.COMPLETED,
    (S.IN_PROGRESS, Verb.FAIL): S.FAILED,
    (S.IN_PROGRESS, Verb.BLOCK): S.BLOCKED,
    (S.IN_PROGRESS, Verb.HAND_OVER): S.IN_REVIEW,
    (S.IN_PROGRESS, Verb.RELEASE): S.QUEUED,
    (S.BLOCKED, Verb.RESUME): S.IN_PROGRESS,
    (S.BLOCKED, Verb.RELEASE): S.QUEUED,
    (S.BLOCKED, Verb.FAIL): S.FAILED,
    (S.IN_REVIEW, Verb.COMPLETE): S.COMPLETED,
    (S.IN_REVIEW, Verb.REOPEN): S.QUEUED,
    (S.FAILED, Verb.RETRY): S.QUEUED,
}
EVENT = {
    Verb.DISPATCH: "work.dispatched",
    Verb.START: "work.started",
    Verb.COMPLETE: "work.completed",
    Verb.FAIL: "work.failed",
    Verb.BLOCK: "work.blocked",
    Verb.RESUME: "work.resumed",
    Verb.HAND_OVER: "work.handed_over",
    Verb.RELEASE: "work.released",
    Verb.REOPEN: "work.reopened",
    Verb.RETRY: "work.retried",
    Verb.CANCEL: "work.cancelled",
}
# How the open row of the dispatch log is closed, where there is one.
CLOSES = {
    Verb.COMPLETE: "success",
    Verb.FAIL: "failed",
    Verb.CANCEL: "cancelled",
    Verb.RELEASE: "released",
    Verb.REOPEN: "released",
}
ENTERS_WORK = {Verb.START, Verb.RESUME}
DROPS_AGENT = {Verb.RELEASE, Verb.REOPEN, Verb.RETRY}


def expected(before: WorkItem, verb: Verb, target: Status, now: str, agent: str) -> WorkItem:
    """The row after the move: what is not named here stays as it was."""
    outcome: Any = {S.COMPLETED: "success", S.FAILED: "failed", S.CANCELLED: "cancelled"}
    after = replace(
        before,
        status=target,
        came_from=before.status,
        reason=str(verb),
        updated_at=now,
        completed_at=now if target in outcome else None,
        outcome=outcome.get(target),
        slot=0 if target is S.IN_PROGRESS else None,
        version=before.version + 1,
    )
    if verb is Verb.DISPATCH:
        after.assigned_agent = agent
    if verb in DROPS_AGENT:
        after.assigned_agent = None
    if verb in ENTERS_WORK:
        after.epoch += 1
        after.attempts += 1
    if verb is Verb.RETRY:
        after.attempts = 0
    if verb is Verb.BLOCK:
        after.notes = NEEDS[verb]["notes"]
    if verb is Verb.HAND_OVER:
        after.artifact_url = NEEDS[verb]["artifact_url"]
    return after


@pytest.mark.parametrize("verb", Verb)
async def test_a_verb_leads_from_where_the_table_says_and_from_nowhere_else(
    queue: WorkQueue, views: Views, store: Store, clock: ManualClock, verb: Verb
) -> None:
    for status in Status:
        agent = f"agent-{status.replace('_', '-')}"
        before = await bring_to(queue, status, agent)
        history = await views.detail(before.id)
        clock.advance(1)
        values = {"agent": agent} if verb is Verb.DISPATCH else {}
        asked = order(verb, before.id, **values)
        if (status, verb) not in TABLE:
            with pytest.raises(TransitionRefused) as refused:
                await queue.apply(asked)
            assert refused.value.details["status"] == status
            allowed = {str(target) for (source, _), target in TABLE.items() if source is status}
            assert set(refused.value.details["allowed"]) == allowed
            assert await views.detail(before.id) == history, status
            continue
        target = TABLE[status, verb]
        moved = (await queue.apply(asked)).item
        assert moved == expected(before, verb, target, clock.text(), agent), status
        after = await views.detail(before.id)
        assert after.item == moved
        (event,) = after.events[len(history.events) :]
        assert (event.type, event.from_status, event.to_status) == (EVENT[verb], status, target)
        assert (event.actor, event.reason, event.occurred_at) == ("tester", verb, clock.text())
        assert (event.epoch, event.agent) == (moved.epoch, moved.assigned_agent)
        assert event.data.get("outcome") == moved.outcome
        assert event.data.get("notes") == asked.notes
        assert event.data.get("artifact_url") == asked.artifact_url
        log = [(d.agent, d.completed_at, d.outcome) for d in history.dispatch_log]
        if verb is Verb.DISPATCH:
            log.append((agent, None, None))
        elif verb in CLOSES and log:
            log[-1] = (log[-1][0], clock.text(), CLOSES[verb])
        assert [(d.agent, d.completed_at, d.outcome) for d in after.dispatch_log] == log
    assert faults(await store.read(read_ledger, long=True)) == []


@pytest.mark.parametrize("source", Status)
async def test_a_pair_of_statuses_names_the_verb_of_a_patch(
    queue: WorkQueue, views: Views, store: Store, source: Status
) -> None:
    for target in Status:
        agent = f"agent-{target.replace('_', '-')}"
        before = await bring_to(queue, source, agent)
        verbs = [verb for (a, verb), b in TABLE.items() if (a, b) == (source, target)]
        values = NEEDS.get(verbs[0], {}) if verbs else {}
        asked = order(Verb.RELEASE, before.id, **values)  # the verb is a placeholder
        if verbs:
            assert (await queue.change(asked, target, {})).item.status is target
            assert (await views.detail(before.id)).events[-1].type == EVENT[verbs[0]]
        else:
            with pytest.raises(TransitionRefused):
                await queue.change(asked, target, {})
            assert await views.item(before.id) == before
    assert faults(await store.read(read_ledger, long=True)) == []


@pytest.mark.parametrize(
    ("verb", "field"),
    [
        (Verb.COMPLETE, "outcome"),
        (Verb.FAIL, "outcome"),
        (Verb.BLOCK, "notes"),
        (Verb.HAND_OVER, "artifact_url"),
        (Verb.DISPATCH, "assigned_agent"),
    ],
)
async def test_a_verb_says_what_it_needs(
    queue: WorkQueue, views: Views, verb: Verb, field: str
) -> None:
    source = next(status for status, one in TABLE if one is verb)
    before = await bring_to(queue, source)
    history = await views.detail(before.id)
    missing = {"agent": None} if verb is Verb.DISPATCH else {field: None}
    with pytest.raises(MissingRequirement) as refused:
        await queue.apply(order(verb, before.id, **missing))
    assert refused.value.details["field"] == field
    with pytest.raises(MissingRequirement):
        await queue.change(order(verb, before.id, **missing), TABLE[source, verb], {})
    assert await views.detail(before.id) == history


async def test_dispatch_needs_no_name_where_the_item_has_one(queue: WorkQueue) -> None:
    item = await bring_to(queue, S.QUEUED, assigned_agent="bob")
    moved = await queue.apply(order(Verb.DISPATCH, item.id, agent=None))
    assert (moved.item.status, moved.item.assigned_agent) == (S.DISPATCHED, "bob")


@pytest.mark.parametrize(
    ("verb", "outcome"),
    [
        (Verb.COMPLETE, "failed"),
        (Verb.COMPLETE, "cancelled"),
        (Verb.FAIL, "success"),
        (Verb.RELEASE, "success"),
        (Verb.BLOCK, "failed"),
        (Verb.CANCEL, "success"),
        (Verb.COMPLETE, "partial"),
        (Verb.COMPLETE, "Success"),
    ],
)
async def test_an_outcome_that_does_not_fit_is_refused(
    queue: WorkQueue, views: Views, verb: Verb, outcome: str
) -> None:
    source = next(status for status, one in TABLE if one is verb)
    before = await bring_to(queue, source)
    with pytest.raises(InvalidInput) as refused:
        await queue.apply(order(verb, before.id, outcome=outcome))
    assert refused.value.details["field"] == "outcome"
    assert await views.item(before.id) == before


async def test_failure_as_runs_say_it_is_failed(queue: WorkQueue) -> None:
    item = await bring_to(queue, S.IN_PROGRESS)
    assert (
        await queue.apply(order(Verb.FAIL, item.id, outcome="failure"))
    ).item.outcome == "failed"


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://example.org/x", "https://", "javascript:x"])
async def test_an_artifact_has_a_web_address(queue: WorkQueue, url: str) -> None:
    item = await bring_to(queue, S.IN_PROGRESS)
    with pytest.raises(InvalidInput) as refused:
        await queue.apply(order(Verb.HAND_OVER, item.id, artifact_url=url))
    assert refused.value.details["field"] == "artifact_url"


@pytest.mark.parametrize("verb", Verb)
async def test_a_verb_on_an_item_that_is_not_there(queue: WorkQueue, verb: Verb) -> None:
    with pytest.raises(NotFound):
        await queue.apply(order(verb, "0190a000-0000-7000-8000-000000000000"))


@pytest.mark.parametrize("verb", Verb)
async def test_a_verb_at_a_version_that_has_passed(
    queue: WorkQueue, views: Views, verb: Verb
) -> None:
    source = next(status for status, one in TABLE if one is verb)
    before = await bring_to(queue, source)
    for version in (before.version - 1, before.version + 1):
        with pytest.raises(VersionMismatch) as refused:
            await queue.apply(order(verb, before.id, version=version))
        assert refused.value.details["version"] == before.version
    assert await views.item(before.id) == before
    moved = await queue.apply(order(verb, before.id, version=before.version))
    assert moved.item.version == before.version + 1


async def test_only_the_one_who_holds_the_dispatch_may_start_it(
    queue: WorkQueue, views: Views
) -> None:
    before = await bring_to(queue, S.DISPATCHED, "ada")
    with pytest.raises(Refused, match="ada"):
        await queue.apply(order(Verb.START, before.id, agent="bob"))
    assert await views.item(before.id) == before
    assert (await queue.apply(order(Verb.START, before.id, agent="ada"))).item.slot == 0


async def test_what_keeps_an_item_from_a_claim_keeps_it_from_a_start(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    blocker = await bring_to(queue, S.QUEUED)
    held = await bring_to(queue, S.DISPATCHED, "ada")
    stuck = await bring_to(queue, S.BLOCKED, "ada")
    for item in (held, stuck):
        await queue.hold(item.id, "not now")
    early = await bring_to(queue, S.DISPATCHED, "ada", available_at=clock.text(60))
    waits = await bring_to(queue, S.DISPATCHED, "ada", blocked_by=(blocker.id,))
    for item, verb, why in (
        (held, Verb.START, f"rota unhold {held.id}"),
        (stuck, Verb.RESUME, f"rota unhold {stuck.id}"),
        (early, Verb.START, "not available before"),
        (waits, Verb.START, f"waits for {blocker.id}"),
    ):
        before = await views.item(item.id)
        with pytest.raises(Refused, match=why):
            await queue.apply(order(verb, item.id))
        assert await views.item(item.id) == before
    clock.advance(60)
    assert (await queue.apply(order(Verb.START, early.id))).item.status is S.IN_PROGRESS
    await queue.apply(order(Verb.COMPLETE, early.id))
    assert (await queue.apply(order(Verb.START, held.id, force=True))).item.slot == 0


@pytest.mark.parametrize(("verb", "source"), [(Verb.START, S.DISPATCHED), (Verb.RESUME, S.BLOCKED)])
async def test_a_full_agent_cannot_begin_another_item(
    queue: WorkQueue, views: Views, verb: Verb, source: Status
) -> None:
    waiting = await bring_to(queue, source, "ada")
    other = await bring_to(queue, S.IN_PROGRESS, "ada")
    with pytest.raises(NoFreeSlot) as refused:
        await queue.apply(order(verb, waiting.id))
    assert refused.value.details == {"agent": "ada", "max_concurrent": 1}
    assert await views.item(waiting.id) == waiting
    await queue.set_agent("ada", max_concurrent=2)
    assert (await queue.apply(order(verb, waiting.id))).item.slot == 1
    await queue.apply(order(Verb.COMPLETE, other.id))
    third = await bring_to(queue, S.IN_PROGRESS, "ada")
    assert third.slot == 0


async def claimed(queue: WorkQueue, agent: str = "ada") -> tuple[WorkItem, str]:
    item = await bring_to(queue, S.DISPATCHED, agent)
    moved = await queue.apply(order(Verb.START, item.id, lease=queue.lease(60)))
    assert moved.claim is not None
    return moved.item, moved.claim.token


HOLDERS = [verb for status, verb in TABLE if status is S.IN_PROGRESS]


@pytest.mark.parametrize("verb", HOLDERS)
async def test_a_claimed_item_moves_by_its_token_only(
    queue: WorkQueue, views: Views, store: Store, verb: Verb
) -> None:
    item, token = await claimed(queue)
    standing = await views.item(item.id)
    with pytest.raises(ClaimedByAnother):
        await queue.apply(order(verb, item.id))
    with pytest.raises(ClaimLost):
        await queue.apply(order(verb, item.id, token="not-the-token"))
    assert await views.item(item.id) == standing
    moved = (await queue.apply(order(verb, item.id, token=token))).item
    assert moved.status is TABLE[S.IN_PROGRESS, verb]
    detail = await views.detail(item.id)
    assert detail.claim is None
    kept = await store.read(lambda tx: tx.find_claim(item.id, token))
    assert kept is not None
    assert kept.live is False


@pytest.mark.parametrize("verb", HOLDERS)
async def test_force_ends_the_claim(queue: WorkQueue, views: Views, verb: Verb) -> None:
    item, token = await claimed(queue)
    moved = (await queue.apply(order(verb, item.id, force=True))).item
    assert moved.status is TABLE[S.IN_PROGRESS, verb]
    assert (await views.detail(item.id)).claim is None
    with pytest.raises(ClaimLost):
        await queue.heartbeat(item.id, token)


async def test_force_does_not_bend_the_table(queue: WorkQueue) -> None:
    item = await bring_to(queue, S.QUEUED)
    with pytest.raises(TransitionRefused):
        await queue.apply(order(Verb.COMPLETE, item.id, force=True))


@pytest.mark.parametrize(("verb", "source"), [(Verb.START, S.DISPATCHED), (Verb.RESUME, S.BLOCKED)])
async def test_an_item_can_be_started_with_a_lease(
    ledger: Ledger, store: Store, clock: ManualClock, verb: Verb, source: Status
) -> None:
    item = await bring_to(ledger.queue, source)
    moved = await ledger.queue.apply(order(verb, item.id, lease=ledger.queue.lease(60)))
    assert moved.claim is not None
    detail = await ledger.views.detail(item.id)
    assert (detail.claim, detail.item) == (moved.claim, moved.item)
    assert moved.claim.expires_at == clock.text(60)
    assert (detail.item.claim_token, detail.claim.epoch) == (moved.claim.token, item.epoch + 1)
    assert faults(await store.read(read_ledger, long=True)) == []


async def test_a_lease_on_a_verb_that_starts_nothing_is_no_claim(
    queue: WorkQueue, views: Views
) -> None:
    item = await bring_to(queue, S.QUEUED)
    assert (await queue.apply(order(Verb.DISPATCH, item.id, lease=queue.lease(60)))).claim is None
    assert (await views.detail(item.id)).claim is None


async def test_a_reason_stands_in_the_row_and_in_the_event(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, S.IN_PROGRESS)
    moved = await queue.apply(order(Verb.RELEASE, item.id, reason="shut_down"))
    assert moved.item.reason == "shut_down"
    assert (await views.detail(item.id)).events[-1].reason == "shut_down"


async def test_a_release_or_retry_can_be_put_off(queue: WorkQueue, clock: ManualClock) -> None:
    for source, verb in ((S.IN_PROGRESS, Verb.RELEASE), (S.FAILED, Verb.RETRY)):
        item = await bring_to(queue, source)
        later = clock.text(3600)
        moved = (await queue.apply(order(verb, item.id, available_at=later))).item
        assert (moved.deferred, moved.available_at) == (True, later)
        item = await bring_to(queue, source)
        moved = (await queue.apply(order(verb, item.id, available_at=clock.text(-1)))).item
        assert moved.deferred is False


async def test_the_way_round_counts_epochs_and_attempts(
    queue: WorkQueue, views: Views, store: Store
) -> None:
    item = await bring_to(queue, S.IN_PROGRESS)
    seen = [(item.epoch, item.attempts)]
    for verb in (
        Verb.BLOCK, Verb.RESUME, Verb.RELEASE, Verb.DISPATCH, Verb.START, Verb.HAND_OVER,
        Verb.REOPEN, Verb.DISPATCH, Verb.START, Verb.FAIL, Verb.RETRY, Verb.DISPATCH, Verb.START,
        Verb.COMPLETE,
    ):  # fmt: skip
        item = (await queue.apply(order(verb, item.id))).item
        if verb in ENTERS_WORK or verb is Verb.RETRY:
            seen.append((item.epoch, item.attempts))
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4), (4, 0), (5, 1)]
    log = (await views.detail(item.id)).dispatch_log
    assert [one.outcome for one in log] == ["released", "released", "failed", "success"]
    assert faults(await store.read(read_ledger, long=True)) == []
