"""The fleet as configured: plain values, independent of the file format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from rota.model.schedules import Schedule


class RuntimeKind(StrEnum):
    COMMAND = "command"
    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    PYTHON = "python"


class PromptBy(StrEnum):
    """How a command gets its prompt."""

    STDIN = "stdin"
    FILE = "file"  # its path replaces {prompt_file} in the argv, else it is the last argument
    ARGUMENT = "argument"  # the text replaces {prompt} in the argv, else it is the last argument


class Workspace(StrEnum):
    SHARED = "shared"  # the working directory itself
    WORKTREE = "worktree"  # a git worktree of it, for this run only


class Keep(StrEnum):
    """When a run's worktree outlives it."""

    NEVER = "never"
    ON_FAILURE = "on_failure"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Hook:
    """A receiver of a run's result: `command` is an argv or a shell line, `url` a webhook."""

    name: str
    command: tuple[str, ...] | str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_env: str | None = None  # signs the body of a webhook
    timeout: timedelta = timedelta(seconds=30)
    continue_on_error: bool = True  # False: if the hook fails, the run fails
    when: tuple[str, ...] = ()  # statuses of runs; empty: all that its list is for


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that the runner needs to execute an agent, except prompt and item."""

    runtime: RuntimeKind = RuntimeKind.CLAUDE
    command: tuple[str, ...] = ()  # the argv of `command`; for the others, their program
    prompt_by: PromptBy = PromptBy.STDIN
    callable: str | None = None  # of `python`: "package.module:function"
    arguments: tuple[str, ...] = ()  # additional ones, for the runtime's own program
    working_directory: Path = field(default_factory=Path)
    workspace: Workspace = Workspace.SHARED
    keep_worktree: Keep = Keep.NEVER
    base_branch: str | None = None  # where a worktree starts; None: what is checked out
    system_prompt: str | None = None
    model: str | None = None
    max_turns: int | None = None
    permission_mode: str | None = None
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    resume_session: bool = False
    timeout: timedelta = timedelta(hours=1)
    env: Mapping[str, str] = field(default_factory=dict)  # variables to set
    env_pass: tuple[str, ...] = ()  # passed on from the server's, beside the usual few
    output_limit: int = 10 * 1024 * 1024  # bytes of log that are kept
    after_run: tuple[Hook, ...] = ()
    on_error: tuple[Hook, ...] = ()


@dataclass(frozen=True, slots=True)
class Retry:
    """After a failed run its item goes back to the queue, until its attempts are used up."""

    max_attempts: int = 3
    backoff: timedelta = timedelta(minutes=1)  # doubled at each attempt
    max_backoff: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit."""

    runs: int | None = None
    wall_time: timedelta | None = None
    tokens: int | None = None
    usd: float | None = None

    @property
    def any(self) -> bool:
        return any(one is not None for one in (self.runs, self.wall_time, self.tokens, self.usd))


@dataclass(frozen=True, slots=True)
class Budget:
    """A run beyond `per_run` is ended. Beyond `per_day`, no further run is started."""

    per_run: Limits = field(default_factory=Limits)
    per_day: Limits = field(default_factory=Limits)
    timezone: str = "UTC"  # that decides when a day begins


@dataclass(frozen=True, slots=True)
class Breaker:
    failures: int = 5  # in a row; 0: no breaker
    cooldown: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as configured, with everything filled in."""

    name: str
    description: str = ""
    default_prompt: str | None = None
    work_source: dict[str, object] | None = None
    schedules: tuple[Schedule, ...] = ()
    max_concurrent: int = 1
    run: RunSettings = field(default_factory=RunSettings)
    retry: Retry = field(default_factory=Retry)
    budget: Budget = field(default_factory=Budget)
    breaker: Breaker = field(default_factory=Breaker)
    pause_on_usage_limit: bool = True
    trusted: bool = False  # the text of its items is not fenced
    max_in_review: int | None = None  # None: no limit
    review_gate: bool = False  # an item that ends with a pull request waits for its merge


@dataclass(frozen=True, slots=True)
class Fleet:
    """The content of `rota.yaml`, merged and checked."""

    name: str | None = None
    agents: tuple[AgentSpec, ...] = ()
    budget: Budget = field(default_factory=Budget)  # of all agents together

    def agent(self, name: str) -> AgentSpec | None:
        return next((one for one in self.agents if one.name == name), None)
