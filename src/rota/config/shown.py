"""A resolved configuration for people: everything filled in, no secret shown."""

import re
from collections.abc import Mapping
from typing import Any

from rota.config.interpolation import FromEnvironment

HIDDEN = "***"
_SECRET = re.compile(r"token|secret|passw|api_?key|authorization|credential", re.IGNORECASE)
_HOLD_SECRETS = ("env", "headers")


def shown(data: Any, tree: Any) -> Any:
    """`data` as it was resolved from `tree`. Values from the environment are shown as they are
    written in the file, and entries of `env` and `headers` with a secret's name are hidden."""
    if isinstance(tree, FromEnvironment):
        return tree.written
    if isinstance(data, dict):
        below = tree if isinstance(tree, Mapping) else {}
        return {name: _entry(name, one, below.get(name)) for name, one in data.items()}
    if isinstance(data, list):
        along = tree if isinstance(tree, list) and len(tree) == len(data) else [None] * len(data)
        return [shown(one, branch) for one, branch in zip(data, along, strict=True)]
    return data


def _entry(name: str, value: Any, tree: Any) -> Any:
    found = shown(value, tree)
    if name in _HOLD_SECRETS and isinstance(found, dict):
        return {one: _guarded(one, text) for one, text in found.items()}
    return found


def _guarded(name: str, text: Any) -> Any:
    is_reference = isinstance(text, str) and text.startswith("${")
    return HIDDEN if _SECRET.search(name) and not is_reference else text
