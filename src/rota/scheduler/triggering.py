"""What a trigger is told to whoever runs the agent, and what comes back."""

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
    work_item: Told | None = None  # that was worked on

    @classmethod
    def skipped(cls, reason: SkipReason, detail: str | None = None) -> "TriggerOutcome":
        return cls(str(reason), reason, detail)


# A callback that returns nothing says that all went well.
OnTrigger = Callable[[TriggerInfo], Awaitable[TriggerOutcome | None]]


async def succeed(_info: TriggerInfo) -> TriggerOutcome:
    """What a scheduler does that was given nothing to do."""
    return TriggerOutcome(RunStatus.SUCCEEDED)
