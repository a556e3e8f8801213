"""Checks a built site: links, anchors and images exist, and nothing is loaded from elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_WEB = frozenset({"http", "https", "mailto"})
_LOADING = frozenset({"img", "link", "script", "iframe", "source", "video", "audio"})


@dataclass
class _Read(HTMLParser):
    """What one page defines and what it refers to."""

    names: set[str] = field(default_factory=set)
    refers: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            elif name in {"href", "src"}:
                self.refers.append((tag, value or ""))


@cache
def _read(page: Path) -> _Read:
    reader = _Read()
    reader.feed(page.read_text())
    return reader


def broken_links(site: Path) -> list[str]:
    _read.cache_clear()
    return [
        f"{page.relative_to(site)}: {complaint}"
        for page in sorted(site.rglob("*.html"))
        for complaint in _complaints(site.resolve(), page.resolve())
    ]


def _complaints(site: Path, page: Path) -> Iterator[str]:
    for tag, link in _read(page).refers:
        if urlsplit(link).scheme in _WEB or link.startswith("//"):
            if tag in _LOADING:
                yield f"it loads {link} from elsewhere"
        elif wrong := _wrong_with(site, page, link):
            yield f"{link} {wrong}"


def _wrong_with(site: Path, page: Path, link: str) -> str | None:
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(site) or not target.is_file():
        return "is no file of the site"
    if parts.fragment and unquote(parts.fragment) not in _read(target).names:
        return "has no such heading"
    return None
