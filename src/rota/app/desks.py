"""Opening the desk of a repository, and finding how the repository is configured."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from rota.app.ledgers import open_ledger
from rota.config import Settings
from rota.model.errors import InvalidInput
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.claims.timing import Pace
    from rota.config.fleet import FleetConfig
    from rota.config.sources import Forge
    from rota.queue.ledger import Ledger
    from rota.sources.claimants import Claimants
    from rota.sources.desk import IssueDesk
    from rota.sources.lookup import AnyForge
    from rota.sources.operators import Operators
    from rota.sources.registry import SourceContext
    from rota.sources.stale_claims import StaleClaims
    from rota.sources.tending import Tending


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
    from rota.sources.lookup import find_repository

    return find_repository(repo, repositories(settings), environ, host)


def repositories(settings: Settings) -> "list[AnyForge]":
    """Those that the configuration names, in `sources` or for an agent, each once."""
    from rota.config.sources import Forge

    known = [one for one in fleet_config(settings).sources if isinstance(one, Forge)]
    for _, one in _of_agents(settings):  # several agents may share one
        if not any(_is_same(one, other) for other in known):
            known.append(one)
    return known


def _is_same(one: "AnyForge", other: "AnyForge") -> bool:
    """The same repository at the same place; how it is worked is another matter."""
    facts = ("type", "repo", "api_url")
    return all(getattr(one, name) == getattr(other, name) for name in facts)


def _of_agents(settings: Settings) -> "list[tuple[str, AnyForge]]":
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
    from rota.sources.lookup import agents_at
    from rota.sources.rights import explained

    context = source_context(settings, ledger)
    tracker = make_tracker(source, context)
    try:
        async with explained(tracker):
            agents = agents_at(tracker.source, _of_agents(settings))
            yield await open_desk(source, context, tracker=tracker, pace=pace, agents=agents)
    finally:
        await tracker.aclose()


def source_context(settings: Settings, ledger: "Ledger | None" = None) -> "SourceContext":
    """What adapters get beside their configuration."""
    from rota.claims.pauses import FILE_NAME
    from rota.model.clock import SystemClock
    from rota.sources.registry import SourceContext

    return SourceContext(
        ledger=ledger,
        clock=ledger.clock if ledger else SystemClock(),
        directory=settings.config.absolute().parent,
        paused_repos=settings.state_dir / FILE_NAME,
    )


def make_tendings(settings: Settings, ledger: "Ledger") -> "list[Tending]":
    """One for each repository that the configuration names."""
    from rota.app import tendings

    context = source_context(settings, ledger)
    listed, agents = fleet_config(settings).sources, _of_agents(settings)
    return list(tendings.make_tendings(listed, agents, context, ledger).values())
