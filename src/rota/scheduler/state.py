"""Reads and changes the states of schedules, for programs that embed Rota."""

from datetime import datetime

from rota.model.clock import Clock, parse_time, to_text
from rota.model.errors import InvalidInput, NotFound, Refused
from rota.model.schedules import ScheduleState, ScheduleStatus
from rota.scheduler.due import first_slot
from rota.scheduler.presence import alive_since
from rota.scheduler.roster import attended
from rota.storage.port import Store, Transaction

_AT_ONCE = 1_000


async def get_schedule_state(
    store: Store, agent: str, name: str, *, clock: Clock | None = None
) -> ScheduleState | None:
    """None when there is no such schedule."""
    since = alive_since(_now(store, clock))
    return await store.read(lambda tx: _shown(tx, agent, name, since))


async def get_agent_schedule_states(
    store: Store, agent: str, *, clock: Clock | None = None
) -> dict[str, ScheduleState]:
    since = alive_since(_now(store, clock))

    def body(tx: Transaction) -> dict[str, ScheduleState]:
        known: dict[str, ScheduleState] = {}
        after = None
        while page := tx.schedule_states(agent, after, _AT_ONCE, since):
            known |= {state.name: state for state in attended(tx, page, since)}
            after = agent, page[-1].name
        return known

    return await store.read(body, long=True)


async def update_schedule_state(
    store: Store,
    agent: str,
    name: str,
    *,
    status: ScheduleStatus | str | None = None,
    last_run_at: str | datetime | None = None,
    next_run_at: str | datetime | None = None,
    last_error: str | None = None,
    clock: Clock | None = None,
) -> ScheduleState:
    """A field that is None stays as it is. `running` is not stored, because it follows from open
    triggers; here it means the same as `idle`. A schedule that this enables goes on from now."""
    wanted = None if status is None else _known(status)
    changes: dict[str, object] = {}
    if last_run_at is not None:
        changes["last_run_at"] = _moment(last_run_at, "last_run_at")
    if last_error is not None:
        changes["last_error"] = last_error
    at = None if next_run_at is None else _moment(next_run_at, "next_run_at")
    now = _now(store, clock)
    since = alive_since(now)

    def body(tx: Transaction) -> ScheduleState | None:
        tx.lock_schedules([agent])  # its times follow from its definition, which may be changing
        state = tx.schedule_state(agent, name, since)
        if state is None:
            return None
        tx.change_schedule(agent, name, changes | _switch(state, wanted, at, now))
        return _shown(tx, agent, name, since)

    found = await store.transact(body)
    if found is None:
        raise NotFound(f"there is no schedule {agent}/{name}", agent=agent, schedule=name)
    return found


def _shown(tx: Transaction, agent: str, name: str, alive_since: str) -> ScheduleState | None:
    state = tx.schedule_state(agent, name, alive_since)
    return None if state is None else attended(tx, [state], alive_since)[0]


def _known(status: str) -> ScheduleStatus:
    """Also accepts plain text, which older scripts use."""
    try:
        return ScheduleStatus(status)
    except ValueError:
        raise InvalidInput(
            f"status: {status[:64]!r} is none; write idle, running or disabled", field="status"
        ) from None


def _switch(
    state: ScheduleState, wanted: ScheduleStatus | None, at: str | None, now: datetime
) -> dict[str, object]:
    """The columns that decide whether it wakes, and when."""
    if wanted is ScheduleStatus.DISABLED:
        return {"enabled": 0, "slot": None, "next_at": None}
    if at is not None:
        _demand_awake(state, wanted)
    elif wanted is not None and not state.enabled:
        at = first_slot(state, now)
    enabled: dict[str, object] = {} if wanted is None else {"enabled": 1}
    return enabled if at is None else {**enabled, "slot": at, "next_at": at}


def _demand_awake(state: ScheduleState, wanted: ScheduleStatus | None) -> None:
    called = f"{state.agent}/{state.name}"
    if not state.type.by_clock:
        raise Refused(f"{called} is of type {state.type}, and does not wake by the clock")
    if not state.enabled and wanted is None:
        raise Refused(f"{called} is disabled; say status='idle' with it to have it wake then")


def _moment(value: str | datetime, field: str) -> str:
    text = value.isoformat() if isinstance(value, datetime) else value
    return to_text(parse_time(text, field))


def _now(store: Store, clock: Clock | None) -> datetime:
    return (clock or store.clock).now()
