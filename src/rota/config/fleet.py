"""The sources in `rota.yaml`. `rota.config.loading` reads the whole file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from rota import surroundings
from rota.config.document import read
from rota.config.interpolation import interpolated
from rota.config.mistakes import MOST_MISTAKES, Findings
from rota.config.sources import AnySource, Forge, GiteaSource, GitHubSource, Section
from rota.config.tree import Place, PlacedList, PlacedMap, tree_of
from rota.model.errors import InvalidInput

__all__ = ["MOST_MISTAKES", "FleetConfig", "load", "source_config", "source_name"]

_SOURCE: TypeAdapter[AnySource] = TypeAdapter(AnySource)


class FleetConfig(Section):
    version: Literal[1] = 1
    sources: tuple[AnySource, ...] = Field((), strict=False)


def load(path: Path, environ: Mapping[str, str] | None = None) -> FleetConfig:
    """The sources in this file; none if there is no file. Agents are not read, so that commands
    about sources do not need what agents need."""
    if not path.exists():
        return FleetConfig()
    findings = Findings()
    tree = _head(
        tree_of(read(path)), path, surroundings.environ if environ is None else environ, findings
    )
    config = sources_of(tree, findings)
    findings.demand_none()
    return config


def _head(tree: Any, path: Path, environ: Mapping[str, str], findings: Findings) -> Any:
    if tree is None:
        return PlacedMap(Place(path))
    if not isinstance(tree, PlacedMap):
        findings.mistake(Place(path), "write keys and values: `key: value`")
        return PlacedMap(Place(path))
    head = tree.copied()
    for name in (*FLEET_KEYS, *FOREIGN_KEYS):
        head.take(name)
    return interpolated(head, environ, findings.missing_variable)


# The other keys of the file, ours and herdctl's. Tests compare them with the models, which are slow
# to import.
FLEET_KEYS = ("fleet", "defaults", "agents", "fleets", "budgets", "signals", "notify", "web")
FOREIGN_KEYS = ("chat", "docker", "webhooks", "working_directory", "workspace")


def sources_of(tree: PlacedMap, findings: Findings) -> FleetConfig:
    try:
        config = FleetConfig.model_validate(tree)
    except ValidationError as error:
        findings.refused(error, FleetConfig, tree, also_known=FLEET_KEYS)
        return FleetConfig()
    if isinstance(given := tree.get("sources"), PlacedList):
        _demand_distinct_sources(config, given, findings)
    return config


def source_config(config: Mapping[str, Any]) -> AnySource:
    """The configuration of one source, given as a mapping (an agent's `work_source`)."""
    given = dict(config)
    try:
        return _SOURCE.validate_python(given)
    except ValidationError as error:
        findings = Findings()
        findings.refused(error, AnySource, _as_tree(given))
        told = [text.partition(": ")[2] for text in findings.mistakes]
        raise InvalidInput("\n".join(told[:MOST_MISTAKES]), field="work_source") from None


def _as_tree(value: Any, place: Place = Place(Path(), loc=("work_source",))) -> Any:  # noqa: B008
    if isinstance(value, dict):
        branch = PlacedMap(place)
        for name, one in value.items():
            branch.put(name, _as_tree(one, place.below(name)), place.below(name))
        return branch
    if isinstance(value, list | tuple):
        items = PlacedList(place)
        for number, one in enumerate(value):
            items.add(_as_tree(one, place.below(number)), place.below(number))
        return items
    return value


def source_name(source: AnySource) -> str:
    """The name for people and for the ledger."""
    if source.name:
        return source.name
    return f"{source.type}:{source.repo}" if isinstance(source, Forge) else source.type


def _demand_distinct_sources(config: FleetConfig, given: PlacedList, findings: Findings) -> None:
    seen: dict[str, int] = {}
    places: dict[tuple[str, ...], int] = {}
    for number, source in enumerate(config.sources):
        name = source_name(source)
        if (first := places.setdefault(_place(source, number), number)) != number:
            why = f"sources[{first}] is this repository, too; keep one"
            findings.mistake(given.places[number], why)
        elif (first := seen.setdefault(name, number)) != number:
            why = f"'{name}' is what sources[{first}] is called; give each its own 'name'"
            findings.mistake(given.places[number], why)


def _place(source: AnySource, number: int) -> tuple[str, ...]:
    """Trackers compare names without regard to case."""
    if not isinstance(source, GitHubSource | GiteaSource):
        return (str(number),)
    return source.type, source.api_url.rstrip("/").lower(), source.repo.lower()
