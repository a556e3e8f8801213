"""Reads the signals of the configuration, and reports every mistake with its place in the file."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from rota.model.clock import to_text
from rota.model.errors import InvalidInput, RotaError
from rota.model.signals import NewSignal
from rota.signals.reading import read_signal
from rota.signals.syncing import Synced, has_passed

_LATE = (
    "when.at: this moment has passed: where a server has had it in its file before, it stays as it"
    " is, and a new one is not made; name a time that is to come, or take it out"
)
_MISSED = (
    "when.at: this moment had passed before any server knew of it: it was not made; name a time"
    " that is to come, or take it out"
)
_CONTESTED = (
    "another server has it otherwise in its file, and whoever reads its file last wins;"
    " give them the same file, or other names"
)
_LEFT = (
    "signals are active that stand in no file of a server which was here within a day: {names}; end"
    " what nobody wants any more with `rota signal cancel ID`"
)


class Declaration(Protocol):
    """A signal as the configuration has it."""

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
    """Raises all mistakes at once. Whether named projects exist is checked when they are stored."""
    found: list[NewSignal] = []
    mistakes: list[dict[str, Any]] = []
    for one in given:
        try:
            found.append(_read(one, now))
        except RotaError as error:
            mistakes.append(_mistake(one, error))
    if mistakes:
        raise InvalidInput("\n".join(map(_told, mistakes)), field="signals", mistakes=mistakes)
    return found


def late(given: Iterable[Declared], now: datetime) -> list[dict[str, Any]]:
    """Remarks on signals whose moment has passed, from the file alone."""
    text = to_text(now)
    return [_remark(one, _LATE) for one in given if has_passed(_read(one, now), text)]


def warnings_of(given: Iterable[Declared], synced: Synced) -> list[str]:
    """Warnings for people about what the sync has found."""
    remarks = [
        _remark(one, message)
        for one in given
        for names, message in ((synced.missed, _MISSED), (synced.contested, _CONTESTED))
        if one.name in names
    ]
    left = [_LEFT.format(names=", ".join(synced.left))] if synced.left else []
    return [*map(_told, remarks), *left]


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
    """In the words of the file, which says `when` and `then`."""
    said = error.message.replace("trigger.", "when.").replace("action.", "then.")
    return _remark(one, said.replace("trigger: ", "when: "))


def _remark(one: Declared, message: str) -> dict[str, Any]:
    return {
        "file": one.file,
        "line": one.line,
        "column": one.column,
        "key": f"signals.{one.name}",
        "message": message,
    }


def _told(remark: Mapping[str, Any]) -> str:
    place = f"{remark['file']}:{remark['line']}:{remark['column']}"
    return f"{place}: {remark['key']}: {remark['message']}"
