"""A reason why nobody works on an item, and what would change it."""

from dataclasses import dataclass

_MARKS = tuple(".,;:!?")  # a line that ends with one of these needs no separator


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    fix: str | None = None


def in_one_line(text: str) -> str:
    """Join several lines, with a semicolon where a line ends without punctuation."""
    *lines, last = [line.strip() for line in text.split("\n") if line.strip()] or [""]
    return " ".join([*(one if one.endswith(_MARKS) else f"{one};" for one in lines), last])
