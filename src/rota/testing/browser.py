"""Chromium, driven by Playwright: one browser, and pages that report what went wrong in them.

    with chromium() as browser, browser.visiting(server.url) as visit:
        page = visit.page
        page.goto("/")

Leaving `visiting` raises `PageFaults` when a page wrote to its console, threw, broke its content
security policy or sent a request to another host.

Playwright's synchronous API keeps an event loop running in the thread that started it, so no
asynchronous test could run there any more. It therefore has its own thread, and everything that
touches a page runs there: `browser.run(work)`.
"""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    WebSocket,
    sync_playwright,
)

from rota.testing.chromium import find_chromium

T = TypeVar("T")

FLAGS = (
    "--no-sandbox",  # root has no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # it is small in containers
    "--no-first-run",
    # Only the pages under test may use the network.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
# In UTC, which is what the server takes until it is told another zone, a first visit loads once.
USUAL = {"viewport": DESKTOP, "timezone_id": "UTC"}
PATIENCE_MS = 30_000  # for a busy machine; only a failure waits that long
_LOCAL_SCHEMES = ("data", "blob", "about")
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI}`));
"""


class PageFaults(AssertionError):
    """Something happened in a page that must not happen."""


@dataclass  # without slots: Playwright sets attributes on listeners
class Visit:
    """One context of the browser: its cookies, its pages, and their faults."""

    host: str
    context: BrowserContext
    page: Page
    faults: list[str] = field(default_factory=list)
    _tolerated: list[str] = field(default_factory=list)

    def tolerate(self, pattern: str) -> None:
        """Allow an expected fault, such as the console's line about a page with status 404."""
        self._tolerated.append(pattern)

    def check(self) -> None:
        bad = [one for one in self.faults if not any(re.search(p, one) for p in self._tolerated)]
        if bad:
            raise PageFaults("\n".join(bad))

    def watch(self) -> None:
        self.context.on("console", self._said)
        self.context.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        self.context.on("request", self._asked)
        self.page.on("websocket", self._connected)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        self._went(request.url)

    def _connected(self, socket: WebSocket) -> None:
        self._went(socket.url)

    def _went(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.netloc != self.host and parts.scheme not in _LOCAL_SCHEMES:
            self.faults.append(f"foreign host: {url}")


class Chromium:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "chromium")
        self._id = self._thread.submit(threading.get_ident).result()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread of the pages."""
        if threading.get_ident() == self._id:
            return work()
        return self._thread.submit(work).result()

    @property
    def version(self) -> str:
        return self.run(lambda: self._started.version)

    @property
    def _started(self) -> Browser:
        if self._browser is None:
            self._playwright = sync_playwright().start()
            self._browser = self._playwright.chromium.launch(
                executable_path=find_chromium(), args=list(FLAGS)
            )
        return self._browser

    @contextmanager
    def visiting(self, url: str, **options: Any) -> Iterator[Visit]:
        """A new context, with options of Playwright's `new_context`."""
        visit = self.run(lambda: self._visit(url, {**USUAL, **options}))
        try:
            yield visit
        finally:
            self.run(visit.context.close)  # a page's last messages arrive here
        visit.check()

    def _visit(self, url: str, options: dict[str, Any]) -> Visit:
        context = self._started.new_context(base_url=url, **options)
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_TELL_VIOLATIONS)
        visit = Visit(urlsplit(url).netloc, context, context.new_page())
        visit.watch()
        return visit

    def close(self) -> None:
        self.run(self._end)
        self._thread.shutdown()

    def _end(self) -> None:
        if self._browser is not None and self._playwright is not None:
            self._browser.close()
            self._playwright.stop()


@contextmanager
def chromium() -> Iterator[Chromium]:
    """The browser starts with the first page."""
    browser = Chromium()
    try:
        yield browser
    finally:
        browser.close()
