"""The verbs of the `Tracker` port that GitHub, Gitea and Forgejo have in common."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Unpack
from urllib.parse import quote, unquote

from rota.claims.port import Account, Comment, Issue, PullRequest
from rota.model.errors import AnswerUnknown, IssueNotFound, MalformedReference
from rota.sources.http.calls import Service
from rota.sources.http.connection import Connection, connect
from rota.sources.http.errors import ApiError
from rota.sources.http.limits import RateLimitInfo
from rota.sources.http.pages import Pages
from rota.sources.http.records import account_of, comment_of, issue_of, pull_request_of
from rota.sources.http.wire import Address

_REPO = re.compile(r"[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+")
# A repository's path in the API: by name, or by id if it was renamed.
_PLACE = re.compile(r"(/repos/[^/]+/[^/]+|/repositories/\d+)(/.*)?")


class HttpTracker(ABC):
    kind: str
    repo: str
    host: str

    def __init__(
        self,
        repo: str,
        service: Service,
        address: Address,
        token_env: str,
        account_id: int | None,
        **connection: Unpack[Connection],
    ) -> None:
        self.repo = check_repo(repo)
        self.host = address.host
        self._root = f"/repos/{self.repo}"
        self._service = service
        self._token_env = token_env
        self._account_id = account_id
        self._account: Account | None = None
        self._client = connect(service, address, token_env, self._may_follow, connection)
        self._pages = Pages(self._client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.repo} on {self.host}>"

    @property
    def pages(self) -> str:
        return self.host

    @property
    def source(self) -> str:
        """In one spelling, however people write it; with its host, unless that is github.com."""
        place = "" if self.host == "github.com" else f"{self.host}/"
        return f"{self.kind}:{place}{self.repo.lower()}"

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        return self._client.requests

    @property
    def rate_limit(self) -> RateLimitInfo | None:
        """The token's limit as the tracker last reported it; None if it reports none."""
        return self._client.limits.get("core")

    async def aclose(self) -> None:
        await self._client.aclose()

    # Accounts

    async def account(self) -> Account:
        if self._account is None:
            self._account = await self._ask_account()
        return self._account

    async def find_account(self, login: str) -> Account | None:
        if not login.strip("."):
            return None  # such a path would mean another resource
        try:
            answer = await self._client.get(f"/users/{quote(login, safe='')}")
        except ApiError as error:
            if error.is_not_found():
                return None
            raise
        return self._client.mapped(account_of, answer)

    async def _ask_account(self) -> Account:
        """The tracker refuses this to tokens of an app, and to tokens with few scopes."""
        try:
            answer = await self._client.get("/user")
        except ApiError as error:
            if not error.is_permission_denied():
                raise
            if self._account_id is None:
                raise self._nobody() from error
            return await self._account_numbered(self._account_id)
        return self._client.mapped(account_of, answer)

    async def _account_numbered(self, number: int) -> Account:
        return Account(number, str(number))

    def _nobody(self) -> Exception:
        return self._service.token_error(
            f"the token in {self._token_env} may not ask {self._service.name} whose it is, as is"
            " usual for an app; set `auth.account_id` to the number of the account it writes as"
        )

    # The repository

    async def is_public(self) -> bool:
        return not (await self._repository())["private"]

    async def _repository(self) -> dict[str, Any]:
        answer = await self._client.get(self._root)
        return self._client.mapped(repository_of, answer)

    async def _may_follow(self, path: str, target: str) -> bool:
        """A renamed repository may be followed. A transferred issue may not: it is no longer ours,
        and may have the same number in its new repository."""
        place, rest = _parted(target)
        if _parted(path)[1] != rest or place is None:
            return False
        if not rest:
            return True
        repository = await self._repository()
        named, numbered = f"/repos/{repository['full_name']}", f"/repositories/{repository['id']}"
        return place.lower() in (named.lower(), numbered)

    # Issues

    async def issue(self, number: int) -> Issue:
        async with self._about(number):
            answer = await self._client.get(self._issue(number))
        return self._client.mapped(issue_of, answer)

    async def is_open(self, repo: str, number: int) -> bool:
        if repo.lower() == self.repo.lower():
            return (await self.issue(number)).is_open
        try:
            answer = await self._client.get(f"/repos/{check_repo(repo)}/issues/{number}")
        except ApiError as error:
            if error.is_retryable():
                raise
            raise IssueNotFound(
                f"{repo}#{number} is not there, or hidden from the token in {self._token_env}",
                repo=repo,
                number=number,
            ) from error
        return self._client.mapped(issue_of, answer).is_open

    async def pull_request(self, number: int) -> PullRequest:
        path = f"{self._root}/pulls/{number}"
        async with self._about(number, path):
            answer = await self._client.get(path)
        return self._client.mapped(pull_request_of, answer)

    async def comments(self, number: int) -> list[Comment]:
        async with self._about(number):
            found = await self._all_comments(number)
        return [comment for _, comment in sorted({one.id: one for one in found}.items())]

    async def comment(self, number: int, body: str) -> Comment:
        async with self._about(number):
            answer = await self._client.write(
                "POST", f"{self._issue(number)}/comments", {"body": body}, repeatable=False
            )
        try:
            return self._client.mapped(comment_of, answer)
        except ApiError as error:
            raise AnswerUnknown(
                f"{self.repo}#{number}: a comment was posted, but the answer does not say which;"
                " look before it is repeated"
            ) from error

    @abstractmethod
    async def _all_comments(self, number: int) -> list[Comment]:
        """Each tracker pages its comments in its own way."""

    def _issue(self, number: int) -> str:
        return f"{self._root}/issues/{number}"

    @asynccontextmanager
    async def _about(self, number: int, path: str | None = None) -> AsyncIterator[None]:
        """Raises `IssueNotFound` for an issue that was deleted, hidden or transferred. It is looked
        up once more, at `path`, before that is raised, because runs are ended and items cancelled
        on it. A "not found" that does not last is a transient error."""
        try:
            yield
        except ApiError as error:
            if is_absent(error) and await self._is_gone(path or self._issue(number), error):
                raise IssueNotFound(
                    f"{self.repo}#{number} is not there: deleted, transferred, or hidden from the"
                    f" token in {self._token_env}",
                    repo=self.repo,
                    number=number,
                ) from error
            raise

    async def _is_gone(self, path: str, said: ApiError) -> bool:
        """Trackers answer "not found" for everything that a token may not see, and some do so for a
        moment for what exists. GitHub answers "gone" only for a deleted issue."""
        if said.has_moved:
            return True
        try:
            await self._client.get(path)
        except ApiError as error:
            if not is_absent(error):
                raise
            if not error.is_not_found():
                return True
        else:
            return False
        await self._demand_sight()
        return True

    async def _demand_sight(self) -> None:
        """A token that cannot see the repository cannot tell what is in it."""
        try:
            await self._repository()
        except ApiError as error:
            if not is_absent(error):
                raise
            raise self._service.api_error(
                f"the token in {self._token_env} does not see {self.repo} now; check `repo`, and"
                " which repositories the token is for",
                status_code=error.status_code,
                endpoint=error.endpoint,
            ) from error


def is_absent(error: ApiError) -> bool:
    """The resource is not at its address, for whatever reason."""
    return error.has_moved or error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def check_repo(repo: str) -> str:
    if not _REPO.fullmatch(repo) or {".", ".."} & set(repo.split("/")):
        raise MalformedReference(
            f"repo: {repo[:100]!r} does not name a repository; write owner/name, for example"
            " octocat/hello-world",
            field="repo",
        )
    return repo


def repository_of(raw: Any) -> dict[str, Any]:
    for key in ("id", "full_name", "private", "owner"):
        raw[key]
    return dict(raw)


def _parted(path: str) -> tuple[str | None, str]:
    found = _PLACE.fullmatch(unquote(path))
    return (None, path) if found is None else (found[1], found[2] or "")
