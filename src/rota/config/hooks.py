"""Hooks that are told of runs that have ended."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rota.config.scalars import SecretName, Span, Text, WebAddress
from rota.config.sources import Section
from rota.config.variables import Switch

# Hooks are not told of runs that were cancelled, or lost with their claim or their server.
RunStatusName = Literal["succeeded", "failed", "partial", "timed_out"]


def _shell_command(value: Any) -> Any:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(one, str) for one in words):
        raise ValueError("write a line for the shell, or a list: [program, argument]")
    return value if isinstance(value, str) else tuple(value)


ShellCommand = Annotated[
    Text | tuple[Text, ...],
    BeforeValidator(_shell_command, json_schema_input_type=str | list[str]),
]


class HookConfig(Section):
    """A program or an address that is told of a run that has ended."""

    type: Literal["shell", "webhook"] = Field(
        description="`shell`: a program, which reads the result of the run as JSON on standard"
        " input. `webhook`: an address that the JSON is posted to."
    )
    name: Text | None = Field(
        None,
        description="The name of the hook in the log. Default: its list and number, for example"
        " `after_run-1`.",
    )
    command: ShellCommand | None = Field(
        None,
        description="Of `shell`, required: a line for the shell, or a list of the program and its"
        " arguments.",
    )
    url: WebAddress | None = Field(
        None,
        description="Of `webhook`, required: the address. `ROTA_HOOK_HOSTS` must allow an address"
        " that is not public.",
    )
    headers: dict[str, Text] = Field(
        default_factory=dict, description="Of `webhook`: further headers of the request."
    )
    secret_env: SecretName | None = Field(
        None,
        description="Of `webhook`: the environment variable with the secret that signs the body."
        " Default: the body is not signed.",
    )
    timeout: Span | None = Field(
        None,
        description="How long the hook may take, for example `20s`. Default: `30s` for `shell`,"
        " `10s` for `webhook`.",
    )
    continue_on_error: Switch = Field(
        True, description="`false`: when the hook fails, the run has failed."
    )
    when: Annotated[tuple[RunStatusName, ...], Field(strict=False)] = Field(
        (),
        description="Call the hook only for runs that ended like this. Default: all runs of its"
        " list.",
    )

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> Self:
        needed, foreign = ("command", "url") if self.type == "shell" else ("url", "command")
        if not getattr(self, needed):
            raise ValueError(f"'{needed}' is missing; a hook of type {self.type} needs it")
        if getattr(self, foreign) is not None:
            raise ValueError(f"'{foreign}' is nothing for a hook of type {self.type}")
        if self.type == "shell" and (self.headers or self.secret_env):
            raise ValueError("'headers' and 'secret_env' are for hooks of type webhook")
        return self


HookList = Annotated[tuple[HookConfig, ...], Field(strict=False)]


class Hooks(Section):
    """Hooks that are told of the end of a run. No hook hears of a cancelled or lost run."""

    after_run: HookList = Field((), description="Hooks for every run.")
    on_error: HookList = Field((), description="Hooks for runs that failed or timed out.")
