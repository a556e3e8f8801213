"""Signals: when this happens, that follows."""

from rota.api import schemas
from rota.api import signal_wire as wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.call import Call
from rota.api.follow_ups import follow_up_endpoints
from rota.api.mistakes import status_named
from rota.api.pages import id_cursor, page_answer
from rota.api.routing import Endpoint, endpoint, given
from rota.api.signal_wire import (
    FiringQuery,
    NewSignal,
    SignalQuery,
    firing_cursor,
    firing_place,
)
from rota.api.wire import event_of
from rota.model import signals as model
from rota.model.access import DISPATCH, READ
from rota.model.signals import FiringStatus, SignalStatus
from rota.signals import Signals

TAG = "signals"


@endpoint(
    "POST", "/signals", scope=DISPATCH, tag=TAG, gives=wire.Signal, status=201,
    refuses=(409,), sets=("Location",),
)  # fmt: skip
async def create_signal(signals: Signals, call: Call, body: NewSignal) -> Answer:
    """Make a signal: when `trigger` happens, `action` follows, once or `max_fires` times.

    A signal is for one item (`work_item_id`), or for all items that the trigger's filters select.
    What it names must exist. `title` and `body` may contain fields of what happened, for example
    `{item.description}`, `{event.reason}`, `{run.error}`.
    """
    made = await signals.create(_read(signals, body), actor=call.actor)
    return json_answer(wire.signal_of(made), 201, {"location": f"/signals/{made.id}"})


@endpoint(
    "GET", "/signals", scope=READ, tag=TAG, gives=list[wire.Signal], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_signals(signals: Signals, call: Call, query: SignalQuery) -> Answer:
    """List signals by age."""
    status = None if query.status is None else status_named(SignalStatus, query.status)

    async def ask(limit: int, cursor: str | None) -> tuple[list[model.Signal], bool]:
        place = id_cursor(cursor)
        found = await signals.find(status, query.work_item_id, after=place, limit=limit)
        return found, len(found) == limit

    return await page_answer(
        call, query.limit, query.cursor, ask, written=wire.signal_of, place=lambda one: one.id
    )


@endpoint("GET", "/signals/{id}", scope=READ, tag=TAG, gives=wire.SignalDetail)
async def show_signal(signals: Signals, call: Call) -> Answer:
    """Show one signal with its latest firings, newest first."""
    detail = await signals.get(call.id)
    return json_answer(wire.detail_of(detail.signal, detail.firings))


@endpoint("DELETE", "/signals/{id}", scope=DISPATCH, tag=TAG, status=204, refuses=(409,))
async def cancel_signal(signals: Signals, call: Call) -> Answer:
    """Cancel an active signal.

    What it has already done stays.
    """
    await signals.cancel(call.id, actor=call.actor)
    return empty_answer()


@endpoint("POST", "/signals/test", scope=READ, tag=TAG, gives=list[schemas.Event])
async def test_signal(signals: Signals, call: Call, body: NewSignal) -> Answer:
    """Show which of the last 1,000 events would have fired a signal.

    Nothing is stored. Events are judged by the present state of the items, and `max_fires` is
    ignored.
    """
    found = await signals.test(_read(signals, body))
    return json_answer([event_of(one) for one in found])


@endpoint(
    "GET", "/signals/firings", scope=READ, tag=TAG, gives=list[wire.Firing], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_firings(signals: Signals, call: Call, query: FiringQuery) -> Answer:
    """List firings with a status, oldest first; by default those that failed."""
    status = status_named(FiringStatus, query.status)

    async def ask(limit: int, cursor: str | None) -> tuple[list[model.FiringRecord], bool]:
        found = await signals.firings(status, limit, after=firing_place(cursor))
        return found, len(found) == limit

    return await page_answer(
        call, query.limit, query.cursor, ask, written=wire.firing_of, place=firing_cursor
    )


@endpoint(
    "POST", "/signals/firings/{firing}/retry", scope=DISPATCH, tag=TAG, gives=wire.Firing,
    refuses=(409,),
)  # fmt: skip
async def retry_firing(signals: Signals, call: Call) -> Answer:
    """Retry a firing that failed for good."""
    return json_answer(wire.firing_of(await signals.retry(call.id)))


def _read(signals: Signals, body: NewSignal) -> model.NewSignal:
    return signals.read(
        body.trigger,
        body.action,
        work_item_id=body.work_item_id,
        name=body.name,
        max_fires=body.max_fires,
        expires_at=body.expires_at,
        max_depth=body.max_depth,
    )


_ENDPOINTS = (
    create_signal,
    list_signals,
    show_signal,
    cancel_signal,
    test_signal,
    list_firings,
    retry_firing,
)


def signal_endpoints(signals: Signals) -> tuple[Endpoint, ...]:
    """Of signals, their firings, and follow-ups."""
    return (*given(signals, _ENDPOINTS), *follow_up_endpoints(signals))
