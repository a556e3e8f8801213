"""The settings of an agent."""

import shlex
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from rota.config.hooks import Hooks
from rota.config.limits import BreakerConfig, BudgetConfig, Instances, RetryConfig
from rota.config.scalars import (
    Count,
    Environment,
    Lax,
    Name,
    Prompt,
    SecretName,
    Span,
    Switch,
    Text,
    VariableName,
)
from rota.config.schedules import ScheduleConfig, WorkSource
from rota.config.sources import Section

PERMISSION_MODES = (
    "default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk", "auto",
)  # fmt: skip


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


Words = Annotated[tuple[Text, ...], Field(strict=False)]


def _argv(value: Any) -> Any:
    """A line is split as a shell would split it, but no shell sees it."""
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}; write a list: [a, b]") from None


Argv = Annotated[Words, BeforeValidator(_argv, json_schema_input_type=str | list[str])]


class Runtime(Section):
    """The program that an agent is."""

    type: Literal["claude", "codex", "gemini", "command", "python"] = "claude"
    command: Argv = ()
    prompt: Literal["stdin", "file", "argument"] = "stdin"
    callable: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] | None = None
    arguments: Words = ()

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> Self:
        if self.type == "command" and not self.command:
            raise ValueError("'command' is missing; write for example command: [./agent.sh]")
        if self.type == "python" and self.callable is None:
            raise ValueError(
                "'callable' is missing; write for example callable: package.module:run"
            )
        if self.type != "python" and self.callable is not None:
            raise ValueError(f"'callable' belongs to the runtime python, not {self.type}")
        if self.type != "command" and self.prompt != "stdin":
            raise ValueError(f"'prompt' belongs to the runtime command, not {self.type}")
        return self


def _runtime(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


class Tools(Section):
    """What an agent may use."""

    allow: Words = ()
    deny: Words = ()
    only: Words | None = None


class Session(Section):
    """The conversation of an agent with its model."""

    resume: Switch = False
    max_turns: Count | None = None
    timeout: Span | None = None
    model: Text | None = None


class McpServer(Section):
    """A server of tools."""

    type: Literal["stdio", "http", "sse"] | None = None
    command: Text | None = None
    args: Words = ()
    env: Environment = Field(default_factory=dict)
    url: Text | None = None
    headers: dict[str, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("write either 'command', for a program, or 'url'")
        return self


class Identity(Section):
    """Who the agent is told that it is."""

    name: Text | None = None
    role: Text | None = None
    personality: Text | None = None


class AgentSettings(Section):
    """All that may stand in `defaults` as well."""

    description: Text = ""
    working_directory: Annotated[Text, Field(min_length=1)] | None = None
    workspace: Literal["shared", "worktree"] = "shared"
    keep_worktree: Literal["never", "on_failure", "always"] = "never"
    base_branch: Text | None = None
    repo: Text | None = None
    identity: Identity = Identity()
    system_prompt: Prompt | None = None
    default_prompt: Prompt | None = None
    trusted: Switch = False
    review_gate: Switch = False
    max_in_review: Annotated[int, Lax] | None = Field(None, ge=1, le=1000)
    work_source: WorkSource | None = None
    webhook_secret_env: SecretName | None = None
    schedules: dict[Name, ScheduleConfig] = Field(default_factory=dict)
    instances: Instances = Instances()
    runtime: Annotated[Runtime, BeforeValidator(_runtime, json_schema_input_type=str | Runtime)] = (
        Runtime()
    )
    model: Text | None = None
    max_turns: Count | None = None
    permission_mode: Text | None = None
    tools: Tools = Tools()
    mcp_servers: dict[Text, McpServer] = Field(default_factory=dict)
    setting_sources: tuple[Literal["user", "project", "local"], ...] | None = Field(
        None, strict=False
    )
    session: Session = Session()
    timeout: Span | None = None
    env: Environment = Field(default_factory=dict)
    env_pass: Annotated[tuple[VariableName, ...], Field(strict=False)] = ()
    output_limit: Annotated[int, Lax] = Field(10 * 1024 * 1024, ge=1024, le=1024**3)
    hooks: Hooks = Hooks()
    retry: RetryConfig = RetryConfig()
    budget: BudgetConfig = BudgetConfig()
    breaker: BreakerConfig = BreakerConfig()
    pause_on_usage_limit: Switch = True

    @field_validator("permission_mode")
    @classmethod
    def _known_mode(cls, value: str | None, info: ValidationInfo) -> str | None:
        """Claude's modes are known; other programs have their own."""
        runtime = info.data.get("runtime")
        is_claude = runtime is not None and runtime.type == "claude"
        if is_claude and value is not None and value not in PERMISSION_MODES:
            raise ValueError(f"{value[:80]!r} is not known; write {_or(PERMISSION_MODES)}")
        return value


class AgentConfig(AgentSettings):
    """An agent: inline, or a file of its own."""

    name: Name
