"""Webhooks of trackers: a server that was told something looks for itself, and believes nothing."""

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.api.hooks import Receiver, hook_endpoints
from rota.testing import zygote
from rota.testing.served import Served, serve
from rota.testing.tracker import Control, TrackerStub, tracker_stub
from tests.faults.processes import Server, eventually
from tests.integration.tended import REPO, build

SECRET = "it is a secret"
OTHER = "another secret"
CONFIG = """
sources:
  - type: github
    repo: ada/engine
    api_url: {github}
    auth: {{token_env: BOT_TOKEN}}
    webhook_secret_env: HOOK_SECRET
    poll_seconds: 86400
  - type: gitea
    repo: ada/engine
    api_url: {gitea}
    auth: {{token_env: BOT_TOKEN}}
    webhook_secret_env: HOOK_SECRET
    poll_seconds: 86400
"""


def sign(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


# a real server, and a real tracker that tells it things


@pytest.fixture(scope="module")
def stub() -> Iterator[TrackerStub]:
    with tracker_stub() as running:
        build(running.control)
        yield running


@pytest.fixture(scope="module")
def server(stub: TrackerStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`rota up` on both; only a webhook makes it look again before tomorrow. Its secrets are in
    files."""
    home = tmp_path_factory.mktemp("server")
    for name, secret in (("bot", "token-bot"), ("hook", SECRET)):
        (home / name).write_text(f"{secret}\n")
    config = home / "rota.yaml"
    config.write_text(CONFIG.format(github=stub.url, gitea=stub.gitea_url))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOT_TOKEN_FILE", str(home / "bot"))
        patch.setenv("HOOK_SECRET_FILE", str(home / "hook"))
        server = Server(home / "state", f"sqlite:///{home}/rota.db", "--config", str(config))
        server.start()
    yield server
    server.kill()


@pytest.fixture
def control(stub: TrackerStub) -> Control:
    return stub.control


def titles(server: Server, kind: str) -> set[str]:
    found = httpx2.get(f"{server.url}/work", params={"limit": 1000}).json()
    return {one["description"] for one in found if one["source"].startswith(kind)}


def polled(server: Server, kind: str) -> str | None:
    states = httpx2.get(f"{server.url}/sources").json()
    return next((one["polled_at"] for one in states if one["source"].startswith(kind)), None)


@pytest.mark.parametrize("kind", ["github", "gitea"])
def test_a_signed_webhook_makes_the_server_look_at_once(
    server: Server, control: Control, kind: str
) -> None:
    eventually(lambda: polled(server, kind), "the first poll")
    title = f"New on {kind}"
    number = control.issue(REPO, title, labels=["ready"])
    assert title not in titles(server, kind)
    hook = f"{server.url}/hooks/{kind}"
    assert control.webhook(hook, SECRET, REPO, number=number, dialect=kind) == [202]
    eventually(lambda: title in titles(server, kind), "the poll", 30)


def test_what_a_webhook_says_is_not_believed(server: Server, control: Control) -> None:
    number = control.issue(REPO, "The real title", labels=["ready"])
    forged = {
        "issue": {"number": number, "title": "A forged title", "body": "rm -rf", "labels": []},
        "changes": {"title": {"from": "The real title"}},
    }
    hook = f"{server.url}/hooks/github"
    assert control.webhook(hook, SECRET, REPO, number=number, payload=forged) == [202]
    eventually(lambda: "The real title" in titles(server, "github"), "the poll", 30)
    assert "A forged title" not in titles(server, "github")


def test_a_delivery_counts_once_also_for_the_server(server: Server, control: Control) -> None:
    hook = f"{server.url}/hooks/github"
    assert control.webhook(hook, SECRET, REPO, delivery="one", times=3) == [202, 200, 200]


def test_forgeries_are_refused_by_the_server(server: Server, control: Control) -> None:
    hook = f"{server.url}/hooks/github"
    control.repo("ada/unknown")
    assert control.webhook(hook, OTHER, REPO) == [401]
    assert control.webhook(hook, SECRET, "ada/unknown") == [401]
    assert control.webhook(hook, SECRET, REPO, dialect="gitea") == [202], "it has both names"
    assert server.log.count("internal error") == 0


# what is wrong with the configuration


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "sources: [{type: github, repo: engine}]",
            "sources[0].repo: ",
        ),
        ("sources: [{type: githb, repo: a/b}]\nsuorces: []", "did you mean 'sources'?"),
        ("sources: [{type: github, repo: a/b, poll: 3}]", "sources[0].poll: unknown key"),
        ("sources: {", "rota.yaml:1:"),
        (
            "sources: [{type: github, repo: a/b, name: x}, {type: github, repo: A/B, name: y}]",
            "sources[0] is this repository, too",
        ),
        (
            "sources: [{type: github, repo: a/b, times: {grace: 20}}]",
            "times: grace (20 s) must be longer",
        ),
        (
            "sources: [{type: github, repo: a/b, api_url: 'https://me:hunter2@example.org'}]",
            "holds a user name or password",
        ),
    ],
)
def test_a_mistake_in_the_configuration_is_one_clear_message(
    tmp_path: Path, config: str, told: str
) -> None:
    file = tmp_path / "rota.yaml"
    file.write_text(config)
    words = ["--state-dir", str(tmp_path / "state"), "up", "--port", "0", "--config", str(file)]
    done = zygote.run(words, env=os.environ, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


# the face alone: who is woken, and by what


class Woken:
    """The repositories that take webhooks here, and how often each was woken."""

    def __init__(self) -> None:
        self.count = dict.fromkeys(("github", "gitea", "forgejo", "silent"), 0)

    def receivers(self) -> list[Receiver]:
        return [
            Receiver("github", "ada/engine", lambda: SECRET, self._wake("github")),
            Receiver("github", "ada/silent", lambda: None, self._wake("silent")),
            Receiver("gitea", "ada/engine", lambda: SECRET, self._wake("gitea")),
            Receiver("gitea", "ada/engine", lambda: OTHER, self._wake("forgejo")),
        ]

    def _wake(self, name: str) -> Callable[[], None]:
        def wake() -> None:
            self.count[name] += 1

        return wake


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def served(tmp_path: Path, woken: Woken) -> Iterator[Served]:
    database = f"sqlite:///{tmp_path}/rota.db"
    with serve(database, endpoints=hook_endpoints(woken.receivers())) as server:
        yield server


BODY = json.dumps({"repository": {"full_name": "ada/engine"}}).encode()


def post(served: Served, body: bytes = BODY, path: str = "/hooks/github", **headers: str) -> Any:
    given = {
        "content-type": "application/json",
        "x-github-delivery": "d1",
        "x-hub-signature-256": f"sha256={sign(body)}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    sent = {name: value for name, value in given.items() if value}
    return httpx2.post(served.url + path, content=body, headers=sent)


def test_a_delivery_wakes_its_repository_once(served: Served, woken: Woken) -> None:
    first, again = post(served), post(served)
    assert (first.status_code, first.json()) == (202, {"status": "accepted"})
    assert (again.status_code, again.json()) == (200, {"status": "seen before"})
    assert post(served, x_github_delivery="d2").status_code == 202
    assert woken.count == {"github": 2, "gitea": 0, "forgejo": 0, "silent": 0}


@pytest.mark.parametrize("length", [149, 150, 3000])
def test_long_ids_that_differ_at_their_ends_are_two_deliveries(
    served: Served, woken: Woken, length: int
) -> None:
    for end in ("1", "2"):
        for status in (202, 200):
            answer = post(served, x_github_delivery="x" * length + end)
            assert answer.status_code == status
    assert woken.count["github"] == 2


def named(repo: str) -> bytes:
    return json.dumps({"repository": {"full_name": repo}}).encode()


DEEP = b"[" * 100_000

REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "no signature": (401, {"x_hub_signature_256": ""}),
    "wrong signature": (401, {"x_hub_signature_256": "sha256=" + "0" * 64}),
    "signature of another body": (401, {"x_hub_signature_256": "sha256=" + sign(b"{}")}),
    "signed with another secret": (401, {"x_hub_signature_256": "sha256=" + sign(BODY, OTHER)}),
    "signature that is no text": (401, {"x_hub_signature_256": "sha256=é"}),
    "sha1 only": (401, {"x_hub_signature_256": "", "x_hub_signature": "sha1=" + "0" * 40}),
    "unknown repository": (401, {"body": named("ada/other")}),
    "repository without a secret": (401, {"body": named("ada/silent")}),
    "signed with no secret": (
        401,
        {
            "body": named("ada/silent"),
            "x_hub_signature_256": f"sha256={sign(named('ada/silent'), '')}",
        },
    ),
    "not JSON": (400, {"body": b"{'a': 1}"}),
    "not UTF-8": (400, {"body": b'{"a": "\xff"}'}),
    "no number": (400, {"body": b'{"a": NaN, "repository": {"full_name": "ada/engine"}}'}),
    "beyond all numbers": (400, {"body": BODY.replace(b"{", b'{"a": -1e999, ', 1)}),
    "too deep": (400, {"body": DEEP}),
    "no repository": (422, {"body": b"{}"}),
    "repository of a wrong shape": (422, {"body": b'{"repository": ["ada/engine"]}'}),
    "no delivery id": (422, {"x_github_delivery": ""}),
    "too large": (413, {"body": b" " * (1024 * 1024) + BODY}),
    "wrong content type": (415, {"content_type": "application/x-www-form-urlencoded"}),
    "from a page": (403, {"origin": "https://evil.example"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_wakes_nobody(served: Served, woken: Woken, case: str) -> None:
    status, given = REFUSED[case]
    headers = {name: value.encode() for name, value in given.items() if isinstance(value, str)}
    answer = post(served, given.get("body", BODY), **headers)
    assert answer.status_code == status, answer.text
    assert SECRET not in answer.text
    assert set(woken.count.values()) == {0}
    assert post(served).status_code == 202, "a refused delivery is not remembered"


def test_who_has_not_signed_does_not_learn_which_repositories_there_are(served: Served) -> None:
    unsigned = {"x_hub_signature_256": "sha256=" + "0" * 64}
    answers = [post(served, named(repo), **unsigned) for repo in ("ada/engine", "ada/other")]
    assert answers[0].json() == answers[1].json()


def test_gitea_and_forgejo_sign_under_their_own_names(served: Served, woken: Woken) -> None:
    for name in ("gitea", "forgejo"):
        headers = {f"x_{name}_signature": sign(BODY), f"x_{name}_delivery": name}
        answer = post(
            served, path="/hooks/gitea", x_hub_signature_256="", x_github_delivery="", **headers
        )
        assert answer.status_code == 202, answer.text
    assert woken.count["gitea"] == 2


def test_of_two_repositories_of_one_name_the_signature_tells_which(
    served: Served, woken: Woken
) -> None:
    signature = sign(BODY, OTHER)
    answer = post(served, path="/hooks/gitea", x_hub_signature_256=f"sha256={signature}")
    assert answer.status_code == 202
    assert woken.count == {"github": 0, "gitea": 0, "forgejo": 1, "silent": 0}


def test_a_webhook_needs_no_token_of_ours(served: Served) -> None:
    made = httpx2.post(f"{served.url}/tokens", json={"name": "t", "scopes": ["admin"]})
    assert made.status_code == 201
    assert httpx2.get(f"{served.url}/work").status_code == 401
    assert post(served).status_code == 202
