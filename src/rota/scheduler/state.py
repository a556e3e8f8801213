"""What is known of schedules, for programs that embed Rota."""

from rota.model.clock import SystemClock, parse_time, to_text
from rota.model.errors import NotFound
from rota.model.schedules import ScheduleState, ScheduleStatus
from rota.scheduler.presence import DEAD_AFTER
from rota.storage.port import Store, Transaction

_MOST = 1_000


async def get_schedule_state(store: Store, agent: str, name: str) -> ScheduleState | None:
    """None when there is no such schedule."""
    since = _alive_since()
    return await store.read(lambda tx: tx.schedule_state(agent, name, since))


async def get_agent_schedule_states(store: Store, agent: str) -> dict[str, ScheduleState]:
    since = _alive_since()
    found = await store.read(lambda tx: tx.schedule_states(agent, None, _MOST, since))
    return {state.name: state for state in found}


async def update_schedule_state(
    store: Store,
    agent: str,
    name: str,
    *,
    status: ScheduleStatus | None = None,
    last_run_at: str | None = None,
    next_run_at: str | None = None,
    last_error: str | None = None,
) -> ScheduleState:
    """What is None stays as it is. `running` is not stored: it follows from open triggers."""
    changes: dict[str, object] = {}
    if last_run_at is not None:
        changes["last_run_at"] = _moment(last_run_at, "last_run_at")
    if next_run_at is not None:
        changes["next_at"] = changes["slot"] = _moment(next_run_at, "next_run_at")
    if last_error is not None:
        changes["last_error"] = last_error
    if status is not None:
        changes["enabled"] = int(status is not ScheduleStatus.DISABLED)
    if status is ScheduleStatus.DISABLED:
        changes |= {"next_at": None, "slot": None}
    since = _alive_since()

    def body(tx: Transaction) -> ScheduleState | None:
        tx.change_schedule(agent, name, changes)
        return tx.schedule_state(agent, name, since)

    found = await store.transact(body)
    if found is None:
        raise NotFound(f"there is no schedule {agent}/{name}", agent=agent, schedule=name)
    return found


def _moment(text: str, field: str) -> str:
    return to_text(parse_time(text, field))


def _alive_since() -> str:
    return to_text(SystemClock().now() - DEAD_AFTER)
