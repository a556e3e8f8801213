"""Every promise of `rota.storage.run_port` on both databases, and what the tables hold."""

import apsw
import psycopg
import pytest

from rota.model.claims import ClaimRequest
from rota.model.runs import RunEnd, RunStatus
from rota.model.schedules import TriggerKind
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.storage.port import Store
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock
from rota.testing.store_contract.runs import RunVerbsContract, begun, ended, letter, posted
from tests.contract.conftest import Sql

REFUSED = (apsw.Error, psycopg.Error)


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
    run = await ledger.runs.begin("ada", TriggerKind.MANUAL, item=claimed.item, node="old")
    clock.advance(120)
    await store.transact(lambda tx: tx.end_node("old", clock.text()))

    async def dead() -> list[str]:
        found = await store.read(lambda tx: tx.dead_runs(clock.text(-60), "here", "new"))
        return [one.id for one in found]

    assert await dead() == ([run.id] if is_dead else [])
    await ledger.queue.complete(claimed.item.id, token=claimed.claim.token)
    assert await dead() == [run.id]
