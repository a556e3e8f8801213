"""`rota.yaml` and all files it names, as one fleet. A load either succeeds or reports all mistakes
at once: there is no half of a fleet."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rota import surroundings
from rota.config.crew import Crew
from rota.config.files import Files
from rota.config.fleet import FleetConfig, sources_of
from rota.config.fleet_file import FleetFile, Web
from rota.config.herdctl import translated_fleet
from rota.config.mistakes import Findings, Remark
from rota.config.notify import NotifyConfig, check_channels
from rota.config.resolving import budget, plain
from rota.config.shown import shown
from rota.config.signals import SignalConfig
from rota.config.sources import AnySource
from rota.config.tree import PlacedList, PlacedMap
from rota.config.work_sources import InstalledTypes, check_source
from rota.model.fleet import Fleet

# Read separately: sources with the rest of the file, agents one by one.
_APART = ("sources", "agents", "fleets", "defaults")
_WORTH_A_FILE = ("agents", "fleets", "sources", "signals", "notify")
_SHOWN = {"version", "fleet", "budgets", "signals", "notify", "web"}


@dataclass(frozen=True, slots=True)
class DeclaredSignal:
    name: str
    config: SignalConfig
    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Loaded:
    fleet: Fleet = field(default_factory=Fleet)
    sources: tuple[AnySource, ...] = ()
    web: Web = field(default_factory=Web)
    signals: tuple[DeclaredSignal, ...] = ()
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    warnings: tuple[str, ...] = ()
    remarks: tuple[dict[str, Any], ...] = ()  # the warnings, as structured data
    idle: tuple[dict[str, Any], ...] = ()  # what does nothing, though it may be meant so
    files: tuple[Path, ...] = ()  # all files that were read
    digest: str = ""  # changes when the configuration changes
    shown: Mapping[str, Any] = field(default_factory=dict)  # for people; contains no secret


def load_fleet(
    path: Path,
    environ: Mapping[str, str] | None = None,
    *,
    types: InstalledTypes | None = None,
    runs_here: bool = False,
) -> Loaded:
    """The contents of this file and of those it names; without a file, a fleet without agents.

    A source whose type is not in `types` is a mistake; without `types` it is not checked here.
    `runs_here`: warn of agents' programs that this machine does not have.
    """
    if not path.exists():
        return Loaded(digest=_digest(Fleet(), ()))
    findings = Findings()
    environ = surroundings.environ if environ is None else environ
    files = Files(environ, findings)
    tree = files.read(path)
    if tree is None:  # a file that cannot be read has no further findings
        findings.demand_none(files.names)
    whole = translated_fleet(tree or PlacedMap(files.top), findings)
    crew = Crew(files, findings, types, environ if runs_here else None)
    loaded = _loaded(whole, files, findings, crew, types)
    findings.demand_none(files.names)
    return loaded


def _loaded(
    tree: PlacedMap, files: Files, findings: Findings, crew: Crew, types: InstalledTypes | None
) -> Loaded:
    head = _head(tree, findings)
    crew.enlist(tree)
    config = sources_of(_only(tree, "version", "sources"), findings)
    if isinstance(listed := tree.get("sources"), PlacedList):
        for source in listed:
            check_source(source, findings, types)
    fleet = Fleet(
        name=head.fleet.name,
        agents=tuple(one.spec for one in crew.members),
        budget=budget(head.budgets),
    )
    warnings = findings.told_warnings(files.names)
    return Loaded(
        fleet=fleet,
        sources=config.sources,
        web=head.web,
        signals=_signals(head, tree),
        notify=head.notify,
        warnings=tuple(one.text for one in warnings),
        remarks=tuple(one.told() for one in warnings),
        idle=tuple(one.told() for one in _idle(tree, crew)),
        files=tuple(files.names),
        digest=_digest(fleet, config.sources, head),
        shown=_shown(head, config, crew, tree),
    )


def _idle(tree: PlacedMap, crew: Crew) -> Iterator[Remark]:
    """No warnings for every start: workers run agents without schedules, and an empty file is the
    way to have none."""
    if not any(tree.get(name) for name in _WORTH_A_FILE):
        yield Remark(tree.place, "it names no agent, no source, no signal and no channel")
    for one in crew.members:
        if not one.spec.schedules:
            name = one.spec.name
            why = f"nothing wakes agent '{name}': it has no schedule; only `rota worker --agent"
            yield Remark(one.place, f"{why} {name}` runs it")


def _signals(head: FleetFile, tree: PlacedMap) -> tuple[DeclaredSignal, ...]:
    written = tree.get("signals")
    places = written.places if isinstance(written, PlacedMap) else {}
    found = [(name, one, places.get(name, tree.place)) for name, one in head.signals.items()]
    return tuple(
        DeclaredSignal(name, config, str(place.file), place.line, place.column)
        for name, config, place in found
    )


def _head(tree: PlacedMap, findings: Findings) -> FleetFile:
    """The part that concerns the fleet as a whole."""
    head = tree.copied()
    for name in _APART:
        head.take(name)
    check_channels(head, findings)
    try:
        return FleetFile.model_validate(head)
    except ValidationError as error:
        findings.refused(error, FleetFile, head)
        return FleetFile()


def _only(tree: PlacedMap, *names: str) -> PlacedMap:
    kept = tree.copied()
    for name in [name for name in tree if name not in names]:
        kept.take(name)
    return kept


def _digest(
    fleet: Fleet,
    sources: tuple[AnySource, ...],
    head: FleetFile | None = None,
) -> str:
    rest = head or FleetFile()
    content = {
        "agents": [plain(asdict(one)) for one in fleet.agents],
        "budget": plain(asdict(fleet.budget)),
        "name": fleet.name,
        "sources": [one.model_dump(mode="json") for one in sources],
        "signals": {name: one.model_dump(mode="json") for name, one in rest.signals.items()},
        "notify": rest.notify.model_dump(mode="json"),
        "public_url": rest.web.public_url,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _shown(head: FleetFile, config: FleetConfig, crew: Crew, tree: PlacedMap) -> dict[str, Any]:
    whole = head.model_dump(mode="json", include=_SHOWN)
    sources = [one.model_dump(mode="json") for one in config.sources]
    return {
        **shown(whole, tree),
        "sources": shown(sources, tree.get("sources")),
        "agents": [one.shown for one in crew.members],
    }
