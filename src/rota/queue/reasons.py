"""A reason why nobody works on an item, and what would change it."""

from dataclasses import dataclass

_MARKS = tuple(".,;:!?")  # a line that ends with one of these needs no separator


@dataclass(frozen=True, slots=True)
class Way:
    """What would change it: in words, by a command, or both. The command can be pasted as it is, so
    it is never made of what somebody wrote; in capital letters is what a person puts in."""

    words: str | None = None
    command: str | None = None

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.words, self.command)))


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    ways: tuple[Way, ...] = ()

    @property
    def fix(self) -> str | None:
        """The ways in one line."""
        return "; or ".join(map(str, self.ways)) or None


def in_one_line(text: str) -> str:
    """Join several lines, with a semicolon where a line ends without punctuation."""
    *lines, last = [line.strip() for line in text.split("\n") if line.strip()] or [""]
    return " ".join([*(one if one.endswith(_MARKS) else f"{one};" for one in lines), last])
