"""Gitea's JSON for each thing. It differs from GitHub's in unexpected places: `pull_request` is
always there, an empty `assignees` is null, label colours have no `#`."""

from rota.testing.tracker.clock import text_of
from rota.testing.tracker.http import Json
from rota.testing.tracker.hub import Account, Comment, Event, Issue, Label, Repository
from rota.testing.tracker.views import View


def account(base: str, one: Account) -> Json:
    return {
        "id": one.id,
        "login": one.login,
        "username": one.login,
        "login_name": "",
        "full_name": "",
        "email": f"{one.login}@noreply.example.org",
        "html_url": f"{base}/{one.login}",
        "is_admin": False,
        "active": True,
        "visibility": "public",
    }


def repository(base: str, one: Repository) -> Json:
    return {
        "id": one.id,
        "owner": account(base, one.owner),
        "name": one.name,
        "full_name": one.full_name,
        "private": one.private,
        "internal": False,
        "archived": False,
        "has_issues": True,
        "default_branch": one.default_branch,
        "html_url": f"{base}/{one.full_name}",
        "url": f"{base}/api/v1/repos/{one.full_name}",
    }


def label(base: str, repo: Repository, one: Label) -> Json:
    return {
        "id": one.id,
        "name": one.name,
        "exclusive": False,
        "is_archived": False,
        "color": one.color,
        "description": one.description,
        "url": f"{base}/api/v1/repos/{repo.full_name}/labels/{one.id}",
    }


def issue(base: str, repo: Repository, one: Issue, view: View) -> Json:
    closed = one.standing(view).closed
    page = _page(base, repo, one)
    assignee = account(base, one.assignee) if one.assignee else None
    return {
        "id": one.id,
        "url": f"{base}/api/v1/repos/{repo.full_name}/issues/{one.number}",
        "html_url": page,
        "number": one.number,
        "user": account(base, one.author),
        "original_author": "",
        "original_author_id": 0,
        "title": one.title,
        "body": one.body,
        "ref": "",
        "assets": [],
        "labels": [label(base, repo, each) for each in one.labels(view)],
        "milestone": {"id": 1, "title": one.milestone} if one.milestone else None,
        "assignee": assignee,
        "assignees": [assignee] if assignee else None,
        "state": "closed" if closed else "open",
        "is_locked": False,
        "comments": len(one.seen_comments(view)),
        "created_at": text_of(one.stamp.at),
        "updated_at": text_of(one.updated_at),
        "closed_at": text_of(closed.stamp.at) if closed else None,
        "due_date": None,
        "pull_request": _pull_request(page) if one.is_pull else None,
        "repository": {
            "id": repo.id,
            "name": repo.name,
            "owner": repo.owner.login,
            "full_name": repo.full_name,
        },
        "pin_order": 0,
    }


def pull(base: str, repo: Repository, one: Issue, view: View) -> Json:
    shown = issue(base, repo, one, view)
    merged = one.merged_at if shown["state"] == "closed" else None
    kept = ("id", "number", "title", "body", "user", "labels", "state", "is_locked", "html_url")
    times = ("created_at", "updated_at", "closed_at", "due_date")
    return {
        **{name: shown[name] for name in (*kept, *times)},
        "url": f"{base}/api/v1/repos/{repo.full_name}/pulls/{one.number}",
        "draft": False,
        "merged": merged is not None,
        "merged_at": text_of(merged) if merged else None,
    }


def _pull_request(page: str) -> Json:
    return {"merged": False, "merged_at": None, "draft": False, "html_url": page}


def _page(base: str, repo: Repository, one: Issue) -> str:
    return f"{base}/{repo.full_name}/{'pulls' if one.is_pull else 'issues'}/{one.number}"


def comment(base: str, repo: Repository, on: Issue, one: Comment) -> Json:
    page = _page(base, repo, on)
    return {
        "id": one.id,
        "html_url": f"{page}#issuecomment-{one.id}",
        "pull_request_url": page if on.is_pull else "",
        "issue_url": "" if on.is_pull else page,
        "user": account(base, one.author),
        "original_author": "",
        "original_author_id": 0,
        "body": one.body,
        "assets": [],
        "created_at": text_of(one.stamp.at),
        "updated_at": text_of(one.updated_at),
    }


_TYPES = {"closed": "close", "reopened": "reopen", "renamed": "change_title"}


def event(base: str, repo: Repository, on: Issue, one: Event) -> Json:
    """An entry of the timeline; a label's body is "1" when added, and empty when removed."""
    return {
        "id": one.id,
        "type": "label" if one.label else _TYPES[one.kind],
        "html_url": f"{_page(base, repo, on)}#event-{one.id}",
        "user": account(base, one.actor),
        "body": "1" if one.kind == "labeled" else "",
        "created_at": text_of(one.stamp.at),
        "updated_at": text_of(one.stamp.at),
        "label": label(base, repo, one.label) if one.label else None,
        "old_title": one.rename[0] if one.rename else "",
        "new_title": one.rename[1] if one.rename else "",
    }
