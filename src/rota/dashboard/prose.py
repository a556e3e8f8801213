"""Cuts the ledger's sentences at ids and times, so that a page can link and localise those."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MOMENT = r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
_CUT = re.compile(f"({_ID}|{_MOMENT})")


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    address: str | None = None
    is_moment: bool = False


def pieces(sentence: str, addresses: Mapping[str, str]) -> Iterator[Piece]:
    """`addresses` maps ids to where they lead; other ids stay text."""
    for number, text in enumerate(_CUT.split(sentence)):
        if number % 2:
            yield Piece(text, addresses.get(text), "T" in text)
        elif text:
            yield Piece(text)
