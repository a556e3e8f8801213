"""What the claim protocol asks of a tracker: one repository's issues, labels and comments.

Implementations (GitHub, Gitea) translate their API's errors to `IssueNotFound`,
`AnswerUnknown` and `TrackerError`; nothing of theirs comes through. These
docstrings are the contract; `rota.testing.tracker` has a server to try it on.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Account:
    """Who wrote something. Only the number identifies: logins can be renamed and taken over."""

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
    open_blockers: int = 0  # issues the tracker itself says this one waits for


@dataclass(frozen=True, slots=True)
class Labelling:
    """Somebody put a label on an issue (and it may have been taken off since)."""

    label: str
    by: Account
    at: datetime


@dataclass(frozen=True, slots=True)
class TextEdit:
    """The last time an issue's title or body was changed, and by whom (None: not known)."""

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
    sha: str
    message: str
    created_at: datetime


class Tracker(Protocol):
    """One repository. Reads are conditional: what has not changed costs no rate limit.

    Every call has a timeout, obeys the tracker's limits and retries what is safe
    to repeat. A failed read raises; it never looks like an empty answer.
    """

    kind: str  # "github", "gitea"
    repo: str  # "owner/name"
    host: str  # of its web pages: "github.com"

    @property
    def pages(self) -> str:
        """Below which its repositories have theirs: the host, and a path where it has one."""

    @property
    def source(self) -> str:
        """As the ledger names it: `github:owner/name`."""

    async def account(self) -> Account:
        """The account our token belongs to; asked once and remembered."""

    async def owner(self) -> Account | None:
        """The person the repository belongs to; None for an organisation."""

    async def is_public(self) -> bool: ...

    async def find_account(self, login: str) -> Account | None: ...

    async def issue(self, number: int) -> Issue:
        """Raises `IssueNotFound`. A pull request is returned as what it is."""

    async def pull_request(self, number: int) -> PullRequest:
        """Raises `IssueNotFound`, also where the number is an issue's."""

    async def is_open(self, repo: str, number: int) -> bool:
        """Whether an issue or pull request is open, in any repository of this host; raises
        `IssueNotFound`, also where the token does not see it."""

    async def issues(self, *, labels: Sequence[str] = ()) -> list[Issue]:
        """The open issues that carry all of these labels, oldest first, from every page;
        never pull requests."""

    async def comments(self, number: int) -> list[Comment]:
        """From every page, each once, in the order of their ids."""

    async def comment(self, number: int, body: str) -> Comment:
        """Post once. `AnswerUnknown` means: it may stand there, look before you repeat."""

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        """Leaves other labels alone; labels that the repository lacks are created."""

    async def remove_label(self, number: int, label: str) -> None:
        """Fine when the issue does not carry it."""

    async def close(self, number: int) -> None:
        """As completed; fine when it is closed."""

    async def labellings(self, number: int) -> list[Labelling]:
        """Who put which label on, oldest first."""

    async def last_edit(self, number: int, *, but: Collection[int] = ()) -> TextEdit | None:
        """The last edit that was not made by one of these accounts. None: never edited so since
        it was opened, or the tracker does not say."""

    # Strict mode. A tracker without git references raises `TrackerError`.

    async def refs(self, prefix: str) -> list[Ref]:
        """The references below `refs/<prefix>`, by name."""

    async def create_ref(self, name: str, message: str) -> bool:
        """Create `refs/<name>` on a commit of its own; False when it exists already.

        The commit holds `message`, which must differ between callers: two creates
        on one commit would both succeed. An unknown answer is settled by looking.
        """

    async def aclose(self) -> None: ...
