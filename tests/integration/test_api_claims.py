"""Claims, verbs, heartbeats, late results and long polls over HTTP."""

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings, claims, create_app
from rota.app import open_ledger, open_store
from rota.model.claims import ClaimRequest
from rota.model.work import NewItem
from rota.queue.ledger import Ledger
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def add(http: httpx2.Client, **fields: Any) -> str:
    answer = http.post("/work", json={"type": "chore", "description": "do it", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def claim(http: httpx2.Client, agent: str = "steve-w", **fields: Any) -> list[dict[str, Any]]:
    answer = http.post("/work/claim", json={"agent": agent, **fields})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()
    return items


def claim_one(http: httpx2.Client, agent: str = "steve-w") -> tuple[str, str]:
    [item] = claim(http, agent)
    return item["id"], item["claim"]["token"]


def do(http: httpx2.Client, item: str, verb: str, **fields: Any) -> httpx2.Response:
    return http.post(f"/work/{item}/{verb}", json=fields)


def show(http: httpx2.Client, item: str) -> dict[str, Any]:
    detail: dict[str, Any] = http.get(f"/work/{item}").json()
    return detail


@on_both_databases
def test_a_release_that_was_no_attempt_does_not_count_as_one(http: httpx2.Client) -> None:
    item = add(http)
    _, token = claim_one(http)
    do(http, item, "release", token=token)
    _, token = claim_one(http)
    released = do(http, item, "release", token=token, counted=False)
    assert released.json()["attempts"] == show(http, item)["attempts"] == 1
    late = do(http, item, "release", token=token, counted=False)
    assert (late.status_code, show(http, item)["attempts"]) == (200, 1), (
        "said twice, it counts once"
    )
    do(http, item, "dispatch", assigned_agent="steve-w")
    do(http, item, "release", counted=False)
    assert show(http, item)["attempts"] == 1, "that was nobody's claim"


@on_both_databases
def test_a_claimed_item_comes_with_its_claim_and_only_to_the_claimer(http: httpx2.Client) -> None:
    added = add(http)
    [item] = claim(http, lease_seconds=60)
    assert (item["id"], item["status"], item["assigned_agent"]) == (added, "in_progress", "steve-w")
    assert set(item["claim"]) == {"token", "epoch", "expires_at", "lease_seconds"}
    assert (item["epoch"], item["attempts"]) == (1, 1)
    token = item["claim"]["token"]
    shown = http.get(f"/work/{added}")
    assert shown.json()["claim"]["agent"] == "steve-w"
    for path in (f"/work/{added}", "/work", "/events", f"/work/{added}/explain"):
        assert token not in http.get(path).text, path


@on_both_databases
def test_dispatched_items_come_first_then_queued_ones_by_priority(http: httpx2.Client) -> None:
    low, high = add(http, priority=4), add(http, priority=1)
    mine, other = add(http, priority=5), add(http, priority=1, assigned_agent="somebody-else")
    assert do(http, mine, "dispatch", assigned_agent="steve-w").status_code == 200
    http.patch("/agents/steve-w", json={"max_concurrent": 10})
    assert [item["id"] for item in claim(http, limit=10)] == [mine, high, low]
    assert show(http, other)["status"] == "queued"


def test_a_claim_is_narrowed_by_type_label_and_project(http: httpx2.Client) -> None:
    project = http.post("/projects", json={"name": "p"}).json()["id"]
    http.patch("/agents/steve-w", json={"max_concurrent": 10})
    add(http)
    typed = add(http, type="bug_fix")
    labelled = add(http, labels=["red", "blue"])
    grouped = add(http, project_id=project)
    assert [i["id"] for i in claim(http, limit=9, types=["bug_fix", "other"])] == [typed]
    assert [i["id"] for i in claim(http, limit=9, labels=["red", "blue"])] == [labelled]
    assert [i["id"] for i in claim(http, limit=9, project_id=project)] == [grouped]


@on_both_databases
def test_an_empty_claim_says_why(http: httpx2.Client) -> None:
    def reason() -> str:
        answer = http.post("/work/claim", json={"agent": "steve-w"})
        assert answer.json() == []
        return answer.headers["rota-reason"]

    assert reason() == "nothing_ready"
    add(http)
    add(http)
    assert len(claim(http)) == 1
    assert reason() == "no_free_slot"
    http.patch("/agents/steve-w", json={"paused": True})
    assert reason() == "agent_paused"


@on_both_databases
def test_many_claimers_at_once_get_different_items(http: httpx2.Client) -> None:
    items = [add(http) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        taken = list(pool.map(lambda n: claim_one(http, f"agent-{n}"), range(12)))
    assert sorted(item for item, _ in taken) == sorted(items)


@on_both_databases
def test_a_heartbeat_pushes_the_lease_out(http: httpx2.Client, clock: ManualClock) -> None:
    add(http)
    [item] = claim(http, lease_seconds=60)
    clock.advance(50)
    beat = do(
        http, item["id"], "heartbeat", token=item["claim"]["token"], notes="half", progress="50 %"
    )
    assert beat.status_code == 200
    assert beat.json()["expires_at"] == clock.text(60)
    clock.advance(50)
    assert http.post("/sweep").json()["released"] == []
    shown = show(http, item["id"])
    assert (shown["notes"], shown["claim"]["progress"]) == ("half", "50 %")


@on_both_databases
def test_a_lapsed_lease_goes_back_and_its_holder_is_told(
    http: httpx2.Client, clock: ManualClock
) -> None:
    add(http)
    [first] = claim(http, lease_seconds=60)
    item, token = first["id"], first["claim"]["token"]
    clock.advance(61)
    assert http.post("/sweep").json() == {
        "released": [item], "failed": [], "blocked": [], "due": 0,
    }  # fmt: skip
    [second] = claim(http, agent="ann")
    assert (second["id"], second["epoch"], second["attempts"]) == (item, 2, 2)
    beat = do(http, item, "heartbeat", token=token)
    assert (beat.status_code, beat.json()["code"]) == (409, "claim_lost")
    late = do(http, item, "complete", token=token, notes="I was slow")
    assert (late.status_code, late.json()["code"]) == (409, "claim_lost")
    assert late.json()["item_status"] == "in_progress"
    by_patch = http.patch(
        f"/work/{item}",
        json={"status": "failed", "outcome": "failed", "token": token, "description": "mine!"},
    )
    assert (by_patch.status_code, by_patch.json()["code"]) == (409, "claim_lost")
    noted = do(http, item, "note", token=token, notes="still me?")
    assert (noted.status_code, noted.json()["code"]) == (409, "claim_lost")
    shown = show(http, item)
    assert (shown["status"], shown["assigned_agent"]) == ("in_progress", "ann")
    assert shown["description"] == "do it"
    kept = [(one["payload"]["verb"], one["payload"].get("notes")) for one in shown["late_results"]]
    assert kept == [("complete", "I was slow"), ("fail", None)]
    done = do(http, item, "complete", token=second["claim"]["token"])
    assert done.json()["status"] == "completed"


@on_both_databases
def test_the_verbs_with_a_token_walk_the_status_machine(http: httpx2.Client) -> None:
    add(http)
    item, token = claim_one(http)
    blocked = do(http, item, "block", token=token, notes="waits for a password")
    assert (blocked.json()["status"], blocked.json()["notes"]) == (
        "blocked", "waits for a password",
    )  # fmt: skip
    resumed = do(http, item, "resume", lease_seconds=30).json()
    assert (resumed["status"], resumed["epoch"]) == ("in_progress", 2)
    token = resumed["claim"]["token"]
    released = do(http, item, "release", token=token, reason="shut_down").json()
    assert (released["status"], released["reason"]) == ("queued", "shut_down")
    item, token = claim_one(http)
    url = "https://example.org/pull/3"
    handed = do(http, item, "hand_over", token=token, artifact_url=url).json()
    assert (handed["status"], handed["artifact_url"]) == ("in_review", url)
    assert do(http, item, "reopen", notes="not yet").json()["status"] == "queued"
    item, token = claim_one(http)
    failed = do(http, item, "fail", token=token, notes="no way").json()
    assert (failed["status"], failed["outcome"]) == ("failed", "failed")
    assert do(http, item, "retry").json()["status"] == "queued"
    item, token = claim_one(http)
    done = do(http, item, "complete", token=token, notes="at last").json()
    assert (done["status"], done["outcome"], done["notes"]) == ("completed", "success", "at last")


def test_dispatch_and_start_with_a_lease_give_a_claim(http: httpx2.Client) -> None:
    item = add(http)
    assert do(http, item, "dispatch", assigned_agent="steve-w").json()["status"] == "dispatched"
    started = do(http, item, "start", agent="steve-w", lease_seconds=30).json()
    assert (started["status"], started["claim"]["epoch"]) == ("in_progress", 1)
    other = add(http)
    do(http, other, "dispatch", assigned_agent="ann")
    assert "claim" not in do(http, other, "start").json()


def test_only_the_one_who_holds_the_dispatch_may_start(http: httpx2.Client) -> None:
    item = add(http)
    do(http, item, "dispatch", assigned_agent="steve-w")
    refused = do(http, item, "start", agent="ann")
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert show(http, item)["status"] == "dispatched"


def test_a_released_item_may_be_put_off(http: httpx2.Client, clock: ManualClock) -> None:
    add(http)
    item, token = claim_one(http)
    do(http, item, "release", token=token, available_at=clock.text(60))
    assert claim(http) == []
    assert http.get(f"/work/{item}/explain").json()["reasons"][0]["code"] == "not_due"
    clock.advance(61)
    assert http.post("/sweep").json()["due"] == 1
    assert [one["id"] for one in claim(http)] == [item]


def test_a_claimed_item_moves_only_with_its_token_or_by_force(http: httpx2.Client) -> None:
    add(http)
    item, _ = claim_one(http)
    refused = do(http, item, "complete")
    assert (refused.status_code, refused.json()["code"]) == (409, "claimed")
    stranger = do(http, item, "complete", token="made-up")
    assert (stranger.status_code, stranger.json()["code"]) == (409, "claim_lost")
    assert show(http, item)["late_results"] == []
    assert do(http, item, "release", force=True).json()["status"] == "queued"


def test_a_repeated_completion_gets_the_same_answer(http: httpx2.Client) -> None:
    add(http)
    item, token = claim_one(http)
    first, again = (do(http, item, "complete", token=token) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["version"] == again.json()["version"]


def test_hold_note_and_unhold_leave_the_status_alone(http: httpx2.Client) -> None:
    item = add(http)
    assert do(http, item, "hold", reason="needs a human").json()["hold_reason"] == "needs a human"
    assert claim(http) == []
    assert do(http, item, "note", notes="asked Daniel").json()["notes"] == "asked Daniel"
    assert do(http, item, "unhold").json()["hold_reason"] is None
    assert [one["id"] for one in claim(http)] == [item]


@on_both_databases
def test_a_batch_completion_answers_for_every_entry(http: httpx2.Client) -> None:
    http.patch("/agents/steve-w", json={"max_concurrent": 10})
    for _ in range(3):
        add(http)
    one, two, three = claim(http, limit=3)
    answer = http.post(
        "/work/complete",
        json=[
            {"id": one["id"], "token": one["claim"]["token"], "notes": "fine"},
            {"id": two["id"], "token": "wrong"},
            {"id": "nothing"},
            {"id": three["id"], "token": three["claim"]["token"], "outcome": "failed"},
        ],
    )
    assert answer.status_code == 200
    first, second, third, fourth = answer.json()
    assert (first["ok"], first["item"]["status"], first["item"]["notes"]) == (
        True, "completed", "fine",
    )  # fmt: skip
    assert "error" not in first
    assert (second["ok"], second["error"]["code"]) == (False, "claim_lost")
    assert (third["ok"], third["error"]["code"]) == (False, "not_found")
    assert (fourth["ok"], fourth["error"]["code"]) == (False, "invalid_input")
    assert show(http, two["id"])["status"] == "in_progress"
    for wrong in ([], [{"id": "x"}] * 1001):
        assert http.post("/work/complete", json=wrong).status_code == 422


# long polls


@on_both_databases
def test_a_long_poll_wakes_when_work_arrives(http: httpx2.Client, served: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claim, http, "steve-w", wait_seconds=30)
        _until_someone_waits(served)
        item = add(http)
        [found] = waiting.result(30)
    assert found["id"] == item


def test_a_long_poll_ends_when_its_time_is_up(http: httpx2.Client) -> None:
    answer = http.post("/work/claim", json={"agent": "steve-w", "wait_seconds": 0.05})
    assert (answer.json(), answer.headers["rota-reason"]) == ([], "nothing_ready")


def test_a_long_poll_lasts_no_longer_than_the_server_lets_it(database: str) -> None:
    with (
        serve(database, ApiSettings(longest_wait_seconds=0.05)) as served,
        httpx2.Client(base_url=served.url, timeout=20) as http,
    ):
        answer = http.post("/work/claim", json={"agent": "steve-w", "wait_seconds": 60})
    assert (answer.json(), answer.headers["rota-reason"]) == ([], "nothing_ready")


def test_a_long_poll_ends_when_the_server_stops(http: httpx2.Client, served: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claim, http, "steve-w", wait_seconds=30)
        _until_someone_waits(served)
        served.stop()
        assert waiting.result(30) == []


# Nothing is remembered: what a token opens is asked each time.
FORGETFUL = ApiSettings(remember_seconds=0)


@pytest.mark.parametrize("recheck_seconds", [0.05, 60], ids=["seen-while-waiting", "seen-at-last"])
def test_a_long_poll_gives_nothing_to_a_token_that_was_revoked(
    database: str, recheck_seconds: float
) -> None:
    with (
        serve(database, replace(FORGETFUL, recheck_seconds=recheck_seconds)) as served,
        httpx2.Client(base_url=served.url, timeout=20) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        tokens = served.ledger.tokens
        token, theirs = served.run(lambda: tokens.create("theirs", ["work"]))
        _, ours = served.run(lambda: tokens.create("ours", ["work"]))
        http.headers["Authorization"] = f"Bearer {ours}"
        asked = {"agent": "rogue", "wait_seconds": 60}
        headers = {"Authorization": f"Bearer {theirs}"}
        waiting = pool.submit(http.post, "/work/claim", json=asked, headers=headers)
        _until_someone_waits(served)
        served.run(lambda: tokens.revoke(token.id))
        if recheck_seconds < 1:
            answer = waiting.result(20)
            item = add(http)
        else:
            item = add(http)
            answer = waiting.result(30)
            found = show(http, item)
            assert (found["status"], found["reason"]) == ("queued", "claimer_refused")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert show(http, item)["attempts"] == 0, "nobody has tried"
        assert [one["id"] for one in claim(http)] == [item]


def test_a_client_that_hangs_up_takes_nothing(http: httpx2.Client, served: Served) -> None:
    body = json.dumps({"agent": "gone", "wait_seconds": 30}).encode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(
            b"POST /work/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        _until_someone_waits(served)
    _until_nobody_waits(served)
    item = add(http)
    assert [one["id"] for one in claim(http)] == [item]


async def test_what_was_claimed_for_a_client_that_has_just_gone_is_given_back(
    database: str,
) -> None:
    """Driven by hand, because the client has to go at the very moment the claim commits."""
    async with open_ledger(database) as ledger:
        api = create_app(ledger, ApiSettings(trusted=True))
        body = json.dumps({"agent": "gone", "wait_seconds": 30}).encode()
        scope = {
            "type": "http", "method": "POST", "path": "/work/claim", "query_string": b"",
            "headers": [],
        }  # fmt: skip
        claimed = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await claimed.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        real = ledger.queue.claim

        async def claim_and_hang_up(request: ClaimRequest) -> Any:
            result = await real(request)
            claimed.set()
            await asyncio.sleep(0)
            return result

        object.__setattr__(ledger, "queue", _Watched(ledger.queue, claim_and_hang_up))
        serving = asyncio.ensure_future(api(scope, receive, send))
        item = await ledger.queue.submit_one()
        await serving
        assert sent == []
        detail = await ledger.views.detail(item)
        assert (detail.item.status, detail.item.reason) == ("queued", "claimer_gone")
        assert detail.item.attempts == 0, "nobody has tried"


@pytest.mark.parametrize("still_there", [False, True])
async def test_who_gave_up_while_the_database_was_slow_holds_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch, still_there: bool
) -> None:
    """Driven by hand: the client goes while the transaction is held up."""
    monkeypatch.setattr(claims, "SLOW_SECONDS", 0.0)
    async with open_store(database) as store:
        ledger = Ledger.on(store)
        item = (await ledger.queue.submit(NewItem("chore", "do it"))).id
        body = json.dumps({"agent": "ann"}).encode()
        scope = {
            "type": "http", "method": "POST", "path": "/work/claim", "query_string": b"",
            "headers": [],
        }  # fmt: skip
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        gate, sent = threading.Event(), []

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            if still_there:
                await asyncio.get_running_loop().create_future()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message["type"])

        held_up = asyncio.ensure_future(store.transact(lambda tx: gate.wait(20)))
        serving = asyncio.ensure_future(
            create_app(ledger, ApiSettings(trusted=True))(scope, receive, send)
        )
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(held_up, serving)
        found = await ledger.views.item(item)
    if still_there:
        assert (found.status, sent[:1]) == ("in_progress", ["http.response.start"])
    else:
        assert (found.status, found.reason) == ("queued", "claimer_gone")
        assert (found.attempts, sent) == (0, []), "nobody has tried"


class _Watched:
    """The queue, with a claim that is watched."""

    def __init__(self, queue: Any, claim: Any) -> None:
        self._queue = queue
        self.claim = claim

    async def submit_one(self) -> str:
        return str((await self._queue.submit(NewItem("chore", "do it"))).id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def _waiting(served: Served) -> int:
    async def count() -> int:
        return sum("claim" in str(task.get_coro()) for task in asyncio.all_tasks())

    return served.run(count)


def _until_someone_waits(served: Served) -> None:
    _until(lambda: _waiting(served) > 0)


def _until_nobody_waits(served: Served) -> None:
    _until(lambda: _waiting(served) == 0)


def _until(true: Any) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it did not happen within thirty seconds"
        threading.Event().wait(0.01)


# what clients may write


@on_both_databases
def test_every_verb_takes_a_token_and_a_former_holder_has_lost_its_claim(
    http: httpx2.Client,
) -> None:
    item = add(http)
    _, token = claim_one(http)
    do(http, item, "release", token=token)
    needs = {"block": {"notes": "why"}, "hand_over": {"artifact_url": "https://x.test/1"}}
    verbs = ("start", "complete", "fail", "block", "resume", "retry", "hand_over", "reopen")
    for verb in verbs:
        answer = do(http, item, verb, token=token, **needs.get(verb, {}))
        assert (answer.status_code, answer.json()["code"]) == (409, "claim_lost"), verb
        assert answer.json()["kept"] is (verb not in ("start", "resume", "retry", "reopen"))
    detail = show(http, item)
    said = [one["payload"]["verb"] for one in detail["late_results"]]
    assert (detail["status"], said) == ("queued", ["complete", "fail", "block", "hand_over"])


@on_both_databases
def test_a_holder_that_starts_what_its_claim_has_started_is_answered_with_its_item(
    http: httpx2.Client,
) -> None:
    item = add(http)
    _, token = claim_one(http)
    before = show(http, item)
    started = do(http, item, "start", token=token)
    assert (started.status_code, started.json()["status"]) == (200, "in_progress"), started.text
    assert show(http, item) == before, "nothing has changed"
    assert do(http, item, "start").json()["code"] == "transition_refused"
    stale = http.post(f"/work/{item}/start", json={"token": token}, headers={"If-Match": "1"})
    assert stale.status_code == 412
    assert do(http, item, "complete", token=token).status_code == 200


@pytest.mark.parametrize(
    ("told", "kept"),
    [(0.5, "0.5"), (50, "50"), (1234567, "1234567"), ("2 of 5", "2 of 5"), (None, None)],
)
def test_progress_is_a_text_or_a_number(http: httpx2.Client, told: Any, kept: str | None) -> None:
    item = add(http)
    _, token = claim_one(http)
    assert do(http, item, "heartbeat", token=token, progress=told).status_code == 200
    assert show(http, item)["claim"]["progress"] == kept


@on_both_databases
def test_an_entry_of_many_completions_may_name_its_result(http: httpx2.Client) -> None:
    http.patch("/agents/steve-w", json={"max_concurrent": 2})
    add(http), add(http)
    first, second = claim(http, limit=2)
    url = "https://example.org/pull/3"
    entries = [
        {"id": first["id"], "token": first["claim"]["token"], "artifact_url": url},
        {"id": second["id"], "token": second["claim"]["token"]},
    ]
    done = http.post("/work/complete", json=entries).json()
    assert [one["item"]["artifact_url"] for one in done] == [url, None]
    assert show(http, first["id"])["events"][-1]["payload"]["artifact_url"] == url
    wrong = http.post("/work/complete", json=[{**entries[0], "artifact_url": "pull 3"}])
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "[0].artifact_url")
