"""The part of the stub that tests talk to: `/_control/…`, JSON, without authentication."""

from dataclasses import dataclass
from datetime import timedelta
from inspect import isawaitable
from typing import Any, get_type_hints

import msgspec

from rota.testing.tracker import changes, orders
from rota.testing.tracker.clock import moment_of, text_of
from rota.testing.tracker.faults import Fault
from rota.testing.tracker.http import Answer, Rejection, Request, Routes
from rota.testing.tracker.hub import Account, Issue, Repository, Token
from rota.testing.tracker.views import Stamp
from rota.testing.tracker.webhooks import deliver
from rota.testing.tracker.world import World, issue_picture

on = Routes()

REPO = "/_control/repos/{owner}/{name}"
ISSUE = REPO + "/issues/{number}"


@dataclass(frozen=True, slots=True)
class Desk:
    """One control request, with what its handler needs."""

    world: World
    request: Request

    def repository(self, full_name: str) -> Repository:
        found = self.world.hub.repository(full_name)
        if found is None:
            raise Rejection(404, f"there is no repository {full_name!r}; create it first")
        return found

    def issue(self, repo: Repository, number: str) -> Issue:
        found = repo.issues.get(int(number) if number.isdigit() else 0)
        if found is None:
            raise Rejection(404, f"{repo.full_name} has no issue {number}; create it first")
        return found

    def actor(self, repo: Repository, login: str | None) -> Account:
        return self.world.hub.account(login) if login else repo.owner


async def answer(world: World, request: Request) -> Answer:
    found = on.find(request.method, request.segments)
    if found is None:
        return Answer(404, {"message": f"there is no {request.method} {request.path}"})
    handler, values = found
    desk = Desk(world, request)
    try:
        content = handler(desk, **_arguments(desk, handler, values))
        return Answer(content=await content if isawaitable(content) else content)
    except Rejection as refused:
        return Answer(refused.status, {"message": refused.message})


def _arguments(desk: Desk, handler: Any, values: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(values)
    if "owner" in values:
        found["repo"] = desk.repository(f"{found.pop('owner')}/{found.pop('name')}")
    if "number" in values:
        found["issue"] = desk.issue(found["repo"], found.pop("number"))
    if wanted := get_type_hints(handler).get("body"):
        try:
            found["body"] = msgspec.convert(desk.request.json(), wanted)
        except msgspec.ValidationError as error:
            raise Rejection(422, str(error)) from None
    return found


@on("POST", "/_control/users")
def add_user(desk: Desk, body: orders.NewUser) -> Any:
    account = desk.world.hub.add_account(body.login, body.id, body.kind)
    return {"id": account.id, "login": account.login, "kind": account.kind}


@on("POST", "/_control/tokens")
def add_token(desk: Desk, body: orders.NewToken) -> Any:
    hub = desk.world.hub
    repos = None if body.repos is None else frozenset(one.casefold() for one in body.repos)
    hub.tokens[body.token] = Token(
        body.token, hub.account(body.login), body.kind, body.scopes, repos, frozenset(body.lacks)
    )
    return {"token": body.token}


@on("DELETE", "/_control/tokens/{token}")
def revoke_token(desk: Desk, token: str) -> Any:
    return {"revoked": desk.world.hub.tokens.pop(token, None) is not None}


@on("POST", "/_control/repos")
def add_repo(desk: Desk, body: orders.NewRepo) -> Any:
    world = desk.world
    repo = world.hub.add_repository(
        body.name,
        world.stamp(),
        private=body.private,
        default_branch=body.default_branch,
        collaborators=body.collaborators,
    )
    for label in body.labels:
        changes.find_or_create_label(world.hub, repo, label)
    return {"id": repo.id, "name": repo.full_name}


@on("POST", REPO + "/issues")
def add_issue(desk: Desk, repo: Repository, body: orders.NewIssue) -> Any:
    hub = desk.world.hub
    issue = changes.create_issue(
        hub,
        repo,
        desk.actor(repo, body.user),
        desk.world.stamp(),
        title=body.title,
        body=body.body,
        labels=body.labels,
        is_pull=body.pull_request,
    )
    issue.assignee = hub.account(body.assignee) if body.assignee else None
    issue.milestone = body.milestone
    issue.blocked_by = list(body.blocked_by)
    return issue_picture(issue)


@on("PATCH", ISSUE)
def edit_issue(desk: Desk, repo: Repository, issue: Issue, body: orders.IssueEdit) -> Any:
    hub, actor, stamp = desk.world.hub, desk.actor(repo, body.by), desk.world.stamp()
    changes.edit_text(hub, issue, actor, stamp, title=body.title, body=body.body)
    if body.merged:
        changes.merge(hub, issue, actor, stamp)
    elif body.state:
        changes.set_state(hub, issue, actor, stamp, state=body.state, reason=body.state_reason)
    if body.blocked_by is not None:
        issue.blocked_by = list(body.blocked_by)
    return issue_picture(issue)


@on("POST", ISSUE + "/labels")
def edit_labels(desk: Desk, repo: Repository, issue: Issue, body: orders.LabelEdit) -> Any:
    hub, actor, stamp = desk.world.hub, desk.actor(repo, body.by), desk.world.stamp()
    labels = [changes.find_or_create_label(hub, repo, one) for one in body.add]
    changes.add_labels(hub, issue, labels, actor, stamp)
    for name in body.remove:
        if label := repo.label_named(name):
            changes.remove_label(hub, issue, label, actor, stamp)
    return issue_picture(issue)


@on("POST", ISSUE + "/comments")
def forge_comment(desk: Desk, repo: Repository, issue: Issue, body: orders.NewComment) -> Any:
    stamp = desk.world.stamp()
    if body.created_at:
        stamp = Stamp(_moment(body.created_at), stamp.born)
    author = desk.actor(repo, body.user)
    comment = changes.add_comment(desk.world.hub, issue, author, body.body, stamp)
    return {"id": comment.id, "created_at": text_of(comment.stamp.at)}


@on("PATCH", REPO + "/comments/{comment}")
def edit_comment(desk: Desk, repo: Repository, comment: str, body: orders.CommentEdit) -> Any:
    found = repo.comment(int(comment) if comment.isdigit() else 0)
    if found is None:
        raise Rejection(404, f"{repo.full_name} has no comment {comment}")
    # At least one second later: an edit within the same second would not show.
    stamp = desk.world.stamp()
    later = max(stamp.at, found[1].stamp.at + timedelta(seconds=1))
    changes.edit_comment(found[1], body.body, Stamp(later, stamp.born))
    return {"id": found[1].id, "updated_at": text_of(later)}


@on("POST", ISSUE + "/delete")
def delete_issue(desk: Desk, repo: Repository, issue: Issue, body: orders.Deletion) -> Any:
    changes.delete_issue(repo, issue, body.status)
    return {"number": issue.number}


@on("POST", ISSUE + "/transfer")
def transfer_issue(desk: Desk, repo: Repository, issue: Issue, body: orders.Transfer) -> Any:
    changes.transfer_issue(repo, issue, desk.repository(body.to))
    return {"number": issue.number}


@on("POST", "/_control/limits")
def set_limit(desk: Desk, body: orders.Limit) -> Any:
    set_to = {"limit": body.limit, "remaining": body.remaining, "reset_in": body.reset_in}
    return desk.world.limits.set(body.login, body.resource, **set_to).facts()


@on("POST", "/_control/clock")
def set_clock(desk: Desk, body: orders.ClockChange) -> Any:
    clock = desk.world.clock
    if body.freeze is not None:
        clock.freeze(body.freeze)
    if body.granularity is not None:
        clock.coarsen(body.granularity)
    if body.at is not None:
        clock.set_to(_moment(body.at))
    if body.advance is not None:
        clock.advance(body.advance)
    return {"now": text_of(clock.now())}


@on("GET", "/_control/state")
def state(desk: Desk) -> Any:
    return desk.world.picture()


@on("GET", "/_control/requests")
def requests(desk: Desk) -> Any:
    return {"counts": desk.world.journal.counts(), "requests": desk.world.journal.facts()}


@on("DELETE", "/_control/requests")
def forget_requests(desk: Desk) -> Any:
    desk.world.journal.forget()
    return {}


@on("GET", "/_control/faults")
def faults(desk: Desk) -> Any:
    return desk.world.faults.active


@on("POST", "/_control/faults")
def add_fault(desk: Desk, body: Fault) -> Any:
    return desk.world.faults.add(body)


@on("DELETE", "/_control/faults")
def clear_faults(desk: Desk) -> Any:
    desk.world.faults.active.clear()
    return {}


@on("DELETE", "/_control/faults/{fault}")
def remove_fault(desk: Desk, fault: str) -> Any:
    active = desk.world.faults.active
    active[:] = [one for one in active if str(one.id) != fault]
    return {}


@on("POST", "/_control/webhooks")
async def send_webhook(desk: Desk, body: orders.Delivery) -> Any:
    return {"statuses": await deliver(desk.world.hub, desk.request.base, body)}


def _moment(text: str) -> Any:
    try:
        return moment_of(text)
    except ValueError:
        raise Rejection(422, f"{text!r} is not a time in ISO 8601") from None
