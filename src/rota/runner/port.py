"""What it takes to execute an agent once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rota.model.fleet import Limits, RunSettings
from rota.model.runs import RunEnd, Usage


class Reading(Protocol):
    """What a runtime has told so far."""

    usage: Usage
    session_id: str | None


@dataclass(slots=True)
class Meter:
    """What a run has used until now. Who ends it from outside never hears its own end, and yet
    all of this was spent."""

    reading: Reading | None = None

    def charge(self, end: RunEnd) -> RunEnd:
        """That end, with what was used until it."""
        if self.reading is None:
            return end
        return replace(end, usage=self.reading.usage, session_id=self.reading.session_id)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One execution. `context` is what hooks and the agent's environment are told of it:
    agent, schedule, item, and where it came from."""

    run_id: str
    agent: str
    settings: RunSettings
    prompt: str
    log: Path  # where the output goes, one JSON object per line
    limits: Limits = field(default_factory=Limits)  # of this run
    session_id: str | None = None  # to go on with, where the runtime can
    environ: Mapping[str, str] = field(default_factory=dict)  # more variables: ROTA_RUN_ID, …
    context: Mapping[str, Any] = field(default_factory=dict)
    heard: Callable[[str], None] | None = None  # a line for people, whenever there is progress
    meter: Meter = field(default_factory=Meter)  # can be read while it runs, and afterwards


class Runner(Protocol):
    async def execute(self, request: RunRequest) -> RunEnd:
        """Run the agent to its end, and leave no process behind.

        How it ended is a value, also when its program was not there or ran out of
        time. A caller who is cancelled waits until the processes are gone, and
        is cancelled then; what they had used stands in the request's `meter`.
        """
