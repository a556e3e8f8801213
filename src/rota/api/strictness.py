"""Refuses JSON that msgspec accepts but that programs read differently.

Of a key that occurs twice in an object, one reader takes the first value and another the last. An
integer too large for a double is infinity to one reader and an error to another.
"""

import json
from typing import Any

from rota.api.mistakes import TOO_LARGE
from rota.model.errors import InvalidInput

MAX_DIGITS = 308  # of an integer; the largest double has 309


def check(text: str) -> None:
    """Expects text that is known to be well-formed JSON."""
    _READER.raw_decode(text.lstrip())


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen: set[str] = set()  # input is untrusted: one pass, however many names there are
    for name, _ in pairs:
        if name in seen:
            raise InvalidInput(f"{name[:80]}: it is given twice", field=name[:80])
        seen.add(name)


def _short(digits: str) -> None:
    if len(digits.removeprefix("-")) > MAX_DIGITS:
        raise InvalidInput(f"{digits[:20]}…: {TOO_LARGE}", field="body", max_digits=MAX_DIGITS)


# The standard library's scanner stays in C with these two hooks: about 2 µs for a small item.
_READER = json.JSONDecoder(object_pairs_hook=_each_once, parse_int=_short)
