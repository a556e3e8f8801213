"""Collects everything that is wrong with a configuration, and reports it in the order of the
files."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from rota.config.document import Location, key
from rota.config.interpolation import FromEnvironment, hidden
from rota.config.tree import Place, find
from rota.model.errors import InvalidInput

MOST_MISTAKES = 50  # how many are reported at once

_PLAIN = {
    "missing": "is missing",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "tuple_type": "write a list: [a, b]",
    "list_type": "write a list: [a, b]",
    "string_type": "write a text; put it in quotes if YAML takes it for something else",
    "model_type": "write keys and values: `key: value`",
    "model_attributes_type": "write keys and values: `key: value`",
    "dict_type": "write keys and values: `key: value`",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "invalid_key": "a key is a text",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


@dataclass(frozen=True, slots=True)
class Remark:
    place: Place
    why: str

    @property
    def text(self) -> str:
        return self.place.told(self.why)

    def told(self) -> dict[str, Any]:
        place = self.place
        where = {"file": str(place.file), "line": place.line, "column": place.column}
        return {**where, "key": key(place.loc), "message": self.why}


@dataclass
class Findings:
    """Mistakes make a load fail; warnings do not. Duplicates are reported once."""

    mistakes: dict[str, Remark] = field(default_factory=dict)
    warnings: dict[str, Remark] = field(default_factory=dict)
    _unset: set[Place] = field(default_factory=set)  # where a variable is not set

    def mistake(self, place: Place, why: str) -> None:
        if place in self._unset:  # the value there is not known
            return
        remark = Remark(place, why)
        self.mistakes.setdefault(remark.text, remark)

    def warning(self, place: Place, why: str) -> None:
        remark = Remark(place, why)
        self.warnings.setdefault(remark.text, remark)

    def unreadable(self, path: Path, error: InvalidInput) -> None:
        """The error of an unreadable file contains its own place."""
        (told,) = error.details["mistakes"]
        self.mistakes[error.message] = Remark(
            Place(path, told["line"], told["column"]), told["message"]
        )

    def missing_variable(self, place: Place, name: str) -> None:
        hint = ""
        if (place.file.parent / ".env").is_file():
            hint = "; .env is not read: `set -a; . ./.env; set +a` sets what it holds"
        self.mistake(
            place,
            f"the environment variable {name} is not set; set it, or write"
            f" ${{{name}:-default}}{hint}",
        )
        self._unset.add(place)

    def refused(
        self,
        error: ValidationError,
        model: Any,
        tree: Any,
        *,
        also_known: Iterable[str] = (),
        but: Callable[[ErrorDetails, Any], bool] = lambda _error, _value: False,
    ) -> None:
        """Adds what pydantic found in `tree`, which should be a `model`, `but` for what is
        forgiven."""
        for one in error.errors(include_url=False):
            place, value = find(tree, _keys(one, tree))
            if not but(one, value):
                self.mistake(place, hidden(_words(one, model, also_known), value))

    def told_warnings(self, files: Iterable[Path]) -> tuple[Remark, ...]:
        return tuple(_in_order(self.warnings, files).values())

    def demand_none(self, files: Iterable[Path] = ()) -> None:
        if not self.mistakes:
            return
        found = _in_order(self.mistakes, files)
        lines = list(found)[:MOST_MISTAKES]
        remarks = list(found.values())
        first = remarks[0].place.file
        if len(remarks) > MOST_MISTAKES:
            lines.append(f"{first}: and {len(remarks) - MOST_MISTAKES} more mistakes")
        raise InvalidInput(
            "\n".join(lines),
            file=str(first),
            mistakes=[one.told() for one in remarks[:MOST_MISTAKES]],
            warnings=[one.told() for one in self.told_warnings(files)][:MOST_MISTAKES],
        )


def _in_order(told: dict[str, Remark], files: Iterable[Path]) -> dict[str, Remark]:
    """In the order of reading, and from top to bottom."""
    order = {file: number for number, file in enumerate(files)}

    def where(one: tuple[str, Remark]) -> tuple[int, int, int]:
        place = one[1].place
        return order.get(place.file, 0), place.line, place.column

    return dict(sorted(told.items(), key=where))


def _keys(error: ErrorDetails, tree: Any) -> Location:
    """Without the union branches in pydantic's location, which are not in the file."""
    loc = error["loc"]
    kept: list[int | str] = []
    here = tree
    for number, part in enumerate(loc):
        if _holds(here, part):
            here = here[part]
            kept.append(part)
        elif error["type"] == "missing" and number == len(loc) - 1:
            kept.append(part)
    return tuple(kept)


def _holds(here: Any, part: int | str) -> bool:
    if isinstance(here, list):
        return isinstance(part, int) and part < len(here)
    return isinstance(here, dict) and part in here


def _words(error: ErrorDetails, model: Any, also_known: Iterable[str]) -> str:
    kind, where = error["type"], error["loc"]
    if kind == "extra_forbidden":
        unknown = str(where[-1])
        if nested := _nested(model, where[:-1], unknown):
            return f"unknown key; did you mean '{nested}'?"
        known = [*known_keys(model, where[:-1]), *(also_known if len(where) == 1 else ())]
        return f"unknown key{suggestion(unknown, known)}"
    if kind == "literal_error":
        said = error["input"]
        shown = said.written if isinstance(said, FromEnvironment) else f"{said!r}"[:80]
        return f"{shown} is not known; write {error['ctx']['expected']}"
    if kind == "int_type" and where[-2:-1] in (("trusted",), ("fleets",)):
        return "the number of an account is wanted; `rota issue whois LOGIN` tells it"
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"must be {words} {error['ctx'][name]}"
    return _PLAIN.get(kind) or error["msg"].removeprefix("Value error, ")


def suggestion(unknown: str, known: Iterable[str]) -> str:
    names = sorted(set(known))
    near = difflib.get_close_matches(unknown, names, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(names)}"


def known_keys(model: Any, loc: Location) -> list[str]:
    """The keys that are allowed in the section at `loc` of a model."""
    sections = _at(model, loc)
    return [field.alias or name for one in sections for name, field in one.model_fields.items()]


def _nested(model: Any, loc: Location, unknown: str) -> str | None:
    """The right place of a key that is one level too high."""
    found = {
        f"{name}.{unknown}"
        for section in _at(model, loc)
        for name, field in section.model_fields.items()
        for inner in _sections(field.annotation)
        if unknown in inner.model_fields
    }
    return found.pop() if len(found) == 1 else None


def _at(model: Any, loc: Location) -> list[type[BaseModel]]:
    here = [model]
    for part in loc:
        here = [found for one in here for found in _within(one, part)] or here
    return [one for kind in here for one in _sections(kind)]


def _sections(kind: Any) -> list[type[BaseModel]]:
    """The models that a type is, or may be."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    if get_origin(kind) in (dict, tuple):
        return []
    return [section for one in get_args(kind) for section in _sections(one)]


def _within(kind: Any, part: int | str) -> list[Any]:
    """The types below one part of a location."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        found = kind.model_fields.get(str(part))
        return [] if found is None else [found.annotation, *found.metadata]
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        if any(isinstance(mark, Tag) for mark in marks):
            return [inner] if any(getattr(mark, "tag", None) == part for mark in marks) else []
        return _within(inner, part)
    if get_origin(kind) in (dict, tuple):
        return [get_args(kind)[-2 if get_origin(kind) is tuple else -1]]
    return [found for one in get_args(kind) for found in _within(one, part)]
