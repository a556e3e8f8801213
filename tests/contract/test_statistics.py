"""Figures over a window: small scenes counted by hand, and the indexes that keep them cheap."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import apsw
import psycopg
import pytest

from rota.app import make_store
from rota.model.clock import IdFactory, from_text, to_text
from rota.model.errors import InvalidInput
from rota.model.runs import RunEnd, RunStatus, Spent, Usage
from rota.model.schedules import TriggerKind
from rota.model.statistics import (
    Spread,
    Statistics,
    Window,
    buckets,
    read_window,
    read_zone,
    spread,
)
from rota.model.status import Status, Verb
from rota.model.work import NewItem
from rota.queue import Ledger, statistics
from rota.queue.statistics import NO_REASON, OTHERS
from rota.storage.port import Transaction
from rota.storage.statements import load_statements
from rota.testing.clock import ManualClock
from rota.testing.postgres import PostgresServer
from rota.testing.standing import order
from tests.contract.spelling import to_psycopg
from tests.contract.sqlite_steps import steps

MINUTE, HOUR = 60.0, 3600.0


class Scene:
    """Things happen at the times that are named."""

    def __init__(self, ledger: Ledger, clock: ManualClock) -> None:
        self._ledger = ledger
        self._clock = clock

    def at(self, moment: str) -> None:
        self._clock.advance((datetime.fromisoformat(moment) - self._clock.now()).total_seconds())

    async def item(self, title: str = "x") -> str:
        return (await self._ledger.queue.submit(NewItem("chore", title))).id

    async def do(self, item: str, *verbs: Verb, **values: Any) -> None:
        for verb in verbs:
            extra = values if verb is verbs[-1] else {}
            await self._ledger.queue.apply(order(verb, item, **extra))

    async def work(self, item: str, seconds: float, end: Verb = Verb.COMPLETE, **how: Any) -> None:
        await self.do(item, Verb.DISPATCH, Verb.START)
        self._clock.advance(seconds)
        await self.do(item, end, **how)

    async def run(self, seconds: float, status: RunStatus, usd: float | None) -> None:
        run = await self._ledger.runs.begin("ada", TriggerKind.MANUAL)
        self._clock.advance(seconds)
        usage = Usage(100, 20, usd)
        await self._ledger.runs.end(run, RunEnd(status, usage=usage))

    async def figures(self, window: Window = Window.DAY, zone: str = "UTC") -> Statistics:
        return await self._ledger.figures.over(window, zone)


@pytest.fixture
def scene(ledger: Ledger, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(statistics, "SLOW", 1e9)  # nothing is told twice, however slow we are
    return Scene(ledger, clock)


def counted(found: Statistics) -> dict[str, tuple[int, int, int, int, int]]:
    """By the hour or day of its beginning in the zone asked for; where nothing happened is left
    out, but for the last."""
    return {
        from_text(one.begins).astimezone(ZoneInfo(found.zone)).strftime("%d %H"): (
            one.created,
            one.completed,
            one.failed,
            one.cancelled,
            one.open,
        )
        for one in found.periods
        if one.created + one.completed + one.failed + one.cancelled or one is found.periods[-1]
    }


async def test_a_day_is_counted_hour_by_hour(scene: Scene) -> None:
    scene.at("2026-04-30T11:30Z")
    old = await scene.item()
    scene.at("2026-04-30T13:10Z")
    bad = await scene.item()
    scene.at("2026-04-30T14:00Z")
    await scene.work(old, 20 * MINUTE)
    scene.at("2026-04-30T15:05Z")
    await scene.work(bad, 30 * MINUTE, Verb.FAIL, reason="it broke")
    scene.at("2026-05-01T12:10Z")
    unwanted = await scene.item()
    scene.at("2026-05-01T12:20Z")
    await scene.do(unwanted, Verb.CANCEL)
    scene.at("2026-05-01T12:25Z")
    await scene.item()
    scene.at("2026-05-01T12:30Z")
    found = await scene.figures()
    assert counted(found) == {
        "30 13": (1, 0, 0, 0, 2),  # the old one and the bad one
        "30 14": (0, 1, 0, 0, 1),
        "30 15": (0, 0, 1, 0, 0),
        "01 12": (2, 0, 0, 1, 1),
    }
    assert len(found.periods) == 24
    assert found.periods[0].begins == "2026-04-30T13:00:00.000000Z"
    assert [one.open for one in found.periods] == [2, 1] + [0] * 21 + [1]
    assert (found.open, found.created, found.completed) == (1, 3, 1)
    assert {status for status, count in found.standing.items() if count} == {Status.QUEUED}
    assert (found.failed, found.cancelled) == (1, 1)
    lead = Spread(1, 2 * HOUR + 50 * MINUTE, 2 * HOUR + 50 * MINUTE)
    assert (found.lead_time, found.periods[1].lead_time) == (lead, lead)
    assert found.periods[2].lead_time == Spread()  # what failed was not completed
    assert found.time_in_status == {
        Status.QUEUED: Spread(3, 115 * MINUTE, 150 * MINUTE),  # 10, 115 and 150 minutes
        Status.DISPATCHED: Spread(2, 0.0, 0.0),
        Status.IN_PROGRESS: Spread(2, 20 * MINUTE, 30 * MINUTE),
        Status.BLOCKED: Spread(),
        Status.IN_REVIEW: Spread(),
    }
    assert found.failures == (("it broke", 1),)


async def test_days_are_the_viewers(scene: Scene) -> None:
    """On 25 October 2026 Berlin's clocks go back: that day has 25 hours."""
    scene.at("2026-10-24T21:59Z")  # 23:59 on Saturday there
    first, second, third = [await scene.item() for _ in range(3)]
    await scene.work(first, 30.0)
    scene.at("2026-10-24T22:00Z")  # midnight
    await scene.work(second, 0.0)
    scene.at("2026-10-25T22:59:59Z")  # the last second of the long day
    await scene.work(third, 0.0)
    scene.at("2026-10-26T12:00Z")
    berlin = await scene.figures(Window.WEEK, "Europe/Berlin")
    assert counted(berlin) == {
        "24 00": (3, 1, 0, 0, 2),
        "25 00": (0, 2, 0, 0, 0),
        "26 00": (0, 0, 0, 0, 0),
    }
    utc = await scene.figures(Window.WEEK)
    assert counted(utc) == {
        "24 00": (3, 2, 0, 0, 1),
        "25 00": (0, 1, 0, 0, 0),
        "26 00": (0, 0, 0, 0, 0),
    }


async def test_what_was_retried_has_not_failed_and_counts_every_stay(scene: Scene) -> None:
    scene.at("2026-05-01T08:00Z")
    item = await scene.item()
    scene.at("2026-05-01T08:10Z")
    await scene.work(item, 5 * MINUTE, Verb.FAIL)
    found = await scene.figures()
    assert (found.failed, found.open, found.failures) == (1, 0, ((NO_REASON, 1),))
    scene.at("2026-05-01T09:00Z")
    await scene.do(item, Verb.RETRY)
    found = await scene.figures()
    assert (found.failed, found.open, found.failures) == (0, 1, ())
    scene.at("2026-05-01T09:01Z")
    await scene.work(item, 2 * MINUTE)
    found = await scene.figures()
    assert (found.completed, found.open) == (1, 0)
    assert found.time_in_status[Status.QUEUED] == Spread(1, 11 * MINUTE, 11 * MINUTE)
    assert found.time_in_status[Status.IN_PROGRESS] == Spread(1, 7 * MINUTE, 7 * MINUTE)
    assert found.lead_time == Spread(1, 63 * MINUTE, 63 * MINUTE)


async def test_runs_are_counted_where_they_began(scene: Scene) -> None:
    scene.at("2026-04-30T23:59Z")
    await scene.run(2 * MINUTE, RunStatus.SUCCEEDED, 0.25)
    await scene.run(1.0, RunStatus.FAILED, None)
    await scene.run(1.0, RunStatus.SUCCEEDED, 0.5)
    found = await scene.figures(Window.WEEK)
    yesterday, today = (one.spent for one in found.periods[-2:])
    assert yesterday == Spent(1, 120.0, 120, 0.25)
    assert today == Spent(2, 2.0, 240, 0.5)
    assert found.spent == Spent(3, 122.0, 360, 0.75)
    assert found.runs == {"succeeded": 2, "failed": 1}


async def test_an_empty_ledger_has_figures_too(scene: Scene) -> None:
    for window, length in ((Window.DAY, 24), (Window.WEEK, 7), (Window.MONTH, 30)):
        found = await scene.figures(window, "Asia/Kolkata")
        assert len(found.periods) == length
        assert {(one.created, one.open, one.lead_time) for one in found.periods} == {
            (0, 0, Spread())
        }
        assert (found.lead_time, found.failures, found.runs) == (Spread(), (), {})
        assert set(found.time_in_status.values()) == {Spread()}


async def test_a_busy_hour_is_looked_at_in_several_places(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "MOST_TIMED", 8)
    monkeypatch.setattr(statistics, "SLICES", 4)
    scene.at("2026-05-01T10:00Z")
    items = [await scene.item() for _ in range(13)]
    for n, item in enumerate(items[:12]):  # three in each quarter of an hour
        scene.at(f"2026-05-01T10:{5 * n:02d}:01Z")
        await scene.work(item, 0.0)
    scene.at("2026-05-01T11:30Z")
    await scene.work(items[12], 0.0)
    found = await scene.figures()
    busy, quiet = found.periods[-2].lead_time, found.periods[-1].lead_time
    # The last two of each quarter: 5, 10, 20, 25, 35, 40, 50 and 55 minutes, and a second.
    assert busy == Spread(8, 25 * MINUTE + 1, 55 * MINUTE + 1)
    assert quiet == Spread(1, 90 * MINUTE, 90 * MINUTE)
    # Each of the eight stands for one and a half: the thirteenth does not weigh as much as two.
    assert found.lead_time == Spread(9, 35 * MINUTE + 1, 55 * MINUTE + 1)


async def test_rare_reasons_are_told_together(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "MOST_REASONS", 2)
    for reason in ("a", "b", "b", "c", "c", "c", "d"):
        await scene.work(await scene.item(), 0.0, Verb.FAIL, reason=reason)
    assert (await scene.figures()).failures == (("c", 3), ("b", 2), (OTHERS, 2))


async def test_where_no_reason_was_given_the_note_tells_it(scene: Scene) -> None:
    for notes in (
        "Error: it exited with 1: boom",
        "Half of it is done.\n\nError: it exited with 1: boom\n\n- https://e.org/1",
        "\n  The repository is gone.  \nReally.",
        "x" * 300,
        None,
    ):
        await scene.work(await scene.item(), 0.0, Verb.FAIL, notes=notes)
    await scene.work(await scene.item(), 0.0, Verb.FAIL, reason="too hard", notes="Error: no")
    assert dict((await scene.figures()).failures) == {
        "it exited with 1: boom": 2,
        "The repository is gone.": 1,
        "x" * 119 + "…": 1,
        NO_REASON: 1,
        "too hard": 1,
    }


async def test_what_is_dear_is_not_looked_for_at_every_glance(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "SLOW", -1.0)
    monkeypatch.setattr(statistics, "KEPT_TIMES", 1e9)
    first = await scene.figures()
    await scene.item()
    again = await scene.figures()
    assert (again.now, again.open, first.again_in) == (first.now, 0, None)
    assert again.again_in is not None, "nobody is told that it can be asked for once more"
    assert (await scene.figures(Window.WEEK)).open == 1
    monkeypatch.setattr(statistics, "KEPT_TIMES", -1.0)  # it is over at once
    assert (await scene.figures(Window.MONTH)).open == 1
    await scene.item()
    assert (await scene.figures(Window.MONTH)).open == 2


# times


def edges(window: Window, now: str, zone: str) -> list[timedelta]:
    found = buckets(window, datetime.fromisoformat(now), ZoneInfo(zone))
    assert all(one.ends == following.begins for one, following in pairwise(found))
    assert found[-1].begins <= to_text(datetime.fromisoformat(now)) < found[-1].ends
    return [from_text(one.ends) - from_text(one.begins) for one in found]


def test_days_go_from_midnight_to_midnight_whatever_the_clocks_do() -> None:
    day, hour = timedelta(days=1), timedelta(hours=1)
    back = edges(Window.WEEK, "2026-10-26T12:00Z", "Europe/Berlin")
    assert back == [*[day] * 5, day + hour, day]
    on = edges(Window.WEEK, "2026-03-29T12:00Z", "Europe/Berlin")
    assert on == [*[day] * 6, day - hour]
    # Where midnight itself is left out, the day begins at one.
    assert edges(Window.WEEK, "2026-04-24T12:00Z", "Africa/Cairo")[-1] == day - hour
    assert edges(Window.MONTH, "2026-05-01T12:00Z", "UTC") == [day] * 30
    assert edges(Window.DAY, "2026-10-25T01:30Z", "Europe/Berlin") == [hour] * 24
    half = buckets(Window.DAY, datetime(2026, 5, 1, 12, 10, tzinfo=UTC), ZoneInfo("Asia/Kolkata"))
    assert half[-1].begins == "2026-05-01T11:30:00.000000Z"  # 17:00 there


def test_windows_and_zones_that_are_not_known_are_refused_with_their_name() -> None:
    for wrong in ("1h", "", "24H"):
        with pytest.raises(InvalidInput, match=r"there are 24h, 7d, 30d") as caught:
            read_window(wrong)
        assert caught.value.details["field"] == "window"
    for wrong in ("", "Mars/Olympus", "../etc/passwd", "Europe", "\x00"):
        with pytest.raises(InvalidInput, match=r"Europe/Berlin") as caught:
            read_zone(wrong)
        assert caught.value.details["field"] == "zone"


def test_a_spread_names_values_that_did_occur() -> None:
    assert spread([]) == Spread()
    assert spread([(7.0, 1.0)]) == Spread(1, 7.0, 7.0)
    assert spread((float(n), 1.0) for n in range(10, 0, -1)) == Spread(10, 5.0, 9.0)
    assert spread([(1.0, 98.0), (2.0, 1.0), (3.0, 1.0)]) == Spread(3, 1.0, 1.0)
    assert spread([(1.0, 0.1)] * 9 + [(2.0, 9.0)]) == Spread(10, 2.0, 2.0)


# plans: what lies outside of the window costs nothing

NOW = ManualClock().now()
FEW, MANY, INSIDE = 200, 10_000, 40
BEGINS, ENDS = ManualClock().text(-HOUR), ManualClock().text(1)
STRETCH = {"begins": BEGINS, "ends": ENDS}


def _ids(count: int) -> list[str]:
    """Made in the hour before now, or long before that."""
    clock = ManualClock(NOW - timedelta(days=90))
    ids = IdFactory(clock)
    old = [ids.new() for _ in range(count)]
    clock.advance(90 * 86_400 - 1800)
    return old + [ids.new() for _ in range(INSIDE)]


def _asked(ids: list[str]) -> dict[str, tuple[dict[str, Any], str]]:
    return {
        "count_open": ({}, "work_items_by_status"),
        "count_created": ({"first": ids[-INSIDE], "beyond": "ffff"}, "work_items_pkey|id>"),
        "count_ended": ({"status": "completed", **STRETCH}, "work_items_by_end"),
        "last_ended": ({"status": "completed", "want": 10, **STRETCH}, "work_items_by_end"),
        "failure_reasons": ({"want": 10, **STRETCH}, "work_items_by_end"),
        "arrivals": ({"items": str(ids[-10:]).replace("'", '"')}, "events_by_item"),
        "spent_by_status": (STRETCH, "runs_by_start"),
        "tallies": ({"since": BEGINS}, "runs_by_start"),
        "open_runs_by_agent": ({}, "runs_open"),
        "post_waiting": ({}, "outbox_due"),
        "post_dead": ({}, "outbox_dead"),
    }


NAMES = tuple(_asked(["x"] * INSIDE))
# Most have ended long ago; a few within the window.
SPREAD_OUT = (
    "UPDATE work_items SET completed_at = CASE WHEN id >= '{0}' THEN '{1}' ELSE '2026-02-01' END,"
    " status = CASE WHEN priority = 1 THEN 'failed' ELSE 'completed' END,"
    " outcome = CASE WHEN priority = 1 THEN 'failed' ELSE 'success' END",
    "INSERT INTO runs (id, agent, trigger_kind, node, started_at, ended_at, status)"
    " SELECT id, 'ada', 'worker', 'n', completed_at, completed_at, 'succeeded' FROM work_items",
    "INSERT INTO outbox (id, kind, subject, payload, created_at, next_attempt_at, delivered_at)"
    " SELECT id, 'report', id, '{{}}', completed_at, completed_at, completed_at FROM work_items",
)


async def _fill(url: str, ids: list[str], execute: Any) -> None:
    def body(tx: Transaction) -> None:
        for start in range(0, len(ids), 1_000):
            items = [
                (one, NewItem("chore", "x", body="y" * 200, priority=1 + n % 5))
                for n, one in enumerate(ids[start : start + 1_000])
            ]
            tx.insert_items(items, None, BEGINS)

    store = make_store(url)
    await store.open()
    await store.transact(body)
    await store.close()
    for statement in SPREAD_OUT:
        execute(statement.format(ids[-INSIDE], ManualClock().text(-60)))


Filled = dict[int, tuple[apsw.Connection, list[str]]]


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    opened: Filled = {}
    for count in (FEW, MANY):
        path: Path = tmp_path_factory.mktemp("plans") / "rota.db"
        anyio.run(make_store(str(path)).upgrade)
        connection, ids = apsw.Connection(str(path)), _ids(count)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        anyio.run(_fill, str(path), ids, connection.execute)
        opened[count] = connection, ids
    yield opened
    for connection, _ in opened.values():
        connection.close()


@pytest.mark.parametrize("name", NAMES)
def test_sqlite_works_as_hard_whatever_lies_outside_of_the_window(
    databases: Filled, name: str
) -> None:
    statement, taken = load_statements("sqlite")[name], []
    for connection, ids in databases.values():
        values, index = _asked(ids)[name]
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        plan = [str(row[3]) for row in rows]
        assert any(re.search(index, line) for line in plan), plan
        taken.append(steps(connection, statement, values))
    few, many = taken
    assert 0 < many <= 1.2 * few + 50


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> Iterator[tuple["psycopg.Connection[Any]", list[str]]]:
    url, ids = postgres.create_database("rota_statistic_plans"), _ids(MANY)
    anyio.run(make_store(url).upgrade)
    with psycopg.connect(url, autocommit=True) as connection:
        anyio.run(_fill, url, ids, lambda text: connection.execute(text.encode()))
        connection.execute("VACUUM ANALYZE")
        yield connection, ids
    postgres.drop_database("rota_statistic_plans")


@pytest.mark.parametrize("name", NAMES)
def test_postgres_reads_the_index_of_the_window(
    server: tuple["psycopg.Connection[Any]", list[str]], name: str
) -> None:
    connection, ids = server
    values, index = _asked(ids)[name]
    statement = to_psycopg(load_statements("postgres")[name])
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {statement}".encode(), values)
        plan = "\n".join(str(row[0]) for row in cursor.fetchall())
    assert re.search(rf"(using|on) \w*({index})\w*", plan), plan
    assert "Seq Scan" not in plan, plan
    assert not re.search(r"(rows=|Rows Removed by Filter: )\d{3,}", plan), plan
