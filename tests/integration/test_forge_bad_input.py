"""Whatever is wrong, a source on a tracker says what to do and leaves nothing half-claimed."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import (
    ClaimLost,
    InvalidInput,
    MalformedReference,
    TrackerError,
    UnknownWorkSourceError,
    WorkSourceError,
)
from rota.model.status import Status
from rota.prompts import LONGEST_TEXT, build_prompt
from rota.queue import Ledger
from rota.sources.github import GitHubAuthError, GitHubTracker
from rota.sources.http.errors import ApiError, TokenError
from rota.sources.items import LONGEST_BODY
from rota.sources.port import ClaimFailureReason, WorkResult, WorkSource
from rota.sources.registry import WorkSourceRegistry
from rota.testing.tracker import Control, FaultKind, TokenKind, TrackerStub
from tests.integration.forges import REPO, Forges, build, forges

CERTIFICATE = Path(__file__).parents[1] / "data" / "self-signed.pem"
DONE = WorkResult("success", "It turns again.")
KINDS = pytest.mark.parametrize("kind", ["github", "gitea"])
MODES = pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("github", "comments"),
        ("github", "strict"),
        ("github", "labels"),
        ("gitea", "comments"),
        ("gitea", "labels"),
    ],
)

# Every verb of a source, on the one issue.
VERBS: dict[str, Callable[[WorkSource], Awaitable[Any]]] = {
    "fetch": lambda source: source.fetch_available_work(),
    "claim": lambda source: source.claim_work(f"{source.type}-1"),
    "get": lambda source: source.get_work(f"{source.type}-1"),
    "complete": lambda source: source.complete_work(f"{source.type}-1", DONE),
    "release": lambda source: source.release_work(f"{source.type}-1"),
}


@pytest.fixture
async def scene(stub: TrackerStub, ledger: Ledger, tmp_path: Path) -> AsyncIterator[Forges]:
    build(stub.control)
    stub.control.issue(REPO, "Mend the mill", labels=["ready", "bug"])
    async with forges(stub, ledger, tmp_path) as made:
        yield made


@pytest.fixture
def control(scene: Forges) -> Control:
    return scene.control


@asynccontextmanager
async def untouched(scene: Forges, kind: str = "github") -> AsyncIterator[None]:
    """Neither tracker nor ledger is changed in here, but for a heartbeat."""
    before = await _picture(scene, kind)
    yield
    assert await _picture(scene, kind) == before


async def _picture(scene: Forges, kind: str) -> tuple[Any, ...]:
    item = await scene.item(kind=kind)
    known = None if item is None else (item.id, item.status, item.epoch, item.attempts)
    return scene.control.state()["repos"], known


async def not_claimed(scene: Forges, kind: str = "github") -> None:
    """The issue can be taken at once, and nobody's attempt was counted."""
    assert scene.labels() - {"agent:managed"} == {"ready", "bug"}
    item = await scene.item(kind=kind)
    if item is not None:
        assert (item.status, item.attempts) == (Status.QUEUED, 0)
    source = await scene.ledger_of().outside.open_claims(item.source or "") if item else []
    assert source == []


# what is configured


@KINDS
@pytest.mark.parametrize("repo", ["engine", "ada/engine/issues", "https://github.com/ada/engine"])
async def test_a_repository_must_be_owner_and_name(scene: Forges, kind: str, repo: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        scene.source(kind=kind, repo=repo)
    assert refused.value.message == (
        f"work_source.repo: {repo!r} is not a repository; write owner/repo, for example"
        " octocat/hello"
    )
    assert scene.control.requests() == []


async def test_a_type_that_nobody_offers_is_named_with_those_that_are(scene: Forges) -> None:
    with pytest.raises(UnknownWorkSourceError, match="did you mean 'github'") as refused:
        WorkSourceRegistry().create({"type": "githb", "repo": REPO}, scene.context("ada"))
    assert {"github", "gitea", "forgejo", "queue"} <= set(refused.value.details["registered"])


async def test_all_mistakes_of_a_source_are_told_at_once(scene: Forges) -> None:
    with pytest.raises(InvalidInput) as refused:
        scene.source(repo="engine", claim_mode="hope", lables={})
    assert len(refused.value.message.splitlines()) == 3


# tokens


@KINDS
async def test_without_a_token_every_verb_says_where_to_put_one(scene: Forges, kind: str) -> None:
    async with untouched(scene, kind):
        for verb in VERBS.values():
            for environ in ({}, {"TOKEN": ""}, {"TOKEN": "two words"}):
                with pytest.raises(TokenError) as refused:
                    await verb(scene.source(kind=kind, environ=environ))
                assert "the environment variable TOKEN" in refused.value.message
    assert scene.control.requests() == []


@KINDS
async def test_a_token_that_has_expired_is_named_by_every_verb(scene: Forges, kind: str) -> None:
    scene.control.revoke("token-bot")
    async with untouched(scene, kind):
        for verb in VERBS.values():
            with pytest.raises(TokenError) as refused:
                await verb(scene.source(kind=kind))
            said = refused.value.message
            assert "does not accept the token in TOKEN" in said
            assert "it is mistyped, expired or revoked; put a new one there" in said
            assert "token-bot" not in said


@MODES
async def test_a_token_that_expires_during_the_work_costs_nothing_of_it(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    environ = {"TOKEN": "token-bot"}
    source = scene.source(kind=kind, claim_mode=mode, environ=environ)
    assert (await source.claim_work(f"{kind}-1")).success
    control.revoke("token-bot")
    async with untouched(scene, kind):
        with pytest.raises(TokenError):
            await source.complete_work(f"{kind}-1", DONE)
        with pytest.raises(TokenError):
            await source.release_work(f"{kind}-1")
    environ["TOKEN"] = control.token("bot", "token-new")
    await source.complete_work(f"{kind}-1", DONE)
    item = await scene.item(kind=kind)
    assert item is not None
    assert (item.status, scene.state()) == (Status.COMPLETED, "closed")


@pytest.mark.parametrize("verb", ["fetch", "claim"])
@pytest.mark.parametrize("private", [True, False], ids=["private", "public"])
async def test_scopes_that_a_token_lacks_are_named(
    scene: Forges, control: Control, verb: str, private: bool
) -> None:
    """GitHub only says that there is nothing; of a public repository, when one writes."""
    build(control, private=private)
    control.issue(REPO, "Mend the mill", labels=["ready", "bug"])
    control.token("bot", scopes=["read:org", "gist"])
    source = scene.source(trust_required=False)
    if verb == "fetch" and not private:
        assert len((await source.fetch_available_work()).items) == 1
        return
    with pytest.raises(GitHubAuthError) as refused:
        await VERBS[verb](source)
    assert scene.comments() == []
    await not_claimed(scene)
    assert refused.value.found_scopes == ("read:org", "gist")
    assert refused.value.required_scopes == ("repo",)
    assert refused.value.missing_scopes == ("repo",)
    assert "has the scopes read:org, gist and lacks `repo`" in refused.value.message


async def test_a_token_tells_what_it_lacks_when_it_is_asked(
    scene: Forges, control: Control
) -> None:
    control.token("bot", scopes=[])
    source = scene.source(claim_mode="labels")
    tracker = (await source.desk()).tracker
    assert isinstance(tracker, GitHubTracker)
    with pytest.raises(GitHubAuthError) as refused:
        await tracker.validate_token()
    assert (refused.value.found_scopes, refused.value.missing_scopes) == ((), ("repo",))


@pytest.mark.parametrize("kind", [TokenKind.FINE_GRAINED, TokenKind.INSTALLATION])
async def test_tokens_without_scopes_work_by_their_permissions(
    scene: Forges, control: Control, kind: TokenKind
) -> None:
    control.token("bot", kind=kind, repos=[REPO])
    app = {"auth": {"token_env": "TOKEN", "account_id": 8}}
    source = scene.source(**(app if kind is TokenKind.INSTALLATION else {}))
    assert (await source.claim_work("github-1")).success
    await source.complete_work("github-1", DONE)
    assert scene.state() == "closed"


async def test_an_app_that_does_not_say_who_it_is_is_told_how(
    scene: Forges, control: Control
) -> None:
    control.token("bot", kind=TokenKind.INSTALLATION, repos=[REPO])
    async with untouched(scene):
        with pytest.raises(GitHubAuthError, match=r"set `auth\.account_id`"):
            await scene.source().claim_work("github-1")


@pytest.mark.parametrize("mode", ["comments", "strict", "labels"])
async def test_a_token_that_may_only_read_claims_nothing(
    scene: Forges, control: Control, mode: str
) -> None:
    control.token("bot", kind=TokenKind.FINE_GRAINED, lacks=["issues", "contents"])
    source = scene.source(claim_mode=mode)
    refused = await source.claim_work("github-1")
    assert refused.reason is ClaimFailureReason.PERMISSION_DENIED
    assert "the token in TOKEN lacks the permission" in (refused.message or "")
    assert scene.comments() == []
    await not_claimed(scene)


# labels that cannot be set


@MODES
async def test_a_label_that_may_not_be_set_ends_the_claim(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    """Who may only comment, and strictly also create references, cannot show the claim."""
    build(control, private=False)
    control.issue(REPO, "Mend the mill", labels=["ready", "bug"])
    environ = {"TOKEN": control.token("eve")}
    source = scene.source(kind=kind, claim_mode=mode, environ=environ, trust_required=False)
    refused = await source.claim_work(f"{kind}-1")
    assert refused.reason in (
        ClaimFailureReason.PERMISSION_DENIED,
        ClaimFailureReason.SOURCE_ERROR,
    )
    assert "403" in (refused.message or "")
    await not_claimed(scene, kind)
    desk = await source.desk()
    assert (await desk.claims.standing(1)).holder is None
    assert (await scene.source(kind=kind, trust_required=False).claim_work(f"{kind}-1")).success


@MODES
async def test_a_claim_whose_labels_fail_halfway_is_taken_back(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    """The working label is on, and the ready label cannot be taken off."""
    source = scene.impatient(kind=kind, claim_mode=mode)
    await source.desk()
    control.fault(FaultKind.ERROR_BEFORE, method="DELETE", path="/issues/1/labels", times=4)
    refused = await source.claim_work(f"{kind}-1")
    assert refused.reason is ClaimFailureReason.SOURCE_ERROR
    await not_claimed(scene, kind)
    assert (await source.claim_work(f"{kind}-1")).success


# places that are not there


@KINDS
@pytest.mark.parametrize("verb", ["fetch", "claim"])
async def test_a_repository_that_is_not_there_is_named(scene: Forges, kind: str, verb: str) -> None:
    source = scene.source(kind=kind, repo="ada/nothing")
    with pytest.raises(ApiError) as refused:
        await VERBS[verb](source)
    assert refused.value.is_not_found()
    assert "/repos/ada/nothing" in refused.value.message
    assert "does not exist, or the token in TOKEN may not see it" in refused.value.message


@MODES
@pytest.mark.parametrize("status", [404, 410])
async def test_an_issue_that_was_deleted_is_not_found(
    scene: Forges, control: Control, kind: str, mode: str, status: int
) -> None:
    source = scene.source(kind=kind, claim_mode=mode)
    control.delete(REPO, 1, status=status)
    refused = await source.claim_work(f"{kind}-1")
    assert refused.reason is ClaimFailureReason.NOT_FOUND
    assert f"{REPO}#1 is not there" in (refused.message or "")
    assert await source.get_work(f"{kind}-1") is None
    assert await scene.item(kind=kind) is None


@MODES
@pytest.mark.parametrize("verb", ["complete", "release"])
async def test_an_issue_that_is_deleted_during_the_work_sets_the_agent_free(
    scene: Forges, control: Control, kind: str, mode: str, verb: str
) -> None:
    other = control.issue(REPO, "Oil it", labels=["ready"])
    source = scene.source(kind=kind, claim_mode=mode)
    assert (await source.claim_work(f"{kind}-1")).success
    control.delete(REPO, 1)
    if verb == "complete":
        with pytest.raises(ClaimLost):
            await source.complete_work(f"{kind}-1", DONE)
    else:
        assert "does not hold" in ((await source.release_work(f"{kind}-1")).message or "")
    item = await scene.item(kind=kind)
    assert item is not None
    assert item.status is Status.QUEUED
    assert await scene.ledger_of().outside.open_claims(item.source or "") == []
    assert (await source.claim_work(f"{kind}-{other}")).success


async def test_an_issue_that_moved_to_another_repository_is_not_followed(
    scene: Forges, control: Control
) -> None:
    control.repo("ada/loom", collaborators=["bot"])
    control.transfer(REPO, 1, "ada/loom")
    before = control.look("ada/loom", 1)
    refused = await scene.source().claim_work("github-1")
    assert refused.reason is ClaimFailureReason.NOT_FOUND
    assert control.look("ada/loom", 1) == before


# ids


NO_IDS = [
    *("1", "github", "other-1", "", "{kind}-", "{kind}-0", "{kind}-01", "{kind}-1 ", "{kind}-1.0"),
    *("{kind}--1", "{kind}-1\n", "{kind}-१", "{kind}-1/../2", "{kind}-" + "9" * 19),
]


@KINDS
async def test_an_id_that_is_none_is_refused_without_a_request(scene: Forges, kind: str) -> None:
    source = scene.source(kind=kind)
    for item_id in (one.replace("{kind}", kind) for one in NO_IDS):
        for verb in (
            source.claim_work(item_id),
            source.get_work(item_id),
            source.complete_work(item_id, DONE),
            source.release_work(item_id),
        ):
            with pytest.raises(MalformedReference, match=f"write {kind}-42 for issue 42"):
                await verb
    assert scene.control.requests() == []


@MODES
async def test_a_pull_request_is_refused_by_every_verb(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    number = control.issue(REPO, "A change", labels=["ready"], pull_request=True)
    source = scene.source(kind=kind, claim_mode=mode)
    async with untouched(scene, kind):
        refused = await source.claim_work(f"{kind}-{number}")
        assert refused.reason is ClaimFailureReason.INVALID_STATE
        assert "is a pull request; only issues are work" in (refused.message or "")
        assert await source.get_work(f"{kind}-{number}") is None
        with pytest.raises(ClaimLost):
            await source.complete_work(f"{kind}-{number}", DONE)
        let_go = await source.release_work(f"{kind}-{number}")
        assert let_go.message == f"'ada' does not hold #{number}"
    assert await scene.item(number, kind) is None


# hosts


@KINDS
async def test_a_host_that_cannot_be_reached_is_named(scene: Forges, kind: str) -> None:
    source = scene.impatient(kind=kind, api_url="http://127.0.0.1:1")
    async with untouched(scene, kind):
        for verb in VERBS.values():
            with pytest.raises(TrackerError) as refused:
                await verb(source)
            assert "127.0.0.1:1 cannot be asked" in refused.value.message
            assert "check `api_url`, the network, and the proxy" in refused.value.message


@KINDS
async def test_a_name_that_nobody_has_is_told_so(scene: Forges, kind: str) -> None:
    source = scene.impatient(kind=kind, api_url="http://tracker.invalid")
    with pytest.raises(TrackerError, match=r"tracker\.invalid cannot be asked: \w"):
        await source.fetch_available_work()


@pytest.fixture
async def impostor() -> AsyncIterator[str]:
    """Speaks HTTPS, with a certificate that nobody vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@KINDS
@pytest.mark.parametrize("verb", ["fetch", "claim"])
async def test_a_certificate_that_is_not_accepted_is_told_and_not_tried_again(
    scene: Forges, impostor: str, kind: str, verb: str
) -> None:
    source = scene.source(kind=kind, api_url=impostor)
    async with untouched(scene, kind):
        with pytest.raises(TrackerError) as refused:
            await VERBS[verb](source)
    assert "its certificate is not accepted" in refused.value.message
    assert "set SSL_CERT_FILE" in refused.value.message


async def test_something_else_that_answers_is_no_tracker(scene: Forges) -> None:
    source = scene.impatient(kind="gitea", api_url=f"{scene.stub.url}/_control")
    with pytest.raises(WorkSourceError):
        await source.fetch_available_work()


# texts


@KINDS
async def test_a_body_of_a_megabyte_is_worked_like_any_other(
    scene: Forges, control: Control, kind: str
) -> None:
    body = "word " * 200_000
    number = control.issue(REPO, "Read all of this", body=body, labels=["ready"])
    source = scene.source(kind=kind)
    result = await source.claim_work(f"{kind}-{number}")
    assert result.work_item is not None
    assert result.work_item.description == body
    item = await scene.item(number, kind)
    assert item is not None
    assert item.body == body[:LONGEST_BODY]
    assert len(build_prompt("Do it.", result.work_item, trusted=False)) < LONGEST_TEXT + 1_000
    await source.complete_work(f"{kind}-{number}", DONE)
    assert scene.state(number) == "closed"


HOSTILE = "\x1b]0;mine\x07Mend\r\nthe\u2028mill\x9b2J \u202e\u200b\U000e0041"


@MODES
async def test_a_title_with_control_characters_is_one_plain_line(
    scene: Forges, control: Control, kind: str, mode: str
) -> None:
    number = control.issue(REPO, HOSTILE, body="a\x00b\x1b[31m", labels=["ready"])
    source = scene.source(kind=kind, claim_mode=mode)
    result = await source.claim_work(f"{kind}-{number}")
    assert result.work_item is not None
    item = await scene.item(number, kind)
    assert item is not None
    for title in (result.work_item.title, item.description):
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in title)
        assert "Mend the mill" in title
    prompt = build_prompt("Do it.", result.work_item, trusted=False)
    assert not set("\x00\x1b\x07\x9b\u202e\u200b\u2028\U000e0041") & set(prompt)
    await source.complete_work(f"{kind}-{number}", DONE)
    assert scene.state(number) == "closed"


async def test_labels_that_the_ledger_could_not_hold_are_shortened(
    scene: Forges, control: Control
) -> None:
    labels = [f"label {n}" for n in range(99)]
    number = control.issue(REPO, "Much loved", labels=["ready", "x" * 150, *labels])
    assert (await scene.source().claim_work(f"github-{number}")).success
    item = await scene.item(number)
    assert item is not None
    assert max(len(label) for label in item.labels) == 100
    assert len(item.labels) == 50


async def test_an_issue_without_title_or_author_can_be_worked(
    scene: Forges, control: Control
) -> None:
    number = control.issue(REPO, "\x07", body="", labels=["ready"])
    assert (await scene.source().claim_work(f"github-{number}")).success
    item = await scene.item(number)
    assert item is not None
    assert item.description == f"#{number}"
