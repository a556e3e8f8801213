"""One call of a dialect: who calls, what the read sees, when the write happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from rota.testing.tracker.access import may_see
from rota.testing.tracker.clock import moment_of
from rota.testing.tracker.faults import Plan
from rota.testing.tracker.http import Json, Rejection, Request
from rota.testing.tracker.hub import Account, Hub, Issue, Repository, Token
from rota.testing.tracker.views import Stamp, View

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: Sequence[T]
    number: int
    size: int
    total: int

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.size))

    def links(self, request: Request, address: str) -> dict[str, str]:
        """A Link header with the request's own filters; none if there is only one page."""
        wanted: dict[str, int] = {}
        if self.number < self.last:
            wanted |= {"next": self.number + 1, "last": self.last}
        if self.number > 1:
            wanted |= {"prev": self.number - 1, "first": 1}
        links = [
            f'<{address}?{urlencode({**request.query, "page": number})}>; rel="{name}"'
            for name, number in wanted.items()
        ]
        return {"link": ", ".join(links)} if links else {}


@dataclass(slots=True)
class Call:
    hub: Hub
    request: Request
    plan: Plan
    stamp: Stamp

    @property
    def view(self) -> View:
        return self.plan.view

    @property
    def token(self) -> Token | None:
        return self.request.token

    @property
    def account(self) -> Account:
        """The account that writes."""
        if self.token is None:
            raise Rejection(401, "Requires authentication")
        return self.token.account

    def fields(self) -> Json:
        content = self.request.json()
        if not isinstance(content, dict):
            raise Rejection(422, "Invalid request.\n\nThe body is not an object.")
        return content

    def text(self, content: Json, name: str) -> str | None:
        value = content.get(name)
        if value is not None and not isinstance(value, str):
            raise Rejection(422, f"Invalid request.\n\nFor '{name}', {value!r} is not a string.")
        return value

    def since(self) -> datetime | None:
        text = self.request.query.get("since")
        try:
            return moment_of(text) if text else None
        except ValueError:
            raise Rejection(422, f"{text!r} is not a time in ISO 8601") from None

    def number(self, name: str, default: int) -> int:
        text = self.request.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else default

    def page(self, items: Sequence[T], parameter: str, most: int, default: int = 30) -> Page[T]:
        size = min(self.number(parameter, default), most)
        if self.plan.page_size is not None:
            size = min(size, self.plan.page_size)
        number = self.number("page", 1)
        start = (number - 1) * size
        return Page(items[start : start + size], number, size, len(items))

    def resolve(self, values: dict[str, str]) -> dict[str, Any]:
        """The repository and the issue that a path names, for the handler."""
        found: dict[str, Any] = dict(values)
        if "owner" in values:
            found["repo"] = self.repository(f"{found.pop('owner')}/{found.pop('name')}")
        if "number" in values:
            found["issue"] = self.issue(found["repo"], found.pop("number"))
        return found

    def repository(self, full_name: str) -> Repository:
        repo = self.hub.repository(full_name)
        if repo is None or not may_see(self.token, repo):
            raise Rejection(404, "Not Found")
        return repo

    def issue(self, repo: Repository, number: str) -> Issue:
        wanted = int(number) if number.isascii() and number.isdigit() else 0
        if gone := repo.gone.get(wanted):
            raise Moved(gone.status, gone.moved_to)
        issue = repo.issues.get(wanted)
        if issue is None or not self.view.sees("issues", issue.id, issue.stamp):
            raise Rejection(404, "Not Found")
        return issue


class Moved(Rejection):
    """The issue was there once."""

    def __init__(self, status: int, target: tuple[int, int] | None) -> None:
        super().__init__(status, "This issue was deleted" if status == 410 else "Not Found")
        self.target = target
