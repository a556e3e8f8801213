"""When agents wake: intervals, cron, webhooks and chats."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rota.model.errors import (
    CronParseError,
    IntervalParseError,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleTriggerError,
)

if TYPE_CHECKING:
    from rota.config.cron import next_cron_trigger as next_cron_trigger
    from rota.config.cron import parse_cron as parse_cron
    from rota.model.intervals import parse_interval as parse_interval
    from rota.model.schedules import ScheduleCheck as ScheduleCheck
    from rota.model.schedules import ScheduleState as ScheduleState
    from rota.model.schedules import ScheduleStatus as ScheduleStatus
    from rota.model.schedules import SkipReason as SkipReason
    from rota.scheduler.interval import calculate_next_trigger as calculate_next_trigger
    from rota.scheduler.interval import is_schedule_due as is_schedule_due
    from rota.scheduler.loop import Scheduler as Scheduler
    from rota.scheduler.loop import SchedulerState as SchedulerState
    from rota.scheduler.loop import SchedulerStatus as SchedulerStatus
    from rota.scheduler.running import ScheduleRunResult as ScheduleRunResult
    from rota.scheduler.running import build_schedule_prompt as build_schedule_prompt
    from rota.scheduler.running import run_schedule as run_schedule
    from rota.scheduler.service import Schedules as Schedules
    from rota.scheduler.state import get_agent_schedule_states as get_agent_schedule_states
    from rota.scheduler.state import get_schedule_state as get_schedule_state
    from rota.scheduler.state import update_schedule_state as update_schedule_state
    from rota.scheduler.triggering import OnTrigger as OnTrigger
    from rota.scheduler.triggering import TriggerInfo as TriggerInfo
    from rota.scheduler.triggering import TriggerOutcome as TriggerOutcome

# Imported on first use: the command line needs the service, but not the loop with its logging.
_HOMES = {
    "next_cron_trigger": "rota.config.cron",
    "parse_cron": "rota.config.cron",
    "parse_interval": "rota.model.intervals",
    "ScheduleCheck": "rota.model.schedules",
    "ScheduleState": "rota.model.schedules",
    "ScheduleStatus": "rota.model.schedules",
    "SkipReason": "rota.model.schedules",
    "calculate_next_trigger": "rota.scheduler.interval",
    "is_schedule_due": "rota.scheduler.interval",
    "Scheduler": "rota.scheduler.loop",
    "SchedulerState": "rota.scheduler.loop",
    "SchedulerStatus": "rota.scheduler.loop",
    "ScheduleRunResult": "rota.scheduler.running",
    "build_schedule_prompt": "rota.scheduler.running",
    "run_schedule": "rota.scheduler.running",
    "Schedules": "rota.scheduler.service",
    "get_agent_schedule_states": "rota.scheduler.state",
    "get_schedule_state": "rota.scheduler.state",
    "update_schedule_state": "rota.scheduler.state",
    "OnTrigger": "rota.scheduler.triggering",
    "TriggerInfo": "rota.scheduler.triggering",
    "TriggerOutcome": "rota.scheduler.triggering",
}
_ERRORS = {
    error.__name__: error
    for error in (
        CronParseError,
        IntervalParseError,
        ScheduleTriggerError,
        SchedulerError,
        SchedulerShutdownError,
    )
}
__all__ = sorted([*_HOMES, *_ERRORS])  # noqa: PLE0605 - the lists of names are above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
