"""Reports reach their sources: once, later if need be, and also after a crash."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.app import open_store
from rota.app.chores import Housekeeping
from rota.model.clock import from_text
from rota.model.errors import UnknownWorkSourceError, WorkSourceError
from rota.model.runs import OutboxEntry, RunEnd, RunStatus
from rota.model.schedules import TriggerKind
from rota.model.status import Status
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.runner.records import RunBook
from rota.sources import outbox
from rota.sources.holding import Sourced, Taken, taken_of
from rota.sources.http.errors import TokenError
from rota.sources.local import QueueWorkSource
from rota.sources.manager import WorkSourceManager
from rota.sources.outbox import (
    AT_ONCE,
    FIRST_PAUSE,
    KEPT_DAYS,
    LEFT_SECONDS,
    LONGEST_PAUSE,
    MOST_ATTEMPTS,
    TAKEN_SECONDS,
    Outbox,
    letter,
)
from rota.sources.port import ReleaseOptions, ReleaseResult, WorkResult
from rota.sources.registry import SourceContext, WorkSourceRegistry
from rota.storage.port import Store
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock

AGENT = Sourced("smith", {"type": "moody"})
MENDED = WorkResult("success", "Mended.")
LEASE = 60.0


@dataclass
class Mood:
    """What the sources of a test do when they are told something."""

    error: Exception | None = None
    refuses: bool = False  # to take an item back
    told: list[str] = field(default_factory=list)
    closed: int = 0


class MoodySource(QueueWorkSource):
    """The queue as a source, whose tracker is away when the test wants it."""

    def __init__(self, mood: Mood, ledger: Ledger, agent: str) -> None:
        super().__init__(ledger, agent, lease_seconds=LEASE)
        self._mood = mood

    async def complete_work(self, work_item_id: str, result: WorkResult) -> None:
        self._mood.told.append(result.summary)
        if self._mood.error is not None:
            raise self._mood.error
        await super().complete_work(work_item_id, result)

    async def release_work(
        self,
        work_item_id: str,
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    ) -> ReleaseResult:
        self._mood.told.append(options.reason or "")
        if self._mood.refuses:
            return ReleaseResult(False, "the tracker is away")
        return await super().release_work(work_item_id, options)

    async def aclose(self) -> None:
        self._mood.closed += 1


@dataclass
class Office:
    """A process that delivers."""

    store: Store
    ledger: Ledger
    clock: ManualClock
    sources: WorkSourceManager
    outbox: Outbox

    async def ended(self, said: WorkResult | ReleaseOptions = MENDED) -> OutboxEntry:
        """A run on an item has ended, and its report is written down."""
        await self.ledger.queue.submit(NewItem("chore", "Mend the gate"))
        taken = await self.take()
        item = await self.ledger.views.item(taken.ledger_id or "")
        run = await self.ledger.runs.begin("smith", TriggerKind.SCHEDULE, item=item)
        entry = letter(run, taken, said, self.clock.now())
        assert await self.ledger.runs.end(run, RunEnd(RunStatus.SUCCEEDED), None, [entry])
        return entry

    async def take(self) -> Taken:
        taken = taken_of(AGENT, await self.sources.get_next_work_item(AGENT))
        assert taken is not None
        return taken

    async def works(self, taken: Taken) -> bool:
        """Is this claim the one that stands?"""
        item = await self.ledger.views.item(taken.ledger_id or "")
        return (item.status, item.claim_token) == (Status.IN_PROGRESS, taken.token)

    async def status(self, entry: OutboxEntry) -> Status:
        return (await self.ledger.views.item(entry.subject)).status

    async def waiting(self, *, buried: bool = False) -> list[OutboxEntry]:
        return await self.ledger.post.list(buried=buried)


@asynccontextmanager
async def opened(store: Store, clock: ManualClock, mood: Mood) -> AsyncIterator[Office]:
    ledger = Ledger.on(store, node="here")
    registry = WorkSourceRegistry(list)

    def moody(_config: Mapping[str, Any], context: SourceContext) -> MoodySource:
        return MoodySource(mood, ledger, context.agent or "")

    registry.register("moody", moody)
    context = SourceContext(ledger=ledger, clock=clock)
    async with WorkSourceManager(context, registry=registry) as sources:
        yield Office(store, ledger, clock, sources, Outbox(store, ledger, sources))


@pytest.fixture
def mood() -> Mood:
    return Mood()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "rota.db")
    url: str = request.getfixturevalue("emptied_postgres")
    return url


@pytest.fixture
async def store(database: str, clock: ManualClock) -> AsyncIterator[Store]:
    async with open_store(database, clock) as opened_store:
        yield opened_store


@pytest.fixture
async def office(store: Store, clock: ManualClock, mood: Mood) -> AsyncIterator[Office]:
    async with opened(store, clock, mood) as one:
        yield one


AWAY = WorkSourceError("the tracker is away")


async def test_a_report_is_delivered_at_once_and_once(office: Office, mood: Mood) -> None:
    entry = await office.ended()
    await office.outbox.deliver(entry)
    assert await office.status(entry) is Status.COMPLETED
    await office.outbox.deliver(entry)
    await office.outbox.tick()
    assert mood.told == ["Mended."]
    assert await office.waiting() == []


async def test_an_item_is_given_back_with_its_reason_and_its_time(office: Office) -> None:
    again = office.clock.now() + timedelta(minutes=5)
    entry = await office.ended(
        ReleaseOptions("attempt 1 failed: no disk", add_comment=True, not_before=again)
    )
    await office.outbox.deliver(entry)
    item = await office.ledger.views.item(entry.subject)
    assert (item.status, item.reason) == (Status.QUEUED, "attempt 1 failed: no disk")
    assert from_text(item.available_at or "") == again
    assert item.notes == "attempt 1 failed: no disk"


@pytest.mark.parametrize("error", [AWAY, ValueError("an error of ours")])
async def test_a_report_that_fails_is_tried_again_later_and_later(
    office: Office, mood: Mood, clock: ManualClock, error: Exception
) -> None:
    mood.error = error
    entry = await office.ended()
    await office.outbox.deliver(entry)
    pauses = []
    for _ in range(5):
        [waits] = await office.waiting()
        assert str(error) in (waits.error or "")
        pause = (from_text(waits.next_attempt_at) - clock.now()).total_seconds()
        pauses.append(pause)
        clock.advance(pause - 1)
        await office.outbox.tick()
        assert len(mood.told) == len(pauses), "not before its time"
        clock.advance(1)
        await office.outbox.tick()
    assert pauses == [FIRST_PAUSE * 2**n for n in range(5)]
    mood.error = None
    clock.advance(LONGEST_PAUSE)
    await office.outbox.tick()
    assert await office.status(entry) is Status.COMPLETED
    assert await office.waiting() == []


async def test_a_release_that_the_source_could_not_do_is_tried_again(
    office: Office, mood: Mood, clock: ManualClock
) -> None:
    mood.refuses = True
    entry = await office.ended(ReleaseOptions("shut_down"))
    await office.outbox.deliver(entry)
    assert await office.status(entry) is Status.IN_PROGRESS
    [waits] = await office.waiting()
    assert waits.error == "the tracker is away"
    mood.refuses = False
    clock.advance(FIRST_PAUSE)
    await office.outbox.tick()
    assert await office.status(entry) is Status.QUEUED


async def test_what_cannot_be_delivered_is_buried_and_can_be_revived(
    office: Office, mood: Mood, clock: ManualClock
) -> None:
    mood.error = AWAY
    entry = await office.ended()
    await office.sources.clear_cache()
    for _ in range(MOST_ATTEMPTS):
        assert mood.closed == 0, "the adapter that made the claim is kept for its report"
        await office.outbox.tick()
        clock.advance(LONGEST_PAUSE)
    assert mood.closed == 1
    assert await office.waiting() == []
    [buried] = await office.waiting(buried=True)
    assert (buried.attempts, buried.error) == (MOST_ATTEMPTS, "the tracker is away")
    clock.advance(LONGEST_PAUSE)
    await office.outbox.tick()
    assert len(mood.told) == MOST_ATTEMPTS
    mood.error = None
    await office.ledger.post.retry(entry.id)
    await office.outbox.tick()
    assert len(mood.told) == MOST_ATTEMPTS + 1
    assert await office.waiting(buried=True) == []


async def test_the_claim_is_kept_while_its_report_waits(
    office: Office, mood: Mood, clock: ManualClock
) -> None:
    mood.error = AWAY
    entry = await office.ended()
    await office.outbox.deliver(entry)
    for _ in range(20):
        pause = await office.outbox.keeping.tick()
        assert pause <= LEASE / 2
        clock.advance(pause)
        await office.ledger.sweeper.tick()
    item = await office.ledger.views.item(entry.subject)
    assert (item.status, item.attempts) == (Status.IN_PROGRESS, 1)
    mood.error = None
    await office.outbox.tick()
    assert await office.status(entry) is Status.COMPLETED


async def test_of_more_reports_than_a_page_holds_all_claims_are_kept(
    office: Office, mood: Mood, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_PAGE", 2)
    await office.ledger.queue.set_agent("smith", max_concurrent=9)
    mood.error = AWAY
    entries = [await office.ended() for _ in range(5)]
    for entry in entries:
        await office.outbox.deliver(entry)
    for _ in range(5):
        clock.advance(await office.outbox.keeping.tick())
        await office.ledger.sweeper.tick()
    assert {await office.status(entry) for entry in entries} == {Status.IN_PROGRESS}
    await office.outbox.resume()
    mood.error = None
    await office.outbox.tick()
    assert {await office.status(entry) for entry in entries} == {Status.COMPLETED}


async def test_every_attempt_to_report_keeps_the_claim_for_another_lease(
    office: Office, mood: Mood, clock: ManualClock
) -> None:
    mood.error = AWAY
    entry = await office.ended()
    clock.advance(LEASE - 1)
    await office.outbox.deliver(entry)
    item = await office.ledger.views.item(entry.subject)
    assert item.lease_expires_at == clock.text(LEASE)


async def test_a_crash_between_the_end_and_the_delivery_loses_nothing(
    office: Office, store: Store, clock: ManualClock, mood: Mood
) -> None:
    entry = await office.ended()
    async with opened(store, clock, mood) as heir:  # it has never seen the claim
        await heir.outbox.tick()
    assert await office.status(entry) is Status.COMPLETED
    assert mood.told == ["Mended."]


async def test_who_dies_over_a_delivery_only_delays_it(
    office: Office, store: Store, clock: ManualClock, mood: Mood
) -> None:
    entry = await office.ended()
    now, until = clock.text(), clock.text(TAKEN_SECONDS)
    assert await store.transact(lambda tx: tx.take_letter(entry.id, now, until)) is not None
    async with opened(store, clock, mood) as heir:
        await heir.outbox.tick()
        assert mood.told == []
        clock.advance(LEASE / 2)
        await heir.outbox.keeping.tick()
        clock.advance(LEASE / 2)
        await heir.outbox.keeping.tick()
        clock.advance(LEASE / 2)
        await heir.outbox.keeping.tick()
        clock.advance(LEASE / 2)
        await heir.outbox.tick()
    assert await office.status(entry) is Status.COMPLETED


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside_another"])
async def test_who_starts_takes_over_what_a_dead_process_had_in_hand_but_nothing_of_the_living(
    office: Office, store: Store, clock: ManualClock, mood: Mood, alone: bool
) -> None:
    entry = await office.ended()
    now, until = clock.text(), clock.text(TAKEN_SECONDS)
    assert await store.transact(lambda tx: tx.take_letter(entry.id, now, until)) is not None
    nodes = ["here"] if alone else ["here", "there"]
    for number, name in enumerate(nodes):
        node = Node(name, name, number, now, now)
        await store.transact(lambda tx, node=node: tx.put_node(node))  # type: ignore[misc]
    async with opened(store, clock, mood) as heir:
        await heir.outbox.resume()
        await heir.outbox.tick()
    assert mood.told == (["Mended."] if alone else [])


@pytest.mark.parametrize("error", [TokenError("no token"), UnknownWorkSourceError("no adapter")])
async def test_a_report_that_this_server_cannot_deliver_is_left_to_another(
    office: Office, store: Store, clock: ManualClock, mood: Mood, error: Exception
) -> None:
    for number, name in enumerate(["here", "there"]):
        node = Node(name, name, number, clock.text(), clock.text())
        await store.transact(lambda tx, node=node: tx.put_node(node))  # type: ignore[misc]
    entry, lacking = await office.ended(), Mood(error=error)
    async with opened(store, clock, lacking) as poor:
        for _ in range(3):
            assert await poor.outbox.tick() > 1, "nothing that it could deliver is due"
        assert (len(lacking.told), [one.attempts for one in await office.waiting()]) == (1, [0])
        clock.advance(LEFT_SECONDS)
        await poor.outbox.tick()
        assert [one.attempts for one in await office.waiting()] == [1], "nobody else has tried"
        clock.advance(FIRST_PAUSE)
        await poor.outbox.tick()
        assert len(lacking.told) == 2
        await office.outbox.tick()
    assert mood.told == ["Mended."]
    assert await office.status(entry) is Status.COMPLETED


async def test_a_server_without_others_tries_its_reports_itself(
    office: Office, mood: Mood, clock: ManualClock
) -> None:
    await office.ended()
    mood.error = TokenError("no token")
    await office.outbox.tick()
    clock.advance(FIRST_PAUSE)
    mood.error = None
    await office.outbox.tick()
    assert await office.waiting() == []


async def test_two_processes_deliver_a_report_once(
    office: Office, store: Store, clock: ManualClock, mood: Mood
) -> None:
    await office.ended()
    async with opened(store, clock, mood) as other:
        await asyncio.gather(*(one.outbox.tick() for one in (office, other) for _ in range(3)))
    assert mood.told == ["Mended."]


async def test_a_late_report_is_kept_and_not_believed(office: Office, clock: ManualClock) -> None:
    entry = await office.ended()
    clock.advance(LEASE + 1)
    await office.ledger.sweeper.tick()
    assert await office.status(entry) is Status.QUEUED
    await office.outbox.tick()
    assert await office.status(entry) is Status.QUEUED
    detail = await office.ledger.views.detail(entry.subject)
    assert [one.data["notes"] for one in detail.late_results] == ["Mended."]
    assert await office.waiting() == [], "there is no sense in trying again"


@pytest.mark.parametrize("said", [MENDED, ReleaseOptions("attempt 1 failed")], ids=["end", "back"])
async def test_a_report_that_came_too_late_does_not_touch_the_same_agents_next_run(
    office: Office, store: Store, clock: ManualClock, mood: Mood, said: WorkResult | ReleaseOptions
) -> None:
    """Its server was away for longer than the lease, and the agent has the item again."""
    entry = await office.ended(said)
    clock.advance(LEASE + 1)
    await office.ledger.sweeper.tick()
    async with opened(store, clock, mood) as heir:
        again = await heir.take()
        assert again.ledger_id == entry.subject
        await heir.outbox.tick()
        assert await heir.works(again)
        assert await heir.waiting() == []
        await heir.sources.report_outcome(again.item.id, MENDED, agent=AGENT)
    assert await office.status(entry) is Status.COMPLETED


async def test_a_give_back_that_is_told_twice_does_not_touch_the_next_run(
    office: Office, store: Store, clock: ManualClock, mood: Mood
) -> None:
    """Who told it died before that was written down; meanwhile the agent has the item again."""
    entry = await office.ended(ReleaseOptions("attempt 1 failed"))
    now, until = clock.text(), clock.text(TAKEN_SECONDS)
    taken = await store.transact(lambda tx: tx.take_letter(entry.id, now, until))
    assert taken is not None
    await office.outbox._tell(taken)
    assert await office.status(entry) is Status.QUEUED
    again = await office.take()
    clock.advance(TAKEN_SECONDS)
    await office.ledger.queue.heartbeat(again.ledger_id or "", again.token or "")
    async with opened(store, clock, mood) as heir:
        await heir.outbox.tick()
    await office.outbox.tick()
    assert mood.told == ["attempt 1 failed"] * 2
    assert await office.works(again)
    detail = await office.ledger.views.detail(entry.subject)
    assert detail.late_results == [], "nothing is worth to be kept of it"


async def test_a_letter_has_no_token_in_it(office: Office) -> None:
    """It is exported as it stands."""
    entry = await office.ended()
    item = await office.ledger.views.item(entry.subject)
    assert item.claim_token
    assert item.claim_token not in json.dumps(entry.payload)


async def test_what_was_delivered_is_forgotten_in_the_end(
    office: Office, clock: ManualClock
) -> None:
    entry = await office.ended()
    await office.outbox.deliver(entry)
    clock.advance(KEPT_DAYS * 86_400 + 1)
    await office.outbox.prune(office.clock.now())
    await office.store.transact(lambda tx: tx.post(entry))
    assert [one.id for one in await office.waiting()] == [entry.id]


async def test_no_letter_or_log_is_forgotten_by_a_clock_that_is_wrong_once(
    office: Office, clock: ManualClock, tmp_path: Path
) -> None:
    entry = await office.ended()
    await office.outbox.deliver(entry)
    runs = RunBook(office.store, node="here", logs=tmp_path)
    written = clock.now().timestamp()
    runs.log("1").write_text("{}\n")
    os.utime(runs.log("1"), (written, written))

    async def nothing() -> None:
        pass

    house = Housekeeping(replace(office.ledger, runs=runs), office.outbox, nothing)
    month = KEPT_DAYS * 86_400 + 1
    for seconds in (month, -month, month, -month):
        clock.advance(seconds)
        await house.tick()
    await office.store.transact(lambda tx: tx.post(entry))
    assert await office.waiting() == []
    assert runs.log("1").exists()
    clock.advance(month)
    await house.tick()
    await house.tick()
    await office.store.transact(lambda tx: tx.post(entry))
    assert [one.id for one in await office.waiting()] == [entry.id]
    assert not runs.log("1").exists()


async def test_an_idle_outbox_looks_again_when_the_next_is_due(office: Office, mood: Mood) -> None:
    assert await office.outbox.tick() > FIRST_PAUSE
    mood.error = AWAY
    await office.outbox.deliver(await office.ended())
    assert office.outbox.woken.look()
    assert await office.outbox.tick() == FIRST_PAUSE


# who answers late


async def test_a_receiver_that_does_not_answer_keeps_no_other_waiting(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.sources.outbox.PATIENCE_SECONDS", 0.01)
    answers, told = asyncio.Event(), list[str]()

    async def deliver(entry: OutboxEntry) -> None:
        if entry.subject == "slow":
            await answers.wait()
        told.append(entry.subject)

    outbox = Outbox(office.store, office.ledger, office.sources, {"told": deliver})

    async def post(*subjects: str) -> None:
        letters = [
            OutboxEntry(f"to-{one}", "told", None, one, {}, office.clock.text()) for one in subjects
        ]
        await office.store.transact(lambda tx: [tx.post(one) for one in letters])

    async def left(*subjects: str) -> None:
        async with asyncio.timeout(20):
            while [one.subject for one in await office.waiting()] != list(subjects):
                await outbox.tick()

    await post("slow", "quick")
    await left("slow")
    await post("later")
    await left("slow")
    assert told == ["quick", "later"]
    answers.set()
    await left()
    assert told == ["quick", "later", "slow"]


async def test_more_than_all_hands_full_is_taken_when_one_is_free(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.sources.outbox.PATIENCE_SECONDS", 0.01)
    answers, told = asyncio.Event(), list[str]()

    async def deliver(entry: OutboxEntry) -> None:
        await answers.wait()
        told.append(entry.subject)

    outbox = Outbox(office.store, office.ledger, office.sources, {"told": deliver})
    now = office.clock.text()
    letters = [OutboxEntry(f"{n:02}", "told", None, f"{n}", {}, now) for n in range(AT_ONCE + 1)]
    await office.store.transact(lambda tx: [tx.post(one) for one in letters])
    assert await outbox.tick() == 0.0
    assert await outbox.tick() == 0.0  # no hand is free, and it comes back soon
    answers.set()
    async with asyncio.timeout(20):
        while await office.waiting():
            await outbox.tick()
    assert sorted(told, key=int) == [one.subject for one in letters]


async def test_a_server_that_ends_leaves_what_nobody_answered_to_the_next(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.sources.outbox.PATIENCE_SECONDS", 0.01)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def deliver(_entry: OutboxEntry) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    outbox = Outbox(office.store, office.ledger, office.sources, {"told": deliver})
    told = OutboxEntry("told", "told", None, "somebody", {}, office.clock.text())
    await office.store.transact(lambda tx: tx.post(told))
    await outbox.tick()
    assert begun.is_set()
    await outbox.aclose()
    assert cancelled.is_set()
    assert [one.subject for one in await office.waiting()] == ["somebody"]
