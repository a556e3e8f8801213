"""Every command: its help, its JSON, and what it says to wrong input."""

import asyncio
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import apsw
import click
import pytest

from rota.app import open_queue
from rota.cli.ending import _EXIT_CODES, SERVER
from rota.cli.root import SECTIONS, rota
from rota.client._sync import runtime
from rota.model import errors
from rota.model.errors import RotaError
from rota.model.work import NewItem
from rota.storage import sqlite
from tests.acceptance.terminal import ThisProcess


def commands(group: click.Group = rota, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        assert one is not None
        if isinstance(one, click.Group):
            yield from commands(one, f"{before}{name} ")
        else:
            yield f"{before}{name}", one


COMMANDS = dict(commands())


@pytest.fixture
def here(tmp_path: Path) -> ThisProcess:
    return ThisProcess(tmp_path)


# help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_begins_with_the_command(here: ThisProcess, name: str) -> None:
    text = here.type(*name.split(), "--help")
    example = text.partition("Example: ")[2].strip()
    assert example.startswith(f"rota {name}")
    assert "--json" in text


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_text_without_control_characters(here: ThisProcess, name: str) -> None:
    assert here.type(*name.split(), "--help").replace("\n", "").isprintable()


def test_the_help_of_the_whole_fits_into_a_terminal_of_80_columns(tmp_path: Path) -> None:
    text = ThisProcess(tmp_path, {"COLUMNS": "80"}).type("--help")
    assert max(map(len, text.splitlines())) <= 80
    assert "  Exit codes: 0 ok," in text, "at the beginning of a paragraph"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_is_well_formed(name: str) -> None:
    """Parsed, not run: options that the command does not have are an error."""
    command = COMMANDS[name]
    example = (command.epilog or "").partition("Example: ")[2]
    words = shlex.split(example)[1 + len(name.split()) :]
    command.make_context(name, words)


def test_the_table_of_commands_says_what_the_commands_say() -> None:
    context = click.Context(rota)
    for section in SECTIONS.values():
        for name, (_, text) in section.items():
            command = rota.get_command(context, name)
            assert command is not None
            assert text.endswith(".")
            assert command.help, name
            assert command.name == name


def test_commands_of_the_contract_are_there() -> None:
    wanted = (
        "up serve doctor add list ready show claim start note done fail block resume release retry"
        " cancel dispatch explain stale watch hold unhold edit reopen hand-over heartbeat"
    )
    assert set(wanted.split()) <= set(COMMANDS)
    groups = {"project add", "agent set", "token create", "db status"}
    assert groups <= set(COMMANDS)


@pytest.mark.parametrize("group", ["", " schedule", " token"])
def test_an_unknown_command_is_told_its_neighbour(here: ThisProcess, group: str) -> None:
    done = here.run(*group.split(), "lst")
    assert done.returncode == 2
    told = f"rota: there is no command 'lst'; did you mean list?\nTry: rota{group} --help\n"
    assert done.stderr == told


@pytest.mark.parametrize("words", [[], ["project"], ["agent"], ["token"], ["db"], ["run"]])
def test_groups_without_a_member_show_their_help_as_it_is(
    here: ThisProcess, words: list[str]
) -> None:
    done = here.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == here.type(*words, "--help")
    assert "Example" in done.stderr


def test_a_program_that_names_no_command_gets_one_document(here: ThisProcess) -> None:
    document = json.loads(here.type("--json", "run", code=2))
    assert document["error"]["message"] == "name a command; rota run --help lists them"
    assert json.loads(here.type("--json", code=2))["error"]["code"] == "usage"


# in the words of the command line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("add x --agent 'A B'", "--agent: 'A B' is not a name; "),
        ("add ' '", "DESCRIPTION: it is empty; "),
        ("add x --max-attempts 0", "--max-attempts: 0 is out of range; "),
        ("add x --key 'a b'", "--key: use 1 to 150 "),
        ("add x --project none-such", "--project: there is no project 'none-such'; "),
        ("edit {item} --agent 'A B'", "--agent: 'A B' is not a name; "),
        ("dispatch {item}", "dispatch needs AGENT: who shall do it?"),
        ("dispatch {item} 'A B'", "AGENT: 'A B' is not a name; "),
        ("hand-over {item} nourl", "URL: 'nourl' is not an address; "),
        ("claim --agent smith --lease 0", "--lease: 0s is out of range; use 1s to 7d\n"),
        ("claim --agent smith --lease 8d", "--lease: 8d is out of range; use 1s to 7d\n"),
        ("claim --agent smith --lease 11520m", "--lease: 8d is out of range; use 1s to 7d\n"),
        ("claim --agent smith --lease 0.5", "--lease: 0.5s is out of range; use 1s to 7d\n"),
        ("watch --since 99999999999999999999 --no-follow", "--since: it has to be a whole number"),
        ("watch --type nosuch --no-follow", "--type: 'nosuch' is no event type; "),
        ("token create x --scope nosuch", "--scope: 'nosuch' is unknown; "),
        ("token create x --scope read --expires 2001-01-01", "--expires: 2001-01-01T"),
        ("agent set 'A B' --max-concurrent 3", "NAME: 'A B' is not a name; "),
        ("agent set x --max-in-review many", "Invalid value for '--max-in-review': 'many' is no"),
        ("list --since soon", "Invalid value for '--since': 'soon' is not a time; "),
        ("list --limit ten", "Invalid value for '--limit': 'ten' is not a valid integer."),
        ("demo --seconds ten", "Invalid value for '--seconds': 'ten' is not a valid number."),
        ("project add ' '", "NAME: it is empty"),
        ("signal add --at soon --then hold", "Invalid value for '--at': 'soon' is not a time; "),
        (
            "done {item}",
            "{item} is queued; rota done is not possible from there (possible: rota claim →"
            " in_progress, rota dispatch → dispatched, rota cancel → cancelled)\n",
        ),
        (
            "hand-over {item} https://example.org",
            "{item} is queued; rota hand-over is not possible from there (possible: rota claim",
        ),
    ],
)
def test_a_refusal_names_options_and_commands(here: ThisProcess, line: str, told: str) -> None:
    item = here.type("add", "Something").strip()
    done = here.run(*shlex.split(line.replace("{item}", item)))
    assert done.returncode in (2, 7)
    assert done.stderr.startswith("rota: " + told.replace("{item}", item)), done.stderr


def test_a_refusal_for_programs_names_fields_and_verbs(here: ThisProcess) -> None:
    item = here.type("add", "Something").strip()
    assert here.json("claim", "--agent", "a", "--lease", "0", code=2)["message"].startswith(
        "lease_seconds: "
    )
    assert "; complete is not possible" in here.json("done", item, code=7)["message"]


def test_a_refusal_of_claimed_work_names_the_options_that_end_it(here: ThisProcess) -> None:
    item = here.type("add", "Something").strip()
    here.type("claim", "--agent", "smith")
    for line in ("done", "fail", "release", "block --notes x"):
        verb, *more = line.split()
        told = here.run(verb, item, *more).stderr
        assert told.endswith("show its token (--token), or take it away (--force)\n"), told


def test_what_is_final_is_told_as_such(here: ThisProcess) -> None:
    item = here.type("add", "Something").strip()
    here.type("cancel", item)
    told = here.run("retry", item).stderr
    assert told.endswith(
        "rota retry is not possible from there (nothing is: this status is final)\n"
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("add x --payload - --body -", "cannot both be read from standard input"),
        ("edit {item} --label none --label x", "--label none takes all away"),
        ("edit {item} --blocked-by x --blocked-by none", "--blocked-by none takes all away"),
        ("done {item} --force --token nonsense", "use one"),
        ("release {item} --force --token nonsense", "use one"),
        ("doctor --url http://127.0.0.1:1", "it looks at this machine"),
        ("db status --url http://127.0.0.1:1", "it opens the database itself"),
        ("db upgrade --url http://127.0.0.1:1", "it opens the database itself"),
        ("db backup x.db --url http://127.0.0.1:1", "it opens the database itself"),
    ],
)
def test_what_contradicts_itself_is_refused(here: ThisProcess, line: str, told: str) -> None:
    item = here.type("add", "Something").strip()
    done = here.run(*shlex.split(line.replace("{item}", item)), stdin="{}")
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("name", ["run", "follow-up", "signal"])
def test_an_item_that_is_not_there_is_told_from_one_that_has_nothing(
    here: ThisProcess, name: str
) -> None:
    item = here.type("add", "Something").strip()
    assert here.json(name, "list", "--item", item) == []
    assert here.json(name, "list", "--item", "nosuch", code=1)["code"] == "not_found"


def test_a_second_project_of_one_name_has_to_be_wanted(here: ThisProcess) -> None:
    first = here.type("project", "add", "mill").strip()
    refused = here.run("project", "add", "mill")
    assert refused.returncode == 7
    assert refused.stderr == (
        f"rota: there is a project 'mill' already: {first}; use that one, or make another with"
        " --same-name\n"
    )
    here.type("project", "edit", "mill", "--name", "mill")
    other = here.type("project", "add", "farm").strip()
    assert here.run("project", "edit", "farm", "--name", "mill").returncode == 7
    second = here.type("project", "add", "mill", "--same-name").strip()
    told = here.run("add", "x", "--project", "mill").stderr
    assert told.startswith("rota: --project: 2 are named 'mill'; give the id of one: ")
    assert first in told
    assert second in told
    here.type("project", "edit", other, "--name", "mill", "--same-name")


# exit codes


def test_every_error_of_the_ledger_has_its_exit_code() -> None:
    kinds = {
        kind.code
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, RotaError)
    }
    storage = {
        "error",
        "storage_error",
        "no_ledger",
        "storage_unavailable",
        "storage_busy",
        "storage_locked",
        "commit_unknown",
    }
    assert kinds - set(_EXIT_CODES) == storage | {"schema_behind", "schema_ahead"}
    assert SERVER == 6


WRONG = [
    # usage: refused before or by the server
    (2, "add"),
    (2, "add ''"),
    (2, "add x --key ''"),
    (2, "add x --priority 9"),
    (2, "add x --priority urgent"),
    (2, "add x --payload {"),
    (2, "add x --payload NaN"),
    (2, """add x --payload '{"a": 1, "a": 2}'"""),
    (2, "add x --payload @missing.json"),
    (2, "add x --body @missing.md"),
    (2, "add x --project none-such"),
    (2, "add x --agent 'Not A Name'"),
    (2, "add x --blocked-by none-such"),
    (2, "add x --max-attempts 0"),
    (2, "add x --max-attempts many"),
    (2, "add x --available-at tomorrow"),
    (2, "add x --available-at +99999999999d"),
    (2, "add x --type ''"),
    (2, "add x y"),
    (2, "list --status open"),
    (2, "list --since yesterday"),
    (2, "list --limit 0"),
    (2, "list --no-such-option"),
    (2, "list --agent ''"),
    (2, "list --actor ''"),
    (2, "--actor '' list"),
    (2, "list --url ''"),
    (2, "list --db ''"),
    (2, "list --state-dir ''"),
    (2, "config check --config ''"),
    (2, "list --type ''"),
    (2, "list --label ''"),
    (2, "list --search ''"),
    (2, "list --project ''"),
    (2, "list --label \udcff"),
    (2, "show \udcff"),
    (2, "ready --agent ''"),
    (2, "board --once --agent ''"),
    (2, "run list --agent ''"),
    (2, "watch --item '' --no-follow"),
    (2, "watch --type '' --no-follow"),
    (2, "ready --limit 0"),
    (2, "show"),
    (2, "explain"),
    (2, "watch --since -1"),
    (2, "watch --type no.such --limit 1"),
    (2, "watch --type no.such --no-follow"),
    (2, "edit QUEUED"),
    (2, "edit QUEUED --priority 0"),
    (2, "edit QUEUED --blocked-by QUEUED"),
    (2, "note QUEUED ''"),
    (2, "note QUEUED"),
    (2, "claim"),
    (2, "claim --agent 'Not A Name'"),
    (2, "claim --agent ann --lease soon"),
    (2, "claim --agent ann --lease 0"),
    (2, "claim --agent ann --limit 0"),
    (2, "claim --agent ann --wait never"),
    (2, "heartbeat QUEUED"),
    (2, "block QUEUED"),
    (2, "hand-over QUEUED"),
    (2, "hand-over QUEUED javascript:alert(1)"),
    (2, "dispatch QUEUED"),
    (2, "dispatch QUEUED 'Not A Name'"),
    (2, "release QUEUED --available-at never"),
    (2, "hold QUEUED"),
    (2, "hold QUEUED --reason ''"),
    (2, "start"),
    (2, "start QUEUED --lease 1y"),
    (2, "project add ''"),
    (2, "project edit none-such"),
    (2, "agent set 'Not A Name'"),
    (2, "agent set ann --max-concurrent 0"),
    (2, "agent pause ../etc"),
    (2, "agent set ann"),
    (2, "issue pause foo"),
    (2, "token create ci"),
    (2, "token create ci --scope everything"),
    (2, "token create ci --scope work --expires later"),
    (2, "token create ci --scope work --expires 2020-01-01"),
    (2, "db backup"),
    (2, "db status --db mysql://localhost/rota"),
    (2, "add x --db :memory:"),
    (2, "up --db sqlite:///:memory:"),
    (2, "up --port http"),
    (2, "up --port 99999"),
    (2, "up --url http://127.0.0.1:1"),
    (2, f"config check --config {'x' * 300}"),
    (2, f"up --config {'x' * 300}"),
    (2, "up --drain nan"),
    (2, "demo --seconds nan"),
    (2, "issue sweep octocat/hello --max-age-hours nan"),
    (2, "list --url nonsense"),
    (2, "list --url http://127.0.0.1:1 --db x.db"),
    # negative answers
    (1, "show none-such"),
    (1, "explain none-such"),
    (1, "watch --item none-such --limit 1"),
    (1, "watch --item none-such --no-follow"),
    (1, "edit none-such --priority 1"),
    (1, "note none-such hello"),
    (1, "start none-such"),
    (1, "heartbeat none-such --token t"),
    (1, "hold none-such --reason r"),
    (1, "unhold none-such"),
    (1, "project show none-such"),
    (1, "project edit none-such --name n"),
    (1, "token revoke none-such"),
    (1, "claim --agent ann --type none-such"),
    (1, "ready --type none-such"),
    # network
    (5, "list --url http://127.0.0.1:1"),
    # storage
    (6, "list --db /proc/none/rota.db"),
    (6, "db backup no/such/dir.db"),
    (6, "db status --db none-such.db"),
    (6, "export --db none-such.db --output new.jsonl"),
    (2, "db restore none-such.db"),
    (2, "db backup ."),
    (2, "export --output ."),
    # conflicts
    (7, "start QUEUED"),
    (7, "done QUEUED"),
    (7, "fail QUEUED"),
    (7, "block QUEUED --notes n"),
    (7, "resume QUEUED"),
    (7, "release QUEUED"),
    (7, "hand-over QUEUED https://example.org/1"),
    (7, "reopen QUEUED"),
    (7, "retry QUEUED"),
    (7, "cancel DONE"),
    (7, "dispatch DONE ann"),
    (7, "hold DONE --reason r"),
    (7, "edit QUEUED --priority 1 --if-version 99"),
    (7, "heartbeat QUEUED --token wrong"),
    (7, "done QUEUED --token wrong"),
]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[ThisProcess, dict[str, str]]:
    """An item in the queue and one that is done; wrong input changes neither."""
    here = ThisProcess(tmp_path_factory.mktemp("ledger"))
    done = here.type("add", "Done").strip()
    here.type("dispatch", done, "bob", "--start")
    here.type("done", done)
    return here, {"QUEUED": here.type("add", "Queued").strip(), "DONE": done}


@pytest.mark.parametrize(("code", "line"), WRONG, ids=[line for _, line in WRONG])
def test_wrong_input_has_its_exit_code_a_message_and_no_effect(
    ledger: tuple[ThisProcess, dict[str, str]], code: int, line: str
) -> None:
    here, names = ledger
    before = here.type("watch", "--since", "0", "--no-follow")
    words = [names.get(word, word) for word in shlex.split(line)]
    plain = here.run(*words)
    assert plain.returncode == code, plain.stdout + plain.stderr
    assert plain.stdout == ""
    assert plain.stderr.startswith(("rota: ", "nothing")), plain.stderr
    assert "Traceback" not in plain.stderr
    assert not re.search(r"regex|Expected `|`str`|\$\.", plain.stderr), plain.stderr
    machine = here.run(*words, "--json")
    assert (machine.returncode, machine.stderr) == (code, "")
    document = json.loads(machine.stdout)
    assert document["schema_version"] == 1
    if "error" in document:
        assert set(document["error"]) == {"code", "message", "details"}
    else:
        assert (document["data"], bool(document["meta"]["reason"])) == ([], True)
    assert here.type("watch", "--since", "0", "--no-follow") == before


# JSON


def test_every_command_answers_in_json(here: ThisProcess) -> None:
    item = here.json("add", "First", "--label", "a", "--key", "k")["id"]
    project = here.json("project", "add", "P")["id"]
    token = here.json("token", "create", "t", "--scope", "read")["id"]
    shapes: dict[str, type] = {
        "list": list,
        "ready": list,
        "board": dict,
        f"show {item}": dict,
        f"explain {item}": dict,
        f"edit {item} --priority 1": dict,
        f"note {item} hello": dict,
        f"hold {item} --reason r": dict,
        f"unhold {item}": dict,
        f"dispatch {item} ann": dict,
        f"start {item}": dict,
        f"block {item} --notes n": dict,
        f"resume {item}": dict,
        f"hand-over {item} https://example.org/1": dict,
        f"reopen {item}": dict,
        "claim --agent ann": list,
        f"release {item} --force": dict,
        f"dispatch {item} ann --start": dict,
        f"fail {item}": dict,
        f"retry {item}": dict,
        f"cancel {item}": dict,
        "stale": dict,
        "stats": dict,
        "project list": list,
        f"project show {project}": dict,
        f"project edit {project} --name Q": dict,
        "agent list": list,
        "agent set ann --max-concurrent 2": dict,
        "agent show ann": dict,
        "agent pause ann": dict,
        "agent resume ann": dict,
        "run list": list,
        "outbox list": list,
        "notify list": list,
        "signal list": list,
        "follow-up list": list,
        "signal add --on-status failed": dict,
        "signal test --on-status failed": list,
        "token list": list,
        f"token revoke {token}": dict,
        "db status": dict,
        "db upgrade": dict,
        "db backup copy.db": dict,
        "db restore copy.db": dict,
        "export --output ledger.jsonl": dict,
        "import rota ledger.jsonl": dict,
        "doctor --fix": list,
        "init": dict,
        "prime": dict,
        "setup generic --dry-run": list,
        "config check": dict,
        "config show": dict,
        "config schema": dict,
    }
    for line, shape in shapes.items():
        document = json.loads(here.type(*line.split(), "--json"))
        assert list(document) == ["schema_version", "data", "meta"], line
        assert isinstance(document["data"], shape), line
    apart = {
        "up",
        "serve",
        "worker",
        "config reload",
        "demo",
        "mcp",
        "watch",
        "done",
        "heartbeat",
        "add",
        "project add",
        "token create",
    }
    covered = {line.partition(" --")[0] for line in shapes} | apart
    for name in COMMANDS:
        if name.startswith(
            (
                "issue ",
                "source ",
                "hook ",
                "run ",
                "outbox ",
                "notify ",
                "schedule ",
                "signal ",
                "follow-up ",
                "import ",
            )
        ):
            # They need a tracker, runs, a fleet or a file: see tests/integration/test_*_cli.py
            continue
        assert any(line == name or line.startswith(f"{name} ") for line in covered), name


def test_done_and_heartbeat_answer_in_json(here: ThisProcess) -> None:
    here.type("add", "First")
    [item] = here.json("claim", "--agent", "ann", "--lease", "90")
    token = item["claim"]["token"]
    assert item["claim"]["lease_seconds"] == 90
    beat = here.json("heartbeat", item["id"], "--token", token, "--notes", "n")
    assert beat["expires_at"] > item["claim"]["expires_at"]
    assert here.json("done", item["id"], "--token", token)["status"] == "completed"


def test_a_stream_has_one_document_per_line(here: ThisProcess) -> None:
    for n in range(3):
        here.type("add", str(n))
    lines = here.type("watch", "--since", "0", "--limit", "2", "--json").splitlines()
    assert [json.loads(line)["data"]["seq"] for line in lines] == [1, 2]
    assert {json.loads(line)["schema_version"] for line in lines} == {1}


def test_a_limit_that_is_never_reached_is_none(here: ThisProcess) -> None:
    here.type("add", "Mend the gate")
    told = here.type("watch", "--since", "0", "--no-follow", "--limit", "9" * 30)
    assert "work.submitted" in told


def test_json_is_plain_ascii_whatever_the_ledger_holds(here: ThisProcess) -> None:
    here.type("add", "Zoë \x1b[31m \x9b \u202e")
    text = here.type("list", "--json")
    assert text.isascii()
    assert text.rstrip("\n").isprintable()
    assert json.loads(text)["data"][0]["description"] == "Zoë \x1b[31m \x9b \u202e"


def test_a_fault_of_ours_is_not_taken_for_an_answer(
    here: ThisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AttributeError("oops")

    monkeypatch.setattr("rota.cli.destination.connect", broken)
    done = here.run("list")
    assert done.returncode == 6
    assert "Traceback" in done.stderr


# lists


def test_a_list_says_when_there_is_more(here: ThisProcess) -> None:
    for n in range(3):
        here.type("add", str(n))
    document = json.loads(here.type("list", "--limit", "2", "--json"))
    assert (document["meta"]["count"], document["meta"]["more"]) == (2, True)
    assert "there are more" in here.run("list", "--limit", "2").stderr
    assert json.loads(here.type("list", "--json"))["meta"]["more"] is False


def _from_outside(here: ThisProcess) -> None:
    """An item that is taken through its source, and never by a plain claim."""

    async def submitted() -> None:
        async with open_queue(f"sqlite:///{here.place}/.rota/rota.db") as queue:
            await queue.submit(NewItem("bug", "Theirs", source="github:o/r", source_ref="1"))

    asyncio.run(submitted())


def test_ready_shows_what_a_claim_would_take_and_in_its_order(here: ThisProcess) -> None:
    low = here.type("add", "Low", "--priority", "lowest").strip()
    high = here.type("add", "High", "--priority", "critical").strip()
    named = here.type("add", "For Ann", "--agent", "ann").strip()
    here.type("add", "Later", "--available-at", "+1h")
    held = here.type("add", "Held").strip()
    here.type("hold", held, "--reason", "r")
    here.type("add", "Waits", "--blocked-by", low)
    mine = here.type("add", "Dispatched to Ann", "--priority", "low").strip()
    here.type("dispatch", mine, "ann")

    def ready(*words: str) -> list[str]:
        return [line.split("\t")[0] for line in here.type("ready", *words).splitlines()]

    _from_outside(here)
    assert ready() == [high, named, low]
    assert ready("--agent", "bob") == [high, low]
    assert ready("--agent", "ann") == [mine, high, named, low]
    assert ready("--agent", "ann", "--limit", "1") == [mine]
    here.type("agent", "set", "ann", "--max-concurrent", "9")
    claimed = here.type("claim", "--agent", "ann", "--limit", "9").splitlines()
    assert [line.split("\t")[0] for line in claimed] == [mine, high, named, low]


def test_the_actor_is_written_to_the_log(here: ThisProcess) -> None:
    item = here.json("add", "Who?", "--actor", "marcus-a")
    assert item["created_by"] == "marcus-a"
    here.variables["ROTA_ACTOR"] = "gitea-watcher"
    assert here.json("add", "Who?")["created_by"] == "gitea-watcher"


def test_an_edit_lets_a_deferred_item_go(here: ThisProcess) -> None:
    item = here.type("add", "Later", "--available-at", "2999-01-01T00:00:00Z").strip()
    here.type("ready", code=1)
    here.type("edit", item, "--available-at", "now")
    assert here.type("ready").startswith(item)


def test_the_same_key_adds_an_item_once(here: ThisProcess) -> None:
    first = here.type("add", "Once", "--key", "k")
    assert here.type("add", "Once", "--key", "k") == first
    assert here.json("add", "Another", "--key", "k", code=7)["code"] == "idempotency_key_reused"


def test_a_command_waits_once_for_a_lock_on_the_ledger(
    here: ThisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.type("add", "First")
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(runtime, "sleep", lambda seconds: pytest.fail("it is tried again"))
    holder = apsw.Connection(str(tmp_path / ".rota" / "rota.db"))
    holder.execute("BEGIN IMMEDIATE")
    done = here.run("add", "Second")
    holder.close()
    assert (done.returncode, "has held its lock for too long" in done.stderr) == (SERVER, True)
