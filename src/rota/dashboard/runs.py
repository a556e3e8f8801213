"""Runs: the list, and one run with its log."""

from typing import Annotated
from urllib.parse import urlencode

from msgspec import Meta

from rota.api.answers import Answer
from rota.api.bodies import Strict, Wanted
from rota.api.call import Call
from rota.api.mistakes import status_named
from rota.api.routing import endpoint
from rota.dashboard.markdown import web_address
from rota.dashboard.rendering import page
from rota.dashboard.run_logs import log_of
from rota.model.access import DISPATCH, READ
from rota.model.runs import Run, RunFilter, RunStatus

RUNS_A_PAGE = 50
# Statuses that people ask for together; single ones go by their own names.
WENT_WRONG = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CLAIM_LOST, RunStatus.LOST)


class RunsQuery(Strict, frozen=True):
    agent: Wanted | None = None
    schedule: Wanted | None = None
    item: Wanted | None = None
    status: tuple[str, ...] = ()
    cursor: Annotated[str, Meta(pattern="^[0-9a-f-]{36}$")] | None = None


@endpoint("GET", "/ui/runs", scope=READ, tag="dashboard", hidden=True)
async def runs(call: Call, query: RunsQuery) -> Answer:
    """Runs, newest first."""
    statuses = tuple(status_named(RunStatus, name) for name in query.status)
    wanted = RunFilter(query.agent, query.schedule, query.item, statuses, query.cursor)
    found = await call.ledger.runs.find(wanted, RUNS_A_PAGE + 1)
    shown = found[:RUNS_A_PAGE]
    return await page(
        call, "runs.html", "runs", query=query, runs=shown, statuses=tuple(RunStatus),
        went_wrong=",".join(WENT_WRONG), chosen=",".join(statuses),
        agents=[load.agent.name for load in await call.ledger.views.agents()],
        schedules=sorted({run.schedule for run in shown if run.schedule}),
        older=_address(query, shown[-1]) if len(found) > RUNS_A_PAGE else None,
        newest=_address(query) if query.cursor else None,
        is_filtered=bool(query.agent or query.schedule or query.item or statuses),
    )  # fmt: skip


def _address(query: RunsQuery, last: Run | None = None) -> str:
    """The same filters from another place on; `last` is the last run of the previous page."""
    pairs = [(name, getattr(query, name)) for name in ("agent", "schedule", "item")]
    pairs += [("status", ",".join(query.status)), ("cursor", last.id if last else None)]
    asked = urlencode([(name, value) for name, value in pairs if value])
    return f"/ui/runs?{asked}" if asked else "/ui/runs"


@endpoint("GET", "/ui/runs/{id}", scope=READ, tag="dashboard", hidden=True)
async def run(call: Call) -> Answer:
    """One run with its log."""
    found = await call.ledger.runs.get(call.id)
    return await page(
        call, "run.html", "runs", run=found, log=await log_of(call, found),
        web_address=web_address, may_cancel=call.caller.may(DISPATCH),
    )  # fmt: skip


ENDPOINTS = (runs, run)
