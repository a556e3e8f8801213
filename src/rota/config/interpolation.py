"""`${NAME}` and `${NAME:-default}` in values, and what may be shown of them afterwards."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rota.config.tree import Place, PlacedList, PlacedMap

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

Missing = Callable[[Place, str], None]


class FromEnvironment(str):
    """A text that contains values of variables. It may be a secret: show `written` instead."""

    __slots__ = ("written",)

    written: str

    @classmethod
    def of(cls, text: str, written: str) -> "FromEnvironment":
        made = cls(text)
        made.written = written
        return made


class UndefinedVariable(LookupError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """The value of a variable is not searched for further variables."""
    if "${" not in text:
        return text

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in environ:
            return environ[name]
        if default is None:
            raise UndefinedVariable(name)
        return str(default)

    replaced, count = _REFERENCE.subn(value, text)
    return FromEnvironment.of(replaced, text) if count else text


def interpolated(tree: Any, environ: Mapping[str, str], missing: Missing) -> Any:
    """The same tree with its values filled in; `missing` is called for each variable that is not
    set."""
    return _Filling(environ, missing).filled(tree, None)


class _Filling:
    def __init__(self, environ: Mapping[str, str], missing: Missing) -> None:
        self._environ, self._missing = environ, missing
        self._done: dict[int, Any] = {}  # nodes that aliases share stay shared

    def filled(self, node: Any, place: Place | None) -> Any:
        if isinstance(node, str):
            return self._text(node, place)
        if not isinstance(node, PlacedMap | PlacedList):
            return node
        if id(node) not in self._done:
            self._done[id(node)] = self._branch(node)
        return self._done[id(node)]

    def _branch(self, node: PlacedMap | PlacedList) -> PlacedMap | PlacedList:
        if isinstance(node, PlacedList):
            items = PlacedList(node.place)
            for value, place in node.placed():
                items.add(self.filled(value, place), place)
            return items
        fresh = PlacedMap(node.place)
        for name, value in node.items():
            fresh.put(name, self.filled(value, node.places[name]), node.places[name])
        return fresh

    def _text(self, text: str, place: Place | None) -> str:
        try:
            return interpolate(text, self._environ)
        except UndefinedVariable as error:
            if place is not None:
                self._missing(place, error.name)
            return text


def from_environment(tree: Any) -> Iterator[FromEnvironment]:
    """Every such text in the tree."""
    if isinstance(tree, FromEnvironment):
        yield tree
    elif isinstance(tree, dict | list):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from from_environment(one)


def hidden(message: str, tree: Any) -> str:
    """A message about this part of the tree, without values from the environment.

    Messages repeat a value as a whole, or its beginning. A message that would still reveal
    something is replaced.
    """
    for text in from_environment(tree):
        for length in (len(text), 200, 100, 80, 40):
            begun = str(text)[:length]
            if begun:
                message = message.replace(repr(begun), f"'{text.written}'")
                message = message.replace(f'"{begun}"', f'"{text.written}"')
        if len(text) > 2 and str(text)[:8] in message.replace(text.written, ""):
            return f"what {text.written} stands for cannot be used here"
    return message
