"""What the stub knows: accounts, tokens, repositories, issues and what happened to them.

Everything that a read may miss for a while (an issue, a comment, a label put on
or taken off, a closing) carries a `Stamp`; labels and state of an issue are folded
from its events, so that a read can see them as they were.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import count

from rota.testing.tracker.git import GitStore
from rota.testing.tracker.views import EVERYTHING, Stamp, View


class TokenKind(StrEnum):
    CLASSIC = "classic"  # a header names its scopes
    FINE_GRAINED = "fine_grained"
    INSTALLATION = "installation"  # of an app: has no user


@dataclass(frozen=True, slots=True)
class Account:
    id: int
    login: str
    kind: str = "User"  # or Organization, Bot


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    account: Account
    kind: TokenKind = TokenKind.CLASSIC
    scopes: tuple[str, ...] = ("repo",)  # of classic tokens
    repos: frozenset[str] | None = None  # full names in lower case; None: all
    lacks: frozenset[str] = frozenset()  # permissions not given: "issues", "contents"


@dataclass(frozen=True, slots=True)
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    id: int
    kind: str  # labeled, unlabeled, closed, reopened, renamed
    actor: Account
    stamp: Stamp
    label: Label | None = None
    reason: str | None = None  # of a closing
    rename: tuple[str, str] | None = None


@dataclass(slots=True, eq=False)
class Comment:
    id: int
    author: Account
    body: str
    stamp: Stamp
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an issue is open, as one read sees it."""

    closed: Event | None = None  # the event that closed it
    reopened: bool = False

    @property
    def state(self) -> str:
        return "open" if self.closed is None else "closed"

    @property
    def reason(self) -> str | None:
        if self.closed is None:
            return "reopened" if self.reopened else None
        return self.closed.reason


@dataclass(slots=True, eq=False)
class Issue:
    id: int
    number: int
    title: str
    body: str
    author: Account
    stamp: Stamp
    updated_at: datetime
    is_pull: bool = False
    merged_at: datetime | None = None  # of a pull request
    assignee: Account | None = None
    milestone: str | None = None
    blocked_by: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    edited_at: datetime | None = None  # of the body, as GraphQL returns it
    editor: Account | None = None

    def labels(self, view: View = EVERYTHING) -> list[Label]:
        carried: dict[int, Label] = {}
        for event in self.events:
            if event.label is None or not view.sees("labels", event.id, event.stamp):
                continue
            if event.kind == "labeled":
                carried[event.label.id] = event.label
            else:
                carried.pop(event.label.id, None)
        return list(carried.values())

    def standing(self, view: View = EVERYTHING) -> Standing:
        standing = Standing()
        for event in self.events:
            if event.kind == "closed" and view.sees("issues", event.id, event.stamp):
                standing = Standing(closed=event)
            elif event.kind == "reopened" and view.sees("issues", event.id, event.stamp):
                standing = Standing(reopened=True)
        return standing

    def seen_comments(self, view: View = EVERYTHING) -> list[Comment]:
        return [one for one in self.comments if view.sees("comments", one.id, one.stamp)]


@dataclass(frozen=True, slots=True)
class Gone:
    """Where an issue was: deleted (410), hidden (404), or moved (301)."""

    status: int
    moved_to: tuple[int, int] | None = None  # repository id, number


@dataclass(slots=True, eq=False)
class Repository:
    id: int
    owner: Account
    name: str
    git: GitStore
    private: bool = False
    default_branch: str = "main"
    collaborators: set[str] = field(default_factory=set)  # logins in lower case
    labels: dict[int, Label] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    gone: dict[int, Gone] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    def next_number(self) -> int:
        return 1 + max((*self.issues, *self.gone), default=0)

    def label_named(self, name: str) -> Label | None:
        wanted = name.casefold()
        return next((one for one in self.labels.values() if one.name.casefold() == wanted), None)

    def comment(self, comment_id: int) -> tuple[Issue, Comment] | None:
        for issue in self.issues.values():
            for comment in issue.comments:
                if comment.id == comment_id:
                    return issue, comment
        return None

    def blockers(self, issue: Issue) -> list[Issue]:
        return [self.issues[one] for one in issue.blocked_by if one in self.issues]

    def blocked(self, issue: Issue) -> list[Issue]:
        return [one for one in self.issues.values() if issue.number in one.blocked_by]


class Hub:
    """All records. Ids ascend over everything, so a later comment has a higher one."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.tokens: dict[str, Token] = {}
        self.repositories: dict[str, Repository] = {}
        self._ids = count(1001)

    def new_id(self) -> int:
        return next(self._ids)

    def account(self, login: str) -> Account:
        """The account with this login; a new user if there is none."""
        return self.accounts.get(login.casefold()) or self.add_account(login)

    def add_account(self, login: str, account_id: int | None = None, kind: str = "User") -> Account:
        account = Account(account_id or self.new_id(), login, kind)
        self.accounts[login.casefold()] = account
        return account

    def repository(self, full_name: str) -> Repository | None:
        return self.repositories.get(full_name.casefold())

    def repository_by_id(self, repository_id: int) -> Repository | None:
        return next((one for one in self.repositories.values() if one.id == repository_id), None)

    def add_repository(
        self,
        full_name: str,
        stamp: Stamp,
        *,
        private: bool = False,
        default_branch: str = "main",
        collaborators: Iterable[str] = (),
    ) -> Repository:
        login, _, name = full_name.partition("/")
        git = GitStore.with_branch(default_branch, stamp.at)
        repository = Repository(
            self.new_id(), self.account(login), name, git, private, default_branch
        )
        repository.collaborators |= {self.account(one).login.casefold() for one in collaborators}
        self.repositories[full_name.casefold()] = repository
        return repository
