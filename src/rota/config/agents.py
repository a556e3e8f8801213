"""The settings of an agent."""

import shlex
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from rota.config.hooks import Hooks
from rota.config.limits import BreakerConfig, BudgetConfig, Instances, RetryConfig
from rota.config.scalars import (
    Count,
    Environment,
    Name,
    Prompt,
    SecretName,
    Span,
    Text,
    VariableName,
)
from rota.config.schedules import ScheduleConfig, WorkSource
from rota.config.sources import Section
from rota.config.variables import Lax, Switch

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


RuntimeName = Literal["claude", "codex", "gemini", "command", "python"]


class Runtime(Section):
    """The program that does the work of an agent."""

    type: RuntimeName = Field(
        "claude",
        description="`claude`, `codex`, `gemini`: the program of that name. `command`: any program."
        " `python`: a Python function.",
    )
    command: Argv = Field(
        (),
        description="The program and its arguments: a list, or one line that is split into words as"
        " a shell does; no shell runs it. Required for `command`. For `claude`, `codex` and"
        " `gemini`: the program, where it has another name or path.",
    )
    prompt: Literal["stdin", "file", "argument"] = Field(
        "stdin",
        description="How a `command` gets its prompt. `stdin`: on standard input. `file`: the path"
        " of a file replaces `{prompt_file}`. `argument`: the text replaces `{prompt}`. An argument"
        " is added at the end where no place is marked.",
    )
    callable: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] | None = Field(
        None, description="Of `python`, required: the function, as `package.module:function`."
    )
    arguments: Words = Field((), description="Further arguments of the program.")

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
    """Which tools an agent may use."""

    allow: Words = Field(
        (), description="Tools that the agent uses without asking: `[Read, Edit, Bash(git *)]`."
    )
    deny: Words = Field((), description="Tools that the agent may not use.")
    only: Words | None = Field(
        None, description="Of Claude: the only tools that exist for the agent. Default: all."
    )


class Session(Section):
    """The conversation of an agent with its model."""

    resume: Switch = Field(
        False, description="`true`: a run continues the conversation of the run before."
    )
    max_turns: Count | None = Field(
        None, description="The same as `max_turns` of the agent, which wins."
    )
    timeout: Span | None = Field(
        None, description="The same as `timeout` of the agent, which wins."
    )
    model: Text | None = Field(None, description="The same as `model` of the agent, which wins.")


class McpServer(Section):
    """An MCP server that offers tools to an agent: a program, or an address."""

    type: Literal["stdio", "http", "sse"] | None = Field(
        None, description="How the server is reached. Default: what the other keys say."
    )
    command: Text | None = Field(
        None, description="The program that is the server. Write either this or `url`."
    )
    args: Words = Field((), description="Arguments of the program.")
    env: Environment = Field(
        default_factory=dict, description="Environment variables of the program."
    )
    url: Text | None = Field(
        None, description="The address of the server. Write either this or `command`."
    )
    headers: dict[str, Text] = Field(
        default_factory=dict, description="Headers of the requests to `url`."
    )

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("write either 'command', for a program, or 'url'")
        return self


class Identity(Section):
    """Who the agent is told to be, before its system prompt."""

    name: Text | None = Field(None, description='Tells the agent "You are …".')
    role: Text | None = Field(None, description='Tells the agent "Your role: …".')
    personality: Text | None = Field(None, description='Tells the agent "Your manner: …".')


class AgentSettings(Section):
    """The settings of an agent. In `defaults`: for all agents that do not set them."""

    description: Text = Field("", description="What the agent is for; for people.")
    working_directory: Annotated[Text, Field(min_length=1)] | None = Field(
        None,
        description="The directory that the agent works in, relative to this file; `~` is your"
        " home. Default: the directory of the agent's file.",
    )
    workspace: Literal["shared", "worktree"] = Field(
        "shared",
        description="`shared`: runs work in the working directory itself. `worktree`: each run gets"
        " its own git worktree of it.",
    )
    keep_worktree: Literal["never", "on_failure", "always"] = Field(
        "never",
        description="Whether a worktree is kept after its run. `on_failure`: unless the run"
        " succeeded.",
    )
    base_branch: Text | None = Field(
        None,
        description="The branch or commit that a worktree begins at, for example `origin/main`."
        " Default: what is checked out.",
    )
    repo: Text | None = Field(
        None,
        description="The repository of each `work_source` that names none, as `OWNER/NAME`.",
    )
    identity: Identity = Field(
        Identity(), description="Who the agent is told to be, before its system prompt."
    )
    system_prompt: Prompt | None = Field(
        None, description="What the agent is told in every run, as its system prompt."
    )
    default_prompt: Prompt | None = Field(
        None, description="What the agent is asked to do where its schedule has no `prompt`."
    )
    trusted: Switch = Field(
        False,
        description="`true`: the text of items from trackers is not fenced off as data in the"
        " prompt.",
    )
    review_gate: Switch = Field(
        False,
        description="`true`: an item that the agent answers with a pull request is in review until"
        " that is merged.",
    )
    max_in_review: Annotated[int, Field(ge=1, le=1000), Lax] | None = Field(
        None,
        description="The agent gets no new item while this number of its items is in review or"
        " under way. Default: no limit.",
    )
    work_source: WorkSource | None = Field(
        None,
        description="Where the agent's work comes from: `{type: queue}`. The agent is woken only"
        " when there is work. Default: none, so a run has no item.",
    )
    webhook_secret_env: SecretName | None = Field(
        None,
        description="The `secret_env` of the agent's schedules of type `webhook` that name none.",
    )
    schedules: dict[Name, ScheduleConfig] = Field(
        default_factory=dict, description="When the agent wakes: schedules by name."
    )
    instances: Instances = Field(
        Instances(), description="How many runs of the agent go on at once."
    )
    runtime: Annotated[
        Runtime, BeforeValidator(_runtime, json_schema_input_type=RuntimeName | Runtime)
    ] = Field(
        Runtime(),
        description="The program that does the agent's work. A word alone is its `type`: `claude`.",
    )
    model: Text | None = Field(
        None, description="The model, as the program calls it. Default: the program's own."
    )
    max_turns: Count | None = Field(
        None, description="Turns of the conversation that a run may have. Default: no limit."
    )
    permission_mode: Text | None = Field(
        None,
        description="What the agent may do without asking. For Claude: `default`, `acceptEdits`,"
        " `bypassPermissions`, `plan`, `delegate`, `dontAsk` or `auto`. Codex and Gemini take these"
        " where they have a counterpart, and words of their own. Default: the program's own.",
    )
    tools: Tools = Field(Tools(), description="Which tools the agent may use.")
    mcp_servers: dict[Text, McpServer] = Field(
        default_factory=dict, description="MCP servers that offer tools to the agent, by name."
    )
    setting_sources: tuple[Literal["user", "project", "local"], ...] | None = Field(
        None,
        strict=False,
        description="Of Claude: whose settings it reads, for example `[project]`. Default: the"
        " program's own.",
    )
    session: Session = Field(Session(), description="The conversation of the agent with its model.")
    timeout: Span | None = Field(
        None,
        description="How long a run may take, for example `30m`. Default: `session.timeout`, else"
        " `1h`.",
    )
    env: Environment = Field(
        default_factory=dict, description='Environment variables for the agent: `{CI: "1"}`.'
    )
    env_pass: Annotated[tuple[VariableName, ...], Field(strict=False)] = Field(
        (),
        description="Names of variables that the agent gets from the server's environment:"
        " `[SSH_AUTH_SOCK]`.",
    )
    output_limit: Annotated[int, Field(ge=1024, le=1024**3), Lax] = Field(
        10 * 1024 * 1024,
        description="Bytes of a run's output that are kept; 1 KiB to 1 GiB. Default: 10 MiB.",
    )
    hooks: Hooks = Field(Hooks(), description="Hooks that are told of the end of a run.")
    retry: RetryConfig = Field(
        RetryConfig(), description="What happens to an item whose run failed."
    )
    budget: BudgetConfig = Field(BudgetConfig(), description="What the agent may spend.")
    breaker: BreakerConfig = Field(
        BreakerConfig(), description="When an agent that keeps failing is not woken for a while."
    )
    pause_on_usage_limit: Switch = Field(
        True,
        description="`true`: when the program says that a quota is used up, the agent is paused"
        " until the quota is there again.",
    )

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
    """An agent: its program, when it wakes, and where its work comes from."""

    name: Name = Field(
        description="The name of the agent: small letters, digits, `.`, `_` and `-`, at most 64,"
        " the first a letter or digit."
    )
