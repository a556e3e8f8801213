"""That the checks for accessibility find what they are for: one planted fault for each."""

import pytest

from rota.testing.accessibility import barriers
from rota.testing.browser import PHONE, Chromium, Page
from tests.browser.conftest import Visits

pytestmark = pytest.mark.needs("chromium", "axe")

GOOD = """<!doctype html><html lang="en"><head><title>Good</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body { color: #222; background: #fff; font-size: 16px }</style></head><body>
<header><nav aria-label="Main"><a href="/">Board</a></nav></header>
<main><h1>Items</h1><h2>Open</h2>%s<p>Some text</p></main></body></html>"""

FAULTS = {
    "button-name": "<button></button>",
    "link-name": "<a href='/x'></a>",
    "label": "<input type='text'>",
    "select-name": "<select><option>1</option></select>",
    "image-alt": "<img src='data:,'>",
    "unique-id": "<p id='a'>1</p><p id='a'>2</p>",
    "reference": "<p aria-describedby='nothing'>x</p>",
    "table-headers": "<table><tr><td>1</td></tr></table>",
    "heading-order": "<h4>Too deep</h4>",
    "aria-valid-attr-value": "<button aria-expanded='maybe'>x</button>",
    "aria-roles": "<div role='knob'>x</div>",
    "nested-interactive": "<button>x <a href='/'>y</a></button>",
    "color-contrast": "<p style='color: #999'>faint</p>",
    "empty-table-header": "<table><tr><th></th></tr><tr><td>1</td></tr></table>",
    "target-size": "<button style='width:9px;height:9px;padding:0' aria-label='x'></button>" * 2,
    "scrollable-region-focusable": "<div style='height:20px;overflow:auto'><p>a</p><p>b</p></div>",
    "region": "</main><p>outside</p><main hidden>",
    "one-h1": "<h1>Another</h1>",
    "sideways": "<div style='width:2000px'>wide</div>",
    "focus-visible": "<style>button:focus { outline: none }</style><button>where am I</button>",
}
PAGE_FAULTS = {
    "html-has-lang": GOOD.replace(' lang="en"', "") % "",
    "document-title": GOOD.replace("<title>Good</title>", "") % "",
    "landmark-one-main": GOOD.replace("main>", "div>") % "",
    "meta-viewport": GOOD.replace("initial-scale=1", "user-scalable=no") % "",
}


def found(page: Page, content: str) -> set[str]:
    page.set_content(content)
    return {one.partition(":")[0] for one in barriers(page)}


@pytest.fixture
def page(visits: Visits) -> Page:
    return visits("http://127.0.0.1:8765").page


def test_each_planted_fault_is_found_and_a_good_page_has_none(
    page: Page, browser: Chromium
) -> None:
    assert found(page, GOOD % "") == set()
    planted = {name: GOOD % content for name, content in FAULTS.items()} | PAGE_FAULTS
    missed = [name for name, content in planted.items() if name not in found(page, content)]
    assert missed == []


def test_contrast_is_judged_in_both_schemes(visits: Visits, browser: Chromium) -> None:
    content = GOOD % (
        "<style>p { color: #777 } @media (prefers-color-scheme: dark)"
        "{ p { color: #aaa } body { background: #111; color: #eee } a { color: #9cf } }</style>"
    )
    assert found(visits("http://127.0.0.1:8765").page, content) == {"color-contrast"}
    dark = visits("http://127.0.0.1:8765", color_scheme="dark").page
    assert found(dark, content) == set()
    narrow = visits("http://127.0.0.1:8765", viewport=PHONE).page
    assert found(narrow, GOOD % "<pre style='width:400px'>x</pre>") == {"sideways"}
