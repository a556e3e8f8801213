"""One GitHub repository as a `Tracker`."""

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Any, Unpack
from urllib.parse import quote

from rota import __version__
from rota.claims.port import Account, Comment, Issue, Labelling, Ref, TextEdit
from rota.model.errors import InvalidInput
from rota.sources.github.errors import GitHubAPIError, GitHubAuthError
from rota.sources.github.mapping import EDITS_QUERY, labelling_of, last_edit_of
from rota.sources.github.refs import GitRefs
from rota.sources.github.scopes import REQUIRED, lack_of_rights, lack_of_scopes, scopes_of
from rota.sources.http.answers import Answer
from rota.sources.http.calls import Service
from rota.sources.http.connection import Connection
from rota.sources.http.errors import ApiError
from rota.sources.http.labels import LOOKS
from rota.sources.http.listing import label_query, ready
from rota.sources.http.records import account_of, comment_of, issue_of
from rota.sources.http.tracker import HttpTracker, is_absent, repository_of
from rota.sources.http.wire import Address, address_of

GITHUB = Service(
    name="GitHub",
    scheme="Bearer",
    headers={
        "accept": "application/vnd.github+json",
        "user-agent": f"rota/{__version__}",
        "x-github-api-version": "2022-11-28",
    },
    api_error=GitHubAPIError,
    token_error=GitHubAuthError,
    scopes=(REQUIRED,),
)

# No reason to stop: the token may not create labels, or the label exists already.
_GO_ON = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY})
_NO_GRAPHQL = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})


class GitHubTracker(HttpTracker):
    kind = "github"

    def __init__(
        self,
        repo: str,
        *,
        token_env: str = "GITHUB_TOKEN",  # noqa: S107 - the name of a variable
        api_url: str = "https://api.github.com",
        account_id: int | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        address = address_of(api_url)
        super().__init__(repo, GITHUB, address, token_env, account_id, **connection)
        self.host = _web_host(address)
        self._graphql = _graphql_url(address)
        self._has_graphql = False  # not known yet
        self._refs = GitRefs(self._client, self._pages, self._root)
        self._made: set[str] = set()

    async def validate_token(self) -> tuple[str, ...]:
        """The token's scopes; raises `GitHubAuthError` when it lacks rights.

        Fine-grained tokens and those of apps do not tell their scopes. For them, the repository's
        answer says what they may do.
        """
        try:
            answer = await self._client.get(self._root, fresh=True)
        except ApiError as error:
            if error.is_not_found() or error.is_permission_denied():
                raise await self._no_access() from error
            raise
        scopes = scopes_of(answer)
        repository = self._client.mapped(repository_of, answer)
        lack = lack_of_rights(scopes, repository, self._token_env)
        if lack is not None:
            raise lack
        return scopes or ()

    async def _no_access(self) -> GitHubAuthError:
        """GitHub answers "not found" for a hidden repository; the scopes may tell why."""
        try:
            scopes = scopes_of(await self._client.get("/user", fresh=True))
        except ApiError:
            scopes = None
        return lack_of_scopes(scopes, self._token_env) or GitHubAuthError(
            f"{self.repo} does not exist, or the token in {self._token_env} was not given access"
            " to it; check `repo`, and which repositories the token is for"
        )

    async def owner(self) -> Account | None:
        owner = (await self._repository())["owner"]
        return account_of(owner) if owner.get("type") == "User" else None

    async def _account_numbered(self, number: int) -> Account:
        try:
            answer = await self._client.get(f"/user/{number}")
        except ApiError:
            return await super()._account_numbered(number)
        return self._client.mapped(account_of, answer)

    async def issues(self, *, labels: Sequence[str] = ()) -> list[Issue]:
        found = await self._pages.linked(
            f"{self._root}/issues",
            issue_of,
            {"state": "open", "sort": "created", "direction": "asc", **label_query(labels)},
        )
        return ready(found, labels)

    async def _all_comments(self, number: int) -> list[Comment]:
        return await self._pages.linked(
            f"{self._issue(number)}/comments", comment_of, every_one=True
        )

    async def close(self, number: int) -> None:
        async with self._about(number):
            await self._client.write(
                "PATCH", self._issue(number), {"state": "closed", "state_reason": "completed"}
            )

    # Labels

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        if not labels:
            return
        for label in labels:
            await self._make(label)
        async with self._about(number):
            await self._client.write(
                "POST", f"{self._issue(number)}/labels", {"labels": list(labels)}
            )

    async def remove_label(self, number: int, label: str) -> None:
        if not label.strip("."):
            raise InvalidInput("a label's name is missing", field="label")  # or: all labels
        path = f"{self._issue(number)}/labels/{quote(label, safe='')}"
        try:
            await self._client.write("DELETE", path)
        except ApiError as error:
            if not is_absent(error):
                raise
            await self.issue(number)  # raises if the issue is missing; a missing label is no error

    async def labellings(self, number: int) -> list[Labelling]:
        async with self._about(number):
            found = await self._pages.linked(f"{self._issue(number)}/events", labelling_of)
        return sorted((one for one in found if one is not None), key=lambda one: one.at)

    async def _make(self, label: str) -> None:
        """GitHub creates a missing label itself, but grey. Ours are created once, with their
        colours."""
        name = label.lower()
        if name in self._made or name not in LOOKS:
            return
        colour, meaning = LOOKS[name]
        content = {"name": label, "color": colour, "description": meaning}
        try:
            await self._client.write("POST", f"{self._root}/labels", content)
        except ApiError as error:
            if error.is_rate_limit_error or error.status_code not in _GO_ON:
                raise
        self._made.add(name)

    # Edits, which only GraphQL shows

    async def last_edit(self, number: int, *, but: Collection[int] = ()) -> TextEdit | None:
        owner, _, name = self.repo.partition("/")
        variables = {"owner": owner, "name": name, "number": number}
        answer = await self._ask_graphql({"query": EDITS_QUERY, "variables": variables})
        if answer is None:
            return None
        async with self._about(number):
            self._check_graphql(answer)
        return self._client.mapped(
            lambda raw: last_edit_of(raw["data"]["repository"]["issue"], but), answer
        )

    async def _ask_graphql(self, content: Any) -> Answer | None:
        """None: the server has no GraphQL. That takes two refusals from an endpoint that never
        answered: one "not found" may be transient, and would make a text pass that was edited
        since."""
        for again in (True, False):
            try:
                answer = await self._client.write("POST", self._graphql, content)
            except ApiError as error:
                if self._has_graphql or error.status_code not in _NO_GRAPHQL:
                    raise
                if again:
                    await self._client.wait(0)
            else:
                self._has_graphql = True
                return answer
        return None

    def _check_graphql(self, answer: Answer) -> None:
        """GraphQL reports errors with status 200."""
        kinds = self._client.mapped(_refusals_of, answer)
        if kinds:
            raise GitHubAPIError(
                f"GitHub, POST /graphql: it refused{self._client.verdicts.said(answer)}",
                status_code=HTTPStatus.NOT_FOUND if "NOT_FOUND" in kinds else HTTPStatus.OK,
                endpoint="POST /graphql",
                is_rate_limit_error="RATE_LIMITED" in kinds,
            )

    # References

    async def refs(self, prefix: str) -> list[Ref]:
        return await self._refs.below(prefix)

    async def create_ref(self, name: str, message: str) -> bool:
        return await self._refs.create(name, message)


def _web_host(address: Address) -> str:
    """Pages are on `github.com` where the API is on `api.github.com`; a self-hosted server has both
    on one host."""
    return address.host if address.path else address.host.removeprefix("api.")


def _graphql_url(address: Address) -> str:
    if address.url.endswith("/api/v3"):
        return address.url.removesuffix("/v3") + "/graphql"
    return address.url + "/graphql"


def _refusals_of(raw: Any) -> set[str | None]:
    """Their types, as far as they have one."""
    return {one.get("type") for one in raw.get("errors") or ()}
