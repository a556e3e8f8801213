"""One repository on Gitea or Forgejo as a `Tracker`."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Unpack

from rota import __version__
from rota.claims.port import Account, Comment, Issue, Labelling, Ref, TextEdit
from rota.model.errors import TrackerError
from rota.sources.gitea.errors import GiteaAPIError, GiteaAuthError
from rota.sources.gitea.labels import SIZE, Labels
from rota.sources.gitea.mapping import is_open, labelling_of, labels_of
from rota.sources.http.calls import Service
from rota.sources.http.connection import Connection
from rota.sources.http.errors import ApiError
from rota.sources.http.listing import label_query, ready
from rota.sources.http.records import account_of, comment_of, issue_of
from rota.sources.http.tracker import HttpTracker
from rota.sources.http.wire import address_of

GITEA = Service(
    name="Gitea",
    scheme="token",
    headers={"accept": "application/json", "user-agent": f"rota/{__version__}"},
    api_error=GiteaAPIError,
    token_error=GiteaAuthError,
)
_API = "/api/v1"


class GiteaTracker(HttpTracker):
    """Gitea has no ETags, cannot create the references that strict claims need, and does not tell
    who edited a text."""

    kind = "gitea"

    def __init__(
        self,
        repo: str,
        *,
        api_url: str,
        token_env: str = "GITEA_TOKEN",  # noqa: S107 - the name of a variable
        account_id: int | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        address = address_of(f"{api_url.rstrip('/').removesuffix(_API)}{_API}")
        super().__init__(repo, GITEA, address, token_env, account_id, **connection)
        self._owner = repo.partition("/")[0]
        self._pages_path = address.path.removesuffix(_API)
        self._labels = Labels(self._client, self._pages, self._root, self._owner)

    @property
    def pages(self) -> str:
        """Gitea may run below a path, as in https://example.org/git/."""
        return f"{self.host}{self._pages_path}"

    async def owner(self) -> Account | None:
        """An organisation that is hidden from our token looks like a person. That is harmless,
        because nobody can act as it."""
        try:
            await self._client.get(f"/orgs/{self._owner}")
        except ApiError as error:
            if not error.is_not_found():
                raise
            return account_of((await self._repository())["owner"])
        return None

    # Issues

    async def issue(self, number: int) -> Issue:
        """With its open blockers. They cost an extra request, so `issues` omits them."""
        issue = await super().issue(number)
        if not issue.is_open:
            return issue
        return replace(issue, open_blockers=await self._open_blockers(number))

    async def issues(self, *, labels: Sequence[str] = ()) -> list[Issue]:
        found = await self._pages.numbered(
            f"{self._root}/issues",
            issue_of,
            {"state": "open", "type": "issues", **SIZE, **label_query(labels)},
        )
        return ready(found, labels)

    async def _open_blockers(self, number: int) -> int:
        path = f"{self._issue(number)}/dependencies"
        try:
            return sum(await self._pages.numbered(path, is_open, SIZE, trust_total=False))
        except ApiError as error:
            if error.is_not_found():
                return 0  # dependencies are switched off for this repository
            raise

    async def _all_comments(self, number: int) -> list[Comment]:
        path = f"{self._issue(number)}/comments"
        try:
            return await self._pages.numbered(path, comment_of, SIZE)
        except ApiError as error:
            if error.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
                await super().issue(number)  # for a deleted issue, Gitea answers 500 here
            raise

    async def close(self, number: int) -> None:
        async with self._about(number):
            await self._client.write("PATCH", self._issue(number), {"state": "closed"})

    # Labels

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        """Gitea silently ignores the number of a deleted label, so the answer is checked."""
        if not labels or await self._add(number, labels):
            return
        self._labels.forget()
        if not await self._add(number, labels):
            raise GiteaAPIError(
                f"{self.repo}#{number}: Gitea took the labels {', '.join(labels)} but does not show"
                " them; are they exclusive, or archived?",
                endpoint=f"POST {self._issue(number)}/labels",
            )

    async def _add(self, number: int, labels: Sequence[str]) -> bool:
        numbers = await self._labels.numbers(labels)
        async with self._about(number):
            answer = await self._client.write(
                "POST", f"{self._issue(number)}/labels", {"labels": numbers}
            )
        carried = {name.lower() for name, _ in self._client.mapped(labels_of, answer)}
        return {label.lower() for label in labels} <= carried

    async def remove_label(self, number: int, label: str) -> None:
        path = f"{self._issue(number)}/labels"
        async with self._about(number):
            carried = self._client.mapped(labels_of, await self._client.get(path))
            for name, label_id in carried:
                if name.lower() == label.lower():
                    await self._take_off(f"{path}/{label_id}")

    async def _take_off(self, path: str) -> None:
        try:
            await self._client.write("DELETE", path)
        except ApiError as error:
            if error.status_code != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise  # otherwise the label itself was deleted meanwhile

    async def labellings(self, number: int) -> list[Labelling]:
        async with self._about(number):
            found = await self._pages.numbered(
                f"{self._issue(number)}/timeline", labelling_of, SIZE, trust_total=False
            )
        return sorted((one for one in found if one is not None), key=lambda one: one.at)

    async def last_edit(self, number: int, *, but: Collection[int] = ()) -> TextEdit | None:
        """Not available. The timeline shows changes of the title but not of the body, and an
        incomplete answer would look complete."""
        return None

    # References

    async def refs(self, prefix: str) -> list[Ref]:
        raise _no_strict_mode()

    async def create_ref(self, name: str, message: str) -> bool:
        raise _no_strict_mode()


def _no_strict_mode() -> TrackerError:
    return TrackerError(
        "strict mode needs GitHub: Gitea's API cannot create references outside branches and tags;"
        " set `claim_mode: comments`"
    )
