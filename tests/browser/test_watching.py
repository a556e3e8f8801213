"""That a page under test is watched: what must not happen in it fails the test."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Route

from rota.testing.browser import Chromium, PageFaults

pytestmark = pytest.mark.needs("chromium")

URL, ELSEWHERE = "http://127.0.0.1:8765", "http://elsewhere.example/"
POLICY = {"content-security-policy": "default-src 'self'"}
FAULTS = {
    "console: broken": "<script src='/broken.js'></script>",
    "console: careful": "<script src='/careful.js'></script>",
    "error: .*thrown": "<script src='/thrown.js'></script>",
    "CSP violation: script-src": "<script>1</script>",
    "CSP violation: style-src": "<p style='color:red'>x</p>",
    "CSP violation: img-src": "<img src='http://elsewhere.example/x.png' alt=''>",
    f"foreign host: {ELSEWHERE}": "<script src='/far.js'></script>",
    "CSP violation: connect-src": "<script src='/socket.js'></script>",
}
SCRIPTS = {
    "/broken.js": "console.error('broken')",
    "/careful.js": "console.warn('careful')",
    "/thrown.js": "setTimeout(() => { throw new Error('thrown') })",
    "/far.js": f"location.href = '{ELSEWHERE}'",
    "/socket.js": "new WebSocket('ws://127.0.0.1:8766/')",
}


def answering(content: str) -> Callable[[Route], None]:
    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(URL)
        if path in SCRIPTS:
            route.fulfill(body=SCRIPTS[path], content_type="text/javascript")
        else:
            body = content if path == "/" else ""
            headers = {**POLICY, "content-type": "text/html"}
            route.fulfill(body=f"<!doctype html>{body}", headers=headers)

    return answer


def look(browser: Chromium, content: str, tolerated: str = "^$") -> None:
    with browser.visiting(URL) as visit:
        visit.tolerate(tolerated)
        visit.context.route("**/*", answering(content))
        visit.page.goto("/", wait_until="commit")
        if "far.js" in content:  # it leaves, and takes whatever is asked of it along
            visit.page.wait_for_url(ELSEWHERE)
            return
        visit.page.wait_for_load_state()
        visit.page.evaluate("new Promise((done) => setTimeout(done, 20))")


def test_what_must_not_happen_is_found(browser: Chromium) -> None:
    for fault, content in FAULTS.items():
        with pytest.raises(PageFaults, match=fault):
            look(browser, content)
    look(browser, "<h1>Quiet</h1><script src='/broken.js'></script>", tolerated="broken")
