"""Builds the documentation as static pages, into .cache/site, and checks all their links.

    python -m tools.site

The site has the layout of the sources (`docs/howto/signals.md` becomes `docs/howto/signals.html`; a
README is the index of its directory), so links keep their form, and it can be read from a disk,
without a server. Nothing in it is loaded from elsewhere.
"""

import json
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from tools.site_links import broken_links

ROOT = Path(__file__).parents[1]
SITE = ROOT / ".cache" / "site"
TEMPLATES = Path(__file__).with_name("site_files")
INDEX = PurePosixPath("docs/index.md")
ASSETS = ("site.css", "search.js")
_SOURCES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md", "examples/**/README.md")


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Page:
    """`source` is its path in the project; `files` are what it shows or links to, besides pages."""

    source: PurePosixPath
    html: Markup
    headings: tuple[Heading, ...]
    files: frozenset[PurePosixPath]

    @property
    def address(self) -> PurePosixPath:
        return address_of(self.source)

    @property
    def title(self) -> str:
        return self.headings[0].text

    def sections(self) -> list[Heading]:
        return [one for one in self.headings if one.level == 2]

    def way_to(self, address: PurePosixPath | str) -> str:
        return posixpath.relpath(str(address), str(self.address.parent))


@dataclass(frozen=True, slots=True)
class Section:
    """One heading of the index, and the pages below it."""

    title: str
    pages: tuple[Page, ...]


def address_of(source: PurePosixPath) -> PurePosixPath:
    is_index = source.name == "README.md"
    return source.with_name("index.html") if is_index else source.with_suffix(".html")


def target_of(source: PurePosixPath, link: str) -> PurePosixPath | None:
    """The file of the project that a link leads to; None for other places, and within the page."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path:
        return None
    return PurePosixPath(posixpath.normpath(source.parent / unquote(parts.path)))


# one page


class _Renderer(RendererHTML):
    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        anchor = tokens[idx].meta["anchor"]
        link = f'<a class="anchor" href="#{anchor}" aria-label="link to this heading">#</a>'
        return f" {link}</{tokens[idx].tag}>\n"


# Raw HTML is passed on: the pages are ours, and some fold a script away.
_READER = MarkdownIt("commonmark", renderer_cls=_Renderer).enable(["table", "strikethrough"])


def read_page(root: Path, source: PurePosixPath) -> Page:
    tokens = _READER.parse((root / source).read_text())
    headings = tuple(_name_headings(tokens))
    files = frozenset(_turn_links(source, tokens))
    html = _READER.renderer.render(tokens, _READER.options, {})
    return Page(source, Markup(html), headings, files)  # noqa: S704 - of our own pages


def _name_headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    """Headings get the anchors that GitHub gives them, so that links work there as well."""
    taken: set[str] = set()
    for opening, inline, closing in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            anchor = _free_name(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"), taken)
            opening.attrSet("id", anchor)
            closing.meta["anchor"] = anchor
            yield Heading(int(opening.tag[1]), text, anchor)


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    taken.add(name)
    return name


def _turn_links(source: PurePosixPath, tokens: Sequence[Token]) -> Iterator[PurePosixPath]:
    """Links to pages become links to their addresses. Yields all other files that are named."""
    for token, attribute in _linking(tokens):
        link = str(token.attrs[attribute])
        target = target_of(source, link)
        if target is None:
            continue
        if target.suffix == ".md":
            anchor = f"#{urlsplit(link).fragment}" if urlsplit(link).fragment else ""
            way = posixpath.relpath(address_of(target), address_of(source).parent)
            token.attrSet(attribute, way + anchor)
        else:
            yield target


def _linking(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open":
                yield child, "href"
            elif child.type == "image":
                yield child, "src"


# all pages


def read_pages(root: Path) -> dict[PurePosixPath, Page]:
    found = [path for pattern in _SOURCES for path in sorted(root.glob(pattern))]
    sources = [PurePosixPath(path.relative_to(root).as_posix()) for path in found]
    return {source: read_page(root, source) for source in sources}


def sections_of(root: Path, pages: dict[PurePosixPath, Page]) -> list[Section]:
    """The navigation: the headings of the index, and the pages that are listed below each."""
    lists: dict[str, list[Page]] = {}
    title, depth = "", 0
    for token in _READER.parse((root / INDEX).read_text()):
        depth += token.nesting if token.type.startswith("bullet_list") else 0
        if token.type == "inline" and not depth:
            title = token.content
        for child, attribute in _linking([token]) if depth else ():
            target = target_of(INDEX, str(child.attrs[attribute]))
            if target in pages:
                lists.setdefault(title, []).append(pages[target])
    return [Section(title, tuple(listed)) for title, listed in lists.items()]


def build(root: Path, site: Path) -> list[Page]:
    pages = read_pages(root)
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    template, sections = templates.get_template("page.html"), sections_of(root, pages)
    for page in pages.values():
        text = template.render(page=page, sections=sections, index=pages[INDEX])
        _write(site / page.address, text)
    _copy({file for page in pages.values() for file in page.files}, root, site)
    for name in ASSETS:
        shutil.copy(TEMPLATES / name, site / name)
    _write(site / "search-index.js", f"const INDEX = {json.dumps(list(_found(pages)))};\n")
    return list(pages.values())


def _found(pages: dict[PurePosixPath, Page]) -> Iterator[tuple[str, str, str]]:
    """What can be searched for: headings, each with its page and its address."""
    for page in pages.values():
        for heading in page.headings:
            anchor = f"#{heading.anchor}" if heading is not page.headings[0] else ""
            yield heading.text, page.title, f"{page.address}{anchor}"


def _copy(files: set[PurePosixPath], root: Path, site: Path) -> None:
    """A file that does not exist, or lies outside, is left to the check of the links."""
    for file in files:
        if (root / file).is_file() and ".." not in file.parts:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / file, site / file)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main() -> int:
    shutil.rmtree(SITE, ignore_errors=True)
    pages = build(ROOT, SITE)
    broken = broken_links(SITE)
    for line in broken:
        print(line, file=sys.stderr)
    print(f"{len(pages)} pages: {os.path.relpath(SITE / 'index.html')}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
