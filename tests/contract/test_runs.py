"""Every promise of `rota.storage.run_port` on both databases, and what the tables hold."""

import apsw
import psycopg
import pytest

from rota.model.runs import RunEnd, RunStatus
from rota.storage.port import Store
from rota.testing.store_contract_runs import RunVerbsContract, begun, ended, letter, posted
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
