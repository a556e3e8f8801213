"""Single values of the configuration: names, time spans, prompts, numbers."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from rota.config.cron import parse_cron, time_zone
from rota.config.sources import Variable, is_address
from rota.config.variables import Lax
from rota.model.errors import RotaError
from rota.model.intervals import parse_interval, written
from rota.model.work import NAME

LONGEST_SPAN = timedelta(days=3_660)  # ten years; sums with it stay within the calendar
LONGEST_PROMPT = 200_000  # characters; longer texts belong into files that the agent reads

T = TypeVar("T")


def _explained(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Turns our errors into pydantic's, on one line."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except RotaError as error:
            raise ValueError(re.sub(r"\s*\n\s*", ". ", error.message)) from None

    return checked


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(
            f"{text[:80]!r} is not a name; write small letters, digits and . _ - , at most 64, the"
            " first a letter or digit"
        )
    return text


def _span(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("write a span of time like 30s, 5m, 2h or 1d")  # noqa: TRY004 - for pydantic
    span = _explained(parse_interval)(str(value))
    if span > LONGEST_SPAN:
        raise ValueError(f"is longer than {LONGEST_SPAN.days} days; nobody will see the end of it")
    return span


def _cron(text: str) -> str:
    _explained(parse_cron)(text)
    return text


def _zone(text: str) -> str:
    _explained(time_zone)(text)
    return text


def _prompt(text: str) -> str:
    if len(text) > LONGEST_PROMPT:
        raise ValueError(
            f"has {len(text)} characters, and at most {LONGEST_PROMPT} are passed on; put the rest"
            " into a file that the agent reads"
        )
    return _printable(text)


def _printable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("holds a NUL character, which no process can be given")
    return text


def _web_address(value: str) -> str:
    if "@" in value.partition("?")[0]:  # before any part of it is repeated
        raise ValueError(
            "holds a user name or password, which does not belong in this file; write an @ of the"
            " path as %40"
        )
    if not is_address(value.partition("?")[0]):
        raise ValueError("is not an address like https://hooks.example.org/rota")
    return value


def _as_text(value: Any) -> Any:
    """`PORT: 8080` is a number for YAML, but text for a process."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


_SPAN_SCHEMA = {"type": "string", "pattern": r"^\s*0*[1-9][0-9]*\s*[smhdSMHD]\s*$|\$\{"}

Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$"}),
]
Span = Annotated[
    timedelta, BeforeValidator(_span), PlainSerializer(written), WithJsonSchema(_SPAN_SCHEMA)
]
Cron = Annotated[str, AfterValidator(_cron)]
Zone = Annotated[str, AfterValidator(_zone)]
Prompt = Annotated[str, AfterValidator(_prompt)]
Text = Annotated[str, AfterValidator(_printable)]
WebAddress = Annotated[Text, AfterValidator(_web_address)]
Count = Annotated[int, Field(ge=1), Lax]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False), Lax]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_EnvironmentValue = BeforeValidator(_as_text, json_schema_input_type=str | int | float | bool)
Environment = dict[VariableName, Annotated[Text, _EnvironmentValue]]
SecretName = Variable
