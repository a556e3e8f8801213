"""`rota.yaml`: reading it, and telling every mistake with its file, line and column."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rota.config.sources import OURS, AnySource, Forge, Section
from rota.model.errors import InvalidInput

LARGEST_FILE = 1024 * 1024


class FleetConfig(Section):
    version: int = 1
    sources: tuple[AnySource, ...] = Field((), strict=False)


def load(path: Path) -> FleetConfig:
    """The configuration in this file; a file that is not there is an empty one."""
    if not path.exists():
        return FleetConfig()
    document = _parsed(path)
    try:
        config = FleetConfig.model_validate(document or {})
    except ValidationError as error:
        lines = [_told(one, document, path) for one in error.errors()]
        raise InvalidInput("\n".join(lines), file=str(path)) from None
    _demand_distinct_names(config, path)
    return config


def source_config(config: Mapping[str, Any]) -> AnySource:
    """One source's configuration, given as a mapping (an agent's `work_source`)."""
    adapter: TypeAdapter[AnySource] = TypeAdapter(AnySource)
    plain = dict(config)
    if "owner" in plain and "/" not in str(plain.get("repo", "")):
        plain["repo"] = f"{plain.pop('owner')}/{plain.get('repo', '')}"
    try:
        return adapter.validate_python(plain)
    except ValidationError as error:
        told = [f"work_source{_key(one['loc'][1:])}: {_words(one)}" for one in error.errors()]
        raise InvalidInput("\n".join(told), field="work_source") from None


def source_name(source: AnySource) -> str:
    """As people and the ledger call it."""
    if source.name:
        return source.name
    return f"{source.type}:{source.repo}" if isinstance(source, Forge) else source.type


def _parsed(path: Path) -> Any:
    from ruamel.yaml import YAML  # noqa: PLC0415 - only who has a file pays for reading it
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidInput(f"{path}: larger than {LARGEST_FILE} bytes; no fleet needs that")
        return YAML().load(path.read_text())
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InvalidInput(f"{path}{place}: {error.problem}", file=str(path)) from None
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}", file=str(path)) from None


def _told(error: ErrorDetails, document: Any, path: Path) -> str:
    loc = tuple(part for part in error["loc"] if part not in _TAGS)
    line, column = _place(document, loc)
    return f"{path}:{line}:{column}: {_key(loc).lstrip('.') or 'the file'}: {_words(error)}"


# Pydantic names the branch of a union in the path; it is no key of the file.
_TAGS = frozenset({*OURS, "other"})


def _place(document: Any, loc: tuple[int | str, ...]) -> tuple[int, int]:
    """Of the key itself where it is there, else of what should have held it."""
    line, column = 1, 1
    here = document
    for part in loc:
        marks = getattr(here, "lc", None)
        if marks is None:
            break
        try:
            found = marks.key(part) if isinstance(here, dict) else marks.item(part)
            line, column = found[0] + 1, found[1] + 1
            here = here[part]
        except (KeyError, IndexError, TypeError):
            break
    return line, column


def _key(loc: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)


def _words(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown key{_suggestion(str(error['loc'][-1]), error['loc'])}"
    if error["type"] == "string_pattern_mismatch" and error["loc"][-1] == "repo":
        return f"{error['input']!r} is not a repository; write owner/repo"
    return error["msg"].removeprefix("Value error, ")


def _suggestion(key: str, loc: tuple[int | str, ...]) -> str:
    known = set(FleetConfig.model_fields)
    for part in loc:
        model = _MODELS.get(str(part))
        known = set(model.model_fields) if model else known
    near = difflib.get_close_matches(key, sorted(known), 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(sorted(known))}"


def _models() -> dict[str, type[Section]]:
    from rota.config import sources  # noqa: PLC0415 - by name, to tell the keys of each

    return {
        "github": sources.GitHubSource,
        "gitea": sources.GiteaSource,
        "forgejo": sources.GiteaSource,
        "markdown": sources.MarkdownSource,
        "queue": sources.QueueSource,
        "memory": sources.MemorySource,
        "labels": sources.Labels,
        "auth": sources.Auth,
        "times": sources.ClaimTimes,
    }


_MODELS = _models()


def _demand_distinct_names(config: FleetConfig, path: Path) -> None:
    names = [source_name(source) for source in config.sources]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"{path}: two sources are called '{name}'; give each its own 'name'", name=name
            )
