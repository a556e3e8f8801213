"""All who share a database go by one clock: on PostgreSQL that is the server's."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from rota.app import open_ledger
from rota.model.claims import Claim, ClaimRequest
from rota.model.clock import SystemClock, elapsed, from_text
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger
from rota.storage import postgres
from rota.storage.postgres import PostgresStore

DAY = timedelta(days=1)


@contextmanager
def wrong_clock(ahead: timedelta) -> Iterator[None]:
    """What is done meanwhile is done on a machine with such a clock."""
    with pytest.MonkeyPatch.context() as machine:
        machine.setattr(SystemClock, "now", lambda _: datetime.now(UTC) + ahead)
        yield


async def submitted(ledger: Ledger) -> WorkItem:
    return await ledger.queue.submit(NewItem("chore", "Dust the shelves"))


async def claimed(ledger: Ledger) -> Claim:
    (held,) = (await ledger.queue.claim(ClaimRequest("smith", lease_seconds=60))).items
    return held.claim


async def test_a_server_whose_clock_is_ahead_ends_no_claim_of_others(empty_postgres: str) -> None:
    async with open_ledger(empty_postgres) as ledger, open_ledger(empty_postgres) as other:
        item = await submitted(ledger)
        claim = await claimed(ledger)
        with wrong_clock(DAY):
            await other.sweeper.tick()
        await ledger.queue.complete(item.id, token=claim.token)


async def test_the_claims_of_a_server_whose_clock_is_behind_are_not_over(
    empty_postgres: str,
) -> None:
    async with open_ledger(empty_postgres) as ledger, open_ledger(empty_postgres) as other:
        item = await submitted(ledger)
        with wrong_clock(-DAY):
            claim = await claimed(ledger)
        await other.sweeper.tick()
        await ledger.queue.complete(item.id, token=claim.token)


async def test_what_a_server_with_a_wrong_clock_writes_has_the_right_time(
    empty_postgres: str,
) -> None:
    with wrong_clock(DAY):
        async with open_ledger(empty_postgres) as ledger:
            item = await submitted(ledger)
    assert abs(from_text(item.created_at) - datetime.now(UTC)) < timedelta(minutes=1)


async def test_the_time_is_asked_again_before_it_is_old(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(empty_postgres, lanes=1)
    await store.open()
    try:
        await store.read(lambda tx: tx.has_tokens())
        # The database's clock is put back by a day, as far as we can see.
        store._distant.hear(datetime.now(UTC) + DAY, elapsed(), elapsed())
        await store.read(lambda tx: tx.has_tokens())
        assert store.clock.now() > datetime.now(UTC) + DAY / 2
        monkeypatch.setattr(postgres, "CLOCK_SECONDS", -1.0)
        for _ in range(2):  # one lane: it has asked when it takes the second request
            await store.read(lambda tx: tx.has_tokens())
        assert abs(store.clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    finally:
        await store.close()


@pytest.mark.parametrize("how", ["terminate", "cancel"])
async def test_a_question_for_the_time_that_fails_costs_nothing(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(postgres, "CLOCK_SECONDS", -1.0)
    monkeypatch.setattr(postgres, "NOW", f"pg_{how}_backend(pg_backend_pid())")
    store = PostgresStore(empty_postgres, lanes=1)
    await store.open()
    try:
        for _ in range(3):
            assert await store.read(lambda tx: tx.has_tokens()) is False
    finally:
        await store.close()
