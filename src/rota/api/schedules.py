"""Schedules: looked at, switched, and triggered by people."""

from rota.api import schedule_hooks
from rota.api import schedule_wire as wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.api.schedule_hooks import TAG, named
from rota.api.schedule_wire import Restore, ScheduleQuery, TriggerNow
from rota.model.access import ADMIN, DISPATCH, READ
from rota.model.errors import BadCursor
from rota.model.work import NAME


@endpoint(
    "GET", "/schedules", scope=READ, tag=TAG, gives=list[wire.Schedule], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_schedules(call: Call, query: ScheduleQuery) -> Answer:
    """List schedules by agent and name: when each ran, when it will, and why it did not."""
    after = None if query.cursor is None else _place(query.cursor)
    found = await call.ledger.schedules.find(query.agent, after, query.limit)
    full = len(found) == query.limit
    headers = call.next_page(cursor=f"{found[-1].agent}/{found[-1].name}") if full else None
    return json_answer([wire.schedule_of(one) for one in found], 200, headers)


def _place(cursor: str) -> tuple[str, str]:
    agent, _, name = cursor.partition("/")
    if not NAME.fullmatch(agent) or not NAME.fullmatch(name):
        raise BadCursor("cursor: not one of ours; take it from the Link header", field="cursor")
    return agent, name


@endpoint("GET", "/schedules/{agent}/{schedule}", scope=READ, tag=TAG, gives=wire.Schedule)
async def show_schedule(call: Call) -> Answer:
    """Look at one schedule."""
    return json_answer(wire.schedule_of(await call.ledger.schedules.get(*named(call))))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/enable", scope=DISPATCH, tag=TAG, gives=wire.Schedule
)
async def enable_schedule(call: Call) -> Answer:
    """Let a schedule wake its agent again, from now on.

    What passed while it was disabled is not made up for.
    """
    state = await call.ledger.schedules.enable(*named(call), actor=call.actor)
    return json_answer(wire.schedule_of(state))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/disable", scope=DISPATCH, tag=TAG, gives=wire.Schedule
)
async def disable_schedule(call: Call) -> Answer:
    """Keep a schedule from waking its agent. What runs goes on.

    It holds until it is enabled again, or `enabled` is changed in the configuration.
    """
    state = await call.ledger.schedules.disable(*named(call), actor=call.actor)
    return json_answer(wire.schedule_of(state))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/trigger", scope=DISPATCH, tag=TAG, gives=wire.Trigger,
    status=202, refuses=(409,),
)  # fmt: skip
async def trigger_schedule(call: Call, body: TriggerNow) -> Answer:
    """Wake the agent now, whatever the clock says; also when the schedule is disabled.

    A node that has the agent takes it up as soon as there is room; `GET /triggers/{id}` says what
    became of it.
    """
    trigger = await call.ledger.schedules.trigger(*named(call), body.message, actor=call.actor)
    return json_answer(wire.trigger_of(trigger), 202)


@endpoint("DELETE", "/schedules/{agent}/{schedule}", scope=ADMIN, tag=TAG, status=204)
async def forget_schedule(call: Call) -> Answer:
    """Forget a schedule that no configuration names any more.

    One that a server has in its configuration comes back soon, without its past.
    """
    await call.ledger.schedules.forget(*named(call))
    return empty_answer()


@endpoint("GET", "/triggers/{id}", scope=READ, tag=TAG, gives=wire.Trigger)
async def show_trigger(call: Call) -> Answer:
    """Look at one trigger: who has taken it up, and how it ended."""
    return json_answer(wire.record_of(await call.ledger.schedules.trigger_record(call.id)))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/restore", scope=ADMIN, tag=TAG, gives=wire.Restored
)
async def restore_schedule(call: Call, body: Restore) -> Answer:
    """Take over what another scheduler knew of a schedule, before it has run here.

    An interval goes on from its last run; the configuration may be read later.
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
