"""What the claim protocol asks of a tracker: one repository's issues, labels and comments.

Implementations (GitHub, Gitea) translate their API's errors to `IssueNotFound`, `AnswerUnknown` and
`TrackerError`; no other error of theirs comes through. These docstrings are the contract;
`rota.testing.tracker` has a server to try it on.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Account:
    """An account on the tracker. Only the id identifies it: logins can be renamed and taken
    over."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    author: Account
    body: str
    created_at: datetime
    updated_at: datetime

    @property
    def edited(self) -> bool:
        return self.updated_at > self.created_at


@dataclass(frozen=True, slots=True)
class Issue:
    number: int
    title: str
    body: str
    labels: tuple[str, ...]
    is_open: bool
    is_pull_request: bool
    author: Account
    url: str
    created_at: datetime
    updated_at: datetime
    assignee: str | None = None
    milestone: str | None = None
    open_blockers: int = 0  # the tracker's own count of open issues that block this one


@dataclass(frozen=True, slots=True)
class Labelling:
    """A label was put on an issue; it may have been removed since."""

    label: str
    by: Account
    at: datetime


@dataclass(frozen=True, slots=True)
class TextEdit:
    """The last change of an issue's title or body, and its author (None: not known)."""

    at: datetime
    by: Account | None


@dataclass(frozen=True, slots=True)
class PullRequest:
    number: int
    is_open: bool
    is_merged: bool


@dataclass(frozen=True, slots=True)
class Ref:
    """A git reference outside branches and tags, with the message of its own commit."""

    name: str
    message: str
    created_at: datetime


class Tracker(Protocol):
    """One repository. Reads are conditional: unchanged answers cost no rate limit.

    Every call has a timeout, obeys the tracker's limits and retries what is safe to repeat. A
    failed read raises; it never looks like an empty answer.
    """

    kind: str  # "github", "gitea"
    repo: str  # "owner/name"
    host: str  # of its web pages: "github.com"

    @property
    def pages(self) -> str:
        """The base of its repositories' page addresses: the host, and a path where there is one."""

    @property
    def source(self) -> str:
        """Its name in the ledger: `github:owner/name`."""

    async def account(self) -> Account:
        """The account that our token belongs to; fetched once and remembered."""

    async def owner(self) -> Account | None:
        """The person the repository belongs to; None for an organisation."""

    async def is_public(self) -> bool: ...

    async def find_account(self, login: str) -> Account | None: ...

    async def issue(self, number: int) -> Issue:
        """Raises `IssueNotFound`. A pull request is returned with `is_pull_request` set."""

    async def pull_request(self, number: int) -> PullRequest:
        """Raises `IssueNotFound`, also when the number is that of an issue."""

    async def is_open(self, repo: str, number: int) -> bool:
        """Whether an issue or pull request is open, in any repository of this host. Raises
        `IssueNotFound`, also when the token cannot see it."""

    async def issues(self, *, labels: Sequence[str] = ()) -> list[Issue]:
        """The open issues that carry all of these labels, oldest first, from every page; never pull
        requests."""

    async def comments(self, number: int) -> list[Comment]:
        """From every page, each once, in the order of their ids."""

    async def comment(self, number: int, body: str) -> Comment:
        """Post once. `AnswerUnknown`: the comment may have been stored; look before you repeat."""

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        """Leaves other labels alone. Labels that the repository lacks are created."""

    async def remove_label(self, number: int, label: str) -> None:
        """No error when the issue does not carry the label."""

    async def close(self, number: int) -> None:
        """Close as completed; no error when the issue is already closed."""

    async def labellings(self, number: int) -> list[Labelling]:
        """Which account put which label on, oldest first."""

    async def last_edit(self, number: int, *, but: Collection[int] = ()) -> TextEdit | None:
        """The last edit by an account that is not in `but`. None: no such edit since the issue was
        opened, or the tracker does not tell."""

    # Strict mode. A tracker without git references raises `TrackerError`.

    async def refs(self, prefix: str) -> list[Ref]:
        """The references below `refs/<prefix>`, sorted by name."""

    async def create_ref(self, name: str, message: str) -> bool:
        """Create `refs/<name>` on a commit of its own; False when it exists already.

        The commit holds `message`, which must differ between callers: two creates on the same
        commit would both succeed. After an unknown answer, the reference is read to find out.
        """

    async def aclose(self) -> None: ...
