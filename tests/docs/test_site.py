"""The site that `make docs` builds: complete, linked, and able to be read without a network."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, every_page, name_of
from tools import site
from tools.site_links import broken_links


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, site.Page]]:
    place = tmp_path_factory.mktemp("site")
    return place, {str(page.source): page for page in site.build(ROOT, place)}


def test_every_link_anchor_and_image_of_the_site_exists(
    built: tuple[Path, dict[str, site.Page]],
) -> None:
    assert broken_links(built[0]) == []


def test_every_page_is_there_with_the_anchors_that_github_gives_it(
    built: tuple[Path, dict[str, site.Page]],
) -> None:
    place, pages = built
    assert set(pages) == {name_of(page) for page in every_page()}
    for page in every_page():
        made = pages[name_of(page)]
        assert {one.anchor for one in made.headings} == anchors(page)
        assert f"<title>{made.title}".replace("'", "&#39;") in (place / made.address).read_text()


def test_the_navigation_is_the_index(built: tuple[Path, dict[str, site.Page]]) -> None:
    sections = site.sections_of(ROOT, {page.source: page for page in built[1].values()})
    assert [one.title for one in sections] == [
        line.removeprefix("## ")
        for line in (DOCS / "index.md").read_text().splitlines()
        if line.startswith("## ")
    ]
    listed = {str(page.source) for one in sections for page in one.pages}
    assert {"docs/tutorial.md", "docs/reference/sources.md", "CONTRIBUTING.md"} <= listed


def test_tables_code_and_search_are_made(built: tuple[Path, dict[str, site.Page]]) -> None:
    place, _ = built
    text = (place / "docs/howto/signals.html").read_text()
    assert '<code class="language-console">' in text
    assert "<table>" in text
    assert 'href="../reference/http.html#signals"' in text
    assert (
        '["Signals", "The HTTP API", "docs/reference/http.html#signals"]'
        in (place / "search-index.js").read_text()
    )


# That the check can fail: each of these must be noticed.


@pytest.fixture
def small(tmp_path: Path) -> Callable[[str], list[str]]:
    """Builds a site of an index and a page of its own."""

    def check(text: str) -> list[str]:
        root = tmp_path / "project"
        (root / "docs").mkdir(parents=True)
        (root / "docs/index.md").write_text(f"# Index\n\n## Learn\n\n- [Page](page.md)\n\n{text}\n")
        (root / "README.md").write_text("# Project\n")
        (root / "docs/page.md").write_text("# Page\n\n## A heading\n")
        (root / "outside").write_text("a file")
        site.build(root, tmp_path / "site")
        return broken_links(tmp_path / "site")

    return check


def test_a_site_without_faults_passes(small: Callable[[str], list[str]]) -> None:
    assert small("[a](page.md#a-heading) [b](../outside) [c](#learn) <https://example.org>") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](gone.md)", "gone.html is no file of the site"),
        ("[a](page.md#gone)", "page.html#gone has no such heading"),
        ("[a](#gone)", "#gone has no such heading"),
        ("![a](gone.png)", "gone.png is no file of the site"),
        ("[a](../../../elsewhere)", "../../../elsewhere is no file of the site"),
        ("![a](https://example.org/a.png)", "it loads https://example.org/a.png from elsewhere"),
        (
            "<script src='//example.org/a.js'></script>",
            "it loads //example.org/a.js from elsewhere",
        ),
    ],
)
def test_a_fault_is_noticed(small: Callable[[str], list[str]], text: str, said: str) -> None:
    assert small(text) == [f"docs/index.html: {said}"]
