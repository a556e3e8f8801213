"""How the fleet does now: a small scene counted by hand, and the indexes that keep it cheap."""

from datetime import timedelta

from rota.model.clock import to_text
from rota.model.runs import OutboxEntry, RunEnd, RunStatus, Tally, Usage
from rota.model.schedules import ScheduleType, TriggerKind
from rota.model.statistics import Spread
from rota.model.status import Status, Verb
from rota.model.vitals import PostFigures, Vitals
from rota.queue import Ledger
from rota.signals import Signals
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import Standing
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order

HOUR = 3600.0
FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}
TELL = {"kind": "follow_up", "title": "Look"}


async def a_run(ledger: Ledger, clock: ManualClock, agent: str, status: RunStatus) -> None:
    run = await ledger.runs.begin(agent, TriggerKind.MANUAL)
    clock.advance(60)
    await ledger.runs.end(run, RunEnd(status, usage=Usage(100, 20, 0.5)))


async def test_a_ledger_without_work_has_nothing_to_tell(ledger: Ledger) -> None:
    ended = dict.fromkeys((Status.COMPLETED, Status.FAILED, Status.CANCELLED), 0)
    assert await ledger.figures.vitals() == Vitals(ended=ended)


async def test_the_last_hour_and_what_is_open_are_told(ledger: Ledger, clock: ManualClock) -> None:
    await bring_to(ledger.queue, Status.COMPLETED)
    await a_run(ledger, clock, "ada", RunStatus.FAILED)
    clock.advance(HOUR)  # from here on it is too long ago
    slow = await bring_to(ledger.queue, Status.IN_PROGRESS)
    clock.advance(600)
    await ledger.queue.apply(order(Verb.COMPLETE, slow.id))
    await bring_to(ledger.queue, Status.COMPLETED)
    await bring_to(ledger.queue, Status.FAILED)
    await bring_to(ledger.queue, Status.IN_REVIEW, "bob")
    for status in (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED, RunStatus.FAILED):
        await a_run(ledger, clock, "ada", status)
    await ledger.runs.begin("bob", TriggerKind.MANUAL)
    found = await ledger.figures.vitals()
    assert found.ended == {Status.COMPLETED: 2, Status.FAILED: 1, Status.CANCELLED: 0}
    assert found.lead_time == Spread(2, 0.0, 600.0)
    assert found.runs == (
        Tally("ada", RunStatus.FAILED, 1, 60.0, 120, 0.5),
        Tally("ada", RunStatus.SUCCEEDED, 2, 120.0, 240, 1.0),
        Tally("bob", RunStatus.RUNNING, 1, 0.0, 0, None),
    )
    assert found.open_runs == {"bob": 1}
    assert (found.schedules_late, found.signals_late, found.outbox_age) == (0.0, 0.0, 0.0)


async def test_what_is_late_is_told_by_how_much(
    store: Store, ledger: Ledger, clock: ManualClock
) -> None:
    signals = Signals(store)
    await signals.create(signals.read(FAILS, TELL))
    every = Standing(
        "ada", "often", ScheduleType.INTERVAL, "interval 300", True, True, clock.text(), "1"
    )

    def body(tx: Transaction) -> None:
        tx.put_schedules([every])
        for number in range(3):
            written = to_text(clock.now() - timedelta(seconds=number))
            tx.post(OutboxEntry(f"l-{number}", "report", "ada", "x", {}, written))
        tx.bury("l-1", clock.text(), "nobody there")

    await store.transact(body)
    clock.advance(10)
    await bring_to(ledger.queue, Status.FAILED)
    clock.advance(20)
    found = await ledger.figures.vitals()
    assert (found.schedules_late, found.signals_late, found.outbox_age) == (30.0, 20.0, 32.0)
    assert found.post == (PostFigures("report", 2, clock.text(-32), 1),)
