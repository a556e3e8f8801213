"""The sources of a configuration: those under `sources`, and those that only agents name."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from rota.config import Settings
from rota.config.fleet import source_config, source_name
from rota.config.loading import Loaded, load_fleet
from rota.config.sources import AnySource, Forge, MarkdownSource
from rota.model.errors import InvalidInput
from rota.model.fleet import Fleet
from rota.sources.lookup import AnyForge
from rota.sources.registry import get_registered_types


def read_fleet(settings: Settings) -> Loaded:
    """The configuration as a server needs it. If it wakes agents, the types of their sources must
    be registered, and missing programs give a warning."""
    types = get_registered_types if settings.agents else None
    return load_fleet(settings.config, types=types, runs_here=settings.agents)


def named_sources(loaded: Loaded, directory: Path) -> dict[str, AnySource]:
    """By their names on the command line. A source that several agents name appears once, and not
    at all if `sources` lists it. The queue is left out, because everybody has it."""
    named = {source_name(one): one for one in loaded.sources}
    taken = {
        *named,
        *(f"{one.type}:{one.repo}" for one in loaded.sources if isinstance(one, Forge)),
    }
    seen = [_facts(one, directory) for one in loaded.sources]
    for agent, source in of_agents(loaded.fleet):
        if source.type == "queue" or (facts := _facts(source, directory)) in seen:
            continue
        seen.append(facts)
        name = next(one for one in _names(agent, source) if one not in taken)
        taken.add(name)
        named[name] = source
    return named


def _names(agent: str, source: AnySource) -> Iterator[str]:
    yield source_name(source)
    yield f"{agent}/{source_name(source)}"
    for number in count(2):
        yield f"{agent}/{source_name(source)}-{number}"


def _facts(source: AnySource, directory: Path) -> dict[str, Any]:
    """What distinguishes a source: its place and, for a repository, the credentials. How it is
    worked does not."""
    if isinstance(source, MarkdownSource):
        return {"folder": (directory / Path(source.path).expanduser()).absolute()}
    if isinstance(source, AnyForge):
        return source.model_dump(include={"type", "repo", "api_url", "auth"})
    return source.model_dump(exclude={"name"})


def of_agents(fleet: Fleet) -> Iterator[tuple[str, AnySource]]:
    """Agent and source. A source that cannot be read is left out; the agent's schedules show the
    error."""
    for agent in fleet.agents:
        for given in (agent.work_source, *(plan.work_source for plan in agent.schedules)):
            if given is not None:
                try:
                    yield agent.name, source_config(given)
                except InvalidInput:
                    continue


def work_sources(fleet: Fleet) -> list[tuple[str, AnyForge]]:
    """The repositories that agents and schedules name, each with its agent."""
    return [(agent, one) for agent, one in of_agents(fleet) if isinstance(one, AnyForge)]
