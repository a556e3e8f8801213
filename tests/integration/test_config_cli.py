"""`rota init` and `rota config`, as they are typed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rota.cli.init import EXAMPLES
from rota.config.fleet_file import FleetFile
from rota.config.loading import load_fleet
from tests.acceptance.terminal import Terminal, ThisProcess, running_server, until
from tests.faults.processes import fill, small_disk

HERDCTL = Path(__file__).parents[1] / "data/herdctl/herdctl.yaml"
PAST_AND_TO_COME = ("2020-01-01", "2999-01-01")


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """On a machine that has the program of an agent that names none."""
    programs = tmp_path_factory.mktemp("bin")
    (programs / "claude").touch(0o755)
    return ThisProcess(tmp_path, {"PATH": f"{programs}:{os.environ['PATH']}"})


def write(here: Terminal, text: str) -> Path:
    path = here.place / "rota.yaml"
    path.write_text(text)
    return path


CAT, OFTEN = "runtime: {type: command, command: [cat]}", "{type: interval, interval: 5m}"
AGENTS = f"agents:\n  - {{name: a, {CAT}}}\n"

# does it do anything


@pytest.mark.parametrize("text", ["", "# later\n", "version: 1\nagents: []\n"])
def test_a_file_that_names_nothing_is_warned_of_when_it_is_checked(
    here: Terminal, text: str
) -> None:
    path = write(here, text)
    (warning,) = here.json("config", "check")["warnings"]
    assert warning["message"] == "it names no agent, no source, no signal and no channel"
    assert load_fleet(path, {}).warnings == (), "it is the way to have none"
    write(here, "sources: [{type: markdown, path: .}]\n")
    assert here.json("config", "check")["warnings"] == []


def test_an_agent_that_nothing_wakes_is_warned_of_when_it_is_checked(here: Terminal) -> None:
    path = write(here, f"{AGENTS}  - {{name: b, {CAT}, schedules: {{often: {OFTEN}}}}}\n")
    checked = here.type("config", "check").splitlines()
    assert checked == [
        "warn    rota.yaml:2:5: agents[0]: nothing wakes agent 'a': it has no schedule; only"
        " `rota worker --agent a` runs it",
        "ok      rota.yaml: 2 agents, 1 schedule, 0 sources",
    ]
    assert load_fleet(path, {}).warnings == (), "workers need no schedules"


# a beginning


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_init_writes_is_right_and_says_what_it_is(here: Terminal, example: str) -> None:
    here.type("init", "--example", example)
    checked = here.json("config", "check")
    assert (checked["ok"], checked["warnings"], checked["agents"]) == (True, [], 1)
    text = (here.place / "rota.yaml").read_text()
    assert text.startswith("# A fleet for Rota")
    assert text.count("#") > 8
    assert load_fleet(here.place / "rota.yaml", {}).fleet.agents[0].schedules


def test_init_overwrites_nothing_unless_told_to(here: Terminal) -> None:
    path = write(here, "version: 1\n")
    refused = here.json("init", code=7)
    assert refused["code"] == "refused"
    assert "--force" in refused["message"]
    assert path.read_text() == "version: 1\n"
    here.type("init", "--force")
    assert path.read_text() != "version: 1\n"


def test_init_says_how_to_go_on_with_the_file_that_it_wrote(here: Terminal) -> None:
    assert here.run("init").stderr == "Next: rota config check, then rota up.\n"
    assert here.run("init", "a g.yaml").stderr == (
        "Next: rota config check --config 'a g.yaml', then rota up --config 'a g.yaml'.\n"
    )


def test_init_names_a_command_that_works_where_rota_is_not_on_the_path(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "rota"
    ended = subprocess.run(
        [program, "init"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert ended.stderr == f"Next: {program} config check, then {program} up.\n"


def test_init_sends_nobody_to_start_the_server_that_runs(tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    with running_server(tmp_path):
        said = here.run("init").stderr
        assert said == "Next: rota config check, then rota config reload.\n"
        assert here.type("config", "reload") == "read    1 agent, 0 sources\n"


def test_init_leaves_no_empty_file_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        ballast = fill(disk)
        here = Terminal(disk)
        assert "No space left on device" in here.json("init", code=2)["message"]
        assert not (disk / "rota.yaml").exists()
        ballast.unlink()
        here.type("init")


def test_init_writes_where_it_is_told_to(here: Terminal) -> None:
    assert here.json("init", "other.yaml") == {"file": "other.yaml", "example": "command"}
    assert "1 agent" in here.type("config", "check", "--config", "other.yaml")
    assert here.json("init", "gone/rota.yaml", code=2)["code"] == "invalid_input"


def test_the_file_is_named_by_itself_or_by_the_option(here: Terminal) -> None:
    assert here.json("init", "--config", "other.yaml")["file"] == "other.yaml"
    for words in (["other.yaml"], ["--config", "other.yaml"]):
        assert here.json("config", "check", *words)["file"] == "other.yaml"
        assert here.json("config", "show", *words)["version"] == 1
    for command in (["init"], ["config", "check"], ["config", "show"]):
        twice = here.json(*command, "a.yaml", "--config", "b.yaml", code=2)
        assert "name the same thing" in twice["message"]
    here.variables["ROTA_CONFIG"] = "mine.yaml"
    assert here.json("init")["file"] == here.json("config", "check")["file"] == "mine.yaml"


def test_what_init_writes_works(tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    here.type("init")
    item = here.type("add", "Say hello").strip()
    with running_server(tmp_path):
        until(lambda: here.json("show", item)["status"] == "completed")
        assert "Say hello" in here.json("show", item)["notes"]


# is it right


def test_a_file_that_is_right_is_counted(here: Terminal) -> None:
    write(
        here,
        "agents:\n  - {name: smith, work_source: {type: queue}, schedules:\n"
        "     {a: {type: interval, interval: 5m}, b: {type: cron, cron: '@daily'}}}\n"
        "  - {name: jones, work_source: {type: memory}, schedules: {a: {type: chat,"
        " work_source: {type: memory}}}}\n"
        "sources: [{type: queue}]\n",
    )
    assert here.type("config", "check") == "ok      rota.yaml: 2 agents, 3 schedules, 2 sources\n"


def test_mistakes_are_told_one_a_line_and_the_answer_is_no(here: Terminal) -> None:
    write(here, "agents:\n  - name: ../smith\n    modle: x\n")
    told = here.type("config", "check", code=1).splitlines()
    assert [line.partition(": ")[0] for line in told] == [
        "fail    rota.yaml:2:5",
        "fail    rota.yaml:3:5",
    ]
    data = here.json("config", "check", code=1)
    assert data["ok"] is False
    assert data["mistakes"][1] == {
        "file": "rota.yaml",
        "line": 3,
        "column": 5,
        "key": "agents[0].modle",
        "message": "unknown key; did you mean 'model'?",
    }


def test_a_type_that_is_not_installed_is_told_and_no_server_starts_with_it(here: Terminal) -> None:
    write(here, "agents:\n  - {name: a, work_source: {type: qeue, types: [g]}}\n")
    told = "rota.yaml:2:29: agents[0].work_source.type: no source of type 'qeue' is installed"
    assert here.type("config", "check", code=1).startswith(f"fail    {told}; did you mean 'queue'?")
    assert told in here.type("doctor", code=1)
    up = here.run("up", "--port", "0")
    assert (up.returncode, told in up.stderr) == (2, True)


def test_a_file_that_is_no_yaml_is_told_with_its_place(here: Terminal) -> None:
    write(here, "agents: [\n")
    (told,) = here.json("config", "check", code=1)["mistakes"]
    assert (told["file"], told["line"], told["column"]) == ("rota.yaml", 2, 1)
    assert here.type("config", "check", code=1).startswith("fail    rota.yaml:2:1: the file ends")


def test_warnings_are_listed_and_the_answer_is_yes(here: Terminal) -> None:
    told = here.type("config", "check", "--config", str(HERDCTL)).splitlines()
    assert told[-1].endswith("4 agents, 6 schedules, 2 sources")
    assert all(line.startswith("warn    ") for line in told[:-1])
    warned = here.json("config", "check", "--config", str(HERDCTL))["warnings"]
    assert len(warned) == len(told) - 1
    assert {"file", "line", "column", "key", "message"} == set(warned[0])


def test_a_signal_whose_moment_has_passed_is_told_and_is_no_mistake(here: Terminal) -> None:
    remind, later = (json.dumps({"when": {"kind": "time", "at": at}}) for at in PAST_AND_TO_COME)
    write(here, f"signals:\n  remind: {remind}\n  later: {later}\n")
    told, counted = here.type("config", "check").splitlines()
    assert told.startswith("warn    rota.yaml:2:3: signals.remind: when.at: this moment has passed")
    assert counted == "ok      rota.yaml: 0 agents, 0 schedules, 0 sources"
    (warned,) = here.json("config", "check")["warnings"]
    assert (warned["key"], warned["line"]) == ("signals.remind", 2)
    refused = here.run("signal", "add", "--at", "2020-01-01", "--then", "submit", "--title", "x")
    assert (refused.returncode, "is in the past" in refused.stderr) == (2, True)


def test_warnings_are_told_beside_mistakes(here: Terminal) -> None:
    write(here, "agents:\n  - {name: smith, modle: x, work_source: {type: github}}\n")
    told = here.type("config", "check", code=1).splitlines()
    assert [line.split()[0] for line in told] == ["fail", "warn"]
    assert "it names no repository" in told[1]
    assert len(here.json("config", "check", code=1)["warnings"]) == 1


def test_a_program_that_is_not_on_the_path_is_a_warning(here: Terminal) -> None:
    write(
        here,
        "agents:\n  - {name: smith, runtime: {type: command, command: [nosuchprogram]}}\n",
    )
    assert "warn    rota.yaml:2:" in here.type("config", "check")
    told = here.type("doctor").splitlines()
    (warned,) = [line for line in told if "nosuchprogram" in line]
    assert warned.startswith("warn    configuration: rota.yaml:2:")


def test_a_directory_is_told_from_a_file_that_is_missing(here: Terminal) -> None:
    told = here.run("config", "check", "--config", str(here.place)).stderr
    assert told == (
        f"rota: {here.place} is a directory; name the file in it, for example"
        f" {here.place}/rota.yaml\n"
    )


def test_without_a_file_one_is_told_how_to_get_it(here: Terminal) -> None:
    for command in ("check", "show"):
        done = here.run("config", command)
        assert (done.returncode, "rota init" in done.stderr) == (1, True)
    assert here.run("config", "check", "--config", "gone.yaml").returncode == 2


# what results


def test_what_is_shown_reads_as_the_same_fleet_again(here: Terminal, tmp_path: Path) -> None:
    variables = {"ALMANAC_KEY": "tide"}
    shown = here.type("config", "show", "--config", str(HERDCTL))
    path = write(here, shown)
    # Headers that are called like a secret are not shown; they are all that is lost.
    first, again = load_fleet(HERDCTL, variables), load_fleet(path, variables)
    headers = [one.run.on_error[0].headers for one in again.fleet.agents if one.run.on_error]
    assert headers == [{"Authorization": "***"}]
    path.write_text(shown.replace("'***'", "Bearer none"))
    again = load_fleet(path, variables)
    assert again.fleet.agents == first.fleet.agents
    assert again.digest == first.digest


SECRET = "hunter2hunter2"


def test_no_command_shows_what_came_from_the_environment(tmp_path: Path) -> None:
    here = ThisProcess(tmp_path, {"HIDDEN_THING": SECRET})
    write(
        here,
        "agents:\n  - name: smith\n    env: {A: '${HIDDEN_THING}', PASSWORD: plain}\n"
        "    working_directory: gone-${HIDDEN_THING}\n",
    )
    for words in (["check"], ["show"], ["check", "--json"], ["show", "--json"]):
        done = here.run("config", *words)
        assert done.returncode == 0
        assert SECRET not in done.stdout + done.stderr
        assert "plain" not in done.stdout
    assert here.json("config", "show")["agents"][0]["env"] == {
        "A": "${HIDDEN_THING}",
        "PASSWORD": "***",
    }
    write(here, "agents: [{name: smith, timeout: '${HIDDEN_THING}'}]\n")
    done = here.run("config", "check")
    assert done.returncode == 1
    assert SECRET not in done.stdout + done.stderr


def test_nothing_in_a_file_commands_the_terminal(here: Terminal) -> None:
    write(here, 'agents: [{name: smith, description: "\\e[2Jgone", "\\e[1m": 1}]\n')
    assert "\x1b" not in here.type("config", "check", code=1)
    write(here, 'agents: [{name: smith, description: "\\e[2Jgone"}]\n')
    assert "\x1b" not in here.type("config", "show")


# for editors


def test_the_schema_describes_every_key(here: Terminal) -> None:
    schema = json.loads(here.type("config", "schema"))
    assert set(schema["properties"]) == set(FleetFile.model_fields)
    assert here.json("config", "schema") == schema
    agent = schema["$defs"]["AgentConfig"]
    assert agent["required"] == ["name"]
    assert agent["additionalProperties"] is False
    source = agent["properties"]["work_source"]["anyOf"][0]
    assert {"#/$defs/GitHubSource", "#/$defs/QueueSource"} <= set(references(source))


def references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"]] if "$ref" in schema else []
        return own + [found for one in schema.values() for found in references(one)]
    if isinstance(schema, list):
        return [found for one in schema for found in references(one)]
    return []


def test_every_reference_in_the_schema_leads_somewhere(here: Terminal) -> None:
    schema = here.json("config", "schema")
    named = {one.removeprefix("#/$defs/") for one in references(schema)}
    assert named <= set(schema["$defs"])
