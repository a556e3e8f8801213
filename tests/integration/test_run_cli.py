"""`rota run` and `rota outbox`, asked of a server and of the database alone."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.app import open_ledger
from rota.model.claims import ClaimRequest
from rota.model.clock import to_text
from rota.model.fleet import AgentSpec, Breaker
from rota.model.runs import OutboxEntry, Run, RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock
from rota.testing.served import Served
from tests.acceptance.terminal import Terminal, ThisProcess


@pytest.fixture
def here(tmp_path: Path, served: Served) -> Terminal:
    return ThisProcess(tmp_path, {"ROTA_URL": served.url})


def a_run(served: Served, agent: str = "ann", *, node: str = "", **facts: Any) -> Run:
    runs = Ledger.on(served.store, node=node).runs
    return served.run(lambda: runs.begin(agent, TriggerKind.SCHEDULE, **facts))


def finish(served: Served, run: Run, status: RunStatus = RunStatus.SUCCEEDED, **how: Any) -> None:
    served.run(lambda: served.ledger.runs.end(run, RunEnd(status, **how)))


def write(served: Served, run: Run, *lines: dict[str, Any]) -> None:
    path = served.ledger.runs.log(run.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def post(served: Served, entry: OutboxEntry, *, bury: bool = False) -> None:
    served.run(lambda: served.store.transact(lambda tx: tx.post(entry)))
    if bury:
        served.run(
            lambda: served.store.transact(
                lambda tx: tx.bury(entry.id, entry.created_at, "no answer")
            )
        )


def letter(entry_id: str, clock: ManualClock) -> OutboxEntry:
    payload = {
        "item": "github-42",
        "token": "secret-token",
        "result": {"outcome": "success", "summary": "merged"},
    }
    return OutboxEntry(entry_id, "report", "ann", "github-42", payload, to_text(clock.now()))


def test_runs_are_listed_in_a_pipe_as_columns(
    here: Terminal, served: Served, clock: ManualClock
) -> None:
    old = a_run(served, schedule="nightly")
    clock.advance(90)
    finish(served, old, RunStatus.FAILED, error="exit\tcode 2", usage=Usage(cost_usd=0.5))
    new = a_run(served, "bob")
    started = old.started_at
    assert here.type("run", "list").splitlines() == [
        f"{new.id}\trunning\tbob\t\t\t{new.started_at}\t\t\t",
        f"{old.id}\tfailed\tann\tnightly\t\t{started}\t90.0\t0.5\texit code 2",
    ]
    chosen = here.json("run", "list", "--agent", "ann", "--status", "failed")
    assert [run["id"] for run in chosen] == [old.id]
    assert here.json("run", "list", "--schedule", "weekly") == []


def test_a_list_says_that_there_is_more(here: Terminal, served: Served) -> None:
    for _ in range(3):
        a_run(served)
    done = here.run("run", "list", "--limit", "2")
    assert len(done.stdout.splitlines()) == 2
    assert "--limit 20" in done.stderr
    document = json.loads(here.type("run", "list", "--limit", "2", "--json"))
    assert (len(document["data"]), document["meta"]["more"]) == (2, True)


def test_a_run_is_shown_without_anything_that_commands_a_terminal(
    here: Terminal, served: Served
) -> None:
    run = a_run(served, title="Mend \x1b[31mthe gate")
    finish(served, run, summary="done\x1b]0;owned\x07\nreally", usage=Usage(1000, 20, 0.25, 3))
    shown = here.type("run", "show", run.id)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "title    Mend [31mthe gate" in shown
    assert "tokens   1000 in, 20 out" in shown
    assert "really" in shown
    assert here.json("run", "show", run.id)["summary"].startswith("done\x1b")
    assert here.json("run", "show", "none-such", code=1)["code"] == "not_found"


def test_a_log_is_printed_as_it_was_said(here: Terminal, served: Served) -> None:
    run = a_run(served)
    write(
        served,
        run,
        {"ts": "t", "stream": "stdout", "text": "hello\x1b[2J"},
        {"ts": "t", "stream": "rota", "text": "the log is full", "type": "full"},
    )
    assert here.type("run", "log", run.id) == "hello[2J\n[rota] the log is full\n"
    lines = [json.loads(line) for line in here.type("run", "log", run.id, "--json").splitlines()]
    assert [line["data"]["stream"] for line in lines] == ["stdout", "rota"]
    assert {line["schema_version"] for line in lines} == {1}


def test_a_log_is_followed_until_the_run_has_ended(here: Terminal, served: Served) -> None:
    run = a_run(served)
    write(served, run, {"text": "one"}, {"text": "two"})
    finish(served, run)
    assert here.type("run", "log", run.id, "--follow") == "one\ntwo\n"


def test_a_log_elsewhere_names_its_node(here: Terminal, served: Served) -> None:
    run = a_run(served, node="node-7")
    done = here.run("run", "log", run.id)
    assert done.returncode == 1
    assert "'node-7'" in done.stderr


def test_a_run_is_cancelled_once(here: Terminal, served: Served) -> None:
    run = a_run(served)
    assert "running (its end was asked for)" in here.type("run", "cancel", run.id)
    finish(served, run, RunStatus.CANCELLED)
    assert here.json("run", "cancel", run.id, code=7)["code"] == "refused"


def test_without_a_server_runs_are_read_from_the_database(
    served: Served, tmp_path: Path, database: str
) -> None:
    run = a_run(served)
    here = ThisProcess(tmp_path, {"DATABASE_URL": database})
    logs = tmp_path / ".rota" / "runs"
    logs.mkdir(parents=True)
    (logs / f"{run.id}.jsonl").write_text('{"text": "hello"}\n')
    assert here.json("run", "list")[0]["id"] == run.id
    assert here.type("run", "log", run.id) == "hello\n"
    assert here.json("run", "cancel", run.id)["cancel_requested"] is True


def left_behind(served: Served, clock: ManualClock, **facts: Any) -> Run:
    """A run whose server was killed a minute ago."""
    node = Node("node-7", "here:/", 1, clock.text(), clock.text())
    served.run(lambda: served.store.transact(lambda tx: tx.put_node(node)))
    run = a_run(served, node=node.id, **facts)
    clock.advance(60)
    return run


def test_a_run_whose_server_is_gone_is_not_said_to_go_on(
    here: Terminal, served: Served, clock: ManualClock
) -> None:
    item = served.run(lambda: served.ledger.queue.submit(NewItem("chore", "Mend the gate")))
    claim = ClaimRequest("ann", lease_seconds=900)
    served.run(lambda: served.ledger.queue.claim(claim))
    claimed = served.run(lambda: served.ledger.views.item(item.id))
    since = "not been seen since 2026-05-01 12:00:00"
    run = left_behind(served, clock, item=claimed)
    listed = here.type("run", "list")
    assert listed.startswith(f"{run.id}\trunning\tann\t")
    assert since in listed
    shown = here.type("run", "show", run.id)
    assert "server   not seen since 2026-05-01 12:00:00" in shown
    assert here.json("run", "show", run.id)["unseen_since"] == clock.text(-60)
    assert since in here.type("agent", "list")
    told = here.run("run", "cancel", run.id)
    assert "running (its end was asked for)" in told.stdout
    assert f"nobody is there to end it: its server has {since}" in told.stderr
    told = here.run("stale")
    assert f"{item.id} waits for the server of run {run.id}, not seen since" in told.stderr
    [first, *_] = here.json("explain", item.id)["reasons"]
    assert first["code"] == "server_gone"
    finish(served, run, RunStatus.LOST)
    assert here.json("run", "show", run.id)["unseen_since"] is None


def test_the_log_of_a_run_whose_server_is_gone_comes_to_an_end(
    served: Served, clock: ManualClock, tmp_path: Path, database: str
) -> None:
    run = left_behind(served, clock)
    logs = tmp_path / ".rota" / "runs"
    logs.mkdir(parents=True)
    (logs / f"{run.id}.jsonl").write_text('{"text": "hello"}\n')
    here = ThisProcess(tmp_path, {"DATABASE_URL": database})
    first, last = here.type("run", "log", run.id, "--follow").splitlines()
    assert first == "hello"
    assert last.startswith(
        f"[rota] the server of this run has not been seen since {clock.text(-60)}"
    )
    assert here.type("run", "log", run.id) == "hello\n"
    found = json.loads(here.run("doctor", "--json").stdout)["data"]
    warned = [one for one in found if one["check"] == "runs"]
    assert [(one["status"], one["message"]) for one in warned] == [
        (
            "warn",
            f"1 run is left by a server that has not been seen since {clock.text(-60)}:"
            f" {run.id} of 'ann'",
        )
    ]


def test_agents_show_what_they_spend_and_what_keeps_them(
    here: Terminal, served: Served, clock: ManualClock
) -> None:
    finish(served, a_run(served), usage=Usage(100, 20, 0.5))
    assert "today           1 run, 120 tokens, 0.50 USD" in here.type("agent", "show", "ann")
    a_run(served)
    here.type("agent", "pause", "ann")
    columns = here.type("agent", "list").rstrip("\n").split("\t")
    assert columns == ["ann", "0", "0", "1", "paused", "1", "2", "0.5", "120", "0", ""]
    shown = here.type("agent", "resume", "ann")
    assert "paused" not in shown
    assert "today           2 runs, 120 tokens, 0.50 USD" in shown


def test_agents_that_failed_too_often_say_so_until_they_are_resumed(
    here: Terminal, served: Served
) -> None:
    spec = AgentSpec("ann", breaker=Breaker(1, timedelta(hours=1)))
    run = a_run(served)
    end = RunEnd(RunStatus.FAILED, error="exit code 2")
    served.run(lambda: served.ledger.runs.end(run, end, spec))
    assert "failed too often, until 2026-05-01 13:00:00" in here.type("agent", "list")
    assert "kept" not in here.type("agent", "resume", "ann")


# what could not be delivered


def test_what_was_given_up_is_shown_without_its_token_and_tried_again(
    here: Terminal, served: Served, clock: ManualClock
) -> None:
    post(served, letter("report-1", clock))
    post(served, letter("report-2", clock), bury=True)
    waiting = here.json("outbox", "list")
    assert [(one["id"], one["says"]) for one in waiting] == [("report-1", "success: merged")]
    [buried] = here.json("outbox", "list", "--buried")
    assert (buried["id"], buried["error"]) == ("report-2", "no answer")
    assert "secret-token" not in here.type("outbox", "list", "--json")
    assert "report-2" in here.type("outbox", "retry", "report-2")
    assert len(here.json("outbox", "list")) == 2
    assert here.json("outbox", "retry", "report-2", code=1)["code"] == "not_found"


def test_a_used_up_budget_is_told_by_the_file_that_is_here(tmp_path: Path) -> None:
    """Of a server's own file the server tells; where none runs, the file of this directory does."""

    async def spend() -> None:
        async with open_ledger(str(tmp_path / ".rota" / "rota.db")) as ledger:
            for name in ("ann", "bob"):
                run = await ledger.runs.begin(name, TriggerKind.SCHEDULE)
                await ledger.runs.end(run, RunEnd(RunStatus.SUCCEEDED))
                await ledger.queue.set_agent(name, max_concurrent=1)

    asyncio.run(spend())
    here = ThisProcess(tmp_path)
    assert [one["budget_used"] for one in here.json("agent", "list")] == [None, None]
    (tmp_path / "rota.yaml").write_text(
        "agents:\n"
        "  - {name: ann, budget: {per_day: {runs: 1}, timezone: Asia/Tokyo}}\n"
        "  - {name: bob, budget: {per_day: {runs: 2}}}\n"
    )
    ann, bob = here.json("agent", "list")
    assert (ann["budget_used"], bob["budget_used"]) == ("its budget: 1 of 1 runs", None)
    assert ann["budget_until"].endswith("T15:00:00.000000Z")
    assert "used up its budget: 1 of 1 runs, until 20" in here.type("agent", "list")
    assert "used up" in here.type("agent", "set", "ann", "--max-concurrent", "2")
    (tmp_path / "rota.yaml").write_text("agents: what?\n")
    assert here.json("agent", "list")[0]["budget_used"] is None
