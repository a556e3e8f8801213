"""Links in texts that people wrote, and what they cost."""

from typing import Any

from markdown_it.token import Token

from rota.dashboard import markdown


class OnePass(list[Token]):
    """Tokens that are looked at one by one: who takes all before one of them takes the square."""

    def __getitem__(self, at: Any) -> Any:
        assert isinstance(at, int)
        return super().__getitem__(at)


def test_whether_a_link_is_open_is_not_counted_anew_for_each_piece() -> None:
    text = "[a https://x.org](https://y.org) https://z.org " * 50
    inline = markdown._READER.parse(text)[1]
    renderer, env = markdown._READER.renderer, dict[str, Any]()
    html = renderer.renderInline(OnePass(inline.children or []), markdown._READER.options, env)
    assert html.count("<a ") == html.count("</a>") == 100
    assert 'href="https://x.org"' not in html


def test_a_link_that_is_closed_is_closed_for_the_next_text() -> None:
    for _ in range(2):
        html = str(
            markdown.rendered("[a](https://y.org)\n\n*b* https://z.org ![i](https://p.org/p)")
        )
        assert html.count("<a ") == 3
