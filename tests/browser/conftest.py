"""A browser, a server to visit, and pages that fail the test when something goes wrong in them."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.sync_api import expect

from rota.config.loading import load_fleet
from rota.testing.browser import PATIENCE_MS, Chromium, Page, Visit, chromium
from tests.browser.site import Site, served_site
from tests.conftest import require
from tools.showroom import furnish

Visits = Callable[..., Visit]
expect.set_options(timeout=PATIENCE_MS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test with a page runs in the page's own thread; see `rota.testing.browser`."""
    browser = pyfuncitem.funcargs.get("browser")
    if browser is None or inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    browser.run(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    """One browser for all tests of this process."""
    require("chromium")
    with chromium() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The dashboard on an empty ledger, without tokens."""
    with served_site(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def showroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A few hours of a fleet's work, with something to see on every page. Only for reading."""
    home = tmp_path_factory.mktemp("showroom")
    anyio.run(lambda: furnish(home, days=0.15))
    with served_site(home / ".rota", load_fleet(home / "rota.yaml").fleet) as running:
        yield running


@pytest.fixture
def visits(browser: Chromium) -> Iterator[Visits]:
    """`visits(url, color_scheme="dark", …)`: a new context with a page, checked at the end."""
    with ExitStack() as after_the_test:

        def start(url: str, **options: Any) -> Visit:
            return after_the_test.enter_context(browser.visiting(url, **options))

        yield start


@pytest.fixture
def visit(site: Site, visits: Visits) -> Visit:
    return visits(site.url)


@pytest.fixture
def page(visit: Visit) -> Page:
    """Desktop size, light colours."""
    return visit.page
