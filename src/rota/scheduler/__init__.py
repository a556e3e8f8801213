"""When agents wake: intervals, cron, webhooks and chats."""

from rota.config.cron import next_cron_trigger, parse_cron
from rota.model.errors import (
    CronParseError,
    IntervalParseError,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleTriggerError,
)
from rota.model.intervals import parse_interval
from rota.scheduler.interval import calculate_next_trigger, is_schedule_due
from rota.scheduler.loop import Scheduler, SchedulerState, SchedulerStatus
from rota.scheduler.triggering import OnTrigger, TriggerInfo, TriggerOutcome

__all__ = [
    "CronParseError",
    "IntervalParseError",
    "OnTrigger",
    "ScheduleTriggerError",
    "Scheduler",
    "SchedulerError",
    "SchedulerShutdownError",
    "SchedulerState",
    "SchedulerStatus",
    "TriggerInfo",
    "TriggerOutcome",
    "calculate_next_trigger",
    "is_schedule_due",
    "next_cron_trigger",
    "parse_cron",
    "parse_interval",
]
