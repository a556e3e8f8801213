"""Runs over HTTP: for people who look and cancel, and for workers on other machines."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings, create_app
from rota.app import open_ledger
from rota.model.fleet import AgentSpec
from rota.model.runs import Run, RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.queue.ledger import Ledger
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
NDJSON = {"Content-Type": "application/x-ndjson"}
Json = dict[str, Any]


def own_run(served: Served, agent: str = "ann", **facts: Any) -> Run:
    """A run of the server itself."""
    return served.run(lambda: served.ledger.runs.begin(agent, TriggerKind.SCHEDULE, **facts))


def finish(served: Served, run: Run, status: RunStatus = RunStatus.SUCCEEDED, **how: Any) -> None:
    served.run(lambda: served.ledger.runs.end(run, RunEnd(status, **how)))


def claimed(http: httpx2.Client, agent: str = "ann") -> Json:
    http.post("/work", json={"type": "chore", "description": "Mend the gate\nIt squeaks."})
    [item] = http.post("/work/claim", json={"agent": agent, "lease_seconds": 60}).json()
    found: Json = item
    return found


def begin(http: httpx2.Client, item: Json, agent: str = "ann", **more: Any) -> httpx2.Response:
    token = item["claim"]["token"]
    body = {"agent": agent, "work_item_id": item["id"], "token": token, **more}
    return http.post("/runs", json=body)


def begun(http: httpx2.Client, agent: str = "ann") -> str:
    answer = begin(http, claimed(http, agent), agent)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def line(text: str) -> bytes:
    return json.dumps({"ts": "2026-05-01T12:00:00Z", "text": text}).encode() + b"\n"


def send(http: httpx2.Client, run: str, data: bytes, offset: int = 0) -> httpx2.Response:
    where = f"/runs/{run}/log"
    return http.post(where, params={"offset": offset}, content=data, headers=NDJSON)


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def texts(body: str) -> list[str]:
    return [json.loads(one)["text"] for one in body.splitlines() if one]


# looking


@on_both_databases
def test_runs_are_listed_newest_first_page_by_page(
    http: httpx2.Client, served: Served, clock: ManualClock
) -> None:
    ids = []
    for number in range(5):
        clock.advance(1)
        ids.insert(0, own_run(served, schedule=f"s{number % 2}").id)
    first = http.get("/runs", params={"limit": 2, "agent": "ann"})
    assert [run["id"] for run in first.json()] == ids[:2]
    second = http.get(first.links["next"]["url"])
    assert [run["id"] for run in second.json()] == ids[2:4]
    third = http.get(second.links["next"]["url"])
    assert [run["id"] for run in third.json()] == ids[4:]
    assert "next" not in third.links


@on_both_databases
def test_runs_are_found_by_agent_schedule_item_and_status(
    http: httpx2.Client, served: Served
) -> None:
    nightly = own_run(served, schedule="nightly")
    finish(served, nightly, RunStatus.FAILED)
    other = own_run(served, "bob")
    worker = begun(http)

    def found(**wanted: Any) -> set[str]:
        return {run["id"] for run in http.get("/runs", params=wanted).json()}

    item = http.get(f"/runs/{worker}").json()["work_item_id"]
    assert found(agent="bob") == {other.id}
    assert found(schedule="nightly") == {nightly.id}
    assert found(work_item_id=item) == {worker}
    assert found(status="failed,lost") == {nightly.id}
    assert found(status=["failed", "running"], agent="ann") == {nightly.id, worker}
    assert found(agent="nobody") == set()


@on_both_databases
def test_a_run_tells_how_it_ended_and_what_it_cost(http: httpx2.Client, served: Served) -> None:
    run = own_run(served, schedule="nightly")
    usage = Usage(1000, 20, 0.25, 3)
    finish(
        served, run, RunStatus.PARTIAL, summary="half of it", artifacts=("https://e.org/1",),
        exit_code=3, session_id="s-1", usage=usage, hook_errors=("notify: exit code 1",),
    )  # fmt: skip
    shown = http.get(f"/runs/{run.id}").json()
    assert (shown["agent"], shown["schedule"], shown["trigger"]) == ("ann", "nightly", "schedule")
    assert (shown["status"], shown["summary"], shown["exit_code"]) == ("partial", "half of it", 3)
    assert (shown["input_tokens"], shown["output_tokens"]) == (1000, 20)
    assert (shown["cost_usd"], shown["turns"], shown["session_id"]) == (0.25, 3, "s-1")
    assert shown["artifacts"] == ["https://e.org/1"]
    assert shown["hook_errors"] == ["notify: exit code 1"]
    assert shown["ended_at"] is not None


def test_wrong_filters_are_refused_with_their_name(http: httpx2.Client) -> None:
    bad = http.get("/runs", params={"status": "finished"})
    assert code(bad) == (422, "invalid_input")
    assert "timed_out" in bad.json()["allowed"]
    assert code(http.get("/runs", params={"cursor": "x' OR 1=1"})) == (400, "bad_cursor")
    assert code(http.get("/runs", params={"colour": "red"})) == (422, "invalid_input")
    assert code(http.get("/runs/none-such")) == (404, "not_found")


# cancelling


@on_both_databases
def test_a_run_is_cancelled_by_whoever_has_its_process(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    asked = served.ledger.runs.asked(run)
    answer = http.post(f"/runs/{run.id}/cancel")
    assert (answer.status_code, answer.json()["cancel_requested"]) == (200, True)
    assert answer.json()["status"] == "running"
    assert asked.is_set()
    finish(served, run, RunStatus.CANCELLED)
    late = http.post(f"/runs/{run.id}/cancel")
    assert code(late) == (409, "refused")
    assert late.json()["run_status"] == "cancelled"
    assert code(http.post("/runs/none-such/cancel")) == (404, "not_found")


# the log


@contextmanager
def written(served: Served, run: Run) -> Iterator[Callable[[str], None]]:
    path = served.ledger.runs.log(run.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:

        def write(text: str) -> None:
            file.write(line(text))

        yield write


def test_a_log_is_read_from_an_offset_on(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    assert http.get(f"/runs/{run.id}/log").text == ""
    with written(served, run) as write:
        write("one")
        write("two")
    answer = http.get(f"/runs/{run.id}/log")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert texts(answer.text) == ["one", "two"]
    rest = http.get(f"/runs/{run.id}/log", params={"offset": len(line("one"))})
    assert texts(rest.text) == ["two"]
    assert http.get(f"/runs/{run.id}/log", params={"offset": -1}).status_code == 422


def test_a_log_is_followed_until_the_run_has_ended(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    with (
        written(served, run) as write,
        http.stream("GET", f"/runs/{run.id}/log", params={"follow": "true"}) as stream,
    ):
        lines = stream.iter_lines()
        write("one")
        assert texts(next(lines)) == ["one"]
        write("two")
        assert texts(next(lines)) == ["two"]
        write("last words")
        finish(served, run)
        assert texts("\n".join(lines)) == ["last words"]


def test_a_followed_log_as_events_can_be_resumed(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    with written(served, run) as write:
        write("one")
        write("two")
    finish(served, run)
    headers = {"Accept": "text/event-stream"}
    whole = http.get(f"/runs/{run.id}/log", headers=headers)
    assert whole.headers["content-type"] == "text/event-stream"
    first, second, end, _ = whole.text.split("\n\n")
    assert first == f"id: {len(line('one'))}\ndata: {line('one').decode().strip()}"
    assert end == "event: end\ndata: {}"
    resumed = http.get(
        f"/runs/{run.id}/log",
        headers={**headers, "Last-Event-ID": first.partition("\n")[0].removeprefix("id: ")},
    )
    assert resumed.text.split("\n\n")[0] == second


def test_a_line_of_a_worker_is_one_line_of_events_whatever_parts_its_tokens(
    http: httpx2.Client,
) -> None:
    run = begun(http)
    said = b'{"ts": "2026-05-01T12:00:00Z",\r"text":\r\r"a\\rb"}\r\n'
    assert send(http, run, said).status_code == 200
    http.post(f"/runs/{run}/end", json={"status": "succeeded"}).raise_for_status()
    told = http.get(f"/runs/{run}/log", headers={"Accept": "text/event-stream"}).content
    first, end, _ = told.split(b"\n\n")
    assert b"\r" not in told
    assert first.startswith(b"id: %d\ndata: " % len(said))
    assert json.loads(first.partition(b"data: ")[2])["text"] == "a\rb"
    assert end.startswith(b"event: end")


def test_the_head_of_a_log_that_is_followed_ends(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    for params, headers, kind in (
        ({"follow": "true"}, {}, "application/x-ndjson"),
        ({}, {"Accept": "text/event-stream"}, "text/event-stream"),
        ({}, {}, "application/x-ndjson"),
    ):
        answer = http.head(f"/runs/{run.id}/log", params=params, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert http.head("/runs/nope/log").status_code == 404


def test_a_quiet_log_shows_that_it_is_still_there(database: str, tmp_path: Path) -> None:
    settings = ApiSettings(heartbeat_seconds=0.01)
    with (
        serve(database, settings, logs=tmp_path / "runs") as served,
        httpx2.Client(base_url=served.url, timeout=30) as http,
    ):
        run = own_run(served)
        with http.stream("GET", f"/runs/{run.id}/log", params={"follow": "true"}) as stream:
            assert next(stream.iter_raw()) == b"\n"
        with http.stream(
            "GET", f"/runs/{run.id}/log", headers={"Accept": "text/event-stream"}
        ) as stream:
            assert next(stream.iter_raw()) == b": still here\n\n"


def test_a_followed_log_ends_when_the_server_does(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    with (
        written(served, run) as write,
        http.stream("GET", f"/runs/{run.id}/log", params={"follow": "true"}) as stream,
    ):
        lines = stream.iter_lines()
        write("one")
        next(lines)
        served.stop()
        assert list(lines) == []


def test_a_followed_log_ends_when_its_token_is_revoked(database: str, tmp_path: Path) -> None:
    settings = ApiSettings(recheck_seconds=0.05, remember_seconds=0.01)
    with (
        serve(database, settings, logs=tmp_path / "runs") as served,
        httpx2.Client(base_url=served.url, timeout=10) as http,
    ):
        tokens, run = served.ledger.tokens, own_run(served)
        token, secret = served.run(lambda: tokens.create("spy", ["read"]))
        headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
        with (
            written(served, run) as write,
            http.stream("GET", f"/runs/{run.id}/log", headers=headers) as stream,
        ):
            write("one")
            lines = stream.iter_lines()
            assert next(lines) == f"id: {len(line('one'))}"
            served.run(lambda: tokens.revoke(token.id))
            assert "event: end" not in lines, "it has not ended, and who may reads on"


def test_whoever_follows_the_log_of_a_dead_server_is_told_once(
    http: httpx2.Client, served: Served, clock: ManualClock
) -> None:
    node = Node("node-7", "here:/", 1, clock.text(), clock.text())
    served.run(lambda: served.store.transact(lambda tx: tx.put_node(node)))
    there = Ledger.on(served.store, node=node.id).runs
    run = served.run(lambda: there.begin("ann", TriggerKind.SCHEDULE))
    where, follow = f"/runs/{run.id}/log", {"follow": "true"}
    with (
        written(served, run) as write,
        http.stream("GET", where, params=follow) as stream,
    ):
        lines = stream.iter_lines()
        write("one")
        assert texts(next(lines)) == ["one"]
        clock.advance(60)
        (last,) = lines
        assert f"has not been seen since {node.seen_at}" in json.loads(last)["text"]
        counted = len(line("one")) + len(last) + 1
        with http.stream("GET", where, params={**follow, "offset": counted}) as again:
            lines = again.iter_lines()
            write("it was alive after all")
            assert texts(next(lines)) == ["it was alive after all"]
    events = http.get(where, headers={"Accept": "text/event-stream"}).text.split("\n\n")
    assert '"gone":true' in events[-3]
    assert events[-2] == "event: end\ndata: {}"


def test_a_log_that_lies_on_another_node_is_not_an_empty_one(
    http: httpx2.Client, served: Served
) -> None:
    there = Ledger.on(served.store, node="node-7").runs
    run = served.run(lambda: there.begin("ann", TriggerKind.SCHEDULE))
    answer = http.get(f"/runs/{run.id}/log")
    assert code(answer) == (404, "not_found")
    assert answer.json()["node"] == "node-7"
    node = Node("node-7", "smithy:/var/lib/rota#5f", 1, run.started_at, run.started_at)
    served.run(lambda: served.store.transact(lambda tx: tx.put_node(node)))
    assert "it was written on 'smithy:/var/lib/rota';" in http.get(f"/runs/{run.id}/log").text


# workers


@on_both_databases
def test_a_worker_begins_a_run_with_its_claim(http: httpx2.Client) -> None:
    item = claimed(http)
    answer = begin(http, item, node="box-3", schedule="nightly")
    assert answer.status_code == 201
    run = answer.json()
    assert answer.headers["location"] == f"/runs/{run['id']}"
    assert (run["agent"], run["trigger"], run["status"]) == ("ann", "worker", "running")
    assert (run["node"], run["schedule"], run["attempt"]) == ("worker:box-3", "nightly", 1)
    assert (run["work_item_id"], run["epoch"]) == (item["id"], item["epoch"])
    assert run["item_title"].startswith("Mend the gate")
    again = begin(http, item, node="box-3")
    assert (again.status_code, again.json()["id"]) == (200, run["id"])
    assert [one["type"] for one in http.get("/events").json()].count("run.started") == 1


@on_both_databases
async def test_a_worker_that_asks_twice_at_once_has_one_run(database: str) -> None:
    async with open_ledger(database) as ledger:
        app = httpx2.ASGITransport(create_app(ledger))
        async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as http:
            await http.post("/work", json={"type": "chore", "description": "x"})
            [item] = (await http.post("/work/claim", json={"agent": "ann"})).json()
            body = {"agent": "ann", "work_item_id": item["id"], "token": item["claim"]["token"]}
            answers = await asyncio.gather(*(http.post("/runs", json=body) for _ in range(4)))
            assert sorted(one.status_code for one in answers) == [200, 200, 200, 201]
            assert len({one.json()["id"] for one in answers}) == 1


@on_both_databases
def test_no_run_begins_without_the_living_claim(http: httpx2.Client, clock: ManualClock) -> None:
    item = claimed(http)
    wrong = {**item, "claim": {"token": "made-up"}}
    assert code(begin(http, wrong)) == (409, "claim_lost")
    assert code(begin(http, item, agent="bob")) == (422, "invalid_input")
    assert code(begin(http, {**item, "id": "none-such"})) == (404, "not_found")
    clock.advance(61)
    http.post("/sweep")
    assert code(begin(http, item)) == (409, "claim_lost")
    assert http.get("/runs").json() == []


def test_to_begin_a_run_keeps_the_claim_for_another_lease(
    http: httpx2.Client, clock: ManualClock
) -> None:
    item = claimed(http)
    clock.advance(50)
    begin(http, item)
    clock.advance(50)
    assert http.post("/sweep").json()["released"] == []


def test_pieces_of_a_log_are_put_together(http: httpx2.Client) -> None:
    run = begun(http)
    assert http.get(f"/runs/{run}/log").text == ""
    one, two = line("one"), line("two")
    assert send(http, run, one).json() == {"size": len(one)}
    assert send(http, run, one).json() == {"size": len(one)}, "a piece may come twice"
    assert send(http, run, one + two).json() == {"size": len(one + two)}
    assert http.get(f"/runs/{run}/log").content == one + two
    gap = send(http, run, two, offset=10_000)
    assert code(gap) == (422, "invalid_input")
    assert gap.json()["size"] == len(one + two)


@pytest.mark.parametrize("data", [b"no json\n", b'{"text": "no end"}', b"[1]\n", b"\n"])
def test_what_is_no_log_is_refused(http: httpx2.Client, data: bytes) -> None:
    run = begun(http)
    assert code(send(http, run, data)) == (422, "invalid_input")
    assert http.get(f"/runs/{run}/log").content == b""


def test_a_piece_has_its_limit(http: httpx2.Client) -> None:
    run = begun(http)
    assert code(send(http, run, line("x" * 1024 * 1024))) == (413, "too_large")
    form = {"Content-Type": "text/plain"}
    refused = http.post(f"/runs/{run}/log", content=line("x"), headers=form)
    assert code(refused) == (415, "unsupported_media_type")


END: Json = {
    "status": "failed",
    "summary": "It does not build.",
    "artifacts": ["https://example.org/pull/1"],
    "error": "exit code 2",
    "exit_code": 2,
    "session_id": "s-1",
    "input_tokens": 100,
    "output_tokens": 5,
    "cost_usd": 0.5,
    "turns": 2,
    "hook_errors": ["notify: no answer"],
}


@on_both_databases
def test_a_worker_ends_its_run_once(http: httpx2.Client) -> None:
    run = begun(http)
    item = http.get(f"/runs/{run}").json()["work_item_id"]
    ended = http.post(f"/runs/{run}/end", json=END)
    assert ended.status_code == 200
    assert {name: ended.json()[name] for name in END} == END
    assert http.get(f"/work/{item}").json()["status"] == "in_progress", "its verbs move it"
    assert http.post(f"/runs/{run}/end", json=END).json() == ended.json()
    other = http.post(f"/runs/{run}/end", json={**END, "summary": "It does."})
    assert code(other) == (409, "refused")
    assert other.json()["run_status"] == "failed"
    assert code(send(http, run, line("more"))) == (409, "refused")
    assert [one["type"] for one in http.get("/events").json()].count("run.finished") == 1


@pytest.mark.parametrize(
    "end",
    [
        {},
        {"status": "running"},
        {"status": "done"},
        {"status": "failed", "summary": "\x00"},
        {"status": "failed", "artifacts": ["\x00"]},
        {"status": "failed", "input_tokens": -1},
        {"status": "failed", "cost_usd": -0.01},
        {"status": "failed", "exit_code": 10**12},
        {"status": "failed", "usage_limit_until": "tomorrow"},
        {"status": "failed", "colour": "red"},
    ],
)
def test_an_end_that_cannot_be_right_is_refused(http: httpx2.Client, end: Json) -> None:
    run = begun(http)
    answer = http.post(f"/runs/{run}/end", json=end)
    assert answer.status_code == 422, answer.text
    assert http.get(f"/runs/{run}").json()["status"] == "running"


def test_the_servers_own_runs_are_not_for_workers(http: httpx2.Client, served: Served) -> None:
    run = own_run(served)
    assert code(http.post(f"/runs/{run.id}/end", json=END)) == (409, "refused")
    assert code(send(http, run.id, line("x"))) == (409, "refused")
    assert http.get(f"/runs/{run.id}").json()["status"] == "running"


def test_an_agents_token_is_for_that_agents_runs(http: httpx2.Client, served: Served) -> None:
    theirs = begun(http, "bob")
    items = {agent: claimed(http, agent) for agent in ("ann", "carl")}
    served.run(lambda: served.ledger.tokens.create("boss", ("admin",)))
    _, secret = served.run(lambda: served.ledger.tokens.create("ann", ("agent:ann",)))
    served.api._gate.forget()
    http.headers["authorization"] = f"Bearer {secret}"
    assert code(begin(http, items["carl"], "carl")) == (403, "forbidden")
    assert code(begin(http, items["carl"], "ann")) == (403, "forbidden")
    assert code(send(http, theirs, line("x"))) == (403, "forbidden")
    assert code(http.post(f"/runs/{theirs}/end", json=END)) == (403, "forbidden")
    assert code(http.post(f"/runs/{theirs}/cancel")) == (403, "forbidden")
    mine = begin(http, items["ann"]).json()["id"]
    assert send(http, mine, line("x")).status_code == 200
    assert http.post(f"/runs/{mine}/end", json=END).status_code == 200
    assert len(http.get("/runs").json()) == 2


# agents


@on_both_databases
def test_agents_tell_what_they_run_and_have_spent_today(
    http: httpx2.Client, served: Served, clock: ManualClock
) -> None:
    yesterday = own_run(served)
    finish(served, yesterday, usage=Usage(10, 10, 5.0))
    clock.advance(24 * 3600)
    for _ in range(2):
        finish(served, own_run(served), usage=Usage(100, 20, 0.25))
    own_run(served)
    [ann] = http.get("/agents").json()
    assert (ann["name"], ann["running"], ann["in_progress"]) == ("ann", 1, 0)
    assert ann["spent_today"] == {"runs": 3, "seconds": 0.0, "tokens": 240, "cost_usd": 0.5}
    assert http.get("/agents/ann").json() == ann


def test_the_day_of_an_agent_begins_where_it_is_asked_for(
    http: httpx2.Client, served: Served, clock: ManualClock
) -> None:
    own_run(served)  # at noon, UTC
    clock.advance(11 * 3600)

    def today(timezone: str) -> Any:
        return http.get("/agents/ann", params={"timezone": timezone}).json()["spent_today"]["runs"]

    assert (today("UTC"), today("Europe/Berlin"), today("America/New_York")) == (1, 0, 1)
    for wrong in ("Mars/Olympus", "../../etc/passwd", "/etc/passwd"):
        answer = http.get("/agents/ann", params={"timezone": wrong})
        assert code(answer) == (422, "invalid_input"), wrong


@on_both_databases
def test_failures_in_a_row_that_a_worker_tells_of_keep_its_agent(
    http: httpx2.Client, clock: ManualClock
) -> None:
    limits = {"breaker_failures": 2, "breaker_cooldown_seconds": 60}
    for _ in range(2):
        run = begun(http)
        item = http.get(f"/runs/{run}").json()["work_item_id"]
        http.post(f"/runs/{run}/end", json={**END, "limits": limits})
        http.post(f"/work/{item}/fail", json={"force": True})
    ann = http.get("/agents/ann").json()
    assert (ann["failures"], ann["breaker_until"]) == (2, clock.text(60))
    assert ann["note"] == "exit code 2"
    clock.advance(61)
    assert http.get("/agents/ann").json()["breaker_until"] is None


@on_both_databases
def test_an_agent_that_is_resumed_may_run_at_once(http: httpx2.Client, served: Served) -> None:
    run = begun(http)
    http.post(
        f"/runs/{run}/end",
        json={
            "status": "failed", "usage_limit": True, "usage_limit_until": "2026-05-01T18:00:00Z",
            "limits": {},
        },
    )  # fmt: skip
    spec = AgentSpec("ann")
    assert http.get("/agents/ann").json()["usage_until"] == "2026-05-01T18:00:00.000000Z"
    assert served.run(lambda: served.ledger.admission.refusal(spec)) is not None
    http.patch("/agents/ann", json={"max_concurrent": 2})
    assert http.get("/agents/ann").json()["usage_until"] is not None
    resumed = http.patch("/agents/ann", json={"paused": False}).json()
    assert (resumed["usage_until"], resumed["max_concurrent"]) == (None, 2)
    assert served.run(lambda: served.ledger.admission.refusal(spec)) is None


def test_many_begin_at_once_and_each_gets_its_own_run(http: httpx2.Client, served: Served) -> None:
    items = [claimed(http, f"agent-{n}") for n in range(8)]
    answers: list[httpx2.Response] = []

    def one(number: int) -> None:
        with httpx2.Client(base_url=served.url, timeout=30) as mine:
            answers.append(begin(mine, items[number], f"agent-{number}"))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 8


# what a run has left to be answered


@on_both_databases
def test_who_resumes_the_item_of_a_run_goes_on_with_it_himself_or_forces_it(
    http: httpx2.Client,
) -> None:
    item = claimed(http)
    begin(http, item)
    where, token = f"/work/{item['id']}", item["claim"]["token"]
    http.post(f"{where}/block", json={"token": token, "notes": "Which gate?"})
    refused = http.post(f"{where}/resume")
    assert code(refused) == (409, "refused")
    assert f"rota release {item['id']}" in refused.json()["detail"]
    assert code(http.patch(where, json={"status": "in_progress"})) == (409, "refused")
    mine = http.post(f"{where}/resume", json={"lease_seconds": 60}).json()
    assert (mine["status"], mine["assigned_agent"]) == ("in_progress", "ann")
    begin(http, mine)
    http.post(f"{where}/block", json={"token": mine["claim"]["token"], "notes": "Which gate?"})
    forced = http.post(f"{where}/resume", json={"force": True})
    assert (forced.status_code, forced.json()["status"]) == (200, "in_progress")


def test_only_a_dispatcher_forces_an_item_to_be_resumed(
    http: httpx2.Client, served: Served
) -> None:
    _, secret = served.run(lambda: served.ledger.tokens.create("ann", ["work"]))
    headers = {"Authorization": f"Bearer {secret}"}
    answer = http.post("/work/x/resume", json={"force": True}, headers=headers)
    assert code(answer) == (403, "forbidden")
