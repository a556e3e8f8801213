"""Everything that can be done to an issue, by a client or by a test."""

from collections.abc import Iterable

from rota.testing.tracker.hub import Account, Comment, Event, Gone, Hub, Issue, Label, Repository
from rota.testing.tracker.views import Stamp

DEFAULT_COLOR = "ededed"


def create_label(
    hub: Hub, repo: Repository, name: str, color: str = DEFAULT_COLOR, description: str = ""
) -> Label:
    label = Label(hub.new_id(), name, color.removeprefix("#"), description)
    repo.labels[label.id] = label
    return label


def find_or_create_label(hub: Hub, repo: Repository, name: str) -> Label:
    return repo.label_named(name) or create_label(hub, repo, name)


def create_issue(
    hub: Hub,
    repo: Repository,
    author: Account,
    stamp: Stamp,
    *,
    title: str,
    body: str = "",
    labels: Iterable[str] = (),
    is_pull: bool = False,
) -> Issue:
    issue = Issue(
        hub.new_id(), repo.next_number(), title, body, author, stamp, stamp.at, is_pull=is_pull
    )
    repo.issues[issue.number] = issue
    add_labels(hub, issue, (find_or_create_label(hub, repo, one) for one in labels), author, stamp)
    return issue


def add_comment(hub: Hub, issue: Issue, author: Account, body: str, stamp: Stamp) -> Comment:
    comment = Comment(hub.new_id(), author, body, stamp, stamp.at)
    issue.comments.append(comment)
    issue.updated_at = stamp.at
    return comment


def edit_comment(comment: Comment, body: str, stamp: Stamp) -> None:
    comment.body = body
    comment.updated_at = stamp.at


def add_labels(
    hub: Hub, issue: Issue, labels: Iterable[Label], actor: Account, stamp: Stamp
) -> None:
    """A label that is already there leaves no event."""
    for label in labels:
        if label not in issue.labels():
            _record(hub, issue, "labeled", actor, stamp, label=label)


def remove_label(hub: Hub, issue: Issue, label: Label, actor: Account, stamp: Stamp) -> None:
    if label in issue.labels():
        _record(hub, issue, "unlabeled", actor, stamp, label=label)


def replace_labels(
    hub: Hub, issue: Issue, labels: list[Label], actor: Account, stamp: Stamp
) -> None:
    for label in issue.labels():
        if label not in labels:
            remove_label(hub, issue, label, actor, stamp)
    add_labels(hub, issue, labels, actor, stamp)


def edit_text(
    hub: Hub,
    issue: Issue,
    actor: Account,
    stamp: Stamp,
    *,
    title: str | None,
    body: str | None,
) -> None:
    if title is not None and title != issue.title:
        _record(hub, issue, "renamed", actor, stamp, rename=(issue.title, title))
        issue.title = title
    if body is not None and body != issue.body:
        issue.body = body
        issue.edited_at = issue.updated_at = stamp.at
        issue.editor = actor


def set_state(
    hub: Hub,
    issue: Issue,
    actor: Account,
    stamp: Stamp,
    *,
    state: str,
    reason: str | None = None,
) -> None:
    if state == "closed" and issue.standing().state == "open":
        _record(hub, issue, "closed", actor, stamp, reason=reason or "completed")
    elif state == "open" and issue.standing().state == "closed":
        _record(hub, issue, "reopened", actor, stamp)


def merge(hub: Hub, issue: Issue, actor: Account, stamp: Stamp) -> None:
    issue.merged_at = stamp.at
    set_state(hub, issue, actor, stamp, state="closed")


def delete_issue(repo: Repository, issue: Issue, status: int) -> None:
    """Leave 410 behind, as a deletion does, or 404, as a change of visibility does."""
    del repo.issues[issue.number]
    repo.gone[issue.number] = Gone(status)


def transfer_issue(repo: Repository, issue: Issue, target: Repository) -> None:
    del repo.issues[issue.number]
    number = target.next_number()
    repo.gone[issue.number] = Gone(301, (target.id, number))
    issue.number = number
    target.issues[number] = issue


def _record(
    hub: Hub,
    issue: Issue,
    kind: str,
    actor: Account,
    stamp: Stamp,
    *,
    label: Label | None = None,
    reason: str | None = None,
    rename: tuple[str, str] | None = None,
) -> None:
    issue.events.append(Event(hub.new_id(), kind, actor, stamp, label, reason, rename))
    issue.updated_at = stamp.at
