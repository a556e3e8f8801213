"""Gitea's API below `/api/v1`, on the same state: no ETags, no limits, labels by number."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rota.testing.tracker import changes
from rota.testing.tracker import gitea_shapes as shapes
from rota.testing.tracker.access import belongs, covers
from rota.testing.tracker.call import Call, Moved, Page
from rota.testing.tracker.faults import Plan
from rota.testing.tracker.http import Answer, Json, Rejection, Request, Routes
from rota.testing.tracker.hub import Hub, Issue, Label, Repository
from rota.testing.tracker.views import EVERYTHING, Stamp

T = TypeVar("T")

routes = Routes()

VERSION = "1.24.6"
MOST_PER_PAGE = 50
REPO = "/api/v1/repos/{owner}/{name}"
ISSUE = REPO + "/issues/{number}"


@dataclass(frozen=True, slots=True)
class Gitea:
    hub: Hub

    name = "gitea"

    def answer(self, request: Request, plan: Plan, stamp: Stamp) -> Answer:
        try:
            return self._handle(Call(self.hub, request, plan, stamp))
        except Rejection as refused:
            return self.refuse(refused, request)

    def _handle(self, call: Call) -> Answer:
        if call.request.token_is_bad:
            raise Rejection(401, "invalid username, password or token")
        found = routes.find(call.request.method, call.request.segments)
        if found is None:
            raise Rejection(404, "not found")
        handler, values = found
        answer = handler(call, **call.resolve(values))
        assert isinstance(answer, Answer)
        return answer

    def signed(self, answer: Answer, _request: Request) -> Answer:
        return answer

    def refuse(self, refused: Rejection, request: Request) -> Answer:
        """An issue that was deleted or moved is simply not found."""
        status = 404 if isinstance(refused, Moved) else refused.status
        message = "not found" if status == 404 else refused.message
        content = {"message": message, "url": f"{request.base}/api/swagger"}
        return Answer(status, content, dict(refused.headers))


@routes("GET", "/api/v1/version")
def version(_call: Call) -> Answer:
    return Answer(content={"version": VERSION})


@routes("GET", "/api/v1/user")
def user(call: Call) -> Answer:
    _must_be_known(call)
    return Answer(content=shapes.account(call.request.base, call.account))


@routes("GET", "/api/v1/users/{login}")
def user_by_login(call: Call, login: str) -> Answer:
    account = call.hub.accounts.get(login.casefold())
    if account is None:
        raise Rejection(404, "not found")
    return Answer(content=shapes.account(call.request.base, account))


@routes("GET", REPO)
def repository(call: Call, repo: Repository) -> Answer:
    return Answer(content=shapes.repository(call.request.base, repo))


@routes("GET", REPO + "/issues")
def list_issues(call: Call, repo: Repository) -> Answer:
    """Newest first. Unknown labels are dropped from the filter, perhaps until none is left."""
    query, view, since = call.request.query, call.view, call.since()
    state, kind = query.get("state") or "open", query.get("type")
    wanted = set(_labels_named(repo, query.get("labels", "").split(",")))
    found = [
        one
        for one in repo.issues.values()
        if view.sees("issues", one.id, one.stamp)
        and state in ("all", one.standing(view).state)
        and kind in (None, "", "pulls" if one.is_pull else "issues")
        and wanted <= set(one.labels(view))
        and (since is None or one.updated_at >= since)
    ]
    found.sort(key=lambda one: one.number, reverse=True)
    page = call.page(found, "limit", MOST_PER_PAGE)
    shown = _shown(page, lambda one: shapes.issue(call.request.base, repo, one, view))
    shown.headers |= page.links(call.request, f"{call.request.base}{call.request.path}")
    return shown


@routes("GET", ISSUE)
def get_issue(call: Call, repo: Repository, issue: Issue) -> Answer:
    return Answer(content=shapes.issue(call.request.base, repo, issue, call.view))


@routes("GET", REPO + "/pulls/{number}")
def get_pull(call: Call, repo: Repository, issue: Issue) -> Answer:
    if not issue.is_pull:
        raise Rejection(404, "not found")
    return Answer(content=shapes.pull(call.request.base, repo, issue, call.view))


@routes("PATCH", ISSUE)
def edit_issue(call: Call, repo: Repository, issue: Issue) -> Answer:
    """Answers 201, as Gitea does. Labels are not edited this way."""
    _must_be_known(call)
    if call.account != issue.author:
        _must_write(call, repo)
    fields = call.fields()
    state = call.text(fields, "state")
    if state == "closed" and any(one.standing().closed is None for one in repo.blockers(issue)):
        raise Rejection(412, "cannot close this issue because it still has open dependencies")
    title, body = call.text(fields, "title") or None, call.text(fields, "body")
    changes.edit_text(call.hub, issue, call.account, call.stamp, title=title, body=body)
    if state is not None:
        wanted = "closed" if state == "closed" else "open"
        changes.set_state(call.hub, issue, call.account, call.stamp, state=wanted)
    return Answer(201, shapes.issue(call.request.base, repo, issue, EVERYTHING))


@routes("GET", ISSUE + "/comments")
def list_comments(call: Call, repo: Repository, issue: Issue) -> Answer:
    """All comments, since there are no pages here. By time, then by id."""
    since = call.since()
    found = [
        shapes.comment(call.request.base, repo, issue, one)
        for one in issue.seen_comments(call.view)
        if since is None or one.updated_at >= since
    ]
    found.sort(key=lambda one: (one["created_at"], one["id"]))
    return Answer(content=found, headers={"x-total-count": str(len(found))})


@routes("POST", ISSUE + "/comments")
def add_comment(call: Call, repo: Repository, issue: Issue) -> Answer:
    _must_be_known(call)
    body = call.text(call.fields(), "body")
    if not body:
        raise Rejection(422, "[Body]: Required")
    comment = changes.add_comment(call.hub, issue, call.account, body, call.stamp)
    return Answer(201, shapes.comment(call.request.base, repo, issue, comment))


@routes("GET", ISSUE + "/labels")
def list_issue_labels(call: Call, repo: Repository, issue: Issue) -> Answer:
    return Answer(content=_labels(call, repo, issue.labels(call.view)))


@routes("POST", ISSUE + "/labels")
def add_labels(call: Call, repo: Repository, issue: Issue) -> Answer:
    """By number or by name; unknown names are silently ignored."""
    _must_write(call, repo)
    given: Any = call.fields().get("labels") or []
    if all(isinstance(one, str) for one in given):
        labels = _labels_named(repo, given)
    elif all(isinstance(one, int) for one in given):
        labels = [repo.labels[one] for one in given if one in repo.labels]
    else:
        raise Rejection(400, "labels should be an array of strings or integers")
    changes.add_labels(call.hub, issue, labels, call.account, call.stamp)
    return Answer(content=_labels(call, repo, issue.labels()))


@routes("DELETE", ISSUE + "/labels/{label}")
def remove_label(call: Call, repo: Repository, issue: Issue, label: str) -> Answer:
    """By number only; succeeds even if the issue does not have the label."""
    _must_write(call, repo)
    found = repo.labels.get(int(label)) if label.isascii() and label.isdigit() else None
    if found is None:
        raise Rejection(422, "label does not exist [label_id: 0]")
    changes.remove_label(call.hub, issue, found, call.account, call.stamp)
    return Answer(204)


@routes("GET", REPO + "/labels")
def list_labels(call: Call, repo: Repository) -> Answer:
    found = sorted(repo.labels.values(), key=lambda one: one.name)
    page = call.page(found, "limit", MOST_PER_PAGE)
    return _shown(page, lambda one: shapes.label(call.request.base, repo, one))


@routes("POST", REPO + "/labels")
def create_label(call: Call, repo: Repository) -> Answer:
    """Two labels may have the same name: Gitea tells them apart by number."""
    _must_write(call, repo)
    fields = call.fields()
    name, color = call.text(fields, "name"), call.text(fields, "color") or ""
    if not name or not re.fullmatch("#?[0-9a-fA-F]{6}", color):
        raise Rejection(422, "[Name]: Required" if not name else f"invalid color: {color}")
    description = call.text(fields, "description") or ""
    label = changes.create_label(call.hub, repo, name, color, description)
    return Answer(201, shapes.label(call.request.base, repo, label))


@routes("GET", ISSUE + "/timeline")
def list_timeline(call: Call, repo: Repository, issue: Issue) -> Answer:
    """Comments and events. Paged only on request; null when empty; the total is the page's own."""
    base, view = call.request.base, call.view
    found = [
        {**shapes.comment(base, repo, issue, one), "type": "comment", "label": None}
        for one in issue.seen_comments(view)
    ]
    found += [
        shapes.event(base, repo, issue, one)
        for one in issue.events
        if view.sees("labels" if one.label else "issues", one.id, one.stamp)
    ]
    found.sort(key=lambda one: (one["created_at"], one["id"]))
    if call.number("page", 0):
        found = list(call.page(found, "limit", MOST_PER_PAGE).items)
    return Answer(content=found or None, headers={"x-total-count": str(len(found))})


@routes("GET", ISSUE + "/dependencies")
def list_dependencies(call: Call, repo: Repository, issue: Issue) -> Answer:
    page = call.page(repo.blockers(issue), "limit", MOST_PER_PAGE)
    base = call.request.base
    return Answer(content=[shapes.issue(base, repo, one, call.view) for one in page.items])


def _must_be_known(call: Call) -> None:
    if call.token is None:
        raise Rejection(401, "token is required")


def _must_write(call: Call, repo: Repository) -> None:
    _must_be_known(call)
    assert call.token is not None
    if not (covers(call.token, repo) and belongs(call.token, repo)):
        raise Rejection(403, "write permission is required")


def _labels_named(repo: Repository, names: Sequence[str]) -> list[Label]:
    """Names are case-sensitive here."""
    return [one for one in repo.labels.values() if one.name in names]


def _labels(call: Call, repo: Repository, labels: list[Label]) -> list[Json]:
    return [shapes.label(call.request.base, repo, one) for one in labels]


def _shown(page: Page[T], show: Callable[[T], Json]) -> Answer:
    content = [show(one) for one in page.items]
    return Answer(content=content, headers={"x-total-count": str(page.total)})
