"""Schedules and triggers as they go over the wire."""

from typing import Annotated

from msgspec import Meta, Struct

from rota.api.answers import shown_as
from rota.api.bodies import NOT_PLAIN, PLAIN, AgentName, Cursor, Limit, Moment, Strict
from rota.model import schedules
from rota.model.runs import Run, RunStatus
from rota.scheduler.due import Rhythm
from rota.scheduler.service import LONGEST_MESSAGE, TriggerRecord

# in


class ScheduleQuery(Strict, frozen=True):
    agent: AgentName | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class TriggerNow(Strict, frozen=True):
    """The agent gets the message after its prompt."""

    message: Annotated[str, Meta(max_length=LONGEST_MESSAGE)] | None = None


class ChatMessage(Strict, frozen=True):
    """`message_id` is the chat's own id; a message counts once."""

    text: Annotated[str, Meta(min_length=1, max_length=LONGEST_MESSAGE - 1_000)]
    message_id: Annotated[
        str, Meta(min_length=1, max_length=150, pattern=PLAIN, extra={"wrong": NOT_PLAIN})
    ]
    sender: Annotated[str, Meta(max_length=200)] | None = None
    channel: Annotated[str, Meta(max_length=200)] | None = None


class Restore(Strict, frozen=True):
    enabled: bool = True
    last_run_at: Moment | None = None
    last_error: Annotated[str, Meta(max_length=4_000)] | None = None


# out


class LastRun(Struct, frozen=True):
    id: str
    status: RunStatus
    started_at: str
    ended_at: str | None


class Schedule(Struct, frozen=True):
    agent: str
    name: str
    type: schedules.ScheduleType
    rhythm: str  # in words: "every 5m", "0 9 * * 1-5 (Europe/Berlin)"
    enabled: bool
    status: schedules.ScheduleStatus
    attended: bool  # false: no running server has it in its configuration
    next_run_at: str | None
    slot: str | None  # the moment that the next trigger is for; jitter may delay it
    last_run_at: str | None  # the last look, which may have found nothing to run for
    last_completed_at: str | None
    last_error: str | None
    last_skip_reason: schedules.SkipReason | None
    last_skip_at: str | None
    last_skip_detail: str | None
    skip_count: int
    trigger_count: int
    running: int
    last_run: LastRun | None  # the run that a look led to, as far as it is known


class Trigger(Struct, frozen=True):
    id: str
    agent: str
    schedule: str
    slot: str
    kind: schedules.TriggerKind
    node: str | None  # None: no node has taken it up yet
    triggered_at: str
    ended_at: str | None
    outcome: str | None  # the status of its run, or why there was none
    error: str | None


class Heard(Struct, frozen=True):
    """What became of a message."""

    status: str  # "accepted", "seen before" or "pong"
    trigger_id: str | None


class Restored(Struct, frozen=True):
    restored: bool  # false: the schedule has run here already, and its own history counts


def schedule_of(state: schedules.ScheduleState, run: Run | None = None) -> Schedule:
    rhythm = Rhythm.known(state.definition)
    return shown_as(
        Schedule,
        state,
        rhythm=rhythm.in_words if rhythm else "not configured yet",
        last_run=shown_as(LastRun, run) if run else None,
    )


def trigger_of(record: TriggerRecord) -> Trigger:
    trigger = record.trigger
    end = {"ended_at": record.ended_at, "outcome": record.outcome, "error": record.error}
    return shown_as(Trigger, trigger, node=trigger.node or None, **end)
