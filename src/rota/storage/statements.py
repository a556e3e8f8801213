"""Reads the named statements: portable text, which a database may override under the same name.

Each statement in a file begins with `-- name: x`. `-- fragment: x` names a piece of SQL
that other statements include as `@x`. Parameters are written `:name`.
"""

import re
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable

_HEAD = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"@(\w+)")
_PARAMETER = re.compile(r"(?<!:):([a-z][a-z0-9_]*)")


def _files(folder: Traversable) -> list[Traversable]:
    return sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)


def _parse(text: str) -> dict[tuple[str, str], str]:
    parts = _HEAD.split(text)[1:]
    return {
        (kind, name): "\n".join(
            line for line in body.strip().splitlines() if not line.startswith("--")
        )
        for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


@cache
def _found(dialect: str) -> dict[tuple[str, str], str]:
    root = resources.files("rota.storage") / "sql"
    found: dict[tuple[str, str], str] = {}
    for folder in (root, root / dialect):
        if folder.is_dir():
            for file in _files(folder):
                found |= _parse(file.read_text())
    return found


@cache
def load_fragments(dialect: str) -> dict[str, str]:
    found = _found(dialect)
    fragments = {name: body for (kind, name), body in found.items() if kind == "fragment"}
    for name, table in (("item", "w"), ("signal", "s"), ("event", "e")):  # qualified columns
        fragments[f"{name}_{table}"] = re.sub(r"(\w+)", rf"{table}.\1", fragments[name])
    return fragments


@cache
def load_statements(dialect: str) -> dict[str, str]:
    fragments = load_fragments(dialect)
    return {
        name: _INCLUDE.sub(lambda match: fragments[match[1]], body)
        for (kind, name), body in _found(dialect).items()
        if kind == "name"
    }


@lru_cache(maxsize=1024)
def numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement as PostgreSQL spells it (`:name` becomes `$1`, and so on), and the names in
    that order."""
    names: dict[str, str] = {}
    text = _PARAMETER.sub(lambda match: names.setdefault(match[1], f"${len(names) + 1}"), statement)
    return text.encode(), tuple(names)
