"""Files that are ours alone, until somebody edits them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rota.model.errors import Refused
from rota.setup.parts import Facts


@dataclass(frozen=True, slots=True)
class OwnFile:
    path: Path
    words: str

    def put(self, text: str | None, facts: Facts | None) -> tuple[str, Facts]:
        if text is not None and text != self.words:
            if facts is None:
                raise Refused(
                    f"{self.path} exists and is not ours; move it away, and try again (nothing was"
                    " changed)"
                )
            if _hash(text) != facts.get("sha256"):
                return text, facts  # edited by hand
        return self.words, {"sha256": _hash(self.words)}

    def take(self, text: str, facts: Facts | None) -> str | None:
        if text == self.words or (facts and _hash(text) == facts.get("sha256")):
            return None
        return text


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
