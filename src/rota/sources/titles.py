"""Titles: one line each, whatever the place they come from lets people write."""

import unicodedata

LONGEST = 500
_BREAKING = frozenset({"Cc", "Zl", "Zp", "Cs"})  # controls, separators of lines, half characters


def one_line(text: str) -> str:
    """A title goes into lists, prompts and terminals, where a control character is a weapon."""
    plain = "".join(
        " " if unicodedata.category(character) in _BREAKING else character
        for character in text[: 4 * LONGEST]
    )
    line = " ".join(plain.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
