"""Hooks that are told of runs that have ended."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rota.config.scalars import SecretName, Span, Switch, Text
from rota.config.sources import Section, is_address

# Hooks are not told of runs that were cancelled, or lost with their claim or their server.
RunStatusName = Literal["succeeded", "failed", "partial", "timed_out"]


def _web_address(value: str) -> str:
    if not is_address(value.partition("?")[0]):
        raise ValueError("is not an address like https://hooks.example.org/rota")
    return value


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
    """Who is told of a run that has ended."""

    type: Literal["shell", "webhook"]
    name: Text | None = None
    command: ShellCommand | None = None
    url: Annotated[str, AfterValidator(_web_address)] | None = None
    headers: dict[str, Text] = Field(default_factory=dict)
    secret_env: SecretName | None = None
    timeout: Span | None = None
    continue_on_error: Switch = True
    when: Annotated[tuple[RunStatusName, ...], Field(strict=False)] = ()

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
    after_run: HookList = ()
    on_error: HookList = ()
