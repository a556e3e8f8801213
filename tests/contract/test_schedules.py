"""Every promise of `rota.storage.schedule_port`, on both databases; and what the tables refuse."""

from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest

from rota.testing.store_contract.schedules import SchedulesContract

Sql = Callable[..., list[tuple[Any, ...]]]
REFUSED = (apsw.ConstraintError, psycopg.IntegrityError)


class TestSchedules(SchedulesContract):
    pass


SCHEDULE = (
    "INSERT INTO schedules (agent, name, type, definition, configured, enabled, next_at, slot)"
    " VALUES ('ada', 'x', :type, 'd', 1, :enabled, :next_at, :slot)"
)
WELL: dict[str, object] = {"type": "interval", "enabled": 1, "next_at": "n", "slot": "s"}
ILL: dict[str, dict[str, object]] = {
    "an unknown type": {"type": "weekly"},
    "a time without a slot": {"slot": None},
    "a slot without a time": {"next_at": None},
    "disabled and waking": {"enabled": 0},
    "a webhook that wakes by itself": {"type": "webhook"},
}


async def test_a_schedule_as_it_should_be_is_accepted(sql: Sql) -> None:
    sql(SCHEDULE, **WELL)


@pytest.mark.parametrize("case", ILL)
async def test_a_schedule_that_contradicts_itself_is_refused(sql: Sql, case: str) -> None:
    with pytest.raises(REFUSED):
        sql(SCHEDULE, **WELL | ILL[case])


TRIGGER = (
    "INSERT INTO triggers (id, agent, schedule, slot, kind, node, triggered_at, ended_at, outcome)"
    " VALUES (:id, 'ada', 'x', 's', :kind, 'n', 't', :ended_at, :outcome)"
)


async def test_a_slot_is_triggered_once_for_ever(sql: Sql) -> None:
    values: dict[str, object] = {"kind": "schedule", "ended_at": "e", "outcome": "succeeded"}
    sql(TRIGGER, id="1", **values)
    with pytest.raises(REFUSED):
        sql(TRIGGER, id="2", **values)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "whim", "ended_at": None, "outcome": None},
        {"kind": "manual", "ended_at": "e", "outcome": None},
        {"kind": "manual", "ended_at": None, "outcome": "lost"},
    ],
)
async def test_a_trigger_that_contradicts_itself_is_refused(
    sql: Sql, values: dict[str, object]
) -> None:
    with pytest.raises(REFUSED):
        sql(TRIGGER, id="1", **values)
