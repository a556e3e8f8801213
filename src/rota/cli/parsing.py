"""Values on the command line: priorities by name, times from now, texts from files."""

import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.model.clock import parse_time, to_text
from rota.model.errors import InvalidInput
from rota.model.work import Priority as Level

if TYPE_CHECKING:
    from rota.client import SyncWorkQueueClient

F = TypeVar("F", bound=Callable[..., Any])

NONE = "none"  # empties a field: --agent none

# Texts that are only stored may be empty. File names may contain bytes that are not UTF-8.
_ONLY_KEPT = frozenset({"reason", "progress", "message", "external_ref"})
_PATHS = frozenset({"path", "output", "target", "file", "config", "database", "state_dir"})

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")


def limit_option(default: int = 50, most: int = 100_000) -> Callable[[F], F]:
    return click.option(
        "--limit",
        type=Count(1, most),
        default=default,
        show_default=True,
        help="Show at most this many.",
    )


class LookedUp(click.ParamType[str], ABC):
    """Something that people call by a name. The command gets its id from `Command.invoke`, because
    only when all options are known is it known where to ask."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    @abstractmethod
    def id_of(self, client: "SyncWorkQueueClient", text: str) -> str: ...


class Priority(click.ParamType[int]):
    name = "1-5|name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        if text.upper() in Level.__members__:
            return int(Level[text.upper()])
        if text in {str(int(level)) for level in Level}:
            return int(text)
        names = ", ".join(level.name.lower() for level in Level)
        return self.fail(
            f"{text[:40]!r} is no priority; use 1 (highest) to 5, or {names}", param, ctx
        )


class Span(click.ParamType[float]):
    """Seconds, also as 90s, 15m, 2h, 1d."""

    name = "time span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = span_of(str(value))
        if seconds is None:
            self.fail(f"{str(value)[:40]!r} is no time span; use 90, 90s, 15m, 2h, 1d", param, ctx)
        return seconds


def span_of(text: str) -> float | None:
    found = _SPAN.fullmatch(text.strip())
    return float(found[1]) * _SECONDS[found[2] or "s"] if found else None


class Moment(click.ParamType[str]):
    """A time: ISO 8601, `now`, or relative to now, as +15m; with `past`, 2h is two hours ago."""

    name = "time"

    def __init__(self, *, past: bool = False) -> None:
        self._past = past

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if text == "now":
            return to_text(datetime.now(UTC))
        seconds = span_of(text if self._past else text.removeprefix("+"))
        try:
            if seconds is not None and (self._past or text.startswith("+")):
                away = timedelta(seconds=-seconds if self._past else seconds)
                return to_text(datetime.now(UTC) + away)
            return to_text(parse_time(text, "time"))
        except InvalidInput as error:
            example = "2h" if self._past else "+2h"
            self.fail(f"{error.message.removeprefix('time: ')}; or {example}", param, ctx)
        except OverflowError:
            self.fail(f"{text[:40]!r} is too far away", param, ctx)


class Count(click.IntRange):
    name = "integer"  # click would say: 'x' is not a valid integer range


class Amount(click.FloatRange):
    """A number within a range. `nan` is in none, though it compares with no limit."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        amount = float(super().convert(value, param, ctx))
        if isnan(amount):
            self.fail(f"{value!r} is not a number", param, ctx)
        return amount


class Text(click.ParamType[str]):
    """Literal, `@file`, or `-` for standard input; `@@` begins a literal with an at sign."""

    name = "text|@file|-"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text.startswith("@@"):
            return text[1:]
        try:
            if text == "-":
                return _standard_input(param, ctx)
            if text.startswith("@"):
                return Path(text[1:]).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            self.fail(f"cannot read {text[1:]}: {error.strerror}", param, ctx)
        except UnicodeDecodeError:
            self.fail(f"{text[1:] or 'standard input'} is not UTF-8 text", param, ctx)
        return text


def _standard_input(param: click.Parameter | None, ctx: click.Context | None) -> str:
    """Only once: a second read would find nothing."""
    name = param.opts[0] if param is not None else ""
    taken = ctx.meta.setdefault("rota.standard_input", name) if ctx is not None else name
    if taken != name:
        raise click.UsageError(
            f"{taken} and {name} cannot both be read from standard input; give one as @file",
            ctx,
        )
    return sys.stdin.read()


class JsonValue(click.ParamType[Any]):
    name = "json|@file|-"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        text = Text().convert(value, param, ctx)
        try:
            return json.loads(text, parse_constant=_refuse, object_pairs_hook=_each_once)
        except RecursionError:
            self.fail("the JSON is nested too deeply", param, ctx)
        except ValueError as error:
            self.fail(f"this is not JSON: {error}", param, ctx)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """As on the server: of a key given twice, nobody knows which value is meant."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def check_words(parameter: click.Parameter, value: Any, ctx: click.Context) -> None:
    """An empty value mostly comes from a shell variable that is not set. As a filter it would let
    everything pass; as a key it would be none."""
    if isinstance(parameter.type, JsonValue):
        return
    words = value if isinstance(value, tuple) else (value,)
    texts = [one for one in words if isinstance(one, str)]
    if "" in texts and isinstance(parameter, click.Option) and not _may_be_empty(parameter):
        raise click.UsageError(f"{parameter.opts[0]} is empty; give a value, or leave it out", ctx)
    if parameter.name not in _PATHS and not all(map(_is_text, texts)):
        raise click.BadParameter("it is not UTF-8 text", ctx, parameter)


def _may_be_empty(option: click.Option) -> bool:
    return isinstance(option.type, Text) or option.name in _ONLY_KEPT


def _is_text(word: str) -> bool:
    """Python turns bytes of the command line that are not text into halves of surrogate pairs."""
    return word.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in word)


def cleared(value: str) -> str | None:
    """`none` on the command line is null on the wire."""
    return None if value == NONE else value
