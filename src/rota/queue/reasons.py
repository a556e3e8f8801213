"""A reason why nobody works on an item, and what would change that."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    fix: str | None = None
