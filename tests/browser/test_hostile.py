"""Words of strangers stay words, in a real browser, on every page that shows them."""

import json

import pytest
from playwright.sync_api import expect

from rota.model.runs import RunEnd, RunStatus
from rota.model.schedules import TriggerKind
from rota.testing.browser import Page, Visit
from tests.browser.site import Site
from tests.integration.markup import HOSTILE

pytestmark = pytest.mark.needs("chromium")

WORDS = (
    *HOSTILE,
    "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert(1)>",
    "<a href=javascript:alert(1)>click</a>",
    "<form action=https://evil.example><button>Go</button></form>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<style>body{display:none}</style>",
    "<img src=https://evil.example/pixel.gif>",
    "<video src=https://evil.example/v autoplay>",
    "<!-- comment --> <![CDATA[ x ]]>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</li></ul><h1>Not yours</h1>",
    "<template><img src=x onerror=alert(1)></template>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "${alert(1)} `${alert(1)}` #{alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    '{"__proto__": {"polluted": true}}',
    "__proto__ constructor toString hasOwnProperty",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\"'`<>&;\\/",
    "| table | <b>x</b> |",
    "```\n<script>alert(1)</script>\n```",
)
HREFS = "(all) => all.map((one) => one.getAttribute('href'))"
FORBIDDEN = ", ".join(
    f"main {tag}"
    for tag in (
        "iframe",
        "object",
        "base",
        "style",
        "script",
        "meta",
        "video",
        "form[action^=http]",
    )
)


def opened(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#feed")).to_contain_text("Live")


def test_forty_hostile_texts_are_shown_as_text_on_every_page(
    site: Site, page: Page, visit: Visit
) -> None:
    assert len(WORDS) >= 40
    page.on("dialog", lambda dialog: visit.faults.append(f"a dialog: {dialog.message}"))
    ledger = site.served.ledger
    site.client.set_agent("ann", max_concurrent=len(WORDS) + 1)
    titles = {}
    for number, words in enumerate(WORDS):
        item = site.add(words, body=words, labels=[f"l{number}"], payload={words[:50]: words})
        site.client.work_dispatch(item, "ann")
        site.client.work_update(item, status="blocked", notes=words)
        titles[item] = words
    everything = "\n\n".join(WORDS)
    held = site.taken("All of it", agent="bob", body=everything, payload=list(WORDS))
    item = site.served.run(lambda: ledger.views.item(held))
    run = site.served.run(
        lambda: ledger.runs.begin("bob", TriggerKind.SCHEDULE, item=item, title=WORDS[0])
    )
    log = ledger.runs.log(run.id)
    log.parent.mkdir(exist_ok=True, parents=True)
    entry = {"ts": "2026-01-01T23:30:00.000000Z", "stream": "stdout"}
    log.write_text("".join(json.dumps(entry | {"text": words}) + "\n" for words in WORDS))
    end = RunEnd(RunStatus.FAILED, everything, tuple(WORDS[:20]), error=everything)
    site.served.run(lambda: ledger.runs.end(run, end))

    opened(page, "/")
    page.locator(".column.blocked .more").scroll_into_view_if_needed()
    expect(page.locator(".column.blocked .card")).to_have_count(len(WORDS))
    shown = page.eval_on_selector_all(
        ".column.blocked .card",
        "(all) => all.map((one) => [one.dataset.id, one.querySelector('.name')])"
        ".map(([id, name]) => [id, [name.childElementCount, name.textContent]])",
    )
    assert dict(shown) == {item: [0, words] for item, words in titles.items()}
    for address in (f"/items/{held}", f"/items/{next(iter(titles))}", "/ui/runs",
                    f"/ui/runs/{run.id}", "/ui/agents", "/ui/overview", "/ui/signals",
                    "/?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E"):  # fmt: skip
        opened(page, address)
        assert page.locator("main h1").count() == 1, address
        assert page.locator(FORBIDDEN).count() == 0, address
        assert page.evaluate("() => ({}).polluted") is None
        for href in page.eval_on_selector_all("main a[href]", HREFS):
            assert href.startswith(("/", "#", "?", "http://", "https://", "mailto:")), href
            assert not href.startswith("//"), href
    opened(page, f"/ui/runs/{run.id}")
    expect(page.locator("#log")).to_contain_text("<script>alert(1)</script>")
    # Live, too: what comes by the feed is put in by script.
    opened(page, "/")
    last = site.add(WORDS[1], priority=1)
    expect(page.locator(f"#i-{last} .name")).to_have_text(WORDS[1])
