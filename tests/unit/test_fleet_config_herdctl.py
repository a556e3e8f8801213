"""Files written for herdctl load unchanged, and what nothing follows from is named."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rota.config.agents import AgentConfig
from rota.config.herdctl import NOT_OF_AGENTS
from rota.config.loading import Loaded, load_fleet
from rota.model.errors import InvalidInput
from rota.model.fleet import AgentSpec, Hook, RuntimeKind
from rota.model.schedules import Schedule, ScheduleType

FOLDER = Path(__file__).parents[1] / "data/herdctl"


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load_fleet(FOLDER / "herdctl.yaml", {"ALMANAC_KEY": "tide"})


def agent(loaded: Loaded, name: str) -> AgentSpec:
    found = loaded.fleet.agent(name)
    assert found is not None
    return found


def test_agents_of_the_fleet_and_of_those_within_it_are_there(loaded: Loaded) -> None:
    models = [(one.name, one.run.model, one.run.max_turns) for one in loaded.fleet.agents]
    assert models == [
        ("keeper", "claude-large", 60),
        ("watcher", "claude-large", 60),
        ("support.clerk", "claude-own", 7),
        ("annex-b.clerk", "claude-own", 60),
    ]
    assert loaded.fleet.name == "Lighthouse"


def test_what_an_agent_says_is_acted_on(loaded: Loaded) -> None:
    keeper = agent(loaded, "keeper")
    run = keeper.run
    assert keeper.work_source == {
        "type": "github",
        "repo": "keepers/lamps",
        "labels": {"ready": "trim", "in_progress": "trimming"},
        "exclude_labels": ["storm"],
        "cleanup_on_failure": False,
        "auth": {"token_env": "LAMP_TOKEN"},
    }
    assert keeper.max_concurrent == 1
    assert keeper.default_prompt == "Look after the lamp."
    assert run.runtime is RuntimeKind.CLAUDE
    assert run.working_directory == FOLDER / "agents/keeper"
    assert run.system_prompt == (
        "You are Old Tom. Your role: Lighthouse keeper. Your manner: Patient.\n\n"
        "Keep the lamp lit.\n"
    )
    assert run.permission_mode == "bypassPermissions"
    assert run.allowed_tools == ("Read", "Edit", "Bash(make *)")
    assert run.denied_tools == ("Bash(rm *)",)
    assert run.arguments == ("--tools", "Read,Edit,Bash", "--setting-sources", "user,project")
    assert run.timeout == timedelta(hours=2)
    assert run.mcp_servers == {
        "almanac": {
            "command": "npx", "args": ["-y", "almanac-server"], "env": {"ALMANAC_KEY": "tide"},
        },
        "tides": {"url": "http://localhost:9000/mcp"},
    }  # fmt: skip


def test_schedules_are_taken_over(loaded: Loaded) -> None:
    dusk, hourly, rounds, bell, talk = agent(loaded, "keeper").schedules
    assert dusk == Schedule(
        "keeper", "dusk", ScheduleType.CRON, cron="0 18 * * *", prompt="Light it.",
        resume_session=False,
    )  # fmt: skip
    assert (hourly.cron, hourly.enabled) == ("@hourly", False)
    assert rounds.interval == timedelta(minutes=5)
    assert rounds.work_source == {
        "type": "github", "labels": {"ready": "urgent"}, "repo": "keepers/lamps",
    }  # fmt: skip
    assert (bell.type, talk.type) == (ScheduleType.WEBHOOK, ScheduleType.CHAT)
    assert (bell.secret_env, talk.secret_env, rounds.secret_env) == ("LAMP_HOOK", None, None)


def test_hooks_are_taken_over(loaded: Loaded) -> None:
    run = agent(loaded, "keeper").run
    assert run.after_run == (
        Hook(
            "Write the log", "jq -r .result.output >> lamp.log", timeout=timedelta(seconds=2),
            when=("succeeded", "partial", "timed_out"),
        ),
    )  # fmt: skip
    assert run.on_error == (
        Hook(
            "on_error-1", url="https://alarm.example.org/lamp",
            headers={"Authorization": "Bearer none"}, timeout=timedelta(seconds=20),
            continue_on_error=False,
        ),
    )  # fmt: skip


def test_a_hook_for_runs_that_were_cancelled_loads_and_hears_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "herdctl.yaml"
    path.write_text(
        "agents:\n- name: a\n  hooks:\n    after_run:\n"
        "    - {type: shell, command: both, on_events: [completed, cancelled]}\n"
        "    - {type: shell, command: neither, on_events: [cancelled]}\n"
    )
    found = load_fleet(path, {})
    (hook,) = agent(found, "a").run.after_run
    assert (hook.command, hook.when) == ("both", ("succeeded", "partial"))
    assert [one.partition(": ")[2] for one in found.warnings] == [
        f"agents[0].hooks.after_run[{n}].on_events[{m}]: is understood, and not acted on: no hook"
        " hears of a cancelled run"
        for n, m in ((0, 1), (1, 0))
    ]


def test_what_earlier_versions_wrote_is_understood(loaded: Loaded) -> None:
    watcher = agent(loaded, "watcher")
    assert watcher.run.working_directory == Path("/srv/lamps")
    assert watcher.run.permission_mode == "plan"
    assert watcher.run.allowed_tools == ("Read", "Bash(ls *)", "Bash(git *)")
    assert watcher.run.denied_tools == ("Write", "Bash(rm -rf *)")
    assert watcher.run.max_turns == 60  # `max_turns` of the defaults, over that of a session
    (rounds,) = watcher.schedules
    assert (rounds.name, rounds.interval) == ("rounds", timedelta(minutes=20))


WARNED = """
herdctl.yaml defaults.docker
herdctl.yaml defaults.work_source.cleanup_in_progress
herdctl.yaml defaults.working_directory
herdctl.yaml defaults.working_directory.root
herdctl.yaml working_directory
herdctl.yaml agents[1].overrides.schedules.Rounds
herdctl.yaml agents[1].overrides.docker
herdctl.yaml fleets[1].overrides.web
herdctl.yaml chat
herdctl.yaml webhooks
herdctl.yaml web.session_expiry_hours
herdctl.yaml web.open_browser
herdctl.yaml web.tool_results
herdctl.yaml web.message_grouping
agents/keeper.yaml name
agents/keeper.yaml working_directory
agents/keeper.yaml work_source.cleanup_in_progress
agents/keeper.yaml schedules.dusk.outputToFile
agents/keeper.yaml chat
agents/keeper.yaml hooks.after_run[1]
agents/keeper.yaml hooks.after_run[2].when
agents/keeper.yaml hooks.on_error[0].method
agents/keeper.yaml hooks.on_error[1]
agents/keeper.yaml docker
agents/keeper.yaml metadata_file
agents/keeper.yaml self_scheduling
agents/watcher.yml workspace.root
agents/watcher.yml schedules.Rounds
support/herdctl.yaml web
"""


def test_every_key_that_nothing_follows_from_is_named_once_with_its_place(loaded: Loaded) -> None:
    place = re.compile(rf"{re.escape(str(FOLDER))}/(\S+):\d+:\d+: (\S+): .+")
    named = [found.groups() for one in loaded.warnings if (found := place.fullmatch(one))]
    assert len(named) == len(loaded.warnings)
    told = [tuple(line.split()) for line in WARNED.strip().splitlines()]
    assert sorted(named) == sorted(told)


def test_a_key_that_is_switched_off_needs_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "herdctl.yaml"
    path.write_text(
        "docker: {enabled: false}\nagents: [{name: a, self_scheduling: {enabled: false}}]\n"
    )
    assert load_fleet(path, {}).warnings == ()


def test_the_board_is_where_the_file_says(loaded: Loaded) -> None:
    assert (loaded.web.enabled, loaded.web.host, loaded.web.port) == (True, "localhost", 3232)


def test_the_board_may_be_configured_within_the_fleet(tmp_path: Path) -> None:
    path = tmp_path / "herdctl.yaml"
    path.write_text("fleet: {name: a, web: {port: 3000, open_browser: true}}\n")
    found = load_fleet(path, {})
    assert (found.fleet.name, found.web.port) == ("a", 3000)
    assert [one.split(": ")[1] for one in found.warnings] == ["fleet.web.open_browser"]


Refusal = Callable[[str], str]


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    def told(text: str) -> str:
        path = tmp_path / "herdctl.yaml"
        path.write_text(text)
        with pytest.raises(InvalidInput) as refused:
            load_fleet(path, {})
        return refused.value.message.removeprefix(f"{path}:")

    return told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents: [{name: a, runtime: skd}]", "1:20: agents[0].runtime: 'skd' is not known"),
        (
            "agents: [{name: a, schedules: {Up: {type: chat}, up: {type: chat}}}]",
            "1:50: agents[0].schedules.up: there is a schedule 'up' already",
        ),
        (
            "agents: [{name: A}, {name: a}]",
            "1:22: agents[1].name: there is an agent 'a' already",
        ),
        (
            "agents: [{name: a, hooks: {on_error: [{type: telegram}]}}]",
            "1:40: agents[0].hooks.on_error[0].type: 'telegram' is not known",
        ),
        (
            "agents: [{name: a, hooks: {on_error: [{type: shell, command: x, on_events: [x]}]}}]",
            "1:77: agents[0].hooks.on_error[0].on_events[0]: 'x' is not known",
        ),
        (
            "agents: [{name: a, hooks: {on_error: [{type: shell, command: x, on_events: [[x]]}]}}]",
            "1:77: agents[0].hooks.on_error[0].on_events[0]: ['x'] is not known",
        ),
        (
            "agents: [{name: a, hooks: {on_error: [{type: shell, command: x, timeout: 1"
            + "0" * 400
            + "}]}}]",
            '1:65: agents[0].hooks.on_error[0].timeout: Interval "1000',
        ),
        (
            "agents: [{name: a, allowed_tools: Read}]",
            "1:20: agents[0].allowed_tools: write a list",
        ),
    ],
)
def test_a_mistake_is_told_in_the_words_of_the_file(refusal: Refusal, text: str, told: str) -> None:
    assert refusal(text).startswith(told)


def test_a_source_without_a_repository_is_loaded_and_told(tmp_path: Path) -> None:
    path = tmp_path / "herdctl.yaml"
    path.write_text("agents: [{name: a, work_source: {type: github, labels: {ready: go}}}]\n")
    found = load_fleet(path, {})
    assert found.fleet.agents[0].work_source == {"type": "github", "labels": {"ready": "go"}}
    (told,) = found.warnings
    assert "names no repository" in told


def test_no_key_is_both_ours_and_left_out() -> None:
    assert not set(NOT_OF_AGENTS) & set(AgentConfig.model_fields)
