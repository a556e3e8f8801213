"""Labels by number. Gitea accepts label names only since version 1.22, and allows several labels of
one name (an organisation's, or those that two clients created at the same moment)."""

from collections.abc import Sequence
from contextlib import suppress

from rota.model.errors import AnswerUnknown, TrackerError
from rota.sources.gitea.mapping import label_of
from rota.sources.http.client import ApiClient
from rota.sources.http.errors import ApiError
from rota.sources.http.labels import GREY, LOOKS
from rota.sources.http.pages import Pages

SIZE = {"limit": 50}  # page size; a server gives larger pages only where it is configured to


class Labels:
    """The labels of one repository, remembered by lower-case name."""

    def __init__(self, client: ApiClient, pages: Pages, root: str, owner: str) -> None:
        self._client = client
        self._pages = pages
        self._root = root
        self._owner = owner
        self._known: dict[str, int] = {}

    async def numbers(self, names: Sequence[str]) -> list[int]:
        """Labels that the repository lacks are created."""
        if any(name.lower() not in self._known for name in names):
            await self._look()
        return [self._known.get(name.lower()) or await self._make(name) for name in names]

    def forget(self) -> None:
        self._known.clear()

    async def _look(self) -> None:
        """The repository's own label takes precedence over the organisation's, an older one over a
        newer."""
        found = [*await self._of_organisation(), *await self._all(f"{self._root}/labels")]
        for name, number in found:
            self._known[name.lower()] = number

    async def _of_organisation(self) -> list[tuple[str, int]]:
        try:
            return await self._all(f"/orgs/{self._owner}/labels")
        except ApiError as error:
            if error.is_not_found() or error.is_permission_denied():
                return []  # the owner is a person, or an organisation that we do not belong to
            raise

    async def _all(self, path: str) -> list[tuple[str, int]]:
        found = await self._pages.numbered(path, label_of, SIZE)
        return sorted(found, key=lambda label: -label[1])

    async def _make(self, name: str) -> int:
        """Two labels of one name would hide issues, because Gitea's filter asks for both. So of
        labels that were created at the same time, all but the oldest are deleted again."""
        made = await self._post(name)
        await self._look()
        oldest = self._known.get(name.lower())
        if oldest is None:
            raise TrackerError(f"Gitea was asked for the label {name!r} and does not show it")
        if made not in (None, oldest):
            with suppress(ApiError):
                await self._client.write("DELETE", f"{self._root}/labels/{made}")
        return oldest

    async def _post(self, name: str) -> int | None:
        """None: no answer, so the label may have been created."""
        colour, meaning = LOOKS.get(name.lower(), (GREY, ""))
        content = {"name": name, "color": f"#{colour}", "description": meaning}
        try:
            answer = await self._client.write(
                "POST", f"{self._root}/labels", content, repeatable=False
            )
        except AnswerUnknown:
            return None
        return self._client.mapped(label_of, answer)[1]
