"""What is read from GitHub's answers: issues, comments, events, edits, rights, references."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from rota.claims.port import Account, Labelling, Ref, TextEdit
from rota.model.errors import AnswerUnknown, InvalidInput, IssueNotFound, TrackerError
from rota.sources.github import GitHubAPIError, GitHubAuthError, GitHubTracker, RetryOptions
from rota.sources.http.records import comment_of, issue_of, moment_of
from tests.unit.scripted import (
    API,
    TOKEN,
    Reply,
    Script,
    account,
    comment,
    issue,
    reply,
    repository,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def no_pause(seconds: float) -> None:
    return


def connect(*replies: Reply, **options: Any) -> tuple[GitHubTracker, Script]:
    script = Script(*replies)
    tracker = GitHubTracker(
        "ada/engine",
        api_url=API,
        transport=script,
        environ={"GITHUB_TOKEN": TOKEN},
        retry=RetryOptions(max_retries=0),
        pause=no_pause,
        **options,
    )
    return tracker, script


# issues and comments


def test_an_issue_is_read_whole() -> None:
    found = issue_of(
        issue(
            assignee=account(8, "bob"),
            milestone={"title": "1.0"},
            issue_dependencies_summary={"blocked_by": 2, "total_blocked_by": 5},
        )
    )
    assert (found.number, found.title, found.labels) == (5, "Mend the mill", ("ready",))
    assert (found.author, found.assignee, found.milestone) == (Account(7, "ada"), "bob", "1.0")
    assert (found.is_open, found.is_pull_request, found.open_blockers) == (True, False, 2)
    assert found.created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)


def test_what_an_issue_does_not_have_is_not_missed() -> None:
    bare = issue(body=None, user=None, assignee=None, milestone=None, labels=[])
    found = issue_of(bare)
    assert (found.body, found.labels, found.open_blockers) == ("", (), 0)
    assert found.author == Account(0, "ghost")
    assert issue_of(issue(issue_dependencies_summary=None)).open_blockers == 0


@pytest.mark.parametrize("merged", [None, "false", 0, 1, []])
async def test_whether_a_pull_request_was_merged_is_not_guessed(merged: Any) -> None:
    tracker, _ = connect(reply({"number": 5, "state": "closed", "merged": merged}))
    with pytest.raises(GitHubAPIError, match="not of the shape"):
        await tracker.pull_request(5)


def test_a_time_without_a_zone_is_utc_wherever_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment_of("2026-05-01T12:00:00") == NOON
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_pull_request_is_told_apart() -> None:
    assert issue_of(issue(pull_request={"url": "x"})).is_pull_request
    assert not issue_of(issue(pull_request=None)).is_pull_request


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("plain", "plain"),
        ("two\nlines\r\nand\ta tab", "two lines and a tab"),
        ("bell\x07, escape\x1b[31m, C1\x9b", "bell, escape[31m, C1"),
        ("zero\u200bwidth", "zero\u200bwidth"),
        ("nul\x00", "nul\ufffd"),
        ("half\ud800", "half?"),
        (None, ""),
    ],
)
def test_a_title_is_one_line_without_control_characters(written: str | None, read: str) -> None:
    assert issue_of(issue(title=written)).title == read


def test_a_body_stays_as_it_was_written() -> None:
    long = "line\r\n\tindented\u200b" * 60_000
    assert issue_of(issue(body=long)).body == long
    assert comment_of(comment(1, "half\udfff")).body == "half?"
    assert comment_of(comment(1, None)).body == ""


def test_an_edited_comment_is_known_by_its_times() -> None:
    assert not comment_of(comment(1)).edited
    assert comment_of(comment(1, updated_at="2026-05-01T10:00:01Z")).edited
    offset = comment_of(comment(1, created_at="2026-05-01T12:00:00+02:00"))
    assert offset.created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)


async def test_issues_are_open_carry_all_labels_and_come_oldest_first() -> None:
    def named(*names: str) -> list[dict[str, Any]]:
        return [{"name": name} for name in names]

    tracker, script = connect(
        reply(
            [
                issue(9, labels=named("Ready", "bug")),
                issue(3, labels=named("bug", "ready"), created_at="2026-05-01T10:00:01Z"),
                issue(4, labels=named("ready")),
                issue(5, labels=named("ready", "bug"), pull_request={}),
                issue(6, labels=named("ready", "bug"), state="closed"),
                issue(9, labels=named("ready", "bug")),
            ]
        )
    )
    assert [
        one.number
        for one in await tracker.issues(
            labels=[
                "ready",
                "BUG",
            ]
        )
    ] == [9, 3]
    query = dict(script.asked[0].url.params)
    assert query == {
        "state": "open",
        "sort": "created",
        "direction": "asc",
        "labels": "ready,BUG",
        "per_page": "100",
    }


async def test_a_label_with_a_comma_is_looked_for_in_the_answer() -> None:
    labelled = issue(1, labels=[{"name": "a,b"}])
    tracker, script = connect(reply([labelled, issue(2)]))
    assert [one.number for one in await tracker.issues(labels=["a,b"])] == [1]
    assert "labels" not in script.asked[0].url.params


# labels


async def test_our_labels_get_their_colours_once() -> None:
    tracker, script = connect(reply(None, 201), reply([]))
    for _ in range(2):
        await tracker.add_labels(5, ["agent:in-flight", "somebody's"])
    assert script.paths == [
        "POST /repos/ada/engine/labels",
        "POST /repos/ada/engine/issues/5/labels",
        "POST /repos/ada/engine/issues/5/labels",
    ]
    assert b"fbca04" in script.asked[0].content


@pytest.mark.parametrize("status", [403, 404, 422])
async def test_a_label_that_cannot_be_coloured_is_added_all_the_same(status: int) -> None:
    tracker, script = connect(reply({"message": "no"}, status), reply([]))
    await tracker.add_labels(5, ["agent:done"])
    assert len(script.asked) == 2


async def test_adding_no_label_asks_nothing() -> None:
    tracker, script = connect(reply([]))
    await tracker.add_labels(5, [])
    assert script.asked == []


async def test_a_label_is_quoted_where_it_stands_in_a_path() -> None:
    tracker, script = connect(reply([]))
    await tracker.remove_label(5, "a/b c%?#é:")
    path = script.asked[0].url.raw_path.decode()
    assert path == "/repos/ada/engine/issues/5/labels/a%2Fb%20c%25%3F%23%C3%A9%3A"


async def test_a_login_is_quoted_where_it_stands_in_a_path() -> None:
    tracker, script = connect(reply(None, 404))
    assert await tracker.find_account("../repos/ada/engine?x#y") is None
    assert script.paths == ["GET /users/..%2Frepos%2Fada%2Fengine%3Fx%23y"]


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_no_name_is_not_all_names(name: str) -> None:
    tracker, script = connect(reply([]))
    with pytest.raises(InvalidInput):
        await tracker.remove_label(5, name)
    assert await tracker.find_account(name) is None
    assert script.asked == []


async def test_a_label_that_is_not_there_is_fine_but_an_issue_that_is_not_there_is_not() -> None:
    gone = reply({"message": "Not Found"}, 404)
    tracker, _ = connect(gone, reply(issue()))
    await tracker.remove_label(5, "ready")
    tracker, _ = connect(gone, gone, gone, reply(repository()))
    with pytest.raises(IssueNotFound):
        await tracker.remove_label(5, "ready")
    tracker, _ = connect(reply({"message": "Must have triage rights"}, 403), reply(issue()))
    with pytest.raises(GitHubAPIError, match="403"):
        await tracker.remove_label(5, "ready")


GONE = reply({"message": "Not Found"}, 404)
DELETED = reply({"message": "This issue was deleted"}, 410)
ASKS: dict[str, tuple[Callable[[GitHubTracker], Awaitable[Any]], str]] = {
    "issue": (lambda tracker: tracker.issue(5), "issues/5"),
    "comments": (lambda tracker: tracker.comments(5), "issues/5"),
    "comment": (lambda tracker: tracker.comment(5, "mine"), "issues/5"),
    "add_labels": (lambda tracker: tracker.add_labels(5, ["blue"]), "issues/5"),
    "close": (lambda tracker: tracker.close(5), "issues/5"),
    "labellings": (lambda tracker: tracker.labellings(5), "issues/5"),
    "pull_request": (lambda tracker: tracker.pull_request(5), "pulls/5"),
}


@pytest.mark.parametrize("verb", ASKS)
async def test_one_not_found_is_not_believed(verb: str) -> None:
    """A replica that lags says it of what is there."""
    ask, again = ASKS[verb]
    tracker, script = connect(GONE, reply(issue()))
    with pytest.raises(GitHubAPIError, match="404"):
        await ask(tracker)
    assert script.paths[1:] == [f"GET /repos/ada/engine/{again}"]


@pytest.mark.parametrize("verb", ASKS)
async def test_what_is_not_found_twice_where_the_repository_is_seen_is_gone(verb: str) -> None:
    ask, again = ASKS[verb]
    tracker, script = connect(GONE, GONE, reply(repository()))
    with pytest.raises(IssueNotFound, match="is not there"):
        await ask(tracker)
    assert script.paths[1:] == [f"GET /repos/ada/engine/{again}", "GET /repos/ada/engine"]


@pytest.mark.parametrize("verb", ASKS)
async def test_who_does_not_see_the_repository_cannot_tell_what_is_gone(verb: str) -> None:
    """A token that was taken away from it is told "not found" of everything."""
    ask, _ = ASKS[verb]
    tracker, _ = connect(GONE)
    with pytest.raises(GitHubAPIError, match="GITHUB_TOKEN does not see ada/engine now"):
        await ask(tracker)


async def test_a_second_look_that_fails_decides_nothing() -> None:
    for replies in ([GONE, reply(None, 500)], [GONE, GONE, reply(None, 502)]):
        tracker, _ = connect(*replies)
        with pytest.raises(GitHubAPIError, match="50"):
            await tracker.comments(5)


async def test_a_deleted_issue_is_gone_when_it_says_so_itself() -> None:
    for first in (DELETED, GONE):
        tracker, script = connect(first, DELETED)
        with pytest.raises(IssueNotFound):
            await tracker.comments(5)
        assert len(script.asked) == 2
    tracker, _ = connect(DELETED, reply(issue()))
    with pytest.raises(GitHubAPIError, match="410"):
        await tracker.comments(5)


async def test_who_put_labels_on_is_told_oldest_first() -> None:
    def event(number: int, name: str, **fields: Any) -> dict[str, Any]:
        at = f"2026-05-01T12:00:0{number}Z"
        label = {"name": "ready"}
        return {"id": number, "event": name, "created_at": at, "label": label, **fields}

    tracker, _ = connect(
        reply(
            [
                event(2, "labeled", actor=None),
                event(1, "labeled", actor=account()),
                event(3, "unlabeled", actor=account()),
                {"id": 4, "event": "closed", "created_at": "2026-05-01T12:00:04Z"},
            ]
        )
    )
    assert await tracker.labellings(5) == [
        Labelling("ready", Account(7, "ada"), NOON.replace(second=1)),
        Labelling("ready", Account(0, "ghost"), NOON.replace(second=2)),
    ]


# edits


def edits(body_at: str | None, title_at: str | None = None) -> httpx2.Response:
    renamed = {"createdAt": title_at, "actor": {"login": "eve", "databaseId": 9}}
    shown = {
        "lastEditedAt": body_at,
        "editor": body_at and {"login": "ada", "databaseId": 7},
        "timelineItems": {"nodes": [renamed] if title_at else []},
    }
    return reply({"data": {"repository": {"issue": shown}}})


@pytest.mark.parametrize(
    ("answer", "edit"),
    [
        (edits(None), None),
        (edits("2026-05-01T12:00:00Z"), TextEdit(NOON, Account(7, "ada"))),
        (edits(None, "2026-05-01T12:00:00Z"), TextEdit(NOON, Account(9, "eve"))),
        (
            edits("2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z"),
            TextEdit(NOON, Account(9, "eve")),
        ),
        (
            edits("2026-05-01T12:00:00Z", "2026-05-01T11:00:00Z"),
            TextEdit(NOON, Account(7, "ada")),
        ),
    ],
)
async def test_the_last_edit_is_of_title_or_body(
    answer: httpx2.Response, edit: TextEdit | None
) -> None:
    tracker, _ = connect(answer)
    assert await tracker.last_edit(5) == edit


def edited_by(*editors: tuple[str, int], total: int | None = None) -> httpx2.Response:
    """One after the other, the last at noon."""
    nodes = [
        {"editedAt": f"2026-05-01T{hour:02}:00:00Z", "editor": {"login": login, "databaseId": one}}
        for hour, (login, one) in enumerate(editors, start=13 - len(editors))
    ]
    shown = {
        "lastEditedAt": nodes[-1]["editedAt"],
        "editor": nodes[-1]["editor"],
        "userContentEdits": {"totalCount": total or len(nodes), "nodes": nodes[::-1]},
    }
    return reply({"data": {"repository": {"issue": shown}}})


async def test_a_strangers_edit_is_found_behind_that_of_somebody_trusted() -> None:
    tracker, _ = connect(edited_by(("eve", 9), ("ada", 7)))
    found = await tracker.last_edit(5, but=[7])
    assert found == TextEdit(NOON - timedelta(hours=1), Account(9, "eve"))


async def test_edits_of_trusted_people_alone_are_no_strange_ones() -> None:
    tracker, _ = connect(edited_by(("ada", 7), ("ada", 7)))
    assert await tracker.last_edit(5, but=[7]) is None


async def test_more_edits_than_are_told_may_be_anybodys() -> None:
    tracker, _ = connect(edited_by(("ada", 7), total=101))
    assert await tracker.last_edit(5, but=[7]) == TextEdit(NOON, None)


async def test_an_editor_who_has_left_is_not_known() -> None:
    shown = {"lastEditedAt": "2026-05-01T12:00:00Z", "editor": None}
    tracker, _ = connect(reply({"data": {"repository": {"issue": shown}}}))
    assert await tracker.last_edit(5) == TextEdit(NOON, None)


@pytest.mark.parametrize("status", [404, 405])
async def test_a_tracker_without_graphql_does_not_say(status: int) -> None:
    tracker, _ = connect(reply(None, status), reply(None, status))
    assert await tracker.last_edit(5) is None


async def test_graphql_that_is_not_found_for_a_moment_is_asked_again() -> None:
    tracker, _ = connect(reply(None, 404), edited_by(("eve", 9)))
    assert await tracker.last_edit(5) == TextEdit(NOON, Account(9, "eve"))


async def test_graphql_that_has_answered_before_is_not_taken_for_none() -> None:
    tracker, _ = connect(edited_by(("eve", 9)), reply(None, 404))
    await tracker.last_edit(5)
    with pytest.raises(GitHubAPIError):
        await tracker.last_edit(5)


def refused_by_graphql(kind: str) -> httpx2.Response:
    no = {"type": kind, "message": "because"}
    return reply({"data": {"repository": None}, "errors": [no]})


@pytest.mark.parametrize("kind", ["NOT_FOUND", "FORBIDDEN", "RATE_LIMITED"])
async def test_graphql_says_no_with_200(kind: str) -> None:
    tracker, _ = connect(refused_by_graphql(kind), reply(issue()))
    with pytest.raises(GitHubAPIError, match="because") as failed:
        await tracker.last_edit(5)
    assert failed.value.is_rate_limit_error is (kind == "RATE_LIMITED")


async def test_what_graphql_says_is_one_line_without_our_token() -> None:
    echo = {"type": "FORBIDDEN", "message": f"Bearer {TOKEN}\r\n\x1b[31mis bad"}
    tracker, _ = connect(reply({"data": None, "errors": [echo]}), reply(issue()))
    with pytest.raises(GitHubAPIError, match=r"\[hidden\]") as failed:
        await tracker.last_edit(5)
    assert TOKEN not in str(failed.value)
    assert str(failed.value).isprintable()


@pytest.mark.parametrize("errors", [5, "no", ["no"], [5], {"type": "x"}, [{"type": []}]])
async def test_refusals_of_another_shape_are_an_error_and_not_agreed_to(errors: Any) -> None:
    tracker, _ = connect(reply({"data": {"repository": None}, "errors": errors}), reply(issue()))
    with pytest.raises(GitHubAPIError, match="not of the shape"):
        await tracker.last_edit(5)


async def test_what_graphql_does_not_find_is_gone_when_it_is_found_nowhere() -> None:
    tracker, _ = connect(refused_by_graphql("NOT_FOUND"), GONE, reply(repository()))
    with pytest.raises(IssueNotFound):
        await tracker.last_edit(5)


# accounts and rights


@pytest.mark.parametrize("status", [404, 500, 502])
async def test_only_who_may_not_ask_is_told_by_the_configuration_whose_token_it_is(
    status: int,
) -> None:
    tracker, _ = connect(reply(None, status), account_id=41)
    with pytest.raises(GitHubAPIError, match=str(status)):
        await tracker.account()


async def test_an_issue_of_another_repository_that_cannot_be_read_now_is_not_gone() -> None:
    tracker, _ = connect(reply(None, 502))
    with pytest.raises(GitHubAPIError, match="502"):
        await tracker.is_open("eve/mill", 3)
    tracker, _ = connect(reply(None, 404))
    with pytest.raises(IssueNotFound, match="eve/mill#3"):
        await tracker.is_open("eve/mill", 3)


async def test_the_account_is_asked_for_once() -> None:
    tracker, script = connect(reply(account()))
    assert [await tracker.account() for _ in range(2)] == [Account(7, "ada")] * 2
    assert len(script.asked) == 1


async def test_an_app_does_not_know_who_it_is_unless_it_is_told() -> None:
    refused = reply({"message": "Resource not accessible by integration"}, 403)
    tracker, _ = connect(refused)
    with pytest.raises(GitHubAuthError, match=r"auth\.account_id"):
        await tracker.account()
    tracker, script = connect(refused, reply(account(41, "rota[bot]")), account_id=41)
    assert await tracker.account() == Account(41, "rota[bot]")
    assert script.paths[-1] == "GET /user/41"
    tracker, _ = connect(refused, reply(None, 404), account_id=41)
    assert (await tracker.account()).id == 41


async def test_an_organisation_is_nobody() -> None:
    tracker, _ = connect(reply(repository(owner={**account(), "type": "Organization"})))
    assert await tracker.owner() is None
    tracker, _ = connect(reply(repository()))
    assert await tracker.owner() == Account(7, "ada")


def scoped(scopes: str, **fields: Any) -> httpx2.Response:
    return reply(repository(**fields), headers={"x-oauth-scopes": scopes})


@pytest.mark.parametrize(
    ("answer", "scopes"),
    [
        (scoped("repo", private=True), ("repo",)),
        (scoped("gist, repo"), ("gist", "repo")),
        (scoped("public_repo"), ("public_repo",)),
        (reply(repository()), ()),
        (reply(repository(permissions={"pull": True, "push": True})), ()),
        (reply(repository(permissions={"pull": True, "triage": True})), ()),
        (reply(repository(permissions={"pull": False, "push": False})), ()),  # of an app
    ],
)
async def test_a_token_that_may_write_is_valid(
    answer: httpx2.Response, scopes: tuple[str, ...]
) -> None:
    tracker, _ = connect(answer)
    assert await tracker.validate_token() == scopes


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (scoped(""), ()),
        (scoped("gist, read:org"), ("gist", "read:org")),
        (scoped("public_repo", private=True), ("public_repo",)),
    ],
)
async def test_a_token_without_the_scope_says_what_it_has_and_needs(
    answer: httpx2.Response, found: tuple[str, ...]
) -> None:
    tracker, _ = connect(answer)
    with pytest.raises(GitHubAuthError, match="GITHUB_TOKEN") as refused:
        await tracker.validate_token()
    assert refused.value.found_scopes == found
    assert refused.value.required_scopes == refused.value.missing_scopes == ("repo",)


async def test_a_token_that_may_only_read_is_not_valid() -> None:
    tracker, _ = connect(reply(repository(permissions={"pull": True, "push": False})))
    with pytest.raises(GitHubAuthError, match="not write"):
        await tracker.validate_token()


async def test_a_repository_that_the_token_does_not_see_is_explained() -> None:
    hidden = reply({"message": "Not Found"}, 404)
    tracker, _ = connect(hidden, reply(account(), headers={"x-oauth-scopes": "gist"}))
    with pytest.raises(GitHubAuthError) as refused:
        await tracker.validate_token()
    assert refused.value.missing_scopes == ("repo",)
    tracker, _ = connect(hidden, reply(account()))
    with pytest.raises(GitHubAuthError, match="check `repo`"):
        await tracker.validate_token()


async def test_rights_are_not_read_from_an_answer_that_leaves_headers_out() -> None:
    tagged = reply(repository(), headers={"etag": '"1"', "x-oauth-scopes": "repo"})
    tracker, script = connect(tagged)
    await tracker.is_public()
    await tracker.validate_token()
    assert "if-none-match" not in script.asked[1].headers


# references

NAME = "rota/claims/5/000001/claim"
HEAD = [
    reply(repository()),
    reply({"ref": "refs/heads/main", "object": {"sha": "head"}}),
    reply({"sha": "head", "tree": {"sha": "tree"}, "message": "", "committer": {}}),
]


def pointer(name: str, sha: str) -> dict[str, Any]:
    return {"ref": f"refs/{name}", "object": {"sha": sha}}


EXISTS = reply({"message": "Reference already exists"}, 422)


async def test_a_reference_is_created_on_a_commit_of_its_own() -> None:
    tracker, script = connect(
        *HEAD, reply({"sha": "own"}, 201), reply(pointer(NAME, "own"), 201), reply([])
    )  # fmt: skip
    assert await tracker.create_ref(NAME, "mine")
    made = script.asked[3]
    assert made.url.path.endswith("/git/commits")
    assert b'"parents": []' in made.content
    assert b'"tree": "tree"' in made.content


@pytest.mark.parametrize(
    ("answer", "standing", "won"),
    [
        (EXISTS, "own", True),  # created by a request whose answer was lost
        (EXISTS, "another", False),
        (httpx2.ReadTimeout(""), "own", True),
        (httpx2.ReadTimeout(""), "another", False),
        (reply(None, 502), "own", True),
    ],
)
async def test_who_created_a_reference_is_found_out_by_looking(
    answer: Reply, standing: str, won: bool
) -> None:
    tracker, _ = connect(
        *HEAD, reply({"sha": "own"}, 201), answer, reply([pointer(NAME, standing)])
    )
    assert await tracker.create_ref(NAME, "mine") is won


async def test_a_reference_that_is_not_seen_is_tried_again() -> None:
    tracker, script = connect(
        *HEAD, reply({"sha": "own"}, 201), httpx2.ReadTimeout(""), reply([]),
        EXISTS, reply([]), EXISTS, reply([pointer(NAME, "own")]),
    )  # fmt: skip
    assert await tracker.create_ref(NAME, "mine")
    assert [one.url.path.endswith("/git/refs") for one in script.asked].count(True) == 3


async def test_a_reference_nobody_can_tell_of_stays_unknown() -> None:
    lost, nothing = httpx2.ReadTimeout(""), reply([])
    tracker, _ = connect(*HEAD, reply({"sha": "own"}, 201), *[lost, nothing] * 4)
    with pytest.raises(AnswerUnknown):
        await tracker.create_ref(NAME, "mine")


async def test_a_reference_that_is_refused_for_another_reason_is_an_error() -> None:
    no = reply({"message": "Object does not exist"}, 422)
    tracker, _ = connect(*HEAD, reply({"sha": "own"}, 201), no, reply([]))
    with pytest.raises(GitHubAPIError, match="Object does not exist"):
        await tracker.create_ref(NAME, "mine")


@pytest.mark.parametrize(
    "replies",
    [
        [HEAD[0], reply({"message": "Git Repository is empty."}, 409)],
        [HEAD[0], reply({"message": "Not Found"}, 404)],
    ],
)
async def test_a_repository_without_a_commit_says_what_to_do(replies: list[Reply]) -> None:
    tracker, _ = connect(*replies)
    with pytest.raises(TrackerError, match="push a first commit"):
        await tracker.create_ref(NAME, "mine")


async def test_references_are_those_below_the_prefix_with_their_messages() -> None:
    def commit(message: str) -> httpx2.Response:
        return reply({"message": message, "committer": {"date": "2026-05-01T12:00:00Z"}})

    tracker, script = connect(
        reply([pointer(NAME, "b"), pointer(f"{NAME[:-5]}a", "a"), pointer("rota/claims/50/x", "")]),
        commit("first"),
        commit("second"),
        reply([pointer(NAME, "b")]),
    )  # fmt: skip
    assert await tracker.refs("rota/claims/5/") == [
        Ref("refs/rota/claims/5/000001/a", "first", NOON),
        Ref(f"refs/{NAME}", "second", NOON),
    ]
    await tracker.refs("rota/claims/5/")
    assert len(script.asked) == 4  # commits do not change, and are read once
