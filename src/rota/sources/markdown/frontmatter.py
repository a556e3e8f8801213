"""Front matter: parses it defensively, and changes two keys without touching the rest.

ruamel.yaml reads the YAML but does not write it: dumping a document changes what people wrote
(quotes, indents, line breaks). New text is inserted at the positions that the parser reports.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

LONGEST = 64 * 1024  # characters; parsing that many takes half a second
DEEPEST = 16

_OPENING = re.compile(r"---[ \t]*(\r\n|\n)")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
# Characters that YAML does not take unescaped.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class BadFrontMatter(Exception):
    """What is wrong, in words for the author of the file."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file in four parts that make up the whole: `head + matter + tail + body`."""

    head: str  # a byte order mark and the opening fence, if present
    matter: str
    tail: str  # the closing fence
    body: str
    newline: str = "\n"

    @property
    def is_fenced(self) -> bool:
        return bool(self.tail)


def split(text: str) -> Text:
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    opening = _OPENING.match(text, len(mark))
    if opening is None:
        return Text(mark, "", "", text[len(mark) :], "\r\n" if "\r\n" in text else "\n")
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise BadFrontMatter("the front matter is opened with --- and never closed")
    return Text(
        text[: opening.end()],
        text[opening.end() : closing.start()],
        text[closing.start() : closing.end()],
        text[closing.end() :],
        opening[1],
    )


def parse(matter: str) -> dict[str, Any]:
    """The keys and their plain values; raises `BadFrontMatter`."""
    if len(matter) > LONGEST:
        raise BadFrontMatter(
            f"the front matter has {len(matter)} characters; at most {LONGEST} are read"
        )
    _read(lambda yaml: _demand_tame(yaml.parse(matter)))
    loaded = _read(lambda yaml: yaml.load(matter))
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise BadFrontMatter("the front matter must be lines of `key: value`")
    for key in loaded:
        if not isinstance(key, str):
            raise BadFrontMatter(f"the key {str(key)[:40]!r} must be text")
    return {key: _plain(value) for key, value in loaded.items()}


def _read(look: Callable[[Any], Any]) -> Any:
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import; many sources never need it

    try:
        return look(YAML(typ="safe", pure=True))
    except BadFrontMatter:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the parser stumbles over is this file's fault
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 2}" if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadFrontMatter(f"the front matter is not YAML{place}: {what[:200]}") from None


def _demand_tame(events: Iterable[Any]) -> None:
    """Aliases can expand a few lines to gigabytes, and deep nesting can overflow the stack."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            raise BadFrontMatter("the front matter uses & or *; write the value out instead")
        if depth == 2 and kind == "MappingStartEvent" and event.flow_style:
            raise BadFrontMatter("the front matter must be lines of `key: value`, without braces")
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > DEEPEST:
            raise BadFrontMatter(f"the front matter is nested deeper than {DEEPEST} levels")


def _plain(value: Any) -> Any:
    """As JSON values, because they end up in prompts and on wires."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(one) for one in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


# writing


def changed(text: Text, changes: Mapping[str, Any]) -> str:
    """The whole file with these keys set; raises `BadFrontMatter` if it cannot be done cleanly."""
    before = parse(text.matter)
    matter = text.matter
    for key, value in changes.items():
        matter = _set(matter, key, value, text.newline)
    if parse(matter) != {**before, **changes}:
        raise BadFrontMatter("it is laid out in a way that cannot be changed without harm")
    if text.is_fenced:
        return f"{text.head}{matter}{text.tail}{text.body}"
    fence = f"---{text.newline}"
    return f"{text.head}{fence}{matter}{fence}{text.body}"


def _set(matter: str, key: str, value: Any, newline: str) -> str:
    root = _read(lambda yaml: yaml.compose(matter))
    indent = " " * (root.start_mark.column if root is not None else 0)
    entry = f"{key}:{_written(value, f'{newline}{indent}')}"
    place = _place(matter, key, root)
    if place is None:
        gap = "" if not matter or matter.endswith("\n") else newline
        return f"{matter}{gap}{indent}{entry}{newline}"
    start, end = place
    gap = newline if matter[start:end].endswith("\n") else ""
    return f"{matter[:start]}{entry}{gap}{matter[end:]}"


def _place(matter: str, key: str, root: Any) -> tuple[int, int] | None:
    """From the key to the end of its value, without a trailing comment."""
    for name, value in root.value if root is not None else ():
        if name.value == key:
            # For a missing value, the parser reports the position of the next key.
            empty = value.start_mark.index == value.end_mark.index
            colon = matter.index(":", name.end_mark.index) + 1
            return name.start_mark.index, colon if empty else _end(value)
    return None


def _end(node: Any) -> int:
    """The end of the last node in it: the parser lets a block reach up to the next key, comments
    included."""
    while not getattr(node, "flow_style", True) and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end: int = node.end_mark.index
    return end


def _written(value: Any, line: str) -> str:
    if not isinstance(value, Mapping):
        return f" {_quoted(value)}"
    return "".join(f"{line}  {key}: {_quoted(one)}" for key, one in value.items())


def _quoted(value: Any) -> str:
    """JSON is YAML, except for a few characters. A plain word needs no quotes."""
    if isinstance(value, str) and re.fullmatch(r"[a-z_]{3,40}", value) and value not in _NO_TEXT:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_NO_TEXT = frozenset({"null", "true", "false", "yes", "off"})  # also for parsers of YAML 1.1
