"""The agents of a fleet and of its nested fleets, each merged from its layers."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rota.config.agents import AgentConfig, AgentSettings
from rota.config.files import Files
from rota.config.fleet_file import AgentReference, FleetFile, FleetReference
from rota.config.herdctl import small, translated_agent, translated_fleet
from rota.config.interpolation import FromEnvironment
from rota.config.merging import deep_merge
from rota.config.mistakes import Findings
from rota.config.programs import warn_of_missing_program
from rota.config.resolving import agent_spec
from rota.config.runtimes import warn_of_unused
from rota.config.shown import shown
from rota.config.slots import warn_of_idle_slots
from rota.config.sources import Section
from rota.config.tree import Place, PlacedList, PlacedMap
from rota.config.work_sources import (
    InstalledTypes,
    check_sources,
    warn_of_uncounted_attempts,
    with_repositories,
)
from rota.model.fleet import AgentSpec
from rota.model.work import NAME

_KEYS_AND_VALUES = "write keys and values: `key: value`"
_A_LIST = {
    "agents": "it is a list; write each agent on a line of its own that begins `- name: …`",
    "fleets": "it is a list; write each fleet on a line of its own that begins `- path: …`",
}

S = TypeVar("S", bound=Section)

# Keys that decide which program is run, and where it is found.
_OF_A_PROGRAM = frozenset({"runtime", "env", "working_directory", "workspace"})

ONLY_IN_THE_FIRST_FILE = ("sources", "budgets", "signals", "notify", "web")


@dataclass(frozen=True, slots=True)
class Member:
    spec: AgentSpec
    shown: dict[str, Any]
    place: Place


@dataclass(frozen=True, slots=True)
class Stand:
    """The position among nested fleets."""

    names: tuple[str, ...] = ()
    chain: tuple[Path, ...] = ()
    defaults: PlacedMap | None = None

    def called(self, name: str) -> str:
        return ".".join((*self.names, name))


class Crew:
    def __init__(
        self,
        files: Files,
        findings: Findings,
        types: InstalledTypes | None = None,
        programs: Mapping[str, str] | None = None,
    ) -> None:
        """`programs` is the environment in which agents will find their programs; None if they run
        elsewhere."""
        self._files, self._findings, self._types = files, findings, types
        self._programs = programs
        self.members: list[Member] = []
        self._seen: dict[str, Place] = {}

    def enlist(self, fleet: PlacedMap, stand: Stand | None = None) -> None:
        """All agents of this fleet, then those of its nested fleets."""
        stand = stand or Stand(chain=(self._files.top.file.resolve(),))
        stand = Stand(stand.names, stand.chain, self._defaults(fleet, stand.defaults))
        for entry, place in self._entries(fleet, "agents"):
            self._agent(entry, place, stand)
        names: dict[str, Place] = {}
        for entry, place in self._entries(fleet, "fleets"):
            self._fleet(entry, place, stand, names)

    def _entries(self, fleet: PlacedMap, name: str) -> list[tuple[PlacedMap, Place]]:
        entries = fleet.get(name)
        if entries is None:
            return []
        if not isinstance(entries, PlacedList):
            self._findings.mistake(fleet.places[name], _A_LIST[name])
            return []
        for entry, place in entries.placed():
            if not isinstance(entry, PlacedMap):
                self._findings.mistake(place, _KEYS_AND_VALUES)
        return [one for one in entries.placed() if isinstance(one[0], PlacedMap)]

    def _defaults(self, fleet: PlacedMap, above: PlacedMap | None) -> PlacedMap | None:
        own = fleet.get("defaults")
        if own is None:
            return above
        if not isinstance(own, PlacedMap):
            self._findings.mistake(fleet.places["defaults"], _KEYS_AND_VALUES)
            return above
        try:
            AgentSettings.model_validate(_without_nothing(own))
        except ValidationError as error:
            self._findings.refused(error, AgentSettings, own, but=_is_for_an_agent_to_say)
        merged: PlacedMap = deep_merge(above, own)
        return merged

    # agents

    def _agent(self, entry: PlacedMap, place: Place, stand: Stand) -> None:
        own, overrides = entry, None
        if "path" in entry:
            reference = self._checked(AgentReference, entry)
            found = self._files.named(entry) if reference else None
            if found is None:
                return
            own, overrides = found[1], self._overrides(entry)
        own = translated_agent(own, self._findings)
        merged = deep_merge(deep_merge(stand.defaults, own), overrides).copied()
        merged.place = own.place
        layers = _without_nothing(merged)
        self._enrol(layers, place, stand)

    def _overrides(self, entry: PlacedMap) -> PlacedMap | None:
        given = entry.get("overrides")
        return translated_agent(given, self._findings) if isinstance(given, PlacedMap) else None

    def _enrol(self, layers: PlacedMap, place: Place, stand: Stand) -> None:
        layers = with_repositories(layers)
        check_sources(layers, self._findings, self._types)
        self._warn_of_open_hooks(layers)
        self._warn_of_deaf_chats(layers)
        config, wrong = self._sound(layers)
        name = stand.called(str(layers.get("name")))
        is_free = "name" not in layers or self._is_free(
            name, layers.places["name"], place, config is None or bool(wrong)
        )
        if config is None:
            return
        directory = self._directory(layers, wrong)
        spec = agent_spec(config, name, directory)
        if is_free and not wrong:
            data = {"name": name} | config.model_dump(mode="json")
            data |= {"name": name, "working_directory": str(directory)}
            self.members.append(Member(spec, shown(data, {**layers, "name": name}), place))
        self._warn(spec, layers, wrong)

    def _sound(self, layers: PlacedMap) -> tuple[AgentConfig | None, frozenset[str]]:
        """The agent, as far as it can be read, and the keys that are left out because of mistakes:
        the rest may still cause warnings."""
        try:
            return AgentConfig.model_validate(layers), frozenset()
        except ValidationError as error:
            self._findings.refused(error, AgentConfig, layers)
            wrong = frozenset(str(one["loc"][0]) for one in error.errors() if one["loc"])
        rest = layers.copied()
        for name in wrong:
            rest.take(name)
        rest.setdefault("name", "nameless")
        try:
            return AgentConfig.model_validate(rest), wrong
        except ValidationError:
            return None, wrong

    def _warn(self, spec: AgentSpec, layers: PlacedMap, wrong: frozenset[str]) -> None:
        """Gives no warning that might depend on a key that could not be read."""
        if self._programs is not None and not wrong & _OF_A_PROGRAM:
            warn_of_missing_program(spec, layers, self._programs, self._findings)
        if "runtime" not in wrong:
            warn_of_unused(spec.run.runtime, layers, self._findings)
        if not wrong & {"instances", "schedules"}:
            warn_of_idle_slots(spec, layers, self._findings)
        if not wrong & {"work_source", "schedules"}:
            warn_of_uncounted_attempts(layers, self._findings)

    def _checked(self, model: type[S], tree: PlacedMap) -> S | None:
        try:
            return model.model_validate(tree)
        except ValidationError as error:
            self._findings.refused(error, model, tree)
            return None

    def _is_free(self, name: str, place: Place, entry: Place, is_wrong: bool) -> bool:
        """`is_wrong`: the agent has other mistakes, and its name may be one of them."""
        if not NAME.fullmatch(name):
            if not is_wrong:
                self._findings.mistake(place, f"'{name}' is longer than a name may be; at most 64")
            return False
        first = self._seen.get(name)
        if first is not None:
            # The name of an alias, or of a file that is named twice, is at the place of the first
            # one.
            self._findings.mistake(
                entry if first is place else place,
                f"there is an agent '{name}' already, in {first.file}:{first.line}",
            )
            return False
        self._seen[name] = place
        return True

    def _directory(self, layers: PlacedMap, wrong: frozenset[str]) -> Path:
        """Relative to the file that sets it; without a setting, the directory of the agent's
        file."""
        place = layers.places.get("working_directory", layers.place)
        said = "" if "working_directory" in wrong else layers.get("working_directory", "")
        directory = Path(os.path.normpath((place.file.parent / Path(said).expanduser()).absolute()))
        if not directory.is_dir():
            told = said.written if isinstance(said, FromEnvironment) else directory
            self._findings.warning(
                place, f"there is no directory {told}; runs of this agent will fail without it"
            )
        return directory

    def _warn_of_open_hooks(self, layers: PlacedMap) -> None:
        schedules = layers.get("schedules")
        if "webhook_secret_env" in layers or not isinstance(schedules, PlacedMap):
            return
        for name, one in schedules.items():
            if not isinstance(one, PlacedMap) or one.get("type") != "webhook":
                continue
            if one.get("secret_env") is None:
                self._findings.warning(
                    schedules.places[name],
                    "its webhook is refused to everybody, for there is no secret to sign with; name"
                    " the variable that holds one as secret_env",
                )

    def _warn_of_deaf_chats(self, layers: PlacedMap) -> None:
        schedules = layers.get("schedules")
        if layers.get("work_source") is None or not isinstance(schedules, PlacedMap):
            return
        for name, one in schedules.items():
            if not isinstance(one, PlacedMap) or one.get("type") != "chat":
                continue
            if one.get("work_source") is None:
                self._findings.warning(
                    schedules.places[name],
                    "its agent has a work_source, so a message that comes when there is no work"
                    " wakes nobody; write work_source at the schedules that take work instead",
                )

    # nested fleets

    def _fleet(self, entry: PlacedMap, place: Place, stand: Stand, names: dict[str, Place]) -> None:
        if "name" in entry:
            entry = entry.copied()
            entry["name"] = small(entry["name"], entry.places["name"], self._findings)
        reference = self._checked(FleetReference, entry)
        if reference is None or self._is_cycle(reference, entry, stand):
            return
        found = self._files.named(entry)
        if found is None:
            return
        path, tree = found
        fleet = self._overridden(translated_fleet(tree, self._findings), entry)
        self._check_head(fleet)
        name = _fleet_name(reference, fleet, path)
        if self._is_free_fleet(name, place, names):
            chain = (*stand.chain, path.resolve())
            self.enlist(fleet, Stand((*stand.names, name), chain, stand.defaults))

    def _is_cycle(self, reference: FleetReference, entry: PlacedMap, stand: Stand) -> bool:
        place = entry.places["path"]
        path = place.file.parent / Path(reference.path).expanduser()
        if path.resolve() not in stand.chain:
            return False
        start = stand.chain.index(path.resolve())
        circle = " → ".join(str(one) for one in (*stand.chain[start:], path.resolve()))
        self._findings.mistake(place, f"a fleet cannot be within itself: {circle}")
        return True

    def _overridden(self, fleet: PlacedMap, entry: PlacedMap) -> PlacedMap:
        overrides = entry.get("overrides")
        if not isinstance(overrides, PlacedMap):
            return fleet
        merged: PlacedMap = deep_merge(fleet, translated_fleet(overrides, self._findings))
        merged.place = fleet.place
        return merged

    def _check_head(self, fleet: PlacedMap) -> None:
        head = fleet.copied()
        for name in ("agents", "fleets", "defaults"):
            head.take(name)
        for name in ONLY_IN_THE_FIRST_FILE:
            if name in head:
                _, place = head.take(name)
                self._findings.warning(
                    place, "not acted on: only what the first file says of it counts"
                )
        try:
            FleetFile.model_validate(head)
        except ValidationError as error:
            self._findings.refused(error, FleetFile, head)

    def _is_free_fleet(self, name: str, place: Place, names: dict[str, Place]) -> bool:
        if not NAME.fullmatch(name) or "." in name:
            self._findings.mistake(
                place,
                f"'{name[:80]}' cannot be the name of a fleet; give it one with name:, of small"
                " letters, digits, _ and -",
            )
            return False
        first = names.setdefault(name, place)
        if first is not place:
            self._findings.mistake(
                place, f"{first.key} is called '{name}' too; give each its own 'name'"
            )
        return first is place


def _without_nothing(layers: PlacedMap) -> PlacedMap:
    """`key:` without a value removes what a lower layer has set."""
    kept = layers.copied()
    for name in [name for name, value in layers.items() if value is None]:
        kept.take(name)
    return kept


def _is_for_an_agent_to_say(error: ErrorDetails, value: Any) -> bool:
    """Defaults may be incomplete: each agent may add its command to a runtime, for example."""
    whole = error["type"] == "value_error" and isinstance(value, dict)
    return whole or error["type"] == "missing"


def _fleet_name(reference: FleetReference, fleet: PlacedMap, path: Path) -> str:
    if reference.name is not None:
        return reference.name
    identity = fleet.get("fleet")
    own = identity.get("name") if isinstance(identity, PlacedMap) else None
    called = own if isinstance(own, str) else path.resolve().parent.name
    return re.sub(r"[^a-z0-9_-]+", "-", called.lower()).strip("-_")
