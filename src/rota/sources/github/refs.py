"""Git references as a compare-and-swap: creating one fails when it exists.

Each reference gets a commit of its own: on a shared commit, two creates could both succeed. After a
request that GitHub did not answer, the reference is read to find out what happened.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from rota.claims.port import Ref
from rota.model.errors import AnswerUnknown, TrackerError
from rota.sources.http.client import ApiClient
from rota.sources.http.errors import ApiError
from rota.sources.http.pages import Pages
from rota.sources.http.records import moment_of, text_of

MAX_TRIES = 4
MAX_COMMITS = 4096  # how many messages are remembered: commits do not change

Commit = tuple[str, datetime]


class GitRefs:
    def __init__(self, client: ApiClient, pages: Pages, root: str) -> None:
        self._client = client
        self._pages = pages
        self._root = root
        self._git = f"{root}/git"
        self._tree: str | None = None
        self._commits: dict[str, Commit] = {}

    async def below(self, prefix: str) -> list[Ref]:
        stem = prefix.strip("/")
        found = await self._matching(stem)
        return [await self._ref(name, found[name]) for name in sorted(found) if name != stem]

    async def create(self, name: str, message: str) -> bool:
        sha = await self._new_commit(message)
        for attempt in range(MAX_TRIES):
            if await self._created(name, sha):
                return True
            standing = (await self._matching(name)).get(name)
            if standing is not None:
                return standing == sha
            await self._client.wait(attempt)  # not there, or not visible yet
        raise AnswerUnknown(f"refs/{name}: GitHub does not say whether it was created; try again")

    async def _created(self, name: str, sha: str) -> bool:
        """False: the result is unknown, or the reference exists. It may still be ours, from a
        request that a proxy sent twice."""
        content = {"ref": f"refs/{name}", "sha": sha}
        try:
            await self._client.write("POST", f"{self._git}/refs", content, repeatable=False)
        except AnswerUnknown:
            return False
        except ApiError as error:
            if "already exists" not in str(error):
                raise
            return False
        return True

    async def _matching(self, stem: str) -> dict[str, str]:
        """Names (without `refs/`) and their commits. GitHub matches by prefix: 5 also finds 50."""
        with self._a_commit_is_needed():
            found = await self._pages.linked(
                f"{self._git}/matching-refs/{quote(stem)}", _pointer_of
            )
        return {name: sha for name, sha in found if name == stem or name.startswith(f"{stem}/")}

    async def _ref(self, name: str, sha: str) -> Ref:
        if (known := self._commits.get(sha)) is None:
            answer = await self._client.get(f"{self._git}/commits/{sha}")
            known = self._client.mapped(_commit_of, answer)
            if len(self._commits) < MAX_COMMITS:
                self._commits[sha] = known
        return Ref(f"refs/{name}", *known)

    async def _new_commit(self, message: str) -> str:
        """A repeated request makes two commits, but only one of them gets a reference."""
        content = {"message": message, "tree": await self._any_tree(), "parents": []}
        answer = await self._client.write("POST", f"{self._git}/commits", content)
        return self._client.mapped(lambda raw: str(raw["sha"]), answer)

    async def _any_tree(self) -> str:
        """A commit needs a tree; that of the default branch exists already."""
        if self._tree is None:
            with self._a_commit_is_needed():
                repository = await self._client.get(self._root)
                branch = self._client.mapped(lambda raw: str(raw["default_branch"]), repository)
                head = await self._client.get(f"{self._git}/ref/heads/{quote(branch)}")
            sha = self._client.mapped(lambda raw: str(raw["object"]["sha"]), head)
            commit = await self._client.get(f"{self._git}/commits/{sha}")
            self._tree = self._client.mapped(lambda raw: str(raw["tree"]["sha"]), commit)
        return self._tree

    @contextmanager
    def _a_commit_is_needed(self) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            empty = error.status_code == HTTPStatus.CONFLICT
            if not empty and not (error.is_not_found() and "/ref/heads/" in str(error.endpoint)):
                raise
            raise TrackerError(
                f"{self._root.removeprefix('/repos/')} has no commit yet, and strict claims are"
                " kept as git references: push a first commit, or set `claim_mode: comments`"
            ) from error


def _pointer_of(raw: Any) -> tuple[str, str]:
    return str(raw["ref"]).removeprefix("refs/"), str(raw["object"]["sha"])


def _commit_of(raw: Any) -> Commit:
    return text_of(raw["message"]), moment_of(raw["committer"]["date"])
