"""GitHub's endpoints for users, repositories, issues, comments, labels and events."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rota.testing.tracker import changes
from rota.testing.tracker import github_shapes as shapes
from rota.testing.tracker.access import must_comment, must_write
from rota.testing.tracker.call import Call
from rota.testing.tracker.clock import text_of
from rota.testing.tracker.http import Answer, Json, Rejection, Routes
from rota.testing.tracker.hub import Comment, Issue, Label, Repository, TokenKind
from rota.testing.tracker.views import EVERYTHING

T = TypeVar("T")

routes = Routes()

LONGEST_BODY = 65_536
LONGEST_LABEL = 50
REPO = "/repos/{owner}/{name}"
ISSUE = REPO + "/issues/{number}"


@routes("GET", "/user")
def user(call: Call) -> Answer:
    account = call.account
    if call.token and call.token.kind is TokenKind.INSTALLATION:
        raise Rejection(403, "Resource not accessible by integration")
    return Answer(content=shapes.account(call.request.base, account))


@routes("GET", "/users/{login}")
def user_by_login(call: Call, login: str) -> Answer:
    account = call.hub.accounts.get(login.casefold())
    if account is None:
        raise Rejection(404, "Not Found")
    return Answer(content=shapes.account(call.request.base, account))


@routes("GET", REPO)
def repository(call: Call, repo: Repository) -> Answer:
    return Answer(content=shapes.repository(call.request.base, repo))


@routes("GET", REPO + "/issues")
def list_issues(call: Call, repo: Repository) -> Answer:
    """Pull requests are issues, too; newest first by default."""
    query, view, since = call.request.query, call.view, call.since()
    state = query.get("state", "open")
    wanted = {one.strip().casefold() for one in query.get("labels", "").split(",") if one.strip()}
    found = [
        one
        for one in repo.issues.values()
        if view.sees("issues", one.id, one.stamp)
        and state in ("all", one.standing(view).state)
        and wanted <= {label.name.casefold() for label in one.labels(view)}
        and (since is None or one.updated_at >= since)
    ]
    order = "updated_at" if query.get("sort") == "updated" else "number"
    found.sort(
        key=lambda one: (getattr(one, order), one.number),
        reverse=query.get("direction", "desc") == "desc",
    )
    return _list(call, repo, found, lambda one: _issue(call, repo, one))


@routes("GET", ISSUE)
def get_issue(call: Call, repo: Repository, issue: Issue) -> Answer:
    return Answer(content=_issue(call, repo, issue))


@routes("GET", REPO + "/pulls/{number}")
def get_pull(call: Call, repo: Repository, issue: Issue) -> Answer:
    """404 for an issue that is not a pull request."""
    if not issue.is_pull:
        raise Rejection(404, "Not Found")
    return Answer(content=shapes.pull(call.request.base, repo, issue, call.view))


@routes("PATCH", ISSUE)
def edit_issue(call: Call, repo: Repository, issue: Issue) -> Answer:
    if call.account != issue.author:
        must_write(call.token, repo)
    fields = call.fields()
    state, reason = call.text(fields, "state"), call.text(fields, "state_reason")
    if state not in (None, "open", "closed"):
        raise invalid("Issue", "state", "invalid")
    title, body = call.text(fields, "title"), call.text(fields, "body")
    if title is not None and not title.strip():
        raise invalid("Issue", "title", "missing_field")
    labels = _named_labels(call, repo, fields["labels"]) if "labels" in fields else None
    changes.edit_text(call.hub, issue, call.account, call.stamp, title=title, body=body)
    if labels is not None:
        changes.replace_labels(call.hub, issue, labels, call.account, call.stamp)
    if state:
        changes.set_state(call.hub, issue, call.account, call.stamp, state=state, reason=reason)
    return Answer(content=shapes.issue(call.request.base, repo, issue, EVERYTHING))


@routes("GET", ISSUE + "/dependencies/blocked_by")
def list_blockers(call: Call, repo: Repository, issue: Issue) -> Answer:
    return _list(call, repo, repo.blockers(issue), lambda one: _issue(call, repo, one))


@routes("GET", ISSUE + "/comments")
def list_comments(call: Call, repo: Repository, issue: Issue) -> Answer:
    """By id; `since` refers to when they were changed."""
    since = call.since()
    found = [
        one
        for one in sorted(issue.seen_comments(call.view), key=lambda one: one.id)
        if since is None or one.updated_at >= since
    ]
    return _list(call, repo, found, lambda one: _shown(call, repo, issue, one))


@routes("POST", ISSUE + "/comments")
def add_comment(call: Call, repo: Repository, issue: Issue) -> Answer:
    must_comment(call.token, repo)
    body = _comment_body(call)
    comment = changes.add_comment(call.hub, issue, call.account, body, call.stamp)
    return Answer(201, _shown(call, repo, issue, comment))


@routes("GET", REPO + "/issues/comments/{comment}")
def get_comment(call: Call, repo: Repository, comment: str) -> Answer:
    issue, found = _comment(call, repo, comment)
    return Answer(content=_shown(call, repo, issue, found))


@routes("PATCH", REPO + "/issues/comments/{comment}")
def edit_comment(call: Call, repo: Repository, comment: str) -> Answer:
    issue, found = _comment(call, repo, comment)
    if call.account != found.author:
        must_write(call.token, repo)
    changes.edit_comment(found, _comment_body(call), call.stamp)
    return Answer(content=_shown(call, repo, issue, found))


@routes("DELETE", REPO + "/issues/comments/{comment}")
def delete_comment(call: Call, repo: Repository, comment: str) -> Answer:
    issue, found = _comment(call, repo, comment)
    if call.account != found.author:
        must_write(call.token, repo)
    issue.comments.remove(found)
    return Answer(204)


@routes("GET", ISSUE + "/labels")
def list_labels(call: Call, repo: Repository, issue: Issue) -> Answer:
    base, labels = call.request.base, issue.labels(call.view)
    return _list(call, repo, labels, lambda one: shapes.label(base, repo, one))


@routes("POST", ISSUE + "/labels")
def add_labels(call: Call, repo: Repository, issue: Issue) -> Answer:
    """A label that the repository lacks is created."""
    must_write(call.token, repo)
    content = call.request.json()
    names = content.get("labels") if isinstance(content, dict) else content
    labels = _named_labels(call, repo, names)
    changes.add_labels(call.hub, issue, labels, call.account, call.stamp)
    return Answer(content=_labels(call, repo, issue.labels()))


@routes("DELETE", ISSUE + "/labels/{label}")
def remove_label(call: Call, repo: Repository, issue: Issue, label: str) -> Answer:
    must_write(call.token, repo)
    found = repo.label_named(label)
    if found is None or found not in issue.labels():
        raise Rejection(404, "Label does not exist")
    changes.remove_label(call.hub, issue, found, call.account, call.stamp)
    return Answer(content=_labels(call, repo, issue.labels()))


@routes("POST", REPO + "/labels")
def create_label(call: Call, repo: Repository) -> Answer:
    must_write(call.token, repo)
    fields = call.fields()
    name = call.text(fields, "name")
    if not name or len(name) > LONGEST_LABEL:
        raise invalid("Label", "name", "invalid" if name else "missing_field")
    if repo.label_named(name):
        raise invalid("Label", "name", "already_exists")
    color = call.text(fields, "color") or changes.DEFAULT_COLOR
    description = call.text(fields, "description") or ""
    label = changes.create_label(call.hub, repo, name, color, description)
    return Answer(201, shapes.label(call.request.base, repo, label))


@routes("GET", REPO + "/labels/{label}")
def get_label(call: Call, repo: Repository, label: str) -> Answer:
    found = repo.label_named(label)
    if found is None:
        raise Rejection(404, "Not Found")
    return Answer(content=shapes.label(call.request.base, repo, found))


@routes("GET", ISSUE + "/events")
def list_events(call: Call, repo: Repository, issue: Issue) -> Answer:
    return _list(call, repo, _events(call, repo, issue), lambda one: one)


@routes("GET", ISSUE + "/timeline")
def list_timeline(call: Call, repo: Repository, issue: Issue) -> Answer:
    """Events and comments in one list, oldest first."""
    entries = _events(call, repo, issue)
    for one in issue.seen_comments(call.view):
        shape = _shown(call, repo, issue, one)
        entries.append({**shape, "event": "commented", "actor": shape["user"]})
    entries.sort(key=lambda one: (one["created_at"], one["id"]))
    return _list(call, repo, entries, lambda one: one)


@routes("POST", "/graphql")
def graphql(call: Call) -> Answer:
    """Whatever the query: who last edited the body of the issue in its variables, and when."""
    if call.token is None:
        raise Rejection(401, "This endpoint requires you to be authenticated.")
    given: Any = call.fields().get("variables") or {}
    try:
        repo = call.repository(f"{given['owner']}/{given.get('name') or given['repo']}")
        issue = call.issue(repo, str(given["number"]))
    except (KeyError, Rejection):
        error = {"type": "NOT_FOUND", "message": "Could not resolve to an Issue"}
        return Answer(content={"data": {"repository": None}, "errors": [error]})
    editor = issue.editor and {"login": issue.editor.login, "databaseId": issue.editor.id}
    edited_at = issue.edited_at and text_of(issue.edited_at)
    shown = {"number": issue.number, "lastEditedAt": edited_at, "editor": editor}
    return Answer(content={"data": {"repository": {"issue": shown}}})


def invalid(resource: str, field: str, code: str) -> Rejection:
    error = {"resource": resource, "field": field, "code": code}
    return Rejection(422, "Validation Failed", [error])


def _list(call: Call, repo: Repository, items: Sequence[T], show: Callable[[T], Json]) -> Answer:
    page = call.page(items, "per_page", 100)
    headers = page.links(call.request, _address(call, repo))
    return Answer(content=[show(one) for one in page.items], headers=headers)


def _address(call: Call, repo: Repository) -> str:
    """Links name the repository by its number, as GitHub's do."""
    rest = "/".join(call.request.segments[3:])
    return f"{call.request.base}/repositories/{repo.id}/{rest}"


def _issue(call: Call, repo: Repository, issue: Issue) -> Json:
    return shapes.issue(call.request.base, repo, issue, call.view)


def _shown(call: Call, repo: Repository, issue: Issue, comment: Comment) -> Json:
    return shapes.comment(call.request.base, repo, issue, comment)


def _labels(call: Call, repo: Repository, labels: list[Label]) -> list[Json]:
    return [shapes.label(call.request.base, repo, one) for one in labels]


def _events(call: Call, repo: Repository, issue: Issue) -> list[Json]:
    return [
        shapes.event(call.request.base, repo, one)
        for one in issue.events
        if call.view.sees("labels" if one.label else "issues", one.id, one.stamp)
    ]


def _comment(call: Call, repo: Repository, text: str) -> tuple[Issue, Comment]:
    found = repo.comment(int(text)) if text.isascii() and text.isdigit() else None
    if found is None or not call.view.sees("comments", found[1].id, found[1].stamp):
        raise Rejection(404, "Not Found")
    return found


def _comment_body(call: Call) -> str:
    body = call.text(call.fields(), "body")
    if not body or not body.strip():
        raise invalid("IssueComment", "body", "missing_field")
    if len(body) > LONGEST_BODY:
        raise invalid("IssueComment", "body", "too_long")
    return body


def _named_labels(call: Call, repo: Repository, wanted: Any) -> list[Label]:
    given = wanted if isinstance(wanted, list) else [None]
    texts = [one.get("name") if isinstance(one, dict) else one for one in given]
    names = [one for one in texts if isinstance(one, str) and 0 < len(one) <= LONGEST_LABEL]
    if len(names) < len(texts):
        raise invalid("Label", "name", "invalid")
    return [changes.find_or_create_label(call.hub, repo, one) for one in names]
