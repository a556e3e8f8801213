"""`rota worker`: real processes, a real server, an agent that does as its item says."""

import json
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.client import ClaimedItem, SyncWorkQueueClient, WorkQueueClient
from rota.client.errors import ConnectionFailed
from rota.client.worker_run import Equipment, WorkerRun
from rota.model.clock import to_text
from rota.model.fleet import AgentSpec, Limits
from rota.model.runs import RunEnd, RunStatus
from rota.runner.port import RunRequest
from rota.testing.served import Served
from tests.faults.processes import Process, Server, eventually, processes
from tests.integration.runner_stage import processes_with
from tests.integration.workers import Yard, heard

Json = dict[str, Any]
Start = Callable[..., Process]
on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def start() -> Iterator[Start]:
    with processes() as start:
        yield start


@pytest.fixture
def server(tmp_path: Path, database: str) -> Iterator[Server]:
    server = Server(tmp_path / "server", database)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def yard(tmp_path: Path, server: Server, start: Start) -> Iterator[Yard]:
    path = tmp_path / "yard"
    path.mkdir()
    yard = Yard(path, server, start)
    yield yard
    yard.close()


def seconds_until(moment: str, after: str) -> float:
    return (datetime.fromisoformat(moment) - datetime.fromisoformat(after)).total_seconds()


# what becomes of an item


@on_both_databases
def test_a_worker_runs_its_agent_on_an_item_and_completes_it(yard: Yard) -> None:
    item = yard.add("SAY hello", "ENV COLOUR", "ENV ROTA_TOKEN", "SAY https://e.org/pull/7")
    assert yard.once()["status"] == "succeeded"
    shown = yard.item(item)
    assert (shown["status"], shown["outcome"]) == ("completed", "success")
    assert "COLOUR is red" in shown["notes"]
    run = yard.run(item)
    assert (run["status"], run["trigger"], run["attempt"]) == ("succeeded", "worker", 1)
    assert (run["exit_code"], run["epoch"]) == (0, shown["epoch"])
    assert run["node"].startswith("worker:")
    log = [line["text"] for line in yard.client.read_log(run["id"])]
    assert log[:3] == ["hello", "COLOUR is red", "ROTA_TOKEN is None"]
    kept = yard.path / "state" / "workers" / "ann-0" / "runs"
    assert list(kept.iterdir()) == [], "the server has it now"


@on_both_databases
def test_a_worker_may_open_the_database_itself(yard: Yard, server: Server) -> None:
    item = yard.add("SAY hello")
    assert yard.once(server.database)["status"] == "succeeded"
    assert yard.item(item)["status"] == "completed"
    assert yard.run(item)["trigger"] == "worker"
    idle = yard.worker(database=server.database)
    heard(idle, "working")
    idle.signal(signal.SIGTERM)
    assert idle.join() == 0


def test_a_worker_hides_what_its_configuration_names_as_a_secret(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAL", "canary-5f3a9c")
    hook = "{type: webhook, url: 'https://e.org', secret_env: SEAL, when: [failed]}"
    yard.configure(more=f"env_pass: [SEAL]\nhooks: {{after_run: [{hook}]}}\n")
    item = yard.add("ENV SEAL")
    assert yard.once()["status"] == "succeeded"
    assert yard.run(item)["summary"] == "SEAL is [hidden]"


def test_hooks_of_a_worker_reach_the_hosts_that_its_environment_allows(
    yard: Yard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = f"{{type: webhook, url: '{server.url}/health'}}"
    yard.configure(more=f"hooks: {{after_run: [{hook}]}}\n")
    kept = yard.add("SAY hello")
    yard.once()
    (told,) = yard.run(kept)["hook_errors"]
    assert "is not on the public internet" in told
    monkeypatch.setenv("ROTA_HOOK_HOSTS", "127.0.0.1")
    reached = yard.add("SAY hello")
    yard.once()
    assert yard.run(reached)["hook_errors"] == ["hook after_run-1: it answered 405"]


def test_nothing_to_do_is_a_negative_answer(yard: Yard) -> None:
    worker = yard.worker("--once")
    assert worker.hear_all()[-1]["meta"]["reason"] == "nothing_ready"
    assert worker.join() == 1


def test_the_prompt_is_the_one_that_a_server_builds(yard: Yard) -> None:
    item = yard.add(f"PROMPT {yard.path}/prompt", labels=["gate"], priority=2)
    yard.once()
    assert (yard.path / "prompt").read_text() == (
        "Do what the item says.\n\n"
        "## Work Item: Mend the gate\n\n"
        f"PROMPT {yard.path}/prompt\n\n"
        "- **Source:** queue\n"
        f"- **ID:** {item}\n"
        "- **Priority:** high\n"
        "- **Labels:** gate\n\n"
        "- **Type:** chore"
    )


def test_a_schedule_may_lend_its_prompt(yard: Yard) -> None:
    schedule = "schedules:\n  nightly: {type: interval, interval: 1h, prompt: Be quick.}\n"
    yard.configure(more=schedule)
    item = yard.add(f"PROMPT {yard.path}/prompt")
    worker = yard.worker("--once", "--schedule", "nightly")
    worker.hear_all()
    assert worker.join() == 0
    assert (yard.path / "prompt").read_text().startswith("Be quick.\n\n## Work Item")
    assert yard.run(item)["schedule"] == "nightly"


def test_a_failure_is_tried_again_later_and_given_up_when_the_attempts_are_spent(
    yard: Yard,
) -> None:
    item = yard.add("SAY it does not build", "EXIT 3")
    assert yard.once()["status"] == "failed"
    shown = yard.item(item)
    assert (shown["status"], shown["attempts"]) == ("queued", 1)
    assert shown["reason"].startswith("attempt 1 failed")
    ended = yard.run(item)["ended_at"]
    [released] = [one for one in shown["events"] if one["type"] == "work.released"]
    waits = [seconds_until(shown["available_at"], one) for one in (released["occurred_at"], ended)]
    # The server's time is known to the worker but for how long an answer is on its way.
    assert waits[0] <= 60 <= waits[1] + 1, "the agent's own backoff, from between the two"
    yard.client.edit(item, available_at=None)
    yard.once()
    shown = yard.item(item)
    assert (shown["status"], shown["attempts"]) == ("failed", 2)
    assert "it does not build" in shown["notes"]
    assert [run["status"] for run in yard.client.list_runs(work_item_id=item)] == ["failed"] * 2


def test_half_a_result_blocks_its_item(yard: Yard) -> None:
    item = yard.add('RESULT {"outcome": "partial", "summary": "which of the two?"}')
    assert yard.once()["status"] == "partial"
    shown = yard.item(item)
    assert (shown["status"], shown["notes"]) == ("blocked", "which of the two?")


def test_an_answered_question_is_worked_on_though_the_attempts_are_used_up(yard: Yard) -> None:
    yard.configure(attempts=1)
    item = yard.add('RESULT {"outcome": "partial", "summary": "Which colour?"}')
    for _ in range(2):
        assert yard.once()["status"] == "partial"
        assert yard.item(item)["status"] == "blocked"
        yard.client.release(item, notes="Blue.")


def test_behind_a_review_gate_a_worker_hands_over_and_rests_when_reviews_pile_up(
    yard: Yard,
) -> None:
    yard.configure(more="review_gate: true")
    yard.client.set_agent("ann", max_in_review=1)
    item = yard.add("SAY https://e.org/o/r/commit/1234567", "SAY https://e.org/o/r/pull/7")
    assert yard.once()["status"] == "succeeded"
    shown = yard.item(item)
    assert (shown["status"], shown["artifact_url"]) == ("in_review", "https://e.org/o/r/pull/7")
    yard.add("SAY hello")
    worker = yard.worker("--once")
    assert "1 of its items are in review" in heard(worker, "paused")["why"]
    assert worker.join() == 1
    yard.client.complete(item)
    assert yard.once()["status"] == "succeeded"


def test_a_worker_takes_only_the_types_it_is_asked_for(yard: Yard) -> None:
    yard.add("SAY hello")
    worker = yard.worker("--once", "--types", "review")
    worker.hear_all()
    assert worker.join() == 1


def test_a_worker_takes_what_its_work_source_says_and_no_more(yard: Yard) -> None:
    yard.configure(more="work_source: {type: queue, types: [chore], labels: [garden]}")
    yard.add("SAY no")
    yard.client.work_add("review", "Look at it", labels=["garden"])
    nothing = yard.worker("--once")
    nothing.hear_all()
    assert nothing.join() == 1
    item = yard.add("SAY yes", labels=["garden", "gate"])
    assert yard.once()["work_item_id"] == item


def test_a_worker_of_an_agent_with_issues_is_refused_unless_it_is_told_what_to_take(
    yard: Yard,
) -> None:
    yard.configure(more="work_source: {type: github, repo: octocat/hello}")
    item = yard.add("SAY hello")
    refused = yard.worker("--once")
    said = refused.hear_all()
    assert refused.join() == 2
    assert "ann takes its work from github:octocat/hello" in said[-1]["error"]["message"]
    assert yard.item(item)["status"] == "queued"
    worker = yard.worker("--once", "--type", "chore")
    worker.hear_all()
    assert worker.join() == 0


# while it runs


def test_the_log_can_be_followed_while_the_agent_works(yard: Yard) -> None:
    item = yard.add("SAY one", f"WAIT {yard.path}/go", "SAY two")
    worker = yard.worker()
    run = heard(worker, "started")["run_id"]
    lines = yard.client.read_log(run, follow=True)
    assert next(lines)["text"] == "one"
    assert yard.item(item)["status"] == "in_progress"
    (yard.path / "go").touch()
    assert [line["text"] for line in lines] == ["two"]
    eventually(lambda: yard.item(item)["status"] == "completed", "the verdict")


def test_a_cancelled_run_ends_with_its_process_and_blocks_its_item(yard: Yard) -> None:
    item = yard.add(f"WAIT {yard.path}/never")
    worker = yard.worker()
    run = heard(worker, "started")["run_id"]
    assert yard.client.cancel_run(run)["cancel_requested"]
    assert heard(worker, "ended")["status"] == "cancelled"
    assert yard.client.get_run(run)["status"] == "cancelled"
    assert yard.item(item)["status"] == "blocked"
    assert processes_with(str(yard.path / "agent.py")) == []


def test_a_lost_claim_ends_the_process_and_touches_nothing(yard: Yard) -> None:
    item = yard.add(f"WAIT {yard.path}/never")
    worker = yard.worker("--lease", "3s")
    run = heard(worker, "started")["run_id"]
    yard.client.set_agent("ann", paused=True)  # else its worker could be the next to have it
    yard.client.release(item, force=True, reason="taken away")
    (other,) = yard.client.claim("bob", lease_seconds=600)
    assert heard(worker, "ended")["status"] == "claim_lost"
    assert processes_with(str(yard.path / "agent.py")) == []
    assert yard.client.get_run(run)["status"] == "claim_lost"
    shown = yard.item(item)
    assert (shown["status"], shown["epoch"]) == ("in_progress", other["epoch"])
    assert (shown["claim"]["agent"], shown["late_results"]) == ("bob", [])


def test_long_work_keeps_its_claim(yard: Yard) -> None:
    item = yard.add(f"WAIT {yard.path}/go")
    worker = yard.worker("--lease", "6s")
    heard(worker, "started")
    first = yard.item(item)["claim"]["expires_at"]
    eventually(lambda: yard.item(item)["claim"]["expires_at"] > first, "a heartbeat")
    second = yard.item(item)["claim"]["expires_at"]
    eventually(lambda: yard.item(item)["claim"]["expires_at"] > second, "another")
    (yard.path / "go").touch()
    assert heard(worker, "ended")["status"] == "succeeded"
    assert yard.item(item)["attempts"] == 1


def test_while_the_server_is_away_the_run_goes_on_and_its_result_is_kept(yard: Yard) -> None:
    item = yard.add("SAY one", f"WAIT {yard.path}/go", "SAY two", f"TOUCH {yard.path}/done")
    worker = yard.worker("--lease", "60s")
    run = heard(worker, "started")["run_id"]
    yard.server.kill()
    (yard.path / "go").touch()
    eventually((yard.path / "done").exists, "the agent goes on")
    yard.server.start()
    assert heard(worker, "ended")["status"] == "succeeded"
    assert yard.item(item)["status"] == "completed"
    assert [line["text"] for line in yard.client.read_log(run)] == ["one", "two"]


async def test_a_result_that_its_claim_did_not_outlive_is_kept_as_a_late_one(
    served: Served, tmp_path: Path
) -> None:
    """The lease is over before the server could be told: it was away, for example."""

    class Finished:
        async def execute(self, _request: RunRequest) -> RunEnd:
            await client.release(item.id, force=True, reason="taken away")
            await client.claim("bob")
            return RunEnd(RunStatus.SUCCEEDED, summary="mended")

    class Away(WorkQueueClient):
        async def end_run(self, run_id: str, end: Json) -> Json:
            item.lease.lose()
            raise ConnectionFailed(f"cannot end {run_id} as {end}", sent=False)

    async with Away(served.url) as client:
        await client.work_add("chore", "Mend the gate")
        [data] = await client.claim("ann")
        item = ClaimedItem(client, data, 300)
        with_it = Equipment(client, AgentSpec("ann"), None, Finished(), tmp_path, Limits(), "box")
        await WorkerRun(item, with_it).live(lambda _run: None)
        shown = await client.work_get(item.id)
    (late,) = shown["late_results"]
    assert (shown["claim"]["agent"], late["payload"]["notes"]) == ("bob", "mended")


# its end


def test_a_signal_lets_the_run_finish_and_takes_nothing_more(yard: Yard) -> None:
    item = yard.add(f"WAIT {yard.path}/go")
    worker = yard.worker()
    heard(worker, "started")
    worker.signal(signal.SIGTERM)
    heard(worker, "stopping")
    other = yard.add("SAY not by me")
    (yard.path / "go").touch()
    assert heard(worker, "ended")["status"] == "succeeded"
    assert worker.join() == 0
    assert yard.item(item)["status"] == "completed"
    assert yard.item(other)["status"] == "queued"


@pytest.mark.parametrize("how", ["deadline", "second signal"])
def test_what_does_not_finish_in_time_is_given_back(yard: Yard, how: str) -> None:
    item = yard.add(f"WAIT {yard.path}/never")
    worker = yard.worker("--grace", "0" if how == "deadline" else "1h")
    run = heard(worker, "started")["run_id"]
    worker.signal(signal.SIGINT)
    heard(worker, "stopping")
    if how == "second signal":
        worker.signal(signal.SIGINT)
    assert worker.join() == 0
    shown = yard.item(item)
    assert (shown["status"], shown["reason"]) == ("queued", "shut_down")
    assert shown["attempts"] == 0, "that was none"
    ended = yard.client.get_run(run)
    assert (ended["status"], ended["error"]) == ("cancelled", "shut_down")
    assert processes_with(str(yard.path / "agent.py")) == []


@pytest.mark.parametrize("how", ["cancelled", "claim_lost", "shut_down"])
def test_what_a_run_has_used_is_told_to_the_server_however_it_ends(yard: Yard, how: str) -> None:
    yard.configure(runtime="claude")
    message = {
        "id": "m-1",
        "content": [{"type": "text", "text": "I look."}],
        "usage": {"input_tokens": 70, "output_tokens": 7},
    }
    used = json.dumps({"type": "assistant", "session_id": "s-1", "message": message})
    item = yard.add(f"SAY {used}", f"WAIT {yard.path}/never")
    worker = yard.worker("--grace", "0", "--lease", "3s")
    run = heard(worker, "started")["run_id"]
    assert next(yard.client.read_log(run, follow=True))["text"] == "I look."
    match how:
        case "cancelled":
            yard.client.cancel_run(run)
        case "claim_lost":
            yard.client.set_agent("ann", paused=True)  # else its worker could be the next
            yard.client.release(item, force=True)
        case "shut_down":
            worker.signal(signal.SIGINT)
    eventually(lambda: yard.client.get_run(run)["ended_at"], "its end")
    ended = yard.client.get_run(run)
    assert how in (ended["status"], ended["error"])
    assert (ended["input_tokens"], ended["output_tokens"], ended["session_id"]) == (70, 7, "s-1")


def test_an_idle_worker_ends_at_once(yard: Yard) -> None:
    worker = yard.worker()
    heard(worker, "working")
    worker.signal(signal.SIGTERM)
    assert worker.join(20) == 0  # its long poll would be longer


# several of them, and dead ones


@on_both_databases
def test_a_killed_workers_item_is_recovered_and_its_processes_are_ended(yard: Yard) -> None:
    item = yard.add(f"WAIT {yard.path}/go", f"TOUCH {yard.path}/worked")
    worker = yard.worker("--lease", "8s")
    run = heard(worker, "started")["run_id"]
    worker.signal(signal.SIGKILL)
    eventually(lambda: yard.item(item)["status"] == "queued", "the lease lapses")
    eventually(
        lambda: processes_with(str(yard.path / "agent.py")) == [], "its agent does not outlive it"
    )
    (yard.path / "go").touch()
    heir = yard.worker("--lease", "60s")
    assert heard(heir, "ended")["status"] == "succeeded"
    shown = yard.item(item)
    assert (shown["status"], shown["attempts"], shown["epoch"]) == ("completed", 2, 2)
    assert yard.client.get_run(run)["status"] in {"running", "lost"}


def test_a_frozen_workers_result_does_not_count(yard: Yard) -> None:
    item = yard.add(f"WAIT {yard.path}/go", "SAY the first")
    sleeper = yard.worker("--lease", "4s")
    heard(sleeper, "started")
    sleeper.signal(signal.SIGSTOP)
    eventually(lambda: yard.item(item)["status"] == "queued", "the lease lapses")
    (mine,) = yard.client.claim("bob", lease_seconds=600)
    (yard.path / "go").touch()
    sleeper.signal(signal.SIGCONT)
    heard(sleeper, "ended")
    shown = yard.item(item)
    assert (shown["status"], shown["claim"]["agent"]) == ("in_progress", "bob")
    yard.client.complete(item, mine["claim"]["token"], notes="by bob")
    assert yard.item(item)["notes"] == "by bob"


@on_both_databases
def test_two_workers_never_share_an_item(yard: Yard) -> None:
    yard.client.set_agent("ann", max_concurrent=4)
    items = [yard.add(f"SAY {number}") for number in range(8)]
    workers = [yard.worker("--slots", "2") for _ in range(2)]
    eventually(
        lambda: {yard.item(item)["status"] for item in items} == {"completed"}, "all of them"
    )
    runs = yard.client.list_runs()
    assert sorted(run["work_item_id"] for run in runs) == sorted(items)
    assert {run["status"] for run in runs} == {"succeeded"}
    assert {yard.item(item)["attempts"] for item in items} == {1}
    assert {run["node"].rpartition("/")[2] for run in runs} <= {"ann-0", "ann-1"}
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.join() == 0


# what keeps it


def test_a_worker_rests_after_failures_in_a_row_until_it_is_resumed(yard: Yard) -> None:
    yard.configure(failures=2)
    for number in range(3):
        yard.add("EXIT 1", max_attempts=1, priority=number + 1)
    worker = yard.worker()
    assert "2 runs failed in a row" in heard(worker, "paused")["why"]
    agent = yard.client.get_agent("ann")
    assert (agent["failures"], agent["running"]) == (2, 0)
    assert agent["breaker_until"] is not None
    assert len(yard.client.list_runs()) == 2
    yard.client.set_agent("ann", paused=False)
    assert heard(worker, "started")["attempt"] == 1


def test_a_worker_rests_when_its_runtime_says_that_the_quota_is_used_up(yard: Yard) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    (yard.path / "agent.py").write_text(
        "import json\n"
        f"said = 'Claude AI usage limit reached|{until.timestamp():.0f}'\n"
        "print(json.dumps({'type': 'result', 'subtype': 'success', 'is_error': True,"
        " 'result': said, 'session_id': 's-1'}))\n"
        "raise SystemExit(1)\n"
    )
    yard.configure(runtime="claude")
    item = yard.add("SAY anything")
    worker = yard.worker()
    assert f"quota is used up until {to_text(until)}" in heard(worker, "paused")["why"]
    shown = yard.item(item)
    assert shown["status"] == "queued"
    assert shown["reason"].startswith("the agent's quota is used up")
    assert shown["attempts"] == 0
    assert yard.client.get_agent("ann")["failures"] == 0


def test_the_third_time_in_a_row_that_a_quota_is_said_to_be_used_up_counts(yard: Yard) -> None:
    (yard.path / "agent.py").write_text(
        "import json\n"
        "print(json.dumps({'type': 'result', 'subtype': 'success', 'is_error': True,"
        " 'result': 'Claude AI usage limit reached|9999999999', 'session_id': 's-1'}))\n"
        "raise SystemExit(1)\n"
    )
    yard.configure(runtime="claude", more="pause_on_usage_limit: false")
    item = yard.add("SAY anything")
    counted = []
    for _ in range(3):
        yard.once()
        counted.append(yard.item(item)["attempts"])
    assert counted == [0, 0, 1]


def test_a_worker_rests_when_the_day_is_spent(yard: Yard) -> None:
    yard.configure(more="budget: {per_day: {runs: 1}}\n")
    yard.add("SAY one")
    second = yard.add("SAY two")
    worker = yard.worker()
    assert "1 of 1 runs" in heard(worker, "paused")["why"]
    assert yard.item(second)["status"] == "queued"


# wrong input


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--schedule", "weekly"], 2, "has no schedule 'weekly'"),
        (["--db", "x.db"], 2, "use one of them"),
        (["--config", "none.yaml"], 2, "no configuration file"),
        (["--agent", "bob"], 2, "has no agent 'bob'; it has ann"),
        (["--url", "http://127.0.0.1:9", "--once"], 5, "cannot reach"),
    ],
)
def test_what_cannot_work_is_told(yard: Yard, options: list[str], code: int, words: str) -> None:
    worker = yard.worker(*options)
    said = worker.hear_all()
    assert worker.join() == code
    assert words in said[-1]["error"]["message"]


def test_a_worker_without_a_file_is_told_how_to_get_one(yard: Yard) -> None:
    (yard.path / "rota.yaml").unlink()
    worker = yard.worker()
    (said,) = worker.hear_all()
    assert worker.join() == 2
    assert said["error"]["message"] == (
        "there is no rota.yaml here to say how 'ann' is run; `rota init` writes one, or name"
        " another with --config"
    )


def test_a_worker_makes_no_ledger_to_wait_at(yard: Yard) -> None:
    worker = yard.worker(database="mistyped.db")
    (said,) = worker.hear_all()
    assert worker.join() == 6
    assert said["error"]["message"].startswith("there is no ledger at mistyped.db yet; `rota up`")
    assert not (yard.path / "mistyped.db").exists()


def test_a_worker_with_a_wrong_token_ends_and_says_so(yard: Yard) -> None:
    yard.client.create_token("boss", ["admin"])
    worker = yard.worker("--token", "rota_wrong")
    said = worker.hear_all()
    assert worker.join() == 3
    assert said[-1]["error"]["code"] == "unauthenticated"


def test_an_agents_token_is_enough(yard: Yard) -> None:
    item = yard.add("SAY hello")
    secret = yard.client.create_token("ann", ["agent:ann"])["secret"]
    worker = yard.worker("--once", "--token", secret)
    worker.hear_all()
    assert worker.join() == 0
    with SyncWorkQueueClient(yard.server.url, secret) as ann:
        assert ann.work_get(item)["status"] == "completed"
