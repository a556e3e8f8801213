"""A marked block in another author's text file."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rota.model.errors import InvalidInput, Refused
from rota.setup.parts import Facts

VERSION = 1


@dataclass(frozen=True, slots=True)
class Block:
    """Lines between two marks, at the end of the file. The first mark counts the line breaks that
    were added before it, so that they too can be removed."""

    path: Path
    words: str
    opening: str = "<!-- "
    closing: str = " -->"

    def put(self, text: str | None, facts: Facts | None) -> tuple[str, Facts]:
        if text is None:
            return self._written(0, "\n"), {"created": True}
        found = self._found(text)
        if found is not None:
            block = self._written(int(found["lead"] or 0), _line_end(found))
            kept = facts or {"created": False}
            return f"{text[: found.start('block')]}{block}{text[found.end() :]}", kept
        line = "\r\n" if "\r\n" in text else "\n"
        lead = 0 if not text else 2 if not text.endswith("\n") else 1
        return f"{text}{line * lead}{self._written(lead, line)}", {"created": False}

    def take(self, text: str, facts: Facts | None) -> str | None:
        found = self._found(text)
        if found is None:
            return text
        before, after = text[: found.start("block")], text[found.end() :]
        line = _line_end(found)
        for _ in range(int(found["lead"] or 0)):
            before = before.removesuffix(line)
        if after and before and not before.endswith("\n"):
            before += line  # keeps the text after the block on a line of its own
        rest = before + after
        return None if not rest and (facts or {}).get("created", True) else rest

    def _written(self, lead: int, line: str) -> str:
        first = f"{self.opening}rota:begin v{VERSION} lead={lead}{self.closing}"
        last = f"{self.opening}rota:end{self.closing}"
        return line.join([first, *self.words.strip("\n").split("\n"), last, ""])

    def _found(self, text: str) -> re.Match[str] | None:
        opening, closing = re.escape(self.opening), re.escape(self.closing)
        begin = rf"^(?P<block>{opening}rota:begin v[0-9]+(?: lead=(?P<lead>[0-9]))?{closing}\r?$)"
        whole = re.compile(rf"{begin}.*?^{opening}rota:end{closing}\r?(?:\n|\Z)", re.M | re.S)
        found = list(whole.finditer(text))
        marks = len(re.findall(rf"^{opening}rota:(?:begin .*|end){closing}\r?$", text, re.M))
        if marks != 2 * len(found) or len(found) > 1:
            raise InvalidInput(
                f"{self.path} has marks of ours (rota:begin, rota:end) that do not make one block;"
                " take them out by hand, and try again"
            )
        return found[0] if found else None


def _line_end(found: re.Match[str]) -> str:
    """The line ending that the block was written with."""
    return "\r\n" if found["block"].endswith("\r") else "\n"


@dataclass(frozen=True, slots=True)
class TomlBlock(Block):
    """In a TOML file, which must be valid before and after."""

    opening: str = "# "
    closing: str = ""

    def put(self, text: str | None, facts: Facts | None) -> tuple[str, Facts]:
        if text is not None:
            self._check(text, "it cannot be read as TOML")
        # Plain `super()` fails: `slots` creates the class anew.
        written, known = Block.put(self, text, facts)
        self._check(written, "it already has a server called rota; rename or remove that first")
        return written, known

    def _check(self, text: str, what: str) -> None:
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Refused(f"{self.path}: {what} ({error}); nothing was changed") from None
