"""The work sources of an agent and its schedules: completed, and checked by their types."""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rota.config.interpolation import FromEnvironment, hidden
from rota.config.mistakes import Findings, suggestion
from rota.config.sources import OURS, AnySource
from rota.config.tree import Place, PlacedMap, find

# The types with an adapter. Called only for a type that is not ours, because it is slow.
InstalledTypes = Callable[[], Collection[str]]

_SOURCE: TypeAdapter[AnySource] = TypeAdapter(AnySource)


def with_repositories(agent: PlacedMap) -> PlacedMap:
    """A source without a repository gets the agent's; a schedule's source gets that of the agent's
    source."""
    agent = agent.copied()
    own = _completed(agent, _said(agent, "repo"))
    if isinstance(schedules := agent.get("schedules"), PlacedMap):
        agent["schedules"] = schedules = schedules.copied()
        usual = _said(own, "repo") if own is not None else None
        for name, schedule in schedules.items():
            if isinstance(schedule, PlacedMap):
                schedules[name] = schedule.copied()
                _completed(schedules[name], usual or _said(agent, "repo"))
    return agent


def _said(section: PlacedMap, name: str) -> tuple[Any, Place] | None:
    return (section[name], section.places[name]) if name in section else None


def _completed(section: PlacedMap, repo: tuple[Any, Place] | None) -> PlacedMap | None:
    source = section.get("work_source")
    if not isinstance(source, PlacedMap):
        return None
    section["work_source"] = source = source.copied()
    if source.get("type") in ("github", "gitea", "forgejo") and "repo" not in source and repo:
        source.put("repo", *repo)
    if source.get("type") == "markdown" and isinstance(source.get("path"), str):
        source["path"] = _absolute(source["path"], source.places["path"])
    return source


def _absolute(text: str, place: Place) -> str:
    path = os.path.normpath((place.file.parent / Path(text).expanduser()).absolute())
    return FromEnvironment.of(path, text.written) if isinstance(text, FromEnvironment) else path


def check_sources(
    agent: PlacedMap, findings: Findings, types: InstalledTypes | None = None
) -> None:
    for source in _sources(agent):
        check_source(source, findings, types)
        try:
            _SOURCE.validate_python(source)
        except ValidationError as error:
            findings.refused(error, AnySource, source, but=_names_no_repository)
            if any(_names_no_repository(one, None) for one in error.errors()):
                findings.warning(
                    source.place,
                    "it names no repository, so no work can come of it; write repo: owner/repo,"
                    " here or for the agent",
                )


def check_source(source: Any, findings: Findings, types: InstalledTypes | None) -> None:
    """Checks beyond its shape: that the type is installed, and that the folder exists."""
    if not isinstance(source, PlacedMap):
        return
    kind, path = source.get("type"), source.get("path")
    if types is not None and isinstance(kind, str) and kind not in OURS:
        known = types()
        if kind not in known:
            why = f"no source of type {kind[:80]!r} is installed{suggestion(kind, known)}"
            findings.mistake(source.places["type"], hidden(why, kind))
    if kind == "markdown" and isinstance(path, str):
        folder = Path(_absolute(path, source.places["path"]))
        if not folder.is_dir():
            told = path.written if isinstance(path, FromEnvironment) else folder
            findings.warning(
                source.places["path"], f"there is no folder {told}; no work can come of it"
            )


def warn_of_uncounted_attempts(agent: PlacedMap, findings: Findings) -> None:
    """The ledger counts attempts, but does not know items of Markdown files."""
    place, said = find(agent, ("retry",))
    types = [source.get("type") for source in _sources(agent)]  # of any value, valid or not
    all_markdown = bool(types) and all(one == "markdown" for one in types)
    if said is not None and "defaults" not in place.loc and all_markdown:
        findings.warning(
            place,
            "not acted on: a Markdown file counts no attempts, so that a task whose run failed has"
            " failed, and waits for a person",
        )


def _sources(agent: PlacedMap) -> Iterator[PlacedMap]:
    schedules = agent.get("schedules")
    sections = [agent, *(schedules.values() if isinstance(schedules, PlacedMap) else ())]
    for section in sections:
        if isinstance(section, PlacedMap) and isinstance(section.get("work_source"), PlacedMap):
            yield section["work_source"]


def _names_no_repository(error: ErrorDetails, _value: Any) -> bool:
    """herdctl accepts such a source, and its documentation shows some."""
    return error["type"] == "missing" and error["loc"] == ("github", "repo")
