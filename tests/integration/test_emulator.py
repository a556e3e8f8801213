"""The emulator of GitHub: that it runs, ends, and does what the tests of trackers build on."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2
import pytest

from rota.testing import emulator
from rota.testing.emulator import REPO, EmulatorUnavailable, GitHubEmulator, github_emulator

pytestmark = pytest.mark.needs("github-emulator")

ISSUES = f"/repos/{REPO}/issues"

# A test process that is killed: it says where its emulator is, and does not get to its clean-up.
KILLED = """
import os, signal
from rota.testing.emulator import github_emulator
with github_emulator() as github:
    print(github.url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def github() -> Iterator[GitHubEmulator]:
    with github_emulator() as running:
        yield running


@pytest.fixture
def client(github: GitHubEmulator) -> Iterator[httpx2.Client]:
    with _client(github, github.token) as client:
        yield client


def _client(github: GitHubEmulator, token: str) -> httpx2.Client:
    return httpx2.Client(base_url=github.url, headers={"authorization": f"Bearer {token}"})


def _open_issue(client: httpx2.Client, *labels: str) -> int:
    answer = client.post(ISSUES, json={"title": "Say hello", "labels": labels})
    assert answer.status_code == 201
    number: int = answer.json()["number"]
    return number


def _labels(client: httpx2.Client, number: int) -> list[str]:
    return [label["name"] for label in client.get(f"{ISSUES}/{number}").json()["labels"]]


def test_the_account_of_a_token_is_told(client: httpx2.Client) -> None:
    assert client.get("/user").json()["login"] == "rota-bot"


def test_issues_are_listed_by_label_and_by_page(client: httpx2.Client) -> None:
    wanted = [_open_issue(client, "listed") for _ in range(3)]
    _open_issue(client, "other")
    query = {"labels": "listed", "per_page": "2", "sort": "created", "direction": "asc"}
    first = client.get(ISSUES, params=query)
    second = client.get(first.links["next"]["url"])
    assert [issue["number"] for issue in first.json() + second.json()] == wanted
    assert "next" not in second.links


def test_a_comment_stands_under_the_number_of_its_author(client: httpx2.Client) -> None:
    number = _open_issue(client)
    posted = client.post(f"{ISSUES}/{number}/comments", json={"body": "mine"}).json()
    (read,) = client.get(f"{ISSUES}/{number}/comments").json()
    assert (read["id"], read["body"]) == (posted["id"], "mine")
    assert read["user"]["id"] == client.get("/user").json()["id"]


def test_a_comment_that_nobody_edited_does_not_look_edited(client: httpx2.Client) -> None:
    number = _open_issue(client)
    for _ in range(100):
        posted = client.post(f"{ISSUES}/{number}/comments", json={"body": "fresh"}).json()
        assert posted["updated_at"] == posted["created_at"]


def test_labels_are_added_and_removed_one_by_one(client: httpx2.Client) -> None:
    number = _open_issue(client, "agent:implement")
    client.post(f"{ISSUES}/{number}/labels", json={"labels": ["agent:in-flight"]})
    assert client.delete(f"{ISSUES}/{number}/labels/agent:implement").status_code == 200
    assert client.delete(f"{ISSUES}/{number}/labels/agent:implement").status_code == 404
    assert _labels(client, number) == ["agent:in-flight"]


def test_an_issue_is_closed_with_its_reason(client: httpx2.Client) -> None:
    number = _open_issue(client)
    client.patch(f"{ISSUES}/{number}", json={"state": "closed", "state_reason": "completed"})
    closed = client.get(f"{ISSUES}/{number}").json()
    assert (closed["state"], closed["state_reason"]) == ("closed", "completed")


def test_a_reference_is_created_once_and_not_by_a_stranger(
    github: GitHubEmulator, client: httpx2.Client
) -> None:
    git = f"/repos/{REPO}/git"
    sha = client.get(f"{git}/ref/heads/main").json()["object"]["sha"]
    wanted = {"ref": "refs/rota/claims/1/1/claim", "sha": sha}
    with _client(github, github.token_of("stranger")) as stranger:
        assert stranger.post(f"{git}/refs", json=wanted).status_code == 403
    assert client.post(f"{git}/refs", json=wanted).status_code == 201
    assert client.post(f"{git}/refs", json=wanted).status_code == 422


def test_an_unknown_token_is_nobody_of_importance(github: GitHubEmulator) -> None:
    with _client(github, "guessed") as guesser:
        assert guesser.get("/user").json()["login"] == "stranger"


def test_nothing_of_it_is_left_at_the_end() -> None:
    with github_emulator() as github:
        assert is_listening(github.url)
    assert not is_listening(github.url)
    with pytest.raises(ProcessLookupError):
        os.kill(github.pid, 0)


def test_nothing_of_it_is_left_when_the_tests_are_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        url = tests.stdout.readline().strip()
    assert tests.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while is_listening(url) and time.monotonic() < deadline:
        time.sleep(0.02)  # it is nobody's child any more and cannot be waited for
    assert not is_listening(url)


def is_listening(url: str) -> bool:
    where = urlsplit(url)
    with suppress(ConnectionError), socket.create_connection((where.hostname, where.port)):
        return True
    return False


def test_without_the_pinned_contents_there_is_no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(emulator.PACKAGES, emulator.EMULATOR, "sha512-of-something-else")
    assert emulator.find_emulator() is None
    with pytest.raises(EmulatorUnavailable, match="make components"), github_emulator():
        pass
