"""A process that is frozen in the middle of a transaction, with its locks, and whose events nobody
may pass over."""

import asyncio
import signal
import threading
from collections.abc import Callable

import pytest

from rota.app import open_ledger
from rota.model.clock import IdFactory, to_text
from rota.model.work import NewItem
from rota.queue import sweeper
from rota.queue.ledger import Ledger
from rota.signals import Signals
from rota.storage.port import Transaction
from rota.storage.postgres import LANES
from tests.faults.processes import Process

PATIENCE = 30.0

# Waits in the middle of a transaction, whose events have reached the server.
WAITS = """
import asyncio, json, sys
from rota.app import open_ledger
from rota.model.clock import IdFactory, to_text
from rota.model.work import NewItem
from rota.queue import submitting

async def main():
    async with open_ledger(sys.argv[1]) as ledger:
        store, tries = ledger.queue._store, []
        item = IdFactory(store.clock).new()

        def body(tx):
            tries.append(item)
            tx.insert_items([(item, NewItem("chore", "frozen"))], "ann", to_text(store.clock.now()))
            tx.highest_event()  # is answered, so all of it has reached the server
            if len(tries) == 1:
                print(json.dumps(item), flush=True)
                sys.stdin.readline()
                tx.highest_event()  # the end of the connection shows here, and not at the commit

        await store.transact(body)
        print(len(tries), flush=True)

asyncio.run(main())
"""


# Instead of a new item.
LOCKS = "tx.lock_declarations(); (lambda *_: None)"

Start = Callable[..., Process]


async def freeze(start: Start, code: str, database: str) -> tuple[Process, str]:
    """The process, and what it said before."""
    program = start("-c", code, database)
    said = str(await asyncio.to_thread(program.hear))
    program.signal(signal.SIGSTOP)
    return program, said


@pytest.fixture
def database(postgres_url: str) -> str:
    """SQLite ends a transaction with its process, and a frozen one holds up its machine alone."""
    return postgres_url


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is silent at two looks is ended, however shortly."""
    monkeypatch.setattr(sweeper, "SILENT_SECONDS", 0.0)


async def seen(ledger: Ledger, after: int) -> list[str | None]:
    events = await ledger.views.events(after, 100)
    return [one.work_item_id for one in events]


async def test_what_a_frozen_process_has_left_open_is_undone_and_done_again_when_it_goes_on(
    database: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_ledger(database) as ledger:
        program, frozen = await freeze(start, WAITS, database)
        item = await ledger.queue.submit(NewItem("chore", "behind it"))
        assert await seen(ledger, 0) == []  # held back: the open one may come before it
        assert await ledger.sweeper.end_abandoned() == []  # it may be slow
        monkeypatch.setattr(sweeper, "SILENT_SECONDS", 0.0)
        assert await ledger.sweeper.end_abandoned() == []  # it may be about to go on
        (ended,) = await ledger.sweeper.end_abandoned()
        assert ended.silent > 0
        async with asyncio.timeout(PATIENCE):
            while await seen(ledger, 0) != [item.id]:  # noqa: ASYNC110 - a process has to end
                await asyncio.sleep(0.01)
        program.signal(signal.SIGCONT)
        program.say("go on")
        assert await asyncio.to_thread(program.hear) == 2
        assert program.join() == 0
        assert await seen(ledger, 0) == [item.id, frozen]


@pytest.mark.usefixtures("impatient")
async def test_a_frozen_process_that_has_only_taken_a_lock_of_ours_is_ended_too(
    database: str, start: Start
) -> None:
    """As a server does first when it compares its file with the ledger."""
    async with open_ledger(database) as ledger:
        await freeze(start, WAITS.replace("tx.insert_items", LOCKS), database)
        await ledger.sweeper.end_abandoned()
        assert await ledger.sweeper.end_abandoned()
        async with asyncio.timeout(PATIENCE):
            await Signals(ledger.queue._store).sync([], "another")


@pytest.mark.usefixtures("impatient")
async def test_a_process_that_has_gone_on_between_two_looks_is_left_alone(database: str) -> None:
    """Also where it is silent at both: it may have had a long statement before."""
    async with open_ledger(database) as ledger, open_ledger(database) as other:
        reached, go_on, reached_again, let_go = (threading.Event() for _ in range(4))
        item = IdFactory(other.clock).new()

        def slow(tx: Transaction) -> None:
            tx.insert_items([(item, NewItem("chore", "slow"))], "ann", to_text(other.clock.now()))
            for reaches, goes_on in ((reached, go_on), (reached_again, let_go)):
                tx.highest_event()
                reaches.set()
                assert goes_on.wait(PATIENCE)

        transaction = other.queue._store.transact(slow)
        try:
            assert await asyncio.to_thread(reached.wait, PATIENCE)
            assert await ledger.sweeper.end_abandoned() == []
            go_on.set()
            assert await asyncio.to_thread(reached_again.wait, PATIENCE)
            assert await ledger.sweeper.end_abandoned() == []
        finally:
            go_on.set()
            let_go.set()
        await transaction
        assert await seen(ledger, 0) == [item]


@pytest.mark.usefixtures("impatient")
async def test_who_only_waits_between_transactions_or_reads_is_left_alone(database: str) -> None:
    async with open_ledger(database) as ledger, open_ledger(database) as other:
        await other.queue.submit(NewItem("chore", "done"))
        reads, let_go = threading.Event(), threading.Event()

        def slow(tx: Transaction) -> int:
            first = tx.highest_event()
            reads.set()
            assert let_go.wait(PATIENCE)
            return tx.highest_event() - first

        reading = asyncio.ensure_future(other.queue._store.read(slow))
        try:
            assert await asyncio.to_thread(reads.wait, PATIENCE)
            for _ in range(3):
                assert await ledger.sweeper.end_abandoned() == []
        finally:
            let_go.set()
        assert await reading == 0
        await other.queue.submit(NewItem("chore", "on the same connection"))


@pytest.mark.usefixtures("impatient")
async def test_it_is_ended_although_every_connection_of_ours_waits_for_it(
    database: str, start: Start
) -> None:
    async with open_ledger(database) as ledger:
        await ledger.queue.submit(NewItem("chore", "x"))
        await freeze(start, WAITS, database)
        occupied, let_go = threading.Semaphore(0), threading.Event()

        def slow(tx: Transaction) -> None:
            occupied.release()
            assert let_go.wait(PATIENCE)

        store = ledger.queue._store
        busy = [store.transact(slow) for _ in range(LANES)]
        try:
            for _ in busy:
                assert await asyncio.to_thread(occupied.acquire, timeout=PATIENCE)
            await ledger.sweeper.end_abandoned()
            assert await ledger.sweeper.end_abandoned()
        finally:
            let_go.set()
        await asyncio.gather(*busy)
