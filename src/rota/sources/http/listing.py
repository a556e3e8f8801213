"""Filters the issues that a tracker lists."""

from collections.abc import Sequence

from rota.claims.port import Issue


def ready(issues: Sequence[Issue], labels: Sequence[str]) -> list[Issue]:
    """Open issues that carry all the labels, each once, oldest first. Pages overlap when issues are
    added or removed during the read, and Gitea does not filter by labels that it does not know."""
    wanted = {label.lower() for label in labels}
    once = {issue.number: issue for issue in issues}
    fitting = (
        issue
        for issue in once.values()
        if issue.is_open
        and not issue.is_pull_request
        and wanted <= {label.lower() for label in issue.labels}
    )
    return sorted(fitting, key=lambda issue: (issue.created_at, issue.number))


def label_query(labels: Sequence[str]) -> dict[str, str]:
    """A label with a comma in its name cannot be queried; it is filtered from the answer."""
    askable = [label for label in labels if "," not in label]
    return {"labels": ",".join(askable)} if askable else {}
