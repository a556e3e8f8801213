"""Statistics of the past: throughput, lead time, time in status, depth, cost."""

from typing import Annotated

from msgspec import Meta, Struct

from rota.api.answers import Answer, json_answer, shown_as
from rota.api.bodies import Strict, ZoneName
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.api.schemas import Spending
from rota.model import statistics
from rota.model.access import READ
from rota.model.statistics import Window, read_window

WindowName = Annotated[str, Meta(extra_json_schema={"enum": [str(one) for one in Window]})]


class StatisticsQuery(Strict, frozen=True):
    window: WindowName = Window.DAY.value
    zone: ZoneName = "UTC"


class Spread(Struct, frozen=True):
    """Times in seconds; `measured` is the number of items."""

    measured: int
    p50: float | None
    p90: float | None


class Period(Struct, frozen=True):
    """One hour or day; the moment `ends` is not part of it."""

    begins: str
    ends: str
    created: int
    completed: int
    failed: int
    cancelled: int
    open: int  # at the end of the period; for the current one, now
    lead_time: Spread
    spent: Spending  # by the runs that began in it


class StatusCount(Struct, frozen=True):
    status: str
    items: int


class StatusTime(Struct, frozen=True):
    status: str
    time: Spread


class Failures(Struct, frozen=True):
    reason: str
    items: int


class RunCount(Struct, frozen=True):
    status: str
    runs: int


class Statistics(Struct, frozen=True):
    """Items count by their present status: one that failed and was retried has not failed."""

    window: Window
    zone: str
    now: str
    open: int
    open_by_status: list[StatusCount]
    created: int
    completed: int
    failed: int
    cancelled: int
    lead_time: Spread
    time_in_status: list[StatusTime]
    failures: list[Failures]
    runs: list[RunCount]
    spent: Spending
    periods: list[Period]


@endpoint("GET", "/statistics", scope=READ, tag="statistics", gives=Statistics)
async def show_statistics(call: Call, query: StatisticsQuery) -> Answer:
    """Show what was done, how long it took, what failed and what it cost.

    Periods are hours for `24h`, else days from midnight to midnight in `zone`. Counts are exact.
    Lead times are of at most 512 items of each hour or day, times in a status are of the 1,000
    items that ended last, and reasons are of the last 10,000 failures.
    """
    found = await call.ledger.figures.over(read_window(query.window), query.zone)
    return json_answer(_statistics_of(found))


def _statistics_of(found: statistics.Statistics) -> Statistics:
    return shown_as(
        Statistics,
        found,
        open_by_status=[StatusCount(status, count) for status, count in found.standing.items()],
        lead_time=shown_as(Spread, found.lead_time),
        time_in_status=[
            StatusTime(status, shown_as(Spread, one))
            for status, one in found.time_in_status.items()
        ],
        failures=[Failures(reason, count) for reason, count in found.failures],
        runs=[RunCount(status, count) for status, count in found.runs.items()],
        spent=shown_as(Spending, found.spent),
        periods=[_period_of(one) for one in found.periods],
    )


def _period_of(one: statistics.Period) -> Period:
    lead_time, spent = shown_as(Spread, one.lead_time), shown_as(Spending, one.spent)
    return shown_as(Period, one, lead_time=lead_time, spent=spent)


ENDPOINTS = (show_statistics,)
