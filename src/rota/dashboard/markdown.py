"""Text by people and agents as HTML: Markdown that runs nothing and loads nothing."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

LONGEST_RENDERED = 20_000  # characters; the worst case of this length takes a quarter of a second
LONGEST_ADDRESS = 2_000
_KEPT = 64  # texts; an open page is rendered again whenever its item moves
_WEB = frozenset({"http", "https"})
_BARE = re.compile(r"""\bhttps?://[^\s<>"'`]+""")
_BEHIND = ".,;:!?)]}*_~"  # ends the sentence, not the address
_ATTRIBUTES = 'rel="noopener noreferrer nofollow"'
_OPEN = "open links"
# The page has its own h1 and h2.
_LEVELS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}


def web_address(text: object) -> str | None:
    """The text, if it is an address that a person may be sent to; None for other text.

    A user name before the host (`https://github.com@evil.example`) is refused: it is there to
    deceive.
    """
    if not isinstance(text, str) or not text.isprintable() or set(text) & set(' "<>\\`'):
        return None
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        return None
    plain = parts.scheme in _WEB and bool(host) and "@" not in parts.netloc
    return text if plain and len(text) <= LONGEST_ADDRESS else None


def rendered(text: str) -> Markup | None:
    """None: the text is too long, and is shown as it was written."""
    return _rendered(text) if len(text) <= LONGEST_RENDERED else None


@lru_cache(_KEPT)
def _rendered(text: str) -> Markup:
    # Safe as Markup: the renderer below escapes all input.
    return Markup(_READER.render(text))  # noqa: S704


def _is_link(address: str) -> bool:
    return web_address(address) is not None or _is_mail(address)


def _is_mail(address: str) -> bool:
    return address.lower().startswith("mailto:") and address.isascii() and address.isprintable()


def _anchor(address: str, text: str) -> str:
    return f'<a href="{escapeHtml(address)}" {_ATTRIBUTES}>{escapeHtml(text)}</a>'


def _with_links(text: str) -> Iterator[str]:
    """Turns bare addresses into links."""
    end = 0
    for found in _BARE.finditer(text):
        address = found[0].rstrip(_BEHIND)
        if web_address(address) is None:
            continue
        yield escapeHtml(text[end : found.start()]) + _anchor(address, address)
        end = found.start() + len(address)
    yield escapeHtml(text[end:])


class _Renderer(RendererHTML):
    """Each method renders the tokens of its name, in order. `env` counts a text's open links."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        content = tokens[idx].content
        if "://" not in content or env.get(_OPEN):
            return escapeHtml(content)
        return "".join(_with_links(content))

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A link to it: loading the image would tell its host who reads this, and when."""
        token = tokens[idx]
        shown = f"image: {token.content or 'without a description'}"
        if env.get(_OPEN):
            return escapeHtml(shown)
        return _anchor(str(token.attrs["src"]), shown)

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        env[_OPEN] = env.get(_OPEN, 0) + 1
        return f'<a href="{escapeHtml(str(tokens[idx].attrs["href"]))}" {_ATTRIBUTES}>'

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        env[_OPEN] -= 1
        return "</a>"

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<{_LEVELS[tokens[idx].tag]}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"</{_LEVELS[tokens[idx].tag]}>\n"

    # Alignment would be a style attribute, which the page's policy forbids.
    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<th>"

    def td_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<td>"


class _Reader(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - its name there
        """Text that is not a valid link stays as written."""
        return _is_link(url)


_READER = _Reader(
    "commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer
).enable(["table", "strikethrough"])  # fmt: skip
