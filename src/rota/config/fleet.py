"""`rota.yaml`: reading it, and telling every mistake with its file, line and column."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rota.config import sources as models
from rota.config.document import Document, Location, key, read
from rota.config.sources import AnySource, Forge, Section
from rota.model.errors import InvalidInput

MOST_MISTAKES = 50  # that are told at once; who has more will begin at the top anyway


class FleetConfig(Section):
    version: Literal[1] = 1
    sources: tuple[AnySource, ...] = Field((), strict=False)


def load(path: Path) -> FleetConfig:
    """The configuration in this file; a file that is not there is an empty one."""
    if not path.exists():
        return FleetConfig()
    document = read(path)
    given = {} if document.content is None else document.content
    try:
        config = FleetConfig.model_validate(given)
    except ValidationError as error:
        raise InvalidInput("\n".join(_all_told(error, document)), file=str(path)) from None
    _demand_distinct_names(config, document)
    return config


def source_config(config: Mapping[str, Any]) -> AnySource:
    """One source's configuration, given as a mapping (an agent's `work_source`)."""
    adapter: TypeAdapter[AnySource] = TypeAdapter(AnySource)
    try:
        return adapter.validate_python(dict(config))
    except ValidationError as error:
        told = [f"{key(('work_source', *one['loc'][1:]))}: {_words(one)}" for one in error.errors()]
        raise InvalidInput("\n".join(told[:MOST_MISTAKES]), field="work_source") from None


def source_name(source: AnySource) -> str:
    """As people and the ledger call it."""
    if source.name:
        return source.name
    return f"{source.type}:{source.repo}" if isinstance(source, Forge) else source.type


def _all_told(error: ValidationError, document: Document) -> Iterator[str]:
    """From the top of the file to its end."""
    found = [(_keys(one["loc"]), _words(one)) for one in error.errors(include_url=False)]
    found.sort(key=lambda mistake: document.place(mistake[0]))
    for loc, why in found[:MOST_MISTAKES]:
        yield document.mistake(loc, f"{key(loc) or 'the file'}: {why}")
    if len(found) > MOST_MISTAKES:
        yield f"{document.path}: and {len(found) - MOST_MISTAKES} more mistakes"


def _keys(loc: Location) -> Location:
    """Pydantic names the branch of a union in the path; it is no key of the file."""
    return (*loc[:2], *loc[3:]) if loc[:1] == ("sources",) else loc


_PLAIN = {
    "missing": "is missing",
    "bool_type": "write true or false",
    "tuple_type": "write a list: [a, b]",
    "model_type": "write keys and values: `key: value`",
    "dict_type": "write keys and values: `key: value`",
    "invalid_key": "a key is a text",
}


def _words(error: ErrorDetails) -> str:
    kind, where = error["type"], error["loc"]
    if kind == "extra_forbidden":
        return f"unknown key{_suggestion(str(where[-1]), where[:-1])}"
    if kind == "literal_error":
        said = f"{error['input']!r}"[:80]
        return f"{said} is not known; write {error['ctx']['expected']}"
    if kind == "int_type" and where[-2:-1] in (("trusted",), ("fleets",)):
        return "the number of an account is wanted; `rota issue whois LOGIN` tells it"
    return _PLAIN.get(kind) or error["msg"].removeprefix("Value error, ")


_MODELS: dict[str, type[Section]] = {
    "github": models.GitHubSource,
    "gitea": models.GiteaSource,
    "markdown": models.MarkdownSource,
    "queue": models.QueueSource,
    "memory": models.MemorySource,
    "labels": models.Labels,
    "auth": models.Auth,
    "times": models.ClaimTimes,
}


def _suggestion(unknown: str, where: Location) -> str:
    """`where` ends with the section that has the key; before it may stand a position in a list."""
    section = next((part for part in reversed(where) if isinstance(part, str)), "")
    known = sorted(_MODELS.get(section, FleetConfig).model_fields)
    near = difflib.get_close_matches(unknown, known, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(known)}"


def _demand_distinct_names(config: FleetConfig, document: Document) -> None:
    seen: dict[str, int] = {}
    for number, source in enumerate(config.sources):
        name = source_name(source)
        if (first := seen.setdefault(name, number)) != number:
            why = f"'{name}' is what sources[{first}] is called; give each its own 'name'"
            told = document.mistake(("sources", number), f"sources[{number}]: {why}")
            raise InvalidInput(told, name=name, file=str(document.path))
