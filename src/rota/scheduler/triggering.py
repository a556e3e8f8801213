"""What the callback that runs an agent gets of a trigger, and what it returns."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rota.model.fleet import AgentSpec
from rota.model.runs import RunStatus
from rota.model.schedules import Schedule, SkipReason, Trigger
from rota.prompts import Told


@dataclass(frozen=True, slots=True)
class TriggerInfo:
    agent: AgentSpec
    schedule: Schedule
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class TriggerOutcome:
    """`outcome` is the status of the run, or the reason why there was none."""

    outcome: str
    skip_reason: SkipReason | None = None
    error: str | None = None
    work_item: Told | None = None  # the item that was worked on

    @classmethod
    def skipped(cls, reason: SkipReason, detail: str | None = None) -> "TriggerOutcome":
        return cls(str(reason), reason, detail)


# A callback that returns None reports success.
OnTrigger = Callable[[TriggerInfo], Awaitable[TriggerOutcome | None]]


async def succeed(_info: TriggerInfo) -> TriggerOutcome:
    """The default callback: does nothing."""
    return TriggerOutcome(RunStatus.SUCCEEDED)
