"""The command line walked through in real processes: on a database file, and against a server."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.app import open_store
from rota.cli.destination import Unmade, opened
from rota.client import SyncWorkQueueClient
from rota.config import Settings, StateDir
from rota.model.claims import ClaimRequest
from rota.model.schedules import TriggerKind
from rota.queue.ledger import Ledger
from rota.scheduler import Scheduler
from rota.testing import zygote
from tests.acceptance.terminal import (
    ROTA,
    Terminal,
    ThisProcess,
    environment,
    running_server,
    until,
)
from tests.faults.processes import free_port


@pytest.fixture
def shell(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> ThisProcess:
    return ThisProcess(tmp_path)


@pytest.fixture(params=["database", "server"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """The same commands without a server and with one: nothing on the command line differs."""
    if request.param == "database":
        yield Terminal(tmp_path)
    else:
        with running_server(tmp_path):
            yield Terminal(tmp_path)


def test_an_item_from_the_first_word_to_the_last(either: Terminal) -> None:
    item = either.type("add", "Mend the gate", "--type", "bug_fix", "--priority", "high").strip()
    assert re.fullmatch(r"[0-9a-f-]{36}", item)
    listed = either.type("list").split("\t")
    assert listed[:5] == [item, "2", "queued", "bug_fix", ""]
    assert either.type("ready", "--agent", "ann").startswith(item)
    claimed = either.type("claim", "--agent", "ann", "--lease", "10m").split("\t")
    token = claimed[1]
    assert claimed[0] == item
    assert "no_free_slot" in either.type("claim", "--agent", "ann", "--json", code=1)
    assert "yours until" in either.type("heartbeat", item, "--token", token, "--progress", "half")
    either.type("note", item, "the hinge is next", "--token", token)
    assert "half" in either.type("show", item)
    assert either.json("done", item, code=7)["code"] == "claimed"
    assert either.json("done", item, "--token", "wrong", code=7)["code"] == "claim_lost"
    assert "completed" in either.type("done", item, "--token", token, "--notes", "mended")
    shown = either.json("show", item)
    assert (shown["outcome"], shown["notes"]) == ("success", "mended")
    refused = either.json("start", item, code=7)
    assert refused["code"] == "transition_refused"
    either.type("ready", code=1)
    events = either.type("watch", "--since", "0", "--no-follow", "--json").splitlines()
    kinds = [json.loads(line)["data"]["type"] for line in events]
    assert kinds == [
        "work.submitted",
        "work.dispatched",
        "work.started",
        "work.noted",
        "work.completed",
    ]


def test_a_dispatcher_directs_and_an_agent_gets_stuck(here: ThisProcess) -> None:
    first = here.type("add", "First").strip()
    second = here.type("add", "Second", "--blocked-by", first, "--label", "late").strip()
    told = here.json("explain", second)
    assert (told["claimable"], told["reasons"][0]["code"]) == (False, "blocked_by")
    assert f"rota explain {first}\n" in here.type("explain", second)
    here.type("hold", first, "--reason", "not today")
    here.type("ready", code=1)
    here.type("unhold", first)
    assert "dispatched (ann)" in here.type("dispatch", first, "ann")
    assert "in_progress (ann)" in here.type("start", first)
    assert "blocked" in here.type("block", first, "--notes", "needs Daniel")
    resumed = here.json("resume", first, "--lease", "5m")
    token = resumed["claim"]["token"]
    url = "https://example.org/pull/1"
    assert "in_review" in here.type("hand-over", first, url, "--token", token)
    assert "queued" in here.type("reopen", first, "--notes", "tests are missing")
    assert "in_progress" in here.type("dispatch", first, "ann", "--start")
    assert "failed" in here.type("fail", first, "--notes", "no")
    assert "queued" in here.type("retry", first)
    assert "cancelled" in here.type("cancel", first)
    assert here.json("explain", second)["reasons"][0]["code"] == "blocker_will_not_complete"
    here.type("edit", second, "--blocked-by", "none", "--label", "none", "--priority", "1")
    edited = here.json("show", second)
    assert (edited["open_blockers"], edited["labels"], edited["priority"]) == (0, [], 1)
    [claimed] = here.json("claim", "--agent", "bob")
    assert claimed["id"] == second
    assert "queued" in here.type("release", second, "--force", "--reason", "taken away")


def ended(here: ThisProcess, description: str, *how: str) -> str:
    item = here.type("add", description, "--priority", "1", "--label", description).strip()
    if how != ("cancel",):
        here.type("dispatch", item, "ann", "--start")
    here.type(how[0], item, *how[1:])
    return item


def test_a_list_shows_what_is_open_unless_more_is_asked_for(here: ThisProcess) -> None:
    done, dropped = ended(here, "done", "done"), ended(here, "dropped", "cancel")
    failed = ended(here, "failed", "fail", "--notes", "no")
    waiting = here.type("add", "Waiting").strip()

    def listed(*words: str) -> list[str]:
        return [one["id"] for one in here.json("list", *words)]

    assert listed() == [failed, waiting]
    assert listed("--all") == [done, dropped, failed, waiting]
    assert listed("--status", "completed", "--status", "queued") == [done, waiting]
    assert here.json("list", "--all", "--status", "failed", code=2)["code"] == "usage"
    assert len(here.type("list").splitlines()) == 2


def test_a_list_says_what_it_leaves_out(here: ThisProcess) -> None:
    left_out = "completed and cancelled items are not shown; see them with --all\n"
    here.type("add", "Waiting")
    assert here.run("list").stderr == ""
    ended(here, "dropped", "cancel")
    assert here.run("list").stderr == left_out
    assert here.run("list", "--label", "dropped").stderr == f"no open items\n{left_out}"
    assert here.run("list", "--label", "none").stderr == "no open items\n"
    for words in (["--all"], ["--status", "queued"], ["--json"]):
        assert here.run("list", *words).stderr == ""


def test_a_project_can_be_named_wherever_it_is_asked_for(here: ThisProcess) -> None:
    project = here.type("project", "add", "Shopping list").strip()
    assert here.json("project", "show", "Shopping list")["id"] == project
    item = here.json("add", "Milk", "--project", "Shopping list")
    assert item["project_id"] == project
    for command in (["list"], ["ready"], ["claim", "--agent", "ann"]):
        [found] = here.json(*command, "--project", "Shopping list")
        assert found["id"] == item["id"]
    assert "Milk" in here.type("board", "--once", "--project", "Shopping list")
    when = here.json("signal", "add", "--on-status", "failed", "--project", "Shopping list")
    assert when["trigger"]["project_id"] == project
    assert here.json("edit", item["id"], "--project", "none")["project_id"] is None
    assert here.json("edit", item["id"], "--project", "Shopping list")["project_id"] == project
    unknown = here.json("add", "Bread", "--project", "Shoping list", code=2)
    assert "rota project list" in unknown["message"]
    again = here.type("project", "add", "Shopping list", "--same-name").strip()
    double = here.json("add", "Bread", "--project", "Shopping list", code=2)
    assert {project, again} <= set(double["message"].replace(",", "").split())
    assert len(here.json("list")) == 1


def test_the_beginning_of_an_id_is_enough_where_it_is_one_item_s(here: ThisProcess) -> None:
    first = here.type("add", "Milk").strip()
    short = first[:13]  # the moment it was made, in thousandths of a second
    assert here.json("show", short)["id"] == first
    assert here.json("explain", short.upper())["id"] == first
    second = here.json("add", "Bread", "--blocked-by", short)
    assert second["open_blockers"] == 1
    assert here.json("edit", second["id"], "--blocked-by", "none")["open_blockers"] == 0
    [claimed] = here.json("claim", "--agent", "ann")
    assert f"{first} completed" in here.type("done", short, "--token", claimed["claim"]["token"])
    assert here.json("run", "list", "--item", short) == []
    seen = here.type("watch", "--since", "0", "--item", short, "--limit", "4").splitlines()
    assert [first in line for line in seen] == [True] * 4


def test_an_id_that_is_not_said_far_enough_changes_nothing(here: ThisProcess) -> None:
    items = [here.type("add", f"Number {n}").strip() for n in range(6)]
    told = here.json("cancel", items[0][:3], code=1)  # too short to be meant as one
    assert told["message"] == f"there is no work item '{items[0][:3]}'"
    told = here.json("cancel", items[0][:6], code=2)
    assert told["message"].startswith(f"item: more than 5 ids begin with '{items[0][:6]}'; write")
    assert items[0] in told["message"]
    assert {item["status"] for item in here.json("list")} == {"queued"}
    assert here.json("show", "ffff-", code=1)["message"] == "there is no work item 'ffff-'"


def test_what_was_not_completed_is_shown_as_ended(here: ThisProcess) -> None:
    item = here.type("add", "Mend the gate").strip()
    here.type("cancel", item)
    shown = here.type("show", item)
    assert "\nended        " in shown
    assert "\ncompleted " not in shown


def test_projects_agents_and_tokens(here: ThisProcess) -> None:
    project = here.type("project", "add", "Shopping list", "--ref", "todoist:1").strip()
    here.type("project", "edit", project, "--name", "List", "--ref", "none")
    assert here.json("project", "show", project)["external_ref"] is None
    assert here.type("project", "list").split("\t")[1] == "List"
    here.type("add", "In it", "--project", project)
    assert len(here.json("list", "--project", project)) == 1
    assert here.json("agent", "set", "ann", "--max-concurrent", "3")["max_concurrent"] == 3
    assert "paused" in here.type("agent", "pause", "ann")
    shown = here.json("agent", "show", "ann")
    assert (shown["name"], shown["max_concurrent"], shown["paused"]) == ("ann", 3, True)
    assert "paused" in here.type("agent", "show", "ann")
    assert here.json("agent", "show", "nobody", code=1)["code"] == "not_found"
    assert here.json("claim", "--agent", "ann", code=1) == []
    here.type("agent", "resume", "ann")
    assert here.type("agent", "list").split("\t")[:4] == ["ann", "0", "0", "3"]
    made = here.json("token", "create", "ci", "--scope", "work", "--expires", "+90d")
    assert made["secret"].startswith("rota_")
    [listed] = here.json("token", "list")
    assert "secret" not in listed
    here.type("token", "revoke", made["id"])
    here.type("token", "revoke", made["id"], code=1)


def test_a_token_is_revoked_by_its_name_if_no_other_has_it(here: ThisProcess) -> None:
    made = here.json("token", "create", "ci", "--scope", "work")["id"]
    assert here.type("token", "revoke", "ci") == f"revoked  {made}\n"
    here.type("token", "revoke", "ci", code=1)  # it is, already
    two = [here.json("token", "create", "ci", "--scope", "work")["id"] for _ in range(2)]
    refused = here.json("token", "revoke", "ci", code=2)["message"]
    assert refused == f"token: 2 are named 'ci'; give the id of one: {', '.join(two)}"
    here.type("token", "revoke", two[0])
    assert here.json("token", "revoke", "ci")["id"] == two[1]


def test_a_token_without_a_name_is_named_after_its_first_scope(here: ThisProcess) -> None:
    made = here.json("token", "create", "--scope", "admin")
    assert (made["name"], made["scopes"]) == ("admin", ["admin"])
    assert here.json("token", "create", "--scope", "agent:smith")["name"] == "smith"
    assert "'agent:' is unknown" in here.run("token", "create", "--scope", "agent:").stderr


def test_a_reason_that_is_also_the_note_is_told_once(here: ThisProcess) -> None:
    item = here.type("add", "Mend the gate").strip()
    here.type("dispatch", item, "ann")
    here.type(
        "release", item, "--reason", "attempt 1 failed: boom", "--notes", "attempt 1 failed: boom"
    )
    [told] = here.type(
        "watch", "--since", "0", "--no-follow", "--type", "work.released"
    ).splitlines()
    assert told.endswith("  (attempt 1 failed: boom)")


def test_whoever_revokes_a_token_that_is_not_there_hears_where_they_are(here: ThisProcess) -> None:
    here.type("token", "create", "ops", "--scope", "admin")
    told = here.run("token", "revoke", "oops")
    assert told.returncode == 1
    assert "no live token with the id 'oops'; `rota token list` has the ids" in told.stderr
    assert here.json("token", "list")[0]["revoked_at"] is None


def test_whoever_makes_tokens_that_lock_everybody_out_is_warned(here: ThisProcess) -> None:
    warning = "no token may make or revoke others"
    assert warning in here.run("token", "create", "ci", "--scope", "work").stderr
    assert warning in here.run("token", "create", "ci", "--scope", "work").stderr
    ops = here.run("token", "create", "ops", "--scope", "admin").stderr
    assert warning not in ops
    assert warning not in here.run("token", "create", "ci", "--scope", "work").stderr
    here.type("token", "revoke", ops.split()[1])
    assert warning in here.run("token", "create", "ci", "--scope", "work").stderr


def test_tokens_guard_a_server_and_decide_the_exit_code(tmp_path: Path) -> None:
    shell = Terminal(tmp_path)
    admin = shell.json("token", "create", "boss", "--scope", "admin")["secret"]
    reader = shell.json("token", "create", "guest", "--scope", "read")["secret"]
    with running_server(tmp_path):
        refused = shell.json("list", code=3)
        assert (refused["code"], "ROTA_TOKEN" in refused["message"]) == ("unauthenticated", True)
        shell.variables["ROTA_TOKEN"] = reader
        assert shell.json("list") == []
        assert shell.json("add", "Not mine to say", code=4)["code"] == "forbidden"
        shell.variables["ROTA_TOKEN"] = admin
        shell.type("add", "Mine to say")
        shell.variables["ROTA_TOKEN"] = "rota_wrong"
        shell.type("list", code=3)
        assert "token" in shell.run("list").stderr


def test_stale_work_is_brought_back(shell: Terminal) -> None:
    item = shell.type("add", "Abandoned").strip()
    shell.type("claim", "--agent", "ann", "--lease", "1s")
    time.sleep(1.1)  # the lease itself: another process has the clock
    assert shell.type("stale") == f"{item}\treleased\n"
    assert shell.json("stale") == {"released": [], "failed": [], "blocked": [], "due": 0}


def test_texts_come_from_files_and_standard_input(shell: Terminal, tmp_path: Path) -> None:
    (tmp_path / "body.md").write_text("Long\ntext, Zoë\n")
    (tmp_path / "fields.json").write_text('{"pr": 3}')
    item = shell.type("add", "Files", "--body", "@body.md", "--payload", "@fields.json").strip()
    shown = shell.json("show", item)
    assert (shown["body"], shown["payload"]) == ("Long\ntext, Zoë\n", {"pr": 3})
    piped = shell.type("add", "Pipe", "--payload", "-", stdin="[1, 2]").strip()
    assert shell.json("show", piped)["payload"] == [1, 2]
    literal = shell.type("add", "At", "--body", "@@home").strip()
    assert shell.json("show", literal)["body"] == "@home"


def test_a_claim_waits_for_work(shell: Terminal) -> None:
    shell.type("add", "Opens the database")
    shell.type("claim", "--agent", "bob")
    waiting = zygote.start(
        ["claim", "--agent", "ann", "--wait", "30s", "--json"],
        cwd=shell.place,
        env=environment(),
        stdout=subprocess.PIPE,
    )
    item = shell.type("add", "Worth the wait").strip()
    out, _ = waiting.communicate(timeout=30)
    assert [one["id"] for one in json.loads(out)["data"]] == [item]
    began = time.monotonic()
    shell.type("claim", "--agent", "cleo", "--wait", "1s", code=1)
    assert time.monotonic() - began >= 1


def test_a_claim_waits_for_a_server_that_is_started_again(shell: Terminal) -> None:
    port = str(free_port())
    with running_server(shell.place, "--port", port), (shell.place / "said").open("w") as said:
        waiting = zygote.start(
            ["claim", "--agent", "ann", "--wait", "60s"],
            cwd=shell.place,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=said,
        )
        until(lambda: metric(port, "rota_http_requests_total", "/work/claim"))
    until(lambda: "does not answer; trying again" in (shell.place / "said").read_text())
    with running_server(shell.place, "--port", port):
        item = shell.type("add", "Worth the wait").strip()
        out, _ = waiting.communicate(timeout=30)
    assert (out.split("\t")[0], waiting.returncode) == (item, 0)
    first, second, *_ = (shell.place / "said").read_text().splitlines()
    assert first == f"http://127.0.0.1:{port} does not answer; trying again until it does"
    assert second == f"http://127.0.0.1:{port} answers again"


def metric(port: str, *words: str) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return any(all(word in line for word in words) for line in lines)


def test_a_claim_does_not_wait_for_a_server_that_never_was_there(here: ThisProcess) -> None:
    here.type("claim", "--agent", "a", "--wait", "--url", "http://127.0.0.1:1", code=5)


def test_lists_without_entries_say_so(here: ThisProcess) -> None:
    here.type("db", "upgrade")
    for words, told in (
        ("token list", "no tokens: whoever reaches the server may do everything\n"),
        ("project list", "no projects\n"),
        ("issue paused", "no repository is paused\n"),
        ("setup claude --remove", "nothing to change: it is all as it should be already\n"),
    ):
        assert here.run(*words.split()).stderr == told
    assert here.run("agent", "list").stderr.startswith("no agents: ")
    assert here.run("token", "list", "--json").stderr == ""


@pytest.mark.parametrize("served", [False, True], ids=["database", "server"])
def test_watch_follows_until_it_is_interrupted(tmp_path: Path, served: bool) -> None:
    shell = Terminal(tmp_path)

    def watched() -> None:
        first = shell.type("add", "Before").strip()
        following = zygote.start(
            ["watch", "--since", "0", "--json"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["data"]["work_item_id"] == first
        second = shell.type("add", "After").strip()
        assert json.loads(following.stdout.readline())["data"]["work_item_id"] == second
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=30)
        assert (following.returncode, errors) == (130, "")

    if served:
        with running_server(tmp_path):
            watched()
    else:
        watched()


def test_watch_goes_on_when_the_server_is_restarted(tmp_path: Path) -> None:
    shell = Terminal(tmp_path)
    port = str(free_port())  # nobody else takes it between the two servers
    with running_server(tmp_path, "--port", port):
        url = f"http://127.0.0.1:{port}"
        first = shell.type("add", "Before").strip()
        following = zygote.start(
            ["watch", "--since", "0", "--json", "--url", url],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
        )
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["data"]["work_item_id"] == first
    between = shell.type("add", "While nobody served").strip()
    with running_server(tmp_path, "--port", port):
        assert json.loads(following.stdout.readline())["data"]["work_item_id"] == between
        following.terminate()
        following.communicate(timeout=30)


def test_who_follows_a_run_is_told_that_its_server_does_not_answer(tmp_path: Path) -> None:
    shell = Terminal(tmp_path)
    with running_server(tmp_path) as server:
        shell.type("add", "Mend the gate")
        found = StateDir(tmp_path / ".rota").running()
        assert found is not None
        with SyncWorkQueueClient(found.url) as client:
            [item] = client.claim("ann")
            run = client.begin_run("ann", item["id"], item["claim"]["token"])["id"]
            client.append_log(run, 0, b'{"text": "one"}\n')
        following = zygote.start(
            ["run", "log", run, "--follow"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert following.stdout is not None
        assert following.stderr is not None
        assert following.stdout.readline() == "one\n"
        server.kill()
        told = "the server does not answer; trying again until it does\n"
        assert following.stderr.readline() == told
        following.send_signal(signal.SIGINT)
        assert following.communicate(timeout=30) == ("", "")


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        refused = Terminal(tmp_path).run("up", "--port", "0")
        assert refused.returncode == 7
        assert str(server.pid) in refused.stderr


@pytest.mark.parametrize(
    "words", [("--host", "0.0.0.0"), ("--allow-host", "rota.example.org")], ids=["bound", "proxied"]
)
def test_serving_strangers_needs_a_token_or_a_word(tmp_path: Path, words: tuple[str, str]) -> None:
    refused = Terminal(tmp_path).run("up", *words, "--port", "0")
    assert refused.returncode == 7
    assert refused.stderr.startswith(f"rota: {words[1]} can be reached from other machines")
    assert "--insecure" in refused.stderr


def test_one_without_a_dashboard_names_none(tmp_path: Path) -> None:
    with running_server(tmp_path, "--no-dashboard") as server:
        assert server.stdout is not None
        said = "".join(iter(server.stdout.readline, "  stop       Ctrl-C (twice: at once)\n"))
    assert "API        http://127.0.0.1:" in said
    assert "dashboard" not in said


def test_one_that_only_serves_says_what_it_does_not_do(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("agents: [{name: smith}, {name: jones}]\n")
    with running_server(tmp_path, command="serve") as server:
        assert server.stdout is not None
        said = "".join(iter(server.stdout.readline, "  stop       Ctrl-C (twice: at once)\n"))
    assert "warning: rota.yaml has 2 agents, and none is woken here" in said
    assert "fleet      no agents, no schedules, no signals here; another `rota up` does" in said


# where commands go


_LOOKING = (
    "list", "ready", "show X", "explain X", "stats", "watch --no-follow", "stale", "board --once",
    "run list", "run show X", "schedule list", "agent list", "project list", "signal list",
    "follow-up list", "outbox list", "token list", "list --project X", "db status",
    "db backup copy.db", "export --output copy.jsonl",
)  # fmt: skip


def test_whoever_looks_where_no_ledger_is_hears_so_and_leaves_nothing(here: ThisProcess) -> None:
    for words in _LOOKING:
        told = here.json(*words.split(), code=6)
        assert (told["code"], ".rota/rota.db" in told["message"]) == ("no_ledger", True), words
    far = here.place / "far" / "x.db"
    assert f"no ledger at {far} yet" in here.run("list", "--db", str(far)).stderr
    here.type("source", "list")
    assert list(here.place.iterdir()) == []
    here.type("add", "The first word", "--db", str(far))
    assert len(here.json("list", "--db", str(far))) == 1


_NAMING = (
    "done X", "fail X", "note X late", "release X --force", "hold X", "edit X --priority 1",
    "heartbeat X --token T", "dispatch X ann", "run cancel X", "schedule trigger ann/often",
    "schedule disable ann/often", "signal cancel X", "signal retry X", "follow-up done X",
    "outbox retry X", "token revoke X", "import rota nowhere.jsonl",
)  # fmt: skip


def test_what_names_something_makes_no_ledger_to_miss_it_in(here: ThisProcess) -> None:
    for words in _NAMING:
        assert "made a new ledger" not in here.run(*words.split()).stderr, words
        assert list(here.place.iterdir()) == [], words
    assert here.json("done", "X", code=6)["code"] == "no_ledger"
    assert here.json("import", "rota", "nowhere.jsonl", code=2)["code"] == "invalid_input"


def test_whoever_makes_a_ledger_hears_of_it_once(here: ThisProcess) -> None:
    assert here.run("add", "First").stderr == "made a new ledger at .rota/rota.db\n"
    assert here.run("add", "Second").stderr == ""
    assert here.run("add", "Third", "--state-dir", "elsewhere", "--json").stderr == ""


def test_whoever_follows_waits_for_the_ledger_of_a_server_that_begins(tmp_path: Path) -> None:
    settings = Settings(database=str(tmp_path / "rota.db"), state_dir=tmp_path)

    def meanwhile(seconds: float) -> None:
        with SyncWorkQueueClient(transport=opened(settings)) as server:
            server.work_add("chore", "Mend the gate")

    waiting = Unmade(settings, tmp_path / "rota.db", meanwhile)
    with SyncWorkQueueClient(transport=waiting) as client:
        assert next(client.watch(0))["type"] == "work.submitted"


def test_an_agent_that_nobody_knows_is_paused_with_a_word(here: ThisProcess) -> None:
    (here.place / "rota.yaml").write_text("agents: [{name: smith}]\n")
    assert "nothing is known of an agent 'smiht'" in here.run("agent", "pause", "smiht").stderr
    here.type("add", "For ann", "--agent", "ann")
    for known in ("smiht", "smith", "ann"):
        assert here.run("agent", "pause", known).stderr == ""


def test_an_agent_that_nobody_knows_is_not_resumed(here: ThisProcess) -> None:
    refused = here.run("agent", "resume", "smiht")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "nothing is known of an agent 'smiht'" in refused.stderr
    here.type("agent", "set", "smith", "--max-concurrent", "2")
    here.type("agent", "resume", "smith")
    assert [one["name"] for one in here.json("agent", "list")] == ["smith"]


def test_an_item_for_an_agent_of_the_file_hears_that_no_server_runs(here: ThisProcess) -> None:
    (here.place / "rota.yaml").write_text(
        "agents:\n"
        "  - name: smith\n"
        "    runtime: {type: command, command: ['true']}\n"
        "    work_source: {type: queue, types: [chore]}\n"
        "    schedules: {often: {type: interval, interval: 1s, prompt: Go.}}\n"
    )
    item = here.type("add", "Mend the gate", "--type", "chore").strip()
    told = here.json("explain", item)
    assert [one["code"] for one in told["reasons"]] == ["no_server", "first_in_line"]
    assert told["summary"] == "no server has run yet, so 'smith' of rota.yaml does not work"
    other = here.type("add", "Sing", "--type", "song").strip()
    assert "no server" not in here.type("explain", other)
    with StateDir(here.place / ".rota").occupied():  # it starts, and is not announced yet
        assert "no server" not in here.type("explain", item)


def test_what_the_file_asks_for_is_read_as_a_server_would_read_it(here: ThisProcess) -> None:
    (here.place / "rota.yaml").write_text(
        "agents:\n"
        "  - name: smith\n"
        "    runtime: {type: command, command: ['true']}\n"
        "    schedules:\n"
        "      often:\n"
        "        {type: interval, interval: 1s, prompt: Go.,\n"
        "         work_source: {type: queue, types: [chore, chore], labels: [urgent]}}\n"
    )
    calm = here.type("add", "Mend the gate", "--type", "chore").strip()
    urgent = here.type("add", "Mend it now", "--type", "chore", "--label", "urgent").strip()
    assert "no server" not in here.type("explain", calm)
    told = here.json("explain", urgent)
    assert told["reasons"][0]["code"] == "no_server"
    assert told["reasons"][0]["fix"] == "start a server: rota up"


def test_what_a_killed_server_left_is_told_at_once(here: ThisProcess) -> None:
    item, home = here.type("add", "Mend the gate").strip(), here.place / ".rota"

    async def began() -> None:
        async with open_store(str(home / "rota.db")) as store:
            await Scheduler(store, node="n1", place=StateDir(home).place()).open([])
            ledger = Ledger.on(store, node="n1")
            (claimed,) = (await ledger.queue.claim(ClaimRequest("smith"))).items
            await ledger.runs.begin("smith", TriggerKind.MANUAL, item=claimed.item)

    asyncio.run(began())

    def codes() -> list[str]:
        return [one["code"] for one in here.json("explain", item)["reasons"]]

    assert codes() == ["server_gone"]
    settings = Settings.from_environment({}, database=str(home / "rota.db"), state_dir=home)
    with SyncWorkQueueClient(transport=opened(settings)) as face:  # as `rota mcp` has it, for days
        assert [one["code"] for one in face.explain(item)["reasons"]] == ["server_gone"]
        with StateDir(home).occupied():
            assert codes() == ["in_progress", "run"], "it starts"
            StateDir(home).announce("http://127.0.0.1:1")
            assert codes() == ["in_progress", "run"], "it only does not answer"
            told = [one["code"] for one in face.explain(item)["reasons"]]
            assert told == ["in_progress", "run"], "it is younger than the face"
        assert [one["code"] for one in face.explain(item)["reasons"]] == ["server_gone"]


def test_what_was_not_held_is_not_let_go(here: ThisProcess) -> None:
    item = here.type("add", "Mend the gate").strip()
    assert here.type("unhold", item) == f"{item} was not held\n"
    here.type("hold", item, "--reason", "wait")
    assert here.type("unhold", item) == f"{item} no longer held\n"


def test_without_a_server_there_is_nobody_to_read_the_file_again(here: ThisProcess) -> None:
    refused = here.run("config", "reload")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("no server runs here")
    assert not (here.place / ".rota").exists()


def test_a_server_that_died_is_not_asked(shell: Terminal) -> None:
    shell.type("add", "In the database")
    (shell.place / ".rota" / "server.json").write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    found = json.loads(shell.type("list", "--json"))
    assert (len(found["data"]), found["meta"]["via"]) == (1, "database")


def test_a_server_without_tls_that_is_asked_for_it_is_told_in_words(tmp_path: Path) -> None:
    with running_server(tmp_path):
        url = json.loads((tmp_path / ".rota" / "server.json").read_text())["url"]
        shell = Terminal(tmp_path, {"ROTA_URL": url.replace("http:", "https:")})
        assert "what answers there speaks http, not https; is" in shell.run("list").stderr


def test_an_option_wins_over_a_variable(tmp_path: Path) -> None:
    shell = Terminal(tmp_path, {"ROTA_URL": "http://127.0.0.1:1"})
    assert shell.json("list", code=5)["code"] == "connection_failed"
    assert "cannot reach" in shell.run("list").stderr
    shell.type("add", "By hand", "--db", "mine.db")
    assert len(shell.json("list", "--db", "mine.db")) == 1
    assert (tmp_path / "mine.db").exists()
    assert not (tmp_path / ".rota").exists()
    shell.type("list", "--url", "http://127.0.0.1:1", "--db", "mine.db", code=2)


def test_shared_options_stand_before_or_after_the_command(shell: Terminal) -> None:
    before = shell.type("--json", "--db", "a.db", "add", "Same")
    after = shell.type("add", "Same", "--db", "a.db", "--json")
    assert json.loads(before)["data"].keys() == json.loads(after)["data"].keys()
    assert len(shell.json("list", "--db", "a.db")) == 2


def test_the_entry_point_is_installed() -> None:
    script = Path(sys.executable).parent / "rota"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"rota \d+\.\d+\.\d+\S*\n", done.stdout)


def test_a_reader_that_goes_away_is_no_error(shell: Terminal) -> None:
    for n in range(3):
        shell.type("add", f"{n} " + "x" * 9_000)
    listing = subprocess.Popen(
        [*ROTA, "watch", "--since", "0"],
        cwd=shell.place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.readline()
    listing.stdout.close()
    shell.type("add", "one more, which nobody reads")
    assert listing.wait(30) == 141
    assert listing.stderr.read() == ""
    listing.stderr.close()


def test_a_backup_is_a_database(shell: Terminal, tmp_path: Path) -> None:
    assert shell.json("db", "upgrade")["applied"]
    assert shell.json("db", "upgrade")["applied"] == []
    assert shell.json("db", "status")["current"]
    item = shell.type("add", "Keep me").strip()
    shell.type("db", "backup", "copy.db")
    assert shell.type("list", "--db", "copy.db").startswith(item)
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    shell.type("db", "backup", "copy.db", code=2)
    shell.type("db", "backup", "copy.db", "--overwrite")
    shell.type("db", "backup", "no/such/place.db", code=6)


def test_no_copy_is_written_over_what_rota_lives_on(here: ThisProcess) -> None:
    here.type("add", "Keep me")
    place, own = here.place, here.place / ".rota"
    (place / "link.db").symlink_to(own / "rota.db")
    (place / "twin.db").hardlink_to(own / "rota.db")
    (place / "linked").symlink_to(own)
    (own / "server.lock").write_text("held")
    os.mkfifo(place / "pipe")  # as a device is, which must not become a file either
    for words in ("db backup pipe --overwrite", "export --output pipe --overwrite"):
        assert "is not a regular file" in here.run(*words.split()).stderr
    assert (place / "pipe").is_fifo()
    for target in (
        ".rota/rota.db", ".rota/rota.db-wal", ".rota/rota.db-shm", ".rota/rota.db-journal",
        ".rota/server.lock", ".rota/server.json", ".rota/place", "link.db", "twin.db",
        "linked/rota.db", "linked/server.lock", ".rota/../.rota/rota.db",
    ):  # fmt: skip
        for words in (["db", "backup", target], ["export", "--output", target]):
            for more in ([], ["--overwrite"]):
                refused = here.run(*words, *more)
                assert refused.returncode == 2, (words, refused)
                assert "files that Rota itself works with" in refused.stderr
    assert (own / "server.lock").read_text() == "held"
    assert len(here.json("list")) == 1
    here.type("db", "backup", ".rota/copy.db")  # beside them it may lie
    here.type("list", "--db", "link.db")
    assert here.run("db", "backup", "again.db", "--db", "link.db").returncode == 0
    assert here.run("export", "--output", "x" * 300).returncode == 6
