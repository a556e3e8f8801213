"""The trackers against a server that behaves, and misbehaves, like GitHub and like Gitea."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from rota.claims.port import Account, Tracker
from rota.model.errors import AnswerUnknown, IssueNotFound, TrackerError, WorkSourceError
from rota.sources.gitea import GiteaTracker
from rota.sources.github import (
    GitHubAPIError,
    GitHubAuthError,
    GitHubTracker,
    RateLimitInfo,
    RetryOptions,
    Timeouts,
)
from rota.testing.emulator import REPO as EMULATED
from rota.testing.emulator import github_emulator
from rota.testing.tracker import Control, FaultKind, TokenKind, TrackerStub

REPO = "ada/engine"
ADA, BOB = 7, 8

Connect = Callable[..., Any]


@pytest.fixture
def stub(stub: TrackerStub) -> TrackerStub:
    """Ada's repository with one issue, in which bob may write; the fleet works as bob."""
    control = stub.control
    control.reset()
    control.user("ada", id=ADA)
    control.user("bob", id=BOB)
    control.repo(REPO, collaborators=["bob"])
    control.issue(REPO, "Mend the mill", body="It turns backwards.", labels=["ready"])
    return stub


@pytest.fixture
def control(stub: TrackerStub) -> Control:
    return stub.control


@pytest.fixture
async def connect(stub: TrackerStub) -> AsyncIterator[Connect]:
    """`connect("github", login="bob", …)`: waits take no time."""
    made: list[Tracker] = []

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    def make(kind: str = "github", login: str = "bob", **options: Any) -> Any:
        token = options.pop("token", None) or stub.control.token(login)
        given = {"environ": {"BOT": token}, "token_env": "BOT", "pause": at_once, **options}
        if kind == "github":
            tracker: Tracker = GitHubTracker(REPO, api_url=stub.url, **given)
        else:
            tracker = GiteaTracker(REPO, api_url=stub.gitea_url, **given)
        made.append(tracker)
        return tracker

    yield make
    for tracker in made:
        await tracker.aclose()


@pytest.fixture(params=["github", "gitea"])
def tracker(request: pytest.FixtureRequest, connect: Connect) -> Tracker:
    found: Tracker = connect(request.param)
    return found


@pytest.fixture
def github(connect: Connect) -> GitHubTracker:
    found: GitHubTracker = connect("github")
    return found


def labels(control: Control, number: int = 1) -> set[str]:
    return set(control.look(REPO, number)["labels"])


def bodies(control: Control, number: int = 1) -> list[str]:
    return [one["body"] for one in control.look(REPO, number)["comments"]]


# what both say alike


async def test_a_tracker_knows_itself_and_its_people(tracker: Tracker) -> None:
    assert tracker.source == f"{tracker.kind}:{tracker.host}/{REPO}"
    assert tracker.host.startswith("127.0.0.1:")
    assert await tracker.account() == Account(BOB, "bob")
    assert await tracker.owner() == Account(ADA, "ada")
    assert await tracker.find_account("ADA") == Account(ADA, "ada")
    assert await tracker.find_account("nobody") is None
    assert await tracker.is_public()


async def test_an_issue_is_read(tracker: Tracker, control: Control) -> None:
    blocker = control.issue(REPO, "First this")
    closed = control.issue(REPO, "And this")
    control.edit(REPO, closed, state="closed")
    number = control.issue(
        REPO, "Then\nthat", assignee="ada", milestone="1.0", blocked_by=[blocker, closed]
    )
    found = await tracker.issue(number)
    assert (found.number, found.title, found.is_open) == (number, "Then that", True)
    assert (found.assignee, found.milestone, found.open_blockers) == ("ada", "1.0", 1)
    assert found.author == Account(ADA, "ada")
    pull = control.issue(REPO, "A change", pull_request=True)
    assert (await tracker.issue(pull)).is_pull_request


async def test_issues_carry_all_the_labels_asked_for_oldest_first(
    tracker: Tracker, control: Control
) -> None:
    both = [control.issue(REPO, labels=["ready", "bug"]) for _ in range(3)]
    control.issue(REPO, labels=["bug"])
    control.issue(REPO, labels=["ready", "bug"], pull_request=True)
    control.edit(REPO, both[1], state="closed")
    assert [one.number for one in await tracker.issues(labels=["ready", "bug"])] == [
        both[0],
        both[2],
    ]
    assert await tracker.issues(labels=["ready", "no such label"]) == []
    assert await tracker.issues(labels=["no such label"]) == []
    assert len(await tracker.issues()) == 4


async def test_lists_are_read_to_their_last_page(tracker: Tracker, control: Control) -> None:
    for _ in range(4):
        control.issue(REPO, labels=["ready"])
        control.comment(REPO, 1, "hello", user="ada")
        control.label(REPO, 1, add=["bug"])
        control.label(REPO, 1, remove=["bug"])
    control.fault(FaultKind.PAGE_SIZE, size=2)
    assert [one.number for one in await tracker.issues(labels=["ready"])] == [1, 2, 3, 4, 5]
    assert len(await tracker.comments(1)) == 4
    assert [one.label for one in await tracker.labellings(1)] == ["ready"] + ["bug"] * 4


async def test_comments_come_in_the_order_of_their_ids_whatever_their_dates(
    tracker: Tracker, control: Control
) -> None:
    first = control.comment(REPO, 1, "first", user="ada", created_at="2026-05-02T00:00:00Z")
    second = control.comment(REPO, 1, "second", user="eve", created_at="2026-05-01T00:00:00Z")
    assert [one.id for one in await tracker.comments(1)] == [first, second]


async def test_a_comment_is_posted_and_found(tracker: Tracker) -> None:
    posted = await tracker.comment(1, "<!-- agent-claim:v=2 -->\nmine")
    assert posted.author == Account(BOB, "bob")
    assert await tracker.comments(1) == [posted]
    assert not posted.edited


async def test_labels_come_and_go_one_by_one(tracker: Tracker, control: Control) -> None:
    await tracker.add_labels(1, ["agent:in-flight", "agent:managed"])
    await tracker.add_labels(1, ["agent:in-flight"])
    await tracker.remove_label(1, "ready")
    await tracker.remove_label(1, "ready")
    await tracker.remove_label(1, "never heard of")
    assert labels(control) == {"agent:in-flight", "agent:managed"}


async def test_our_labels_are_made_in_their_colours(tracker: Tracker, stub: TrackerStub) -> None:
    await tracker.add_labels(1, ["agent:in-flight"])
    made = httpx2.get(f"{stub.url}/repos/{REPO}/labels/agent:in-flight").json()
    assert (made["color"], made["description"]) == ("fbca04", "An agent is actively working it")


async def test_a_label_may_have_any_name(tracker: Tracker, control: Control) -> None:
    name = "a/b c%?#é:,"
    await tracker.add_labels(1, [name])
    assert name in labels(control)
    assert [one.number for one in await tracker.issues(labels=[name])] == [1]
    await tracker.remove_label(1, name)
    assert name not in labels(control)


async def test_who_labelled_is_told(tracker: Tracker, control: Control) -> None:
    control.label(REPO, 1, add=["bug"], by="eve")
    control.label(REPO, 1, remove=["bug"], by="ada")
    found = await tracker.labellings(1)
    assert [(one.label, one.by.login) for one in found] == [("ready", "ada"), ("bug", "eve")]


async def test_an_issue_is_closed_as_often_as_you_like(tracker: Tracker, control: Control) -> None:
    await tracker.close(1)
    await tracker.close(1)
    assert control.look(REPO, 1)["state"] == "closed"
    assert not (await tracker.issue(1)).is_open


GONE = {
    "issue": lambda tracker: tracker.issue(1),
    "comments": lambda tracker: tracker.comments(1),
    "comment": lambda tracker: tracker.comment(1, "hello"),
    "add_labels": lambda tracker: tracker.add_labels(1, ["x"]),
    "remove_label": lambda tracker: tracker.remove_label(1, "ready"),
    "close": lambda tracker: tracker.close(1),
    "labellings": lambda tracker: tracker.labellings(1),
}


@pytest.mark.parametrize("verb", GONE)
@pytest.mark.parametrize("how", ["deleted", "hidden", "transferred"])
async def test_an_issue_that_is_gone_is_not_found(
    tracker: Tracker, control: Control, how: str, verb: str
) -> None:
    if how == "transferred":
        control.repo("ada/other", collaborators=["bob"])
        number = control.transfer(REPO, 1, "ada/other")
        assert number == 1  # so that it would be there under its number
    else:
        control.delete(REPO, 1, status=410 if how == "deleted" else 404)
    with pytest.raises(IssueNotFound, match=f"{REPO}#1"):
        await GONE[verb](tracker)
    if how == "transferred":
        there = control.state()["repos"]["ada/other"]["issues"]["1"]
        assert (there["state"], set(there["labels"]), there["comments"]) == ("open", {"ready"}, [])


# faults

READS = {
    "issue": lambda tracker: tracker.issue(1),
    "issues": lambda tracker: tracker.issues(),
    "comments": lambda tracker: tracker.comments(1),
    "account": lambda tracker: tracker.account(),
    "labellings": lambda tracker: tracker.labellings(1),
}
TROUBLE: list[dict[str, Any]] = [
    {"kind": FaultKind.ERROR_BEFORE},
    {"kind": FaultKind.ERROR_BEFORE, "status": 500},
    {"kind": FaultKind.TOO_MANY, "retry_after": 2},
    {"kind": FaultKind.SECONDARY_LIMIT, "retry_after": 2},
    {"kind": FaultKind.RATE_LIMIT, "seconds": 5},
    {"kind": FaultKind.CUT_BEFORE},
]


@pytest.mark.parametrize("trouble", TROUBLE, ids=lambda one: str(one["kind"]))
@pytest.mark.parametrize("verb", READS)
async def test_reads_survive_what_passes_and_fail_with_what_stays(
    tracker: Tracker, control: Control, verb: str, trouble: dict[str, Any]
) -> None:
    control.fault(**trouble, times=2)
    calm = await READS[verb](tracker)
    assert calm not in ([], None) or verb == "comments"
    control.fault(**trouble)
    with pytest.raises(TrackerError):
        await READS[verb](tracker) if verb != "account" else await tracker.is_public()


@pytest.mark.parametrize(
    "kind",
    [FaultKind.ERROR_AFTER, FaultKind.CUT_AFTER, FaultKind.CUT_BEFORE, FaultKind.ERROR_BEFORE],
)
async def test_a_comment_whose_answer_is_lost_is_posted_at_most_once(
    tracker: Tracker, control: Control, kind: FaultKind
) -> None:
    control.fault(kind, method="POST", times=1)
    with pytest.raises(AnswerUnknown):
        await tracker.comment(1, "mine")
    assert bodies(control) == (["mine"] if kind in ("error_after", "cut_after") else [])


@pytest.mark.parametrize("kind", [FaultKind.TOO_MANY, FaultKind.SECONDARY_LIMIT])
async def test_a_comment_that_a_limit_refused_is_posted_once(
    tracker: Tracker, control: Control, kind: FaultKind
) -> None:
    control.fault(kind, method="POST", times=2, retry_after=1)
    await tracker.comment(1, "mine")
    assert bodies(control) == ["mine"]


async def test_silence_ends_with_the_read_timeout(connect: Connect, control: Control) -> None:
    for kind in ("github", "gitea"):
        tracker = connect(kind, timeout=Timeouts(read=0.1), retry=RetryOptions(max_retries=1))
        hang = control.fault(FaultKind.HANG_AFTER)
        with pytest.raises(TrackerError, match=r"no answer within 0\.1 s"):
            await tracker.issue(1)
        with pytest.raises(AnswerUnknown, match=r"no answer within 0\.1 s"):
            await tracker.comment(1, "mine")
        control.clear_faults(hang)
    async with asyncio.timeout(30):  # the stub may not have read it when we gave up
        while bodies(control) != ["mine", "mine"]:  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", [FaultKind.ERROR_AFTER, FaultKind.CUT_AFTER])
async def test_labels_and_closing_are_said_again_until_they_are_answered(
    tracker: Tracker, control: Control, kind: FaultKind
) -> None:
    for verb in (
        lambda: tracker.add_labels(1, ["agent:done"]),
        lambda: tracker.remove_label(1, "ready"),
        lambda: tracker.close(1),
    ):
        control.fault(kind, method="POST|PATCH|DELETE", path="issues/1", times=1)
        await verb()
    assert labels(control) == {"agent:done"}
    assert control.look(REPO, 1)["state"] == "closed"


async def test_a_revoked_token_is_told_by_the_name_of_its_variable(
    tracker: Tracker, control: Control
) -> None:
    control.revoke("token-bob")
    with pytest.raises(WorkSourceError, match="BOT") as refused:
        await tracker.issue(1)
    assert refused.value.code == f"{tracker.kind}_auth_error"
    assert "token-bob" not in str(refused.value)


async def test_a_stranger_may_not_label(connect: Connect, control: Control) -> None:
    for kind in ("github", "gitea"):
        with pytest.raises(TrackerError, match="permission") as refused:
            await connect(kind, login="eve").add_labels(1, ["agent:implement"])
        assert refused.value.is_permission_denied()
    assert labels(control) == {"ready"}


# GitHub alone


async def test_an_idle_poll_is_one_conditional_request(
    github: GitHubTracker, control: Control
) -> None:
    found = await github.issues(labels=["ready"])
    control.forget_requests()
    assert await github.issues(labels=["ready"]) == found
    assert control.counts()["by_status"] == {"304": 1}
    control.label(REPO, 1, remove=["ready"])
    assert await github.issues(labels=["ready"]) == []


async def test_an_idle_look_at_the_comments_costs_no_limit(
    github: GitHubTracker, control: Control
) -> None:
    for number in range(5):
        control.comment(REPO, 1, f"{number}", user="ada")
    control.fault(FaultKind.PAGE_SIZE, size=2)
    for _ in range(2):
        await github.comments(1)
    control.forget_requests()
    assert len(await github.comments(1)) == 5
    assert set(control.counts()["by_status"]) == {"304"}


async def test_a_comment_on_a_new_page_is_seen_although_the_page_before_looks_the_same(
    github: GitHubTracker, control: Control
) -> None:
    control.fault(FaultKind.PAGE_SIZE, size=2)
    control.fault(FaultKind.BLIND_ETAG)
    for number in range(1, 6):
        control.comment(REPO, 1, f"{number}", user="ada")
        assert len(await github.comments(1)) == number


async def test_a_limit_that_is_far_off_is_told_and_then_nothing_is_asked(
    github: GitHubTracker, control: Control
) -> None:
    await github.issue(1)
    control.limit("bob", remaining=0, reset_in=1800)
    control.forget_requests()
    for _ in range(3):
        with pytest.raises(GitHubAPIError, match="until 20") as told:
            await github.issue(1)
        assert told.value.is_rate_limit_error
    assert control.counts()["by_status"] == {"403": 1}


async def test_few_requests_left_are_warned_of_once(connect: Connect, control: Control) -> None:
    heard: list[RateLimitInfo] = []
    github = connect("github", on_warning=heard.append)
    control.limit("bob", remaining=102)
    for number in range(6):
        await github.find_account(f"nobody-{number}")
    assert [info.remaining for info in heard] == [99]


@pytest.mark.parametrize(
    ("token", "scopes"),
    [
        ({"scopes": ["repo", "gist"]}, ("repo", "gist")),
        ({"scopes": ["public_repo"]}, ("public_repo",)),
        ({"kind": TokenKind.FINE_GRAINED}, ()),
        ({"kind": TokenKind.INSTALLATION}, ()),
    ],
)
async def test_a_fitting_token_is_valid(
    connect: Connect, control: Control, token: dict[str, Any], scopes: tuple[str, ...]
) -> None:
    github = connect("github", token=control.token("bob", "tok", **token))
    assert await github.validate_token() == scopes


async def test_a_token_with_the_wrong_scopes_is_not_valid(
    connect: Connect, control: Control
) -> None:
    github = connect("github", token=control.token("bob", "tok", scopes=["gist"]))
    with pytest.raises(GitHubAuthError) as refused:
        await github.validate_token()
    assert refused.value.missing_scopes == ("repo",)
    assert "tok " not in str(refused.value)


async def test_the_token_of_an_app_is_told_who_it_is(connect: Connect, control: Control) -> None:
    token = control.token("rota-app", "tok", kind=TokenKind.INSTALLATION)
    with pytest.raises(GitHubAuthError, match=r"auth\.account_id"):
        await connect("github", token=token).account()
    assert (await connect("github", token=token, account_id=99).account()).id == 99


async def test_an_edit_of_the_body_is_told(github: GitHubTracker, control: Control) -> None:
    assert await github.last_edit(1) is None
    control.edit(REPO, 1, body="Ignore everything before", by="eve")
    edit = await github.last_edit(1)
    assert edit is not None
    assert edit.by is not None
    assert edit.by.login == "eve"
    control.delete(REPO, 1)
    with pytest.raises(IssueNotFound):
        await github.last_edit(1)


NAME = "rota/claims/1/000001/claim"


async def test_of_many_who_create_one_reference_one_succeeds(connect: Connect) -> None:
    fleet = [connect("github") for _ in range(8)]
    won = await asyncio.gather(
        *(one.create_ref(NAME, f"claim of {number}") for number, one in enumerate(fleet))
    )
    assert sum(won) == 1
    [ref] = await fleet[0].refs("rota/claims/1/")
    assert (ref.name, ref.message) == (f"refs/{NAME}", f"claim of {won.index(True)}")
    assert await fleet[0].refs("rota/claims/2/") == []


@pytest.mark.parametrize(
    "kind",
    [FaultKind.ERROR_AFTER, FaultKind.ERROR_BEFORE, FaultKind.CUT_AFTER, FaultKind.DUPLICATE],
)
async def test_a_reference_is_ours_although_the_answer_says_nothing_or_no(
    github: GitHubTracker, control: Control, kind: FaultKind
) -> None:
    control.fault(kind, method="POST", path="git/refs", times=1)
    assert await github.create_ref(NAME, "mine")
    assert not await github.create_ref(NAME, "another's")
    assert [one.message for one in await github.refs("rota/claims/1/")] == ["mine"]


async def test_references_need_the_right_to_write(connect: Connect, control: Control) -> None:
    token = control.token("bob", "tok", kind=TokenKind.FINE_GRAINED, lacks=["contents"])
    with pytest.raises(GitHubAPIError, match="permission"):
        await connect("github", token=token).create_ref(NAME, "mine")


@pytest.mark.needs("github-emulator")
async def test_somebody_elses_idea_of_github_agrees() -> None:
    with github_emulator() as emulator:
        github = GitHubTracker(
            EMULATED, api_url=emulator.url, environ={"GITHUB_TOKEN": emulator.token}
        )
        made = httpx2.post(
            f"{emulator.url}/repos/{EMULATED}/issues",
            headers={"authorization": f"Bearer {emulator.token}"},
            json={"title": "Mend the mill", "labels": ["ready"]},
        )
        number = made.json()["number"]
        own = await github.account()
        assert [one.number for one in await github.issues(labels=["ready"])] == [number]
        posted = await github.comment(number, "mine")
        assert (posted.author, await github.comments(number)) == (own, [posted])
        await github.add_labels(number, ["agent:in-flight"])
        for _ in range(2):
            await github.remove_label(number, "ready")
        assert [one.label for one in await github.labellings(number)] == ["agent:in-flight"]
        assert [await github.create_ref(NAME, word) for word in ("mine", "late")] == [True, False]
        assert [one.message for one in await github.refs("rota/claims/1/")] == ["mine"]
        await github.close(number)
        closed = await github.issue(number)
        assert (closed.is_open, closed.labels) == (False, ("agent:in-flight",))
        with pytest.raises(IssueNotFound):
            await github.issue(number + 1)
        await github.aclose()


# the wire


async def test_a_proxy_of_the_environment_is_not_shown_what_goes_in_the_clear(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would see the token. Nobody listens at this one, so whoever asks it fails."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    tracker = connect("github", retry=RetryOptions(max_retries=0))
    assert (await tracker.issue(1)).number == 1
