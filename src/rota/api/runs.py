"""Runs: viewed and cancelled by people, begun and ended by workers on other machines."""

import asyncio
from dataclasses import replace

import msgspec

from rota.api import run_wire as wire
from rota.api.answers import Answer, Beginning, Reply, empty_answer, json_answer
from rota.api.call import Call
from rota.api.mistakes import status_named
from rota.api.pages import bad_cursor, id_cursor, page_answer
from rota.api.permits import demand_own
from rota.api.routing import endpoint
from rota.api.run_log import NDJSON, LogStream
from rota.api.run_wire import BeginRun, EndRun, LogQuery, PieceQuery, PostQuery, RunQuery
from rota.model.access import DISPATCH, READ, WORK
from rota.model.claims import Claim
from rota.model.clock import parse_time, to_text
from rota.model.errors import InvalidInput, NotFound, Refused
from rota.model.runs import FIRST_POST, OutboxEntry, PostPlace, Run, RunFilter, RunStatus
from rota.model.schedules import TriggerKind
from rota.model.work import WorkItem, check_text
from rota.runner import logs

TAG = "runs"
# Of a log that a worker sends. The worker's own limit (`output_limit`) is usually lower.
LARGEST_LOG = 64 * 1024 * 1024
WORKER = "worker:"  # prefix of a worker's name, so that it cannot pass for a server


# for people


@endpoint("GET", "/runs", scope=READ, tag=TAG, gives=list[wire.Run], refuses=(400,), sets=("Link",))
async def list_runs(call: Call, query: RunQuery) -> Answer:
    """List runs, newest first.

    Name several statuses by repeating `status` or with commas.
    """
    start = id_cursor(query.cursor)
    wanted = RunFilter(
        query.agent,
        query.schedule,
        query.work_item_id,
        tuple(status_named(RunStatus, name) for name in query.status),
    )

    async def ask(limit: int, cursor: str | None) -> tuple[list[Run], bool]:
        found = await call.ledger.runs.find(replace(wanted, before=cursor), limit)
        return found, len(found) == limit

    return await page_answer(
        call, query.limit, start, ask, written=wire.run_of, place=lambda run: run.id
    )


@endpoint("GET", "/runs/{id}", scope=READ, tag=TAG, gives=wire.Run)
async def show_run(call: Call) -> Answer:
    """Show one run."""
    return json_answer(wire.run_of(await call.ledger.runs.get(call.id)))


@endpoint("GET", "/runs/{id}/log", scope=READ, tag=TAG, gives=str, media_type=NDJSON)
async def read_log(call: Call, query: LogQuery) -> Reply:
    """Read the log of a run: one JSON object per line, from `offset` on.

    With `follow` or `Accept: text/event-stream`, the answer goes on until the run has ended; an
    empty line or a comment shows that the server is still there. Every line has `ts` and `text`.
    """
    book = call.ledger.runs
    run = await book.get(call.id)
    path = book.log(run.id)
    if run.node != book.node and run.trigger is not TriggerKind.WORKER and not path.exists():
        raise NotFound(
            f"the log of this run is not here: it was written on {await book.whereabouts(run)!r};"
            " ask the server there, unless it is old enough to have been pruned",
            node=run.node,
        )
    stream = LogStream.of(call, query, path, run)
    return Beginning(stream.media_type) if call.wants_head else stream


@endpoint("POST", "/runs/{id}/cancel", scope=DISPATCH, tag=TAG, gives=wire.Run, refuses=(409,))
async def cancel_run(call: Call) -> Answer:
    """Ask for a run to be ended.

    The server or worker that has the process ends it, at once or within seconds.
    """
    return json_answer(wire.run_of(await call.ledger.runs.cancel(call.id)))


# for workers


@endpoint(
    "POST", "/runs", scope=WORK, tag=TAG, gives=wire.Run, status=201, also=(200,),
    refuses=(404, 409), sets=("Location",),
)  # fmt: skip
async def begin_run(call: Call, body: BeginRun) -> Answer:
    """Record that a worker begins to run an agent on an item.

    The worker shows the token of its live claim on the item; the call also extends that claim by
    another lease. A repeat by the same claim returns the same run, with 200.
    """
    call.caller.demand_agent(body.agent)
    claim, item = await _claimed(call, body)
    node = f"{WORKER}{body.node or call.actor}"
    run, is_new = await call.ledger.runs.begin_once(claim, item, schedule=body.schedule, node=node)
    return json_answer(wire.run_of(run), 201 if is_new else 200, {"location": f"/runs/{run.id}"})


async def _claimed(call: Call, body: BeginRun) -> tuple[Claim, WorkItem]:
    item = await call.ledger.views.item(body.work_item_id)
    await demand_own(call, item, body.token)
    claim = await call.ledger.queue.heartbeat(body.work_item_id, body.token, actor=call.actor)
    item = await call.ledger.views.item(body.work_item_id)
    if claim.agent != body.agent:
        raise InvalidInput(f"agent: the claim is {claim.agent!r}'s", field="agent")
    return claim, item


@endpoint(
    "POST", "/runs/{id}/log", scope=WORK, tag=TAG, gives=wire.LogSize, accepts=NDJSON,
    refuses=(409, 413, 415),
)  # fmt: skip
async def append_log(call: Call, query: PieceQuery) -> Answer:
    """Append to the log of a run: whole lines that begin at `offset`.

    Each line is a JSON object. What is already there is not written twice. The answer says how
    large the log is now; less than was sent means that the log is full.
    """
    run = await _own(call)
    if run.status.ended:
        raise Refused(f"run {run.id} has ended already: {run.status}", run_status=run.status)
    path, piece = call.ledger.runs.log(run.id), await call.raw_body()
    size = await asyncio.to_thread(logs.append, path, query.offset, piece, limit=LARGEST_LOG)
    return json_answer(wire.LogSize(size))


@endpoint("POST", "/runs/{id}/end", scope=WORK, tag=TAG, gives=wire.Run, refuses=(409,))
async def end_run(call: Call, body: EndRun) -> Answer:
    """Record how a worker's run has ended.

    A repeat with the same body gets the same answer. The call does not move the item; the verbs do.
    With `limits`, failures in a row and a used-up quota pause the agent as `limits` says.
    """
    run = await _own(call)
    end = wire.end_of(_checked(body), _ending(body.status))
    agent = wire.spec_of(run.agent, body.limits)
    ended = None if run.status.ended else await call.ledger.runs.end(run, end, agent)
    if ended is None:
        ended = await call.ledger.runs.get(run.id)
        if not wire.says_the_same(ended, end):
            raise Refused(
                f"run {run.id} has ended already: {ended.status}", run_status=ended.status
            )
    return json_answer(wire.run_of(ended))


async def _own(call: Call) -> Run:
    """A worker's run; nobody else may end a run of a server."""
    run = await call.ledger.runs.get(call.id)
    call.caller.demand_agent(run.agent, "this run")
    if run.trigger is not TriggerKind.WORKER:
        raise Refused(f"run {run.id} is no worker's, but of the node {run.node!r}", node=run.node)
    return run


def _ending(name: str) -> RunStatus:
    status = status_named(RunStatus, name)
    if not status.ended:
        raise InvalidInput("status: a run that has ended is not running", field="status")
    return status


def _checked(body: EndRun) -> EndRun:
    """Refuse text that one of the databases could not store."""
    for name in ("summary", "error", "session_id"):
        check_text(getattr(body, name) or "", name, wire.LONGEST_SUMMARY, empty=True)
    for name in ("artifacts", "hook_errors"):
        for text in getattr(body, name):
            check_text(text, name, wire.LONGEST_SUMMARY, empty=True)
    if body.usage_limit_until is None:
        return body
    until = to_text(parse_time(body.usage_limit_until, "usage_limit_until"))
    return msgspec.structs.replace(body, usage_limit_until=until)


# the outbox


@endpoint(
    "GET", "/outbox", scope=READ, tag="outbox", gives=list[wire.Letter], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_outbox(call: Call, query: PostQuery) -> Answer:
    """List reports and notifications that still have to be delivered.

    With `buried`, those that were given up instead.
    """

    async def ask(limit: int, cursor: str | None) -> tuple[list[OutboxEntry], bool]:
        after = FIRST_POST if cursor is None else _post_place(cursor)
        found = await call.ledger.post.list(buried=query.buried, limit=limit, after=after)
        return found, len(found) == limit

    return await page_answer(
        call, query.limit, query.cursor, ask, written=wire.letter_of,
        place=lambda one: f"{one.next_attempt_at}/{one.id}",
    )  # fmt: skip


def _post_place(cursor: str) -> PostPlace:
    at, slash, entry_id = cursor.partition("/")
    if not (slash and cursor.isprintable()):
        raise bad_cursor()
    return at, entry_id


@endpoint("POST", "/outbox/{id}/retry", scope=DISPATCH, tag="outbox", status=204)
async def retry_outbox(call: Call) -> Answer:
    """Retry the delivery of an entry that was given up."""
    await call.ledger.post.retry(call.id)
    return empty_answer()


ENDPOINTS = (
    list_runs,
    show_run,
    read_log,
    cancel_run,
    begin_run,
    append_log,
    end_run,
    list_outbox,
    retry_outbox,
)
