"""Which items a board shows."""

import shlex
from dataclasses import asdict, dataclass
from typing import Any

# As people type them: `agent:smith label:urgent gate`.
_WORDS = {
    "project": "project_id",
    "agent": "agent",
    "type": "type",
    "label": "label",
}


@dataclass(frozen=True, slots=True)
class Filters:
    project_id: str | None = None
    agent: str | None = None
    type: str | None = None
    label: str | None = None
    q: str | None = None
    project: str | None = None  # as typed, where that is not its id

    @classmethod
    def of(cls, text: str) -> "Filters":
        """Words that are not `name:value` are searched for."""
        named: dict[str, str] = {}
        searched = []
        for word in _words(text):
            name, colon, value = word.partition(":")
            if colon and value and name in _WORDS:
                named[_WORDS[name]] = value
            else:
                searched.append(word)
        return cls(**named, q=" ".join(searched) or None)

    def query(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value and name != "project"}

    def options(self) -> list[str]:
        """The same as options of `rota list`."""
        named = [(f"--{word}", getattr(self, field)) for word, field in _WORDS.items()]
        return [word for pair in (*named, ("--search", self.q)) if pair[1] for word in pair]

    def __str__(self) -> str:
        given = self.query() | ({"project_id": self.project} if self.project else {})
        named = [
            f"{word}:{shlex.quote(given[field])}"
            for word, field in _WORDS.items()
            if field in given
        ]
        return " ".join([*named, *filter(None, [self.q])])


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an apostrophe does not begin a quotation
        return text.split()
