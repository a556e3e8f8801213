"""A page as a browser would read it: its elements with their attributes, and its text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

# Texts that would be more than text if they were not escaped.
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "[x](javascript:alert(1)) ![x](data:image/svg+xml,<svg/onload=alert(1)>) <javascript:alert(1)>",
    "[x](JaVa&#115;cript:alert(1)) [y](//evil.example/x) [z](vbscript:x)",
    "{{ 7 * 7 }} {% raw %}",
    "</textarea></pre></dialog><h1>",
    "\u202egnp.exe\u2066\u200f\ufeff \x07\x1b]8;;https://evil.example\x07x",
    "https://github.com@evil.example/ http://[ https://a\\b.example",
    "&lt;b&gt; &amp;amp; \u2028 \U000e0041",
)
VOID = frozenset({"meta", "link", "img", "input", "br", "hr", "source", "wbr"})


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str]
    text: str = ""  # includes that of all elements inside
    inside: list["Element"] = field(default_factory=list)

    def all(self, tag: str) -> list["Element"]:
        return [one for one in self.inside if one.tag == tag]

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]


class Markup(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, [one.tag for one in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(made)
        for outer in self._open:
            outer.inside.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag, tag

    def handle_data(self, data: str) -> None:
        for outer in self._open:
            outer.text += data

    def all(self, tag: str) -> list[Element]:
        return [one for one in self.elements if one.tag == tag]

    def by_id(self, name: str) -> Element:
        (found,) = [one for one in self.elements if one.attributes.get("id") == name]
        return found

    def has(self, name: str) -> bool:
        return any(one.attributes.get("id") == name for one in self.elements)

    @property
    def text(self) -> str:
        return self.all("html")[0].text


def demand_harmless(page: Markup, served: str) -> None:
    """Nothing in it runs, loads from elsewhere, or leads to an unsafe address."""
    for one in page.elements:
        assert one.tag not in {"iframe", "object", "embed", "style", "base", "svg"}, one.tag
        for name, value in one.attributes.items():
            assert not name.startswith("on"), (one.tag, name)
            assert name != "style", one.tag
            if name in {"src", "action", "formaction", "poster", "srcset"}:
                assert value.startswith("/"), (one.tag, value)
            if name == "href":
                assert value.startswith(("/", "#", "https://", "http://", "mailto:")), value
                assert not value.startswith("//"), value
        if one.tag == "script":
            assert one["src"].startswith("/static/"), one.attributes
            assert not one.text, served
        if one.tag == "a" and not one["href"].startswith(("/", "#")):
            assert one["rel"] == "noopener noreferrer nofollow", one.attributes
    ids = [one["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids)), sorted(one for one in ids if ids.count(one) > 1)
