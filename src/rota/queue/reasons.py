"""A reason why nobody works on an item, and what would change that."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    fix: str | None = None


def in_one_line(text: str) -> str:
    """What was written in several, without running two texts together."""
    return "; ".join(line.strip() for line in text.split("\n") if line.strip())
