"""Titles: one line each, whatever the source allows."""

import unicodedata

LONGEST = 500
_BREAKING = frozenset({"Cc", "Zl", "Zp", "Cs"})  # control, line breaks, surrogates


def one_line(text: str) -> str:
    """Titles go into lists, prompts and terminals, where control characters can do harm."""
    plain = "".join(
        " " if unicodedata.category(character) in _BREAKING else character
        for character in text[: 4 * LONGEST]
    )
    line = " ".join(plain.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
