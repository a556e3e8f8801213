"""Accounts, issues and comments from the shapes that GitHub, Gitea and Forgejo share."""

import re
from datetime import UTC, datetime
from typing import Any

from rota.claims.port import Account, Comment, Issue, PullRequest

# The author's account was deleted. No account has this id, so it never makes a text trusted.
GHOST = Account(0, "ghost")

_BREAKS = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def account_of(raw: Any) -> Account:
    return Account(int(raw["id"]), str(raw["login"]))


def author_of(raw: Any) -> Account:
    return GHOST if raw is None else account_of(raw)


def comment_of(raw: Any) -> Comment:
    return Comment(
        id=int(raw["id"]),
        author=author_of(raw["user"]),
        body=text_of(raw.get("body")),
        created_at=moment_of(raw["created_at"]),
        updated_at=moment_of(raw["updated_at"]),
    )


def issue_of(raw: Any) -> Issue:
    return Issue(
        number=int(raw["number"]),
        title=title_of(raw["title"]),
        body=text_of(raw.get("body")),
        labels=tuple(_label_of(one) for one in raw.get("labels") or ()),
        is_open=raw["state"] == "open",
        is_pull_request=raw.get("pull_request") is not None,
        author=author_of(raw["user"]),
        url=str(raw["html_url"]),
        created_at=moment_of(raw["created_at"]),
        updated_at=moment_of(raw["updated_at"]),
        assignee=_named(raw.get("assignee"), "login"),
        milestone=_named(raw.get("milestone"), "title"),
        open_blockers=_open_blockers(raw.get("issue_dependencies_summary")),
    )


def pull_request_of(raw: Any) -> PullRequest:
    merged = raw["merged"]
    if not isinstance(merged, bool):  # a guess could complete an item that nobody has accepted
        raise TypeError("merged is neither true nor false")
    return PullRequest(int(raw["number"]), raw["state"] == "open", merged)


def moment_of(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def text_of(text: str | None) -> str:
    """The text as written, with NUL and lone surrogates replaced: no database takes them."""
    return (text or "").replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def title_of(text: str | None) -> str:
    """One line. Other invisible characters are left to the trust gate."""
    return _CONTROL.sub("", _BREAKS.sub(" ", text_of(text))).strip()


def _label_of(raw: Any) -> str:
    return str(raw if isinstance(raw, str) else raw["name"])


def _named(raw: Any, key: str) -> str | None:
    return None if raw is None else str(raw[key])


def _open_blockers(summary: Any) -> int:
    return 0 if summary is None else int(summary.get("blocked_by") or 0)
