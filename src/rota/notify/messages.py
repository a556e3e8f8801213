"""Messages: one notice, or several together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rota.prompts import visible

LONGEST_TITLE = 300
LONGEST_WHY = 1_000


@dataclass(frozen=True, slots=True)
class Notice:
    """`facts` holds everything, for programs; the rest is for people, one line each."""

    happening: str
    title: str  # begins with the happening, never with a stranger's text
    why: str
    url: str | None
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Notice":
        return cls(
            str(facts["happening"]),
            one_line(facts["title"], LONGEST_TITLE),
            one_line(facts.get("why") or "", LONGEST_WHY),
            facts.get("url"),
            facts,
        )


@dataclass(frozen=True, slots=True)
class Message:
    """Its id is the same at every attempt, so that receivers can recognise a repetition."""

    id: str
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, message_id: str, told: Sequence[Mapping[str, Any]]) -> "Message":
        return cls(message_id, tuple(Notice.of(one) for one in told))

    @property
    def single(self) -> Notice | None:
        return self.notices[0] if len(self.notices) == 1 else None

    @property
    def happening(self) -> str:
        return self.single.happening if self.single else "digest"

    @property
    def title(self) -> str:
        if self.single:
            return self.single.title
        counts = Counter(one.happening for one in self.notices)
        words = ", ".join(f"{number} {name}" for name, number in counts.most_common())
        return f"{len(self.notices)} notices: {words}"

    @property
    def url(self) -> str | None:
        return self.single.url if self.single else None

    def text(self, longest: int) -> str:
        """Plain text; for a digest, as many lines as fit, and the number of the others."""
        if self.single:
            lines = [self.single.title, self.single.why, self.single.url or ""]
            return "\n".join(line for line in lines if line)[:longest]
        return "\n".join(
            (self.title, *fitting([_line(one) for one in self.notices], longest - 100))
        )

    def facts(self) -> dict[str, Any]:
        """For programs."""
        told = [dict(one.facts) for one in self.notices]
        return {"id": self.id, "type": "notification", "title": self.title, "notices": told}


def _line(notice: Notice) -> str:
    return f"{notice.title} {notice.url}" if notice.url else notice.title


def fitting(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as fit, and a line that counts the others."""
    kept = how_many_fit(lines, room)
    left = len(lines) - kept
    return [*lines[:kept], f"and {left} more"] if left else list(lines)


def how_many_fit(lines: Sequence[str], room: int) -> int:
    used = accumulate(len(line) + 1 for line in lines)
    return sum(1 for so_far in used if so_far <= room)


def one_line(text: str, longest: int) -> str:
    """Without invisible characters and line breaks, and cut to `longest`."""
    line = " ".join(visible(text[: longest * 8]).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
