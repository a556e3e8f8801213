"""The pages themselves: links, anchors, examples, and words that do not belong there."""

import ast
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import apsw
import pytest

from rota.storage.sqlite_errors import translate
from tests.docs.pages import DOCS, ROOT, anchors, blocks, every_page, links, name_of

PAGES = pytest.mark.parametrize("page", every_page(), ids=name_of)
DECISIONS = DOCS / "decisions"
# Marks of a page that is not finished.
UNFINISHED = ("todo", "fixme", "lorem", "tbd")


def target_of(page: Path, link: str) -> tuple[Path, str]:
    parts = urlsplit(link)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path, parts.fragment


def leads_somewhere(path: Path, anchor: str) -> bool:
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(path)


@PAGES
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    within = [link for link in links(page) if not urlsplit(link).scheme]
    broken = [link for link in within if not leads_somewhere(*target_of(page, link))]
    assert broken == []


@PAGES
def test_no_page_is_left_unfinished(page: Path) -> None:
    words = set(re.findall(r"[a-z]+", page.read_text().lower()))
    assert words.isdisjoint(UNFINISHED)


@PAGES
def test_examples_in_python_and_json_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)
        elif block.language == "json" and "…" not in block.text:
            json.loads(block.text)


@PAGES
def test_fenced_blocks_say_what_they_hold(page: Path) -> None:
    known = {"console", "sh", "text", "python", "json", "sql", ""}
    assert {block.language for block in blocks(page)} <= known


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, ahead = set[Path](), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        found = {target_of(page, link)[0] for link in links(page) if not urlsplit(link).scheme}
        ahead += [one for one in found if one.suffix == ".md" and one not in reached]
    assert set(every_page()) - reached == set()


def test_every_decision_is_listed_under_its_title() -> None:
    listed = (DECISIONS / "README.md").read_text()
    pages = sorted(DECISIONS.glob("[0-9]*.md"))
    assert [page.name[:4] for page in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for page in pages:
        number, title = re.fullmatch(r"# (\d{4}): (.+)", page.read_text().splitlines()[0]).groups()  # type: ignore[union-attr]
        assert page.name.startswith(number)
        assert f"| [{number}]({page.name}) | {title} |" in listed


def test_every_figure_has_a_place_that_is_closed() -> None:
    for page in every_page():
        text = page.read_text()
        assert len(re.findall(r"<!-- figures:[a-z0-9-]+ -->", text)) == text.count(
            "<!-- /figures -->"
        )


def test_every_file_that_is_named_as_evidence_exists() -> None:
    for page in every_page():
        for path in re.findall(r"`((?:tests|tools|bench|src)/[\w/.-]+\.\w+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{name_of(page)} names {path}"


def test_the_words_of_a_busy_database_are_those_that_are_explained() -> None:
    said = str(translate(apsw.BusyError(), Path("rota.db"))).partition(": ")[2]
    assert f"`{said}`" in (DOCS / "howto/troubleshooting.md").read_text()


def test_the_picture_of_the_board_is_a_picture() -> None:
    assert (DOCS / "images/board.png").read_bytes().startswith(b"\x89PNG")
