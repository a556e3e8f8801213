"""The page on `rota.yaml` is in step with the models that read it."""

import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

from rota.config import (
    agents,
    channels,
    document,
    files,
    fleet_file,
    herdctl,
    hooks,
    limits,
    notify,
    scalars,
    schedules,
    signals,
)
from rota.config.loading import load_fleet
from rota.config.schema import json_schema
from rota.config.sources import Section
from rota.model.intervals import written
from tests.docs.pages import DOCS, blocks, every_page, name_of
from tests.docs.test_reference import rows

PAGE = DOCS / "reference/configuration.md"
OTHERS = DOCS / "howto/from-other-tools.md"

SECTIONS: dict[str, type[BaseModel]] = {
    "the file": fleet_file.FleetFile,
    "`fleet`": fleet_file.FleetIdentity,
    "`web`": fleet_file.Web,
    "a signal": signals.SignalConfig,
    "an agent's reference": fleet_file.AgentReference,
    "a fleet's reference": fleet_file.FleetReference,
    "an agent": agents.AgentConfig,
    "a schedule": schedules.ScheduleConfig,
    "`runtime`": agents.Runtime,
    "`tools`": agents.Tools,
    "an MCP server": agents.McpServer,
    "`session`": agents.Session,
    "`identity`": agents.Identity,
    "`instances`": limits.Instances,
    "`hooks`": hooks.Hooks,
    "a hook": hooks.HookConfig,
    "`retry`": limits.RetryConfig,
    "`budget`": limits.BudgetConfig,
    "`per_day`": limits.DayLimits,
    "`breaker`": limits.BreakerConfig,
    "`notify`": notify.NotifyConfig,
    "a rule": notify.NotifyRule,
    "`quiet_hours`": notify.QuietHours,
    "a webhook": channels.WebhookChannel,
    "a Slack channel": channels.SlackChannel,
    "a Discord channel": channels.DiscordChannel,
    "an ntfy channel": channels.NtfyChannel,
    "a mail channel": channels.EmailChannel,
    "a command channel": channels.CommandChannel,
}


def keys_of(section: str) -> dict[str, str]:
    return {key: default for key, default, _ in rows(PAGE, f"key of {section}", "default", "is")}


def shown(default: Any) -> str:
    if isinstance(default, timedelta):
        return written(default)
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def fits(field: FieldInfo, told: str) -> bool:
    if field.is_required():
        return told == "required"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return bool(told) and told != "required"  # what then holds is said in words
    if default in ((), {}):
        return told in ("none", "all of its list")
    if default == "":
        return told == "empty"
    if isinstance(default, BaseModel):
        return told.startswith("see ")
    return told == shown(default)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_described_with_its_default(section: str) -> None:
    fields = SECTIONS[section].model_fields
    model = {field.alias or name: field for name, field in fields.items()}
    told = keys_of(section)
    assert set(told) == set(model)
    wrong = {key: told[key] for key, field in model.items() if not fits(field, told[key])}
    assert wrong == {}


def test_a_wrong_default_would_be_noticed() -> None:
    field = limits.RetryConfig.model_fields["backoff"]
    assert fits(field, "1m")
    assert not fits(field, "2m")
    assert not fits(agents.AgentConfig.model_fields["name"], "none")


def test_every_section_is_described() -> None:
    models = {
        kind
        for module in (agents, hooks, limits, notify, channels, schedules, fleet_file)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Section)
    }
    # The base of all, what an agent has beside its name, and what is described with `per_day`.
    others = {Section, agents.AgentSettings, limits.RunLimits}
    assert models - others == set(SECTIONS.values())
    assert set(limits.DayLimits.model_fields) - set(limits.RunLimits.model_fields) == {"runs"}


def configurations() -> Iterator[Any]:
    """Every block that begins as such a file may, with agents or without."""
    for page in every_page():
        found = [one.text for one in blocks(page) if one.text.startswith("version: 1\n")]
        for number, text in enumerate(found, 1):
            yield pytest.param(text, id=f"{name_of(page)}-{number}")


@pytest.mark.parametrize("text", list(configurations()))
def test_every_fleet_that_is_shown_can_be_read(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    for name, content in {
        "here/agents/reviewer.yaml": "name: reviewer\n",
        "mill/rota.yaml": "agents: [{name: weaver}]\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (folder / "rota.yaml").write_text(text)
    assert load_fleet(folder / "rota.yaml", {}).fleet.agents
    content = YAML(typ="safe").load(text)
    assert [error.message for error in validator_for(json_schema()).iter_errors(content)] == []


def test_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    kib = document.LARGEST_FILE // 1024
    assert f"| {kib} KiB; {files.MOST_FILES:,} |" in text
    assert f"| {scalars.LONGEST_PROMPT:,} characters." in text


def test_every_key_of_herdctl_that_nothing_follows_from_is_named() -> None:
    section = OTHERS.read_text().partition("| not acted on |")[2].partition("\n\n")[0]
    keys = {
        *herdctl.NOT_OF_FLEETS, *herdctl.NOT_OF_AGENTS, *herdctl.NOT_OF_THE_WEB,
        *herdctl.NOT_OF_DIRECTORIES, *herdctl.NOT_OF_SCHEDULES, *herdctl.NOT_OF_SOURCES,
        *herdctl.NOT_OF_HOOKS, *herdctl.UNSENT_HOOKS,
    } - {"workspace"}  # fmt: skip
    assert {key for key in keys if f"`{key}`" not in section} == set()
    for theirs, ours in herdctl.EVENTS.items():
        assert f"`{theirs}`" in OTHERS.read_text()
        assert all(f"`{one}`" in OTHERS.read_text() for one in ours)


def test_every_mode_of_permission_is_named() -> None:
    assert all(f"`{mode}`" in PAGE.read_text() for mode in agents.PERMISSION_MODES)
