"""Lists that come in pages: read to their end, or an error is raised; never a silent part."""

from collections.abc import Callable
from typing import Any, TypeVar

from rota.sources.http.answers import Answer, next_link
from rota.sources.http.calls import Call
from rota.sources.http.client import ApiClient, Params
from rota.sources.http.errors import ApiError

T = TypeVar("T")

PAGE = 100  # the most that GitHub gives at a time
MAX_PAGES = 100
MAX_WALKS = 3


class Pages:
    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def linked(
        self,
        path: str,
        make: Callable[[Any], T],
        params: Params | None = None,
        *,
        every_one: bool = False,
    ) -> list[T]:
        """Page after page by `Link: rel="next"`.

        `every_one`: an entry that is deleted during the read moves the later ones up, and one of
        them may be missed. So the pages are read again until they are stable, at most `MAX_WALKS`
        times; if they never are, that is an error. The result holds every entry that any read
        showed; entries may occur twice.
        """
        first = Call("GET", self._client.url(path, {"per_page": PAGE, **(params or {})}))
        shown: list[Answer] = []
        for _ in range(MAX_WALKS):
            pages = await self._walk(first, every_one)
            shown += pages
            if not every_one or await self._still_stand(pages):
                return [made for page in shown for made in self._client.mapped(_each(make), page)]
        raise self._error(first, "its pages changed at each of several reads; try again")

    async def numbered(
        self,
        path: str,
        make: Callable[[Any], T],
        params: Params | None = None,
        *,
        trust_total: bool = True,
    ) -> list[T]:
        """Page after page by number, for a tracker with unreliable links, until nothing new comes.
        `X-Total-Count` saves the last request where it counts the whole list."""
        found: dict[int, T] = {}
        for number in range(1, MAX_PAGES + 1):
            page = await self._client.get(path, {**(params or {}), "page": number})
            before = len(found)
            found.update(self._client.mapped(_each_by_id(make), page))
            total = page.headers.get("x-total-count", "") if trust_total else ""
            if len(found) == before or (total.isdecimal() and len(found) >= int(total)):
                return list(found.values())
        raise self._too_many(Call("GET", self._client.url(path)))

    async def _walk(self, first: Call, every_one: bool) -> list[Answer]:
        pages: list[Answer] = []
        following: str | None = first.url
        while following is not None:
            if len(pages) == MAX_PAGES:
                raise self._too_many(first)
            page = await self._client.get(following)
            if pages and page.body == pages[-1].body:
                break  # a list without pages, which ignores the page number
            pages.append(page)
            following = self._next(pages[-1]) or self._perhaps(first, pages, every_one)
        return pages

    def _perhaps(self, first: Call, pages: list[Answer], every_one: bool) -> str | None:
        """A new entry on a later page need not change this one. An unchanged answer without a link
        therefore does not prove that this page is still the last."""
        last = pages[-1]
        entries = self._client.mapped(_entries, last)
        if last.unchanged and entries and (every_one or len(entries) >= PAGE):
            return f"{first.url}&page={len(pages) + 1}"
        return None

    def _next(self, page: Answer) -> str | None:
        link = next_link(page.headers.get("link"))
        if link is None:
            return None
        target = self._client.here(page.url, link)
        if target is None:
            raise self._error(
                Call("GET", page.url), "its next page is on another host, where we do not go"
            )
        return target

    async def _still_stand(self, pages: list[Answer]) -> bool:
        """The last page may grow; the pages before it must be unchanged."""
        for page in pages[:-1]:
            if (await self._client.get(page.url)).body != page.body:
                return False
        return True

    def _too_many(self, call: Call) -> ApiError:
        return self._error(call, f"more than {MAX_PAGES} pages; ask for less, by a label perhaps")

    def _error(self, call: Call, why: str) -> ApiError:
        return self._client.verdicts.error(call, why)


def _entries(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise TypeError("not a list")
    return raw


def _each(make: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    return lambda raw: [make(one) for one in _entries(raw)]


def _each_by_id(make: Callable[[Any], T]) -> Callable[[Any], dict[int, T]]:
    """Go encodes an empty list as null."""
    return lambda raw: {int(one["id"]): make(one) for one in _entries([] if raw is None else raw)}
