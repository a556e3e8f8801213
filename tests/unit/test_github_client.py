"""Asking GitHub: what is repeated, what is waited for, what is never said twice."""

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from rota.model.errors import (
    AnswerUnknown,
    InvalidInput,
    IssueNotFound,
    MalformedReference,
    TrackerError,
    WorkSourceError,
)
from rota.sources.github import (
    GitHubAPIError,
    GitHubAuthError,
    GitHubTracker,
    RateLimitInfo,
    RetryOptions,
    Timeouts,
)
from rota.sources.http.answers import Answer
from rota.sources.http.cache import AnswerCache
from rota.testing.clock import ManualClock
from tests.unit.scripted import (
    API,
    TOKEN,
    Pauses,
    Reply,
    Script,
    account,
    comment,
    issue,
    pages,
    reply,
    repository,
)

Connect = Callable[..., GitHubTracker]


class Given:
    """A tracker, and everything that was injected into it."""

    def __init__(self, *replies: Reply, **options: Any) -> None:
        self.clock = ManualClock()
        self.pauses = Pauses(self.clock)
        self.script = Script(*replies)
        self.tracker = GitHubTracker(
            "ada/engine",
            **{
                "api_url": API,
                "transport": self.script,
                "pause": self.pauses,
                "rng": random.Random(1),
                "clock": self.clock,
                "environ": {"GITHUB_TOKEN": TOKEN},
                **options,
            },
        )


async def said_by(given: Given) -> str:
    with pytest.raises(TrackerError) as failed:
        await given.tracker.issue(5)
    return str(failed.value)


def limit(remaining: int, reset_in: float = 0, clock: ManualClock | None = None) -> dict[str, str]:
    now = (clock or ManualClock()).now()
    return {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int(now.timestamp() + reset_in)),
    }


SECONDARY = {"message": "You have exceeded a secondary rate limit."}
OUTAGES: list[Reply] = [
    reply({"message": "Server Error"}, 502),
    reply(None, 500),
    reply(None, 408),
    httpx2.ReadTimeout(""),
    httpx2.ReadError("broken"),
    httpx2.RemoteProtocolError("Server disconnected without sending a response."),
    httpx2.WriteError("broken pipe"),
]
NOT_SENT: list[Reply] = [
    httpx2.ConnectError("refused"),
    httpx2.ConnectTimeout(""),
    httpx2.PoolTimeout(""),
    httpx2.ProxyError("403 Forbidden"),
]
LIMITS: list[Reply] = [
    reply(None, 429),
    reply({"message": "slow"}, 429, {"retry-after": "3"}),
    reply({"message": "used up"}, 403, limit(0, 5)),
    reply(SECONDARY, 403, {"retry-after": "1"}),
]


# repeating


@pytest.mark.parametrize("trouble", [*OUTAGES, *NOT_SENT, *LIMITS])
async def test_a_read_is_repeated_until_it_is_answered(trouble: Reply) -> None:
    given = Given(trouble, trouble, trouble, reply(issue()))
    assert (await given.tracker.issue(5)).number == 5
    assert len(given.script.asked) == 4
    assert len(given.pauses.slept) == 3


@pytest.mark.parametrize("trouble", OUTAGES)
async def test_after_the_last_retry_the_failure_is_told(trouble: Reply) -> None:
    given = Given(trouble)
    with pytest.raises(GitHubAPIError) as failed:
        await given.tracker.issue(5)
    assert failed.value.is_retryable()
    assert failed.value.endpoint == "GET /repos/ada/engine/issues/5"
    assert len(given.script.asked) == 4


async def test_waits_double_and_stay_below_the_longest() -> None:
    given = Given(reply(None, 502), retry=RetryOptions(5, 1.0, 6.0, 0.0))
    await said_by(given)
    assert given.pauses.slept == [1, 2, 4, 6, 6]


@pytest.mark.parametrize("status", [400, 403, 404, 405, 409, 410, 422, 451])
async def test_a_refusal_is_not_repeated(status: int) -> None:
    given = Given(reply({"message": "No"}, status))
    with pytest.raises(TrackerError, match="No"):
        await given.tracker.is_public()
    assert len(given.script.asked) == 1


@pytest.mark.parametrize("trouble", [*OUTAGES, *NOT_SENT, *LIMITS])
async def test_writes_that_can_be_said_twice_are_repeated(trouble: Reply) -> None:
    for method, fine in (
        (lambda tracker: tracker.add_labels(5, ["ready"]), reply([])),
        (lambda tracker: tracker.remove_label(5, "ready"), reply([])),
        (lambda tracker: tracker.close(5), reply(issue(state="closed"))),
    ):
        given = Given(trouble, fine)
        await method(given.tracker)
        assert len(given.script.asked) == 2


# comments are posted once


@pytest.mark.parametrize("trouble", OUTAGES)
async def test_a_comment_without_an_answer_is_unknown_and_not_repeated(trouble: Reply) -> None:
    given = Given(trouble, reply(comment(1), 201))
    with pytest.raises(AnswerUnknown, match="look before"):
        await given.tracker.comment(5, "mine")
    assert len(given.script.asked) == 1


@pytest.mark.parametrize("trouble", [*NOT_SENT, *LIMITS])
async def test_a_comment_that_was_certainly_refused_is_posted_again(trouble: Reply) -> None:
    given = Given(trouble, trouble, reply(comment(1), 201))
    assert (await given.tracker.comment(5, "mine")).id == 1
    assert len(given.script.asked) == 3


async def test_a_comment_to_a_host_that_is_not_there_is_known_not_to_stand() -> None:
    given = Given(httpx2.ConnectError("refused"))
    with pytest.raises(GitHubAPIError, match=r"api\.example\.org"):
        await given.tracker.comment(5, "mine")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"id": null}'])
async def test_a_comment_whose_answer_cannot_be_read_is_unknown(body: bytes) -> None:
    given = Given(httpx2.Response(201, content=body))
    with pytest.raises(AnswerUnknown):
        await given.tracker.comment(5, "mine")
    assert len(given.script.asked) == 1


async def test_an_answer_that_breaks_off_is_unknown() -> None:
    class Torn(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b'{"id": 1,'
            raise httpx2.ReadError("torn")

    given = Given(lambda request: httpx2.Response(201, stream=Torn(), request=request))
    with pytest.raises(AnswerUnknown):
        await given.tracker.comment(5, "mine")


# limits


async def test_the_wait_that_was_asked_for_is_kept_and_a_little_more() -> None:
    given = Given(
        reply(SECONDARY, 403, {"retry-after": "12"}),
        reply({"message": "used up"}, 403, limit(0, 33)),
        reply(issue()),
    )
    await given.tracker.issue(5)
    assert given.pauses.slept == [13, 21]  # the clock went on by 13 meanwhile, and is capped


async def test_a_wait_beyond_the_longest_is_told_and_not_slept() -> None:
    given = Given(reply({"message": "API rate limit exceeded"}, 403, limit(0, 2400)))
    with pytest.raises(GitHubAPIError, match="2026-05-01T12:40:00Z") as failed:
        await given.tracker.issue(5)
    assert failed.value.is_rate_limit_error
    assert failed.value.rate_limit_reset == given.clock.now() + timedelta(minutes=40)
    assert failed.value.rate_limit_info == RateLimitInfo(5000, 0, 1777639200)
    assert given.pauses.slept == []


async def test_until_a_far_reset_nothing_is_asked() -> None:
    given = Given(reply(None, 429, {"retry-after": "3600"}), reply(issue()))
    await said_by(given)
    given.clock.advance(3599)
    assert "2026-05-01T13:00:00Z" in await said_by(given)
    assert len(given.script.asked) == 1
    given.clock.advance(1)
    await given.tracker.issue(5)
    assert len(given.script.asked) == 2


async def test_a_far_reset_of_graphql_leaves_the_rest_alone() -> None:
    given = Given(reply(None, 429, {"retry-after": "3600"}), reply(issue()))
    with pytest.raises(GitHubAPIError):
        await given.tracker.last_edit(5)
    assert (await given.tracker.issue(5)).number == 5


@pytest.mark.parametrize("wait", ["999999999999999", "9" * 5_000])
async def test_a_wait_without_end_is_one_of_a_day(wait: str) -> None:
    given = Given(reply(None, 429, {"retry-after": wait}), reply(issue()))
    assert "until 2026-05-02T12:00:00Z" in await said_by(given)
    given.clock.advance(86_400)
    await given.tracker.issue(5)


async def test_a_secondary_limit_that_names_no_time_lasts_a_minute() -> None:
    given = Given(reply(SECONDARY, 403))
    assert "2026-05-01T12:01:00Z" in await said_by(given)
    patient = Given(reply(SECONDARY, 403), reply(issue()), retry=RetryOptions(max_delay=120))
    await patient.tracker.issue(5)
    assert patient.pauses.slept == [61]


async def test_a_server_that_is_down_for_long_is_not_waited_for() -> None:
    given = Given(reply(None, 503, {"retry-after": "900"}), reply(issue()))
    assert "503" in await said_by(given)
    assert given.pauses.slept == []
    await given.tracker.issue(5)  # and is no limit: the next call may ask


async def test_a_warning_is_given_once_also_by_unchanged_answers() -> None:
    heard: list[RateLimitInfo] = []
    tagged = {"etag": '"1"'}
    given = Given(
        reply(issue(), headers=limit(100) | tagged),
        reply(None, 304, limit(99)),
        reply(None, 304, limit(98)),
        on_warning=heard.append,
    )
    for _ in range(3):
        await given.tracker.issue(5)
    assert [info.remaining for info in heard] == [99]


# times


async def test_a_call_has_an_end_whatever_trickles_in() -> None:
    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"["
            await asyncio.Event().wait()

    def trickle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Endless(), request=request)

    given = Given(trickle, timeout=Timeouts(total=0.02))
    assert "no answer within 0.02 s" in await said_by(given)
    with pytest.raises(AnswerUnknown):
        await Given(trickle, timeout=Timeouts(total=0.02)).tracker.comment(5, "mine")


async def test_a_retry_that_could_not_end_in_time_is_not_begun() -> None:
    given = Given(reply(None, 502), timeout=Timeouts(total=2.5), retry=RetryOptions(9, 1.0, 30, 0))
    await said_by(given)
    assert given.pauses.slept == [1, 2]


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.sources.http.wire.MAX_ANSWER", 100)
    given = Given(httpx2.Response(200, content=b"x" * 101))
    assert "larger than" in await said_by(given)


# who answers


@pytest.mark.parametrize(
    "told",
    [
        {"message": "a\r\n\x1b[31mb\x9bc"},
        {"message": "a", "errors": ["\x1b[31mb", {"message": "\nc"}, {"code": "d"}]},
        {"message": "a" * 5_000},
        *({"message": "a", "errors": wrong} for wrong in (5, True, "b", {"message": "b"}, [[]])),
    ],
)
async def test_what_a_tracker_says_becomes_one_short_line_of_a_message(told: Any) -> None:
    said = await said_by(Given(reply(told, 422)))
    assert "it answered 422 (a" in said
    assert said.isprintable()
    assert len(said) < 500


async def test_a_host_that_cannot_be_reached_is_named_with_what_to_check() -> None:
    said = await said_by(Given(httpx2.ConnectError("Name or service not known")))
    assert "api.example.org" in said
    assert "`api_url`" in said
    assert "proxy" in said


async def test_a_certificate_that_is_not_accepted_is_told_at_once() -> None:
    broken = httpx2.ConnectError("certificate verify failed")
    broken.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    given = Given(broken)
    said = await said_by(given)
    assert "self-signed certificate" in said
    assert "SSL_CERT_FILE" in said
    assert len(given.script.asked) == 1


@pytest.mark.parametrize(
    "body", [b"<html>Sign in to the Wi-Fi</html>", b"", b"null", b"[]", b'"x"', b"[" * 5000]
)
async def test_an_answer_that_is_not_githubs_is_an_error_and_not_empty(body: bytes) -> None:
    for ask in (
        lambda tracker: tracker.issue(5),
        lambda tracker: tracker.is_public(),
        lambda tracker: tracker.account(),
    ):
        with pytest.raises(GitHubAPIError, match="api_url"):
            await ask(Given(httpx2.Response(200, content=body)).tracker)
    if body != b"[]":
        with pytest.raises(GitHubAPIError):
            await Given(httpx2.Response(200, content=body)).tracker.issues()


# redirects


def moved(location: str, status: int = 301) -> httpx2.Response:
    return reply({"message": "Moved Permanently"}, status, {"location": location})


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_renamed_repository_is_followed(status: int) -> None:
    given = Given(
        moved(f"{API}/repositories/1/issues/5", status), reply(repository()), reply(issue())
    )
    assert (await given.tracker.issue(5)).number == 5
    assert given.script.paths[-1] == "GET /repositories/1/issues/5"


async def test_writes_follow_a_renamed_repository_with_their_words() -> None:
    given = Given(
        moved("/repos/ada/motor/issues/5/comments", 307),
        reply(repository(full_name="ada/motor")),
        reply(comment(1), 201),
    )
    await given.tracker.comment(5, "mine")
    last = given.script.asked[-1]
    assert (last.method, last.url.path) == ("POST", "/repos/ada/motor/issues/5/comments")
    assert b"mine" in last.content


async def test_the_repository_itself_may_be_renamed() -> None:
    given = Given(moved(f"{API}/repositories/1"), reply(repository(full_name="ada/motor")))
    assert await given.tracker.is_public()


@pytest.mark.parametrize(
    "target",
    [
        f"{API}/repositories/2/issues/5",  # transferred, and it got the same number there
        f"{API}/repositories/1/issues/6",
        f"{API}/repos/eve/engine/issues/5",
        f"{API}/user",
    ],
)
async def test_a_transferred_issue_is_not_found_and_nothing_is_written_there(target: str) -> None:
    for ask in (
        lambda tracker: tracker.issue(5),
        lambda tracker: tracker.close(5),
    ):
        given = Given(moved(target), reply(repository()))
        with pytest.raises(IssueNotFound):
            await ask(given.tracker)
        assert {one.url.path for one in given.script.asked[1:]} <= {"/repos/ada/engine"}


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example.net/repos/ada/engine/issues/5",
        "http://api.example.org/repos/ada/engine/issues/5",
        "https://api.example.org:8443/repos/ada/engine/issues/5",
        "https://api.example.org.evil.net/x",
        "javascript:alert(1)",
        "https://[bad",
    ],
)
async def test_the_token_goes_to_no_other_host(target: str) -> None:
    given = Given(moved(target))
    assert "another host" in await said_by(given) or target.startswith("javascript")
    assert {one.url.host for one in given.script.asked} == {"api.example.org"}
    assert {one.url.scheme for one in given.script.asked} == {"https"}


async def test_redirects_that_do_not_end_are_ended() -> None:
    here = f"{API}/repos/ada/engine"
    given = Given(moved(here))
    with pytest.raises(GitHubAPIError, match="redirects"):
        await given.tracker.is_public()
    assert len(given.script.asked) == 5


# conditional reads


async def test_an_unchanged_answer_costs_one_conditional_request() -> None:
    tagged = reply([issue(1), issue(2)], headers={"etag": 'W/"abc"'})
    given = Given(tagged, reply(None, 304))
    first = await given.tracker.issues(labels=["ready"])
    assert await given.tracker.issues(labels=["ready"]) == first
    assert len(given.script.asked) == 2
    assert "if-none-match" not in given.script.asked[0].headers
    assert given.script.asked[1].headers["if-none-match"] == 'W/"abc"'


async def test_what_is_remembered_is_never_used_for_anything_but_304() -> None:
    tagged = reply(issue(title="old"), headers={"etag": '"1"'})
    for trouble in (reply(None, 500), httpx2.ConnectError("gone"), reply(None, 404)):
        given = Given(tagged, trouble)
        await given.tracker.issue(5)
        with pytest.raises(WorkSourceError):
            await given.tracker.issue(5)
    given = Given(tagged, reply(issue(title="new")), reply(None, 304))
    assert [(await given.tracker.issue(5)).title for _ in range(2)] == ["old", "new"]
    with pytest.raises(TrackerError):  # 304 to a request without a condition makes no sense
        await given.tracker.issue(5)


def answer(url: str, body: bytes, tag: str = '"1"') -> Answer:
    return Answer(200, url, {"etag": tag}, body)


def test_what_is_remembered_is_bounded() -> None:
    cache = AnswerCache(answers=2, size=10)
    for url, body in (("a", b"1"), ("b", b"1")):
        cache.keep(answer(url, body))
    assert cache.get("a") is not None
    cache.keep(answer("c", b"1"))
    assert cache.get("b") is None  # asked for longest ago
    cache.keep(answer("d", b"123456789"))
    assert (len(cache), cache.get("a")) == (2, None)
    cache.keep(answer("e", b"12345678901"))
    assert cache.get("e") is None
    assert cache.get("d") is not None  # what has no room does not take that of others
    cache.keep(answer("d", b"123456789", '"2"'))
    assert cache.get("d") == answer("d", b"123456789", '"2"')


def test_what_is_remembered_has_so_much_room_and_holds_no_refusals() -> None:
    cache = AnswerCache(answers=9, size=10)
    for url in ("a", "b", "c"):
        cache.keep(answer(url, b"1234"))
    assert (len(cache), cache.get("a")) == (2, None)
    cache.keep(Answer(404, "c", {"etag": '"2"'}, b""))
    cache.keep(Answer(200, "b", {}, b""))
    assert len(cache) == 0


# pages


async def test_comments_come_from_all_pages_each_once_in_the_order_of_their_ids() -> None:
    walk = list(pages([comment(9), comment(3)], [comment(3, "new"), comment(1)]))
    given = Given(*walk, walk[0])
    found = await given.tracker.comments(5)
    assert [(one.id, one.body) for one in found] == [(1, "hello"), (3, "new"), (9, "hello")]


async def test_a_comment_that_slips_to_a_page_read_before_is_not_missed() -> None:
    before = list(pages([comment(1), comment(2)], [comment(4)]))
    after = list(pages([comment(2), comment(3)], [comment(4)]))
    given = Given(*before, after[0], *after, after[0])  # 1 was deleted between the pages
    assert {one.id for one in await given.tracker.comments(5)} >= {2, 3, 4}


async def test_comments_that_never_stand_still_are_an_error_and_not_a_part() -> None:
    numbers = iter(range(1, 10_000))

    def always_another(request: httpx2.Request) -> httpx2.Response:
        first, _ = pages([comment(next(numbers))], [comment(next(numbers))])
        return reply([comment(next(numbers))]) if "?page=2" in str(request.url) else first

    given = Given(always_another)
    with pytest.raises(GitHubAPIError, match="changed at each of several reads"):
        await given.tracker.comments(5)
    assert len(given.script.asked) == 9  # two pages and a second look at the first, three times


async def test_a_new_page_behind_one_that_looks_unchanged_is_found() -> None:
    tagged = {"etag": '"1"'}
    given = Given(
        reply([comment(1)], headers=tagged),
        reply(None, 304),  # the answer is the same, but for the link that it leaves out
        reply([comment(2)]),
        reply(None, 304),
    )
    await given.tracker.comments(5)
    assert [one.id for one in await given.tracker.comments(5)] == [1, 2]
    assert given.script.paths[2].endswith("per_page=100&page=2")


async def test_a_full_page_of_issues_that_looks_unchanged_may_not_be_the_last() -> None:
    full = [issue(number) for number in range(1, 101)]
    given = Given(reply(full, headers={"etag": '"1"'}), reply(None, 304), reply([issue(101)]))
    await given.tracker.issues()
    assert len(await given.tracker.issues()) == 101


async def test_a_list_without_pages_ends() -> None:
    full = [issue(number) for number in range(1, 151)]

    def whatever_the_page(request: httpx2.Request) -> httpx2.Response:
        if "if-none-match" in request.headers:
            return reply(None, 304)
        return reply(full, headers={"etag": '"1"'})

    given = Given(whatever_the_page)
    for _ in range(3):
        assert len(await given.tracker.issues()) == 150
    assert len(given.script.asked) == 5


async def test_more_pages_than_we_read_are_an_error_and_not_a_part() -> None:
    numbers = iter(range(1, 10_000))

    def endless(request: httpx2.Request) -> httpx2.Response:
        link = f'<{API}/list?page={next(numbers)}>; rel="next"'
        return reply([issue(next(numbers))], headers={"link": link})

    given = Given(endless)
    with pytest.raises(GitHubAPIError, match="more than 100 pages"):
        await given.tracker.issues()
    assert len(given.script.asked) == 100


async def test_the_next_page_is_not_fetched_from_another_host() -> None:
    link = {"link": '<https://evil.example.net/list>; rel="next"'}
    given = Given(reply([issue()], headers=link))
    with pytest.raises(GitHubAPIError, match="another host"):
        await given.tracker.issues()
    assert len(given.script.asked) == 1


async def test_a_page_that_fails_fails_the_list() -> None:
    first, _ = pages([comment(1)], [comment(2)])
    given = Given(first, reply(None, 500), retry=RetryOptions(max_retries=0))
    with pytest.raises(GitHubAPIError):
        await given.tracker.comments(5)


# tokens, names and addresses


async def test_without_a_token_the_variable_is_named_and_nothing_is_asked() -> None:
    for environ in ({}, {"BOT": "  "}):
        given = Given(reply(issue()), token_env="BOT", environ=environ)
        with pytest.raises(GitHubAuthError, match="BOT") as refused:
            await given.tracker.issue(5)
        assert given.script.asked == []
        assert tells_the_scopes_it_needs(refused.value)


def tells_the_scopes_it_needs(error: GitHubAuthError) -> bool:
    """Programs ask the error for scopes. Its details name none, because commands and pages would
    blame the rights of a token that is not there."""
    assert error.details == {}
    return (error.found_scopes, error.required_scopes, error.missing_scopes) == (
        (),
        ("repo",),
        ("repo",),
    )


async def test_the_token_is_read_when_it_is_used() -> None:
    environ: dict[str, str] = {}
    given = Given(reply(issue()), environ=environ)
    environ["GITHUB_TOKEN"] = f"{TOKEN}\n"
    await given.tracker.issue(5)
    assert given.script.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_token_that_is_not_accepted_is_told_apart() -> None:
    given = Given(reply({"message": "Bad credentials"}, 401))
    with pytest.raises(GitHubAuthError, match=r"GITHUB_TOKEN.*expired") as refused:
        await given.tracker.issue(5)
    assert len(given.script.asked) == 1
    assert tells_the_scopes_it_needs(refused.value)


@pytest.mark.parametrize("secret", [f"{TOKEN} x", f"{TOKEN}\nx", f"{TOKEN}é", f"{TOKEN}\x00"])
async def test_a_token_that_fits_no_header_is_refused_unseen(secret: str) -> None:
    given = Given(reply(issue()), environ={"GITHUB_TOKEN": secret})
    with pytest.raises(GitHubAuthError) as failed:
        await given.tracker.issue(5)
    assert TOKEN not in str(failed.value)
    assert tells_the_scopes_it_needs(failed.value)


async def test_the_token_is_seen_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"message": f"Bearer {TOKEN} is bad", "errors": [{"message": TOKEN}]}
    seen = []
    for trouble in (
        *(reply(echo, status) for status in (400, 401, 403, 404, 408, 422, 429, 500)),
        reply(echo, 403, limit(0, 9999)),
        httpx2.Response(200, content=TOKEN.encode()),
        httpx2.ConnectError("no"),
    ):
        given = Given(trouble)
        for ask in (given.tracker.issue(5), given.tracker.comment(5, "x"), given.tracker.account()):
            with pytest.raises(WorkSourceError) as failed:
                await ask
            error: BaseException | None = failed.value
            while error is not None:
                seen += [str(error), repr(error), str(getattr(error, "details", ""))]
                error = error.__cause__
        seen += [repr(given.tracker), repr(vars(given.tracker))]
    assert TOKEN not in "\n".join([*seen, caplog.text])


@pytest.mark.parametrize(
    "repo",
    ["", "engine", "ada/engine/x", "ada/", "/engine", "a b/c", "../..", "ada/..", "./x", "ada/é",
     "https://github.com/ada/engine", "ada/engine\n"],
)  # fmt: skip
def test_a_repository_is_owner_and_name(repo: str) -> None:
    with pytest.raises(MalformedReference, match="owner/name"):
        GitHubTracker(repo)


@pytest.mark.parametrize(
    "api_url",
    ["", "api.github.com", "ftp://x", "https://", "https://[bad", "https://x:y", "https://x?y=1"],
)
def test_an_address_that_is_none_is_refused(api_url: str) -> None:
    with pytest.raises(InvalidInput, match="api_url"):
        GitHubTracker("ada/engine", api_url=api_url)


@pytest.mark.parametrize("api_url", ["https://ada:s3cret@x/", "https://ada:s3cret@[bad"])
def test_an_address_holds_no_password(api_url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        GitHubTracker("ada/engine", api_url=api_url)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("api_url", "host", "graphql"),
    [
        ("https://api.github.com", "github.com", "https://api.github.com/graphql"),
        ("https://api.octo.ghe.com/", "octo.ghe.com", "https://api.octo.ghe.com/graphql"),
        ("https://git.corp/api/v3", "git.corp", "https://git.corp/api/graphql"),
        ("http://127.0.0.1:9000", "127.0.0.1:9000", "http://127.0.0.1:9000/graphql"),
        ("http://[::1]:9000", "[::1]:9000", "http://[::1]:9000/graphql"),
    ],
)
async def test_the_pages_and_graphql_are_beside_the_api(
    api_url: str, host: str, graphql: str
) -> None:
    given = Given(reply(None, 404), api_url=api_url)
    assert given.tracker.host == host
    place = "" if host == "github.com" else f"{host}/"
    assert given.tracker.source == f"github:{place}ada/engine"
    assert await given.tracker.last_edit(5) is None
    assert str(given.script.asked[0].url) == graphql


async def test_cookies_are_not_kept() -> None:
    given = Given(reply(account(), headers={"set-cookie": "session=1; Path=/"}), reply(account()))
    for login in ("ada", "bob"):
        await given.tracker.find_account(login)
    assert "cookie" not in given.script.asked[1].headers


async def test_a_tracker_can_be_closed_before_and_after_use() -> None:
    given = Given(reply(issue()))
    await given.tracker.aclose()
    await given.tracker.issue(5)
    await given.tracker.aclose()
