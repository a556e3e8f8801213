"""The tracker stub behaves like the trackers it stands for, and fails as it is told to."""

import hashlib
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx2
import pytest

from rota.testing.tracker import Control, ControlRefused, TrackerApp, TrackerStub, tracker_stub

REPO = "ada/engine"
ISSUES = f"/repos/{REPO}/issues"
COMMENTS = f"{ISSUES}/1/comments"
LABELS = f"{ISSUES}/1/labels"
GITEA = f"/api/v1/repos/{REPO}/issues"
JSON = "application/json; charset=utf-8"
IMPATIENT = httpx2.Timeout(5, read=0.2)

Client = httpx2.Client


@pytest.fixture(scope="module")
def running() -> Iterator[TrackerStub]:
    with tracker_stub() as stub:
        yield stub


@pytest.fixture
def stub(running: TrackerStub) -> TrackerStub:
    """Ada's repository with one issue; bob may write there, eve may not."""
    running.control.reset()
    running.control.user("ada", id=7)
    running.control.repo(REPO, collaborators=["bob"])
    running.control.issue(REPO, "Mend the mill", labels=["ready"])
    return running


@pytest.fixture
def control(stub: TrackerStub) -> Control:
    return stub.control


def connected(stub: TrackerStub, **headers: str) -> Client:
    # There is no TLS here, and reading all certificates takes as long as ten tests.
    return Client(base_url=stub.url, headers=headers, timeout=30, verify=False)


@pytest.fixture
def as_user(stub: TrackerStub) -> Iterator[Callable[..., Client]]:
    clients = []

    def connect(login: str, **token: Any) -> Client:
        text = stub.control.token(login, **token)
        client = connected(stub, authorization=f"Bearer {text}")
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def ada(as_user: Callable[..., Client]) -> Client:
    return as_user("ada")


@pytest.fixture
def nobody(stub: TrackerStub) -> Iterator[Client]:
    with connected(stub) as client:
        yield client


def bodies(answer: httpx2.Response) -> list[str]:
    return [one["body"] for one in answer.json()]


def names(labels: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in labels]


def all_pages(client: Client, path: str) -> list[Any]:
    found: list[Any] = []
    following: str | None = path
    while following:
        answer = client.get(following)
        found += answer.json()
        following = answer.links.get("next", {}).get("url")
    return found


# The process


@pytest.mark.parametrize("forks", [False, True])
def test_it_ends_when_whoever_started_it_is_killed(forks: bool) -> None:
    """Also when a child of that process lives on, and with it the pipe to the stub."""
    script = (
        "import os, signal\n"
        "from rota.testing.tracker import tracker_stub\n"
        "with tracker_stub() as stub:\n"
        f"    child = {forks} and (os.fork() or signal.pause())\n"
        "    print(stub.url, int(child), flush=True)\n"
        "    signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout
        url, child = one.stdout.readline().split()
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        try:
            with socket.create_connection(address, timeout=30) as watching:
                one.kill()
                with suppress(ConnectionResetError):
                    assert watching.recv(1) == b""  # closed by the end of the stub
        finally:
            if forks:
                os.kill(int(child), signal.SIGKILL)


def test_it_ends_at_the_end_of_the_block_even_while_a_request_hangs() -> None:
    with tracker_stub() as stub:
        stub.control.fault("hang_before", path="/version")
        hanging = socket.create_connection(("127.0.0.1", int(stub.url.rpartition(":")[2])))
        hanging.sendall(b"GET /api/v1/version HTTP/1.1\r\nhost: stub\r\n\r\n")
        while not stub.control.counts()["unanswered"]:
            pass
    hanging.close()
    with pytest.raises(ProcessLookupError):
        os.kill(stub.pid, 0)


def test_several_processes_use_it_at_once(stub: TrackerStub, control: Control) -> None:
    script = (
        "import sys, urllib.request as http\n"
        "for n in range(20):\n"
        '    body = b\'{"body": "%d"}\' % n\n'
        "    http.urlopen(http.Request(sys.argv[1], body, {'authorization': 'token token-bob'}))"
    )
    control.token("bob")
    clients = [
        subprocess.Popen([sys.executable, "-S", "-c", script, stub.url + COMMENTS])
        for _ in range(4)
    ]
    assert [one.wait(30) for one in clients] == [0] * 4
    ids = [one["id"] for one in control.look(REPO, 1)["comments"]]
    assert len(set(ids)) == 80
    assert ids == sorted(ids)


async def test_it_is_a_plain_asgi_application_too() -> None:
    transport = httpx2.ASGITransport(app=TrackerApp())
    async with httpx2.AsyncClient(transport=transport, base_url="http://stub") as client:
        await client.post("/_control/repos", json={"name": REPO})
        assert (await client.get(f"/repos/{REPO}")).json()["html_url"] == f"http://stub/{REPO}"


def test_a_senseless_order_is_refused_with_its_reason(control: Control) -> None:
    for ask in (
        lambda: control.fault("no such fault"),
        lambda: control.fault("stale", path="("),
        lambda: control.fault("stale", colour="red"),
        lambda: control.issue("nobody/nothing"),
        lambda: control.clock(at="yesterday"),
    ):
        with pytest.raises(ControlRefused):
            ask()


# GitHub


@pytest.mark.parametrize(
    ("kind", "status", "scopes"),
    [("classic", 200, "repo, read:org"), ("fine_grained", 200, None), ("installation", 403, None)],
)
def test_each_kind_of_token_shows_itself_as_on_github(
    as_user: Callable[..., Client], kind: str, status: int, scopes: str | None
) -> None:
    client = as_user("ada", kind=kind, scopes=["repo", "read:org"])
    answer = client.get("/user")
    assert (answer.status_code, answer.headers.get("x-oauth-scopes")) == (status, scopes)
    if status == 200:
        assert (answer.json()["id"], answer.json()["login"]) == (7, "ada")
    assert client.get(ISSUES).status_code == 200


def test_unknown_tokens_and_missing_ones_are_refused(
    nobody: Client, ada: Client, control: Control
) -> None:
    bad = nobody.get(ISSUES, headers={"authorization": "token wrong"})
    assert bad.status_code == 401
    assert bad.json()["message"] == "Bad credentials"
    assert "documentation_url" in bad.json()
    assert nobody.get("/user").status_code == 401
    assert nobody.post(COMMENTS, json={"body": "x"}).status_code == 401
    control.revoke("token-ada")
    assert ada.get("/user").status_code == 401


def test_private_repositories_are_hidden_from_those_without_access(
    control: Control, nobody: Client, ada: Client, as_user: Callable[..., Client]
) -> None:
    control.repo("ada/secret", private=True)
    control.issue("ada/secret")
    narrow = as_user("ada", token="narrow", kind="fine_grained", repos=[REPO])
    scopeless = as_user("ada", token="scopeless", scopes=["public_repo"])
    for path in ("/repos/ada/secret", "/repos/ada/secret/issues/1"):
        assert ada.get(path).status_code == 200
        for client in (nobody, as_user("eve"), narrow, scopeless):
            assert client.get(path).status_code == 404


def test_strangers_may_comment_in_public_but_not_label(as_user: Callable[..., Client]) -> None:
    eve = as_user("eve")
    assert eve.post(COMMENTS, json={"body": "hello"}).json()["author_association"] == "NONE"
    assert eve.post(LABELS, json={"labels": ["x"]}).status_code == 403
    assert eve.patch(f"{ISSUES}/1", json={"state": "closed"}).status_code == 403
    readers = as_user("ada", token="reader", kind="fine_grained", lacks=["issues"])
    assert readers.post(COMMENTS, json={"body": "x"}).status_code == 403


def test_owners_are_people_or_organisations(control: Control, nobody: Client) -> None:
    control.user("acme", kind="Organization")
    control.repo("acme/mill", default_branch="trunk")
    found = nobody.get("/repos/Acme/Mill").json()
    assert (found["owner"]["type"], found["default_branch"]) == ("Organization", "trunk")
    assert nobody.get("/users/ADA").json()["id"] == 7
    assert nobody.get("/users/none").status_code == 404


def test_issues_are_listed_with_filters_and_pages(control: Control, ada: Client) -> None:
    control.issue(REPO, "A pull", pull_request=True)
    control.issue(REPO, "Both", labels=["Ready", "urgent"])
    control.issue(REPO, "Closed", labels=["ready"])
    control.edit(REPO, 4, state="closed")

    def numbers(**query: Any) -> list[int]:
        return [one["number"] for one in ada.get(ISSUES, params=query).json()]

    assert numbers() == [3, 2, 1]
    assert numbers(direction="asc", sort="created") == [1, 2, 3]
    assert numbers(labels="READY,urgent") == [3]
    assert numbers(state="closed") == [4]
    assert numbers(state="all", per_page=2, page=2) == [2, 1]
    assert numbers(since="2999-01-01T00:00:00Z") == []
    kinds = {one["number"]: "pull_request" in one for one in ada.get(ISSUES).json()}
    assert kinds == {1: False, 2: True, 3: False}
    assert [one["number"] for one in all_pages(ada, f"{ISSUES}?per_page=1")] == [3, 2, 1]
    first = ada.get(ISSUES, params={"per_page": 1})
    assert re.search(
        r'/repositories/\d+/issues\?per_page=1&page=2>; rel="next"', first.headers["link"]
    )


def test_an_issue_is_edited_and_graphql_knows_who_did_it(
    ada: Client, as_user: Callable[..., Client]
) -> None:
    def last_edit() -> Any:
        variables = {"owner": "ada", "name": "engine", "number": 1}
        answer = ada.post("/graphql", json={"query": "query { … }", "variables": variables})
        return answer.json()["data"]["repository"]["issue"]

    assert last_edit()["lastEditedAt"] is None
    bob = as_user("bob")
    edited = bob.patch(f"{ISSUES}/1", json={"title": "New", "body": "text", "labels": ["b"]}).json()
    assert (edited["title"], edited["body"], names(edited["labels"])) == ("New", "text", ["b"])
    assert last_edit()["lastEditedAt"] == edited["updated_at"]
    assert last_edit()["editor"] == {"login": "bob", "databaseId": bob.get("/user").json()["id"]}
    closed = ada.patch(
        f"{ISSUES}/1", json={"state": "closed", "state_reason": "not_planned"}
    ).json()
    assert (closed["state"], closed["state_reason"]) == ("closed", "not_planned")
    assert ada.patch(f"{ISSUES}/1", json={"state": "open"}).json()["state_reason"] == "reopened"
    assert ada.patch(f"{ISSUES}/1", json={"state": "ajar"}).status_code == 422
    missing = {"query": "", "variables": {"owner": "ada", "name": "engine", "number": 99}}
    assert ada.post("/graphql", json=missing).json()["errors"][0]["type"] == "NOT_FOUND"


def test_labels_are_put_on_created_on_the_way_and_taken_off(ada: Client) -> None:
    assert names(ada.post(LABELS, json={"labels": ["a/b: c"]}).json()) == ["ready", "a/b: c"]
    assert names(ada.post(LABELS, json=["READY"]).json()) == ["ready", "a/b: c"]
    assert len(ada.get(f"{ISSUES}/1/events").json()) == 2
    assert ada.get(f"/repos/{REPO}/labels/A%2Fb%3A%20c").json()["color"] == "ededed"
    assert names(ada.delete(f"{LABELS}/a%2Fb%3A%20c").json()) == ["ready"]
    gone = ada.delete(f"{LABELS}/a%2Fb%3A%20c")
    assert (gone.status_code, gone.json()["message"]) == (404, "Label does not exist")
    assert names(ada.get(LABELS).json()) == ["ready"]
    twice = [ada.post(f"/repos/{REPO}/labels", json={"name": one}) for one in ("new", "NEW")]
    assert [one.status_code for one in twice] == [201, 422]
    assert twice[1].json()["errors"][0]["code"] == "already_exists"


def test_comments_are_written_read_edited_and_deleted(control: Control, ada: Client) -> None:
    control.clock(at="2026-05-01T19:42:33Z", freeze=True)
    posted = [ada.post(COMMENTS, json={"body": str(n)}).json() for n in range(3)]
    assert [one["created_at"] for one in posted] == ["2026-05-01T19:42:33Z"] * 3
    ids = [one["id"] for one in posted]
    assert ids == sorted(ids)
    assert bodies(ada.get(COMMENTS, params={"per_page": 2, "page": 2})) == ["2"]
    control.clock(advance=60)
    path = f"{ISSUES}/comments/{ids[0]}"
    assert ada.patch(path, json={"body": "edited"}).json()["updated_at"] == "2026-05-01T19:43:33Z"
    assert bodies(ada.get(COMMENTS, params={"since": "2026-05-01T19:43:00Z"})) == ["edited"]
    assert ada.delete(path).status_code == 204
    assert ada.get(path).status_code == 404
    assert ada.post(COMMENTS, json={"body": " "}).json()["errors"][0]["field"] == "body"
    assert ada.post(COMMENTS, content=b"{").status_code == 400
    assert ada.get(f"{ISSUES}/1").json()["comments"] == 2


def test_events_and_timeline_tell_who_did_what(control: Control, ada: Client) -> None:
    control.label(REPO, 1, add=["urgent"], remove=["ready"], by="bob")
    control.comment(REPO, 1, "mine now", user="eve")
    control.edit(REPO, 1, state="closed", by="ada")
    events = ada.get(f"{ISSUES}/1/events").json()
    told = [
        (one["event"], one["actor"]["login"], one.get("label", {}).get("name")) for one in events
    ]
    assert told == [
        ("labeled", "ada", "ready"),
        ("labeled", "bob", "urgent"),
        ("unlabeled", "bob", "ready"),
        ("closed", "ada", None),
    ]
    timeline = all_pages(ada, f"{ISSUES}/1/timeline?per_page=2")
    assert [one["event"] for one in timeline][3] == "commented"
    assert len(timeline) == 5


def test_dependencies_are_summed_up_and_listed(control: Control, ada: Client) -> None:
    for _ in range(2):
        control.issue(REPO)
    control.edit(REPO, 1, blocked_by=[2, 3])
    control.edit(REPO, 2, state="closed")
    summary = ada.get(f"{ISSUES}/1").json()["issue_dependencies_summary"]
    assert summary == {"blocked_by": 1, "total_blocked_by": 2, "blocking": 0, "total_blocking": 0}
    found = ada.get(f"{ISSUES}/1/dependencies/blocked_by").json()
    assert [one["state"] for one in found] == ["closed", "open"]
    assert ada.get(f"{ISSUES}/3").json()["issue_dependencies_summary"]["blocking"] == 1


def test_deleted_hidden_and_transferred_issues(control: Control, ada: Client) -> None:
    control.repo("ada/other")
    for _ in range(2):
        control.issue(REPO)
    control.delete(REPO, 1)
    control.delete(REPO, 2, status=404)
    control.transfer(REPO, 3, "ada/other")
    answers = [ada.get(f"{ISSUES}/{number}") for number in (1, 2, 3, 4)]
    assert [one.status_code for one in answers] == [410, 404, 301, 404]
    moved = ada.get(f"{ISSUES}/3", follow_redirects=True).json()
    assert moved["repository_url"].endswith("/repos/ada/other")
    assert control.issue(REPO) == 4


def test_what_has_not_changed_costs_nothing(control: Control, ada: Client) -> None:
    first = ada.get(COMMENTS)
    left = int(first.headers["x-ratelimit-remaining"])
    again = ada.get(COMMENTS, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert int(again.headers["x-ratelimit-remaining"]) == left
    control.comment(REPO, 1, "new", user="bob")
    changed = ada.get(COMMENTS, headers={"if-none-match": first.headers["etag"]})
    assert (changed.status_code, bodies(changed)) == (200, ["new"])
    assert int(changed.headers["x-ratelimit-remaining"]) == left - 1
    seen = [(one["user"], one["conditional"], one["not_modified"]) for one in control.requests()]
    assert seen == [("ada", False, False), ("ada", True, True), ("ada", True, False)]


def test_the_budget_is_spent_and_comes_back_with_time(control: Control, ada: Client) -> None:
    control.limit("ada", limit=100, remaining=1, reset_in=30)
    assert ada.get(ISSUES).headers["x-ratelimit-remaining"] == "0"
    spent = ada.get(ISSUES)
    assert (spent.status_code, spent.headers["x-ratelimit-remaining"]) == (403, "0")
    assert "rate limit exceeded" in spent.json()["message"]
    core = ada.get("/rate_limit").json()["resources"]["core"]
    assert (core["limit"], core["remaining"]) == (100, 0)
    assert ada.post("/graphql", json={}).status_code == 200  # a budget of its own
    control.clock(advance=31)
    assert ada.get(ISSUES).headers["x-ratelimit-remaining"] == "99"


def test_a_reference_is_created_once(ada: Client, as_user: Callable[..., Client]) -> None:
    git = f"/repos/{REPO}/git"
    head = ada.get(f"{git}/ref/heads/main").json()["object"]["sha"]
    tree = ada.get(f"/repos/{REPO}/commits/HEAD").json()["commit"]["tree"]["sha"]
    assert ada.get(f"{git}/commits/{head}").json()["tree"]["sha"] == tree

    def commit(message: str) -> str:
        made = ada.post(
            f"{git}/commits", json={"message": message, "tree": tree, "parents": [head]}
        )
        assert made.status_code == 201
        sha: str = made.json()["sha"]
        return sha

    def create(sha: str, client: Client = ada) -> httpx2.Response:
        return client.post(f"{git}/refs", json={"ref": "refs/rota/claims/1/1/claim", "sha": sha})

    mine, theirs = commit("mine"), commit("theirs")
    assert [create(mine).status_code, create(theirs).status_code] == [201, 422]
    assert create(mine).json()["message"] == "Reference already exists"
    found = ada.get(f"{git}/matching-refs/rota/claims/1").json()
    assert [(one["ref"], one["object"]["sha"]) for one in found] == [
        ("refs/rota/claims/1/1/claim", mine)
    ]
    assert ada.get(f"{git}/ref/rota/none").status_code == 404
    limited = as_user("ada", token="limited", kind="fine_grained", lacks=["contents"])
    assert create(mine, limited).status_code == 403


def test_commits_have_gits_own_hashes_so_twins_are_one(control: Control, ada: Client) -> None:
    control.clock(freeze=True)
    tree = ada.get(f"/repos/{REPO}/commits/HEAD").json()["commit"]["tree"]["sha"]
    path, content = f"/repos/{REPO}/git/commits", {"message": "same", "tree": tree}
    shas = {ada.post(path, json=content).json()["sha"] for _ in range(2)}
    control.clock(advance=1)
    later = ada.post(path, json=content).json()
    assert len(shas | {later["sha"]}) == 2

    def signed(role: str) -> str:
        by = later[role]
        seconds = int(datetime.fromisoformat(by["date"]).timestamp())
        return f"{role} {by['name']} <{by['email']}> {seconds} +0000\n"

    text = f"tree {tree}\n{signed('author')}{signed('committer')}\nsame"
    hashed = subprocess.run(
        ["git", "hash-object", "-t", "commit", "--stdin"],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert later["sha"] == hashed.stdout.strip()


# Gitea


def test_gitea_shows_the_same_state_in_its_own_way(control: Control, ada: Client) -> None:
    control.issue(REPO, "A pull", pull_request=True, labels=["ready"])
    answer = ada.get(GITEA, params={"state": "open", "labels": "ready", "type": "issues"})
    assert answer.headers["x-total-count"] == "1"
    assert not {"etag", "x-ratelimit-limit"} & set(answer.headers)
    (issue,) = answer.json()
    assert (issue["number"], issue["pull_request"], issue["assignees"]) == (1, None, None)
    everything = ada.get(GITEA, params={"labels": "there is no such label"}).json()
    assert [one["number"] for one in everything] == [2, 1]
    paged = ada.get(GITEA, params={"limit": 1})
    assert 'page=2>; rel="next"' in paged.headers["link"]
    assert ada.get("/api/v1/user").json()["id"] == 7
    assert ada.get("/api/v1/version").json()["version"]
    assert ada.get(f"/api/v1/repos/{REPO}").json()["default_branch"] == "main"


def test_gitea_labels_go_by_number(ada: Client) -> None:
    path = f"/api/v1/repos/{REPO}/labels"
    assert ada.post(path, json={"name": "new", "color": "red"}).status_code == 422
    made = ada.post(path, json={"name": "new", "color": "#00ff00"}).json()
    assert made["color"] == "00ff00"
    listed = ada.get(path, params={"limit": 1, "page": 2})
    assert (names(listed.json()), listed.headers["x-total-count"]) == (["ready"], "2")
    labels = f"{GITEA}/1/labels"
    assert names(ada.post(labels, json={"labels": [made["id"]]}).json()) == ["ready", "new"]
    assert names(ada.post(labels, json={"labels": ["unknown"]}).json()) == ["ready", "new"]
    assert ada.post(labels, json={"labels": ["new", 1]}).status_code == 400
    assert [ada.delete(f"{labels}/{made['id']}").status_code for _ in range(2)] == [204, 204]
    assert ada.delete(f"{labels}/new").status_code == 422
    timeline = ada.get(f"{GITEA}/1/timeline").json()
    told = [(one["type"], one["user"]["id"], one["label"]["name"], one["body"]) for one in timeline]
    assert told == [("label", 7, "ready", "1"), ("label", 7, "new", "1"), ("label", 7, "new", "")]


def test_gitea_comments_have_no_pages(control: Control, ada: Client, nobody: Client) -> None:
    for n in range(60):
        control.comment(REPO, 1, str(n), user="eve", created_at=f"2026-05-01T00:00:{n:02}Z")
    assert len(ada.get(f"{GITEA}/1/comments", params={"limit": 5}).json()) == 60
    late = ada.get(f"{GITEA}/1/comments", params={"since": "2026-05-01T00:00:58Z"})
    assert bodies(late) == ["58", "59"]
    assert ada.post(f"{GITEA}/1/comments", json={"body": "x"}).status_code == 201
    assert nobody.post(f"{GITEA}/1/comments", json={"body": "x"}).status_code == 401
    assert nobody.get(f"{GITEA}/99/comments").status_code == 404


def test_gitea_closes_when_nothing_blocks(control: Control, ada: Client) -> None:
    control.edit(REPO, 1, blocked_by=[control.issue(REPO)])
    assert names_of(ada.get(f"{GITEA}/1/dependencies").json()) == [2]
    assert ada.patch(f"{GITEA}/1", json={"state": "closed"}).status_code == 412
    assert ada.patch(f"{GITEA}/2", json={"state": "closed"}).status_code == 201
    assert ada.patch(f"{GITEA}/1", json={"state": "closed"}).json()["state"] == "closed"
    control.delete(REPO, 1)
    assert ada.get(f"{GITEA}/1").status_code == 404
    bare = control.issue(REPO)
    assert ada.get(f"{GITEA}/{bare}/timeline").json() is None


def names_of(issues: list[dict[str, Any]]) -> list[int]:
    return [one["number"] for one in issues]


# Faults


@pytest.mark.parametrize(
    ("fault", "status", "header"),
    [
        ({"kind": "secondary_limit"}, 403, ("retry-after", None)),
        ({"kind": "secondary_limit", "retry_after": 3}, 403, ("retry-after", "3")),
        ({"kind": "rate_limit", "seconds": 9}, 403, ("x-ratelimit-remaining", "0")),
        ({"kind": "too_many", "retry_after": 2}, 429, ("retry-after", "2")),
        ({"kind": "error_before", "status": 500}, 500, ("content-type", JSON)),
        ({"kind": "error_before", "status": 503}, 503, ("content-type", "text/html")),
    ],
)
@pytest.mark.parametrize("issues", [ISSUES, GITEA])
def test_refusals_do_nothing_and_end_when_their_number_is_up(
    ada: Client, *, stub: TrackerStub, issues: str, fault: Any, status: int, header: Any
) -> None:
    control, path = stub.control, f"{issues}/1/comments"
    control.fault(method="POST", path="comments$", times=1, **fault)
    assert ada.get(path).status_code == 200
    answer = ada.post(path, json={"body": "x"})
    assert (answer.status_code, answer.headers.get(header[0])) == (status, header[1])
    if fault["kind"] == "secondary_limit":
        assert "You have exceeded a secondary rate limit" in answer.json()["message"]
    assert control.look(REPO, 1)["comments"] == []
    assert ada.post(path, json={"body": "x"}).status_code == 201
    assert control.faults()[0]["hits"] == 1
    assert control.counts()["by_fault"] == {fault["kind"]: 1}


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("error_after", 1),
        ("hang_before", 0),
        ("hang_after", 1),
        ("cut_before", 0),
        ("cut_after", 1),
    ],
)
def test_an_answer_that_does_not_come_says_nothing_of_the_write(
    control: Control, ada: Client, kind: str, written: int
) -> None:
    control.fault(kind, method="POST", times=1)
    if kind == "error_after":
        assert ada.post(COMMENTS, json={"body": "x"}).status_code == 502
    else:
        hangs = "hang" in kind
        expected = httpx2.ReadTimeout if hangs else httpx2.NetworkError
        with pytest.raises((expected, httpx2.RemoteProtocolError)):
            ada.post(COMMENTS, json={"body": "x"}, timeout=IMPATIENT if hangs else 30)
        while not control.counts()["unanswered"]:
            pass  # a slow machine has not read the request yet
    assert len(control.look(REPO, 1)["comments"]) == written
    assert ada.get(ISSUES).status_code == 200


def test_a_hanging_answer_may_be_cut_in_the_end(control: Control, ada: Client) -> None:
    control.fault("hang_after", seconds=0.05)
    with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
        ada.get(ISSUES)


@pytest.mark.parametrize("answer", ["first", "second"])
def test_a_post_is_applied_twice(control: Control, ada: Client, answer: str) -> None:
    control.fault("duplicate", times=1, answer=answer)
    posted = ada.post(COMMENTS, json={"body": "x"}).json()["id"]
    ids = [one["id"] for one in control.look(REPO, 1)["comments"]]
    assert len(ids) == 2
    assert posted == ids[answer == "second"]


def test_a_repeated_reference_is_refused_unless_references_are_shared(
    control: Control, ada: Client
) -> None:
    git = f"/repos/{REPO}/git"
    head = ada.get(f"{git}/ref/heads/main").json()["object"]["sha"]
    control.fault("duplicate", times=1)
    content = {"ref": "refs/rota/x", "sha": head}
    assert ada.post(f"{git}/refs", json=content).status_code == 422
    control.fault("shared_ref")
    assert ada.post(f"{git}/refs", json=content).status_code == 201


def test_time_may_contradict_the_order_of_ids(control: Control, ada: Client) -> None:
    first = ada.post(COMMENTS, json={"body": "first"}).json()
    control.fault("backdated", seconds=30, times=1)
    second = ada.post(COMMENTS, json={"body": "second"}).json()
    assert second["id"] > first["id"]
    assert second["created_at"] < first["created_at"]
    assert bodies(ada.get(COMMENTS)) == ["first", "second"]
    assert bodies(ada.get(f"{GITEA}/1/comments")) == ["second", "first"]


def test_few_comments_span_several_pages(control: Control, ada: Client) -> None:
    control.fault("page_size", path="comments", size=2)
    for n in range(5):
        control.comment(REPO, 1, str(n), user="bob")
    assert len(ada.get(COMMENTS, params={"per_page": 100}).json()) == 2
    pages = all_pages(ada, f"{COMMENTS}?per_page=100")
    assert [one["body"] for one in pages] == ["0", "1", "2", "3", "4"]


def test_a_blind_etag_hides_that_there_is_a_next_page(control: Control, ada: Client) -> None:
    def status(tag: str) -> int:
        return ada.get(f"{COMMENTS}?per_page=1", headers={"if-none-match": tag}).status_code

    control.comment(REPO, 1, "one", user="bob")
    honest = ada.get(f"{COMMENTS}?per_page=1").headers["etag"]
    number = control.fault("blind_etag")
    blind = ada.get(f"{COMMENTS}?per_page=1").headers["etag"]
    control.comment(REPO, 1, "two", user="bob")
    assert status(blind) == 304
    control.clear_faults(number)
    assert status(honest) == 200


def test_a_late_comment_appears_after_a_later_one(control: Control, ada: Client) -> None:
    control.fault("late", method="POST", path="comments", seconds=0.15, times=1)
    started = time.monotonic()
    late = ada.post(COMMENTS, json={"body": "late"}).json()["id"]
    later = ada.post(COMMENTS, json={"body": "prompt"}).json()["id"]
    assert late < later
    seen = bodies(ada.get(COMMENTS))
    if time.monotonic() - started < 0.15:
        assert seen == ["prompt"]
        assert ada.get(f"{GITEA}/1").json()["comments"] == 1
    while bodies(ada.get(COMMENTS)) != ["late", "prompt"]:
        assert time.monotonic() - started < 30
    assert time.monotonic() - started >= 0.15


def test_a_stale_read_may_miss_any_young_entry(control: Control, ada: Client) -> None:
    young = [control.comment(REPO, 1, str(n), user="bob") for n in range(4)]
    control.fault("stale", seconds=3600, entries=["comments"])
    views = [{one["id"] for one in ada.get(COMMENTS).json()} for _ in range(40)]
    for comment in young:
        assert any(comment in view for view in views)
        assert any(comment not in view for view in views)
    assert any(young[0] not in view and young[3] in view for view in views)


def test_a_stale_read_never_misses_what_is_old_enough(control: Control, ada: Client) -> None:
    old = [control.comment(REPO, 1, "old", user="bob") for _ in range(4)]
    time.sleep(0.05)  # real age is what counts, whatever the stub's clock says
    control.fault("stale", seconds=0.05, share=1)
    for _ in range(20):
        assert [one["id"] for one in ada.get(COMMENTS).json()] == old


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_stale_reads_show_labels_and_state_as_they_were(
    control: Control, ada: Client, share: float
) -> None:
    control.label(REPO, 1, add=["new"], remove=["ready"])
    control.edit(REPO, 1, state="closed")
    second = control.issue(REPO)
    control.fault("stale", seconds=1e9, share=share, entries=["labels"], path="/1$")
    control.fault("stale", seconds=1e9, share=share, path="/2|/issues$|labels$")
    issue = ada.get(f"{ISSUES}/1").json()
    assert names(issue["labels"]) == (["new"] if share == 0 else [])
    assert issue["state"] == "closed"
    assert ada.get(f"{ISSUES}/{second}").status_code == (200 if share == 0 else 404)
    assert names(ada.get(LABELS).json() if share == 0 else []) == names(issue["labels"])
    assert names_of(ada.get(ISSUES).json()) == ([second] if share == 0 else [])
    posted = ada.post(LABELS, json={"labels": ["x"]}).json()
    assert names(posted) == ["new", "x"]  # the answer to a write is never stale


def test_faults_are_drawn_from_the_seed(stub: TrackerStub, nobody: Client) -> None:
    def run(seed: int) -> list[int]:
        stub.control.reset(seed=seed)
        stub.control.fault("error_before", probability=0.5)
        stub.control.fault("too_many", probability=0.3, path="version")
        return [nobody.get("/api/v1/version").status_code for _ in range(40)]

    assert run(1) == run(1) != run(2)
    assert set(run(1)) == {200, 429, 502}


def test_the_clock_is_frozen_moved_and_made_coarse(control: Control, ada: Client) -> None:
    control.clock(freeze=True, at="2026-05-01T19:42:33Z")
    assert ada.get(ISSUES).headers["date"] == "Fri, 01 May 2026 19:42:33 GMT"
    control.clock(granularity=60)
    assert ada.post(COMMENTS, json={"body": "x"}).json()["created_at"] == "2026-05-01T19:42:00Z"
    assert control.clock(granularity=1, advance=-3).endswith("19:42:30Z")
    assert control.clock(freeze=False) >= "2026-05-01T19:42:30Z"


def test_the_hand_of_the_test_forges_edits_and_reads_everything(control: Control) -> None:
    forged = control.comment(
        REPO, 1, "<!-- claim -->", user="eve", created_at="2020-01-01T00:00:00Z"
    )
    control.edit_comment(REPO, forged, "changed")
    (comment,) = control.look(REPO, 1)["comments"]
    assert comment == {
        "id": forged,
        "user": "eve",
        "body": "changed",
        "created_at": "2020-01-01T00:00:00Z",
        "updated_at": comment["updated_at"],
    }
    assert comment["updated_at"] > comment["created_at"]
    assert control.state()["users"]["ada"] == {"id": 7, "kind": "User"}


def test_requests_are_logged_counted_and_forgotten(control: Control, ada: Client) -> None:
    ada.get(f"{ISSUES}/99")
    ada.post(COMMENTS, json={"body": "x"})
    logged = [
        (one["method"], one["path"], one["status"], one["user"]) for one in control.requests()
    ]
    assert logged == [("GET", f"{ISSUES}/99", 404, "ada"), ("POST", COMMENTS, 201, "ada")]
    counts = control.counts()
    assert (counts["total"], counts["writes"], counts["by_user"]) == (2, 1, {"ada": 2})
    control.forget_requests()
    assert control.requests() == []


# Webhooks


@pytest.fixture
def received() -> Iterator[tuple[str, list[tuple[Any, bytes]]]]:
    seen: list[tuple[Any, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.headers, body))
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hooks", seen
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("dialect", ["github", "gitea"])
def test_webhooks_are_signed_and_repeated(
    control: Control, received: tuple[str, list[tuple[Any, bytes]]], dialect: str
) -> None:
    url, seen = received
    sent = control.webhook(
        url, "key", REPO, number=1, label="ready", dialect=dialect, times=2, sender="bob"
    )
    assert sent == [202, 202]
    (headers, body), (again, repeated) = seen
    assert body == repeated
    delivery = "x-github-delivery" if dialect == "github" else "x-gitea-delivery"
    assert headers[delivery] == again[delivery]
    signature = hmac.new(b"key", body, hashlib.sha256).hexdigest()
    assert headers["x-hub-signature-256"] == f"sha256={signature}"
    assert headers["x-gitea-signature"] == (signature if dialect == "gitea" else None)
    assert headers["x-github-event"] == "issues"
    payload = json.loads(body)
    assert (payload["action"], payload["issue"]["number"]) == ("labeled", 1)
    assert (payload["sender"]["login"], payload["label"]["name"]) == ("bob", "ready")
