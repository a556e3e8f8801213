"""The contract for executing an agent once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rota.model.fleet import Limits, RunSettings
from rota.model.runs import RunEnd, Usage


class Reading(Protocol):
    """What a runtime has reported so far."""

    usage: Usage
    session_id: str | None


@dataclass(slots=True)
class Meter:
    """What a run has used until now. If a run is ended from outside, its own end is never returned,
    but its usage must still be counted."""

    reading: Reading | None = None

    def charge(self, end: RunEnd) -> RunEnd:
        """The end, with the usage until then."""
        if self.reading is None:
            return end
        return replace(end, usage=self.reading.usage, session_id=self.reading.session_id)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One execution. `context` is given to hooks and to the agent's program: agent, schedule, item
    and trigger."""

    run_id: str
    agent: str
    settings: RunSettings
    prompt: str
    log: Path  # receives the output, one JSON object per line
    limits: Limits = field(default_factory=Limits)  # of this run
    session_id: str | None = None  # the session to resume, if the runtime can
    environ: Mapping[str, str] = field(default_factory=dict)  # more variables: ROTA_SCHEDULE, …
    context: Mapping[str, Any] = field(default_factory=dict)
    heard: Callable[[str], None] | None = None  # gets a line for people at each progress
    meter: Meter = field(default_factory=Meter)  # can be read during the run and afterwards


class Runner(Protocol):
    async def execute(self, request: RunRequest) -> RunEnd:
        """Run the agent to its end, and leave no process behind.

        The end is a value, also when the program was missing or ran out of time. A caller that is
        cancelled waits until the processes are gone, and is cancelled then; their usage is in the
        request's `meter`.
        """
