"""Composition root: the only room that knows which databases there are."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rota import __version__
from rota.config import Settings, StateDir
from rota.config.settings import is_postgres
from rota.model.clock import Clock
from rota.model.errors import InvalidInput, Refused, StorageUnavailable

if TYPE_CHECKING:
    import asyncio

    from rota.api import Api
    from rota.app.fleet import FleetAtWork
    from rota.claims.timing import Pace
    from rota.config.fleet import FleetConfig
    from rota.config.loading import Loaded
    from rota.config.sources import Forge
    from rota.model.fleet import Fleet
    from rota.queue import WorkQueue
    from rota.queue.ledger import Ledger
    from rota.signals import Signals
    from rota.sources.claimants import Claimants
    from rota.sources.desk import IssueDesk
    from rota.sources.lookup import AnyForge
    from rota.sources.operators import Operators
    from rota.sources.registry import SourceContext
    from rota.sources.stale_claims import StaleClaims
    from rota.sources.tending import Tending
    from rota.storage.port import Store


def make_store(url: str, clock: Clock | None = None) -> "Store":
    """A store for `postgresql://…`, `sqlite:///path` or a bare path; it is not opened yet."""
    if is_postgres(url):
        from rota.storage.postgres import PostgresStore

        return PostgresStore(url, clock=clock)
    if "://" in url and not url.startswith("sqlite://"):
        raise InvalidInput(
            f"the database {url.partition('://')[0]}:// is not known; use sqlite:///path, a path,"
            " or postgresql://…"
        )
    from rota.storage.sqlite import SqliteStore

    return SqliteStore(sqlite_path(url), clock=clock)


def sqlite_path(url: str) -> Path:
    """`sqlite:///x` is the relative path x, `sqlite:////x` the absolute one, as elsewhere."""
    path = url.removeprefix("sqlite:///").removeprefix("sqlite://")
    if not path:
        raise InvalidInput("the database path is empty; use sqlite:///path or a path")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(
            f"nothing tells where the home directory in {path} is; set HOME, or write it out"
        ) from None


def make_home(url: str) -> None:
    """A directory that is made for a ledger is private, and git leaves it alone."""
    if "://" in url and not url.startswith("sqlite://"):
        return
    with suppress(StorageUnavailable):  # which the database says in its own words
        StateDir(sqlite_path(url).parent).create()


@asynccontextmanager
async def open_store(url: str, clock: Clock | None = None) -> AsyncIterator["Store"]:
    make_home(url)
    store = make_store(url, clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_ledger(
    url: str,
    clock: Clock | None = None,
    *,
    logs: Path = Path(".rota/runs"),
    deserted: Callable[[], str | None] = lambda: None,
) -> AsyncIterator["Ledger"]:
    """The ledger on its own, without faces: for programs that embed Rota, and for the CLI."""
    from rota.queue.ledger import Ledger

    async with open_store(url, clock) as store:
        yield Ledger.on(store, clock, logs=logs, deserted=deserted)


@asynccontextmanager
async def open_queue(url: str, clock: Clock | None = None) -> AsyncIterator["WorkQueue"]:
    async with open_ledger(url, clock) as ledger:
        yield ledger.queue


def fleet_config(settings: Settings) -> "FleetConfig":
    """What `rota.yaml` says; nothing when there is none."""
    from rota.config.fleet import load

    return load(settings.config)


@asynccontextmanager
async def open_desk(
    repo: str,
    settings: Settings | None = None,
    *,
    host: str | None = None,
    ledger: "Ledger | None" = None,
    pace: "Pace | None" = None,
) -> AsyncIterator["IssueDesk"]:
    """The desk of one repository, configured or not; with the ledger unless one is given."""
    settings = settings or Settings.from_environment()
    source = find_source(repo, settings, host)
    async with AsyncExitStack() as opened:
        if ledger is None:
            ledger = await opened.enter_async_context(open_ledger(settings.database))
        yield await opened.enter_async_context(_desk(source, settings, ledger, pace))


@asynccontextmanager
async def open_window(
    repo: str, settings: Settings, *, host: str | None = None
) -> AsyncIterator["IssueDesk"]:
    """A desk to look from, without the ledger: nothing is left on this machine."""
    async with _desk(find_source(repo, settings, host), settings) as desk:
        yield desk


@asynccontextmanager
async def open_claimants(repo: str) -> AsyncIterator["Claimants"]:
    """For agents that nobody looks after; see `rota.claims`."""
    from rota.sources.claimants import Claimants

    async with open_desk(repo) as desk:
        yield Claimants(desk)


@asynccontextmanager
async def open_stale_claims(repo: str) -> AsyncIterator["StaleClaims"]:
    """For whoever tidies up; see `rota.claims`."""
    from rota.sources.stale_claims import StaleClaims

    async with open_desk(repo) as desk:
        yield StaleClaims(desk)


@asynccontextmanager
async def open_operators(repo: str) -> AsyncIterator["Operators"]:
    """For people; see `rota.claims`."""
    from rota.sources.operators import Operators

    async with open_desk(repo) as desk:
        yield Operators(desk)


def find_source(repo: str, settings: Settings, host: str | None = None) -> "Forge":
    """How a repository is configured; with the usual names when it is not."""
    import os

    from rota.sources.lookup import find_repository

    return find_repository(repo, repositories(settings), os.environ, host)


def repositories(settings: Settings) -> "list[AnyForge]":
    """Those that the configuration names, in `sources` or for an agent, each once."""
    from rota.config.sources import Forge

    known = [one for one in fleet_config(settings).sources if isinstance(one, Forge)]
    for one in _of_agents(settings):  # several agents may share one
        if not any(_is_same(one, other) for other in known):
            known.append(one)
    return known


def _is_same(one: "AnyForge", other: "AnyForge") -> bool:
    """The same repository at the same place; how it is worked is another matter."""
    facts = ("type", "repo", "api_url")
    return all(getattr(one, name) == getattr(other, name) for name in facts)


def _of_agents(settings: Settings) -> "list[AnyForge]":
    """Repositories that only agents name. What they lack to be read is no concern of those who
    look after an issue."""
    from rota.app.sources import work_sources
    from rota.config.loading import load_fleet

    try:
        return work_sources(load_fleet(settings.config).fleet)
    except InvalidInput:
        return []


@asynccontextmanager
async def _desk(
    source: "Forge",
    settings: Settings,
    ledger: "Ledger | None" = None,
    pace: "Pace | None" = None,
) -> AsyncIterator["IssueDesk"]:
    from rota.sources.assembly import make_tracker, open_desk
    from rota.sources.rights import explained

    context = source_context(settings, ledger)
    tracker = make_tracker(source, context)
    try:
        async with explained(tracker):
            yield await open_desk(source, context, tracker=tracker, pace=pace)
    finally:
        await tracker.aclose()


def source_context(settings: Settings, ledger: "Ledger | None" = None) -> "SourceContext":
    """What adapters get beside their configuration."""
    from rota.claims.pauses import FILE_NAME
    from rota.sources.registry import SourceContext

    return SourceContext(
        ledger=ledger,
        directory=settings.config.absolute().parent,
        paused_repos=settings.state_dir / FILE_NAME,
    )


def make_tendings(settings: Settings, ledger: "Ledger") -> "list[Tending]":
    """One for each repository that the configuration names."""
    from rota.app import fleet

    context = source_context(settings, ledger)
    made = fleet.make_tendings(fleet_config(settings).sources, context, ledger)
    for source in _of_agents(settings):
        fleet.add_tending(made, source, context, ledger)
    return list(made.values())


def collect_rarely() -> None:
    """For a process that serves and does little else: what a call makes is freed when its last
    reader lets go, and the look for cycles found none and cost much (decision 0031)."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def up(settings: Settings) -> None:
    """`rota up`: every loop of this machine in one process, until a signal ends it."""
    import asyncio
    import signal

    import uvloop

    from rota.app.sources import read_fleet
    from rota.config.logs import configure_logging
    from rota.tracing import sending

    configure_logging()
    # Whoever wants the file to be read again before it was read at all must not end the server.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loaded = None
    if not settings.faces_only:  # what is wrong with the file is said before anything is touched
        loaded = read_fleet(settings)
        settings = _as_the_file_says(settings, loaded)
    with (
        sending(os.environ),
        StateDir(settings.state_dir).occupied(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(settings, loaded))


def _as_the_file_says(settings: Settings, loaded: "Loaded") -> Settings:
    web = loaded.web
    dashboard = settings.dashboard and web.enabled
    return replace(settings.listening(web.host, web.port), dashboard=dashboard)


async def _serve(settings: Settings, loaded: "Loaded | None") -> None:
    """Without a configuration it is the faces alone: sweeping and agents are another's."""
    import asyncio

    from rota import daemon
    from rota.app.fleet import FleetAtWork
    from rota.model.clock import IdFactory, SystemClock
    from rota.model.fleet import Fleet
    from rota.queue.ledger import Ledger
    from rota.signals import Signals

    node = IdFactory(SystemClock()).new()
    fleet: FleetAtWork | None = None
    async with open_store(settings.database) as store:
        ledger = Ledger.on(
            store,
            node=node,
            logs=settings.run_logs,
            fleet=lambda: fleet.everybody if fleet else Fleet(),
        )
        signals = Signals(store)
        await _demand_safe_address(settings, ledger)
        listener = daemon.bind(settings.host, settings.port)
        settings = replace(settings, port=listener.getsockname()[1])
        stopping = asyncio.Event()
        crew = daemon.Crew(
            [daemon.Pruning(ledger.sweeper), daemon.Writing(ledger.writes)], stopping
        )
        if loaded is not None:
            fleet = FleetAtWork(
                settings, store, ledger, signals, node=node, loaded=loaded, crew=crew
            )
        api = make_asgi(ledger, signals, settings, stopping, fleet)
        collect_rarely()
        face = daemon.Face(api, lambda: _announce(settings, ledger, fleet))
        if fleet is None:
            await daemon.run(face, listener, crew, stopping)
            return
        crew.add(daemon.Sweeping(ledger.sweeper, api.metrics.swept))
        fleet.signals.observe = api.metrics.signal_fired
        async with fleet:
            duties = daemon.Duties(fleet.drain, fleet.reload)
            await daemon.run(face, listener, crew, stopping, duties)


def make_asgi(
    ledger: "Ledger",
    signals: "Signals",
    settings: Settings,
    stopping: "asyncio.Event | None" = None,
    fleet: "FleetAtWork | None" = None,
) -> "Api":
    """The faces of a server as one ASGI app."""
    from rota.api import ApiSettings, create_app
    from rota.api.app import Mount
    from rota.api.fleet_config import config_endpoints
    from rota.api.hooks import hook_endpoints
    from rota.api.signals import signal_endpoints
    from rota.dashboard import dashboard_endpoints
    from rota.dashboard.errors import error_page
    from rota.mcp.http import PATH, McpFace
    from rota.model.access import READ
    from rota.model.fleet import Fleet

    knows = (lambda: fleet.fleet) if fleet else None  # it changes when the file is read again
    api = create_app(
        ledger,
        ApiSettings(
            host=settings.host,
            insecure=settings.insecure,
            allowed_hosts=settings.allowed_hosts,
        ),
        stopping=stopping,
        endpoints=[
            *(dashboard_endpoints(knows, signals=signals) if settings.dashboard else ()),
            *hook_endpoints(fleet.receivers if fleet else ()),
            *config_endpoints(fleet.reload if fleet else None),
            *signal_endpoints(signals),
        ],
        mounts=[Mount(PATH, McpFace(lambda: api, f"the server at {settings.url}"), READ)],
        error_page=error_page if settings.dashboard else None,
        known=(lambda: fleet.everybody) if fleet else Fleet,
    )
    return api


@asynccontextmanager
async def local_asgi(settings: Settings) -> AsyncIterator["Api"]:
    """The API on a database, for a caller in this process: no server, no port, no tokens."""
    from rota.api import ApiSettings, create_app
    from rota.api.signals import signal_endpoints
    from rota.queue.ledger import Ledger
    from rota.signals import Signals

    async with open_store(settings.database) as store:
        known = partial(_fleet_of_the_file, settings)
        ledger = Ledger.on(
            store, logs=settings.run_logs, deserted=partial(deserted, settings), fleet=known
        )
        endpoints = signal_endpoints(Signals(store))
        yield create_app(ledger, ApiSettings(trusted=True), endpoints=endpoints, known=known)


def _fleet_of_the_file(settings: Settings) -> "Fleet":
    """What cannot be read is not known; `rota doctor` says what is wrong with it."""
    from rota.config.loading import load_fleet
    from rota.model.fleet import Fleet

    with suppress(InvalidInput, OSError):
        return load_fleet(settings.config).fleet
    return Fleet()


def deserted(settings: Settings) -> str | None:
    """The place of our servers, while none is there: what one of them left need not be silent for
    long to be told so. No name where none has ever been. Asked each time: a face may be older than
    its server."""
    home = StateDir(settings.state_dir)
    with suppress(OSError):
        if not home.is_held:
            return home.place() if home.has_place else ""
    return None


async def _demand_safe_address(settings: Settings, ledger: "Ledger") -> None:
    others = settings.allowed_hosts if settings.on_loopback else {settings.host}
    if not others or settings.insecure or await ledger.tokens.required():
        return
    raise Refused(
        f"{min(others)} can be reached from other machines, and no token protects this server;"
        " create one first (rota token create NAME --scope admin), or say --insecure if the"
        " network itself keeps strangers out"
    )


def _command() -> str:
    """`rota` as this shell could call it: by name where it is on the path, else by its place."""
    import shutil

    here = Path(sys.argv[0])
    if here.name != "rota" or shutil.which("rota"):
        return "rota"
    return str(here)


_NOT_HERE = "no agents, no schedules, no signals here; another `rota up` does that"


def _announce(settings: Settings, ledger: "Ledger", fleet: "FleetAtWork | None") -> None:
    """The first thing a person sees: where to look, and what to do next."""
    from rota.app.fleet import wish_of
    from rota.model.fleet import Fleet

    StateDir(settings.state_dir).announce(settings.url)
    wish = wish_of(fleet.fleet if fleet else Fleet())
    lines = [
        f"Rota {__version__}",
        *([f"  dashboard  {settings.url}/"] if settings.dashboard else []),
        f"  API        {settings.url}/docs",
        f"  database   {ledger.database}",
        f"  fleet      {fleet.in_words if fleet else _NOT_HERE}",
        f'  next       in another terminal:  {_command()} add {wish} "Say hello"',
        "  stop       Ctrl-C (twice: at once)",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
