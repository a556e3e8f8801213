"""`rota prime`, and what the hooks of a coding agent run, on a server and on a database alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rota.client import SyncWorkQueueClient
from rota.testing.clock import ManualClock
from rota.testing.served import Served
from tests.acceptance.terminal import Terminal, ThisProcess, environment

YEARS = 20 * 365 * 24 * 3600.0
ASKED = json.dumps({"hook_event_name": "Stop", "stop_hook_active": False})
ASKED_AGAIN = json.dumps({"hook_event_name": "Stop", "stop_hook_active": True})


@pytest.fixture
def here(tmp_path: Path) -> Terminal:
    return ThisProcess(tmp_path)


def stop(here: Terminal, said: str = ASKED, agent: str = "smith") -> tuple[int, str]:
    done = here.run("hook", "agent", "stop", "--agent", agent, stdin=said)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_prime_tells_the_rules_also_where_there_is_nothing_yet(
    here: Terminal, tmp_path: Path
) -> None:
    told = here.type("prime", "--agent", "smith")
    assert told.startswith("# Rota")
    assert "there is no ledger here yet" in told
    assert stop(here) == (0, "")
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"
    item = here.type("add", "Mend the gate").strip()
    told = here.type("prime", "--agent", "smith")
    assert f"{item} queued p3 work: `Mend the gate`" in told
    assert "No server runs here" in told
    data = here.json("prime")
    assert (data["agent"], data["server"], data["ready"][0]["id"]) == (None, False, item)
    assert here.type("hook", "agent", "start", "--agent", "smith") == told
    assert here.json("prime", "--agent", "../x", code=2)["code"] == "invalid_input"


def test_prime_asks_the_server_and_says_when_that_does_not_answer(
    here: Terminal, served: Served
) -> None:
    here.variables["ROTA_URL"] = served.url
    assert f"Ledger: the server at {served.url}." in here.type("prime")
    here.variables["ROTA_URL"] = "http://127.0.0.1:9"
    told = here.type("prime", "--agent", "smith")
    assert "What is ready is not known: cannot reach http://127.0.0.1:9" in told
    assert "work_claim" in told


def test_an_agent_may_not_stop_while_it_holds_a_claim(
    here: Terminal, served: Served, clock: ManualClock
) -> None:
    here.variables["ROTA_URL"] = served.url
    clock.advance(-YEARS)  # the hook looks at the machine's clock
    with SyncWorkQueueClient(served.url) as client:
        item = client.work_add("chore", "Mend the gate")["id"]
        assert stop(here) == (0, "")
        token = client.claim("smith")[0]["claim"]["token"]
        assert stop(here) == (0, ""), "the lease has run out, and only nobody has noticed"
        clock.advance(2 * YEARS)
        client.heartbeat(item, token)
        code, said = stop(here)
        assert (code, item in said, "work_return" in said) == (2, True, True)
        assert stop(here, ASKED_AGAIN) == (0, ""), "asked once, not for ever"
        assert stop(here, "not json")[0] == 2
        assert stop(here, agent="jones") == (0, ""), "another's claim is none of its concern"
        client.complete(item, token)
    assert stop(here) == (0, "")
    here.variables["ROTA_URL"] = "http://127.0.0.1:9"
    code, said = stop(here)
    assert code not in (0, 2), "a server that is away does not keep an agent from stopping"
    assert "cannot reach" in said


def test_a_tool_that_is_used_leaves_a_sign_of_life_at_most_so_often(
    here: Terminal, tmp_path: Path
) -> None:
    seen = tmp_path / ".rota/agents/smith.seen"
    here.type("hook", "agent", "tool", "--agent", "smith")
    first = seen.stat().st_mtime_ns
    here.type("hook", "agent", "tool", "--agent", "smith")
    assert seen.stat().st_mtime_ns == first, "not at every stroke"
    os.utime(seen, (1, 1))
    here.type("hook", "agent", "tool", "--agent", "smith")
    assert seen.stat().st_mtime_ns >= first
    assert here.run("hook", "agent", "tool", "--agent", "../../x").returncode == 2


def test_the_commands_that_setup_writes_down_are_ones_that_a_shell_can_run(
    here: Terminal, tmp_path: Path
) -> None:
    project = tmp_path / "a project with 'quotes'"
    (project / "below").mkdir(parents=True)
    here.place = project
    here.type("setup", "claude", "--agent", "smith")
    here.type("add", "Mend the gate")
    here.type("claim", "--agent", "smith")
    hooks = json.loads((project / ".claude/settings.json").read_text())["hooks"]
    commands = {event: entries[0]["hooks"][0]["command"] for event, entries in hooks.items()}
    codes = {event: _run(command, project) for event, command in commands.items()}
    assert codes == {"SessionStart": 0, "PostToolUse": 0, "Stop": 2}
    assert (project / ".rota/agents/smith.seen").exists()
    assert not (project / "below/.rota").exists()


def _run(command: str, project: Path) -> Any:
    """From a directory that the agent has gone to."""
    variables = environment(CLAUDE_PROJECT_DIR=str(project), PYTHON=sys.executable)
    done = subprocess.run(
        ["sh", "-c", command], cwd=project / "below", env=variables, input=ASKED, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode
