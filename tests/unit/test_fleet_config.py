"""`rota.yaml` as a whole: agents, files, fleets, defaults."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.config.agents import AgentConfig
from rota.config.fleet import FLEET_KEYS, FOREIGN_KEYS, load
from rota.config.fleet_file import FleetFile
from rota.config.herdctl import NOT_OF_FLEETS
from rota.config.loading import Loaded, load_fleet
from rota.config.sources import GitHubSource
from rota.model.errors import InvalidInput
from rota.model.fleet import (
    AgentSpec,
    Breaker,
    Budget,
    Fleet,
    Hook,
    Keep,
    Limits,
    PromptBy,
    Retry,
    RuntimeKind,
    Workspace,
)
from rota.model.schedules import CatchUp, Schedule, ScheduleType

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str, name: str = "rota.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return put


def loaded(path: Path, **environ: str) -> Loaded:
    return load_fleet(path, environ)


def agent(path: Path, name: str = "smith", **environ: str) -> AgentSpec:
    found = loaded(path, **environ).fleet.agent(name)
    assert found is not None
    return found


def mistakes(path: Path, environ: Mapping[str, str] | None = None) -> list[str]:
    """Each from its file on, without the folder."""
    with pytest.raises(InvalidInput) as refused:
        load_fleet(path, environ or {})
    return [one.removeprefix(f"{path.parent}/") for one in refused.value.message.splitlines()]


def mistake(path: Path, environ: Mapping[str, str] | None = None) -> str:
    (told,) = mistakes(path, environ)
    return told


# what may be written


def test_without_a_file_there_is_a_fleet_without_agents(tmp_path: Path, write: Write) -> None:
    nothing = load_fleet(tmp_path / "none.yaml", {})
    assert (nothing.fleet, nothing.sources, nothing.files) == (Fleet(), (), ())
    assert load_fleet(write(""), {}).digest == nothing.digest
    assert load_fleet(write("version: 1\n"), {}).fleet == Fleet()


def test_an_agent_needs_nothing_but_a_name(write: Write) -> None:
    path = write("agents: [{name: smith}]\n")
    smith = agent(path)
    assert smith.run.runtime is RuntimeKind.CLAUDE
    assert smith.run.working_directory == path.parent
    assert smith == AgentSpec("smith", run=smith.run)
    assert smith.schedules == ()


def test_everything_that_can_be_said_of_an_agent_is_kept(write: Write, tmp_path: Path) -> None:
    smith = agent(
        write(
            """
agents:
  - name: smith
    description: mends things
    working_directory: .
    workspace: worktree
    keep_worktree: on_failure
    base_branch: main
    system_prompt: Be brief.
    default_prompt: Go on.
    trusted: true
    work_source: {type: queue, labels: [a]}
    instances: {max_concurrent: 3}
    runtime: {type: command, command: "./run.sh 'two words'", prompt: file, arguments: [-v]}
    model: opus
    max_turns: 7
    permission_mode: acceptEdits
    tools: {allow: [Read], deny: [Bash]}
    mcp_servers: {db: {command: srv, args: [-q], env: {A: b}}, web: {url: "https://x.example"}}
    session: {resume: true}
    timeout: 90s
    env: {PORT: 8080, DEBUG: true, X: y}
    env_pass: [HOME]
    output_limit: 4096
    hooks:
      after_run:
        - {type: shell, command: "cat > out", when: [succeeded]}
        - {type: shell, command: [notify, done], name: bell, continue_on_error: false}
      on_error:
        - {type: webhook, url: "https://x.example/h?a=1", headers: {A: b}, secret_env: S,
           timeout: 5s}
    retry: {max_attempts: 5, backoff: 10s, max_backoff: 10m}
    budget:
      per_run: {wall_time: 1h, tokens: 1000, usd: 0.5}
      per_day: {runs: 9, usd: 20}
      timezone: Europe/Berlin
    breaker: {failures: 2, cooldown: 1h}
    pause_on_usage_limit: false
"""
        )
    )
    run = smith.run
    assert (smith.description, smith.default_prompt, smith.trusted) == (
        "mends things", "Go on.", True,
    )  # fmt: skip
    assert smith.work_source == {"type": "queue", "labels": ["a"]}
    assert smith.max_concurrent == 3
    assert (run.runtime, run.command) == (RuntimeKind.COMMAND, ("./run.sh", "two words"))
    assert (run.prompt_by, run.arguments) == (PromptBy.FILE, ("-v",))
    assert (run.workspace, run.keep_worktree) == (Workspace.WORKTREE, Keep.ON_FAILURE)
    assert (run.working_directory, run.base_branch) == (tmp_path, "main")
    assert (run.system_prompt, run.model, run.max_turns) == ("Be brief.", "opus", 7)
    assert (run.permission_mode, run.resume_session) == ("acceptEdits", True)
    assert (run.allowed_tools, run.denied_tools) == (("Read",), ("Bash",))
    assert run.mcp_servers == {
        "db": {"command": "srv", "args": ["-q"], "env": {"A": "b"}},
        "web": {"url": "https://x.example"},
    }
    assert (run.timeout, run.output_limit) == (timedelta(seconds=90), 4096)
    assert run.env == {"PORT": "8080", "DEBUG": "true", "X": "y"}
    assert run.env_pass == ("HOME",)
    assert run.after_run == (
        Hook("after_run-1", "cat > out", when=("succeeded",)),
        Hook("bell", ("notify", "done"), continue_on_error=False),
    )
    assert run.on_error == (
        Hook("on_error-1", url="https://x.example/h?a=1", headers={"A": "b"}, secret_env="S",
             timeout=timedelta(seconds=5)),
    )  # fmt: skip
    assert smith.retry == Retry(5, timedelta(seconds=10), timedelta(minutes=10))
    assert smith.budget == Budget(
        Limits(wall_time=timedelta(hours=1), tokens=1000, usd=0.5),
        Limits(runs=9, usd=20.0),
        "Europe/Berlin",
    )
    assert smith.breaker == Breaker(2, timedelta(hours=1))
    assert smith.pause_on_usage_limit is False


def test_a_schedule_says_when_and_what_for(write: Write) -> None:
    smith = agent(
        write(
            """
agents:
  - name: smith
    schedules:
      often: {type: interval, interval: 5m, jitter_percent: 10, prompt: Look., enabled: false}
      early: {type: cron, cron: "0 9 * * 1-5", timezone: Asia/Kolkata, catch_up: all, timeout: 1h}
      shorthand: {type: cron, expression: "@daily", resume_session: true}
      push: {type: webhook, secret_env: HOOK, work_source: {type: queue}}
      talk: {type: chat}
"""
        )
    )
    assert smith.schedules == (
        Schedule("smith", "often", ScheduleType.INTERVAL, interval=timedelta(minutes=5),
                 jitter_percent=10, prompt="Look.", enabled=False),
        Schedule("smith", "early", ScheduleType.CRON, cron="0 9 * * 1-5", timezone="Asia/Kolkata",
                 catch_up=CatchUp.ALL, timeout=timedelta(hours=1)),
        Schedule("smith", "shorthand", ScheduleType.CRON, cron="@daily", resume_session=True),
        Schedule("smith", "push", ScheduleType.WEBHOOK, secret_env="HOOK",
                 work_source={"type": "queue"}),
        Schedule("smith", "talk", ScheduleType.CHAT),
    )  # fmt: skip


def test_one_secret_may_serve_all_webhooks_of_an_agent(write: Write) -> None:
    smith = agent(
        write(
            "defaults: {webhook_secret_env: ALL}\nagents:\n  - name: smith\n    schedules:\n"
            "      a: {type: webhook}\n      b: {type: webhook, secret_env: OWN}\n"
            "      c: {type: interval, interval: 5m}\n      d: {type: chat}\n"
        )
    )
    assert [one.secret_env for one in smith.schedules] == ["ALL", "OWN", None, None]


def test_a_secret_that_would_sign_nothing_is_refused(write: Write) -> None:
    path = write(
        "agents:\n  - name: smith\n    schedules:\n      talk: {type: chat, secret_env: TALK}\n"
    )
    with pytest.raises(InvalidInput, match="'secret_env' is for schedules of type webhook"):
        loaded(path)


@pytest.mark.parametrize("runtime", ["codex", "gemini", "claude"])
def test_a_runtime_may_be_named_by_a_word(write: Write, runtime: str) -> None:
    assert agent(write(f"agents: [{{name: smith, runtime: {runtime}}}]")).run.runtime == runtime


def test_a_python_agent_names_what_is_called(write: Write) -> None:
    path = write("agents: [{name: smith, runtime: {type: python, callable: 'a.b:run'}}]")
    assert agent(path).run.callable == "a.b:run"


def test_the_fleet_has_a_name_a_budget_and_sources(write: Write) -> None:
    found = loaded(
        write(
            "fleet: {name: forge, description: all of it}\n"
            "budgets: {per_day: {usd: 50}, timezone: Europe/Rome}\n"
            "web: {host: 0.0.0.0, port: 9000, enabled: false}\n"
            "sources: [{type: github, repo: ada/engine}]\n"
        )
    )
    assert found.fleet.name == "forge"
    assert found.fleet.budget == Budget(per_day=Limits(usd=50), timezone="Europe/Rome")
    assert (found.web.host, found.web.port, found.web.enabled) == ("0.0.0.0", 9000, False)
    assert [one.type for one in found.sources] == ["github"]


# layers


def test_an_agent_may_stand_in_a_file_of_its_own(write: Write) -> None:
    write("name: smith\nmodel: a\nworking_directory: ..\n", "agents/smith.yaml")
    path = write("agents:\n  - path: agents/smith.yaml\n    overrides: {model: b, env: {A: b}}\n")
    smith = agent(path)
    assert (smith.run.model, smith.run.env) == ("b", {"A": "b"})
    assert smith.run.working_directory == path.parent
    assert [one.name for one in loaded(path).files] == ["rota.yaml", "smith.yaml"]


def test_where_an_agent_says_nothing_the_defaults_hold(write: Write) -> None:
    path = write(
        """
defaults:
  model: a
  timeout: 5m
  instances: {max_concurrent: 4}
  tools: {allow: [Read], deny: [Bash]}
  env: {A: "1", B: "2"}
agents:
  - {name: smith, timeout: 6m, tools: {allow: [Edit]}, env: {B: "3"}}
"""
    )
    smith = agent(path)
    assert (smith.run.model, smith.run.timeout) == ("a", timedelta(minutes=6))
    assert smith.max_concurrent == 4
    assert (smith.run.allowed_tools, smith.run.denied_tools) == (("Edit",), ("Bash",))
    assert smith.run.env == {"A": "1", "B": "3"}


def test_defaults_count_before_what_the_schema_would_fill_in(write: Write) -> None:
    """`instances: {}` of an agent is no wish for one slot."""
    path = write(
        "defaults: {instances: {max_concurrent: 4}}\nagents: [{name: smith, instances: {}}]"
    )
    assert agent(path).max_concurrent == 4


def test_a_key_without_a_value_takes_a_default_back(write: Write) -> None:
    path = write(
        "defaults: {model: a, work_source: {type: queue}, instances: {max_concurrent: 4}}\n"
        "agents:\n  - name: smith\n    model:\n    work_source:\n    instances:\n"
    )
    smith = agent(path)
    assert (smith.run.model, smith.work_source, smith.max_concurrent) == (None, None, 1)


def test_a_directory_is_relative_to_the_file_that_names_it(write: Write, tmp_path: Path) -> None:
    write("name: own\nworking_directory: here\n", "agents/own.yaml")
    write("name: plain\n", "agents/plain.yaml")
    path = write(
        "defaults: {working_directory: shop}\n"
        "agents:\n  - path: agents/own.yaml\n  - path: agents/plain.yaml\n"
        "  - {path: agents/over.yaml, overrides: {working_directory: there}}\n"
    )
    write("name: over\n", "agents/over.yaml")
    directories = {
        one.name: one.run.working_directory.relative_to(tmp_path).as_posix()
        for one in loaded(path).fleet.agents
    }
    assert directories == {"own": "agents/here", "plain": "shop", "over": "there"}


def test_a_home_directory_may_be_written_short(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = write("agents: [{name: smith, working_directory: ~/shop}]")
    assert agent(path).run.working_directory == tmp_path / "shop"


def test_a_fleet_may_hold_fleets(write: Write) -> None:
    write("name: smith\n", "engine/agents/smith.yaml")
    write(
        "fleet: {name: Engine Works}\ndefaults: {model: sub}\n"
        "agents: [{path: agents/smith.yaml}, {name: own, model: mine}]\n"
        "fleets: [{path: deep/rota.yaml}]\n",
        "engine/rota.yaml",
    )
    write("agents: [{name: diver}]\n", "engine/deep/rota.yaml")
    write("agents: [{name: weaver}]\n", "loom/rota.yaml")
    path = write(
        """
defaults: {model: top, max_turns: 3}
agents: [{name: boss}]
fleets:
  - path: engine/rota.yaml
  - {path: loom/rota.yaml, name: mill, overrides: {defaults: {model: forced}}}
"""
    )
    agents = loaded(path).fleet.agents
    assert [(one.name, one.run.model, one.run.max_turns) for one in agents] == [
        ("boss", "top", 3),
        ("engine-works.smith", "sub", 3),
        ("engine-works.own", "mine", 3),
        ("engine-works.deep.diver", "sub", 3),
        ("mill.weaver", "forced", 3),
    ]


def test_one_file_may_be_in_two_fleets(write: Write) -> None:
    write("agents: [{name: smith}]\n", "a/rota.yaml")
    path = write("fleets: [{path: a/rota.yaml, name: one}, {path: a/rota.yaml, name: two}]\n")
    assert [one.name for one in loaded(path).fleet.agents] == ["one.smith", "two.smith"]


def test_only_the_first_file_speaks_for_the_server(write: Write) -> None:
    write("sources: [{type: queue}]\nbudgets: {}\nweb: {port: 1}\n", "a/rota.yaml")
    found = loaded(write("fleets: [{path: a/rota.yaml}]\n"))
    assert (found.sources, found.web.port) == ((), None)
    assert [re.sub(r".*:\d+:\d+: (\w+): not acted on.*", r"\1", one) for one in found.warnings] == [
        "sources", "budgets", "web",
    ]  # fmt: skip


def test_a_repository_is_taken_from_the_agent_where_its_source_names_none(write: Write) -> None:
    path = write(
        """
defaults: {work_source: {type: github, labels: {ready: go}}}
agents:
  - name: smith
    repo: ada/engine
    schedules:
      usual: {type: interval, interval: 5m}
      other: {type: interval, interval: 5m, work_source: {type: github, labels: {ready: now}}}
"""
    )
    smith = agent(path)
    assert smith.work_source == {"type": "github", "labels": {"ready": "go"}, "repo": "ada/engine"}
    assert smith.schedules[1].work_source == {
        "type": "github", "labels": {"ready": "now"}, "repo": "ada/engine",
    }  # fmt: skip


def test_a_folder_of_items_is_relative_to_the_file_that_names_it(write: Write) -> None:
    write("name: smith\nwork_source: {type: markdown, path: backlog}\n", "agents/smith.yaml")
    path = write("agents: [{path: agents/smith.yaml}]\n")
    assert agent(path).work_source == {
        "type": "markdown", "path": str(path.parent / "agents/backlog"),
    }  # fmt: skip


# variables


def test_variables_are_filled_in_everywhere(write: Write) -> None:
    write("name: smith\nmodel: ${MODEL:-small}\nmax_turns: ${TURNS}\n", "agents/smith.yaml")
    path = write(
        "agents:\n  - path: agents/${WHO}.yaml\n    overrides: {trusted: '${YES}'}\n"
        "sources: [{type: github, repo: '${OWNER:-ada}/engine', poll_seconds: 5}]\n"
    )
    found = loaded(path, WHO="smith", TURNS="9", YES="true")
    (smith,) = found.fleet.agents
    assert (smith.run.model, smith.run.max_turns, smith.trusted) == ("small", 9, True)
    assert found.sources[0].model_dump()["repo"] == "ada/engine"
    assert load(path, {}).sources == found.sources


def test_numbers_and_switches_of_a_source_may_come_from_the_environment(write: Write) -> None:
    path = write(
        "sources:\n"
        "  - {type: github, repo: a/b, lease_seconds: '${L}', cleanup_on_failure: '${C}',\n"
        "     trusted: ['${WHO}'], times: {settle: '${S:-3.5}'}, poll_seconds: '${P:-30}'}\n"
    )
    (source,) = loaded(path, L="600", C="false", WHO="7").sources
    assert isinstance(source, GitHubSource)
    assert (source.lease_seconds, source.poll_seconds, source.times.settle) == (600.0, 30.0, 3.5)
    assert (source.cleanup_on_failure, source.trusted) == (False, (7,))
    told = mistakes(path, {"L": "0", "C": "perhaps", "WHO": "ada"})
    assert [one.partition(": ")[2].partition(":")[0] for one in told] == [
        "sources[0].lease_seconds",
        "sources[0].cleanup_on_failure",
        "sources[0].trusted[0]",
    ]


def test_a_variable_that_is_not_set_is_named_with_its_place(write: Write, tmp_path: Path) -> None:
    path = write("agents:\n  - name: smith\n    env: {A: '${NOPE}'}\n")
    assert mistake(path) == (
        "rota.yaml:3:11: agents[0].env.A: the environment variable NOPE is not set; set it, or"
        " write ${NOPE:-default}"
    )
    (tmp_path / ".env").write_text("NOPE=1\n")
    assert mistake(path).endswith(
        "; .env is not read: `set -a; . ./.env; set +a` sets what it holds"
    )


def test_a_variable_that_is_not_set_hides_no_other_mistake_and_makes_none(write: Write) -> None:
    path = write(
        "agents:\n  - name: ada\n    schedulez: {}\n"
        "    schedules: {look: {type: interval, interval: '${PAUSE}'}}\n"
        "  - path: ${WHERE}/bob.yaml\n"
    )
    assert [one.partition(": ")[2].partition(";")[0] for one in mistakes(path)] == [
        "agents[0].schedulez: unknown key",
        "agents[0].schedules.look.interval: the environment variable PAUSE is not set",
        "agents[1].path: the environment variable WHERE is not set",
    ]


def test_sources_do_not_need_the_variables_of_agents(write: Write) -> None:
    path = write("agents: [{name: smith, model: '${NOPE}'}]\nsources: [{type: queue}]\n")
    assert len(load(path, {}).sources) == 1


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "line",
    [
        "timeout: ${S}",
        "permission_mode: ${S}",
        "name: ${S}/..",
        "max_turns: ${S}",
        "repo: ${S}\n    work_source: {type: github}",
        "work_source: {type: github, repo: '${S}'}",
        "work_source: {type: '${S}', path: 3}\n    max_turns: x",
        "schedules: {a: {type: cron, cron: '${S}'}}",
        "schedules: {a: {type: cron, cron: '0 9 * * *', timezone: '${S}'}}",
        "schedules: {a: {type: '${S}'}}",
        "runtime: ${S}",
        "runtime: {type: python, callable: '${S}'}",
        "hooks: {after_run: [{type: webhook, url: '${S}'}]}",
        "env_pass: ['${S}!']",
        "path: ${S}",
    ],
)
def test_no_mistake_repeats_what_came_from_the_environment(write: Write, line: str) -> None:
    name = "" if line.startswith(("name", "path")) else "    name: smith\n"
    path = write(f"agents:\n  -\n{name}    {line}\n")
    for told in mistakes(path, {"S": SECRET}):
        assert SECRET[:7] not in told


def test_nothing_that_is_shown_came_from_the_environment(write: Write) -> None:
    path = write(
        """
agents:
  - name: smith
    model: ${S}
    working_directory: ./${S}
    env: {A: "${S}", B: "x-${S}-y", API_TOKEN: literal, PLAIN: seen}
    mcp_servers: {db: {url: "https://x.example/${S}", headers: {Authorization: literal}}}
    work_source: {type: github, repo: "ada/${S}"}
    runtime: {type: command, command: [run, "${S}"]}
    timeout: ${T}
sources: [{type: github, repo: "ada/${S}"}]
fleet: {name: "${S}"}
"""
    )
    found = loaded(path, S=SECRET, T="7m")
    said = repr(dict(found.shown))
    assert SECRET not in said
    assert "literal" not in said
    assert SECRET not in "".join(found.warnings)
    (smith,) = found.shown["agents"]
    assert smith["env"] == {"A": "${S}", "B": "x-${S}-y", "API_TOKEN": "***", "PLAIN": "seen"}
    assert (smith["timeout"], smith["working_directory"]) == ("${T}", "./${S}")
    assert smith["runtime"]["command"] == ["run", "${S}"]
    assert smith["retry"] == {"max_attempts": 3, "backoff": "1m", "max_backoff": "1h"}
    assert found.fleet.agents[0].run.env["A"] == SECRET


# changes


def test_the_digest_changes_with_the_content_and_with_nothing_else(write: Write) -> None:
    text = "agents:\n  - {name: smith, model: '${M:-a}'}\n"
    first = loaded(write(text)).digest
    assert loaded(write("# a remark\n" + text.replace("{name", "{ name"))).digest == first
    assert loaded(write(text), M="b").digest != first
    assert loaded(write(text.replace("smith", "jones"))).digest != first


# mistakes


def test_all_mistakes_of_all_files_are_told_at_once(write: Write) -> None:
    write("name: smith\nmodle: a\nmax_turns: many\n", "agents/smith.yaml")
    write("agents: [{name: x, timeout: 5}]\n", "sub/rota.yaml")
    path = write(
        "agents:\n  - path: agents/smith.yaml\n  - {name: Bad Name, max_turns: 0}\n"
        "fleets: [{path: sub/rota.yaml}]\nsources: [{type: github}]\nextra: 1\n"
    )
    assert mistakes(path) == [
        "rota.yaml:3:6: agents[1].name: 'Bad Name' is not a name; write small letters, digits and"
        " . _ - , at most 64, the first a letter or digit",
        "rota.yaml:3:22: agents[1].max_turns: must be at least 1",
        "rota.yaml:5:11: sources[0].repo: is missing",
        "rota.yaml:6:1: extra: unknown key; known are agents, budgets, defaults, fleet, fleets,"
        " notify, signals, sources, version, web",
        "agents/smith.yaml:2:1: modle: unknown key; did you mean 'model'?",
        "agents/smith.yaml:3:1: max_turns: write a whole number",
        'sub/rota.yaml:1:20: agents[0].timeout: Missing time unit in interval "5". Expected format:'
        ' "{number}{unit}" where unit is s/m/h/d (e.g., "5m", "1h")',
    ]


AGENT = "agents:\n  - name: smith\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            AGENT + "    shedules: {}\n",
            "3:5: agents[0].shedules: unknown key; did you mean 'schedules'?",
        ),
        (
            AGENT + "    schedules: {a: {type: interval, intervall: 5m}}\n",
            "3:37: agents[0].schedules.a.intervall: unknown key; did you mean 'interval'?",
        ),
        (
            AGENT + "    schedules: {a: {type: interval, interval: 5w}}\n",
            '3:37: agents[0].schedules.a.interval: Invalid time unit "w" in interval "5w". Valid'
            " units are: s (seconds), m (minutes), h (hours), d (days)",
        ),
        (
            AGENT + "    schedules: {a: {type: interval}}\n",
            "3:17: agents[0].schedules.a: 'interval' is missing; write for example interval: 5m",
        ),
        (
            AGENT + "    schedules: {a: {type: webhook, cron: '@daily'}}\n",
            "3:17: agents[0].schedules.a: 'cron' belongs to schedules of type cron, not webhook",
        ),
        (
            AGENT + "    schedules: {a: {type: cron, cron: '@daily', expression: '@hourly'}}\n",
            "3:49: agents[0].schedules.a.expression: 'expression' is another word for 'cron', which"
            " is here, too; keep one",
        ),
        (
            AGENT + "    schedules: {../a: {type: chat}}\n",
            "3:17: agents[0].schedules.../a: '../a' is not a name; write small letters, digits and"
            " . _ - , at most 64, the first a letter or digit",
        ),
        (
            AGENT.replace("smith", "../smith"),
            "2:5: agents[0].name: '../smith' is not a name; write small letters, digits and . _ - ,"
            " at most 64, the first a letter or digit",
        ),
        (AGENT.replace("- name: smith", "- model: a"), "2:5: agents[0].name: is missing"),
        (
            AGENT + "  - name: smith\n",
            "3:5: agents[1].name: there is an agent 'smith' already, in {}:2",
        ),
        (
            AGENT.replace("- name", "- &a\n    name") + "  - *a\n",
            "2:5: agents[1]: there is an agent 'smith' already, in {}:3",
        ),
        (AGENT + "  - smith\n", "3:5: agents[1]: write keys and values: `key: value`"),
        (
            "agents: {name: smith}\n",
            "1:1: agents: it is a list; write each agent on a line of its own that begins"
            " `- name: …`",
        ),
        ("defaults: []\n", "1:1: defaults: write keys and values: `key: value`"),
        (
            "defaults: {timeout: x}\n",
            '1:12: defaults.timeout: Missing numeric value in interval "x". Expected format:'
            ' "{number}{unit}" where unit is s/m/h/d (e.g., "5m", "1h")',
        ),
        (
            AGENT + "    runtime: cobol\n",
            "3:5: agents[0].runtime: 'cobol' is not known; write 'claude', 'codex', 'gemini',"
            " 'command' or 'python'",
        ),
        (
            AGENT + "    runtime: command\n",
            "3:5: agents[0].runtime: 'command' is missing; write for example command: [./agent.sh]",
        ),
        (
            AGENT + "    runtime: {type: command, command: \"a 'b\"}\n",
            "3:30: agents[0].runtime.command: cannot be split into words: No closing quotation;"
            " write a list: [a, b]",
        ),
        (
            AGENT + "    permission_mode: yolo\n",
            "3:5: agents[0].permission_mode: 'yolo' is not known; write default, acceptEdits,"
            " bypassPermissions, plan, delegate, dontAsk or auto",
        ),
        (
            AGENT + "    work_source: {type: github, repo: engine}\n",
            "3:33: agents[0].work_source.repo: 'engine' is not a repository; write owner/repo, for"
            " example octocat/hello",
        ),
        (
            AGENT + "    work_source: {type: github, repo: a/b, lables: {}}\n",
            "3:44: agents[0].work_source.lables: unknown key; did you mean 'labels'?",
        ),
        (
            AGENT + "    hooks: {after_run: [{type: shell}]}\n",
            "3:25: agents[0].hooks.after_run[0]: 'command' is missing; a hook of type shell needs"
            " it",
        ),
        (
            AGENT + "    hooks: {after_run: [{type: shell, command: 3}]}\n",
            "3:39: agents[0].hooks.after_run[0].command: write a line for the shell, or a list:"
            " [program, argument]",
        ),
        (
            AGENT + "    hooks: {after_run: [{type: webhook, url: file:///etc/passwd}]}\n",
            "3:41: agents[0].hooks.after_run[0].url: is not an address like"
            " https://hooks.example.org/rota",
        ),
        (
            AGENT + "    hooks: {after_run: [{type: webhook, url: 'https://me:pw@h.example/'}]}\n",
            "3:41: agents[0].hooks.after_run[0].url: holds a user name or password, which does not"
            " belong in this file; write an @ of the path as %40",
        ),
        (
            AGENT + "    mcp_servers: {db: {args: [a]}}\n",
            "3:19: agents[0].mcp_servers.db: write either 'command', for a program, or 'url'",
        ),
        (AGENT + "    env: [A]\n", "3:5: agents[0].env: write keys and values: `key: value`"),
        (
            AGENT + "    budget: {per_run: {runs: 3}}\n",
            "3:24: agents[0].budget.per_run.runs: unknown key; known are tokens, usd, wall_time",
        ),
        (
            "agents:\n  - {path: smit.yaml}\n",
            "2:6: agents[0].path: there is no file {folder}/smit.yaml; did you mean smith.yaml?",
        ),
        (
            "agents:\n  - {path: rota.yml}\n",
            "2:6: agents[0].path: there is no file {folder}/rota.yml",
        ),
        (
            "agents:\n  - {path: smith.yaml, model: a}\n",
            "2:24: agents[0].model: unknown key; known are overrides, path",
        ),
        (
            "fleets: [{path: gone/rota.yaml}]\n",
            "1:11: fleets[0].path: there is no file {folder}/gone/rota.yaml; nor is there a"
            " directory {folder}/gone",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_what_to_do(
    write: Write, tmp_path: Path, text: str, told: str
) -> None:
    write("name: smith\n", "smith.yaml")
    path = write(text)
    said = told.replace("{folder}", str(tmp_path)).replace("{}", str(path))
    assert mistake(path) == f"rota.yaml:{said}"


@pytest.mark.parametrize("cron", ["* * * *", "61 * * * *", "@weekdaily", "0 0 30 2 *", ""])
def test_a_cron_expression_that_cannot_be_is_refused_when_it_is_loaded(
    write: Write, cron: str
) -> None:
    told = mistake(write(AGENT + f"    schedules: {{a: {{type: cron, cron: '{cron}'}}}}\n"))
    assert told.startswith("rota.yaml:3:33: agents[0].schedules.a.cron: ")
    assert cron != "0 0 30 2 *" or "it would never run. Example valid expression: " in told


def test_an_unknown_time_zone_is_refused_with_a_suggestion(write: Write) -> None:
    schedules = "    schedules: {a: {type: cron, cron: '@daily', timezone: Europe/Berln}}\n"
    told = mistake(write(AGENT + schedules))
    assert told.startswith("rota.yaml:3:49: agents[0].schedules.a.timezone: ")
    assert "Europe/Berlin" in told


def test_a_mistake_in_the_defaults_is_told_once_and_where_it_stands(write: Write) -> None:
    path = write("defaults: {max_turns: x}\nagents: [{name: a}, {name: b}]\n")
    assert mistake(path) == "rota.yaml:1:12: defaults.max_turns: write a whole number"


def test_defaults_need_not_be_whole(write: Write) -> None:
    path = write(
        "defaults: {runtime: {type: command}}\nagents: [{name: smith, runtime: {command: run}}]\n"
    )
    assert agent(path).run.command == ("run",)


def test_a_broken_agent_file_is_told_with_its_own_place(write: Write) -> None:
    write("name: [\n", "a.yaml")
    write("- a\n", "b.yaml")
    told = mistakes(write("agents: [{path: a.yaml}, {path: b.yaml}, {name: smith}]\n"))
    assert [one.partition(": ")[0] for one in told] == ["a.yaml:2:1", "b.yaml:1:1"]


@pytest.mark.parametrize("inner", ["rota.yaml", "../rota.yaml", "sub/../rota.yaml"])
def test_a_fleet_within_itself_is_refused(write: Write, tmp_path: Path, inner: str) -> None:
    folder = "sub/" if inner.startswith("..") else ""
    write(f"fleets: [{{path: {inner}}}]\n", f"{folder}other.yaml")
    (tmp_path / "sub").mkdir(exist_ok=True)
    told = mistake(write(f"fleets: [{{path: {folder}other.yaml}}]\n"))
    assert told.startswith(
        f"{folder}other.yaml:1:11: fleets[0].path: a fleet cannot be within itself: "
    )
    assert told.count(" → ") == 2


def test_two_fleets_cannot_have_one_name(write: Write) -> None:
    write("agents: []\n", "a/rota.yaml")
    write("fleet: {name: a}\n", "b/rota.yaml")
    told = mistake(write("fleets: [{path: a/rota.yaml}, {path: b/rota.yaml}]\n"))
    assert (
        told == "rota.yaml:1:31: fleets[1]: fleets[0] is called 'a' too; give each its own 'name'"
    )


def test_a_fleet_whose_name_is_no_name_has_to_be_given_one(write: Write) -> None:
    write("fleet: {name: 日本}\n", "a/rota.yaml")
    assert "cannot be the name of a fleet" in mistake(write("fleets: [{path: a/rota.yaml}]\n"))
    assert "cannot be the name" in mistake(write("fleets: [{path: a/rota.yaml, name: a.b}]\n"))


def test_a_name_that_grows_too_long_in_its_fleet_is_refused(write: Write) -> None:
    write(f"agents: [{{name: {'x' * 60}}}]\n", "a/rota.yaml")
    path = write("fleets: [{path: a/rota.yaml, name: engine}]\n")
    assert "longer than a name may be" in mistake(path)


def test_fleets_that_multiply_are_refused(write: Write) -> None:
    """Ten files, each with the next one ten times, would be ten thousand million agents."""
    for number in range(9):
        twice = ", ".join(f"{{path: f{number + 1}.yaml, name: n{one}}}" for one in range(10))
        write(f"fleets: [{twice}]\n", f"f{number}.yaml")
    write("agents: [{name: a}]\n", "f9.yaml")
    told = mistakes(write("fleets: [{path: f0.yaml, name: top}]\n"))
    assert any("more than 1000 files" in one for one in told)


def test_a_long_prompt_is_taken_up_to_a_limit(write: Write) -> None:
    text = "x" * 200_000
    assert agent(write(AGENT + f"    system_prompt: {text}\n")).run.system_prompt == text
    told = mistake(write(AGENT + f"    system_prompt: {text}y\n"))
    assert "has 200001 characters, and at most 200000" in told
    assert len(told) < 300
    told = mistake(write(AGENT + f"    system_prompt: {'x' * 1_000_000}\n"))
    assert "larger than 262144 bytes" in told


def test_a_directory_that_is_missing_is_a_warning(write: Write, tmp_path: Path) -> None:
    path = write(AGENT + "    working_directory: gone\n")
    assert loaded(path).warnings == (
        f"{path}:3:5: agents[0].working_directory: there is no directory {tmp_path}/gone; runs of"
        " this agent will fail without it",
    )


def test_a_program_that_is_not_there_is_a_warning_where_agents_run(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("bin/claude", "agent.sh"):
        write("#!/bin/sh\n", name).chmod(0o755)

    def warned(text: str, **more: str) -> list[str]:
        environ = {"PATH": str(tmp_path / "bin"), **more}
        found = load_fleet(write(f"agents:\n  - name: smith\n{text}"), environ, runs_here=True)
        return [one.partition("rota.yaml:")[2] for one in found.warnings]

    (told,) = warned("    runtime: {type: command, command: [nosuchprogram, -x]}\n")
    assert told == (
        "3:30: agents[0].runtime.command: there is no program 'nosuchprogram' on PATH; install it,"
        " or correct the agent's command: runs of this agent will fail without it"
    )
    assert "no program 'codex' on PATH" in warned("    runtime: codex\n")[0]
    assert "'claude'" in warned("", PATH="/nowhere")[0]
    (told,) = warned("    runtime: {type: command, command: [./gone.sh]}\n")
    assert f"there is no program './gone.sh' in {tmp_path}; " in told
    assert (
        "hunter2" not in warned("    runtime: {type: command, command: '${P}'}\n", P="hunter2")[0]
    )
    for text in (
        "",
        "    runtime: {type: command, command: [./agent.sh]}\n",
        f"    runtime: {{type: command, command: [{tmp_path}/agent.sh]}}\n",
        f"    runtime: codex\n    env: {{PATH: '{tmp_path}/more'}}\n",
        "    workspace: worktree\n    runtime: {type: command, command: [./of-the-branch]}\n",
        "    runtime: {type: python, callable: 'a:b'}\n",
    ):
        write("#!/bin/sh\n", "more/codex").chmod(0o755)
        assert warned(text) == [], text
    assert loaded(write("agents: [{name: smith, runtime: codex}]\n")).warnings == ()


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("max_concurrent: 3", "instances.max_concurrent"),
        ("per_day: {runs: 3}", "budget.per_day"),
        ("command: [x]", "runtime.command"),
        ("max_turn: 3", "max_turns"),
    ],
)
def test_a_key_that_stands_a_level_too_high_is_told_where_it_belongs(
    write: Write, key: str, place: str
) -> None:
    assert mistake(write(AGENT + f"    {key}\n")).endswith(f"unknown key; did you mean '{place}'?")


def test_what_else_is_wrong_is_told_with_the_first_mistake(write: Write) -> None:
    path = write(
        "agents:\n"
        "  - {name: smith, modle: x}\n"
        "  - {name: smith, work_source: {type: github}, model: 3,\n"
        "     schedules: {a: {type: webhook}}}\n"
        "  - {name: smith}\n"
    )
    with pytest.raises(InvalidInput) as refused:
        loaded(path)
    told = [(one["line"], one["key"]) for one in refused.value.details["mistakes"]]
    assert told == [
        (2, "agents[0].modle"),
        (3, "agents[1].name"),
        (3, "agents[1].model"),
        (5, "agents[2].name"),
    ]
    warned = [one["key"] for one in refused.value.details["warnings"]]
    assert warned == ["agents[1].work_source", "agents[1].schedules.a"]


@pytest.mark.parametrize("where", ["agents: [{name: smith, work_source: %s}]", "sources: [%s]"])
def test_a_source_of_a_type_that_is_not_installed_is_a_mistake_to_those_who_know_them(
    write: Write, where: str
) -> None:
    def told(source: str, **environ: str) -> str:
        with pytest.raises(InvalidInput) as refused:
            load_fleet(write(where % source), environ, types=lambda: {"queue", "linear"})
        return refused.value.message.rpartition("type: ")[2]

    assert told("{type: qeue}") == "no source of type 'qeue' is installed; did you mean 'queue'?"
    assert told("{type: jira}").endswith("'jira' is installed; known are linear, queue")
    assert "s3cret" not in told("{type: '${S}'}", S="s3cret")
    path = write(where % "{type: linear, team: ENG}")
    assert load_fleet(path, {}, types=lambda: {"queue", "linear"}).warnings == ()
    assert loaded(write(where % "{type: jira}")).warnings == (), "where nobody knows, it may be"
    path = write(where % "{type: markdown, path: gone}")
    (warned,) = loaded(path).warnings
    assert warned.endswith(f"path: there is no folder {path.parent}/gone; no work can come of it")
    (path.parent / "gone").mkdir()
    assert loaded(path).warnings == ()


def test_a_webhook_that_nobody_can_sign_is_a_warning(write: Write) -> None:
    text = AGENT + "    schedules: {a: {type: webhook}, b: {type: chat}}\n"
    (told,) = loaded(write(text)).warnings
    assert "agents[0].schedules.a: its webhook is refused to everybody" in told
    assert loaded(write(text + "    webhook_secret_env: HOOK\n")).warnings == ()


def test_slots_that_no_schedule_can_fill_are_a_warning(write: Write) -> None:
    slots = AGENT + "    instances: {max_concurrent: 3}\n"
    first, second, third = (
        f"      {name}: {{type: interval, interval: 5m}}\n" for name in ("a", "b", "c")
    )
    (told,) = loaded(write(slots + "    schedules:\n" + first)).warnings
    assert told.partition(": ")[2] == (
        "agents[0].instances.max_concurrent: 3 slots, and 1 schedule wakes it: a schedule does not"
        " overlap itself, so the server runs at most 1 at once; write a schedule for each slot"
    )
    (told,) = loaded(write(slots + "    schedules:\n" + first + second)).warnings
    assert "2 schedules wake it" in told
    assert loaded(write(slots + "    schedules:\n" + first + second + third)).warnings == ()
    assert loaded(write(slots)).warnings == (), "workers have slots of their own"


def test_a_setting_that_the_runtime_does_not_have_is_told(write: Write) -> None:
    keys = "    setting_sources: [user]\n    tools: {only: [Read]}\n    max_turns: 3\n"
    found = loaded(write(AGENT + keys))
    assert found.warnings == ()
    assert found.fleet.agents[0].run.arguments == (
        "--tools", "Read", "--setting-sources", "user",
    )  # fmt: skip
    found = loaded(write(AGENT + keys + "    runtime: codex\n"))
    assert [one.split(": ")[1] for one in found.warnings] == [
        "agents[0].setting_sources", "agents[0].tools.only", "agents[0].max_turns",
    ]  # fmt: skip
    assert found.fleet.agents[0].run.arguments == ()


def test_defaults_may_say_what_some_runtimes_do_not_have(write: Write) -> None:
    path = write("defaults: {model: a}\n" + AGENT + "    runtime: {type: command, command: x}\n")
    assert loaded(path).warnings == ()


def test_an_alias_that_unfolds_without_end_is_refused(write: Write) -> None:
    laughs = "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    text = "agents:\n- name: smith\n  work_source:\n    type: other\n    a: &a [x]\n"
    path = write(text + re.sub("^", "    ", laughs, flags=re.M).rstrip() + "\n")
    assert "unfold to more than" in mistake(path)


def test_a_tag_is_refused_where_it_stands(write: Write) -> None:
    told = mistake(write(AGENT + "    work_source: {type: other, a: [!x y]}\n"))
    assert told == (
        "rota.yaml:3:36: agents[0].work_source.a[0]: a tag (!) means nothing here; write the value"
        " without it"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('    timeout: "\\ud83d"\n', "3:5: agents[0].timeout: half a character"),
        ('    env: {A: "a\\udc00"}\n', "3:11: agents[0].env.A: half a character"),
        ('    env: {"\\ud83d": b}\n', "3:11: agents[0].env.\\ud83d: half a character"),
    ],
)
def test_half_a_character_is_refused_where_it_stands(write: Write, text: str, told: str) -> None:
    assert mistake(write(AGENT + text)).startswith(f"rota.yaml:{told}")


def test_a_character_of_two_escapes_is_one(write: Write) -> None:
    found = loaded(write(AGENT + '    default_prompt: "Hi \\ud83d\\ude00"\n'))
    assert found.fleet.agents[0].default_prompt == "Hi \N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("    work_source: {type: [x]}\n", "agents[0].work_source"),
        ("    work_source: {type: {}}\n", "agents[0].work_source"),
        (
            "    allowed_tools: Read\n    permissions: {bash: {allowed_commands: [git]}}\n",
            "3:5: agents[0].allowed_tools: write a list",
        ),
        (
            "    denied_tools: 5\n    permissions: {bash: {denied_patterns: [git]}}\n",
            "3:5: agents[0].denied_tools: write a list",
        ),
    ],
)
def test_a_value_of_another_kind_is_a_mistake_and_not_taken_apart(
    write: Write, text: str, told: str
) -> None:
    assert told in mistake(write(AGENT + text))


def test_a_source_of_another_package_may_be_told_anything(write: Write) -> None:
    path = write(
        AGENT + "    work_source: {type: other, on: 2024-01-01, n: 1.5, b: &b true, c: *b}\n"
    )
    found = loaded(path)
    assert found.fleet.agents[0].work_source == {
        "type": "other", "on": "2024-01-01", "n": 1.5, "b": True, "c": True,
    }  # fmt: skip
    assert found.shown["agents"][0]["work_source"]["on"] == "2024-01-01"


def test_the_keys_that_are_left_to_agents_are_those_of_the_file() -> None:
    ours = set(FleetFile.model_fields) - {"version", "sources"}
    assert (set(FLEET_KEYS), set(FOREIGN_KEYS)) == (ours, set(NOT_OF_FLEETS))


WRONG: list[Any] = [1, -1, 1.5, True, "", "text", [], [1], {}, {"a": 1}, {"type": "x"}]


@pytest.mark.parametrize("key", [*FleetFile.model_fields, *NOT_OF_FLEETS])
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_whatever_stands_at_the_top_is_read_or_refused(write: Write, key: str, value: Any) -> None:
    _read_or_refused(write(f"{key}: {value!r}\n"))


@pytest.mark.parametrize(
    "key",
    [
        *FleetFile.model_fields["defaults"].annotation.model_fields,
        "workspace",
        "permissions",
        "docker",
        "chat",
        "tools",
    ],
)
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_whatever_stands_in_an_agent_is_read_or_refused(write: Write, key: str, value: Any) -> None:
    _read_or_refused(
        write(f"defaults:\n  {key}: {value!r}\nagents:\n- name: smith\n  {key}: {value!r}\n")
    )


SCALARS = st.sampled_from(
    [None, True, 0, -1, 0.5, "", "a", "5m", "@daily", "github", "queue", "command", "webhook",
     "A/b", "../a", "rota.yaml", "${S}", "x${S}", "${T:-z}"]
)  # fmt: skip
KEYS = st.sampled_from(
    [*AgentConfig.model_fields, *FleetFile.model_fields, *NOT_OF_FLEETS, "type", "interval", "cron",
     "root", "permissions", "bash", "mode", "on_events", "command", "url", "path", "overrides",
     "labels", "secret_env", "allowed_tools", "1"]
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(KEYS, ANYTHING, max_size=4), st.dictionaries(KEYS, ANYTHING, max_size=4))
def test_no_file_breaks_the_reader_or_gives_a_variable_away(
    tmp_path: Path, top: dict[str, Any], one: dict[str, Any]
) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text(json.dumps({**top, "agents": [{**one, "name": "smith"}]}))
    told = ""
    try:
        told = repr(dict(load_fleet(path, {"S": SECRET}).shown))
    except InvalidInput as error:
        told = f"{error.message} {error.details}"
    assert SECRET not in told


def _read_or_refused(path: Path) -> None:
    told = ""
    try:
        load_fleet(path, {})
    except InvalidInput as error:
        told = error.message
    assert all(one.startswith(f"{path}:") for one in told.splitlines())


def test_attempts_that_nobody_counts_are_warned_of(write: Write) -> None:
    tasks = "work_source: {type: markdown, path: .}"
    path = write(f"agents:\n  - name: smith\n    {tasks}\n    retry: {{max_attempts: 5}}\n")
    (told,) = loaded(path).warnings
    assert told.startswith(f"{path}:4:5: agents[0].retry: not acted on: a Markdown file counts no")
    by_schedule = "{morning: {type: interval, interval: 5m, work_source: {type: queue}}}"
    path.write_text(f"{path.read_text()}    schedules: {by_schedule}\n")
    assert loaded(path).warnings == (), "the queue counts"
    assert loaded(write("agents: [{name: smith, retry: {max_attempts: 5}}]\n")).warnings == ()
    shared = "defaults: {retry: {max_attempts: 5}}\n"
    assert loaded(write(f"{shared}agents: [{{name: smith, {tasks}}}]\n")).warnings == ()


WARNED = """
    working_directory: nowhere
    max_turns: 3
    runtime: {type: command, command: [no-such-program]}
    instances: {max_concurrent: 3}
    schedules: {often: {type: interval, interval: 5m}}
    work_source: {type: markdown, path: .}
    retry: {max_attempts: 5}
"""


OF_ALL = {"working_directory", "max_turns", "runtime.command", "instances.max_concurrent", "retry"}


@pytest.mark.parametrize(
    ("right", "wrong", "quiet"),
    [
        ("max_turns", "wrong: 1\n    max_turns", set()),
        ("smith", "A B", set()),
        ("max_attempts: 5", "max_attempts: x", set()),
        ("[no-such-program]", "1", {"max_turns", "runtime.command"}),
        ("nowhere", "[]", {"working_directory", "runtime.command"}),
        ("max_concurrent: 3", "max_concurrent: x", {"instances.max_concurrent"}),
        ("interval: 5m", "interval: x", {"instances.max_concurrent", "retry"}),
        ("path: .", "path: 1", set()),
        (
            "5m}}\n    work_source: {type: markdown, path: .}",
            "5m, work_source: {type: markdown, path: .}}}\n    work_source: 1",
            {"retry"},
        ),
    ],
)
def test_warnings_of_an_agent_are_told_beside_its_mistakes(
    write: Write, right: str, wrong: str, quiet: set[str]
) -> None:
    text = f"agents:\n  - name: smith{WARNED}"
    sound = load_fleet(write(text), {"PATH": "/nowhere"}, runs_here=True)
    assert {one.split(": ")[1] for one in sound.warnings} == {f"agents[0].{one}" for one in OF_ALL}
    with pytest.raises(InvalidInput) as refused:
        load_fleet(write(text.replace(right, wrong)), {"PATH": "/nowhere"}, runs_here=True)
    told = {one["key"] for one in refused.value.details["warnings"]}
    assert told == {f"agents[0].{one}" for one in OF_ALL - quiet}
