"""Changes JSON as text, so that the rest of a file stays as it was written."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # its place is known exactly
from typing import Any

from rota.model.errors import InvalidInput

Path = tuple[str, ...]

_BLANK = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r"[-+.0-9A-Za-z]+")
_INDENT = re.compile(r"\n([ \t]*)\Z")
_USUAL_UNIT = "  "


@dataclass(slots=True)
class Node:
    """A value and its position; containers know their entries."""

    start: int
    end: int = 0
    entries: "list[Entry]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    key: str | None  # None in a list
    start: int
    node: Node


def parse(text: str) -> Any:
    """The document. It must be an object without duplicate keys: others cannot be merged into."""
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise InvalidInput("it is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput("it is JSON, but not an object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


# positions


def scan(text: str) -> Node:
    """For text that `parse` has accepted."""
    return _value(text, _skip(text, 0))


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> Node:
    if text[at] in "{[":
        return _container(text, at)
    if text[at] == '"':
        return Node(at, scanstring(text, at + 1)[1])
    found = _PLAIN.match(text, at)
    return Node(at, found.end() if found else at + 1)


def _container(text: str, start: int) -> Node:
    node, is_object = Node(start), text[start] == "{"
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        key, begin = None, at
        if is_object:
            key, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)  # after the colon
        value = _value(text, at)
        node.entries.append(Entry(key, begin, value))
        at = _skip(text, value.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    node.end = at + 1
    return node


def find(text: str, path: Path) -> Node | None:
    node = scan(text)
    for key in path:
        inner = next((one.node for one in node.entries if one.key == key), None)
        if inner is None:
            return None
        node = inner
    return node


def value_at(text: str, node: Node) -> Any:
    return json.loads(text[node.start : node.end])


# changes


def insert(text: str, path: Path, key: str | None, value: Any) -> str:
    """Adds to the end of the container at `path`, in the container's own layout."""
    node = _there(text, path)
    if not node.entries:
        if path and _is_inline(text, _there(text, path[:-1])):
            return refill(text, path, _written(key, value))
        line, inner, unit = _newline(text), _unit(text) * (len(path) + 1), _unit(text)
        inside = f"{line}{inner}{_written(key, value, inner, unit, line)}{line}{unit * len(path)}"
        return f"{text[: node.start + 1]}{inside}{text[node.end - 1 :]}"
    end = node.entries[-1].node.end
    indent = _INDENT.search(text[: node.entries[0].start])
    if indent is None or _is_inline(text, node):
        return f"{text[:end]}, {_written(key, value)}{text[end:]}"
    line = _newline(text)
    written = _written(key, value, indent[1], _unit(text), line)
    return f"{text[:end]},{line}{indent[1]}{written}{text[end:]}"


def drop(text: str, path: Path, index: int) -> str:
    node = _there(text, path)
    entries = node.entries
    if len(entries) == 1:
        return f"{text[: node.start + 1]}{text[node.end - 1 :]}"
    if index == 0:
        return f"{text[: entries[0].start]}{text[entries[1].start :]}"
    return f"{text[: entries[index - 1].node.end]}{text[entries[index].node.end :]}"


def replace(text: str, node: Node, value: Any) -> str:
    if value_at(text, node) == value:
        return text
    if "\n" not in text[node.start : node.end]:
        return f"{text[: node.start]}{_written(None, value)}{text[node.end :]}"
    before = text[: node.start].rpartition("\n")[2]
    indent = before[: len(before) - len(before.lstrip())]
    written = _written(None, value, indent, _unit(text), _newline(text))
    return f"{text[: node.start]}{written}{text[node.end :]}"


def inside(text: str, path: Path) -> str | None:
    """The text between the brackets of an empty container; None when it is not empty."""
    node = _there(text, path)
    return None if node.entries else text[node.start + 1 : node.end - 1]


def refill(text: str, path: Path, blank: str) -> str:
    node = _there(text, path)
    return f"{text[: node.start + 1]}{blank}{text[node.end - 1 :]}"


def index_of(node: Node, chosen: Callable[[Entry], bool]) -> int | None:
    return next((number for number, one in enumerate(node.entries) if chosen(one)), None)


def _is_inline(text: str, node: Node) -> bool:
    return bool(node.entries) and "\n" not in text[node.start : node.entries[0].start]


def _there(text: str, path: Sequence[str]) -> Node:
    node = find(text, tuple(path))
    if node is None or text[node.start] not in "{[":
        raise InvalidInput(f"{'.'.join(path)} is no object or list")
    return node


def _written(
    key: str | None, value: Any, indent: str | None = None, unit: str = "", line: str = "\n"
) -> str:
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if indent is None:
        return name + json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return name + f"{line}{indent}".join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    root = scan(text)
    indent = _INDENT.search(text[: root.entries[0].start]) if root.entries else None
    return (indent[1] if indent else "") or _USUAL_UNIT
