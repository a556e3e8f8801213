"""Statements of the store in the spelling of psycopg's cursors, which tests use."""

import re

_PARAMETER = re.compile(r"(?<!:):([a-z][a-z0-9_]*)")


def to_psycopg(statement: str) -> str:
    """`:name` becomes `%(name)s`; a literal percent sign is doubled."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))
