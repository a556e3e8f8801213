"""Gitea and Forgejo where they differ from GitHub: labels by number, pages without links."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from rota.claims.port import Account
from rota.model.errors import AnswerUnknown, InvalidInput, IssueNotFound, TrackerError
from rota.sources.gitea import GiteaAPIError, GiteaAuthError, GiteaTracker
from rota.sources.github import RetryOptions
from tests.unit.scripted import TOKEN, Reply, Script, account, comment, issue, reply, repository

ROOT = "/api/v1/repos/ada/engine"


async def no_pause(seconds: float) -> None:
    return


def connect(transport: httpx2.AsyncBaseTransport, **options: Any) -> GiteaTracker:
    return GiteaTracker(
        "ada/engine",
        **{
            "api_url": "https://git.example.org",
            "transport": transport,
            "environ": {"GITEA_TOKEN": TOKEN},
            "retry": RetryOptions(max_retries=1),
            "pause": no_pause,
            **options,
        },
    )


def scripted(*replies: Reply, **options: Any) -> tuple[GiteaTracker, Script]:
    script = Script(*replies)
    return connect(script, **options), script


@pytest.mark.parametrize(
    ("api_url", "pages"),
    [
        ("https://git.example.org", "git.example.org"),
        ("https://git.example.org/api/v1/", "git.example.org"),
        ("http://Example.org:3000/git/", "example.org:3000/git"),
        ("https://example.org/our/git/api/v1", "example.org/our/git"),
    ],
)
def test_its_pages_are_where_the_api_is(api_url: str, pages: str) -> None:
    assert scripted(api_url=api_url)[0].pages == pages


@pytest.mark.parametrize(
    "api_url",
    ["https://git.example.org", "https://git.example.org/", "https://git.example.org/api/v1/"],
)
async def test_the_api_is_found_below_the_servers_address(api_url: str) -> None:
    tracker, script = scripted(reply(account()), api_url=api_url)
    assert tracker.host == "git.example.org"
    assert tracker.source == "gitea:git.example.org/ada/engine"
    await tracker.account()
    assert str(script.asked[0].url) == "https://git.example.org/api/v1/user"
    assert script.asked[0].headers["authorization"] == f"token {TOKEN}"


def test_no_address_is_refused() -> None:
    with pytest.raises(InvalidInput, match="api_url"):
        GiteaTracker("ada/engine", api_url="")


async def test_a_server_in_a_folder_is_found() -> None:
    tracker, script = scripted(reply(issue(state="closed")), api_url="https://x.org/git")
    await tracker.issue(5)
    assert script.asked[0].url.path == "/git/api/v1/repos/ada/engine/issues/5"


async def test_a_missing_token_and_a_bad_one_are_told_by_the_variable() -> None:
    tracker, _ = scripted(reply(issue()), environ={})
    with pytest.raises(GiteaAuthError, match="GITEA_TOKEN"):
        await tracker.issue(5)
    tracker, _ = scripted(reply({"message": "invalid token"}, 401))
    with pytest.raises(GiteaAuthError, match="GITEA_TOKEN"):
        await tracker.issue(5)


async def test_strict_mode_needs_github() -> None:
    tracker, script = scripted(reply(issue()))
    with pytest.raises(TrackerError, match="strict mode needs GitHub"):
        await tracker.refs("rota/claims/5/")
    with pytest.raises(TrackerError, match="strict mode needs GitHub"):
        await tracker.create_ref("rota/claims/5/000001/claim", "mine")
    assert await tracker.last_edit(5) is None
    assert script.asked == []


# people


async def test_an_organisation_is_nobody() -> None:
    tracker, script = scripted(reply({"id": 3}))
    assert await tracker.owner() is None
    assert script.paths == ["GET /api/v1/orgs/ada"]
    tracker, _ = scripted(reply(None, 404), reply(repository()))
    assert await tracker.owner() == Account(7, "ada")


async def test_a_token_that_may_not_ask_whose_it_is_is_told() -> None:
    refused = reply({"message": "token does not have at least one of required scope(s)"}, 403)
    tracker, _ = scripted(refused, account_id=41)
    assert await tracker.account() == Account(41, "41")
    tracker, _ = scripted(refused)
    with pytest.raises(GiteaAuthError, match=r"auth\.account_id"):
        await tracker.account()


# issues


async def test_the_filter_is_not_believed() -> None:
    """Gitea drops names it does not know from the filter, and then filters nothing."""
    others = [issue(1, labels=[{"id": 1, "name": "bug"}]), issue(2, labels=None)]
    tracker, _ = scripted(reply([*others, issue(3)], headers={"x-total-count": "3"}))
    assert [one.number for one in await tracker.issues(labels=["ready"])] == [3]


async def test_one_page_is_one_request_and_all_pages_are_read() -> None:
    total = {"x-total-count": "3"}
    first, second = reply([issue(3), issue(2)], headers=total), reply([issue(1)], headers=total)
    tracker, script = scripted(first, second)
    assert [one.number for one in await tracker.issues()] == [1, 2, 3]
    assert [one.url.params["page"] for one in script.asked] == ["1", "2"]


async def test_without_a_total_pages_are_read_until_nothing_is_new() -> None:
    tracker, script = scripted(reply([issue(1)]), reply([issue(2)]), reply([issue(2)]))
    assert len(await tracker.issues()) == 2
    assert len(script.asked) == 3


async def test_more_pages_than_we_read_are_an_error_and_not_a_part() -> None:
    def endless(request: httpx2.Request) -> httpx2.Response:
        return reply([issue(int(request.url.params["page"]))])

    tracker, script = scripted(endless)
    with pytest.raises(GiteaAPIError, match="more than 100 pages"):
        await tracker.issues()
    assert len(script.asked) == 100


async def test_open_blockers_are_asked_for_with_a_single_issue_only() -> None:
    blockers = [issue(1), issue(2, state="closed"), issue(3)]
    tracker, _ = scripted(reply(issue()), reply(blockers), httpx2.Response(200, content=b"null"))
    assert (await tracker.issue(5)).open_blockers == 2
    tracker, script = scripted(reply([issue()], headers={"x-total-count": "1"}))
    assert (await tracker.issues())[0].open_blockers == 0
    assert len(script.asked) == 1


async def test_dependencies_that_are_switched_off_block_nothing() -> None:
    tracker, _ = scripted(reply(issue()), reply(None, 404))
    assert (await tracker.issue(5)).open_blockers == 0
    tracker, _ = scripted(reply(issue()), reply(None, 500))
    with pytest.raises(GiteaAPIError):
        await tracker.issue(5)


async def test_of_an_issue_that_is_gone_gitea_says_500() -> None:
    broken = reply({"message": "issue does not exist"}, 500)
    gone = reply({"message": "not found"}, 404)
    tracker, _ = scripted(broken, broken, gone, gone, reply(repository()))
    with pytest.raises(IssueNotFound):
        await tracker.comments(5)
    tracker, _ = scripted(broken, broken, gone, reply(issue()))
    with pytest.raises(GiteaAPIError, match="404"):
        await tracker.comments(5)
    tracker, _ = scripted(broken, broken, reply(issue()))
    with pytest.raises(GiteaAPIError, match="500"):
        await tracker.comments(5)


async def test_a_comment_without_an_answer_is_unknown() -> None:
    tracker, script = scripted(reply(None, 500), reply(comment(1), 201))
    with pytest.raises(AnswerUnknown):
        await tracker.comment(5, "mine")
    assert len(script.asked) == 1


async def test_dependencies_keep_an_issue_from_being_closed() -> None:
    tracker, _ = scripted(reply({"message": "it still has open dependencies"}, 412))
    with pytest.raises(GiteaAPIError, match="open dependencies"):
        await tracker.close(5)


async def test_a_renamed_repository_is_followed_and_another_one_is_not() -> None:
    def sent_to(place: str) -> httpx2.Response:
        return reply(None, 307, {"location": f"/api/v1/repos/{place}/issues/5"})

    closed = reply(issue(state="closed"))
    tracker, _ = scripted(sent_to("ada/motor"), reply(repository(full_name="Ada/Motor")), closed)
    assert (await tracker.issue(5)).number == 5
    tracker, _ = scripted(sent_to("eve/motor"), reply(repository(full_name="ada/motor")), closed)
    with pytest.raises(IssueNotFound):
        await tracker.issue(5)


async def test_a_label_that_was_put_on_and_deleted_since_is_passed_over() -> None:
    def entry(number: int, kind: str, body: str, label: Any) -> dict[str, Any]:
        shape = comment(number, body)
        return {**shape, "type": kind, "label": label}

    ready = {"id": 1, "name": "ready"}
    tracker, script = scripted(
        reply(
            [
                entry(1, "label", "1", ready),
                entry(2, "label", "", ready),
                entry(3, "label", "1", None),
                entry(4, "comment", "1", None),
            ],
            headers={"x-total-count": "4"},
        ),
        httpx2.Response(200, content=b"null"),
    )
    assert [one.label for one in await tracker.labellings(5)] == ["ready"]
    assert len(script.asked) == 2  # that total is of the page, not of the list


# labels


@dataclass
class Repository(httpx2.AsyncBaseTransport):
    """Labels of a repository, of its organisation and of one issue."""

    labels: dict[int, str] = field(default_factory=dict)
    of_organisation: dict[int, str] | None = None
    carried: set[int] = field(default_factory=set)
    made_meanwhile: dict[int, str] = field(default_factory=dict)
    answers_posts: bool = True
    asked: list[str] = field(default_factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        path = request.url.path
        self.asked.append(f"{request.method} {path.removeprefix(ROOT)}")
        content = json.loads(request.content or b"null")
        if path == "/api/v1/orgs/ada/labels":
            found = self.of_organisation
            return reply(None, 404) if found is None else self._shown(found)
        if path == f"{ROOT}/labels":
            return self._shown(self.labels) if content is None else self._make(content)
        if path.startswith(f"{ROOT}/labels/"):
            self.labels.pop(int(path.rpartition("/")[2]))
            return reply(None, 204)
        return self._of_issue(request.method, path, content)

    def _make(self, content: dict[str, str]) -> httpx2.Response:
        self.labels |= self.made_meanwhile
        number = max([0, *self.labels]) + 1
        self.labels[number] = content["name"]
        made = {"id": number, "name": content["name"]}
        return reply(made, 201) if self.answers_posts else reply(None, 502)

    def _of_issue(self, method: str, path: str, content: Any) -> httpx2.Response:
        known = {**(self.of_organisation or {}), **self.labels}
        if method == "DELETE":
            self.carried.discard(int(path.rpartition("/")[2]))
            return reply(None, 204)
        if method == "POST":
            self.carried |= {number for number in content["labels"] if number in known}
        return self._shown({number: known[number] for number in self.carried})

    @staticmethod
    def _shown(labels: dict[int, str]) -> httpx2.Response:
        found = [{"id": number, "name": name} for number, name in labels.items()]
        return reply(found, headers={"x-total-count": str(len(found))})


async def test_labels_are_added_by_number_and_looked_up_once() -> None:
    server = Repository({4: "Ready", 9: "bug"})
    tracker = connect(server)
    await tracker.add_labels(5, ["ready"])
    await tracker.add_labels(5, ["bug", "ready"])
    assert server.carried == {4, 9}
    assert server.asked.count("GET /labels") == 1


async def test_a_label_that_the_repository_lacks_is_made() -> None:
    server = Repository({4: "ready"})
    await connect(server).add_labels(5, ["agent:done", "ready"])
    assert server.labels == {4: "ready", 5: "agent:done"}
    assert server.carried == {4, 5}


async def test_a_label_of_the_organisation_is_not_made_again() -> None:
    server = Repository(of_organisation={77: "ready"})
    await connect(server).add_labels(5, ["ready"])
    assert (server.labels, server.carried) == ({}, {77})


async def test_of_two_labels_made_at_once_the_oldest_stays() -> None:
    server = Repository(made_meanwhile={1: "ready"})
    await connect(server).add_labels(5, ["ready"])
    assert (server.labels, server.carried) == ({1: "ready"}, {1})


async def test_a_label_whose_making_was_not_answered_is_not_made_twice() -> None:
    server = Repository(answers_posts=False)
    await connect(server).add_labels(5, ["ready"])
    assert (server.labels, server.carried) == ({1: "ready"}, {1})


async def test_a_label_that_was_deleted_and_made_anew_is_found_again() -> None:
    server = Repository({4: "ready"})
    tracker = connect(server)
    await tracker.add_labels(5, ["ready"])
    server.labels, server.carried = {8: "ready"}, set()
    await tracker.add_labels(5, ["ready"])
    assert server.carried == {8}


async def test_a_label_that_is_not_shown_afterwards_is_an_error() -> None:
    class Deaf(Repository):
        def _of_issue(self, method: str, path: str, content: Any) -> httpx2.Response:
            return reply([])

    with pytest.raises(GiteaAPIError, match="does not show"):
        await connect(Deaf({4: "ready"})).add_labels(5, ["ready"])


async def test_all_labels_of_a_name_are_taken_off() -> None:
    server = Repository({4: "ready", 8: "Ready", 9: "bug"}, carried={4, 8, 9})
    tracker = connect(server)
    await tracker.remove_label(5, "READY")
    await tracker.remove_label(5, "ready")
    assert server.carried == {9}


async def test_a_label_deleted_while_it_is_taken_off_is_off() -> None:
    carried = reply([{"id": 4, "name": "ready"}])
    tracker, _ = scripted(carried, reply({"message": "label does not exist"}, 422))
    await tracker.remove_label(5, "ready")
    gone = reply(None, 404)
    tracker, _ = scripted(carried, gone, gone, reply(repository()))
    with pytest.raises(IssueNotFound):
        await tracker.remove_label(5, "ready")
