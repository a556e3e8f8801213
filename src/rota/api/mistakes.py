"""Explains why a wire model refused a value.

msgspec tells where the mistake is, but describes it by regular expressions. So the sentence is made
from the value and from what the model expects there. A type may bring its own words, in
`Meta(extra=…)`:

`wrong`    follows the value when it does not match the pattern: "is not a name; use …"
`unshown`  the same, for values that must not be repeated, such as tokens
`empty`    what to do about an empty text
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from rota.model.errors import InvalidInput, MissingRequirement

S = TypeVar("S", bound=StrEnum)

# msgspec's form of a place: "Expected `int`, got `str` - at `$.priority`".
_PLACE = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"(?:unknown|required) field `(.*)`$", re.DOTALL)
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|([^.\[\]]+)")
_MISSING = "missing required field"

_LONGEST_FIELD, _LONGEST_DETAIL, _LONGEST_VALUE = 200, 500, 80
UNKNOWN = object()  # a value that cannot be shown, because the JSON around it is broken
TOO_LARGE = "the number is too large to be kept as it is; write it as a text"


@dataclass(frozen=True, slots=True)
class _Form:
    """A type that is allowed at a place, and its words."""

    type: inspect.Type
    words: Mapping[str, str]


def invalid(
    error: msgspec.ValidationError, kind: Any, given: Any, at: str | None = None
) -> InvalidInput:
    """The error for `given`, which is not a valid `kind`; `at` is its name if it is a field."""
    found = _PLACE.match(str(error))
    message, place = (found[1], found[2] or "") if found else (str(error), "")
    named = _NAMED.search(message)
    parts = (at, place, named[1] if named else None)
    field = ".".join(part for part in parts if part)[:_LONGEST_FIELD] or "body"
    steps = _steps(place)
    forms = _forms_at(kind, steps)
    if _MISSING in message and named:
        place = field.removesuffix(named[1])
        return _missing(place, forms, _lacking(forms, _value_at(given, steps)) or [named[1]])
    said = _not_known(forms) if named else _said(forms, _value_at(given, steps))
    return InvalidInput(f"{field}: {said}"[:_LONGEST_DETAIL], field=field)


def _lacking(forms: list[_Form], value: Any) -> list[str]:
    """The required fields that an object does not have: msgspec names only the first."""
    if not isinstance(value, Mapping):
        return []
    return [
        field.encode_name
        for form in forms
        if isinstance(form.type, inspect.StructType)
        for field in form.type.fields
        if field.required and field.encode_name not in value
    ]


def _missing(place: str, forms: list[_Form], names: Sequence[str]) -> MissingRequirement:
    errors = []
    for name in names:
        hint = _hints(inner for form in forms for inner in _inside(form, name))
        field = f"{place}{name}"
        errors.append({"field": field, "message": f"{field}: it is missing{hint}"})
    said = "; ".join(one["message"] for one in errors)
    return MissingRequirement(said[:_LONGEST_DETAIL], field=errors[0]["field"], errors=errors)


def status_named(kind: type[S], name: str) -> S:
    try:
        return kind(name)
    except ValueError:
        known = [str(one) for one in kind]
        raise InvalidInput(
            f"status: {name[:40]!r} is unknown; there are {', '.join(known)}",
            field="status",
            allowed=known,
        ) from None


def loosely(raw: bytes | str) -> Any:
    """JSON that a model refused, read without a model to show its values."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return UNKNOWN


# places


def _steps(place: str) -> list[str]:
    return [one[1] or one[2] for one in _STEP.finditer(place)]


def _value_at(given: Any, steps: list[str]) -> Any:
    try:
        for step in steps:
            given = given[int(step) if isinstance(given, Sequence) else step]
    except (KeyError, IndexError, TypeError, ValueError):
        return UNKNOWN
    return given


def _forms_at(kind: Any, steps: list[str]) -> list[_Form]:
    forms = list(_forms(_type_of(kind), {}))
    for step in steps:
        forms = [inner for form in forms for inner in _inside(form, step)]
    return forms


@cache
def _type_of(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _forms(of: inspect.Type, words: Mapping[str, str]) -> Iterator[_Form]:
    match of:
        case inspect.Metadata():
            yield from _forms(of.type, of.extra or words)
        case inspect.UnionType():
            for one in of.types:
                yield from _forms(one, words)
        case _:
            yield _Form(of, words)


def _inside(form: _Form, step: str) -> Iterator[_Form]:
    match form.type:
        case inspect.StructType(fields=fields):
            for field in fields:
                if field.encode_name == step:
                    yield from _forms(field.type, {})
        case inspect.DictType(value_type=inner):
            yield from _forms(inner, {})
        case inspect.CollectionType(item_type=inner):
            yield from _forms(inner, {})


# sentences


def _not_known(forms: list[_Form]) -> str:
    """For an unknown field."""
    known = [
        field.encode_name
        for form in forms
        if isinstance(form.type, inspect.StructType)
        for field in form.type.fields
    ]
    there = f"; there are {', '.join(known)}" if known else ""
    return f"it is not known here{there}"


def _said(forms: list[_Form], value: Any) -> str:
    for form in forms:
        if (said := _about(form, value)) is not None:
            return said
    wanted = " or ".join(dict.fromkeys(filter(None, map(_described, forms))))
    if not wanted:  # any type is allowed, but not a number that JSON or Python cannot hold
        return TOO_LARGE
    return f"it has to be {wanted}" + ("" if value is UNKNOWN else f", not {_shown(value)}")


def _about(form: _Form, value: Any) -> str | None:
    """What is wrong with a value of the right type."""
    match form.type, value:
        case inspect.StrType(), str():
            return _about_text(form, form.type, value)
        case ((inspect.LiteralType() | inspect.EnumType()), str()):
            return f"{_shown(value)} is unknown; there are {', '.join(_choices(form.type))}"
        case ((inspect.IntType() | inspect.FloatType()), int() | float()):
            return _about_number(form.type, value)
        case inspect.CollectionType(), list() | tuple():
            return _about_list(form.type, value)
    return None


def _about_number(of: inspect.IntType | inspect.FloatType, value: float) -> str | None:
    fits = not isinstance(value, bool) and (
        isinstance(of, inspect.FloatType) or isinstance(value, int)
    )
    within = _range(of)
    return f"{_shown(value)} is out of range; use {within}" if fits and within else None


def _about_list(of: inspect.CollectionType, value: Sequence[Any]) -> str:
    if of.max_length is not None and len(value) > of.max_length:
        return f"{len(value)} are given; at most {of.max_length} are allowed"
    return "it is empty; give at least one"


def _about_text(form: _Form, of: inspect.StrType, value: str) -> str:
    if of.max_length is not None and len(value) > of.max_length:
        return f"it has {len(value)} characters; at most {of.max_length} are allowed"
    if "unshown" in form.words:
        return form.words["unshown"]
    if "wrong" in form.words:
        return f"{_shown(value)} {form.words['wrong']}"
    if not value.strip():
        return f"it is empty{_hints([form])}"
    return f"{_shown(value)} is not written as it has to be"


def _hints(forms: Iterable[_Form]) -> str:
    return next((f"; {one.words['empty']}" for one in forms if "empty" in one.words), "")


_NOUNS: tuple[tuple[type[inspect.Type], str], ...] = (
    (inspect.StrType, "a text"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.BoolType, "true or false"),
    (inspect.CollectionType, "a list"),
    (inspect.StructType, "an object"),
    (inspect.DictType, "an object"),
)


def _described(form: _Form) -> str:
    noun = next((noun for kind, noun in _NOUNS if isinstance(form.type, kind)), "")
    match form.type:
        case inspect.StrType(max_length=int(most)):
            return f"{noun} of at most {most} characters"
        case inspect.IntType() | inspect.FloatType() if _range(form.type):
            return f"{noun}, {_range(form.type)}"
        case inspect.LiteralType() | inspect.EnumType():
            return f"one of {', '.join(_choices(form.type))}"
    return noun


def _range(of: inspect.IntType | inspect.FloatType) -> str:
    if of.ge is not None and of.le is not None:
        return f"{of.ge} to {of.le}"
    return "" if of.ge is None else f"at least {of.ge}"


def _choices(of: inspect.Type) -> list[str]:
    match of:
        case inspect.LiteralType(values=values):
            return [str(one) for one in values]
        case inspect.EnumType(cls=enum):
            return [str(one.value) for one in enum]
    return []


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case str():
            return repr(value[:_LONGEST_VALUE])
    return str(value)[:_LONGEST_VALUE]
