"""Signals of the configuration: read, and every mistake told with its place in the file."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from rota.model.errors import InvalidInput, RotaError
from rota.model.signals import NewSignal
from rota.signals.reading import read_signal


class Declaration(Protocol):
    """As the configuration reads it."""

    @property
    def when(self) -> Mapping[str, Any]: ...
    @property
    def then(self) -> Mapping[str, Any] | None: ...
    @property
    def max_fires(self) -> int | str: ...
    @property
    def max_depth(self) -> int: ...


class Declared(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def config(self) -> Declaration: ...
    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def declared(given: Iterable[Declared], now: datetime) -> list[NewSignal]:
    """Whether the projects that they name are there is seen when they are stored."""
    found: list[NewSignal] = []
    mistakes: list[dict[str, Any]] = []
    for one in given:
        try:
            found.append(_read(one, now))
        except RotaError as error:
            mistakes.append(_mistake(one, error))
    if mistakes:
        told = (
            f"{one['file']}:{one['line']}:{one['column']}: {one['key']}: {one['message']}"
            for one in mistakes
        )
        raise InvalidInput("\n".join(told), field="signals", mistakes=mistakes)
    return found


def _read(one: Declared, now: datetime) -> NewSignal:
    config = one.config
    most = None if isinstance(config.max_fires, str) else config.max_fires
    return read_signal(
        config.when,
        config.then,
        now,
        name=one.name,
        configured=True,
        max_fires=most,
        max_depth=config.max_depth,
    )


def _mistake(one: Declared, error: RotaError) -> dict[str, Any]:
    """In the words of the file, where it is `when` and `then`."""
    said = error.message.replace("trigger.", "when.").replace("action.", "then.")
    return {
        "file": one.file,
        "line": one.line,
        "column": one.column,
        "key": f"signals.{one.name}",
        "message": said.replace("trigger: ", "when: "),
    }
