"""Runs and the outbox, as they go over the wire."""

from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from rota.api.answers import shown_as
from rota.api.bodies import (
    NOT_PLAIN,
    PLAIN,
    AgentName,
    ClaimToken,
    Cursor,
    Id,
    Limit,
    Moment,
    Strict,
    Wanted,
)
from rota.model import runs
from rota.model.fleet import AgentSpec, Breaker
from rota.model.runs import RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind

_LAST = 2**53
LONGEST_SUMMARY = 100_000
_MOST_ARTIFACTS = 100

NodeName = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=PLAIN, extra={"wrong": NOT_PLAIN})
]
Said = Annotated[str, Meta(max_length=LONGEST_SUMMARY)]
Line = Annotated[str, Meta(max_length=4_000)]
Count = Annotated[int, Meta(ge=0, le=_LAST)]
EndStatus = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": [str(one) for one in RunStatus if one is not RunStatus.RUNNING]}
    ),
]
RunStatusName = Annotated[str, Meta(extra_json_schema={"enum": [str(one) for one in RunStatus]})]


# in


class RunQuery(Strict, frozen=True):
    agent: Wanted | None = None
    schedule: Wanted | None = None
    work_item_id: Wanted | None = None
    status: tuple[RunStatusName, ...] = ()
    limit: Limit = 50
    cursor: Cursor | None = None


class LogQuery(Strict, frozen=True):
    """`offset` is in bytes, at the end of a line."""

    follow: bool = False
    offset: Count = 0


class PieceQuery(Strict, frozen=True):
    offset: Count = 0


class BeginRun(Strict, frozen=True):
    agent: AgentName
    work_item_id: Id
    token: ClaimToken
    schedule: AgentName | None = None
    node: NodeName | None = None


class OwnLimits(Strict, frozen=True):
    """When the worker's configuration pauses its agent; see `GET /agents`."""

    breaker_failures: Annotated[int, Meta(ge=0, le=1_000_000)] = 5
    breaker_cooldown_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 1800.0
    pause_on_usage_limit: bool = True


class EndRun(Strict, frozen=True):
    status: EndStatus
    summary: Said = ""
    artifacts: Annotated[tuple[Line, ...], Meta(max_length=_MOST_ARTIFACTS)] = ()
    error: Said | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**31)] | None = None
    session_id: Line | None = None
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    turns: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    hook_errors: Annotated[tuple[Line, ...], Meta(max_length=_MOST_ARTIFACTS)] = ()
    usage_limit: bool = False
    usage_limit_until: Moment | None = None
    limits: OwnLimits | None = None


class PostQuery(Strict, frozen=True):
    buried: bool = False
    limit: Limit = 50
    cursor: Cursor | None = None


# out


class Run(Struct, frozen=True):
    id: str
    agent: str
    schedule: str | None
    trigger: TriggerKind
    trigger_id: str | None
    node: str
    work_item_id: str | None
    epoch: int | None
    item_title: str | None
    attempt: int | None
    started_at: str
    ended_at: str | None
    status: RunStatus
    summary: str | None
    artifacts: tuple[str, ...]
    error: str | None
    exit_code: int | None
    session_id: str | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    turns: int | None
    seconds: float | None
    hook_errors: tuple[str, ...]
    cancel_requested: bool
    unseen_since: str | None  # the run is still open, but its server has been gone since then


class LogSize(Struct, frozen=True):
    """How much of the log is stored: the offset of the next piece."""

    size: int


class Letter(Struct, frozen=True):
    """An entry of the outbox, without its payload, which holds the token of a claim."""

    id: str
    kind: str
    agent: str | None
    subject: str
    created_at: str
    attempts: int
    next_attempt_at: str
    failed_at: str | None
    error: str | None
    says: str


def run_of(run: runs.Run) -> Run:
    return shown_as(Run, run)


def letter_of(entry: runs.OutboxEntry) -> Letter:
    return shown_as(Letter, entry, says=_says(entry.payload))


def _says(payload: dict[str, Any]) -> str:
    if "result" in payload:
        return f"{payload['result']['outcome']}: {payload['result']['summary']}"
    if "give_back" in payload:
        return f"given back: {payload['give_back']['reason']}"
    if notices := payload.get("notices"):
        more = f" and {len(notices) - 1} more" if len(notices) > 1 else ""
        return f"{notices[0]['title']}{more}"
    return next((said for name in ("title", "text", "name") if (said := payload.get(name))), "")


def end_of(body: EndRun, status: RunStatus) -> RunEnd:
    return RunEnd(
        status,
        body.summary,
        body.artifacts,
        body.error,
        body.exit_code,
        body.session_id,
        Usage(body.input_tokens, body.output_tokens, body.cost_usd, body.turns),
        body.usage_limit,
        body.usage_limit_until,
        body.hook_errors,
    )


def spec_of(agent: str, limits: OwnLimits | None) -> AgentSpec | None:
    """As much of the agent as decides what the end of its run means for the next one."""
    if limits is None:
        return None
    cooldown = timedelta(seconds=limits.breaker_cooldown_seconds)
    return AgentSpec(
        agent,
        breaker=Breaker(limits.breaker_failures, cooldown),
        pause_on_usage_limit=limits.pause_on_usage_limit,
    )


def says_the_same(run: runs.Run, end: RunEnd) -> bool:
    """Whether the run has ended exactly like this."""
    told = (run.status, run.summary, run.artifacts, run.error, run.exit_code, run.session_id)
    spent = (run.input_tokens, run.output_tokens, run.cost_usd, run.turns)
    return (
        told == (end.status, end.summary, end.artifacts, end.error, end.exit_code, end.session_id)
        and spent
        == (
            end.usage.input_tokens,
            end.usage.output_tokens,
            end.usage.cost_usd,
            end.usage.turns,
        )
        and run.hook_errors == end.hook_errors
    )
