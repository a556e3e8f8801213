"""GitHub's JSON for each thing: the fields that clients read."""

from rota.testing.tracker.clock import text_of
from rota.testing.tracker.git import Commit, Signature
from rota.testing.tracker.http import Json
from rota.testing.tracker.hub import Account, Comment, Event, Issue, Label, Repository
from rota.testing.tracker.views import View


def account(base: str, one: Account) -> Json:
    return {
        "login": one.login,
        "id": one.id,
        "node_id": f"U_{one.id}",
        "type": one.kind,
        "site_admin": False,
        "url": f"{base}/users/{one.login}",
        "html_url": f"{base}/{one.login}",
        "avatar_url": f"{base}/avatars/{one.id}",
    }


def repository(base: str, one: Repository) -> Json:
    return {
        "id": one.id,
        "node_id": f"R_{one.id}",
        "name": one.name,
        "full_name": one.full_name,
        "private": one.private,
        "visibility": "private" if one.private else "public",
        "owner": account(base, one.owner),
        "html_url": f"{base}/{one.full_name}",
        "url": f"{base}/repos/{one.full_name}",
        "default_branch": one.default_branch,
        "archived": False,
        "disabled": False,
        "has_issues": True,
    }


def label(base: str, repo: Repository, one: Label) -> Json:
    return {
        "id": one.id,
        "node_id": f"LA_{one.id}",
        "url": f"{base}/repos/{repo.full_name}/labels/{one.name}",
        "name": one.name,
        "color": one.color,
        "default": False,
        "description": one.description or None,
    }


def issue(base: str, repo: Repository, one: Issue, view: View) -> Json:
    standing = one.standing(view)
    closed = standing.closed
    address = f"{base}/repos/{repo.full_name}/issues/{one.number}"
    page = f"{base}/{repo.full_name}/{'pull' if one.is_pull else 'issues'}/{one.number}"
    shape = {
        "id": one.id,
        "node_id": f"I_{one.id}",
        "number": one.number,
        "title": one.title,
        "body": one.body or None,
        "user": account(base, one.author),
        "author_association": association(repo, one.author),
        "labels": [label(base, repo, each) for each in one.labels(view)],
        "state": standing.state,
        "state_reason": standing.reason,
        "locked": False,
        "assignee": account(base, one.assignee) if one.assignee else None,
        "assignees": [account(base, one.assignee)] if one.assignee else [],
        "milestone": {"title": one.milestone, "number": 1} if one.milestone else None,
        "comments": len(one.seen_comments(view)),
        "created_at": text_of(one.stamp.at),
        "updated_at": text_of(one.updated_at),
        "closed_at": text_of(closed.stamp.at) if closed else None,
        "closed_by": account(base, closed.actor) if closed else None,
        "url": address,
        "repository_url": f"{base}/repos/{repo.full_name}",
        "comments_url": f"{address}/comments",
        "events_url": f"{address}/events",
        "html_url": page,
        "issue_dependencies_summary": _dependencies(repo, one),
        "performed_via_github_app": None,
    }
    if one.is_pull:
        shape["pull_request"] = {"url": address.replace("/issues/", "/pulls/"), "html_url": page}
    return shape


def pull(base: str, repo: Repository, one: Issue, view: View) -> Json:
    shown = issue(base, repo, one, view)
    closed = shown["state"] == "closed"
    merged = one.merged_at if closed else None
    kept = ("id", "number", "title", "body", "user", "labels", "state", "locked", "html_url")
    times = ("created_at", "updated_at", "closed_at")
    return {
        **{name: shown[name] for name in (*kept, *times)},
        "url": f"{base}/repos/{repo.full_name}/pulls/{one.number}",
        "draft": False,
        "merged": merged is not None,
        "merged_at": text_of(merged) if merged else None,
    }


def _dependencies(repo: Repository, one: Issue) -> Json:
    def still_open(issues: list[Issue]) -> int:
        return sum(each.standing().state == "open" for each in issues)

    blockers, blocked = repo.blockers(one), repo.blocked(one)
    return {
        "blocked_by": still_open(blockers),
        "total_blocked_by": len(blockers),
        "blocking": still_open(blocked),
        "total_blocking": len(blocked),
    }


def association(repo: Repository, author: Account) -> str:
    if author.login == repo.owner.login:
        return "OWNER"
    return "COLLABORATOR" if author.login.casefold() in repo.collaborators else "NONE"


def comment(base: str, repo: Repository, on: Issue, one: Comment) -> Json:
    address = f"{base}/repos/{repo.full_name}/issues"
    return {
        "id": one.id,
        "node_id": f"IC_{one.id}",
        "body": one.body,
        "user": account(base, one.author),
        "author_association": association(repo, one.author),
        "created_at": text_of(one.stamp.at),
        "updated_at": text_of(one.updated_at),
        "url": f"{address}/comments/{one.id}",
        "issue_url": f"{address}/{on.number}",
        "html_url": f"{base}/{repo.full_name}/issues/{on.number}#issuecomment-{one.id}",
        "performed_via_github_app": None,
    }


def event(base: str, repo: Repository, one: Event) -> Json:
    shape = {
        "id": one.id,
        "node_id": f"EV_{one.id}",
        "url": f"{base}/repos/{repo.full_name}/issues/events/{one.id}",
        "event": one.kind,
        "actor": account(base, one.actor),
        "commit_id": None,
        "commit_url": None,
        "created_at": text_of(one.stamp.at),
        "performed_via_github_app": None,
    }
    if one.label:
        shape["label"] = {"name": one.label.name, "color": one.label.color}
    if one.rename:
        shape["rename"] = {"from": one.rename[0], "to": one.rename[1]}
    if one.kind == "closed":
        shape["state_reason"] = one.reason
    return shape


def commit(base: str, repo: Repository, one: Commit) -> Json:
    address = f"{base}/repos/{repo.full_name}/git"
    return {
        "sha": one.sha,
        "node_id": f"C_{one.sha}",
        "url": f"{address}/commits/{one.sha}",
        "html_url": f"{base}/{repo.full_name}/commit/{one.sha}",
        "message": one.message,
        "tree": {"sha": one.tree, "url": f"{address}/trees/{one.tree}"},
        "parents": [{"sha": each, "url": f"{address}/commits/{each}"} for each in one.parents],
        "author": signature(one.author),
        "committer": signature(one.committer),
        "verification": {"verified": False, "reason": "unsigned"},
    }


def signature(one: Signature) -> Json:
    return {"name": one.name, "email": one.email, "date": text_of(one.date)}


def ref(base: str, repo: Repository, name: str, sha: str) -> Json:
    address = f"{base}/repos/{repo.full_name}/git"
    return {
        "ref": name,
        "node_id": f"REF_{sha}",
        "url": f"{address}/{name}",
        "object": {"type": "commit", "sha": sha, "url": f"{address}/commits/{sha}"},
    }
