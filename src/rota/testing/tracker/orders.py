"""The bodies of requests to `/_control/`, one type each."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.testing.tracker.hub import TokenKind


class Order(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class NewUser(Order):
    login: str
    id: int | None = None
    kind: Literal["User", "Organization", "Bot"] = "User"


class NewToken(Order):
    login: str
    token: str
    kind: TokenKind = TokenKind.CLASSIC
    scopes: tuple[str, ...] = ("repo",)
    repos: frozenset[str] | None = None  # of a token that is not classic
    lacks: frozenset[Literal["issues", "contents"]] = frozenset()


class NewRepo(Order):
    name: Annotated[str, Meta(pattern="^[^/]+/[^/]+$")]  # owner/name
    private: bool = False
    default_branch: str = "main"
    collaborators: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class NewIssue(Order):
    title: str = "An issue"
    body: str = ""
    user: str | None = None  # by default the repository's owner
    labels: tuple[str, ...] = ()
    pull_request: bool = False
    blocked_by: tuple[int, ...] = ()
    assignee: str | None = None
    milestone: str | None = None


class LabelEdit(Order):
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    by: str | None = None


class NewComment(Order):
    body: str
    user: str
    created_at: str | None = None


class CommentEdit(Order):
    body: str


class IssueEdit(Order):
    by: str | None = None
    title: str | None = None
    body: str | None = None
    state: Literal["open", "closed"] | None = None
    state_reason: str | None = None
    blocked_by: tuple[int, ...] | None = None
    merged: bool = False  # also closes the pull request


class Deletion(Order):
    status: Literal[404, 410] = 410


class Transfer(Order):
    to: str


class Limit(Order):
    login: str = ""  # empty: callers without a token
    resource: Literal["core", "graphql"] = "core"
    limit: int | None = None
    remaining: int | None = None
    reset_in: int | None = None


class ClockChange(Order):
    """Applied in this order: thaw or freeze, set, move."""

    freeze: bool | None = None
    granularity: int | None = None
    at: str | None = None
    advance: float | None = None


class Reset(Order):
    seed: int | str = 0


class Delivery(Order):
    """A webhook: signed, and sent `times` times with the same delivery id."""

    url: str
    secret: str
    repo: str
    number: int | None = None
    dialect: Literal["github", "gitea"] = "github"
    event: str = "issues"
    action: str = "labeled"
    label: str | None = None
    comment: int | None = None
    sender: str | None = None
    payload: dict[str, Any] = {}  # merged over the default payload
    delivery: str | None = None
    times: Annotated[int, Meta(ge=1, le=100)] = 1
