"""What only PostgreSQL can do to schedules: two nodes that take at once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from rota.model.clock import IdFactory
from rota.model.schedules import SkipReason
from rota.scheduler import Schedules
from rota.scheduler.roster import Roster
from rota.scheduler.taking import Taken, Taker, take_waiting
from rota.storage.port import Store, Transaction
from rota.testing.clock import ManualClock
from tests.contract.conftest import Sql
from tests.contract.nodes import NewNode, agent, every, state
from tests.contract.test_signal_races import PATIENCE, WAITS_FOR_A_LOCK


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
    first = store.transact(slow)
    try:
        assert await asyncio.to_thread(has_taken.wait, PATIENCE)
        second = asyncio.create_task(node.tick())
        async with asyncio.timeout(PATIENCE):
            while not (second.done() or sql(WAITS_FOR_A_LOCK)):  # noqa: ASYNC110 - a server says so
                await asyncio.sleep(0.01)
    finally:
        let_go.set()
    assert [one.schedule for one in (await first).triggers] == ["other"]
    await second
    assert node.stage.came[before:] == []
    assert (await state(store)).last_skip_reason is SkipReason.AT_CAPACITY
