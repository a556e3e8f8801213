"""A reason why nobody works on an item, and what would change that."""

from dataclasses import dataclass

_MARKS = tuple(".,;:!?")  # what keeps a text from the next by itself


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    fix: str | None = None


def in_one_line(text: str) -> str:
    """What was written in several, without running two texts together."""
    *lines, last = [line.strip() for line in text.split("\n") if line.strip()] or [""]
    return " ".join([*(one if one.endswith(_MARKS) else f"{one};" for one in lines), last])
