"""Every promise of `rota.storage.run_port` on both databases, and what the tables hold."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import apsw
import psycopg
import pytest

from rota.model.claims import ClaimRequest
from rota.model.errors import ClaimLost, CommitUnknown, StorageUnavailable
from rota.model.events import EventType
from rota.model.fleet import AgentSpec, Breaker
from rota.model.runs import AgentLimits, Run, RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.runner.records import RunBook
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock
from rota.testing.store_contract.runs import RunVerbsContract, begun, ended, letter, posted
from tests.contract.conftest import Sql

REFUSED = (apsw.Error, psycopg.Error)
LIMITED = (EventType.USAGE_LIMITED, EventType.BREAKER_OPENED)


class TestRunVerbs(RunVerbsContract):
    pass


async def test_an_ended_run_cannot_be_changed_past_the_verbs(store: Store, sql: Sql) -> None:
    run = await begun(store)
    await ended(store, run, RunEnd(RunStatus.FAILED))
    with pytest.raises(REFUSED, match="a run ends once"):
        sql("UPDATE runs SET status = 'succeeded' WHERE id = :id", id=run.id)


async def test_a_run_that_goes_on_has_no_end(store: Store, sql: Sql) -> None:
    run = await begun(store)
    for change in ("status = 'failed'", "ended_at = started_at", "status = 'done'"):
        with pytest.raises(REFUSED):
            sql(f"UPDATE runs SET {change} WHERE id = :id", id=run.id)


async def test_a_letter_is_delivered_or_given_up_but_not_both(store: Store, sql: Sql) -> None:
    await posted(store, letter("1"))
    with pytest.raises(REFUSED):
        sql("UPDATE outbox SET delivered_at = 'x', failed_at = 'x' WHERE id = '1'")


@pytest.mark.parametrize(("place", "is_dead"), [("here", True), ("elsewhere", False)])
async def test_a_silent_node_of_another_place_keeps_what_its_claim_keeps(
    store: Store, ledger: Ledger, clock: ManualClock, place: str, is_dead: bool
) -> None:
    """It may only be cut off from the database, with its agent at work."""
    await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    (claimed,) = (await ledger.queue.claim(ClaimRequest("ada"))).items
    node = Node("old", place, 1, clock.text(), clock.text())
    await store.transact(lambda tx: tx.put_node(node))
    there = Ledger.on(store, node="old").runs
    run = await there.begin("ada", TriggerKind.MANUAL, item=claimed.item)
    clock.advance(120)
    await store.transact(lambda tx: tx.end_node("old", clock.text()))

    async def dead() -> list[str]:
        found = await store.read(lambda tx: tx.dead_runs(clock.text(-60), "here", "new"))
        return [one.id for one in found]

    assert await dead() == ([run.id] if is_dead else [])
    await ledger.queue.complete(claimed.item.id, token=claimed.claim.token)
    assert await dead() == [run.id]


async def test_no_run_begins_with_a_claim_that_has_ended_meanwhile(
    ledger: Ledger, clock: ManualClock
) -> None:
    await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    (first,) = (await ledger.queue.claim(ClaimRequest("ada"))).items
    clock.advance(first.claim.lease_seconds + 1)
    (second,) = (await ledger.queue.claim(ClaimRequest("ada"))).items
    with pytest.raises(ClaimLost, match="has ended meanwhile"):
        # The item is read after its claim, and may be in other hands by then.
        await ledger.runs.begin_once(first.claim, second.item, schedule=None, node="w")
    assert await ledger.runs.find() == []
    assert await ledger.views.item(second.item.id) == second.item


async def test_a_claim_has_one_run_however_often_it_is_begun(ledger: Ledger) -> None:
    await ledger.queue.submit(NewItem("chore", "Mend the gate"))
    (got,) = (await ledger.queue.claim(ClaimRequest("ada"))).items
    first = await ledger.runs.begin_once(got.claim, got.item, schedule=None, node="w")
    again = await ledger.runs.begin_once(got.claim, got.item, schedule=None, node="w")
    assert (first[1], again) == (True, (first[0], False))
    assert await ledger.runs.find() == [first[0]]


async def test_a_run_that_has_ended_does_not_end_again(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    """Nobody fails twice by it, and of the second end nothing is told."""
    agent = AgentSpec("ada", breaker=Breaker(9, timedelta(hours=1)))
    run = await ledger.runs.begin("ada", TriggerKind.MANUAL)
    first = await ledger.runs.end(run, FAILED, agent)
    assert await ledger.runs.end(run, FAILED, agent, [letter("1")]) is None
    assert await ledger.runs.get(run.id) == first
    limits = await store.read(lambda tx: tx.get_limits("ada"))
    assert limits is not None
    assert limits.failures == 1
    assert await store.read(lambda tx: tx.next_post()) is None
    events = await store.read(lambda tx: tx.events_after(0, 1000))
    assert [one.type for one in events].count(EventType.RUN_FINISHED) == 1


async def test_an_end_that_was_asked_for_elsewhere_is_found(
    another_store: Callable[[], Awaitable[Store]], ledger: Ledger
) -> None:
    other = Ledger.on(await another_store(), node="elsewhere").runs
    run = await ledger.runs.begin("ada", TriggerKind.MANUAL)
    stays = await ledger.runs.begin("ada", TriggerKind.MANUAL)
    await other.cancel(run.id)
    assert not ledger.runs.asked(run).is_set()
    assert await ledger.runs.look_for_cancels() == 2
    assert (ledger.runs.asked(run).is_set(), ledger.runs.asked(stays).is_set()) == (True, False)
    await ledger.runs.end(run, FAILED)
    assert await ledger.runs.look_for_cancels() == 1


async def test_a_run_over_which_the_clock_was_put_back_took_no_time(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    """And gives nothing back to a budget."""
    run = await ledger.runs.begin("ada", TriggerKind.MANUAL)
    there = Ledger.on(store, node="old").runs
    left = await there.begin("ada", TriggerKind.MANUAL)
    ahead = Node("old", "here", 1, clock.text(), clock.text(900))
    clock.advance(-3600)
    ended_now = await ledger.runs.end(run, FAILED)
    assert ended_now is not None
    assert ended_now.seconds == 0.0
    await store.transact(lambda tx: tx.put_node(ahead))
    (lost,) = await ledger.runs.bury("here", clock.text(-60))
    assert (lost.id, lost.seconds) == (left.id, 0.0)


async def test_a_lost_run_lasted_until_its_server_was_last_seen(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    """What it costs of a budget ends there: nobody ran anything while no server was up."""
    begun_at = clock.text()
    there = Ledger.on(store, node="old").runs
    run = await there.begin("ada", TriggerKind.MANUAL)
    clock.advance(5)
    node = Node("old", "here", 1, begun_at, clock.text())
    await store.transact(lambda tx: tx.put_node(node))
    clock.advance(3600)
    (lost,) = await ledger.runs.bury("here", clock.text(-60))
    assert (lost.id, lost.status, lost.seconds) == (run.id, RunStatus.LOST, 5.0)
    assert lost.ended_at == clock.text()


async def test_a_run_says_since_when_its_server_is_not_seen(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    runs = ledger.runs
    for name in ("alive", "silent", "left"):
        await store.transact(
            lambda tx, name=name: tx.put_node(Node(name, name, 1, clock.text(), clock.text()))
        )
    begun_there = {
        name: await Ledger.on(store, node=name).runs.begin("ada", TriggerKind.MANUAL)
        for name in ("alive", "silent", "left", "a worker elsewhere")
    }

    async def unseen(those: dict[str, Run]) -> dict[str, str]:
        found = {name: (await runs.get(run.id)).unseen_since for name, run in those.items()}
        return {name: since for name, since in found.items() if since}

    over = await Ledger.on(store, node="left").runs.begin("ada", TriggerKind.MANUAL)
    await runs.end(over, FAILED)
    since = clock.text()
    clock.advance(15)
    await store.transact(lambda tx: tx.see_node("alive", clock.text()))
    assert await unseen(begun_there) == {}
    await store.transact(lambda tx: tx.end_node("left", clock.text()))
    assert await unseen(begun_there) == {"left": since}
    clock.advance(1)
    assert await unseen(begun_there) == {"left": since, "silent": since}
    assert (await runs.get(over.id)).unseen_since is None


async def test_a_lost_run_is_told_once_and_its_late_end_changes_nothing(
    store: Store, another_store: Callable[[], Awaitable[Store]], ledger: Ledger, clock: ManualClock
) -> None:
    """Two servers bury it, and then its own server turns out to have been alive."""
    dead = Ledger.on(store, node="old").runs
    run = await dead.begin("ada", TriggerKind.MANUAL)
    node = Node("old", "here", 1, clock.text(), clock.text())
    await store.transact(lambda tx: tx.put_node(node))
    clock.advance(60)
    books = [ledger.runs, Ledger.on(await another_store(), node="second").runs]
    buried = await asyncio.gather(*(book.bury("here", clock.text()) for book in books))
    assert [one.id for lost in buried for one in lost] == [run.id]
    clock.advance(60)
    late = RunEnd(RunStatus.SUCCEEDED, "all done", usage=Usage(7, 7, 1.0))
    assert await dead.end(run, late, AgentSpec("ada"), [letter("1")]) is None
    kept = await ledger.runs.get(run.id)
    assert (kept.status, kept.ended_at, kept.cost_usd) == (RunStatus.LOST, clock.text(-60), None)
    events = await store.read(lambda tx: tx.events_after(0, 1000))
    (told,) = [one for one in events if one.type == EventType.RUN_FINISHED]
    assert (told.agent, told.reason, told.occurred_at) == ("ada", "lost", clock.text(-60))
    assert told.data["run_id"] == run.id
    assert "cost_usd" not in told.data  # nobody knows it
    assert await store.read(lambda tx: tx.next_post()) is None


async def test_a_log_is_kept_until_nobody_has_written_to_it_for_long(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    logs = tmp_path / "runs"
    logs.mkdir()
    runs = RunBook(store, node="here", logs=logs)
    kept_since = clock.now().timestamp() - 30 * 24 * 3600  # as the documentation says
    old, young, other = runs.log("old"), runs.log("young"), logs / "notes.txt"
    for path, written in ((old, kept_since - 1), (young, kept_since + 1), (other, 0)):
        path.write_text("{}\n")
        os.utime(path, (written, written))
    (logs / "gone.jsonl").symlink_to(logs / "deleted while they are counted")
    assert runs.prune_logs(clock.now()) == 1
    (logs / "gone.jsonl").unlink()
    assert sorted(logs.glob("*")) == sorted([young, other])


FAILED = RunEnd(RunStatus.FAILED, error="no nails left")


async def test_runs_that_fail_at_once_are_all_counted_by_the_breaker(
    store: Store, another_store: Callable[[], Awaitable[Store]], ledger: Ledger, clock: ManualClock
) -> None:
    books = [ledger.runs, Ledger.on(await another_store()).runs]
    agent = AgentSpec("ada", breaker=Breaker(24, timedelta(hours=1)))
    runs = [await ledger.runs.begin("ada", TriggerKind.MANUAL) for _ in range(24)]
    await asyncio.gather(*(books[n % 2].end(run, FAILED, agent) for n, run in enumerate(runs)))
    limits = await store.read(lambda tx: tx.get_limits("ada"))
    assert limits == AgentLimits("ada", 24, clock.text(3600), None, "no nails left")
    events = await store.read(lambda tx: tx.events_after(0, 1000))
    assert [one.type for one in events].count(EventType.BREAKER_OPENED) == 1


async def test_a_quota_that_is_used_up_is_told_once_for_each_time_it_is_back(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    agent = AgentSpec("ada", breaker=Breaker(2, timedelta(hours=1)))
    first, second = clock.text(1800), clock.text(7200)
    refused = [
        RunEnd(RunStatus.FAILED, usage_limit=True, usage_limit_until=until)
        for until in (first, first, second)
    ]
    for end in (*refused, FAILED, FAILED, FAILED):
        await ledger.runs.end(await ledger.runs.begin("ada", TriggerKind.MANUAL), end, agent)
    events = await store.read(lambda tx: tx.events_after(0, 1000))
    told = [(one.type, one.data["until"]) for one in events if one.type in LIMITED]
    assert told == [
        (EventType.USAGE_LIMITED, first),
        (EventType.USAGE_LIMITED, second),
        (EventType.BREAKER_OPENED, clock.text(3600)),
    ]


async def test_who_resumes_an_agent_is_not_overruled_by_a_run_that_ends_at_once(
    store: Store, another_store: Callable[[], Awaitable[Store]], ledger: Ledger, clock: ManualClock
) -> None:
    other = Ledger.on(await another_store()).runs
    agent = AgentSpec("ada", breaker=Breaker(3, timedelta(hours=1)))
    for _ in range(24):
        await store.transact(lambda tx: tx.put_limits(AgentLimits("ada", 9), clock.text()))
        run = await ledger.runs.begin("ada", TriggerKind.MANUAL)
        await asyncio.gather(ledger.admission.resume("ada"), other.end(run, FAILED, agent))
        # Before it or after it, and never as if nobody had resumed.
        limits = await store.read(lambda tx: tx.get_limits("ada"))
        assert limits is not None
        assert limits.failures in (0, 1)


# a beginning whose answer was lost


@pytest.mark.parametrize("was_committed", [True, False])
async def test_a_run_whose_beginning_was_not_answered_begins_once(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, was_committed: bool
) -> None:
    honest, troubles = store.transact, iter([CommitUnknown, StorageUnavailable])

    async def unanswered(body: Callable[[Transaction], object]) -> object:
        trouble = next(troubles, None)
        if trouble is None:
            return await honest(body)
        if trouble is CommitUnknown and was_committed:
            await honest(body)
        raise trouble("the server restarts")

    monkeypatch.setattr("rota.runner.records.RETRY_SECONDS", 0.0)
    monkeypatch.setattr(store, "transact", unanswered)
    run = await ledger.runs.begin("ada", TriggerKind.MANUAL)
    assert next(troubles, None) is None
    assert await ledger.runs.open() == [run]
    events = await store.read(lambda tx: tx.events_after(0, 1000))
    assert [one.type for one in events] == [EventType.RUN_STARTED]
    await ledger.runs.cancel(run.id)
    assert ledger.runs.asked(run).is_set()
    assert await ledger.runs.end(run, FAILED) is not None
    assert await ledger.runs.open() == []


async def test_a_run_that_did_not_begin_for_certain_is_not_tried_for_ever(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(body: Callable[[Transaction], object]) -> object:
        raise StorageUnavailable("the server restarts")

    with monkeypatch.context() as patch:
        patch.setattr(store, "transact", away)
        async with asyncio.timeout(30):
            with pytest.raises(StorageUnavailable):
                await ledger.runs.begin("ada", TriggerKind.MANUAL)
    assert await ledger.runs.find() == []
