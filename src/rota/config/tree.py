"""The contents of a file, as mappings and lists that know the place of each entry.

Layers of several files become one agent. A mistake in it is reported with the file, line and column
of the layer that contains it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from rota.config.document import MOST_UNFOLDED, Document, Location, key, unreadable


@dataclass(frozen=True, slots=True)
class Place:
    file: Path
    line: int = 1
    column: int = 1
    loc: Location = ()

    @property
    def key(self) -> str:
        return key(self.loc) or "the file"

    def below(self, *parts: int | str) -> "Place":
        """The place of a key that is missing."""
        return replace(self, loc=(*self.loc, *parts))

    def told(self, why: str) -> str:
        """On one line, so that many of them make a list."""
        said = re.sub(r"\s*\n\s*", " ", f"{self.key}: {why}")
        return f"{self.file}:{self.line}:{self.column}: {said}"


class PlacedMap(dict[Any, Any]):
    __slots__ = ("place", "places")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.places: dict[Any, Place] = {}

    def put(self, name: Any, value: Any, place: Place) -> None:
        self[name] = value
        self.places[name] = place

    def take(self, name: Any) -> tuple[Any, Place]:
        """Removes the key; None when it was not there."""
        place = self.places.pop(name, self.place)
        return self.pop(name, None), place

    def copied(self) -> "PlacedMap":
        fresh = PlacedMap(self.place)
        fresh.update(self)
        fresh.places.update(self.places)
        return fresh


class PlacedList(list[Any]):
    __slots__ = ("place", "places")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.places: list[Place] = []

    def add(self, value: Any, place: Place) -> None:
        self.append(value)
        self.places.append(place)

    def placed(self) -> Iterator[tuple[Any, Place]]:
        return zip(self, self.places, strict=True)


def tree_of(document: Document) -> Any:
    planting = _Planting(document.path)
    tree = planting.tree(document.content, Place(document.path))
    if planting.size(document.content) > MOST_UNFOLDED:
        why = f"its aliases (*) unfold to more than {MOST_UNFOLDED} entries"
        raise unreadable(document.path, why)
    return tree


def find(tree: Any, loc: Location) -> tuple[Place, Any]:
    """The place of the value at `loc`, or of what should contain it; and the value."""
    here = tree
    place = tree.place if isinstance(tree, PlacedMap | PlacedList) else Place(Path())
    for number, part in enumerate(loc):
        try:
            place, here = here.places[part], here[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            return place.below(*loc[number:]), None
    return place, here


class _Planting:
    """An alias is built once and shared; inside itself it becomes None."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}

    def size(self, node: Any) -> int:
        """The number of entries; aliases count as often as they occur."""
        if not isinstance(node, dict | list):
            return 1
        if id(node) not in self._sizes:
            self._sizes[id(node)] = 0
            entries = node.values() if isinstance(node, dict) else node
            self._sizes[id(node)] = 1 + sum(map(self.size, entries))
        return self._sizes[id(node)]

    def tree(self, node: Any, place: Place) -> Any:
        if not isinstance(node, dict | list):
            return self._scalar(node, place)
        if id(node) not in self._done:
            self._done[id(node)] = None  # stands in for the node inside itself
            planted = self._map(node, place) if isinstance(node, dict) else self._list(node, place)
            self._done[id(node)] = planted
        return self._done[id(node)]

    def _scalar(self, node: Any, place: Place) -> Any:
        """Without the parser's notes on its spelling."""
        if type(node).__name__ == "ScalarBoolean":  # a bool with an anchor: to Python it is an int
            return bool(node)
        if isinstance(node, str):
            return self._text(node, place)
        if place.loc[-2:-1] == ("env",) and hasattr(node, "written"):
            return node.written  # a variable is a text: 3.10 is no 3.1, and 007 no 7
        for kind in (bool, int, float):
            if isinstance(node, kind):
                return kind(node)
        if node is None or isinstance(node, date):
            return node
        why = f"{place.key}: a tag (!) means nothing here; write the value without it"
        raise unreadable(self._path, why, (place.line, place.column))

    def _text(self, text: str, place: Place) -> str:
        """Joins a surrogate pair (as JSON escapes it) to one character; a lone surrogate is an
        error."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            why = f"{ascii(place.key)[1:-1]}: half a character (\\ud800 to \\udfff) means nothing"
            raise unreadable(self._path, why, (place.line, place.column)) from None

    def _map(self, node: Any, place: Place) -> PlacedMap:
        planted = PlacedMap(place)
        for name, value in node.items():
            spot = self._spot(node, "key", name, place)
            key = self._text(name, spot) if isinstance(name, str) else name
            planted.put(key, self.tree(value, spot), spot)
        return planted

    def _list(self, node: Any, place: Place) -> PlacedList:
        planted = PlacedList(place)
        for number, value in enumerate(node):
            spot = self._spot(node, "item", number, place)
            planted.add(self.tree(value, spot), spot)
        return planted

    def _spot(self, node: Any, kind: str, part: Any, around: Place) -> Place:
        """Keys that a merge (<<) added have the place of the mapping."""
        loc = (*around.loc, part)
        try:
            line, column, *_ = getattr(node.lc, kind)(part)
        except (AttributeError, KeyError, IndexError, TypeError):
            return replace(around, loc=loc)
        return Place(self._path, line + 1, column + 1, loc)
