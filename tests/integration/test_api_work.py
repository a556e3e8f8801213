"""Projects and work items over HTTP: what the work queue's specification promises, and more."""

from typing import Any

import httpx2
import pytest

from rota.testing.clock import ManualClock
from rota.testing.served import Served

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

COLUMNS = {
    "id", "project_id", "type", "description", "payload", "priority", "status", "assigned_agent",
    "created_by", "created_at", "updated_at", "completed_at", "outcome", "notes",
}  # fmt: skip


def add(http: httpx2.Client, **fields: Any) -> dict[str, Any]:
    answer = http.post("/work", json={"type": "chore", "description": "do it", **fields})
    assert answer.status_code == 201, answer.text
    item: dict[str, Any] = answer.json()
    return item


def patch(http: httpx2.Client, item: dict[str, Any], **fields: Any) -> httpx2.Response:
    return http.patch(f"/work/{item['id']}", json=fields)


def move(http: httpx2.Client, item: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = patch(http, item, **fields)
    assert answer.status_code == 200, answer.text
    moved: dict[str, Any] = answer.json()
    return moved


def ids(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()]


def events(http: httpx2.Client, item: dict[str, Any]) -> list[str]:
    return [one["type"] for one in http.get(f"/work/{item['id']}").json()["events"]]


# projects


@on_both_databases
def test_a_project_is_created_listed_shown_and_changed(http: httpx2.Client) -> None:
    created = http.post(
        "/projects", json={"name": "Shopping List API", "external_ref": "todoist:123"}
    )
    project = created.json()
    assert created.status_code == 201
    assert created.headers["location"] == f"/projects/{project['id']}"
    assert set(project) == {"id", "name", "external_ref", "created_at", "updated_at"}
    assert http.get("/projects").json() == [project]
    assert http.get(f"/projects/{project['id']}").json() == project
    changed = http.patch(f"/projects/{project['id']}", json={"external_ref": None}).json()
    assert (changed["name"], changed["external_ref"]) == ("Shopping List API", None)
    renamed = http.patch(f"/projects/{project['id']}", json={"name": "Lists"}).json()
    assert (renamed["name"], renamed["external_ref"]) == ("Lists", None)


def test_projects_are_paged_by_the_link_header(http: httpx2.Client) -> None:
    made = [http.post("/projects", json={"name": f"p{n}"}).json()["id"] for n in range(5)]
    found, url = [], "/projects?limit=2"
    while url:
        page = http.get(url)
        found += ids(page)
        url = page.links.get("next", {}).get("url", "")
    assert found == made


# submitting


@on_both_databases
def test_a_submitted_item_is_queued_also_when_it_names_an_agent(http: httpx2.Client) -> None:
    project = http.post("/projects", json={"name": "p"}).json()
    answer = http.post(
        "/work",
        json={
            "project_id": project["id"],
            "type": "code_review",
            "description": "Review PR #3 in shopping-list-api",
            "payload": {"pr": 3, "repo": "shopping-list-api", "nested": [1.5, None, "é"]},
            "priority": 2,
            "assigned_agent": "steve-w",
        },
        headers={"Rota-Actor": "marcus-a"},
    )
    item = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/work/{item['id']}"
    assert answer.headers["etag"] == '"1"'
    assert set(item) >= COLUMNS
    assert item["status"] == "queued"
    assert item["assigned_agent"] == "steve-w"
    assert item["created_by"] == "marcus-a"
    assert item["payload"] == {"pr": 3, "repo": "shopping-list-api", "nested": [1.5, None, "é"]}
    assert http.get(f"/work/{item['id']}").json()["payload"] == item["payload"]


def test_what_a_submitter_leaves_out_has_its_default(http: httpx2.Client) -> None:
    item = add(http)
    assert (item["priority"], item["max_attempts"], item["labels"]) == (3, 3, [])
    assert item["payload"] is None
    assert item["created_by"] == "local"
    assert "claim" not in item
    assert "claim_token" not in item


@on_both_databases
def test_the_same_idempotency_key_and_body_give_the_same_item(http: httpx2.Client) -> None:
    body = {"type": "chore", "description": "once"}
    key = {"Idempotency-Key": "k-1"}
    first = http.post("/work", json=body, headers=key)
    again = http.post("/work", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = http.post("/work", json={**body, "description": "twice"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert "Idempotency-Key 'k-1' was used" in other.json()["detail"]
    assert len(http.get("/work").json()) == 1


def test_a_key_belongs_to_the_one_who_used_it(http: httpx2.Client) -> None:
    body = {"type": "chore", "description": "once"}
    for actor in ("ann", "bob"):
        headers = {"Idempotency-Key": "k", "Rota-Actor": actor}
        assert http.post("/work", json=body, headers=headers).status_code == 201


def test_the_end_of_a_key_is_not_the_beginning_of_a_name(http: httpx2.Client) -> None:
    """Whatever parts the two, one of them does not have it."""
    made = [
        http.post(
            "/work",
            json={"type": "chore", "description": f"{key} {actor}"},
            headers={"Idempotency-Key": key, "Rota-Actor": actor},
        )
        for key, actor in (("c", "a:b"), ("b:c", "a"), ("c", "a b"), ("k", "a a x"), ("k", "x"))
    ]
    assert [one.status_code for one in made] == [201] * 5


def test_a_key_belongs_to_its_token_whatever_that_is_called(served: Served) -> None:
    tokens = served.ledger.tokens
    (one, first), (_, other) = (served.run(lambda: tokens.create("ci", ["work"])) for _ in range(2))
    made = [
        httpx2.post(
            f"{served.url}/work",
            json={"type": "chore", "description": "once"},
            headers={"Idempotency-Key": "k", "Authorization": f"Bearer {secret}"},
        )
        for secret in (first, other, first)
    ]
    assert [answer.status_code for answer in made] == [201, 201, 200]
    assert made[0].json() == made[2].json()
    assert one.name == made[1].json()["created_by"]


def test_the_longest_key_is_kept_for_the_longest_name(http: httpx2.Client) -> None:
    headers = {"Idempotency-Key": "k" * 150, "Rota-Actor": "x" * 100}
    body = {"type": "chore", "description": "once"}
    codes = [http.post("/work", json=body, headers=headers).status_code for _ in range(2)]
    assert codes == [201, 200]


def test_a_key_of_one_item_is_not_that_of_a_batch(http: httpx2.Client) -> None:
    body, key = {"type": "chore", "description": "once"}, {"Idempotency-Key": "k"}
    assert http.post("/work", json=body, headers=key).status_code == 201
    batch = http.post("/work/batch", json=[body], headers=key)
    assert (batch.status_code, batch.json()["code"]) == (409, "idempotency_key_reused")


@on_both_databases
def test_a_batch_is_stored_whole_or_not_at_all(http: httpx2.Client) -> None:
    good = {"type": "chore", "description": "fine"}
    stored = http.post("/work/batch", json=[good, {**good, "priority": 1}])
    assert stored.status_code == 201
    assert [item["priority"] for item in stored.json()] == [3, 1]
    wrong: dict[str, Any] = {
        "project_id": "nowhere",
        "blocked_by": ["nothing"],
        "available_at": "soon",
        "body": "\x00",
        "priority": 9,
    }
    for field, value in wrong.items():
        refused = http.post("/work/batch", json=[good, {**good, field: value}])
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, f"[1].{field}")
        alone = http.post("/work", json={**good, field: value})
        assert (alone.status_code, alone.json()["errors"][0]["field"]) == (422, field)
    assert len(http.get("/work").json()) == 2


def test_a_batch_has_one_to_a_thousand_items(http: httpx2.Client) -> None:
    good = {"type": "chore", "description": "fine"}
    assert http.post("/work/batch", json=[]).status_code == 422
    assert http.post("/work/batch", json=[good] * 1001).status_code == 422
    assert http.post("/work/batch", json=[good] * 1000).status_code == 201


def test_a_repeated_batch_gives_the_same_items(http: httpx2.Client) -> None:
    good = [{"type": "chore", "description": "fine"}] * 3
    first = http.post("/work/batch", json=good, headers={"Idempotency-Key": "b"})
    again = http.post("/work/batch", json=good, headers={"Idempotency-Key": "b"})
    assert again.status_code == 200
    assert [i["id"] for i in first.json()] == [i["id"] for i in again.json()]


# listing


@on_both_databases
def test_a_list_goes_by_priority_then_age_and_with_since_by_age(
    http: httpx2.Client, clock: ManualClock
) -> None:
    made = []
    for priority in (3, 1, 3, 5):
        made.append(add(http, priority=priority)["id"])
        clock.advance(1)
    low, high, third, last = made
    assert ids(http.get("/work")) == [high, low, third, last]
    since = http.get("/work", params={"since": clock.text(-3.5)})
    assert ids(since) == [high, third, last]


@on_both_databases
def test_every_filter_narrows_the_list(http: httpx2.Client, clock: ManualClock) -> None:
    project = http.post("/projects", json={"name": "p"}).json()["id"]
    one = add(http, type="bug_fix", assigned_agent="steve-w", labels=["red", "blue"])
    two = add(http, project_id=project, description="Find the 100% Needle")
    three = add(http, labels=["blue"], body="in the body: a needle")
    every = [one["id"], two["id"], three["id"]]
    for query, expected in (
        ("", every),
        ("type=bug_fix", every[:1]),
        ("agent=steve-w&status=queued", every[:1]),
        (f"project_id={project}", every[1:2]),
        ("label=blue", [every[0], every[2]]),
        ("label=red", every[:1]),
        ("q=needle", every[1:]),
        ("q=100%25", every[1:2]),
        ("status=in_progress", []),
        ("status=queued,blocked", every),
        ("status=blocked&status=queued", every),
        ("agent=nobody", []),
        (f"id_prefix={every[2]}", every[2:]),
        ("ready=true", every),
        ("ready=false&status=blocked", []),
    ):
        assert ids(http.get(f"/work?{query}")) == expected, query
    clock.advance(60)
    move(http, two, notes="looked at it")
    assert ids(http.get("/work", params={"updated_since": clock.text(-30)})) == every[1:2]


@on_both_databases
def test_since_means_ended_after_where_only_final_statuses_are_asked_for(
    http: httpx2.Client, clock: ManualClock
) -> None:
    early, late = add(http), add(http)
    for item in (early, late):
        clock.advance(600)
        move(http, item, status="dispatched", assigned_agent="steve-w")
        move(http, item, status="in_progress")
        move(http, item, status="completed", outcome="success")
    since = {"since": clock.text(-60)}
    assert ids(http.get("/work", params={**since, "status": "completed"})) == [late["id"]]
    assert ids(http.get("/work", params={**since, "status": "completed,queued"})) == []


@on_both_databases
def test_pages_follow_each_other_without_gap_or_repeat_and_keep_their_filters(
    http: httpx2.Client,
) -> None:
    wanted = [add(http, priority=1 + n % 3, labels=["x"])["id"] for n in range(7)]
    add(http, labels=["y"])
    found, url, pages = [], "/work?label=x&limit=3&status=queued,blocked", 0
    while url:
        page = http.get(url)
        found += ids(page)
        pages += 1
        url = page.links.get("next", {}).get("url", "")
        assert not url or ("label=x" in url and url.startswith("/work?"))
    assert pages == 3
    assert sorted(found) == sorted(wanted)
    assert found == ids(http.get("/work?label=x"))


# one item


@on_both_databases
def test_an_item_is_shown_with_its_history_links_and_events(http: httpx2.Client) -> None:
    blocker, item = add(http), {}
    item = add(http, blocked_by=[blocker["id"]])
    assert item["open_blockers"] == 1
    shown = http.get(f"/work/{item['id']}")
    detail = shown.json()
    assert shown.headers["etag"] == f'"{detail["version"]}"'
    assert [one["id"] for one in detail["links"]["blocked_by"]] == [blocker["id"]]
    assert detail["links"]["blocks"] == []
    other = http.get(f"/work/{blocker['id']}").json()
    assert [one["id"] for one in other["links"]["blocks"]] == [item["id"]]
    assert (detail["claim"], detail["dispatch_log"], detail["late_results"]) == (None, [], [])
    move(http, blocker, status="dispatched", assigned_agent="steve-w")
    move(http, blocker, status="in_progress")
    move(http, blocker, status="completed", outcome="success")
    done = http.get(f"/work/{blocker['id']}").json()
    log = done["dispatch_log"]
    assert [(one["agent"], one["outcome"]) for one in log] == [("steve-w", "success")]
    assert log[0]["completed_at"] == done["completed_at"]
    assert set(done["events"][0]) == {
        "event_id", "seq", "type", "occurred_at", "work_item_id", "project_id", "actor", "agent",
        "reason", "from_status", "to_status", "epoch", "payload",
    }  # fmt: skip
    assert http.get(f"/work/{item['id']}").json()["open_blockers"] == 0


def test_an_item_explains_why_nobody_works_on_it(http: httpx2.Client) -> None:
    blocker = add(http)
    item = add(http, blocked_by=[blocker["id"]])
    why = http.get(f"/work/{item['id']}/explain").json()
    assert why["claimable"] is False
    assert why["reasons"][0]["code"] == "blocked_by"
    assert blocker["id"] in why["summary"]
    words, command = "see what keeps that one", f"rota explain {blocker['id']}"
    assert why["reasons"][0]["ways"] == [{"words": words, "command": command}]
    assert why["reasons"][0]["fix"] == f"{words}: {command}"
    assert http.get(f"/work/{blocker['id']}/explain").json()["claimable"] is True


# changing


@on_both_databases
def test_the_dispatch_flow_of_the_specification(http: httpx2.Client) -> None:
    item = add(http, type="code_review")
    dispatched = move(http, item, status="dispatched", assigned_agent="steve-w")
    assert (dispatched["status"], dispatched["assigned_agent"]) == ("dispatched", "steve-w")
    assert ids(http.get("/work?agent=steve-w&status=dispatched")) == [item["id"]]
    started = move(http, item, status="in_progress")
    assert started["status"] == "in_progress"
    done = move(http, item, status="completed", outcome="success", notes="Reviewed, merged")
    assert (done["status"], done["outcome"], done["notes"]) == (
        "completed", "success", "Reviewed, merged",
    )  # fmt: skip
    assert done["completed_at"] is not None
    assert events(http, item) == [
        "work.submitted", "work.dispatched", "work.started", "work.completed",
    ]  # fmt: skip


@on_both_databases
def test_every_arrow_of_the_status_machine_can_be_walked_by_patch(http: httpx2.Client) -> None:
    item = add(http)
    for fields in (
        {"status": "dispatched", "assigned_agent": "steve-w"},
        {"status": "queued"},
        {"status": "dispatched", "assigned_agent": "steve-w"},
        {"status": "in_progress"},
        {"status": "blocked", "notes": "waits for a password"},
        {"status": "in_progress"},
        {"status": "blocked", "notes": "again"},
        {"status": "queued"},
        {"status": "dispatched", "assigned_agent": "ann"},
        {"status": "in_progress"},
        {"status": "queued", "reason": "handed_back"},
        {"status": "dispatched", "assigned_agent": "ann"},
        {"status": "in_progress"},
        {"status": "in_review", "artifact_url": "https://example.org/pull/1"},
        {"status": "queued"},
        {"status": "dispatched", "assigned_agent": "ann"},
        {"status": "in_progress"},
        {"status": "failed", "outcome": "failed", "notes": "no way"},
        {"status": "queued"},
        {"status": "cancelled"},
    ):
        assert move(http, item, **fields)["status"] == fields["status"], fields
    log = http.get(f"/work/{item['id']}").json()["dispatch_log"]
    assert [(one["agent"], one["outcome"]) for one in log] == [
        ("steve-w", "released"), ("steve-w", "released"), ("ann", "released"), ("ann", "released"),
        ("ann", "failed"),
    ]  # fmt: skip


def test_a_patch_tells_an_absent_field_from_null(http: httpx2.Client) -> None:
    project = http.post("/projects", json={"name": "p"}).json()["id"]
    item = add(
        http, project_id=project, payload={"a": 1}, body="text", labels=["x"],
        available_at="2030-01-01T00:00:00Z", assigned_agent="steve-w",
    )  # fmt: skip
    move(http, item, notes="kept", artifact_url="https://example.org/1")
    kept = move(http, item, priority=1)
    for field in ("project_id", "payload", "body", "labels", "available_at", "assigned_agent"):
        assert kept[field] == item[field], field
    assert (kept["notes"], kept["artifact_url"]) == ("kept", "https://example.org/1")
    empty = move(
        http, item, project_id=None, payload=None, body=None, labels=None, available_at=None,
        assigned_agent=None, notes=None, artifact_url=None,
    )  # fmt: skip
    for field in ("project_id", "payload", "body", "available_at", "assigned_agent", "notes"):
        assert empty[field] is None, field
    assert (empty["labels"], empty["artifact_url"], empty["priority"]) == ([], None, 1)


def test_edits_change_what_describes_the_item_and_leave_an_event(http: httpx2.Client) -> None:
    blocker, item = add(http), add(http)
    changed = move(
        http, item, type="bug_fix", description="new", max_attempts=7, labels=["a", "a", "b"],
        blocked_by=[blocker["id"]],
    )  # fmt: skip
    assert (changed["type"], changed["description"], changed["max_attempts"]) == (
        "bug_fix", "new", 7,
    )  # fmt: skip
    assert (changed["labels"], changed["open_blockers"]) == (["a", "b"], 1)
    assert events(http, item) == ["work.submitted", "work.edited"]
    assert move(http, item, blocked_by=None)["open_blockers"] == 0


def test_dispatching_by_patch_is_one_event_and_not_an_edit_too(http: httpx2.Client) -> None:
    item = add(http)
    move(http, item, status="dispatched", assigned_agent="steve-w")
    assert events(http, item) == ["work.submitted", "work.dispatched"]


@on_both_databases
def test_if_match_guards_against_a_version_that_has_passed(http: httpx2.Client) -> None:
    item = add(http)
    path = f"/work/{item['id']}"
    for spelling in ("1", '"2"', 'W/"3"', "*"):
        answer = http.patch(path, json={"notes": spelling}, headers={"If-Match": spelling})
        assert answer.status_code == 200, spelling
    version = answer.json()["version"]
    assert answer.headers["etag"] == f'"{version}"'
    for stale in ('"1"', "rubbish", "99999999999", "9" * 30, "9" * 5_000, "-1"):
        refused = http.patch(path, json={"notes": "late"}, headers={"If-Match": stale})
        assert (refused.status_code, refused.json()["code"]) == (412, "version_mismatch")
    stale = http.post(f"{path}/cancel", headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    assert http.delete(path, headers={"If-Match": '"1"'}).status_code == 412
    assert http.get(path).json()["notes"] == "*"
    assert http.delete(path, headers={"If-Match": f'"{version}"'}).status_code == 204


@on_both_databases
def test_deleting_cancels_what_has_not_started_and_refuses_the_rest(http: httpx2.Client) -> None:
    item = add(http)
    gone = http.delete(f"/work/{item['id']}")
    assert (gone.status_code, gone.content) == (204, b"")
    shown = http.get(f"/work/{item['id']}").json()
    assert (shown["status"], shown["outcome"]) == ("cancelled", "cancelled")
    started = add(http)
    move(http, started, status="dispatched", assigned_agent="steve-w")
    move(http, started, status="in_progress")
    refused = http.delete(f"/work/{started['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "transition_refused")
    assert "completed" in refused.json()["allowed"]
    assert http.get(f"/work/{started['id']}").json()["status"] == "in_progress"


# what clients may write


@pytest.mark.parametrize("separator", ["T", "%20"])
@pytest.mark.parametrize("zone", ["+00:00", "%2B00:00", "+0000", "Z", ""])
def test_a_plus_sign_of_a_zone_may_be_left_unescaped(
    http: httpx2.Client, clock: ManualClock, separator: str, zone: str
) -> None:
    before = add(http)
    clock.advance(10)
    after = add(http)
    since = before["created_at"].rstrip("Z").replace("T", separator) + zone
    for name in ("since", "updated_since"):
        assert ids(http.get(f"/work?{name}={since}&limit=1")) == [after["id"]]


def test_the_next_page_of_a_list_since_a_time_with_a_plus_sign_follows(
    http: httpx2.Client,
) -> None:
    made = [add(http)["id"] for _ in range(2)]
    page = http.get("/work?since=2020-01-01T00:00:00+00:00&limit=1")
    following = page.links["next"]["url"]
    assert [*ids(page), *ids(http.get(following))] == made


def test_an_empty_body_and_a_missing_media_type_are_called_so(http: httpx2.Client) -> None:
    empty = http.post("/work", headers={"Content-Type": "application/json"})
    assert (empty.status_code, empty.json()["detail"]) == (400, "the body is empty; send JSON")
    bare = http.post("/work", content=b'{"type": "chore", "description": "do it"}')
    assert bare.status_code == 415
    assert "and has no media type; send it with Content-Type: application/json" in bare.text


def test_a_path_with_a_slash_at_its_end_is_told_to_do_without(http: httpx2.Client) -> None:
    answer = http.get("/work/")
    assert answer.status_code == 404
    assert "without the slash" in answer.json()["detail"]


def test_an_id_in_a_path_may_be_written_in_capitals(http: httpx2.Client) -> None:
    item = add(http)
    assert http.get(f"/work/{item['id'].upper()}").json()["id"] == item["id"]
    assert http.delete(f"/work/{item['id'].upper()}").status_code == 204
