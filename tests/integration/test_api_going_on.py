"""Completing one item and taking the next in one request."""

import asyncio
import json
import threading
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings, create_app
from rota.app import open_store
from rota.model.claims import ClaimRequest
from rota.model.status import Status
from rota.model.work import NewItem
from rota.queue import Ledger
from rota.queue.views import Views
from rota.testing.standing import item_once

PATIENCE = 30.0
on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def add(http: httpx2.Client, **fields: Any) -> str:
    answer = http.post("/work", json={"type": "chore", "description": "do it", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def claim(http: httpx2.Client, agent: str = "ann") -> tuple[str, str]:
    [item] = http.post("/work/claim", json={"agent": agent}).json()
    return item["id"], item["claim"]["token"]


def complete(http: httpx2.Client, item: str, **fields: Any) -> httpx2.Response:
    return http.post(f"/work/{item}/complete", json=fields)


def status(http: httpx2.Client, item: str) -> str:
    return str(http.get(f"/work/{item}").json()["status"])


@on_both_databases
def test_the_answer_to_a_completion_has_the_next_item_with_its_claim(http: httpx2.Client) -> None:
    first, second = add(http), add(http)
    _, token = claim(http)
    answer = complete(http, first, token=token, next={"agent": "ann", "lease_seconds": 60})
    body = answer.json()
    assert (answer.status_code, body["id"], body["status"]) == (200, first, "completed")
    assert "claim" not in body
    [following] = body["next"]
    assert (following["id"], following["status"]) == (second, "in_progress")
    assert following["claim"]["lease_seconds"] == 60
    assert answer.headers["etag"] == f'"{body["version"]}"'
    last = complete(http, second, token=following["claim"]["token"], next={"agent": "ann"})
    assert (last.json()["next"], last.headers["rota-reason"]) == ([], "nothing_ready")


def test_without_being_asked_it_takes_nothing(http: httpx2.Client) -> None:
    first, second = add(http), add(http)
    _, token = claim(http)
    assert "next" not in complete(http, first, token=token).json()
    assert status(http, second) == "queued"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"next": {"agent": "ann", "wait_seconds": 5}}, "invalid_input"),
        ({"next": {"agent": "ann", "limit": 0}}, "invalid_input"),
        ({"next": {"agent": "ann", "lease_seconds": -1}}, "invalid_input"),
        ({"next": {}}, "missing_requirement"),
        ({"next": ["ann"]}, "invalid_input"),
        ({"next": {"agent": "ann"}, "token": None, "force": True}, "invalid_input"),
    ],
)
def test_a_wrong_next_is_refused_and_nothing_is_completed(
    http: httpx2.Client, fields: dict[str, Any], code: str
) -> None:
    first, second = add(http), add(http)
    _, token = claim(http)
    answer = complete(http, first, **{"token": token} | fields)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert (status(http, first), status(http, second)) == ("in_progress", "queued")


@on_both_databases
def test_entries_of_a_batch_take_the_next_where_they_ask_for_it(http: httpx2.Client) -> None:
    http.patch("/agents/ann", json={"max_concurrent": 3})
    one, two, three, four, five = [add(http) for _ in range(5)]
    tokens = dict(claim(http) for _ in range(3))
    following = {"agent": "ann", "limit": 3, "lease_seconds": 60}
    batch = [
        {"id": one, "token": tokens[one], "next": following},
        {"id": two, "token": "guessed", "next": following},
        {"id": three, "token": tokens[three]},
    ]
    first, refused, plain = http.post("/work/complete", json=batch).json()
    assert (first["ok"], first["item"]["status"]) == (True, "completed")
    assert [one["id"] for one in first["next"]] == [four, five]
    assert {one["claim"]["lease_seconds"] for one in first["next"]} == {60}
    assert "next_reason" not in first
    assert (refused["ok"], "next" in refused, "next" in plain) == (False, False, False)
    again = http.post("/work/complete", json=[batch[0]]).json()[0]
    assert (again["ok"], again["next"], "next_reason" in again) == (True, [], False)
    last = {"id": four, "token": first["next"][0]["claim"]["token"], "next": {"agent": "ann"}}
    [answer] = http.post("/work/complete", json=[last]).json()
    assert (answer["next"], answer["next_reason"]) == ([], "nothing_ready")


@pytest.mark.parametrize(
    ("wrong", "told", "first"),
    [
        ({"next": {}}, 422, "in_progress"),
        ({"next": {"agent": "ann"}, "token": None}, 200, "completed"),
    ],
    ids=["no form", "no token"],
)
def test_a_next_without_form_refuses_the_batch_and_one_without_a_claim_itself(
    http: httpx2.Client, wrong: dict[str, Any], told: int, first: str
) -> None:
    http.patch("/agents/ann", json={"max_concurrent": 2})
    add(http), add(http)
    (one, its), (two, token) = claim(http), claim(http)
    batch = [{"id": one, "token": its}, {"id": two, "token": token} | wrong]
    answer = http.post("/work/complete", json=batch)
    assert answer.status_code == told
    assert told == 422 or [each["ok"] for each in answer.json()] == [True, False]
    assert (status(http, one), status(http, two)) == (first, "in_progress")


def test_the_project_that_many_entries_name_is_looked_up_once(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, asked = Views.project, list[str]()

    async def counted(self: Views, project_id: str) -> Any:
        asked.append(project_id)
        return await find(self, project_id)

    monkeypatch.setattr(Views, "project", counted)
    following = {"agent": "ann", "project_id": "none-such"}
    batch = [{"id": f"item-{n}", "token": "t", "next": following} for n in range(5)]
    answers = http.post("/work/complete", json=batch).json()
    assert {one["error"]["detail"] for one in answers} == {
        "next.project_id: there is no project 'none-such'"
    }
    assert asked == ["none-such"]


@pytest.mark.parametrize("batch", [False, True], ids=["one item", "a batch"])
async def test_a_client_that_has_gone_has_completed_its_item_and_holds_none(
    database: str, batch: bool
) -> None:
    """Driven by hand: the client goes while the transaction is held up."""
    async with open_store(database) as store:
        ledger = Ledger.on(store)
        first, second = [
            (await ledger.queue.submit(NewItem("chore", text))).id for text in ("one", "two")
        ]
        (got,) = (await ledger.queue.claim(ClaimRequest("ann"))).items
        done = {"token": got.claim.token, "next": {"agent": "ann"}}
        body = json.dumps([done | {"id": first}] if batch else done).encode()
        path = "/work/complete" if batch else f"/work/{first}/complete"
        scope = {
            "type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [],
        }  # fmt: skip
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        watched, sent = asyncio.Event(), []
        gate = threading.Event()

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            watched.set()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        held_up = store.transact(lambda tx: gate.wait(PATIENCE))
        api = create_app(ledger, ApiSettings(trusted=True))
        async with asyncio.timeout(PATIENCE):
            await api(scope, receive, send)
            assert watched.is_set()
            gate.set()
            await held_up
            found = await item_once(
                ledger.views, second, lambda it: (it.status, it.epoch) == (Status.QUEUED, 1)
            )
        assert (found.reason, found.attempts, sent) == ("claimer_gone", 0, [])
        assert (await ledger.views.item(first)).status is Status.COMPLETED


@on_both_databases
def test_a_project_that_is_not_there_is_refused_before_anything_is_completed(
    http: httpx2.Client,
) -> None:
    http.patch("/agents/ann", json={"max_concurrent": 5})
    project = http.post("/projects", json={"name": "p"}).json()["id"]
    held = [(add(http), *claim(http))[1:] for _ in range(2)]
    ours = add(http, project_id=project)
    (first, token), (second, other) = held
    nowhere = {"agent": "ann", "project_id": "nowhere"}
    refused = complete(http, first, token=token, next=nowhere)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert refused.json()["errors"][0]["field"] == "next.project_id"
    batch = [
        {"id": first, "token": token, "next": nowhere},
        {"id": second, "token": other, "next": {"agent": "ann", "project_id": project}},
    ]
    one, two = http.post("/work/complete", json=batch).json()
    assert (one["ok"], one["error"]["code"]) == (False, "invalid_input")
    assert (two["ok"], [item["id"] for item in two["next"]]) == (True, [ours])
    assert status(http, first) == "in_progress"
    [alone] = http.post("/work/complete", json=batch[:1]).json()
    assert (alone["id"], alone["ok"]) == (first, False)


def test_a_repeated_call_takes_nothing_and_gives_no_reason(http: httpx2.Client) -> None:
    first = add(http)
    _, token = claim(http)
    asked = {"token": token, "next": {"agent": "ann"}}
    assert complete(http, first, **asked).headers["rota-reason"] == "nothing_ready"
    left = add(http)
    again = complete(http, first, **asked)
    assert (again.status_code, again.json().get("next", [])) == (200, [])
    assert "rota-reason" not in again.headers
    [entry] = http.post("/work/complete", json=[{"id": first, **asked}]).json()
    assert (entry["ok"], entry.get("next"), entry.get("next_reason")) == (True, [], None)
    assert status(http, left) == "queued"
