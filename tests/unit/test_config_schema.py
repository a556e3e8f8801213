"""The JSON Schema of `rota.yaml`: what an editor shows of a key, and which files it accepts."""

from collections.abc import Iterator
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from rota.cli.init import EXAMPLES as STARTERS
from rota.config.schema import json_schema

SCHEMA = json_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/rota.yaml"))


def mistakes(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(YAML(typ="safe").load(text))]


def within(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema and every schema in it, with the path that leads there."""
    if isinstance(schema, dict):
        yield path, schema
        for name, one in schema.items():
            if name != "default":
                yield from within(one, f"{path}/{name}")
    elif isinstance(schema, list):
        for number, one in enumerate(schema):
            yield from within(one, f"{path}/{number}")


def keys(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of every section, by `Section.key`."""
    for path, section in within(schema):
        if section.get("type") == "object":
            for name, one in section.get("properties", {}).items():
                yield f"{path.removeprefix('/$defs/')}.{name}", one


def undescribed(schema: dict[str, Any]) -> list[str]:
    """Where key and section are described in the same words, the schema has them at the section
    only."""

    def description(one: dict[str, Any]) -> str | None:
        [section, *_] = one.get("anyOf", [one])  # the others are null and variables
        section = section.get("$ref", "").removeprefix("#/$defs/")
        found: str | None = one.get("description")
        return found or schema["$defs"].get(section, {}).get("description")

    return [key for key, one in keys(schema) if not description(one)]


def test_every_key_is_described() -> None:
    assert undescribed(SCHEMA) == []
    assert {".agents", "AgentConfig.timeout", "QuietHours.from"} <= dict(keys(SCHEMA)).keys()


def test_a_key_without_a_description_would_be_noticed() -> None:
    schema = deepcopy(SCHEMA)
    del schema["properties"]["agents"]["description"]
    del schema["$defs"]["RetryConfig"]["properties"]["backoff"]["description"]
    assert undescribed(schema) == [".agents", "RetryConfig.backoff"]


def test_every_section_is_described() -> None:
    sections = {name: one for name, one in SCHEMA["$defs"].items() if one["type"] == "object"}
    assert [name for name, one in sections.items() if not one.get("description")] == []


def test_it_speaks_the_words_of_json_schema() -> None:
    """Bounds in pydantic's own words would be read by nobody."""
    words = {
        word for path, one in within(SCHEMA) if not path.endswith("properties") for word in one
    }
    assert words & {"ge", "gt", "le", "lt", "strict"} == set()
    assert {"minimum", "maximum", "exclusiveMinimum"} <= words


def test_a_default_that_an_editor_offers_is_accepted() -> None:
    offered = {key: one for key, one in keys(SCHEMA) if "default" in one}
    refused = {
        key: one["default"]
        for key, one in offered.items()
        if not jsonschema_rs.Draft202012Validator({**one, "$defs": SCHEMA["$defs"]}).is_valid(
            one["default"]
        )
    }
    assert refused == {}
    assert offered["RetryConfig.backoff"]["default"] == "1m"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_fleet_of_an_example_is_accepted(path: Path) -> None:
    assert mistakes(path.read_text()) == []


@pytest.mark.parametrize("name", STARTERS)
def test_what_init_writes_is_accepted(name: str) -> None:
    text = files("rota.config").joinpath("starters", f"{name}.yaml").read_text("utf-8")
    assert mistakes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "notify: {rules: {people: {on: failed, to: ops, label: urgent}}}",
        "web: {port: '${PORT}', enabled: '${BOARD:-true}'}",
        "defaults: {timeout: '${PATIENCE:-30m}', budget: {per_day: {usd: '${USD}'}}}",
        "agents: [{name: smith, repo: octocat/hello, work_source: {type: github}}]",
        "agents: [{name: smith, runtime: codex}, {path: agents/weaver.yaml}]",
        "sources: [{type: jira, site: example}]",
        "version:\nagents:\nsources:\nsignals:\nnotify: {rules: }\nweb: {port: , enabled: }",
        "agents: [{name: smith, schedules: {nightly: }, env: {CI: }, runtime: , work_source: }]",
        "agents: [{name: smith, schedules: {often: {type: interval, interval: 1h, timezone: }}}]",
        "sources: [{type: github, repo: a/b, lease_seconds: , labels: {ready: }}]",
        "sources: [{type: github, repo: a/b, lease_seconds: '${L}', cleanup_on_failure: '${C}'}]",
    ],
)
def test_what_rota_reads_is_accepted(text: str) -> None:
    assert mistakes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "agnets: []",
        "web: {port: 65536}",
        "web: {port: many}",
        "defaults: {timeout: 30}",
        "agents: [{name: smith, runtime: cluade}]",
        "agents: [{name: smith, schedules: {often: {type: interval, evry: 5m}}}]",
        "agents: [{name: smith, work_source: {type: queue, tpyes: [bug]}}]",
        "sources: [{type: github}]",
        "sources: [{type: github, repo: }]",
        "sources: [{type: markdown, path: }]",
        "agents: [{name: }]",
        "signals: {nothing: }",
        "sources: [{type: github, repo: a/b, lease_seconds: 0}]",
        "sources: [{type: github, repo: a/b, times: {settle: 601}}]",
        "notify: {rules: {people: {on: fialed, to: ops}}}",
    ],
)
def test_what_rota_refuses_is_marked(text: str) -> None:
    assert mistakes(text)
