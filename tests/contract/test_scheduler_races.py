"""What only PostgreSQL can do to schedules: two nodes that take at once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from rota.model.clock import IdFactory, from_text
from rota.model.schedules import SkipReason
from rota.scheduler import Schedules, update_schedule_state
from rota.scheduler.roster import Roster
from rota.scheduler.syncing import mend, sync
from rota.scheduler.taking import Taken, Taker, take_waiting
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import Standing
from rota.testing.clock import ManualClock
from tests.contract.conftest import Sql
from tests.contract.nodes import NewNode, agent, cron, every, state
from tests.contract.test_signal_races import PATIENCE, WAITS_FOR_A_LOCK

T = TypeVar("T")
U = TypeVar("U")


@pytest.fixture
def database(empty_postgres: str) -> str:
    """Every test of this file runs on PostgreSQL alone."""
    return empty_postgres


async def test_two_nodes_that_take_at_once_do_not_both_find_the_last_place(
    store: Store,
    another_store: Callable[[], Awaitable[Store]],
    new_node: NewNode,
    clock: ManualClock,
    sql: Sql,
) -> None:
    """One takes what somebody asked for, the other what is due, of an agent with one place."""
    ada = agent(every(), every(name="other"), room=1)
    node = await new_node(ada, name="n2", store=await another_store())
    await node.tick()
    await Schedules(store, clock).trigger("ada", "other")
    clock.advance(300)
    taker = Taker("n1", Roster.of([ada]), clock.now(), IdFactory(clock).new)
    has_taken, let_go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> Taken:
        taken = take_waiting(tx, taker)
        has_taken.set()
        assert let_go.wait(PATIENCE)
        return taken

    before = len(node.stage.came)
    taken, _ = await side_by_side(sql, store.transact(slow), has_taken, node.tick(), let_go)
    assert [one.schedule for one in taken.triggers] == ["other"]
    assert node.stage.came[before:] == []
    assert (await state(store)).last_skip_reason is SkipReason.AT_CAPACITY


@pytest.mark.parametrize("by", ["reload", "repair"])
async def test_what_an_operator_switches_off_meanwhile_stays_off(  # noqa: PLR0917 - fixtures
    store: Store,
    another_store: Callable[[], Awaitable[Store]],
    new_node: NewNode,
    clock: ManualClock,
    sql: Sql,
    by: str,
) -> None:
    await new_node(agent(every(5)))
    file, operator = Roster.of([agent(every(7))]), Schedules(await another_store(), clock)
    has_read, let_go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        put = tx.put_schedules

        def late(rows: Sequence[Standing]) -> None:
            has_read.set()
            assert let_go.wait(PATIENCE)
            put(rows)

        tx.put_schedules = late  # type: ignore[method-assign]
        if by == "reload":
            sync(tx, file, "n1", clock.now())
        else:
            mend(tx, file, clock.now())

    if by == "repair":
        await store.transact(lambda tx: tx.rest_schedules([]))
    disabling = operator.disable("ada", "poll")
    _, switched = await side_by_side(sql, store.transact(slow), has_read, disabling, let_go)
    assert not switched.enabled
    assert not (await state(store)).enabled


@pytest.mark.parametrize("how", ["enable", "update", "restore"])
async def test_what_an_operator_switches_on_meanwhile_wakes_as_the_new_file_says(  # noqa: PLR0917
    store: Store,
    another_store: Callable[[], Awaitable[Store]],
    new_node: NewNode,
    clock: ManualClock,
    sql: Sql,
    how: str,
) -> None:
    await new_node(agent(cron("0 0 1 1 *", "poll")))
    elsewhere = await another_store()
    operator = Schedules(elsewhere, clock)
    await operator.disable("ada", "poll")
    file = Roster.of([agent(cron("*/5 * * * *", "poll"))])
    has_written, let_go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        sync(tx, file, "n1", clock.now())
        has_written.set()
        assert let_go.wait(PATIENCE)

    switching: Coroutine[Any, Any, object] = {
        "enable": lambda: operator.enable("ada", "poll"),
        "update": lambda: update_schedule_state(elsewhere, "ada", "poll", status="idle"),
        "restore": lambda: operator.restore("ada", "poll"),
    }[how]()
    await side_by_side(sql, store.transact(slow), has_written, switching, let_go)
    wakes_at = (await state(store)).next_run_at
    assert wakes_at is not None
    assert from_text(wakes_at) - clock.now() <= timedelta(minutes=5)


async def side_by_side(
    sql: Sql,
    first: Awaitable[T],
    has_begun: threading.Event,
    second: Coroutine[Any, Any, U],
    let_go: threading.Event,
) -> tuple[T, U]:
    """The first is let go when the second has ended, or waits for one of its locks."""
    try:
        assert await asyncio.to_thread(has_begun.wait, PATIENCE)
        beginning = asyncio.create_task(second)
        async with asyncio.timeout(PATIENCE):
            while not (beginning.done() or sql(WAITS_FOR_A_LOCK)):  # noqa: ASYNC110 - a server says so
                await asyncio.sleep(0.01)
    finally:
        let_go.set()
    return await first, await beginning
