"""Schedules: viewed, switched on and off, and triggered by people."""

from collections.abc import Sequence
from datetime import timedelta

from rota.api import schedule_hooks
from rota.api import schedule_wire as wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.call import Call
from rota.api.pages import bad_cursor
from rota.api.routing import endpoint
from rota.api.schedule_hooks import TAG, named
from rota.api.schedule_wire import Restore, ScheduleQuery, TriggerNow
from rota.model.access import ADMIN, DISPATCH, READ
from rota.model.clock import to_text
from rota.model.runs import Run
from rota.model.schedules import ScheduleState
from rota.model.work import NAME
from rota.scheduler.service import TriggerRecord

# No index covers a run's schedule, so all runs of its agent since then are read.
LOOK_BACK = timedelta(days=1)
LOOK_FAR_BACK = timedelta(days=30)


@endpoint(
    "GET", "/schedules", scope=READ, tag=TAG, gives=list[wire.Schedule], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_schedules(call: Call, query: ScheduleQuery) -> Answer:
    """List schedules by agent and name: when each ran, will run, and why it did not."""
    after = None if query.cursor is None else _place(query.cursor)
    found = await call.ledger.schedules.find(query.agent, after, query.limit)
    full = len(found) == query.limit
    headers = call.next_page(cursor=f"{found[-1].agent}/{found[-1].name}") if full else None
    runs = await last_runs(call, found)
    told = [wire.schedule_of(one, runs.get((one.agent, one.name))) for one in found]
    return json_answer(told, 200, headers)


async def last_runs(
    call: Call, states: Sequence[ScheduleState], back: timedelta = LOOK_BACK
) -> dict[tuple[str, str | None], Run]:
    """By agent and schedule. Most looks find nothing to run for, so the search for the last run
    goes further back than the last look."""
    since = to_text(call.ledger.clock.now() - back)
    looked = [one for one in states if one.last_run_at is not None]
    wanted = [(one.agent, one.name, min(one.last_run_at or since, since)) for one in looked]
    return await call.ledger.runs.latest_of(wanted)


def _place(cursor: str) -> tuple[str, str]:
    agent, _, name = cursor.partition("/")
    if not NAME.fullmatch(agent) or not NAME.fullmatch(name):
        raise bad_cursor()
    return agent, name


@endpoint("GET", "/schedules/{agent}/{schedule}", scope=READ, tag=TAG, gives=wire.Schedule)
async def show_schedule(call: Call) -> Answer:
    """Show one schedule."""
    return await _shown(call, await call.ledger.schedules.get(*named(call)))


async def _shown(call: Call, state: ScheduleState) -> Answer:
    runs = await last_runs(call, [state], LOOK_FAR_BACK)
    return json_answer(wire.schedule_of(state, runs.get((state.agent, state.name))))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/enable", scope=DISPATCH, tag=TAG, gives=wire.Schedule
)
async def enable_schedule(call: Call) -> Answer:
    """Let a schedule wake its agent again, from now on.

    Slots that passed while it was disabled are not made up for.
    """
    return await _shown(call, await call.ledger.schedules.enable(*named(call), actor=call.actor))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/disable", scope=DISPATCH, tag=TAG, gives=wire.Schedule
)
async def disable_schedule(call: Call) -> Answer:
    """Stop a schedule from waking its agent.

    Runs that have begun go on. The schedule stays disabled until it is enabled again, or until
    `enabled` is changed in the configuration.
    """
    return await _shown(call, await call.ledger.schedules.disable(*named(call), actor=call.actor))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/trigger", scope=DISPATCH, tag=TAG, gives=wire.Trigger,
    status=202, refuses=(409,),
)  # fmt: skip
async def trigger_schedule(call: Call, body: TriggerNow) -> Answer:
    """Wake the agent of a schedule now.

    This works also when the schedule is disabled. A node that has the agent starts it as soon as
    there is room; `GET /triggers/{id}` shows what became of the trigger.
    """
    trigger = await call.ledger.schedules.trigger(*named(call), body.message, actor=call.actor)
    return json_answer(wire.trigger_of(TriggerRecord(trigger)), 202)


@endpoint("DELETE", "/schedules/{agent}/{schedule}", scope=ADMIN, tag=TAG, status=204)
async def forget_schedule(call: Call) -> Answer:
    """Remove a schedule that no configuration names any more.

    If a server still has it in its configuration, it comes back soon, without its past.
    """
    await call.ledger.schedules.forget(*named(call))
    return empty_answer()


@endpoint("GET", "/triggers/{id}", scope=READ, tag=TAG, gives=wire.Trigger)
async def show_trigger(call: Call) -> Answer:
    """Show one trigger: which node has taken it, and how it ended."""
    return json_answer(wire.trigger_of(await call.ledger.schedules.trigger_record(call.id)))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/restore", scope=ADMIN, tag=TAG, gives=wire.Restored
)
async def restore_schedule(call: Call, body: Restore) -> Answer:
    """Import the state of a schedule from another scheduler.

    A schedule that has already run here stays as it is. An interval goes on from its last run. The
    configuration may be read later.
    """
    agent, name = named(call)
    restored = await call.ledger.schedules.restore(
        agent,
        name,
        enabled=body.enabled,
        last_run_at=body.last_run_at,
        last_error=body.last_error,
    )
    return json_answer(wire.Restored(restored))


ENDPOINTS = (
    list_schedules,
    show_schedule,
    enable_schedule,
    disable_schedule,
    forget_schedule,
    trigger_schedule,
    restore_schedule,
    show_trigger,
    *schedule_hooks.ENDPOINTS,
)
