"""One line of an export: converts a row of the ledger to JSON and back, with strict checks."""

import json
import re
from collections.abc import Callable
from typing import Any

from rota.exchange.meanings import demand_sense
from rota.model.clock import from_text
from rota.model.errors import InvalidInput
from rota.model.work import NAME
from rota.storage.primitives import Row
from rota.storage.rows import encode
from rota.storage.shapes import BY_KIND, Field, FieldType, Shape

VERSION = 1
LONGEST_LINE = 8 * 1024 * 1024  # longer than the longest possible item
DEEPEST = 64
HEADER, END = "header", "end"
_PARTS = ("kind", "version", "data")

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z:._-]{0,199}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LARGEST = 2**63


def line_of(shape: Shape, row: Row) -> bytes:
    """The row's fields are nested, because some of them are called `kind` and `version` too."""
    data = {
        field.name: _shown(field, value) for field, value in zip(shape.fields, row, strict=True)
    }
    return encode_line({"kind": shape.kind, "version": VERSION, "data": data})


def encode_line(record: dict[str, Any]) -> bytes:
    return encode(record).encode() + b"\n"


def _shown(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.type is FieldType.JSON:
        return json.loads(value)
    if field.type is FieldType.FLAG:
        return bool(value)
    return value


class Fault(Exception):
    """What is wrong with a line, in words."""


def parse(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line, parse_constant=_no_number)
    except RecursionError:
        raise Fault("it is nested too deeply") from None
    except ValueError as error:  # also for text that is not UTF-8
        raise Fault(f"this is not JSON: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise Fault('this is no record: it has no "kind"')
    if record.get("version") != VERSION or isinstance(record["version"], bool):
        raise Fault(
            f"a record of version {str(record.get('version'))[:20]}; this Rota reads version"
            f" {VERSION}: import with the Rota that wrote the file, or a newer one"
        )
    return record


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def shape_of(record: dict[str, Any]) -> Shape:
    shape = BY_KIND.get(record["kind"])
    if shape is None:
        raise Fault(f"records of the kind {record['kind'][:40]!r} are not known here")
    return shape


def row_of(shape: Shape, record: dict[str, Any]) -> Row:
    data = record.get("data")
    if not isinstance(data, dict) or len(record) != len(_PARTS):
        raise Fault(f"a record has {', '.join(_PARTS)}, and nothing else")
    names = {field.name for field in shape.fields}
    if extra := data.keys() - names:
        raise Fault(f"the field {min(extra)[:40]!r} is not known here")
    data = {name: other and data.get(other) for name, other in shape.later} | data
    if missing := names - data.keys():
        raise Fault(f"the field {min(missing)!r} is missing")
    return tuple(_stored(shape.kind, field, data[field.name]) for field in shape.fields)


def _stored(kind: str, field: Field, value: Any) -> Any:
    if value is None:
        if field.optional:
            return None
        raise Fault(f"{field.name} must not be null")
    try:
        stored = _CHECKS[field.type](value)
        demand_sense(kind, field.name, value)
    except (Fault, ValueError) as fault:
        raise Fault(f"{field.name}: {fault}") from None
    return stored


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Fault("this must be text")
    if "\x00" in value:
        raise Fault("the NUL character is not allowed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Fault("half a surrogate pair is not allowed") from None
    return value


def _id(value: Any) -> str:
    if not _ID.fullmatch(_text(value)):
        raise Fault(f"{value[:80]!r} is not an id")
    return str(value)


def _name(value: Any) -> str:
    if not NAME.fullmatch(_text(value)):
        raise Fault(f"{value[:80]!r} is not a name")
    return str(value)


def _time(value: Any) -> str:
    """Text order is time order only if all times have the same format."""
    if not _TIME.fullmatch(_text(value)):
        raise Fault(f"{value[:40]!r} is not a time like 2026-05-01T19:42:33.000000Z")
    try:
        from_text(value)
    except ValueError as error:
        raise Fault(str(error)) from None
    return str(value)


def _whole(value: Any) -> int:
    if type(value) is not int or not -_LARGEST <= value < _LARGEST:
        raise Fault("this must be a whole number")
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) > 1e300:
        raise Fault("this must be a number")
    return float(value)


def _flag(value: Any) -> int:
    if not isinstance(value, bool):
        raise Fault("this must be true or false")
    return int(value)


def _json(value: Any) -> str:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Fault(f"nested deeper than {DEEPEST} levels")
        level = [inner for one in level for inner in _inside(one)]
    try:
        text: str = encode(value)
    except ValueError as error:
        raise Fault(f"this is not JSON: {error}") from None
    return _text(text)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


_CHECKS: dict[FieldType, Callable[[Any], Any]] = {
    FieldType.TEXT: _text,
    FieldType.ID: _id,
    FieldType.NAME: _name,
    FieldType.TIME: _time,
    FieldType.WHOLE: _whole,
    FieldType.REAL: _real,
    FieldType.FLAG: _flag,
    FieldType.JSON: _json,
}


def unreadable(path: object, number: int, why: object) -> InvalidInput:
    return InvalidInput(f"{path}, line {number}: {why}", file=str(path), line=number)
