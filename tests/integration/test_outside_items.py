"""Items that come from outside, as callers over HTTP meet them: seen by all, taken by none."""

from typing import Any

import httpx2
import pytest

from rota.model.claims import ClaimedItem
from rota.model.sources import Firing, Mirrored
from rota.model.work import NewItem
from rota.testing.clock import ManualClock
from rota.testing.served import Served

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

REPO = "github:owner/repo"


def issue(ref: str = "42", **values: Any) -> NewItem:
    return NewItem("issue", f"Issue {ref}", source=REPO, source_ref=ref, **values)


def mirror(served: Served, ref: str = "42", hold: str | None = None, **values: Any) -> str:
    shown = Mirrored(issue(ref, **values), hold)
    served.run(lambda: served.ledger.outside.mirror([shown]))
    found = served.run(lambda: served.ledger.outside.standing(REPO, ref))
    assert found is not None
    return found.id


def take(served: Served, ref: str = "42", agent: str = "ada", firing: str = "f1") -> ClaimedItem:
    signed = Firing(firing, agent, "home", "nonce")
    return served.run(lambda: served.ledger.outside.take(issue(ref), agent, 60, signed))


def claim(http: httpx2.Client, agent: str = "ada", **fields: Any) -> list[dict[str, Any]]:
    answer = http.post("/work/claim", json={"agent": agent, **fields})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()
    return items


def test_it_is_listed_and_never_handed_out(served: Served, http: httpx2.Client) -> None:
    project = http.post("/projects", json={"name": "p"}).json()["id"]
    item = mirror(served, priority=1, project_id=project, labels=("bug",))
    plain = {"type": "chore", "description": "ours", "priority": 5, "project_id": project}
    ours = http.post("/work", json=plain).json()["id"]
    listed = http.get("/work", params={"project_id": project}).json()
    assert [(one["id"], one["source_ref"]) for one in listed] == [(item, "42"), (ours, None)]
    http.patch("/agents/ada", json={"max_concurrent": 10})
    for narrow in ({"types": ["issue"]}, {"labels": ["bug"]}):
        assert claim(http, limit=10, **narrow) == []
    assert [one["id"] for one in claim(http, limit=10, project_id=project)] == [ours]
    assert claim(http, limit=10) == []
    assert http.get(f"/work/{item}").json()["status"] == "queued"


def test_it_is_not_dispatched_or_started_by_name(served: Served, http: httpx2.Client) -> None:
    item = mirror(served)
    before = http.get(f"/work/{item}").json()
    asked = {"status": "dispatched", "assigned_agent": "ada"}
    for answer in (
        http.post(f"/work/{item}/dispatch", json={"assigned_agent": "ada"}),
        http.patch(f"/work/{item}", json=asked),
        http.post(f"/work/{item}/start", json={}),
    ):
        assert answer.status_code == 409, answer.text
        problem = answer.json()
        assert problem["code"] == "refused"
        assert "take it through its source" in problem["detail"]
        assert REPO in problem["detail"]
    assert http.get(f"/work/{item}").json() == before


def test_what_is_named_for_an_agent_is_not_handed_out_either(
    served: Served, http: httpx2.Client
) -> None:
    item = mirror(served)
    assert http.patch(f"/work/{item}", json={"assigned_agent": "ada"}).status_code == 200
    assert claim(http) == []


def test_what_was_taken_is_worked_on_like_any_other(served: Served, http: httpx2.Client) -> None:
    got = take(served)
    path, token = f"/work/{got.item.id}", got.claim.token
    assert http.post(f"{path}/heartbeat", json={"token": token}).status_code == 200
    done = http.post(f"{path}/complete", json={"token": token, "outcome": "success"})
    assert (done.status_code, done.json()["status"]) == (200, "completed")
    (claimed,) = served.run(lambda: served.ledger.outside.open_claims(REPO))
    assert (claimed.live, claimed.status) == (False, "completed")


def test_what_lapsed_waits_for_its_source(
    served: Served, http: httpx2.Client, clock: ManualClock
) -> None:
    got = take(served)
    clock.advance(60)
    assert claim(http) == []
    late = http.post(f"/work/{got.item.id}/heartbeat", json={"token": got.claim.token})
    assert (late.status_code, late.json()["code"]) == (409, "claim_lost")
    assert http.get(f"/work/{got.item.id}").json()["status"] == "queued"
    (claimed,) = served.run(lambda: served.ledger.outside.open_claims(REPO))
    assert (claimed.live, claimed.ended_at) == (False, None)


def test_a_retry_beside_a_live_item_is_a_conflict(served: Served, http: httpx2.Client) -> None:
    got = take(served)
    failed = f"/work/{got.item.id}"
    http.post(f"{failed}/fail", json={"token": got.claim.token, "outcome": "failed"})
    live = mirror(served)
    answer = http.post(f"{failed}/retry", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "refused")
    assert live in answer.json()["detail"]
    assert http.get(failed).json()["status"] == "failed"
    assert http.delete(f"/work/{live}").status_code == 204
    assert http.post(f"{failed}/retry", json={}).json()["status"] == "queued"


def test_explain_says_how_it_is_taken_and_what_holds_it(
    served: Served, http: httpx2.Client
) -> None:
    item = mirror(served, hold="nobody has agreed to it; put the label ready on it")
    told = http.get(f"/work/{item}/explain").json()
    assert told["claimable"] is False
    assert [(one["code"], one["fix"]) for one in told["reasons"]] == [
        ("held_by_source", "put the label ready on it"),
        ("through_source", f"start an agent that works from {REPO}"),
    ]
    assert told["reasons"][1]["message"] == f"it is taken through its source {REPO}"
    refused = http.post(f"/work/{item}/unhold", json={})
    assert refused.status_code == 409
    assert "lift it there" in refused.json()["detail"]
