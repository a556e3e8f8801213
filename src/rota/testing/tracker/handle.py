"""The test's side of the stub: each method is one call of `/_control/`.

The calls block. An asynchronous test that receives webhooks on its own loop sends them with
`asyncio.to_thread(control.webhook, …)`.
"""

from collections.abc import Collection
from types import TracebackType
from typing import Any, Self

import httpx2

from rota.testing.tracker.faults import FaultKind
from rota.testing.tracker.hub import TokenKind

Json = dict[str, Any]


class ControlRefused(AssertionError):
    """The test asked the stub for something that makes no sense."""


class Control:
    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=f"{url}/_control/", timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def ask(self, method: str, path: str, /, **fields: Any) -> Any:
        """Fields that are None are left out."""
        given = {name: value for name, value in fields.items() if value is not None}
        answer = self._http.request(method, path, json=given)
        if answer.status_code != 200:
            raise ControlRefused(f"{method} {path}: {answer.json()['message']}")
        return answer.json()

    # Setup

    def reset(self, seed: int | str = 0) -> None:
        self.ask("POST", "reset", seed=seed)

    def user(self, login: str, *, id: int | None = None, kind: str = "User") -> int:  # noqa: A002 - as on the wire
        """Returns the account's number."""
        number: int = self.ask("POST", "users", login=login, id=id, kind=kind)["id"]
        return number

    def token(
        self,
        login: str,
        token: str | None = None,
        *,
        kind: TokenKind | str = TokenKind.CLASSIC,
        scopes: Collection[str] = ("repo",),
        repos: Collection[str] | None = None,
        lacks: Collection[str] = (),
    ) -> str:
        """A token of this account, `token-LOGIN` by default. `repos` and `lacks` narrow a token
        that is not classic: `lacks=["contents"]` may not create references."""
        text = token or f"token-{login}"
        narrowed = None if repos is None else list(repos)
        self.ask(
            "POST", "tokens", login=login, token=text, kind=str(kind), scopes=list(scopes),
            repos=narrowed, lacks=list(lacks),
        )  # fmt: skip
        return text

    def revoke(self, token: str) -> None:
        self.ask("DELETE", f"tokens/{token}")

    def repo(
        self,
        name: str,
        *,
        private: bool = False,
        collaborators: Collection[str] = (),
        labels: Collection[str] = (),
        default_branch: str = "main",
    ) -> int:
        """`owner/name`. If the owner is an organisation, `user` has to create it first."""
        made = self.ask(
            "POST", "repos", name=name, private=private, collaborators=list(collaborators),
            labels=list(labels), default_branch=default_branch,
        )  # fmt: skip
        number: int = made["id"]
        return number

    def issue(
        self,
        repo: str,
        title: str = "An issue",
        *,
        body: str = "",
        user: str | None = None,
        labels: Collection[str] = (),
        pull_request: bool = False,
        blocked_by: Collection[int] = (),
        assignee: str | None = None,
        milestone: str | None = None,
    ) -> int:
        """Returns the issue's number."""
        made = self.ask(
            "POST", f"repos/{repo}/issues", title=title, body=body, user=user, labels=list(labels),
            pull_request=pull_request, blocked_by=list(blocked_by), assignee=assignee,
            milestone=milestone,
        )  # fmt: skip
        number: int = made["number"]
        return number

    # Changes

    def label(
        self,
        repo: str,
        number: int,
        *,
        add: Collection[str] = (),
        remove: Collection[str] = (),
        by: str | None = None,
    ) -> None:
        path = f"repos/{repo}/issues/{number}/labels"
        self.ask("POST", path, add=list(add), remove=list(remove), by=by)

    def comment(
        self, repo: str, number: int, body: str, *, user: str, created_at: str | None = None
    ) -> int:
        """By any account, with any date. Returns its id."""
        path = f"repos/{repo}/issues/{number}/comments"
        made: int = self.ask("POST", path, body=body, user=user, created_at=created_at)["id"]
        return made

    def edit_comment(self, repo: str, comment: int, body: str) -> None:
        self.ask("PATCH", f"repos/{repo}/comments/{comment}", body=body)

    def edit(self, repo: str, number: int, **fields: Any) -> None:
        """`by`, `title`, `body`, `state`, `state_reason`, `blocked_by`, `merged`."""
        self.ask("PATCH", f"repos/{repo}/issues/{number}", **fields)

    def delete(self, repo: str, number: int, *, status: int = 410) -> None:
        """404 instead of 410: as if it had become invisible."""
        self.ask("POST", f"repos/{repo}/issues/{number}/delete", status=status)

    def transfer(self, repo: str, number: int, to: str) -> int:
        """Returns its number in the other repository."""
        moved: int = self.ask("POST", f"repos/{repo}/issues/{number}/transfer", to=to)["number"]
        return moved

    # Faults, limits, time

    def fault(self, kind: FaultKind | str, **options: Any) -> int:
        """Switch a fault on; see `rota.testing.tracker.faults.Fault` for the options."""
        number: int = self.ask("POST", "faults", kind=str(kind), **options)["id"]
        return number

    def faults(self) -> list[Json]:
        """The active faults, with how often each has struck (`hits`)."""
        found: list[Json] = self.ask("GET", "faults")
        return found

    def clear_faults(self, number: int | None = None) -> None:
        self.ask("DELETE", "faults" if number is None else f"faults/{number}")

    def limit(self, login: str = "", **fields: Any) -> None:
        """`limit`, `remaining`, `reset_in` seconds, `resource`: "core" or "graphql"."""
        self.ask("POST", "limits", login=login, **fields)

    def clock(self, **fields: Any) -> str:
        """`freeze`, `granularity`, `at`, `advance`. Returns the stub's time afterwards."""
        now: str = self.ask("POST", "clock", **fields)["now"]
        return now

    # What happened

    def state(self) -> Json:
        found: Json = self.ask("GET", "state")
        return found

    def look(self, repo: str, number: int) -> Json:
        """One issue as it really is: title, state, labels, comments, events."""
        found: Json = self.state()["repos"][repo]["issues"][str(number)]
        return found

    def requests(self) -> list[Json]:
        found: list[Json] = self.ask("GET", "requests")["requests"]
        return found

    def counts(self) -> Json:
        found: Json = self.ask("GET", "requests")["counts"]
        return found

    def forget_requests(self) -> None:
        self.ask("DELETE", "requests")

    def webhook(self, url: str, secret: str, repo: str, **fields: Any) -> list[int]:
        """Deliver one; see `rota.testing.tracker.orders.Delivery`. Returns the statuses."""
        sent = self.ask("POST", "webhooks", url=url, secret=secret, repo=repo, **fields)
        statuses: list[int] = sent["statuses"]
        return statuses
