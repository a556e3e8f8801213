"""Converts an issue to an item, for callers that fetch it and for the ledger."""

from rota.claims.port import Issue
from rota.model.work import MAX_LABELS, NewItem
from rota.sources.github.mapping import infer_priority
from rota.sources.port import WorkItem

LONGEST_TITLE = 500
LONGEST_BODY = 100_000


def work_item(kind: str, repo: str, issue: Issue) -> WorkItem:
    return WorkItem(
        id=f"{kind}-{issue.number}",
        source=kind,
        external_id=str(issue.number),
        title=issue.title,
        description=issue.body,
        priority=infer_priority(issue.labels),
        labels=issue.labels,
        url=issue.url,
        created_at=issue.created_at,
        updated_at=issue.updated_at,
        metadata={
            "repo": repo,
            "author": issue.author.login,
            "assignee": issue.assignee,
            "milestone": issue.milestone,
        },
    )


def new_item(source: str, issue: Issue) -> NewItem:
    """Keeps only the beginning of the body: people read it on the tracker, agents get it from the
    source itself."""
    return NewItem(
        type="issue",
        description=_one_line(issue.title) or f"#{issue.number}",
        body=issue.body.replace("\0", "")[:LONGEST_BODY] or None,
        payload={"url": issue.url, "number": issue.number, "author": issue.author.login},
        priority=infer_priority(issue.labels),
        created_by=source,
        labels=tuple(label[:100] for label in issue.labels[:MAX_LABELS]),
        source=source,
        source_ref=str(issue.number),
    )


def _one_line(title: str) -> str:
    return " ".join(title.split())[:LONGEST_TITLE]
