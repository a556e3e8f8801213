"""The pages of the documentation: their blocks, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.M | re.S)
_FILE = re.compile(r"<!-- file: (\S+) -->\n\Z")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.M)
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")


@dataclass(frozen=True)
class Block:
    """One fenced block; `file` is the name from a comment before it."""

    language: str
    text: str
    file: str | None


def every_page() -> list[Path]:
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*own, *sorted(DOCS.rglob("*.md")), *sorted(EXAMPLES.rglob("README.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        named = _FILE.search(text[: found.start()])
        yield Block(found["info"].strip(), found["text"], named[1] if named else None)


def prose(page: Path) -> str:
    """The page without its fenced blocks, in which nothing is a link or a heading."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    plain = re.sub(r"`[^`\n]*`", "", prose(page))
    return _LINK.findall(plain)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        name = _anchor(heading)
        number, unique = 0, name
        while unique in found:
            number += 1
            unique = f"{name}-{number}"
        found.add(unique)
    return found


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    kept = re.sub(r"[^\w\- ]", "", plain.strip().lower())
    return kept.replace(" ", "-")
